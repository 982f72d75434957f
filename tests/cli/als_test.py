"""Alternating least squares: the same bits on any ranks and threads, ends, resuming, implicit feedback."""

import csv
import json
import os
import pathlib
import sys
import unittest

from harness import BinaryTest, messages, settings

ROOT = pathlib.Path(os.environ.get("UNISONO_SOURCE", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(ROOT / "bench"))

import generated  # noqa: E402

CONFIG = """
name = "ratings"
[data]
path = "ratings.h5"
[model]
kind = "factorization"
dimension = 7
user_l2 = 0.1
item_l2 = 0.1
[optimizer]
kind = "als"
function_tolerance = 0
[train]
epochs = 5
threads = 1
[strategy]
kind = "batch"
"""
IMPLICIT = CONFIG.replace("dimension = 7", 'dimension = 7\nfeedback = "implicit"\nconfidence = 3\nbiases = false')


class Als(BinaryTest):
    def setUp(self):
        super().setUp()
        for name, ratings in zip(("train.txt", "test.txt"), generated.draw_ratings(users=300, items=200, per_user=30)):
            generated.write_ratings(self.folder / name, ratings)
        words = ("--test-file", "test.txt", "--split", "none", "--output", "ratings.h5")
        self.succeed("data", "import", "ratings", "train.txt", *words)
        self.write("config.toml", CONFIG)

    def lines(self, run):
        lines = [line for line in self.metrics(run) if line["event"] == "train"]
        return [{key: line[key] for key in ("step", "loss", "rmse", "objective")} for line in lines]

    def test_ranks_and_threads_change_no_bit_and_the_objective_falls(self):
        for name, config in (("explicit", CONFIG), ("implicit", IMPLICIT)):
            self.write("config.toml", config)
            self.train(name)
            objective = [line["objective"] for line in self.lines(name)]
            self.assertEqual(len(objective), 5)
            self.assertEqual(objective, sorted(objective, reverse=True))
            for ranks, threads in ((0, 2), (2, 1), (3, 2), (4, 1)):
                run = f"{name}-{ranks}-{threads}"
                self.train(run, *settings(f"train.threads={threads}"), ranks=ranks)
                self.assert_same_bits(run, name)
                self.assertEqual(self.lines(run), self.lines(name))

    def test_a_stopped_run_goes_on_on_any_number_of_ranks(self):
        self.train("whole")
        for first in (1, 3):
            self.train("stopped", "--overwrite", *settings(f"train.epochs={first}"), ranks=2)
            self.train("stopped", "--resume", *settings("train.epochs=5"), ranks=3)
            self.assert_same_bits("stopped", "whole")

    def test_it_converges(self):
        words = settings("optimizer.function_tolerance=0.01", "train.epochs=100")
        self.train("run", *words)
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["minimisation"]["ended_by"]), ("converged", "function_tolerance"))
        self.assertLess(summary["steps"], 100)
        self.assertLess(summary["test"]["rmse"], 1)
        again = self.train("run", "--resume", *words)
        self.assertIn("already complete", again.out + again.err)

    def test_what_is_said_of_it(self):
        out = self.succeed("info", "config.toml").out
        self.assertIn("predicted", out)
        told = json.loads(self.succeed("info", "config.toml", "--json").out)
        self.assertGreater(told["memory"]["buffers of the strategy"], 8000 * 24)  # in both tables
        self.train("run")
        line = next(line for line in self.metrics("run") if line["event"] == "train")
        self.assertIn("objective", line)
        self.assertNotIn("gradient_magnitude", line)
        self.assertNotIn("gradient_magnitude", self.summary("run")["minimisation"])

    def test_preferences_rank_what_users_will_like(self):
        self.write("config.toml", IMPLICIT)
        self.train("run")
        self.assertLess(self.summary("run")["train"]["rmse"], 0.6)
        self.succeed("predict", "run", "--top", "3", "--output", "top.csv")
        with open(self.folder / "top.csv") as file:
            scores = [float(row["score"]) for row in csv.DictReader(file)]
        self.assertGreater(len(scores), 600)
        self.assertTrue(all(-1 < score < 2 for score in scores))

    def test_several_counts_of_a_pair_are_one_and_some_must_be_positive(self):
        self.write("config.toml", IMPLICIT)
        events = "a x 1\na x 2\nb y 1\na x 1\nb x 3\nc y 2\nb y 1\n"
        for run, text in (("many", events), ("one", "a x 4\nb y 2\nb x 3\nc y 2\n")):
            self.write(f"{run}.txt", text)
            self.succeed("data", "import", "ratings", f"{run}.txt", "--split", "none", "--output", f"{run}.h5")
            for ranks in (0, 2):
                self.train(f"{run}{ranks}", *settings(f"data.path={run}.h5"), ranks=ranks)
            self.assert_same_bits(f"{run}2", f"{run}0")
        many, one = (self.figures_of(f"{run}0")[-1] for run in ("many", "one"))
        self.assertAlmostEqual(many["objective"] * 7, one["objective"] * 4, places=5)  # it is a mean over the values
        self.assertEqual(many["rmse"], one["rmse"])
        self.write("none.txt", "a x 0\na y 0\nb x -1\n")
        self.succeed("data", "import", "ratings", "none.txt", "--split", "none", "--output", "none.h5")
        for ranks in (0, 2):
            result = self.train("none", "--overwrite", *settings("data.path=none.h5"), ranks=ranks, code=3)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn("no rating is above 0", messages(result)[0])

    def test_what_it_cannot_do_is_refused(self):
        for message, *pairs in (
            ("user_l2", "model.user_l2=0"),
            ("biases", "model.feedback=implicit"),
            ("learning_rate", "optimizer.learning_rate=0.1"),
            ("weight_decay", "optimizer.weight_decay=0.1"),
            ("decay_biases_and_norms", "optimizer.decay_biases_and_norms=true"),
            ("strategy.kind", "strategy.kind=hogwild"),
            ("function_tolerance", "optimizer.function_tolerance=-1"),
            ("als", "optimizer.kind=lbfgs"),
        ):
            with self.subTest(pairs):
                result = self.train("new", *settings(*pairs), code=2)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn(message, messages(result)[0])
                self.assertFalse((self.folder / "new").exists())
        sgd = IMPLICIT.replace('kind = "als"\nfunction_tolerance = 0', 'kind = "sgd"\nlearning_rate = 0.1')
        self.write("config.toml", sgd.replace('kind = "batch"', 'kind = "serial"').replace("threads = 1", ""))
        self.assertIn("implicit", messages(self.train("new", code=2))[0])


if __name__ == "__main__":
    unittest.main()
