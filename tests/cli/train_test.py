"""Training through the binary: what a run leaves behind, on one rank and on several."""

import unittest

import h5py
import numpy
from harness import PARTS, BinaryTest, messages, settings

DENORMALS = """
name = "small"
[data]
path = "set.h5"
shuffle = false
[model]
loss = "mean_squared_error"
layers = [{ kind = "dense", units = 1 }]
[optimizer]
kind = "sgd"
learning_rate = 0.001
momentum = 0.7
[train]
epochs = 1
batch_size = 2
"""


class Training(BinaryTest):
    def test_a_run_leaves_everything_that_is_promised(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                run = f"run{ranks}"
                result = self.train(run, ranks=ranks)
                self.assertEqual(result.out.count(": complete after 2 epochs, 20 steps"), 1, result)
                files = {path.name for path in (self.folder / run).iterdir()}
                self.assertLessEqual({"config.toml", "metrics.jsonl", "summary.json", "log.txt", "checkpoints"}, files)
                self.check_summary(self.summary(run), max(ranks, 1))
                self.check_metrics(self.metrics(run))
                self.assertIn("complete after 2 epochs", (self.folder / run / "log.txt").read_text())
                names = [path.name for path in self.checkpoints(run)]
                self.assertEqual(names, ["step-000000010.h5", "step-000000020.h5"])
                self.assertFalse((self.folder / run / "checkpoints" / "best.h5").exists())  # nothing to choose it by

    def check_summary(self, summary, ranks):
        self.assertEqual(summary["status"], "complete")
        self.assertEqual(summary["ranks"], ranks)
        self.assertEqual(summary["threads"], 1)
        self.assertEqual(summary["parameters"], 4 * 25 + 2 * 4 + (10 * 4 * 12 * 12 + 10))
        self.assertEqual((summary["epochs"], summary["steps"]), (2, 20))
        self.assertEqual(summary["batch_size_per_rank"], 24 / ranks)
        self.assertEqual(summary["batch_statistics"], "global")
        for part in ("train", "test"):
            for name in ("loss", "accuracy"):
                self.assertGreater(summary[part][name], 0)
        self.assertGreater(summary["examples_per_second"], 0)
        self.assertGreater(summary["peak_memory_bytes"], 10 << 20)
        seconds = summary["seconds"]
        self.assertEqual(set(seconds), PARTS | {"total"})
        self.assertAlmostEqual(sum(seconds[part] for part in PARTS), seconds["total"], places=9)
        self.assertGreaterEqual(min(seconds.values()), -1e-3)
        self.assertLess(seconds["other"], 0.1 * seconds["total"] + 0.05)

    def check_metrics(self, lines):
        reports = [line for line in lines if line["event"] == "train"]
        self.assertEqual([line["step"] for line in reports], list(range(1, 21)))
        for line in reports:
            self.assertEqual(line["epoch"], (line["step"] - 1) // 10 + 1)
            for key in ("loss", "learning_rate", "gradient_norm", "parameter_norm", "examples_per_second"):
                self.assertGreater(line[key], 0, key)
            parts = [seconds for key, seconds in line["seconds"].items() if key != "total"]
            self.assertAlmostEqual(sum(parts), line["seconds"]["total"], places=9)
        evaluations = [line for line in lines if line["event"] == "evaluation"]
        self.assertEqual([(line["step"], line["split"]) for line in evaluations], [(10, "test"), (20, "test")])

    def test_the_effective_config_gives_the_same_run(self):
        self.train("first", "--set", "train.epochs=1")
        text = (self.folder / "first" / "config.toml").read_text()
        self.assertTrue(text.startswith("# 1 rank: a rank takes 24 of 24 examples of each step\n"), text)
        self.assertIn("epochs = 1\n", text)
        self.train("second", config="first/config.toml")
        self.assert_same_bits("first", "second")

    def test_several_ranks_make_the_run_of_one(self):
        # 10 steps of SGD. A gradient sums its terms in another order: √24 roundings of 6e-8, relative to the largest, a
        # step, which batch normalisation and the steps behind amplify by some tens at most.
        self.train("one", "--set", "train.epochs=1", "--set", "optimizer.kind=sgd")
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                run = f"many{ranks}"
                self.train(run, "--set", "train.epochs=1", "--set", "optimizer.kind=sgd", ranks=ranks)
                self.assert_close("one", run, 1e-4)
                one, many = self.summary("one"), self.summary(run)
                self.assertAlmostEqual(one["train"]["loss"], many["train"]["loss"], places=4)

    def test_micro_batches_make_the_same_run_on_any_number_of_ranks(self):
        # Whole micro-batches of 6 examples, and their batch statistics, whatever rank has them; with 4 of them and 5
        # ranks each is cut. The tolerance is that of the test above.
        sets = ("--set", "train.epochs=1", "--set", "optimizer.kind=sgd")
        self.train("one", *sets, "--set", "train.micro_batches=4")
        self.train("accumulated", *sets, "--set", "train.accumulate=4")
        self.assert_same_bits("one", "accumulated")
        for ranks in (2, 3, 5):
            with self.subTest(ranks=ranks):
                self.train(f"many{ranks}", *sets, "--set", "train.micro_batches=4", ranks=ranks)
                self.assert_close("one", f"many{ranks}", 1e-4)
        self.train("cut", *sets)
        with self.assertRaises(AssertionError):  # its statistics are those of 24 examples
            self.assert_close("one", "cut", 1e-4)

    def test_micro_batches_are_resumed_on_other_ranks(self):
        sets = ("--set", "train.micro_batches=4", "--set", "optimizer.kind=sgd")
        self.train("whole", *sets, ranks=2)
        self.train("parts", *sets, "--set", "train.epochs=1", ranks=3)
        self.train("parts", *sets, "--set", "schedule.kind=constant", "--resume", ranks=2)
        self.assertEqual(self.summary("parts")["epochs"], 2)
        self.assert_close("whole", "parts", 1e-4)

    def test_the_default_folder_is_named_after_the_experiment(self):
        self.succeed("train", "config.toml", "--set", "train.epochs=1", "--set", "name=other")
        self.assertEqual(self.summary("runs/other")["name"], "other")

    def test_a_folder_with_results_is_refused_unless_told_what_to_do(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                run = f"run{ranks}"
                self.train(run, "--set", "train.epochs=1", ranks=ranks)
                before = (self.folder / run / "summary.json").read_bytes()
                result = self.train(run, ranks=ranks, code=1)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn("--resume", result.err)
                self.assertEqual((self.folder / run / "summary.json").read_bytes(), before)
                self.train(run, "--overwrite", "--set", "train.epochs=2", ranks=ranks)
                self.assertEqual(self.summary(run)["epochs"], 2)

    def test_a_validation_set_is_what_a_run_is_judged_by(self):
        self.train("run", "--set", "data.validation_fraction=0.25", "--set", "train.evaluate_every_epochs=0")
        summary = self.summary("run")
        self.assertGreater(summary["validation"]["accuracy"], 0)
        self.assertGreater(summary["test"]["accuracy"], 0)
        splits = [line["split"] for line in self.metrics("run") if line["event"] == "evaluation"]
        self.assertEqual(splits, ["validation", "test"])
        self.assertTrue((self.folder / "run" / "checkpoints" / "best.h5").exists())

    def test_averaging_runs_and_says_what_is_in_force(self):
        self.train("run", "--set", "strategy.kind=averaging", "--set", "strategy.period=4", ranks=2)
        summary = self.summary("run")
        self.assertEqual(summary["strategy"], "averaging")
        self.assertEqual(summary["batch_statistics"], "local")
        self.assertEqual(summary["steps"], 20)
        self.assertTrue(self.checkpoints("run")[-1].name.startswith("step-000000020"))


class BatchNormOfOneValue(BinaryTest):
    """A batch_norm behind a dense layer compares examples: one alone has no variance."""

    NET = (
        'model.layers=[{kind="flatten"},{kind="dense",units=16},{kind="batch_norm"},{kind="relu"},'
        '{kind="dense",units=10}]',
        "data.validation_fraction=0.1",
        "data.augmentation.shift=0",
        "train.epochs=2",
        "optimizer.kind=sgd",  # Adam makes whole steps of the rounding errors of biases that have no effect
    )

    def test_steps_of_one_value_are_refused_whatever_the_strategy(self):
        for ranks, keys in (
            (0, ["train.batch_size=1"]),
            (0, ["train.batch_size=8", "train.micro_batches=8"]),
            (2, ["train.batch_size=2", "strategy.kind=averaging"]),
            (2, ["train.batch_size=2", "strategy.kind=gossip"]),
            (2, ["train.batch_size=2", "strategy.kind=gradient_sharing"]),
            (2, ["train.batch_size=1", "strategy.kind=parameter_server", "strategy.servers=1"]),
        ):
            with self.subTest(keys=keys):
                words = settings(*self.NET, *keys)
                result = self.unisono("train", "config.toml", "--output", "refused", *words, ranks=ranks)
                self.assertEqual((result.code, len(messages(result))), (2, 1), result)
                self.assertIn("a batch_norm needs two or more values of each channel", messages(result)[0])
        self.train("together", *settings(*self.NET, "train.batch_size=2"), ranks=2)  # over both ranks

    def test_a_last_step_of_one_example_joins_the_one_before_or_is_left_out(self):
        # 216 training examples are 5 steps of 43, and one more.
        told = self.train("joined", *settings(*self.NET, "train.batch_size=43"))
        self.assertIn("the last 1 example of each epoch joins the step before", told.out)
        self.assertEqual(self.summary("joined")["steps"], 10)
        for ranks in (2, 3):
            self.train(f"on-{ranks}", *settings(*self.NET, "train.batch_size=43"), ranks=ranks)
            self.assertEqual(self.summary(f"on-{ranks}")["steps"], 10)
            losses = [self.summary(run)["validation"]["loss"] for run in (f"on-{ranks}", "joined")]
            self.assertAlmostEqual(*losses, places=4)
        told = self.train("left", *settings(*self.NET, "train.batch_size=43", "train.last_batch=drop"))
        self.assertIn('train.last_batch = "drop": 1 example of each epoch is left out', told.out)
        self.assertEqual(self.summary("left")["steps"], 10)
        told = self.train("two", *settings(*self.NET, "train.batch_size=107"))  # two left: a step of their own
        self.assertNotIn("joins", told.out)
        self.assertEqual(self.summary("two")["steps"], 6)

    def test_a_joined_step_is_resumed_and_streamed(self):
        words = (*self.NET, "train.batch_size=43", "train.epochs=4")
        self.train("whole", *settings(*words))
        self.train("parts", *settings(*words, "train.epochs=2"))
        self.train("parts", *settings(*words), "--resume")
        self.assert_same_bits("parts", "whole")
        self.train("streamed", *settings(*words, "data.reader=streaming", "data.shuffle=false"))
        self.train("resident", *settings(*words, "data.shuffle=false"))
        self.assert_same_bits("streamed", "resident")


class Denormals(BinaryTest):
    """Numbers too small for all their digits are zeros, in every thread: operations on them are slow."""

    def test_a_momentum_that_vanishes_becomes_zero(self):
        random = numpy.random.default_rng(0)
        features = random.normal(size=(600, 4)).astype("f4")
        features[1:, 0] = 0  # only the first example moves the first weight
        with h5py.File(self.folder / "set.h5", "w") as file:
            file["train/features"], file["train/targets"] = features, features[:, 1:2] * 2
        # After n of the 300 steps 0.7ⁿ is left: below 2⁻¹²⁶ from n = 245 on.
        self.write("config.toml", DENORMALS)
        for name, ranks, threads in (("serial", 0, 1), ("threads", 0, 2), ("ranks", 2, 1)):
            self.train(name, *settings(f"train.threads={threads}"), ranks=ranks)
            arrays = self.vectors(name)
            velocity = arrays["optimizer/0/velocity/dense1.weight"].ravel()
            self.assertEqual(velocity[0], 0)
            self.assertTrue((abs(velocity[1:]) > 1e-4).all())
            for values in arrays.values():
                self.assertFalse(((values != 0) & (abs(values) < 2.0**-126)).any())


class GradientNorm(BinaryTest):
    """docs/training.md says of what it is the norm."""

    ONE_STEP = (
        'model.layers=[{kind="flatten"},{kind="dense",units=10}]',
        "optimizer.kind=sgd",
        "train.batch_size=240",
        "train.epochs=1",
        "data.augmentation.shift=0",
        "data.shuffle=false",
    )

    AT_OWN_PACE = ("elastic_averaging", "gradient_sharing", "gossip_async", "parameter_server")

    def norm(self, ranks, *keys):
        self.train("run", "--overwrite", *settings(*self.ONE_STEP, *keys), ranks=ranks)
        (line,) = [line for line in self.metrics("run") if line["event"] == "train"]
        return line.get("gradient_norm")

    def test_it_is_what_the_page_says(self):
        batch, own = self.norm(0), self.norm(2, "strategy.kind=averaging")
        self.assertAlmostEqual(self.norm(2), batch, places=6)
        self.assertGreater(abs(own / batch - 1), 0.01)  # of other examples
        self.assertAlmostEqual(self.norm(2, "strategy.kind=gossip"), own, places=6)
        for kind in self.AT_OWN_PACE:  # rank 0 makes none of the steps, one, or several with the same parameters
            norm = self.norm(2, f"strategy.kind={kind}", "optimizer.learning_rate=1e-30")
            if self.summary("run")["worker_steps"][0] == 0:
                self.assertIsNone(norm, kind)
            else:
                self.assertAlmostEqual(norm, own, places=6, msg=kind)
        share = self.norm(2, "strategy.kind=parameter_server", "strategy.consistency=synchronous")
        self.assertAlmostEqual(share, own / 2, places=6)
        self.assertIsNone(self.norm(2, "strategy.kind=hogwild"))

    def test_there_is_none_where_rank_0_made_no_step(self):
        # Rank 0 writes the report before it asks for its next step. Meanwhile the other may make both of the two steps.
        each_step = ("strategy.kind=gradient_sharing", "train.batch_size=2", "train.report_every_steps=1")
        self.train("run", *settings(*self.ONE_STEP, *each_step), ranks=2)
        lines = [line for line in self.metrics("run") if line["event"] == "train"]
        steps = self.summary("run")["worker_steps"]
        norms = [line["gradient_norm"] for line in lines if "gradient_norm" in line]
        self.assertTrue(steps[0] / 2 <= len(norms) <= min(steps[0], len(lines)), (steps, len(norms)))
        self.assertTrue(all(norm > 0 for norm in norms))


if __name__ == "__main__":
    unittest.main()
