"""Runs whose length is given in steps: train.steps, schedule.steps."""

import re
import unittest

from harness import BinaryTest, settings

DENSE = "[{kind='flatten'}, {kind='dense', units=10}]"
LBFGS = ("optimizer={kind='lbfgs'}", "train={steps=3}", "strategy={kind='batch'}")
FALLING = settings("schedule.kind=linear")
# The set of the harness makes 10 steps an epoch.
WAYS = {
    "one rank": (0, ()),
    "allreduce": (2, ()),
    "averaging": (2, settings("strategy.kind=averaging", "strategy.period=4")),
    "gossip": (2, settings("strategy.kind=gossip")),
    "parameter_server": (3, settings("strategy.kind=parameter_server")),
    "elastic_averaging": (2, settings("strategy.kind=elastic_averaging")),
    "gossip_async": (2, settings("strategy.kind=gossip_async")),
    "gradient_sharing": (2, settings("strategy.kind=gradient_sharing")),
    "hogwild": (0, settings("strategy.kind=hogwild", "strategy.threads=2", f"model.layers={DENSE}")),
}


class Length(BinaryTest):
    def rates(self, run):
        return [line["learning_rate"] for line in self.timeless(run) if line["event"] == "train"]

    def test_a_run_ends_within_an_epoch_and_is_evaluated(self):
        result = self.train("run", *FALLING, *settings("train.steps=15"))
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["steps"], summary["epochs"]), ("complete", 15, 1))
        self.assertIn("complete after 1.5 epochs, 15 steps, in", result.out)
        self.assertRegex(result.out, r"step 15/15: train loss .*; test loss")
        self.assertIn("accuracy", summary["test"])
        rates = self.rates("run")
        self.assertEqual(len(rates), 15)
        self.assertAlmostEqual(rates[7], 0.01 * (1 - 7 / 14))
        self.assertEqual(rates[-1], 0)

    def test_evaluations_within_epochs(self):
        sparse = settings("train.steps=16", "train.evaluate_every_steps=4", "train.report_every_steps=100")
        result = self.train("run", *sparse, *settings("data.validation_fraction=0.2"))
        at = [line["step"] for line in self.metrics("run") if line["event"] == "evaluation"]
        # 8 steps an epoch; both splits at the end
        self.assertEqual(at, [4, 8, 12, 16, 16])
        for place in ("step 4/16", "epoch 1/2", "step 12/16", "epoch 2/2"):
            self.assertEqual(len(re.findall(f"{place}: train loss .*; validation loss", result.out)), 1, result)
        best = self.summary("run")["best"]
        self.assertIn(best["step"], at)
        self.assertEqual(best["epoch"], best["step"] / 8)

    def test_a_run_stops_early_within_an_epoch(self):
        stopping = settings("data.validation_fraction=0.2", "train.evaluate_every_steps=3", "train.epochs=40")
        stopping += settings("train.evaluate_every_epochs=0", "optimizer.learning_rate=0.5", "train.divergence=0")
        stopping += settings("train.early_stopping.patience=2", "train.early_stopping.metric=loss")
        result = self.train("run", *stopping, *settings("checkpoint.best.metric=loss"))
        summary = self.summary("run")
        place, step = summary["stopped_early"]["weights_of_step"], summary["stopped_early"]["step"]
        self.assertEqual((place % 3, step), (0, place + 6))
        text = f"step {place}" if place % 8 else f"epoch {place // 8}"
        self.assertIn(f"stopped early: the best weights are those of {text}, with", result.out)
        self.assertIn(f"stopped early with the weights of {text},", result.out)

    def test_a_run_resumed_within_an_epoch_evaluates_at_the_same_steps(self):
        often = settings("train.evaluate_every_steps=4", "train.evaluate_every_epochs=0")
        self.train("run", *often, *settings("train.steps=14"))
        self.train("run", "--resume", *often, *settings("train.steps=23"))
        self.train("whole", *often, *settings("train.steps=23"))
        self.assert_same_bits("run", "whole")
        at = [line["step"] for line in self.metrics("run") if line["event"] == "evaluation"]
        self.assertEqual(at, [4, 8, 12, 14, 16, 20, 23])

    def test_whole_epochs_are_as_many_steps(self):
        self.train("epochs", *FALLING)
        self.train("steps", *FALLING, *settings("train.steps=20", "train.epochs=1"))
        self.assert_same_bits("epochs", "steps")
        self.assertEqual(self.timeless("epochs"), self.timeless("steps"))

    def test_every_strategy_ends_there(self):
        for name, (ranks, strategy) in WAYS.items():
            with self.subTest(name):
                self.train(name, *settings("train.steps=15", "train.report_every_steps=7"), *strategy, ranks=ranks)
                self.assertEqual(self.summary(name)["steps"], 15)
                self.assertEqual(self.summary(name)["status"], "complete")

    def test_every_report_has_the_gradient(self):
        """Also where steps between two reports are made in the backward pass, which keeps no gradient."""
        for name in ("one rank", "allreduce", "averaging"):
            ranks, strategy = WAYS[name]
            with self.subTest(name):
                self.train(name, *settings("train.steps=25", "train.report_every_steps=7"), *strategy, ranks=ranks)
                reports = [line for line in self.metrics(name) if line["event"] == "train"]
                self.assertEqual(reports[-1]["step"], 25)
                for line in reports:
                    self.assertGreater(line.get("gradient_norm", 0), 0, line)

    def test_a_complete_run_is_made_longer(self):
        self.train("run", *settings("train.steps=15"))
        result = self.train("run", "--resume", *settings("train.steps=15"))
        self.assertIn("already complete; a larger train.steps makes it longer", result.out)
        self.train("run", "--resume", *settings("train.steps=23"))
        self.train("whole", *settings("train.steps=23"))
        self.assert_same_bits("whole", "run")

    def test_another_length_does_not_change_a_falling_rate_unasked(self):
        self.train("run", *FALLING, *settings("train.steps=15"))
        longer = settings("train.steps=30")
        result = self.unisono("train", "config.toml", "--output", "run", "--resume", *FALLING, *longer)
        self.assertEqual(result.code, 2)
        self.assertIn("train.steps = 30 would change the learning rate, which falls over 15 steps", result.err)
        longer = settings("train.steps=18", "schedule.steps=15")
        result = self.train("run", "--resume", *FALLING, *longer)
        self.assertIn("the learning rate falls over 15 of 18 steps and then stays at 0", result.out)
        self.assertEqual(self.rates("run")[-3:], [0, 0, 0])

    def test_what_counts_epochs_alone_is_refused(self):
        cases = (
            (
                ("schedule.kind=cosine", "schedule.epochs=1", "schedule.steps=5"),
                "--set schedule.steps=5: in [schedule]: epochs and steps both",
            ),
            (("schedule.kind=cosine", "schedule.warmup_epochs=2"), "schedule.warmup_epochs = 2, 20 steps, leaves none"),
            (("strategy.kind=averaging", "strategy.allreduce_epochs=1"), "strategy.allreduce_epochs counts epochs"),
            (("train.steps=-1",), "train.steps"),
            (LBFGS, "means nothing here: each epoch is a step"),
        )
        for pairs, message in cases:
            with self.subTest(pairs):
                result = self.unisono("train", "config.toml", *settings("train.steps=15", *pairs))
                self.assertEqual(result.code, 2, result)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error"), 1, result)


if __name__ == "__main__":
    unittest.main()
