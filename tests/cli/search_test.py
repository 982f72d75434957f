"""Searches: trials side by side, the same table on any number of ranks, kills and resumption, what is refused."""

import csv
import ctypes
import json
import os
import random
import re
import shutil
import signal
import time
import unittest

import h5py
import numpy

from harness import AT_ONCE, INTERRUPTED, BinaryTest, messages, ranks_of, settings

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


def rewrite_journal(path, change):
    """Changes the text of its entries, each of which has a hash of the one before."""
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    xxh3.restype = ctypes.c_uint64
    lines, last = [], ""
    for line in path.read_text().splitlines():
        text = change(line.split(" ", 1)[1])
        hashed = (last + text).encode()
        last = f"{xxh3(hashed, ctypes.c_size_t(len(hashed))):016x}"
        lines.append(f"{last} {text}\n")
    path.write_text("".join(lines))


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
        whole = self.unisono("evaluate", "found")
        self.assertEqual(whole.code, 4, whole)
        self.assertIn("found: is no run, but a search: its models are in the folders 'trials'", messages(whole)[0])
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

    def started(self, output):
        lines = (self.folder / output / "journal.jsonl").read_text().splitlines()
        entries = [json.loads(line.split(" ", 1)[1]) for line in lines]
        return [entry["started"]["trial"] for entry in entries if "started" in entry]

    def test_the_longest_trials_start_first_where_all_are_known(self):
        space = SPACE.replace("[2, 4]", "[2, 30]") + '"train.epochs" = [1, 2]\n'
        self.write("search.toml", self.config() + space.replace("trials = 6", "trials = 8"))
        self.search("found")
        rows = self.rows("found")

        def length(trial):
            return int(rows[trial]["model.layers.0.channels"]) * int(rows[trial]["train.epochs"])

        self.assertEqual(self.started("found"), sorted(range(8), key=lambda trial: (-length(trial), trial)))
        self.search("by-number", keys=["search.stop_after_seconds=1000"])
        self.assertEqual(self.started("by-number"), list(range(8)))
        self.assertEqual(self.table("by-number"), self.table("found"))

    def test_folders_of_other_commands_are_refused(self):
        self.search("found", keys=["search.trials=1"])
        for words in ((), ("--overwrite",), ("--resume",)):
            result = self.unisono("train", "config.toml", "--output", "found", *words)
            self.assertEqual(result.code, 1, result)
            self.assertIn("found: holds a search", messages(result)[0])
        self.train("run")
        self.assertIn("run: holds a run", messages(self.search("run", "--overwrite", code=1))[0])

    def test_what_is_replaced_goes_away(self):
        self.search("found", keys=["search.trials=1"])
        folds = settings("data.augmentation.shift=0", "cross_validation.folds=2", "train.epochs=1")
        done = self.unisono("cross-validate", "config.toml", "--output", "found", "--overwrite", *folds)
        self.assertEqual(done.code, 0, done)
        left = {path.name for path in (self.folder / "found").iterdir()}
        self.assertFalse(left & {"search.json", "trials.csv", "best.toml", "trials"}, left)

    def test_more_threads_than_cores_are_warned_of(self):
        threads = os.cpu_count() + 1
        keys = [f"search.threads_per_trial={threads}", "search.trials=1", "train.epochs=1"]
        result = self.search("crowded", ranks=2, keys=keys)
        self.assertIn(f"search.threads_per_trial = {threads}, but a rank has", result.err)
        self.assertEqual(result.err.count("threads_per_trial"), 1, result)

    def test_a_folder_that_holds_trials_is_the_only_thing_that_is_said(self):
        self.search("found", keys=["search.trials=1"])
        result = self.search("found", keys=["search.trials=1"], code=1)
        self.assertIn("found: already holds trials", messages(result)[0])
        self.assertNotIn("1 trial by", result.out)

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
        space = SPACE.replace('channels" = [2, 4]', 'kernel" = [5, 50]').replace("[1e-2, 0.3]", "[1e20, 1e25]")
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

    def test_a_dry_run_refuses_what_the_search_refuses(self):
        held_back = settings("data.augmentation.shift=0")
        fraction = settings("data.validation_fraction=0.25")
        for keys, reason in (
            (held_back, "has no validation examples, by which trials are compared"),
            ((*fraction, *settings("search.metric=validation.kappa")), "this model has no such metric"),
            ((*fraction, *settings("search.ranks_per_trial=2")), "cannot be divided into groups of 2"),
            ((*fraction, *settings("data.path=none.h5")), "none.h5"),
            ((*fraction, *settings("model.layers[5].units=0")), "units"),
        ):
            said = []
            for dry in ((), ("--dry-run",)):
                result = self.unisono("search", "search.toml", "--output", "refused", *keys, *dry)
                self.assertIn(result.code, (2, 3), result)
                said.append((result.code, messages(result)))
            self.assertIn(reason, said[0][1][0])
            self.assertEqual(said[0], said[1])


