"""What a run decides while it trains: its schedule, divergence, the best checkpoint, early stopping, its reports."""

import csv
import json
import os
import re
import signal
import time
import unittest

import h5py
import numpy

from harness import INTERRUPTED, BinaryTest, messages, ranks_of, settings

SGD = ("--set", "optimizer.kind=sgd", "--set", "optimizer.learning_rate=0.1", "--set", "data.augmentation.shift=0")
FALLING = ("--set", "schedule.kind=linear")
HELD_BACK = ("--set", "data.validation_fraction=0.25")  # 180 training examples: 8 steps of 24 an epoch
STRATEGIES = (
    (0, ()),
    (2, ()),
    (2, ("strategy.kind=averaging", "strategy.period=3")),
    (2, ("strategy.kind=hogwild", "strategy.threads=1")),
    (2, ("strategy.kind=parameter_server",)),
    (3, ("strategy.kind=parameter_server", "strategy.servers=1", "strategy.consistency=synchronous")),
    (2, ("strategy.kind=elastic_averaging",)),
)


class ControlTest(BinaryTest):
    def message(self, result):
        self.assertEqual(len(messages(result)), 1, result)
        return messages(result)[0]

    def rates(self, run):
        return {line["step"]: line["learning_rate"] for line in self.metrics(run) if line["event"] == "train"}


class LearningRateOfALongerRun(ControlTest):
    def resume(self, *keys, ranks=0, code=0):
        return self.train("run", *FALLING, "--resume", *settings(*keys), ranks=ranks, code=code)

    def test_another_length_is_refused_with_both_ways_to_choose(self):
        self.train("run", *FALLING)
        before = self.vectors("run")
        for ranks in (0, 2):
            message = self.message(self.resume("train.epochs=4", ranks=ranks, code=2))
            self.assertIn("--set schedule.epochs=2 to continue from 0 as planned (it stays at 0", message)
            self.assertRegex(message, r"--set schedule.epochs=4 to let it fall over 4 epochs and continue from 0\.0048")
        for name, values in self.vectors("run").items():
            self.assertEqual(values.tobytes(), before[name].tobytes())

    def test_the_schedule_can_be_kept(self):
        self.train("run", *FALLING)
        planned = self.rates("run")
        result = self.resume("train.epochs=3", "schedule.epochs=2")
        self.assertIn("falls over 2 of 3 epochs and then stays at 0", result.out)
        rates = self.rates("run")
        self.assertEqual({step: rate for step, rate in rates.items() if step <= 20}, planned)
        self.assertEqual([rates[step] for step in range(21, 31)], [0.0] * 10)

    def test_the_schedule_can_be_stretched_and_says_so(self):
        self.train("run", *FALLING, "--set", "train.epochs=1")
        self.train("whole", *FALLING)
        result = self.resume("train.epochs=2", "schedule.epochs=2")
        self.assertRegex(result.out, r"now falls over 2 epochs instead of 1: it continues from 0\.00474 instead of 0")
        rates, whole = self.rates("run"), self.rates("whole")
        self.assertEqual({step: rates[step] for step in range(11, 21)}, {step: whole[step] for step in range(11, 21)})

    def test_what_was_chosen_is_remembered(self):
        self.train("run", *FALLING)
        self.resume("train.epochs=3", "schedule.epochs=2")
        message = self.message(self.resume("train.epochs=3", code=2))
        self.assertIn("falls over 2 epochs", message)
        self.assertIn("already complete", self.resume("train.epochs=3", "schedule.epochs=2").out)

    def test_a_complete_run_suggests_nothing_that_moves_the_rate_unasked(self):
        self.train("run", *FALLING)
        out = self.resume().out
        self.assertIn("set train.epochs and schedule.epochs: schedule.epochs = 2 keeps the learning rate at 0", out)
        self.train("flat")
        self.assertIn("a larger train.epochs makes it longer", self.train("flat", "--resume").out)

    def test_rates_that_do_not_depend_on_the_length_need_no_choice(self):
        steps = settings("schedule.kind=step", "schedule.milestones=[1]")
        self.train("run", *steps, "--set", "train.epochs=1")
        self.train("run", *steps, "--resume")
        self.train("whole", *steps)
        self.assertEqual(self.rates("run"), self.rates("whole"))

    def test_a_checkpoint_without_the_key_resumes_with_an_unchanged_config(self):
        self.train("run", *FALLING, "--set", "checkpoint.keep_best=false")
        self.train("whole", *FALLING)
        (self.folder / "run" / "checkpoints" / "step-000000020.h5").unlink()
        self.assertIn("resumed at step 10", self.resume("checkpoint.keep_best=false").out)
        self.assert_same_bits("run", "whole")


