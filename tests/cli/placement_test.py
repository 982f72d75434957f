"""Settings that are left to the placement of a model on the ranks: chosen by memory and speed, and written down."""

import json
import os
import re
import unittest

from harness import CONFIG, BinaryTest, command, finished, messages, settings, without_sanitizer

# Four blocks that can be cut, of which the first two have most flops and the last most parameters.
LAYERS = """layers = [
  { kind = "convolution", channels = 8, kernel = 5, padding = 2 },
  { kind = "relu" },
  { kind = "convolution", channels = 8, kernel = 5, padding = 2 },
  { kind = "relu" },
  { kind = "flatten" },
  { kind = "dense", units = 300 },
  { kind = "tanh" },
  { kind = "dense", units = 100 },
  { kind = "tanh" },
  { kind = "dense", units = 10 },
]
"""
DEEP = re.sub(r"layers = \[.*?\n\]\n", LAYERS, CONFIG, flags=re.DOTALL).replace("epochs = 2", "epochs = 1")


MIB = 1 << 20


class Placed(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", DEEP)

    def info(self, *pairs, ranks=0):
        return json.loads(self.succeed("info", "config.toml", "--json", *settings(*pairs), ranks=ranks).out)

    def value(self, run, key):
        found = re.search(rf"(?m)^{key} = (.*)$", (self.folder / run / "config.toml").read_text())
        return json.loads(found.group(1))


class Shown(Placed):
    def test_info_shows_memory_speed_and_a_timeline(self):
        words = settings("replica.stages=2", "train.micro_batches=4")
        text = self.succeed("info", "config.toml", *words, "--timeline", "step.svg").out
        for pattern in (r"(?m)^stage +rank +parameters", r"(?m)^  all +", "stages wait for", r"(?m)^  examples "):
            self.assertRegex(text, pattern)
        self.assertTrue((self.folder / "step.svg").read_text().startswith("<"))
        shown = json.loads(self.succeed("info", "config.toml", "--json", *words).out)
        self.assertEqual(shown["step"]["micro_batches"], 4)
        self.assertAlmostEqual(sum(stage["flops_share"] for stage in shown["stages"]), 1)
        for stage in shown["stages"]:
            self.assertEqual(sum(stage["memory"].values()), stage["peak_memory_bytes"])
            self.assertLess(stage["peak_memory_bytes"], stage["limit_bytes"])

    def test_one_micro_batch_and_the_same_activations_in_both_tables(self):
        text = self.succeed("info", "config.toml", *settings("replica.stages=2")).out
        self.assertIn(" in 1 micro-batch on 1 replica ", text)
        rows = re.findall(r"(?m)^ +\d+  +\d+  .*  +([\d.]+ [KM]iB)  \S", text)
        row = re.search(r"(?m)^  activations and their gradients(.*)$", text).group(1)
        self.assertEqual(rows, re.findall(r"[\d.]+ [KM]iB", row), text)

    def test_ranks_that_train_refuses_are_refused_in_the_same_words(self):
        two = settings("replica.stages=2")
        shown = self.unisono("info", "config.toml", *two, ranks=3)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("2 stages do not divide 3 ranks", shown.err)
        self.assertEqual(messages(shown), messages(self.train("new", *two, ranks=3, code=2)))
        self.succeed("info", "config.toml", *settings("replica.stages=4"), ranks=2)  # a preview of more ranks

    def test_a_faster_rank_gets_more_layers_wherever_it_is(self):
        for speed, ranks in (("[1, 4]", [0, 1]), ("[4, 1]", [1, 0])):
            shown = self.info("replica.stages=2", "train.micro_batches=8", f"replica.placement.speed={speed}")
            shares = {stage["rank"]: stage["flops_share"] for stage in shown["stages"]}
            fast = 1 if speed == "[1, 4]" else 0
            self.assertGreater(shares[fast], shares[1 - fast], shown["stages"])

    def test_a_rank_of_little_memory_gets_few_parameters(self):
        free = self.info("replica.stages=2", 'replica.placement.memory=["1 GiB", "1 GiB"]')
        needs = [stage["peak_memory_bytes"] for stage in free["stages"]]
        least = (min(needs) + 3 * max(needs)) / 4 / MIB
        one = self.info("replica.stages=2", f'replica.placement.memory=["{least:.1f} MiB", "1 GiB"]')
        for stage in one["stages"]:
            self.assertLessEqual(stage["peak_memory_bytes"], stage["limit_bytes"])
        self.assertTrue(one["step"]["fits"])

    def test_ranks_are_as_fast_as_they_pretend(self):
        two = ("replica.stages=2", "train.micro_batches=4")
        for emulated in ("[2, 6]", "[3]"):
            told = [
                self.info(*two, f"{key}={emulated}", *more)["step"]["seconds"]
                for key, more in (
                    ("replica.placement.speed", []),
                    ("fault.emulated_gflops", ["replica.placement.speed=measured"]),
                )
            ]
            self.assertAlmostEqual(*told)

    def test_what_does_not_fit_is_said(self):
        shown = self.info("replica.stages=2", 'replica.placement.memory="3 MiB"')
        self.assertFalse(shown["step"]["fits"])
        self.assertIn("fits into no placement on 2 ranks", shown["refusal"])


class Timeline(Placed):
    """The file of info --timeline."""

    def draw(self, file, *words, stages=2, ranks=0):
        return self.unisono("info", "config.toml", *settings(f"replica.stages={stages}"), "--timeline", file, *words,
                            ranks=ranks)

    def refused(self, message, file, *words, **options):
        with self.subTest(file=file, words=words):
            before = sorted(self.folder.rglob("*"))
            result = self.draw(file, *words, **options)
            self.assertEqual((result.code, len(messages(result))), (2, 1), result)
            self.assertRegex(messages(result)[0], rf"--timeline.*{message}")
            self.assertEqual(result.out, "")
            self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_an_earlier_drawing_is_replaced_only_if_that_is_asked_for(self):
        self.assertEqual(self.draw("step.svg").code, 0)
        first = (self.folder / "step.svg").read_bytes()
        self.assertTrue(first.startswith(b"<svg"))
        self.refused("already exists; .*--overwrite", "step.svg")
        self.refused("already exists", "step.svg", ranks=2)
        self.assertEqual((self.folder / "step.svg").read_bytes(), first)
        self.assertEqual(self.draw("step.svg", "--overwrite", stages=3).code, 0)
        self.assertNotEqual((self.folder / "step.svg").read_bytes(), first)

    def test_nothing_else_is_replaced(self):
        (self.folder / "folder").mkdir()
        os.mkfifo(self.folder / "pipe")
        self.write("other.txt", "mine")
        self.refused("already exists", "config.toml")
        for name in ("config.toml", "other.txt"):
            self.refused("is not a drawing", name, "--overwrite")
        for name in ("folder", "folder/", "pipe", "digits.h5", "/dev/null"):
            self.refused("not a regular file", name, "--overwrite")
        self.assertEqual((self.folder / "other.txt").read_text(), "mine")

    def test_what_cannot_be_written_is_said_before_the_report(self):
        self.refused("there is no folder none; make it", "none/step.svg")
        self.refused("there is no folder config.toml", "config.toml/step.svg")
        self.refused("name of the file is empty", "")
        self.refused("only a pipeline has one", "step.svg", stages=1)
        self.refused("only a pipeline has one", "step.svg", stages=1, ranks=2)


class Trained(Placed):
    def test_a_run_writes_down_what_was_chosen_and_repeats(self):
        auto = settings("replica.stages=auto", "train.micro_batches=auto", "replica.recompute=auto")
        auto += settings("replica.placement.speed=[1, 3]")
        out = self.train("first", *auto, ranks=2).out
        self.assertIn("placement:", out)
        self.assertGreaterEqual(self.value("first", "micro_batches"), 1)
        self.assertIn(self.value("first", "stages"), (1, 2))
        self.assertIn(self.value("first", "recompute"), ("none", "all"))
        chosen = {one["key"]: one["value"] for one in self.summary("first")["chosen"] if one["by"] == "placement"}
        self.assertEqual(chosen["train.micro_batches"], self.value("first", "micro_batches"))
        self.assertEqual(chosen["replica.stages"], self.value("first", "stages"))
        self.succeed("train", "first/config.toml", "--output", "second", ranks=2)
        self.assert_same_bits("first", "second")
        self.assertEqual(self.summary("second")["chosen"], [])

    def test_ranks_in_another_order_train_the_same_bits(self):
        pairs = ("replica.stages=2", "train.micro_batches=4")
        self.train("serial", *settings("train.micro_batches=4"))
        self.train("swapped", *settings(*pairs, "replica.placement.ranks=[1, 0]"), ranks=2)
        self.train("fast", *settings(*pairs, "replica.placement.speed=[4, 1]"), ranks=2)
        self.train("timed", *settings(*pairs, "replica.placement.speed=measured"), ranks=2)
        for run in ("swapped", "fast", "timed"):
            self.assert_same_bits(run, "serial")
        self.assertEqual(len(self.value("fast", "first_layers")), 2)

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_a_resumed_run_keeps_the_sizes_that_were_chosen(self):
        limit = "replica.placement.memory={}"
        for name, pairs, before, after in (
            ("auto", ["train.micro_batches=auto", "replica.stages=auto"], "1 GiB", "1 GiB"),
            ("largest", ["train.batch_size=largest", "train.micro_batches=4"], "100 MiB", "200 MiB"),
        ):
            with self.subTest(name):
                words = settings(*pairs)
                self.train(name, *words, *settings(limit.format(before)), ranks=2)
                sizes = [self.value(name, key) for key in ("batch_size", "micro_batches")]
                longer = settings(limit.format(after), "train.epochs=2")
                result = self.train(name, "--resume", *words, *longer, ranks=1)
                self.assertIn("resumed at step", result.out)
                self.assertEqual([self.value(name, key) for key in ("batch_size", "micro_batches")], sizes)

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_the_largest_batch_fits_and_the_next_does_not(self):
        limit = 'replica.placement.memory="110 MiB"'
        words = settings("replica.stages=2", "train.micro_batches=4", "train.batch_size=largest", limit)
        self.train("largest", *words, ranks=2)
        batch = self.value("largest", "batch_size")
        self.assertEqual(batch % 4, 0)
        self.assertLessEqual(batch, 240)
        self.assertGreaterEqual(batch, 24)


class Refused(Placed):
    def refused(self, ranks, message, *pairs):
        with self.subTest(pairs):
            result = self.train("new", *settings(*pairs), ranks=ranks, code=2)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertRegex(messages(result)[0], message)
            self.assertFalse((self.folder / "new").exists())

    def test_a_model_that_fits_no_placement(self):
        self.refused(
            2,
            r"no placement on 2 ranks: stage \d \(.*\) would need .* more than the 3.0 MiB that rank \d may take",
            "replica.stages=2",
            'replica.placement.memory="3 MiB"',
        )

    def test_the_setting_that_would_do_is_named(self):
        pairs = ("replica.stages=2", "replica.recompute=all", "train.micro_batches=8", "train.batch_size=16")
        needs = [
            max(stage["peak_memory_bytes"] for stage in self.info(*pairs, *more, ranks=2)["stages"])
            for more in ([], ["train.evaluation_batch_size=6"])
        ]
        limit = f'replica.placement.memory="{sum(needs) / 2 / MIB:.2f} MiB"'
        self.refused(2, r"what would do: .*train.evaluation_batch_size = \d+", *pairs, limit)

    def test_settings_that_make_no_sense(self):
        two = "replica.stages=2"
        three = 'replica.placement.memory=["1 GiB", "1 GiB", "1 GiB"]'
        self.refused(2, "3 values for 2 ranks", "replica.stages=1", three)
        self.refused(2, "sizes above 0, each with its unit", two, 'replica.placement.memory="2"')
        self.refused(2, "sizes above 0, each with its unit", two, 'replica.placement.memory=["1 GiB", "-1 MiB"]')
        self.refused(2, "must be above 0", two, "replica.placement.speed=[1, 0]")
        self.refused(2, "3 values for 2 ranks", two, "replica.placement.speed=[1, 2, 3]")
        self.refused(2, "name each of a replica's ranks once", two, "replica.placement.ranks=[0, 0]")
        self.refused(2, "names 3 ranks, but there are 2 stages", two, "replica.placement.ranks=[0, 1, 2]")
        swapped = "replica.placement.ranks=[1, 0]"
        self.refused(2, r'but stages = "auto" chooses how many there are: set', "replica.stages=auto", swapped)
        cuts = 'replica.placement.first_layers=["convolution1"]'
        self.refused(2, 'stages = "auto" chooses the cuts', "replica.stages=auto", cuts)
        self.refused(2, "must be an integer or 'auto'", "replica.stages=many")
        self.refused(2, "must be an integer or 'largest'", "train.batch_size=huge")
        self.refused(2, "trains only models that each rank holds", "replica.stages=auto", "strategy.kind=hogwild")
        server = "strategy.kind=parameter_server"
        self.refused(2, "instead of \"largest\"", "train.batch_size=largest", server)
        self.refused(2, "instead of \"auto\"", "train.micro_batches=auto", server)


WIDE = (
    """
name = "wide"
[data]
path = "digits.h5"
[model]
kind = "network"
layers = [
  { kind = "flatten" },
"""
    + 13 * '  { kind = "dense", units = 1440 },\n  { kind = "relu" },\n'
    + """  { kind = "dense", units = 10 },
]
[optimizer]
kind = "adam"
learning_rate = 0.0001
[train]
threads = 1
epochs = 1
batch_size = 120
micro_batches = 8
[replica]
stages = "auto"
"""
)


class LargerThanARank(BinaryTest):
    """A model that needs 700 MiB, on ranks of which each may have 300 MiB of data."""

    LIMIT = 300 * MIB

    def limited(self, ranks, *words):
        return finished(["prlimit", f"--data={self.LIMIT}", *command(ranks, *words)], self.folder)

    def train_limited(self, ranks):
        return self.limited(ranks, "train", "wide.toml", "--output", "run")

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_it_is_trained_on_four_ranks_and_refused_on_two(self):
        self.write("wide.toml", WIDE)
        whole = json.loads(self.succeed("info", "wide.toml", "--json", "--set", "replica.stages=1").out)
        self.assertGreater(whole["peak_memory_bytes"], 700 * MIB)
        refused = self.train_limited(2)
        self.assertEqual(refused.code, 2, refused)
        self.assertRegex(refused.err, r"fits into no placement on 2 ranks: stage \d .* would need .* more than")
        self.assertFalse((self.folder / "run").exists())
        done = self.train_limited(4)
        self.assertEqual(done.code, 0, done)
        summary = self.summary("run")
        self.assertEqual(summary["pipeline"]["stages"], 4)
        self.assertLess(summary["peak_memory_bytes"], self.LIMIT)

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_replicas_of_four_ranks_are_recommended_for_it(self):
        self.write("wide.toml", WIDE)
        words = settings("replica.stages=1", "train.micro_batches=1")
        done = self.limited(4, "plan", "wide.toml", "--write", "chosen.toml", "--json", *words)
        self.assertEqual(done.code, 0, done)
        plan = json.loads(done.out)
        ranks_of_replicas = {way["stages"] * way["tensor"] for way in plan["predictions"] if way["fits"]}
        self.assertEqual(plan["recommended"]["stages"] * plan["recommended"]["tensor"], 4)
        self.assertEqual(ranks_of_replicas, {4})  # pipelines of four stages, or layers that four ranks share
        self.assertIn("no rank can hold the whole model", " ".join(plan["reasons"]))
        self.train("run", ranks=4, config="chosen.toml")
        self.assertLess(self.summary("run")["peak_memory_bytes"], 1.1 * plan["recommended"]["memory_bytes"])


if __name__ == "__main__":
    unittest.main()
