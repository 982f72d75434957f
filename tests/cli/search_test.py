"""Searches: trials side by side, the same table on any number of ranks, kills and resumption, what is refused."""

import csv
import json
import os
import random
import signal
import time
import unittest

from harness import INTERRUPTED, BinaryTest, messages, ranks_of, settings

SPACE = """
[search]
method = "random"
trials = 6
[search.space]
"model.layers[0].channels" = [2, 4]
"optimizer" = [
  { kind = "sgd", learning_rate = { log = [1e-2, 0.3] } },
  { kind = "adam", learning_rate = { log = [1e-3, 0.03] } },
]
"""


class SearchTest(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("search.toml", self.config() + SPACE)

    def config(self):
        return (self.folder / "config.toml").read_text()

    def search(self, output, *arguments, ranks=0, code=0, config="search.toml", keys=(), environment=None):
        held_back = settings("data.validation_fraction=0.25", "data.augmentation.shift=0", *keys)
        words = ("search", config, "--output", output, *held_back, *arguments)
        result = self.unisono(*words, ranks=ranks, environment=environment)
        self.assertEqual(result.code, code, result)
        return result

    def table(self, output):
        return (self.folder / output / "trials.csv").read_text()

    def rows(self, output):
        return list(csv.DictReader(self.table(output).splitlines()))


class Trials(SearchTest):
    def test_the_table_is_the_same_on_any_number_of_ranks_and_threads(self):
        self.search("one")
        rows = self.rows("one")
        self.assertEqual([row["trial"] for row in rows], [str(number) for number in range(6)])
        self.assertEqual({row["status"] for row in rows}, {"complete"})
        for ranks in (2, 3, 4):
            self.search(f"on-{ranks}", ranks=ranks)
            self.assertEqual(self.table(f"on-{ranks}"), self.table("one"))

    def test_a_trial_is_what_its_config_trains(self):
        result = self.search("found")
        best = max(self.rows("found"), key=lambda row: float(row["value"]))
        self.assertIn(f"trial {best['trial']}, validation accuracy", result.out)
        self.train("again", "--compare-with", f"found/trials/000{best['trial']}", config="found/best.toml")
        summary = json.loads((self.folder / "again/summary.json").read_text())
        self.assertEqual(summary["validation"]["accuracy"], float(best["value"]))
        ours, theirs = self.vectors("again"), self.vectors(f"found/trials/000{best['trial']}")
        for name, values in ours.items():
            self.assertEqual(values.tobytes(), theirs[name].tobytes(), name)

    def test_only_the_best_trial_keeps_checkpoints(self):
        self.search("found")
        best = max(self.rows("found"), key=lambda row: float(row["value"]))["trial"]
        kept = [path.parent.name for path in (self.folder / "found/trials").glob("*/checkpoints")]
        self.assertEqual(kept, [f"000{best}"])
        self.search("lean", keys=["search.keep=none"])
        self.assertEqual(self.table("lean"), self.table("found"))
        self.assertFalse((self.folder / "lean/trials").exists())

    def test_times_say_how_busy_the_cores_were(self):
        self.search("timed", ranks=2, keys=["search.threads_per_trial=1"])
        found = json.loads((self.folder / "timed/search.json").read_text())
        self.assertGreaterEqual(found["at_a_time"], 2)
        in_trials = sum(trial["seconds"] for trial in found["trials"])
        self.assertGreater(in_trials, 0)
        self.assertLessEqual(in_trials, found["at_a_time"] * found["seconds"])

    def test_trials_on_two_ranks_each(self):
        self.search("pairs", ranks=4, keys=["search.ranks_per_trial=2", "search.trials=4"])
        self.search("pair", ranks=2, keys=["search.ranks_per_trial=2", "search.trials=4"])
        self.assertEqual(self.table("pairs"), self.table("pair"))

    def test_repeats_have_seeds_of_their_own_and_their_mean_counts(self):
        self.search("twice", keys=["search.repeats=2", "search.trials=2"])
        for row in self.rows("twice"):
            values = []
            for repeat in (0, 1):
                folder = self.folder / f"twice/trials/000{row['trial']}/repeat-{repeat}"
                values.append(json.loads((folder / "summary.json").read_text())["validation"]["accuracy"])
            self.assertAlmostEqual(float(row["value"]), sum(values) / 2, places=12)
            self.assertGreater(float(row["deviation"]), 0)

    def test_trials_that_cannot_be_trained_or_diverge_are_rows(self):
        space = SPACE.replace("[2, 4]", "[2, 3000000000]").replace("[1e-2, 0.3]", "[1e20, 1e25]")
        self.write("search.toml", self.config() + space.replace("trials = 6", "trials = 16"))
        self.search("mixed", ranks=2)
        rows = self.rows("mixed")
        self.assertEqual({row["status"] for row in rows}, {"complete", "refused", "diverged"})
        for row in rows:
            self.assertEqual(bool(row["message"]), row["status"] != "complete", row)

    def test_a_dry_run_lists_the_trials_and_leaves_nothing(self):
        self.search("found")
        result = self.search("dry", "--dry-run")
        lines = result.out.splitlines()
        self.assertEqual(len(lines), 6)
        for row, line in zip(self.rows("found"), lines):
            self.assertIn(f"optimizer = {row['optimizer']}", line)
        self.assertFalse((self.folder / "dry").exists())


class Resumption(SearchTest):
    LONG = ("train.epochs=6", "search.trials=8")

    def kill_at_random(self, output, ranks, how, times=5):
        draw = random.Random(7)
        resume = ()
        for _ in range(times):
            held_back = settings("data.validation_fraction=0.25", "data.augmentation.shift=0", *self.LONG)
            words = ("search", "search.toml", "--output", output, *held_back, *resume)
            with self.started(*words, ranks=ranks) as process:
                journal = self.folder / output / "journal.jsonl"
                before = len(journal.read_text().splitlines()) if journal.exists() else 0
                deadline = time.monotonic() + 60
                while process.poll() is None and time.monotonic() < deadline:
                    lines = len(journal.read_text().splitlines()) if journal.exists() else 0
                    if lines > before + 1:
                        break
                    time.sleep(0.01)
                time.sleep(draw.uniform(0, 0.15))
                for pid in ranks_of(process):
                    try:
                        os.kill(pid, how)
                    except ProcessLookupError:
                        pass
                process.wait(timeout=60)
                if how == signal.SIGTERM and process.returncode != 0:
                    self.assertEqual(process.returncode, INTERRUPTED)
            resume = ("--resume",)

    def test_killed_five_times_and_resumed_gives_the_same_table(self):
        self.search("whole", keys=self.LONG)
        for ranks in (0, 2):
            self.kill_at_random(f"killed-{ranks}", ranks, signal.SIGKILL)
            self.search(f"killed-{ranks}", "--resume", ranks=ranks, keys=self.LONG)
            self.assertEqual(self.table(f"killed-{ranks}"), self.table("whole"))

    def test_sigterm_stops_with_75_and_trials_go_on_from_their_checkpoints(self):
        self.search("whole", keys=self.LONG)
        self.kill_at_random("stopped", 2, signal.SIGTERM, times=2)
        self.search("stopped", "--resume", ranks=2, keys=self.LONG)
        self.assertEqual(self.table("stopped"), self.table("whole"))

    def test_a_complete_search_goes_on_to_more_trials(self):
        self.search("ten", keys=["search.trials=5"])
        self.search("three", keys=["search.trials=3"])
        self.search("three", "--resume", keys=["search.trials=5"])
        self.assertEqual(self.table("three"), self.table("ten"))

    def test_another_config_is_refused(self):
        self.search("found", keys=["search.trials=2"])
        result = self.search("found", "--resume", keys=["search.trials=2", "train.batch_size=12"], code=4)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertIn("train.batch_size", messages(result)[0])

    def test_an_existing_search_is_not_overwritten_unasked(self):
        self.search("found", keys=["search.trials=2"])
        result = self.search("found", keys=["search.trials=2"], ranks=2, code=1)
        self.assertIn("--resume", messages(result)[0])
        self.search("found", "--overwrite", keys=["search.trials=3"])
        self.assertEqual(len(self.rows("found")), 3)


if __name__ == "__main__":
    unittest.main()