class Divergence(ControlTest):
    def test_a_loss_that_stays_large_ends_the_run_under_every_strategy(self):
        for number, (ranks, keys) in enumerate(STRATEGIES):
            with self.subTest(ranks=ranks, strategy=keys):
                run = f"run{number}"
                words = settings(*keys, "optimizer.learning_rate=1e4", "train.epochs=4")
                result = self.train(run, *SGD, *words, ranks=ranks, code=1)
                message = self.message(result)
                self.assertRegex(message, r"training error: run\d diverged: the loss .*learning_rate = 10000: .*"
                                          r"start again with a lower .*(are kept|no checkpoint)")
                summary = self.summary(run)
                self.assertEqual(summary["status"], "diverged")
                self.assertLess(summary["epochs"], 4)

    def test_a_loss_that_is_no_number_keeps_the_checkpoints_and_leaves_a_summary(self):
        for number, (ranks, keys) in enumerate(STRATEGIES):
            with self.subTest(ranks=ranks, strategy=keys):
                run = f"run{number}"
                words = settings(*keys, "optimizer.learning_rate=1e38", "train.epochs=3", "train.divergence=0")
                self.message(self.train(run, *SGD, *words, ranks=ranks, code=1))
                self.assertEqual(self.summary(run)["status"], "diverged")
                for path in self.checkpoints(run):
                    self.assertIn(f"{path.name}", self.succeed("evaluate", str(path)).out)
                self.assertEqual(list((self.folder / run / "checkpoints").glob("*.tmp")), [])

    def test_the_checkpoints_of_better_days_are_kept(self):
        often = settings("checkpoint.every_steps=1")
        # A rate that is multiplied by 10,000 from the second epoch on: the loss of step 12 is the first that tells.
        wild = settings("schedule.kind=step", "schedule.milestones=[1]", "schedule.factor=1e4", "train.epochs=4")
        result = self.train("run", *SGD, *often, *wild, code=1)
        names = [path.name for path in self.checkpoints("run")]
        self.assertEqual(names, ["step-000000010.h5", "step-000000011.h5"], result)

    def test_zero_allows_any_number_and_a_run_may_end_badly_then(self):
        words = settings("optimizer.learning_rate=1e3", "train.divergence=0", "train.epochs=3")
        self.train("run", *SGD, *words)
        self.assertEqual(self.summary("run")["status"], "complete")

    def test_a_run_that_ends_while_its_loss_is_large_is_not_complete(self):
        words = settings("optimizer.learning_rate=1e4", "train.epochs=1", "train.report_every_steps=100")
        self.train("run", *SGD, *words, code=1)
        self.assertEqual(self.summary("run")["status"], "diverged")

    def test_a_factor_that_a_healthy_run_would_reach_is_refused(self):
        self.assertIn("above 1", self.message(self.train("run", *settings("train.divergence=0.5"), code=2)))


