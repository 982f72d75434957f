"""unisono study: verdicts, refusals, stops and resumption."""

import json
import os
import signal
import time
import unittest

import h5py

from harness import INTERRUPTED, BinaryTest, draw_digits, kill_session, ranks_of, settings

CONFIG = """
name = "small"
seed = 5
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 16 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 3
batch_size = 24
micro_batches = 4
[communication]
reduction = "reproducible"
[study]
seeds = 4
margin = 0.02
variants = [
  { strategy = { kind = "allreduce" }, ranks = [1, 2] },
  { name = "every step", strategy = { kind = "averaging", period = 1 }, communication.reduction = "fast", ranks = 2 },
  { name = "absurd", optimizer.learning_rate = 1e-5 },
  { name = "too fast", optimizer.learning_rate = 1e30 },
]
"""

LINEAR = """
name = "linear"
[data]
path = "digits.h5"
[model]
kind = "linear"
loss = "softmax"
l2 = 1e-2
[optimizer]
kind = "sgd"
learning_rate = 0.002
[train]
epochs = 2
batch_size = 24
[study]
seeds = 2
[[study.variants]]
strategy = { kind = "hogwild" }
threads = 2
[[study.variants]]
unset = ["train.batch_size"]
optimizer = { kind = "lbfgs" }
strategy = { kind = "batch" }
train = { epochs = 200, evaluate_every_epochs = 0 }
"""


