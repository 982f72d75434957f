"""checkpoint.memory_every_steps: a killed run goes on from the copy of its state in memory, with the same bits."""

import os
import pathlib
import re
import signal
import unittest

from harness import BinaryTest, kill_session, ranks_of, settings

COPIES = settings("checkpoint.memory_every_steps=7", "checkpoint.every_epochs=0")
SLOWLY = settings("fault.emulated_seconds=0.01", "train.epochs=1000000")
MEMORY = pathlib.Path(f"/dev/shm/unisono-{os.geteuid()}/copies")
WAYS = {
    "one rank": (0, ()),
    "allreduce": (2, ()),
    "own states": (2, settings("strategy.kind=averaging", "strategy.period=3", "strategy.optimizer_state=keep")),
    "sharded": (2, settings("strategy.shard=optimizer")),
    "pipeline": (2, settings("replica.stages=2", "train.micro_batches=4")),
}


class MemoryCopies(BinaryTest):
    def place(self, run):
        """The folder of a run's copies, as far as it has any."""
        note = self.folder / run / "checkpoints" / "memory.txt"
        return MEMORY / note.read_text().split()[0] if note.exists() else None

    def kill_after(self, run, step, ranks, *arguments, one=False):
        """Kills all ranks of an endless run, or one of them, soon after a step."""
        with self.started("train", "config.toml", "--output", run, *SLOWLY, *arguments, ranks=ranks) as process:
            self.wait_for_step(run, step, process)
            if one:
                os.kill(ranks_of(process)[-1], signal.SIGKILL)
                process.communicate(timeout=60)
            else:
                kill_session(process.pid)

    def test_a_killed_run_goes_on_from_the_copy_with_the_same_bits(self):
        for name, (ranks, way) in WAYS.items():
            with self.subTest(name=name):
                every = settings("train.report_every_steps=5")
                self.kill_after(name, 25, ranks, *COPIES, *every, *way, one=name == "allreduce")
                place = self.place(name)
                self.assertTrue(list(place.iterdir()))
                note = (self.folder / name / "checkpoints/memory.txt").read_text()
                self.assertEqual(note.split()[1:], ["step", "9" if name == "own states" else "7"])  # at an average
                longer = settings("train.epochs=8")
                result = self.train(name, "--resume", *COPIES, *every, *way, *longer, ranks=ranks)
                step = int(re.search(r"step (\d+) is in the nodes' memory alone", result.out).group(1))
                self.assertGreaterEqual(step, 21)
                self.assertEqual(step % 7, 0)
                self.assertIn(f"resumed at step {step}\n", result.out)
                self.assertNotIn("warning", result.err)
                whole = f"whole {name}"
                self.train(whole, *COPIES, *every, *way, *longer, ranks=ranks)
                self.assert_same_bits(whole, name)
                self.assertEqual(self.summary(whole)["train"], self.summary(name)["train"])
                self.assertEqual(self.summary(whole)["memory_copies"], {"made": 11})
                for run in (whole, name):
                    self.assertIsNone(self.place(run))
                self.assertFalse(place.exists())

    def test_on_fewer_ranks_and_without_the_key_it_goes_on_as_well(self):
        self.kill_after("run", 25, 3, *COPIES)
        result = self.train("run", "--resume", *settings("train.epochs=8", "checkpoint.every_epochs=0"), ranks=2)
        self.assertRegex(result.out, r"resumed at step \d+")
        self.assertIsNone(self.place("run"))

    def test_a_signal_leaves_a_checkpoint_and_no_copies(self):
        with self.started("train", "config.toml", "--output", "run", *SLOWLY, *COPIES, ranks=2) as process:
            self.wait_for_step("run", 15, process)
            place = self.place("run")
            os.kill(ranks_of(process)[0], signal.SIGUSR1)
            process.communicate(timeout=60)
        self.assertIsNone(self.place("run"))
        self.assertFalse(place.exists())

    def test_a_new_run_in_the_folder_removes_the_old_ones_copies(self):
        for run, more in (("without", ()), ("with", COPIES)):
            self.kill_after(run, 15, 2, *COPIES)
            place = self.place(run)
            self.assertTrue(place.exists())
            self.train(run, "--overwrite", *more)
            self.assertFalse(place.exists())

    def test_what_is_lost_from_memory_is_said(self):
        every = settings("checkpoint.memory_every_steps=7", "checkpoint.every_steps=10")
        self.kill_after("run", 25, 2, *every)
        for part in self.place("run").iterdir():
            part.unlink()
        result = self.train("run", "--resume", *every, *settings("train.epochs=8"), ranks=2)
        self.assertEqual(result.err.count("warning"), 1, result)
        self.assertIn("nothing is left of the copies in the nodes' memory", result.err)
        self.assertRegex(result.out, r"resumed at step \d+0\n")


if __name__ == "__main__":
    unittest.main()