class BestCheckpoint(ControlTest):
    def best(self, run):
        with h5py.File(self.folder / run / "checkpoints" / "best.h5", "r") as file:
            return json.loads(bytes(file["header"][()]).decode())

    def has_best(self, run):
        return (self.folder / run / "checkpoints" / "best.h5").exists()

    def values(self, run, split, metric, event="evaluation"):
        lines = [line for line in self.metrics(run) if line["event"] == event]
        return {line["step"]: line[metric] for line in lines if line.get("split", split) == split}

    def test_the_test_set_never_chooses_unasked(self):
        for ranks in (0, 2):
            result = self.train(f"run{ranks}", ranks=ranks)
            self.assertEqual(result.out.count("there is no validation set, so no checkpoint is kept as the best"), 1)
            self.assertFalse(self.has_best(f"run{ranks}"))
            self.assertEqual(list(self.values(f"run{ranks}", "test", "loss")), [10, 20])
        result = self.train("quiet", "--set", "checkpoint.keep_best=false")
        self.assertNotIn("no validation set", result.out)

    def test_metric_and_split_are_as_they_are_set(self):
        for split, metric, better in (("validation", "loss", min), ("validation", "top5_accuracy", max),
                                      ("test", "accuracy", max), ("train", "loss", min)):
            with self.subTest(split=split, metric=metric):
                run = f"run-{split}-{metric}"
                words = settings(f"checkpoint.best.on={split}", f"checkpoint.best.metric={metric}", "train.epochs=4")
                self.train(run, *HELD_BACK, *words)
                header = self.best(run)
                self.assertEqual(header["best_by"]["criterion"], f"{split} {metric}")
                self.assertEqual(header["best_by"]["step"], header["step"])
                self.assertEqual(self.summary(run)["best"]["step"], header["step"])
                if split != "train":
                    values = self.values(run, split, metric)
                    self.assertEqual(header["best"], better(values.values()))
                    self.assertEqual(header["step"], next(s for s in values if values[s] == header["best"]))

    def test_an_unknown_metric_is_refused_with_those_there_are(self):
        for ranks in (0, 2):
            result = self.train("run", *settings("checkpoint.best.metric=acuracy"), ranks=ranks, code=2)
            self.assertIn("no such metric on validation; it has loss, accuracy, top5_accuracy", self.message(result))
            self.assertFalse((self.folder / "run").exists())

    def test_another_metric_after_a_resume_begins_anew_and_says_so(self):
        self.train("run", *HELD_BACK, "--set", "train.epochs=1")
        result = self.train("run", *HELD_BACK, "--resume", *settings("checkpoint.best.metric=loss"))
        self.assertIn("the best checkpoint now uses validation loss instead of validation accuracy", result.out)
        self.assertEqual(self.best("run")["best_by"]["criterion"], "validation loss")


class EarlyStopping(ControlTest):
    # Nothing improves by so much after the first evaluation.
    EARLY = (*HELD_BACK, *settings("train.epochs=20", "train.early_stopping.min_delta=100",
                                   "train.early_stopping.patience=3", "train.early_stopping.metric=loss"))

    def train_early(self, run, ranks=0, *more):
        result = self.train(run, *self.EARLY, *more, ranks=ranks)
        self.assertIn("stopped early: the best weights are those of epoch", result.out)
        return self.summary(run)

    def test_it_stops_and_the_best_weights_are_what_is_left(self):
        for number, (ranks, keys) in enumerate(STRATEGIES):
            with self.subTest(ranks=ranks, strategy=keys):
                run = f"run{number}"
                summary = self.train_early(run, ranks, *settings(*keys))
                self.assertEqual((summary["status"], summary["epochs"]), ("complete", 4))
                early = summary["stopped_early"]
                self.assertEqual((early["epoch"], early["weights_of_step"]), (4, summary["best"]["step"]))
                self.assertEqual(self.checkpoints(run)[-1].name, f"step-{early['weights_of_step']:09}.h5")
                out = self.succeed("evaluate", run, "--split", "validation").out
                self.assertIn(f"(step {early['weights_of_step']})", out)
                self.assertAlmostEqual(float(re.search(r"loss +([\d.]+)", out)[1]), summary["best"]["value"], places=4)
                self.assertAlmostEqual(summary["validation"]["loss"], summary["best"]["value"], places=5)

    def test_resumed_as_it_is_it_is_complete_and_with_more_patience_it_goes_on(self):
        for ranks in (0, 2):
            run, whole = f"run{ranks}", f"whole{ranks}"
            self.train_early(run, ranks)
            before = self.summary(run)
            result = self.train(run, *self.EARLY, "--resume", ranks=ranks)
            self.assertIn("already complete; it stopped early; a larger train.early_stopping.patience", result.out)
            by = json.loads((self.folder / run / "summary.json").read_text())["stopped_early"]["by"]
            self.assertEqual(by["on"], by["best_on"])
            path = self.folder / run / "summary.json"
            text = path.read_text()
            path.write_text(text.replace(f'on": "{by["on"]}"', 'on": 1'))  # as older versions wrote "validation"
            self.assertIn('"best_on": 1', path.read_text())
            self.assertIn("already complete", self.train(run, *self.EARLY, "--resume", ranks=ranks).out)
            path.write_text(text)
            self.assertEqual(self.summary(run), before)
            more = settings("train.early_stopping.patience=5")
            self.train(run, *self.EARLY, *more, "--resume", ranks=ranks)
            self.train(whole, *self.EARLY, *more, ranks=ranks)
            self.assertEqual(self.summary(run)["epochs"], 6)
            self.assert_same_bits(run, whole)

    def test_a_stopped_and_resumed_run_still_counts(self):
        self.train("run", *self.EARLY, *settings("train.epochs=2"))
        self.train("run", *self.EARLY, "--resume")
        self.assertEqual(self.summary("run")["stopped_early"]["epoch"], 4)

    def test_what_it_needs_is_asked_for(self):
        for words, text in (
            (("train.early_stopping.patience=2",), "test_fraction|validation_fraction"),
            (("train.early_stopping.patience=2", "train.evaluate_every_epochs=0"), "evaluate_every_epochs"),
            (("train.early_stopping.patience=2", "checkpoint.keep_best=false"), "keep_best = false"),
            (("train.early_stopping.patience=2", "train.early_stopping.metric=rmse",
              "data.validation_fraction=0.25"), "it has loss, accuracy"),
        ):
            with self.subTest(words=words):
                self.assertRegex(self.message(self.train("run", *settings(*words), code=2)), text)


