"""Runs whose length is given in steps: train.steps, schedule.steps."""

import unittest

from harness import BinaryTest, settings

DENSE = "[{kind='flatten'}, {kind='dense', units=10}]"
LBFGS = ("optimizer={kind='lbfgs'}", "train={steps=3}", "strategy={kind='batch'}")
FALLING = settings("schedule.kind=linear")
# The set of the harness makes 10 steps an epoch.
WAYS = {
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
        self.assertRegex(result.out, r"epoch 2/2: train loss .*; test loss")
        self.assertIn("accuracy", summary["test"])
        rates = self.rates("run")
        self.assertEqual(len(rates), 15)
        self.assertAlmostEqual(rates[7], 0.01 * (1 - 7 / 14))
        self.assertEqual(rates[-1], 0)

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
