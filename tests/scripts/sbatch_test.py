#!/usr/bin/env python3
"""slurm/train.sbatch: begins, resumes and requeues; the test of it under a real Slurm needs a cluster."""
import shutil
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
        self.assertNotIn("--overlap", self.calls("srun")[0])
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

    def test_a_run_whose_state_is_in_memory_is_resumed(self):
        self.write("runs/x/checkpoints/memory.txt")
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

    GUARD = '[[ " $* " == *" guard "* ]] && '

    def on_nodes(self, srun, guard="exit 0; ", **environment):
        """A job of five ranks on three nodes, whose states Slurm tells."""
        (self.folder / "states").write_text(self.states("IDLE", "IDLE", "IDLE"))
        self.fake("srun", self.GUARD + guard + srun)
        self.fake("squeue", r'printf "7.batch batch\\n7.4 bash\\n7.%d start-0\\n" 5')
        self.fake("scancel", "touch cancelled")
        self.fake("scontrol", '[[ $2 != hostnames ]] || printf "node%d\\n" 1 2 3; [[ $2 != nodes ]] || cat states; '
                              '[[ $1 != requeue ]] || touch requeued')
        environment = {"SLURM_TASKS_PER_NODE": "2(x2),1", "UNISONO_POLL_SECONDS": "0.1", **environment}
        return self.run_script(SCRIPT, "c.toml", "runs/x", SLURM_JOB_ID="7", SLURM_JOB_NODELIST="node[1-3]",
                               UNISONO="unisono", **environment)

    def states(self, *states):
        """What scontrol says of the nodes."""
        lines = [f"NodeName=node{i} CPUTot=2 State={state} Weight=1\n" for i, state in enumerate(states, 1)]
        return "".join(lines)

    def are(self, *states):
        """Shell commands after which Slurm says so."""
        return f"printf '{self.states(*states)}' > states; ".replace("\n", "\\n")

    def trainings(self):
        return [call for call in self.calls("srun") if " train " in call]

    CHECKPOINT = "mkdir -p runs/x/checkpoints; touch runs/x/checkpoints/step-000000007.h5; "
    RESUMES = '[[ " $* " == *" --resume "* ]] && exit 0; '

    def test_a_killed_rank_begins_again_from_the_newest_checkpoint(self):
        for code in (5, 137):
            result = self.on_nodes(self.RESUMES + self.CHECKPOINT + f"exit {code}")
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("train.sbatch: restart 1, from step 7, on node1 node2 node3\n", result.stdout)
            (self.folder / "runs/x/checkpoints/step-000000007.h5").unlink()
        asked = {"scontrol show hostnames node[1-3]", "scontrol show nodes node[1-3] --oneliner"}
        self.assertEqual(set(self.calls("scontrol")), asked)
        self.assertNotIn("--nodelist", self.trainings()[1])

    def test_copies_in_memory_are_progress(self):
        count = "$(grep --count ' train ' calls)"
        note = f"mkdir -p runs/x/checkpoints; printf 'id\nstep %d\n' {count} > runs/x/checkpoints/memory.txt; "
        result = self.on_nodes(f"[[ {count} -lt 6 ]] || exit 0; " + note.replace("\n", "\\n") + "exit 137")
        self.assertEqual(result.returncode, 0, result)
        said = "train.sbatch: restart 5, from step 0 or a later copy in memory, on node1 node2 node3\n"
        self.assertIn(said, result.stdout)

    def test_a_lost_node_is_left_out(self):
        lose = self.are("MIXED", "DOWN+NOT_RESPONDING", "MIXED")
        result = self.on_nodes(self.RESUMES + self.CHECKPOINT + lose + "exit 1")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("train.sbatch: Slurm has given up node2\n", result.stderr)
        self.assertIn(" --overlap --nodes=2 --ntasks=3 --nodelist=node1,node3 unisono train", self.trainings()[1])

    def test_a_step_that_waits_for_a_lost_node_is_ended(self):
        lose = self.are("MIXED", "MIXED+NOT_RESPONDING", "DOWN")
        wait = "while [[ ! -e cancelled ]]; do sleep 0.1; done; exit 137"
        result = self.on_nodes(self.RESUMES + self.CHECKPOINT + lose + wait)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(self.calls("scancel"), ["scancel --signal=KILL 7.5"])
        self.assertIn(" --overlap --nodes=2 --ntasks=4 --nodelist=node1,node2 unisono train", self.trainings()[1])

    def test_ranks_that_would_wait_for_one_that_is_gone_are_ended(self):
        wait = "for i in {1..100}; do [[ ! -e cancelled ]] || exit 137; sleep 0.1; done; exit 1"
        for says in ("node2: task 3: Killed", "node3: tasks 4-5,7: Segmentation fault (core dumped)",
                     "node1: task 0: Exited with exit code 5"):
            said = f'printf "of a rank" >&2; echo "srun: error: {says}" >&2; '
            result = self.on_nodes(self.RESUMES + self.CHECKPOINT + said + wait)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn(f"srun: error: {says}\n", result.stderr)
            self.assertIn("train.sbatch: restart 1, from step 7, on node1 node2 node3\n", result.stdout)
            shutil.rmtree(self.folder / "runs")
            (self.folder / "cancelled").unlink()
        self.assertEqual(self.calls("scancel"), ["scancel --signal=KILL 7.5"] * 3)

    def test_ranks_that_end_with_a_code_are_waited_for(self):
        said = "srun: error: node1: task 0: Exited with exit code 75\nunisono: error: task 1: Killed\nwithout an end"
        result = self.on_nodes(self.RESUMES + self.CHECKPOINT + f"printf '{said}' >&2; sleep 1.5; exit 5")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn(said, result.stderr)
        self.assertEqual(self.calls("scancel"), [])

    def test_a_node_that_comes_back_ends_nothing(self):
        back = self.are("MIXED", "MIXED", "FAILING+DRAIN") + "sleep 0.5; "
        lose = self.are("MIXED", "DOWN+NOT_RESPONDING", "MIXED")
        body = '[[ " $* " == *" --resume "* ]] && { ' + back + "exit 0; }; " + self.CHECKPOINT + lose + "exit 1"
        result = self.on_nodes(body)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(self.calls("scancel"), [])

    def test_the_second_node_puts_the_job_back_when_the_first_one_is_lost(self):
        lose = self.are("DOWN*+DRAIN", "MIXED", "MIXED")
        wait = "for i in {1..100}; do [[ ! -e requeued ]] || exit 0; sleep 0.1; done; exit 1"
        result = self.on_nodes(lose + wait, guard='exec "${@: -8}"; ')
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("scontrol requeue 7", self.calls("scontrol"))
        guard = [call for call in self.calls("srun") if "--mpi=none" in call]
        self.assertEqual(len(guard), 1)
        self.assertIn("srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist=node2 ", guard[0])

    def test_folders_may_have_any_name(self):
        self.write("run [1]*/checkpoints/step-000000010.h5")
        self.fake("srun")
        self.run_script(SCRIPT, "c.toml", "run [1]*", SLURM_JOB_ID="7", UNISONO="unisono", SLURM_RESTART_COUNT="1")
        self.assertIn("--output run [1]* --resume", self.trainings()[0])

    def test_how_the_folder_is_taken_is_not_the_users_affair(self):
        for word in ("--resume", "--overwrite"):
            self.fake("srun")
            result = self.run_script(SCRIPT, "c.toml", "runs/x", word, UNISONO="unisono")
            self.assertEqual((result.returncode, self.trainings()), (2, []))
            self.assertIn("to begin anew, name another folder, or remove this one", result.stderr)

    def test_the_number_of_restarts_must_be_one(self):
        result = self.on_nodes("exit 5", UNISONO_RESTARTS="many")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(len(self.trainings()), 0)

    def test_what_would_come_again_is_not_restarted(self):
        for code in (1, 2, 3, 4, 6):
            result = self.on_nodes(f"exit {code}")
            self.assertEqual((result.returncode, result.stderr), (code, ""))
        self.assertEqual(len(self.trainings()), 5)

    def test_three_starts_without_a_checkpoint_are_enough(self):
        result = self.on_nodes(self.CHECKPOINT + "exit 137")
        self.assertEqual(result.returncode, 137)
        self.assertEqual(len(self.trainings()), 4)  # the first one reaches step 7
        self.assertIn("three starts in a row have not reached a checkpoint after step 7", result.stderr)

    def test_the_number_of_restarts_is_kept(self):
        result = self.on_nodes("exit 5", UNISONO_RESTARTS="1")
        self.assertEqual((result.returncode, len(self.trainings())), (5, 2))
        self.assertIn("not started again after 1 restarts", result.stderr)

    def test_a_folder_that_was_there_is_not_replaced(self):
        self.write("runs/x/config.toml")
        self.on_nodes("exit 5", UNISONO_RESTARTS="1")
        self.assertTrue(all("--overwrite" not in call for call in self.trainings()), self.trainings())

    def test_without_a_checkpoint_its_own_folder_is(self):
        self.on_nodes("mkdir -p runs/x; exit 5", UNISONO_RESTARTS="1")
        first, second = self.trainings()
        self.assertNotIn("--overwrite", first)
        self.assertIn(" --overwrite", second)

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