class Study(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("study.toml", CONFIG)

    def study(self, *arguments, config="study.toml", ranks=2, code=0, output="study"):
        result = self.unisono("study", config, "--output", output, *arguments, ranks=ranks)
        self.assertEqual(result.code, code, result)
        return result

    def result(self, output="study"):
        return json.loads((self.folder / output / "study.json").read_text())

    @staticmethod
    def without_times(study):
        """What does not depend on the machine's speed."""
        kept = [
            {key: way[key] for key in ("name", "ranks", "verdict", "values", "distance", "trainings", "diverged")}
            for way in study["ways"]
        ]
        return kept, [
            (one["folder"], one["value"], one["loss"], one["steps"], [point[3] for point in one["curve"]])
            for one in study["trainings"]
        ]


class Verdicts(Study):
    def test_each_variant_gets_its_verdict(self):
        result = self.study()
        study = self.result()
        verdicts = {f"{way['name']}, {way['ranks']}": way["verdict"] for way in study["ways"]}
        self.assertEqual(
            verdicts,
            {
                "serial, 1": "reference",
                "allreduce, 1": "equal bit for bit",
                "allreduce, 2": "equal bit for bit",
                "every step, 2": "equal within rounding",
                "absurd, 1": "worse",
                "too fast, 1": "diverged",
            },
        )
        self.assertEqual(study["metric"], {"split": "test", "name": "accuracy", "larger_is_better": True})
        self.assertEqual(len(study["trainings"]), 6 * 4)
        serial, reduced, _, every_step, absurd, too_fast = study["ways"]
        self.assertEqual(reduced["distance"]["different_parameters"], 0)
        self.assertEqual(reduced["distance"]["classes"], 0)
        self.assertGreater(every_step["distance"]["different_parameters"], 0)
        self.assertLess(every_step["distance"]["relative"], 30 * 2**-24)
        self.assertGreater(serial["distance"]["relative"], 0.1)  # between seeds
        self.assertLess(absurd["difference"]["high"], 0)
        self.assertLessEqual(absurd["difference"]["p_adjusted"], 0.05)
        self.assertEqual((too_fast["diverged"], too_fast["values"]), (4, []))
        self.assertEqual(serial["speed_up"], 1)
        self.assertEqual(study["equal"]["updates"], 30)
        self.assertEqual(study["equal"]["examples"], 3 * 240)
        self.assertEqual(serial["at_equal"]["updates"], serial["mean"])
        # What was measured of the checkpoint is what training itself evaluated.
        for one in study["trainings"]:
            if not one["diverged"]:
                self.assertAlmostEqual(one["value"], one["curve"][-1][3], places=6)
        markdown = (self.folder / "study" / "study.md").read_text()
        for text in (result.out, markdown):
            self.assertIn("| equal bit for bit", text)
            self.assertIn("| diverged for 4 of 4 seeds", text)
        self.assertEqual(result.out.count("diverged: the loss"), 4, result)
        lines = self.succeed("watch", "study").out.splitlines()
        self.assertEqual(lines[0], "study: complete")
        self.assertIn("100 %  trainings 24/24  4 diverged", lines[1])
        self.assertEqual(lines[2], "  test accuracy")
        self.assertRegex(lines[4], r"^    allreduce, 1 rank +0\.\d+  mean of 4 seeds$")
        self.assertRegex(lines[-1], r"^    too fast, 1 rank +–$")
        self.assertEqual(len(lines), 3 + 6)

    def test_convex_models_are_compared_with_their_minimum(self):
        self.write("linear.toml", LINEAR)
        self.study(config="linear.toml", ranks=0)
        study = self.result()
        serial, _, lbfgs = study["ways"]
        summary = json.loads((self.folder / "study/runs/optimum/seed-1/summary.json").read_text())
        # The objective of parameters that were rounded to 24 bits, by other sums.
        self.assertAlmostEqual(study["optimum"], summary["minimisation"]["objective"], delta=1e-6)
        self.assertGreater(serial["distance"]["above_optimum"], 1e-4)
        self.assertLess(abs(lbfgs["distance"]["above_optimum"]), 1e-4)

    def test_without_the_margin_and_with_a_target(self):
        self.study("--set", "study.seeds=2", "--set", "study.target=0.0", "--set", "study.margin=0", "--set",
                   "study.variants=[{ optimizer = { learning_rate = 0.11 } }]", "--set", "study.metric=train.loss",
                   ranks=0)
        study = self.result()
        self.assertFalse(study["metric"]["larger_is_better"])
        self.assertEqual(study["ways"][1]["name"], "learning_rate 0.11")
        self.assertEqual(study["ways"][1]["reached_target"], 0)
        self.assertEqual(study["power"], [])


class Refusals(Study):
    def test_bad_variants_are_named_before_anything_is_trained(self):
        for variants, message in (
            ("[]", "the study has no variants; add some"),
            ("[3]", "study.variants[0]: a table is expected"),
            ("[{ rank = 2 }]", "unknown key 'rank'; did you mean 'ranks'?"),
            ("[{ ranks = 3 }]", "ranks = 3, but this job has 2 ranks"),
            ("[{ ranks = [2, 0] }]", "whole numbers above 0 are expected"),
            ("[{ threads = [] }]", "threads = []: names none"),
            ("[{ seed = 3 }]", "'seed': all ways are trained with the same seeds"),
            ("[{ train.threads = 3 }]", "'train.threads': write threads = [2]"),
            ('[{ strategy = { kind = "averging" } }]', "did you mean 'averaging'?"),
            ('[{ strategy = { kind = "averaging", perod = 2 } }]', "did you mean 'period'?"),
            ("[{ train.batch_size = 25 }, { train.batch_size = 25 }]", "study.variants[1]: it is the same training as"),
            ('[{ unset = ["train.batch"] }]', "unset train.batch: the config file has no such key"),
            ("[{ unset = [3] }]", "unset: keys of the config are expected"),
            ('[{ train.batch_size = "largest" }]', "give numbers for train.batch_size"),
            ("[{ model.layers = [] }]", "layers"),
        ):
            with self.subTest(variants=variants):
                ranks = 2 if "ranks = 3" in variants else 0
                result = self.study(*settings(f"study.variants={variants}"), code=2, ranks=ranks)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("config error"), 1)
                self.assertFalse((self.folder / "study").exists())

    def test_a_metric_that_the_examples_do_not_have(self):
        with h5py.File(self.digits) as drawn, h5py.File(self.folder / "one.h5", "w") as one:
            for name in ("train", "test"):
                drawn.copy(name, one)
            one["test/labels"][:] = 3
        words = settings("data.path=one.h5", "study.metric=test.auc", "study.variants=[{ train.batch_size = 30 }]")
        for ranks in (0, 2):
            result = self.study(*words, code=2, ranks=ranks)
            self.assertEqual(result.err.count("config error"), 1)
            self.assertIn("study.metric: test auc is undefined, since in one.h5: all", result.err)
        self.assertFalse((self.folder / "study").exists())

    def test_bad_settings(self):
        for setting, message in (
            ("study.seeds=1", "at least 2"),
            ("study.margin=-0.1", "at least 0"),
            ("study.metric=validation_accuracy", 'as in "validation.accuracy"'),
            ("study.metric=validation.accuracy", "has no validation examples"),
            ("study.metric=test.acuracy", "it has loss, accuracy"),
            ("study.target=[1, 2]", "target is one number"),
        ):
            with self.subTest(setting=setting):
                words = settings(setting, "study.variants=[{ train.batch_size = 30 }]")
                self.assertIn(message, self.study(*words, code=2, ranks=0).err)

    def test_a_study_is_neither_replaced_nor_resumed_by_mistake(self):
        small = settings("study.seeds=2", "study.variants=[{ train.batch_size = 30 }]")
        self.assertIn("no study to resume", self.study("--resume", *small, code=4, ranks=0).err)
        self.study(*small, ranks=0)
        self.assertIn("already holds a study", self.study(*small, code=1, ranks=0).err)
        search = settings(
            "data.validation_fraction=0.25",
            "search={ method = 'random', trials = 1, space = { train.batch_size = [30] } }",
        )
        refused = self.unisono("search", "study.toml", "--output", "study", "--overwrite", *search)
        self.assertIn("study: holds a study; choose another folder", refused.err)
        before = self.without_times(self.result())
        self.study("--resume", *small, ranks=0)  # nothing is left to do
        self.assertEqual(self.without_times(self.result()), before)
        self.study("--overwrite", *small, ranks=0)
        self.assertEqual(self.without_times(self.result()), before)

    def test_training_knows_the_section_and_does_not_keep_it(self):
        self.train("run", config="study.toml")
        self.assertNotIn("study", (self.folder / "run/config.toml").read_text())
        self.assertIn("did you mean 'seeds'", self.unisono("train", "study.toml", *settings("study.sedes=3")).err)