class UndefinedMetrics(ControlTest):
    """Validation examples of one class have no area under the ROC curve."""

    MODEL = """name = "rows"
[data]
path = "rows.h5"
[model]
kind = "linear"
loss = "logistic"
[optimizer]
kind = "sgd"
learning_rate = 0.01
[train]
epochs = 8
batch_size = 20
"""
    SPACE = """
[search]
method = "grid"
metric = "validation.auc"
[search.space]
"optimizer.learning_rate" = { choices = [0.01, 0.1] }
"""

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        with h5py.File(self.folder / "rows.h5", "w") as file:
            for group, rows in (("train", 200), ("validation", 40), ("test", 60)):
                values = random.normal(size=(rows, 3)).astype("f4")
                file[f"{group}/features/indptr"] = numpy.arange(0, 3 * rows + 1, 3, dtype="u8")
                file[f"{group}/features/indices"] = numpy.tile(numpy.arange(3, dtype="u4"), rows)
                file[f"{group}/features/data"] = values.reshape(-1)
                file[f"{group}/features"].attrs["columns"] = 3
                file[f"{group}/labels"] = ((values.sum(1) > 0) | (group == "validation")).astype("i4")
            file.attrs["class_names"] = ["no", "yes"]
        self.write("rows.toml", self.MODEL)
        self.write("search.toml", self.MODEL + self.SPACE)

    def test_a_run_that_stops_early_without_a_best_checkpoint_keeps_its_last_weights(self):
        # Nothing is an improvement of 10, so that the run ends two epochs after its first evaluation.
        # A run that began with another metric goes on with one that its validation examples do not have.
        best_by_auc = settings("checkpoint.best.metric=auc", "checkpoint.best.on=validation")
        stopping = settings("train.early_stopping.patience=2", "train.early_stopping.metric=loss",
                            "train.early_stopping.min_delta=10")  # fmt: skip
        self.train("run", *settings("train.epochs=1"), config="rows.toml")
        told = self.train("run", *best_by_auc, *stopping, "--resume", config="rows.toml")
        said = "validation auc is undefined after epoch 2: such an evaluation counts neither as the best nor as"
        self.assertEqual((told.out.count(said), told.out.count("undefined after")), (1, 1), told)
        self.assertEqual(told.err.count("validation auc was undefined in every evaluation"), 1, told)
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["epochs"]), ("complete", 4))
        self.assertEqual(summary["stopped_early"]["weights_of_epoch"], 4)
        self.assertNotIn("best", summary)
        self.assertNotIn("auc", summary["validation"])
        result = self.succeed("evaluate", "run", "--split", "test")
        self.assertRegex(result.out, rf" accuracy +{summary['test']['accuracy']:.6g}\n")
        self.assertIn("complete", self.train("run", *best_by_auc, *stopping, "--resume", config="rows.toml").out)

    def test_an_early_stop_by_an_undefined_metric_is_said(self):
        self.train("run", *settings("train.epochs=1"), config="rows.toml")
        stopping = settings("train.early_stopping.patience=1", "train.early_stopping.metric=auc")
        told = self.train("run", *stopping, "--resume", config="rows.toml")
        self.assertIn("validation auc is undefined after epoch 2", told.out)
        self.assertEqual(self.summary("run")["epochs"], 8)

    def test_a_metric_that_is_undefined_for_the_set_is_refused_at_the_start(self):
        why = r": it is undefined, since in rows\.h5: all 40 validation examples have the class 'yes'; choose another"
        for keys in (["checkpoint.best.metric=auc"], ["train.early_stopping={patience=2,metric='auc'}"]):
            for ranks in (0, 2):
                result = self.unisono("train", "rows.toml", "--output", "run", *settings(*keys), ranks=ranks)
                self.assertEqual((result.code, len(messages(result))), (2, 1), result)
                self.assertRegex(messages(result)[0], why)
        self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())
        result = self.unisono("search", "search.toml", "--output", "found")
        self.assertEqual((result.code, len(messages(result))), (2, 1), result)
        self.assertIn("validation auc is undefined, since in rows.h5: all 40 validation examples have", result.err)

    def test_metrics_of_the_second_class_are_undefined_where_no_example_has_it(self):
        with h5py.File(self.folder / "rows.h5", "r+") as file:
            file["validation/labels"][:] = 0
        all_have = "rows.h5: all 40 validation examples have the class 'no'"
        for metric in ("f1", "precision", "recall"):
            key = f"checkpoint.best.metric={metric}"
            result = self.unisono("train", "rows.toml", "--output", "run", *settings(key))
            self.assertEqual((result.code, len(messages(result))), (2, 1), result)
            self.assertIn(f'"{metric}": it is undefined, since in {all_have}', messages(result)[0])
        told = self.train("run", *settings("checkpoint.best.metric=f1_macro"), config="rows.toml")
        self.assertIn(f"{all_have}, so that auc, average_precision, precision, recall and f1 are undefined",
                      told.err + told.out)  # fmt: skip
        known = self.summary("run")["validation"]
        self.assertEqual([name for name in ("auc", "precision", "recall", "f1") if name in known], [])
        self.assertIn("f1_macro", known)

    def test_a_threshold_is_chosen_by_examples_of_both_classes(self):
        result = self.unisono("train", "rows.toml", "--output", "run", *settings("train.threshold_by=f1"))
        self.assertEqual((result.code, len(messages(result))), (2, 1), result)
        said = 'train.threshold_by = "f1": a threshold is chosen by examples of both classes, but in rows.h5: all 40'
        self.assertIn(said, messages(result)[0])

    def test_a_set_of_one_class_is_said_or_refused(self):
        told = self.train("run", config="rows.toml", ranks=2)
        said = "rows.h5: all 40 validation examples have the class 'yes', so that auc and average_precision are"
        self.assertEqual(told.err.count(said) + told.out.count(said), 1, told)
        with h5py.File(self.folder / "rows.h5", "r+") as file:
            file["train/labels"][:] = 0
        for ranks in (0, 2):
            result = self.unisono("train", "rows.toml", "--output", "one", ranks=ranks)
            self.assertEqual((result.code, len(messages(result))), (3, 1), result)
            self.assertIn("rows.h5: all 200 training examples have the class 'no'", result.err)

    def test_a_trial_without_the_metric_that_counts_fails(self):
        with h5py.File(self.folder / "rows.h5", "r+") as file:
            file["train/labels"][:] = sorted(file["train/labels"][:])  # the first fold has one class
        folds = "cross_validate = true\n[cross_validation]\nfolds = 5\nshuffle = false\nstratified = false\n"
        self.write("search.toml", self.MODEL + self.SPACE.replace("[search.space]", folds + "[search.space]"))
        result = self.unisono("search", "search.toml", "--output", "found")
        self.assertEqual(result.code, 1, result)
        rows = list(csv.DictReader((self.folder / "found" / "trials.csv").read_text().splitlines()))
        self.assertEqual([(row["status"], row["value"]) for row in rows], [("failed", "")] * 2)
        for row in rows:
            self.assertIn("validation auc is undefined for these validation examples", row["message"])