class KilledTest(SearchTest):
    LONG = ("train.epochs=6", "search.trials=8")

    def kill_at_random(self, output, ranks, how, times, keys=LONG):
        """Starts a search so many times and stops it each time: the first with some lines more in its journal."""
        draw = random.Random(7)
        resume = ()
        for _ in range(times):
            held_back = settings("data.validation_fraction=0.25", "data.augmentation.shift=0", *keys)
            words = ("search", "search.toml", "--output", output, *held_back, *resume)
            at_once = AT_ONCE if how == signal.SIGKILL else None
            with self.started(*words, ranks=ranks, environment=at_once) as process:
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


class Resumption(KilledTest):
    def test_killed_three_times_and_resumed_gives_the_same_table(self):
        self.search("whole", keys=self.LONG)
        for ranks in (0, 2):
            self.kill_at_random(f"killed-{ranks}", ranks, signal.SIGKILL, times=3)
            self.search(f"killed-{ranks}", "--resume", ranks=ranks, keys=self.LONG)
            self.assertEqual(self.table(f"killed-{ranks}"), self.table("whole"))

    def test_sigterm_stops_with_75_and_trials_go_on_from_their_checkpoints(self):
        self.search("whole", keys=self.LONG)
        self.kill_at_random("stopped", 2, signal.SIGTERM, times=2)
        self.search("stopped", "--resume", ranks=2, keys=self.LONG)
        self.assertEqual(self.table("stopped"), self.table("whole"))

    def test_a_search_of_before_goes_on_with_its_own_validation_examples(self):
        """Its journal has no data.split_by: versions without it did not keep groups together."""
        shutil.copy(self.digits, self.folder / "grouped.h5")
        with h5py.File(self.folder / "grouped.h5", "a") as file:
            file["train/groups"] = numpy.arange(240) % 24
        rows = ["data.path=grouped.h5", "data.split_by=rows"]
        self.search("whole", keys=[*rows, "search.trials=4"])
        self.search("groups", keys=["data.path=grouped.h5", "search.trials=4"])
        self.assertNotEqual(self.table("whole"), self.table("groups"))
        self.search("run", keys=[*rows, "search.trials=2"])
        journal = self.folder / "run/journal.jsonl"
        rewrite_journal(journal, lambda text: text.replace('split_by = \\"rows\\"\\n', ""))
        self.assertNotIn("split_by", journal.read_text())
        self.search("run", "--resume", ranks=2, keys=["data.path=grouped.h5", "search.trials=4"])
        self.assertEqual(self.table("run"), self.table("whole"))

    def test_a_complete_search_goes_on_to_more_trials(self):
        self.search("ten", keys=["search.trials=5"])
        self.search("three", keys=["search.trials=3"])
        self.search("three", "--resume", keys=["search.trials=5"])
        self.assertEqual(self.table("three"), self.table("ten"))

    def test_a_search_of_before_goes_on_with_milestones_in_its_warm_up(self):
        later = ["schedule.kind=step", "schedule.warmup_epochs=1", "schedule.milestones=[2]"]
        earlier = [*later[:2], "schedule.milestones=[1]"]
        result = self.search("new", keys=earlier, code=2)
        self.assertIn("warm-up", messages(result)[0])
        self.search("old", keys=["search.trials=2", *later])
        rewrite_journal(
            self.folder / "old/journal.jsonl",
            lambda text: re.sub(r"(milestones = \[ *)2", r"\g<1>1", text),
        )
        self.search("old", "--resume", keys=["search.trials=4", *earlier])
        self.assertEqual({row["status"] for row in self.rows("old")}, {"complete"})
        self.assertEqual(len(self.rows("old")), 4)

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


