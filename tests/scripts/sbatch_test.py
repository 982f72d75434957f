#!/usr/bin/env python3
"""slurm/train.sbatch: begins, resumes and requeues; the test of it under a real Slurm needs a cluster."""
import unittest

from fakes import ROOT, ScriptTest

SCRIPT = "slurm/train.sbatch"


class Sbatch(ScriptTest):
    def train(self, code=0, step=None, **environment):
        """One start, which leaves a checkpoint of this step (None: no new one)."""
        made = f"mkdir -p runs/x/checkpoints; touch runs/x/checkpoints/step-{step:09}.h5; " if step else ""
        self.fake("srun", f"{made}exit {code}")
        self.fake("scontrol")
        return self.run_script(SCRIPT, "c.toml", "runs/x", "--set", "train.epochs=3", SLURM_JOB_ID="7",
                               UNISONO="unisono", **environment)

    def options(self):
        (call,) = self.calls("srun")
        return call.split("unisono train c.toml --output runs/x")[1].split()

    def write(self, path):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def test_finds_the_binary_here_or_on_the_path(self):
        self.fake("srun")
        run = lambda: self.run_script(SCRIPT, "c.toml", "runs/x", SLURM_JOB_ID="7", UNISONO="")
        missing = run()
        self.assertEqual(missing.returncode, 2)
        self.assertIn("no unisono on the PATH", missing.stderr)
        on_path = self.fake("unisono")
        self.assertEqual(run().returncode, 0)
        self.write("build/release/bin/unisono")
        (self.folder / "build/release/bin/unisono").chmod(0o755)
        self.assertEqual(run().returncode, 0)
        first, second = self.calls("srun")
        self.assertIn(f" {on_path} train", first)
        self.assertIn(" build/release/bin/unisono train", second)

    def test_begins_a_run_with_pmix(self):
        self.assertEqual(self.train().returncode, 0)
        self.assertIn("--mpi=pmix", self.calls("srun")[0])
        self.assertEqual(self.options(), ["--set", "train.epochs=3"])
        self.assertEqual(self.calls("scontrol"), [])

    def test_an_interrupted_run_goes_back_into_the_queue(self):
        self.assertEqual(self.train(75).returncode, 75)
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 7"])

    def test_a_failed_run_does_not(self):
        self.assertEqual(self.train(3).returncode, 3)
        self.assertEqual(self.calls("scontrol"), [])

    def test_a_run_with_checkpoints_is_resumed(self):
        self.write("runs/x/checkpoints/step-000000010.h5")
        self.train()
        self.assertEqual(self.options(), ["--resume", "--set", "train.epochs=3"])

    def test_a_run_whose_checkpoints_are_on_a_local_disk_is_resumed(self):
        self.write("runs/x/checkpoints/local.txt")
        self.train(SLURM_RESTART_COUNT="1")
        self.assertEqual(self.options(), ["--resume", "--set", "train.epochs=3"])

    def test_a_requeued_job_without_a_checkpoint_begins_anew(self):
        self.write("runs/x/config.toml")
        self.train(SLURM_RESTART_COUNT="1")
        self.assertEqual(self.options(), ["--overwrite", "--set", "train.epochs=3"])

    def requeues(self):
        return len(self.calls("scontrol"))

    def test_a_start_that_twice_outlasts_the_limit_is_not_repeated_for_ever(self):
        first = self.train(75)
        self.assertEqual((first.returncode, self.requeues()), (75, 1))
        second = self.train(75, SLURM_RESTART_COUNT="1")
        self.assertEqual((second.returncode, self.requeues()), (75, 1))
        self.assertNotIn("back into the queue", second.stdout)
        self.assertIn("without more than one new step", second.stderr)
        self.assertIn("longer --time", second.stderr)

    def test_a_step_for_each_time_limit_is_no_progress(self):
        self.train(75, step=1)
        self.train(75, step=2)
        self.assertEqual(self.requeues(), 1)

    def test_a_job_that_was_given_up_may_be_submitted_again(self):
        for _ in range(3):
            self.train(75)
        self.assertEqual(self.requeues(), 2)

    def test_progress_takes_back_a_start_that_made_none(self):
        self.train(75, step=100)
        self.train(75)
        self.train(75, step=200)
        self.train(75)
        self.assertEqual(self.requeues(), 4)

    def test_steps_are_compared_as_numbers(self):
        self.train(75, step=8)
        self.train(75, step=100)
        self.train(75, step=1_000_000_000)  # one digit more than the others
        self.assertEqual(self.requeues(), 3)

    def test_steps_of_the_job_have_its_cores_for_each_rank(self):
        self.fake("srun", "echo cores=$SRUN_CPUS_PER_TASK")
        result = self.run_script(SCRIPT, "c.toml", "runs/x", SLURM_CPUS_PER_TASK="4", UNISONO="unisono")
        self.assertIn("cores=4", result.stdout)

    def test_shows_what_a_cluster_may_ask_for(self):
        text = (ROOT / SCRIPT).read_text()
        for option in ["account", "partition", "cpus-per-task", "mem-per-cpu", "gpus-per-node", "gres"]:
            self.assertIn(f"--{option}=", text)
        self.assertIn("# module load", text)
        # Commented out: none of them is in force.
        for line in text.splitlines():
            if line.startswith("#SBATCH "):
                self.assertNotRegex(line, "account|partition|cpus|mem|gpu|gres")

    def test_needs_a_config_and_a_run_folder(self):
        result = self.run_script(SCRIPT, "c.toml")
        self.assertEqual(result.returncode, 2)
        self.assertIn("usage: sbatch", result.stderr)


if __name__ == "__main__":
    unittest.main()