class Records(ControlTest):
    ODD = ("--set", "train.report_every_steps=7")

    def stop(self, run, *words, ranks=0, step=14):
        endless = ("--set", "train.epochs=1000000")
        with self.started("train", "config.toml", "--output", run, *endless, *words, ranks=ranks) as process:
            self.wait_for_step(run, step, process)
            os.kill(ranks_of(process)[-1], signal.SIGUSR1)
            output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, INTERRUPTED, output)
        return self.summary(run)["steps"]

    def test_a_stopped_and_resumed_run_leaves_the_records_of_one_that_was_never_stopped(self):
        keys = ("step", "epoch", "event", "split", "accuracy", "learning_rate")
        for ranks, words in ((0, ()), (2, ()), (2, settings("strategy.kind=averaging", "strategy.period=5"))):
            with self.subTest(ranks=ranks, words=words):
                run, whole = f"run{ranks}{len(words)}", f"whole{ranks}{len(words)}"
                steps = self.stop(run, *self.ODD, *words, ranks=ranks)
                length = ("--set", f"train.epochs={steps // 10 + 2}")
                self.train(run, *self.ODD, *words, *length, "--resume", ranks=ranks)
                self.train(whole, *self.ODD, *words, *length, ranks=ranks)
                first, second = ([{key: line.get(key) for key in keys} for line in self.metrics(which)]
                                 for which in (whole, run))
                self.assertEqual(first, second)
                for one, other in zip(self.metrics(whole), self.metrics(run)):
                    self.assertAlmostEqual(one["loss"], other["loss"], places=12)
                self.assertAlmostEqual(self.summary(whole)["train"]["loss"], self.summary(run)["train"]["loss"],
                                       places=12)


