"""Averages with outer steps, in nodes, delayed and of adaptive periods: resumed bit for bit, counted in the summary."""

import unittest

import h5py

from harness import BinaryTest, settings

KEEP = ("strategy.kind=averaging", "strategy.optimizer_state=keep")
OUTER = (*KEEP, "strategy.period=4", "strategy.outer.kind=nesterov")


class Averaging(BinaryTest):
    def check_resumed(self, name, *pairs):
        """One epoch, then two more, against three in a row."""
        words = settings(*pairs)
        self.train(f"{name}-whole", *words, "--set", "train.epochs=3", ranks=2)
        self.train(f"{name}-parts", *words, "--set", "train.epochs=1", ranks=2)
        result = self.train(f"{name}-parts", "--resume", *words, "--set", "train.epochs=3", ranks=2)
        self.assertIn("resumed at step 10", result.out)
        self.assertNotIn("not bit for bit", result.out)
        self.assert_same_bits(f"{name}-whole", f"{name}-parts")

    def test_resumed_runs_end_with_the_same_bits(self):
        self.check_resumed("delayed", *OUTER, "strategy.overlap=true", "strategy.node_period=2")
        self.check_resumed("adaptive", *KEEP, "strategy.period=adaptive", "strategy.first_period=5")

    def test_outer_state_is_kept_once_and_resumed_on_other_ranks(self):
        words = settings(*OUTER)
        self.train("run", *words, "--set", "train.epochs=1", ranks=2)
        with h5py.File(self.folder / "run" / "checkpoints" / "step-000000010.h5") as file:
            self.assertIn("outer_momentum", file["optimizer/0"])
            self.assertIn("outer_parameters", file["optimizer/0"])
            self.assertNotIn("outer_momentum", file["optimizer/1"])
        self.train("run", "--resume", *words, "--set", "train.epochs=2", ranks=3)
        self.assertEqual(self.summary("run")["status"], "complete")

    def test_the_summary_shows_what_was_averaged_in_nodes(self):
        # 10 steps: all ranks after 4, 8 and 10, nodes after 2 and 6.
        words = settings(*OUTER, "strategy.node_period=2", "train.epochs=1")
        result = self.train("run", *words, ranks=2)
        self.assertRegex(result.out, r"in nodes +\d+\.\d MB per epoch and rank")
        summary = self.summary("run")
        self.assertEqual(2 * summary["averaged_bytes"], 3 * summary["node_averaged_bytes"])


if __name__ == "__main__":
    unittest.main()
