#!/usr/bin/env python3
"""slurm/train.sbatch: begins, resumes and requeues; the test of it under a real Slurm needs a cluster."""
import unittest

from fakes import ScriptTest

SCRIPT = "slurm/train.sbatch"


class Sbatch(ScriptTest):
    def train(self, code=0, **environment):
        self.fake("srun", f"exit {code}")
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

    def test_a_requeued_job_without_a_checkpoint_begins_anew(self):
        self.write("runs/x/config.toml")
        self.train(SLURM_RESTART_COUNT="1")
        self.assertEqual(self.options(), ["--overwrite", "--set", "train.epochs=3"])

    def test_needs_a_config_and_a_run_folder(self):
        result = self.run_script(SCRIPT, "c.toml")
        self.assertEqual(result.returncode, 2)
        self.assertIn("usage: sbatch", result.stderr)


if __name__ == "__main__":
    unittest.main()