class Reports(ControlTest):
    # Every step takes some tenth of a second, and none is reported before the hundredth.
    SLOW = settings("train.report_every_steps=100", "fault.emulated_seconds=0.3")

    def test_a_rate_and_a_loss_are_shown_within_two_seconds(self):
        for ranks, keys in ((0, ()), (2, ()), (2, ("strategy.kind=parameter_server",))):
            with self.subTest(ranks=ranks, keys=keys):
                begun = time.monotonic()
                words = settings(*keys, "train.epochs=1")
                with self.started("train", "config.toml", "--output", f"run{ranks}{len(keys)}", *self.SLOW, *words,
                                  ranks=ranks) as process:
                    for line in process.stdout:
                        if " left" in line:
                            break
                    else:
                        self.fail("no progress was shown")
                    self.assertRegex(line, r"epoch 1/1  step \d+/10  loss [\d.]+  [1-9][\d.,]* examples/s  0:\d\d left")
                    self.assertLess(time.monotonic() - begun, 30)
                    self.assertNotIn("complete", line)

    def test_no_rate_is_ever_written_as_zero(self):
        words = settings("train.batch_size=1", "train.epochs=1", "fault.emulated_seconds=2.5")
        with self.started("train", "config.toml", "--output", "run", *words) as process:
            for line in process.stdout:
                if " left" in line:
                    break
        self.assertRegex(line, r" 0\.\d+ examples/s")

    def test_one_of_anything_is_written_in_the_singular(self):
        result = self.train("run", *settings("train.epochs=1", "train.batch_size=240"), ranks=1)
        self.assertIn("1 step an epoch, 1 epoch\n", result.out)
        self.assertIn("allreduce on 1 rank × 1 thread (", result.out)
        self.assertIn("complete after 1 epoch, 1 step, in", result.out)
        self.assertIsNone(re.search(r"\b1 (ranks|epochs|steps|threads|examples)\b", result.out), result)


class RunFolderAsConfig(ControlTest):
    def test_a_run_goes_on_by_the_name_of_its_folder(self):
        for ranks in (0, 2):
            run, whole = f"run{ranks}", f"whole{ranks}"
            self.train(run, "--set", "train.epochs=1", ranks=ranks)
            self.train(whole, ranks=ranks)
            self.succeed("train", run + "/", "--resume", "--set", "train.epochs=2", ranks=ranks)
            self.assert_same_bits(run, whole)
            self.assertIn("already complete", self.succeed("train", run, "--resume", ranks=ranks).out)

    def test_without_resume_or_without_a_run_it_is_refused(self):
        self.train("run", "--set", "train.epochs=1")
        self.assertIn("add --resume", self.message(self.unisono("train", "run")))
        self.assertEqual(self.unisono("train", "run").code, 2)
        self.assertIn("that holds no run", self.message(self.unisono("train", ".", "--resume")))
        self.assertIn("continues in its own folder",
                      self.message(self.unisono("train", "run", "--resume", "--output", "other")))


if __name__ == "__main__":
    unittest.main()