class Resumption(Study):
    def setUp(self):
        super().setUp()
        # Each training takes at least 0.3 seconds.
        self.slow = settings("study.seeds=2", "fault.emulated_seconds=0.01")

    def lines(self):
        path = self.folder / "study/journal.txt"
        if not path.exists():
            return 0
        return sum('"plan"' not in line for line in path.read_text().splitlines())

    def wait_for_lines(self, process, count):
        while self.lines() < count:
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        time.sleep(0.1)  # into the next training

    def test_a_killed_study_goes_on_as_if_nothing_had_happened(self):
        self.study(*settings("study.seeds=2"), output="whole")
        whole = self.without_times(self.result("whole"))
        for number, (lines, how) in enumerate(((2, signal.SIGKILL), (5, signal.SIGTERM), (9, signal.SIGKILL))):
            words = ("study", "study.toml", "--output", "study", *(("--resume",) if number else ()), *self.slow)
            with self.started(*words, ranks=2) as process:
                self.wait_for_lines(process, lines)
                if how == signal.SIGKILL:
                    kill_session(process.pid)
                else:
                    os.kill(ranks_of(process)[-1], how)
                    self.assertEqual(process.wait(timeout=30), INTERRUPTED)
            self.assertFalse((self.folder / "study/study.json").exists())
        done = self.lines()
        result = self.study("--resume", *self.slow)
        self.assertEqual(self.without_times(self.result()), whole)
        self.assertEqual(self.lines(), 1 + 6 * 2)
        self.assertEqual(result.out.count(", seed "), 1 + 6 * 2 - done, result)

    def test_more_seeds_and_variants_add_to_a_study(self):
        variants = "study.variants=[{ train.batch_size = 30 }, { optimizer.learning_rate = 0.2 }]"
        self.study(*settings("study.seeds=3", variants), output="whole", ranks=0)
        self.study(*settings("study.seeds=2", "study.variants=[{ train.batch_size = 30 }]"), ranks=0)
        added = self.study("--resume", *settings("study.seeds=3", variants), ranks=0)
        self.assertEqual(added.out.count(", seed "), 9 - 4)
        self.assertEqual(self.without_times(self.result()), self.without_times(self.result("whole")))

    def test_a_study_does_not_go_on_with_other_data(self):
        fewer = settings("study.seeds=2", "study.variants=[{ train.batch_size = 32 }]")
        self.study(*fewer, ranks=0)
        (self.folder / "digits.h5").unlink()  # a link
        draw_digits(self.folder / "digits.h5", "--seed", "2")
        more = settings("study.seeds=3", "study.variants=[{ train.batch_size = 32 }]")
        for words in (fewer, more):
            said = self.study("--resume", *words, code=3, ranks=0).err
            self.assertIn("study: was begun on different data from digits.h5: go on with the same set", said)
        self.study("--overwrite", *more, ranks=0)
        self.study("--resume", *more, ranks=0)

    def test_a_changed_journal_is_noticed(self):
        fewer = settings("study.seeds=2", "study.variants=[{ train.batch_size = 30 }]")
        self.study(*fewer, ranks=0)
        path = self.folder / "study/journal.txt"
        path.write_text(path.read_text().replace('"seed":5', '"seed":6', 1))
        self.assertIn("journal.txt:2: this line was changed", self.study("--resume", *fewer, code=4, ranks=0).err)


if __name__ == "__main__":
    unittest.main()
