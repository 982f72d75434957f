"""unisono find-rate: its suggestion trains well, and what is far above it does not."""

import csv
import os
import signal
import time
import unittest
import xml.etree.ElementTree

from harness import INTERRUPTED, BinaryTest, ranks_of, settings

CONFIG = """
name = "small"
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 32 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.5  # which find-rate does not use
[train]
epochs = 30
batch_size = 24
"""

LINEAR = """
name = "linear"
[data]
path = "digits.h5"
[model]
kind = "linear"
loss = "softmax"
[optimizer]
kind = "sgd"
learning_rate = 0.5  # which find-rate does not use
[train]
batch_size = 24
[strategy]
kind = "hogwild"
"""


class FindRate(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("small.toml", CONFIG)

    def find(self, *arguments, config="small.toml", output="rates", ranks=0):
        return self.succeed("find-rate", config, "--output", output, *arguments, ranks=ranks).out

    def rows(self, output="rates"):
        with open(self.folder / output / "find-rate.csv") as file:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]

    def test_a_signal_ends_it_without_a_suggestion(self):
        for ranks in (0, 2):
            words = ("find-rate", "small.toml", "--output", "rates", "--steps", 1_000_000)
            with self.started(*words, ranks=ranks) as process:
                while process.poll() is None and not list((self.folder / "rates").rglob("metrics.jsonl")):
                    time.sleep(0.01)
                os.kill(ranks_of(process)[-1], signal.SIGTERM)
                out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, INTERRUPTED, out)
            self.assertNotIn("suggestion", out)
            self.assertEqual(list((self.folder / "rates").glob("find-rate.*")), [])

    @staticmethod
    def number_after(text, words):
        return float(text.split(words)[1].split()[0].rstrip(","))

    def test_the_suggestion_trains_well_and_far_larger_rates_diverge(self):
        out = self.find("--steps", 200, "--highest", 1000)
        rows = self.rows()
        self.assertAlmostEqual(rows[0]["learning_rate"], 1e-6)
        ratio = rows[1]["learning_rate"] / rows[0]["learning_rate"]
        self.assertAlmostEqual(ratio, 1e9 ** (1 / 199), places=4)
        self.assertIn("the loss explodes at", out)
        limit = self.number_after(out, "the loss explodes at")
        self.assertLessEqual(rows[-1]["learning_rate"], limit * 1.001)
        suggested = self.number_after(out, "learning_rate =")
        self.train("good", *settings(f"optimizer.learning_rate={suggested}"), config="small.toml")
        good = self.summary("good")
        self.assertEqual(good["status"], "complete")
        self.assertGreater(good["train"]["accuracy"], 0.9)
        self.assertGreater(good["test"]["accuracy"], 0.6)
        large = settings(f"optimizer.learning_rate={30 * limit}")
        result = self.unisono("train", "small.toml", "--output", "bad", *large)
        failed = result.code != 0 and "diverged" in result.err + result.out
        self.assertTrue(failed or self.summary("bad")["test"]["accuracy"] < 0.4, result)
        picture = xml.etree.ElementTree.parse(self.folder / "rates/find-rate.svg").getroot()
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("learning rate", texts)
        self.assertTrue(any(text.startswith("suggestion") for text in texts), texts)
        files = sorted(path.name for path in (self.folder / "rates").iterdir())
        self.assertEqual(files, ["find-rate.csv", "find-rate.svg"])

    def test_the_losses_are_the_same_on_two_ranks(self):
        words = ("--steps", 60, "--highest", 0.1)
        self.find(*words)
        out = self.find(*words, output="two", ranks=2)
        self.assertIn("suggestion", out)
        one, two = self.rows(), self.rows("two")
        self.assertEqual(len(one), 60)
        self.assertEqual(len(two), 60)
        for a, b in zip(one, two):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3)  # six digits, and sums in another order

    def test_models_that_are_updated_in_place_are_trained_by_one_rank(self):
        self.write("linear.toml", LINEAR)
        out = self.find("--steps", 60, "--highest", 0.1, config="linear.toml", ranks=2)
        self.assertIn("suggestion", out)
        self.assertEqual(len(self.rows()), 60)

    def test_what_makes_no_sense_is_refused(self):
        for words, message in (
            (("--lowest", "0.1", "--highest", "0.01"), "the lower one first"),
            (("--steps", "3"), "steps"),
            (("--set", "strategy.kind=batch", "--set", "optimizer.kind=lbfgs", "--unset", "train.batch_size",
              "--unset", "optimizer.learning_rate"),
             "has no learning rate"),
        ):
            with self.subTest(words=words):
                result = self.unisono("find-rate", "small.toml", *words)
                self.assertEqual(result.code, 2, result)
                self.assertIn(message, result.err)


if __name__ == "__main__":
    unittest.main()