class Methods(KilledTest):
    """Each method, killed and resumed."""

    CHOICES = SPACE.replace("{ log = [1e-2, 0.3] }", "{ choices = [0.01, 0.1] }").replace(
        "{ log = [1e-3, 0.03] }", "{ choices = [0.003, 0.01] }"
    )

    def setUp(self):
        super().setUp()
        self.write("grid.toml", self.config() + self.CHOICES.replace('"random"\ntrials = 6', '"grid"'))

    def journal(self, output):
        """What happened, in order: what began, and with which loss it ended."""
        lines = (self.folder / output / "journal.jsonl").read_text().splitlines()
        entries = [json.loads(line[17:]) for line in lines]
        return [entry for entry in entries if "started" in entry or "ended" in entry]

    def test_tables_that_do_not_depend_on_timing_are_the_same_after_kills_on_any_ranks(self):
        for method, ranks, keys in (
            ("grid", 0, ()),
            ("sobol", 2, ("search.trials=8",)),
            ("tpe", 4, ("search.trials=8", "search.lookahead=3", "search.startup_trials=4")),
            ("random", 2, ("search.trials=3", "search.repeats=2")),
        ):
            config = "grid.toml" if method == "grid" else "search.toml"
            keys = (f"search.method={method}", *keys)
            (self.folder / "search.toml").write_text((self.folder / config).read_text())
            self.search(f"{method}-whole", keys=keys)
            output = f"{method}-killed"
            self.kill_at_random(output, ranks, signal.SIGKILL, times=2, keys=keys)
            self.search(output, "--resume", ranks=4 - ranks, keys=keys)
            self.assertEqual(self.table(output), self.table(f"{method}-whole"), (method, ranks))
            self.write("search.toml", self.config() + SPACE)

    def test_every_promotion_of_halving_is_legal(self):
        keys = ("search.method=halving", "search.trials=12", "train.epochs=9")
        for ranks in (0, 3):
            output = f"halving-{ranks}"
            self.kill_at_random(output, ranks, signal.SIGKILL, times=2, keys=keys)
            self.search(output, "--resume", ranks=ranks, keys=keys)
            losses = {1: {}, 3: {}, 9: {}}  # of the trials that have ended so many epochs
            promotions = set()
            for entry in self.journal(output):
                step = entry.get("started") or entry.get("ended")
                if "ended" in entry:
                    result = entry["result"]
                    failed = result["status"] != "complete"
                    losses[step["epochs"]][step["trial"]] = float("inf") if failed else -result["value"]
                elif step["epochs"] > 1:
                    rung = losses[step["epochs"] // 3]
                    best = sorted(rung, key=lambda trial: (rung[trial], trial))[: len(rung) // 3]
                    if (step["trial"], step["epochs"]) not in promotions:  # a kill makes it start again
                        self.assertIn(step["trial"], best)
                    promotions.add((step["trial"], step["epochs"]))
            self.assertEqual(len(losses[1]), 12)
            self.assertGreaterEqual(len(losses[9]), 1)
            # It went on from where it was: its summary counts all epochs, and it trained only those that were missing.
            last = next(iter(losses[9]))
            self.assertEqual(self.summary(f"{output}/trials/{last:04}")["epochs"], 9)

    def test_copies_of_a_population_go_from_the_better_to_the_worse(self):
        keys = ("search.method=population", "search.trials=6", "train.epochs=4", "search.exploited_fraction=0.34")
        for ranks in (0, 3):
            output = f"population-{ranks}"
            self.kill_at_random(output, ranks, signal.SIGKILL, times=2, keys=keys)
            self.search(output, "--resume", ranks=ranks, keys=keys)
            losses = {epochs: {} for epochs in range(1, 5)}
            seen, copies = set(), 0
            for entry in self.journal(output):
                step = entry.get("started") or entry.get("ended")
                if "ended" in entry:
                    result = entry["result"]
                    failed = result["status"] != "complete"
                    losses[step["epochs"]][step["trial"]] = float("inf") if failed else -result["value"]
                elif "copied" in step and (step["trial"], step["epochs"]) not in seen:
                    rung = losses[step["epochs"] - 1]
                    ranking = sorted(rung, key=lambda trial: (rung[trial], trial))
                    count = int(0.34 * len(ranking))
                    self.assertIn(step["copied"], ranking[:count])
                    self.assertTrue(step["trial"] in ranking[-count:] or rung[step["trial"]] == float("inf"))
                    self.assertLess(rung[step["copied"]], rung[step["trial"]])
                    copies += 1
                seen.add((step["trial"], step["epochs"]))
            self.assertEqual(len(losses[4]), 6)
            self.assertGreater(copies, 0)


class Ends(SearchTest):
    def test_a_trial_that_stopped_early_counts_by_the_metric_of_the_search(self):
        keys = ["train.early_stopping.patience=1", "train.early_stopping.metric=loss", "train.epochs=30"]
        self.search("early", keys=[*keys, "search.trials=4"])
        for row in self.rows("early"):
            self.assertEqual(row["value"], row["validation.accuracy"])

    def test_the_best_trial_is_trained_again_on_all_examples_also_after_it_stopped_early(self):
        keys = ["train.early_stopping.patience=1", "train.epochs=30", "search.refit=true", "search.trials=3"]
        result = self.search("early", keys=keys)
        self.assertIn("the best trial was trained again on all examples", result.out)
        best = max(self.rows("early"), key=lambda row: float(row["value"]))["trial"]
        kept = self.summary(f"early/trials/000{best}")["best"]["epoch"]
        again = self.summary("early/best")
        self.assertEqual(again["epochs"], kept)
        self.assertEqual(again["steps"], kept * 240 // 24)
        self.search("early", "--resume", keys=[*keys[:-1], "search.trials=5"])
        trials = [line for line in (self.folder / "early/journal.jsonl").read_text().splitlines() if '"refit"' in line]
        self.assertEqual(len(trials), 4)  # it began and ended twice

    def test_the_best_config_of_a_trial_that_did_not_go_on_trains_as_long_as_it_did(self):
        self.search("halving", keys=["search.method=halving", "train.epochs=9", "search.trials=9"])
        rows = self.rows("halving")
        best = max(rows, key=lambda row: float(row["value"]))
        self.train("again", config="halving/best.toml")
        self.assertEqual(self.summary("again")["epochs"], int(best["epochs"]))
        self.assertEqual(self.summary("again")["validation"]["accuracy"], float(best["value"]))

    def test_a_search_in_which_no_trial_begins_says_so(self):
        result = self.search("none", keys=["search.stop_after_seconds=1e-6"], code=1)
        self.assertIn("no trial has begun within search.stop_after_seconds", messages(result)[0])
        self.search("none", "--resume", keys=["search.trials=2"])

    def test_fewer_trials_than_have_begun_are_refused(self):
        self.search("found", keys=["search.trials=3"])
        result = self.search("found", "--resume", keys=["search.trials=2"], ranks=2, code=2)
        self.assertIn("trial 2 has begun", messages(result)[0])

    def test_a_search_that_runs_is_not_overwritten(self):
        words = ("search", "search.toml", "--output", "found", *settings("data.validation_fraction=0.25"))
        with self.started(*words, *settings("train.epochs=200")) as process:
            journal = self.folder / "found/journal.jsonl"
            while process.poll() is None and not (journal.exists() and journal.stat().st_size > 0):
                time.sleep(0.01)
            result = self.unisono(*words, "--overwrite")
            self.assertEqual(result.code, 1, result)
            self.assertIn("another process is writing it", messages(result)[0])
            self.assertTrue((self.folder / "found/journal.jsonl").stat().st_size > 0)


if __name__ == "__main__":
    unittest.main()
