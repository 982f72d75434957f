"""How many threads share a model, where strategy.threads = 0 leaves it open: a short trial at the start decides."""

import json
import os
import tomllib
import unittest

import h5py

from harness import messages
from in_place_test import InPlaceSets

WAYS = (
    ("private_copies", "linear", ()),
    ("feature_parallel", "linear", ("--set", "model.mini_batch=8")),
    ("hogwild", "linear", ()),
    ("hogwild", "factorization", ()),
)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "nothing is open on one core")
class ThreadChoice(InPlaceSets):
    def run_way(self, way, run, threads, *more):
        strategy, model, settings = way
        chosen = ("--set", f"strategy.kind={strategy}", "--set", f"strategy.threads={threads}", *settings)
        return self.train(run, *chosen, *more, config=f"{model}.toml")

    def chosen(self, run):
        return [one for one in self.summary(run)["chosen"] if one["key"] == "strategy.threads"]

    def threads_of(self, run):
        return tomllib.loads((self.folder / run / "config.toml").read_text())["strategy"]["threads"]

    def test_the_run_is_that_of_a_config_that_names_the_number(self):
        for i, way in enumerate(WAYS):
            with self.subTest(way=way):
                told = self.run_way(way, f"open{i}", 0).out
                self.assertEqual(told.count("strategy.threads = 0: "), 1, told)
                found = r"threads = 0: \d+ threads? a rank, expected to train on .* examples/s, .* \(by a short trial\)"
                self.assertRegex(told, found)
                threads = self.threads_of(f"open{i}")
                self.assertIn(f"strategy.threads = 0: {threads} thread", told)
                self.assertEqual(self.summary(f"open{i}")["threads"], threads)
                (chosen,) = self.chosen(f"open{i}")
                self.assertEqual([chosen["value"], chosen["by"]], [threads, "trial"])
                self.assertIn(chosen["why"], told)
                named = self.run_way(way, f"named{i}", threads).out
                self.assertNotIn("strategy.threads = 0", named)
                self.assertEqual(self.chosen(f"named{i}"), [])
                if way[0] != "hogwild" or threads == 1:
                    self.assert_same_bits(f"open{i}", f"named{i}")

    def test_a_resumed_run_keeps_the_number(self):
        way = WAYS[0]
        self.run_way(way, "run", 0)
        threads = self.threads_of("run")
        told = self.run_way(way, "run", 0, "--resume", "--set", "train.epochs=6").out
        self.assertRegex(told, rf"\n{threads} threads? a rank, as chosen when the run began\n")
        self.assertNotIn("strategy.threads = 0", told)
        self.assertNotIn("not bit for bit", told)
        self.assertEqual((self.threads_of("run"), self.summary("run")["threads"]), (threads, threads))
        self.assertEqual([one["by"] for one in self.chosen("run")], ["resumed run"])
        self.run_way(way, "whole", threads, "--set", "train.epochs=6")
        self.assert_same_bits("run", "whole")
        again = self.succeed("train", "run", "--resume", "--set", "train.epochs=7").out
        self.assertIn(f"{threads} thread", again)
        self.assertIn("as chosen when the run began", again)

    def test_networks_take_all_cores_untried(self):
        self.assertNotIn("short trial", self.train("run", "--set", "strategy.kind=hogwild").out)


class Predicted(InPlaceSets):
    def told(self, *words):
        return json.loads(self.succeed("info", "linear.toml", "--json", *words).out)

    def test_info_tells_the_threads_of_a_run(self):
        for strategy in ("serial", "averaging", "hogwild"):
            with self.subTest(strategy=strategy):
                words = ("--set", f"strategy.kind={strategy}", "--set", "train.threads=2")
                words += ("--set", "strategy.threads=2") if strategy == "hogwild" else ()
                self.train("run", "--overwrite", *words, config="linear.toml")
                self.assertEqual(self.told(*words)["threads"], self.summary("run")["threads"])

    def test_info_refuses_what_a_run_refuses(self):
        for strategy, config in (("feature_parallel", "factorization.toml"), ("private_copies", "config.toml")):
            words = (config, "--set", f"strategy.kind={strategy}")
            said = [self.unisono(command, *words) for command in ("info", "train")]
            self.assertEqual([result.code for result in said], [2, 2], said)
            self.assertEqual(messages(said[0]), messages(said[1]))

    def test_the_key_of_too_many_threads_is_named(self):
        threads = os.cpu_count() + 1
        words = ("--set", "strategy.kind=hogwild", "--set", f"strategy.threads={threads}", "--set", "train.epochs=1")
        told = self.train("crowded", *words, config="linear.toml").err
        self.assertIn("use fewer ranks or a lower strategy.threads", told)

    def test_ranks_that_divide_features_all_train(self):
        words = ("--set", "strategy.kind=feature_parallel", "--set", "strategy.threads=1")
        told = self.train("divided", *words, config="linear.toml", ranks=2).out
        self.assertIn("feature_parallel on 2 ranks, which divide the features, × 1 thread", told)
        self.assertNotIn("of which", told + (self.folder / "divided/config.toml").read_text())

    def test_info_counts_the_copies_of_divided_rows(self):
        with h5py.File(self.folder / "rows.h5") as file:
            rows, values = len(file["train/labels"]), len(file["train/features/data"])
        bytes_of = {}
        for threads in (1, 2):
            words = ("--set", "strategy.kind=feature_parallel", "--set", f"strategy.threads={threads}")
            bytes_of[threads] = self.told(*words)["memory"]["buffers of the strategy"]
        # A column and a value of four bytes each; eight bytes for each row's begin, in each part.
        self.assertEqual(bytes_of, {1: 0, 2: 8 * values + 2 * 8 * (rows + 1)})


if __name__ == "__main__":
    unittest.main()
