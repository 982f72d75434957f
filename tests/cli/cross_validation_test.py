"""Cross-validation: which examples validate which fold, the same tables on any ranks, kills, what is fitted where."""

import csv
import json
import os
import shutil
import signal
import time
import unittest

import h5py
import numpy

from harness import BinaryTest, messages, ranks_of, settings

FOLDS = """
[cross_validation]
method = "k_fold"
folds = 5
"""


class CrossValidationTest(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("folds.toml", (self.folder / "config.toml").read_text() + FOLDS)

    def validate(self, output, *arguments, ranks=0, code=0, keys=()):
        words = ("cross-validate", "folds.toml", "--output", output, *settings("data.augmentation.shift=0", *keys))
        result = self.unisono(*words, *arguments, ranks=ranks)
        self.assertEqual(result.code, code, result)
        return result

    def lines(self, output, name):
        return list(csv.DictReader((self.folder / output / name).read_text().splitlines()))

    def tables(self, output):
        return [(self.folder / output / name).read_text() for name in ("folds.csv", "predictions.csv")]

    def labels(self):
        with h5py.File(self.digits, "r") as file:
            return file["train/labels"][()]


class Folds(CrossValidationTest):
    def test_each_example_is_validated_once_and_classes_are_spread_evenly(self):
        self.validate("run")
        labels, lines = self.labels(), self.lines("run", "predictions.csv")
        self.assertEqual([int(line["example"]) for line in lines], list(range(240)))
        self.assertEqual([int(line["label"]) for line in lines], labels.tolist())
        folds = numpy.array([int(line["fold"]) for line in lines])
        self.assertEqual(numpy.bincount(folds).tolist(), [48] * 5)
        with h5py.File(self.folder / "run/predictions.h5", "r") as file:
            outputs, stored = file["predictions"][()], file["labels"][()]
        self.assertEqual(outputs.shape, (240, 10))
        self.assertEqual(stored.reshape(-1).tolist(), labels.tolist())
        self.assertEqual(outputs[7, 3], numpy.float32(list(lines[7].values())[3 + 3]))
        for digit in range(10):
            counts = numpy.bincount(folds[labels == digit], minlength=5)
            self.assertLessEqual(counts.max() - counts.min(), 1)

    def test_the_figures_follow_from_the_predictions(self):
        self.validate("run")
        lines = self.lines("run", "predictions.csv")
        outputs = numpy.array([[float(line[f"p{digit}"]) for digit in range(10)] for line in lines])
        right = outputs.argmax(axis=1) == self.labels()
        folds = numpy.array([int(line["fold"]) for line in lines])
        accuracies = [float(line["accuracy"]) for line in self.lines("run", "folds.csv")]
        for fold in range(5):
            self.assertAlmostEqual(accuracies[fold], right[folds == fold].mean(), places=12)
        written = json.loads((self.folder / "run/cross_validation.json").read_text())
        self.assertGreaterEqual(written["seconds"], max(fold["seconds"] for fold in written["results"]))
        figures = written["metrics"]["accuracy"]
        self.assertAlmostEqual(figures["pooled"], right.mean(), places=12)
        self.assertAlmostEqual(figures["mean"], numpy.mean(accuracies), places=12)
        deviation = numpy.std(accuracies, ddof=1)
        self.assertAlmostEqual(figures["deviation"], deviation, places=12)
        # Student's t for 4 degrees of freedom and 97.5 %: 2.7764451.
        self.assertAlmostEqual(figures["high"] - figures["mean"], 2.7764451 * deviation / 5**0.5, places=6)

    def test_classes_may_have_the_names_of_other_columns(self):
        names = ["example", "fold", "label"]
        with h5py.File(self.folder / "set.h5", "w") as file:
            file["train/features"] = numpy.random.default_rng(1).normal(size=(30, 4)).astype("f4")
            file["train/labels"], file.attrs["class_names"] = numpy.arange(30) % 3, names
        keys = ("data.path=set.h5", "train.batch_size=6", 'model.layers=[{kind="dense",units=3}]')
        self.validate("run", keys=keys)
        head = (self.folder / "run/predictions.csv").read_text().splitlines()[0]
        self.assertEqual(head, "example,fold,label,p0,p1,p2")
        self.assertEqual(json.loads((self.folder / "run/cross_validation.json").read_text())["classes"], names)
        self.succeed("report", "run", "--output", "page.html")
        page = (self.folder / "page.html").read_text()
        for name in names:
            self.assertIn(f"<title>label {name}, predicted {name}: ", page)

    def test_methods_that_end_short_of_convergence_are_said(self):
        linear = FOLDS + """
[model]
kind = "linear"
[optimizer]
kind = "lbfgs"
[strategy]
kind = "batch"
[train]
threads = 1
epochs = 2
"""
        data = 'name = "linear"\n[data]\npath = "digits.h5"\n'
        model = 'kind = "linear"\nloss = "softmax"\nl2 = 0.01'
        self.write("folds.toml", data + linear.replace('kind = "linear"', model))
        words = ("cross-validate", "folds.toml", "--output")
        result = self.succeed(*words, "short")
        said = "5 of 5 folds (number 0, 1, 2, 3, 4) ended short of convergence: train.epochs iterations were made"
        self.assertIn(said, result.err)
        rows = json.loads((self.folder / "short/cross_validation.json").read_text())["results"]
        self.assertEqual({row["short_of_convergence"] for row in rows}, {"train.epochs iterations were made"})
        result = self.succeed(*words, "long", *settings("train.epochs=500", "optimizer.gradient_tolerance=0.01"))
        self.assertNotIn("short of convergence", result.err)
        rows = json.loads((self.folder / "long/cross_validation.json").read_text())["results"]
        self.assertFalse(any("short_of_convergence" in row for row in rows))

    def test_the_tables_are_the_same_on_any_number_of_ranks(self):
        self.validate("one")
        for ranks in (2, 3):
            self.validate(f"on-{ranks}", ranks=ranks)
            self.assertEqual(self.tables(f"on-{ranks}"), self.tables("one"))

    def test_preprocessing_is_fitted_on_a_folds_own_training_examples(self):
        self.validate("run", keys=["cross_validation.keep=all", "data.normalization=feature", "train.epochs=1"])
        with h5py.File(self.digits, "r") as file:
            features = file["train/features"][()].reshape(240, -1).astype(numpy.float64)
            scale = float(file["train/features"].attrs.get("scale", 1 / 255))
        folds = numpy.array([int(line["fold"]) for line in self.lines("run", "predictions.csv")])
        for fold in range(5):
            checkpoint = sorted((self.folder / f"run/folds/000{fold}/checkpoints").glob("step-*.h5"))[-1]
            with h5py.File(checkpoint, "r") as file:
                mean = numpy.array(json.loads(file["header"][()].tobytes())["normalization"]["mean"])
            own, all_rows = features[folds != fold].mean(axis=0) * scale, features.mean(axis=0) * scale
            self.assertLess(numpy.abs(mean - own).max(), 1e-6)
            self.assertGreater(numpy.abs(mean - all_rows).max(), 1e-4)  # which a leak would give

    def test_methods_that_need_no_column(self):
        for method, folds, keys in (
            ("repeated_k_fold", 6, ["cross_validation.folds=3", "cross_validation.repeats=2"]),
            ("shuffle_split", 3, ["cross_validation.folds=3"]),
            ("time_series", 3, ["cross_validation.folds=3"]),
        ):
            self.validate(method, keys=[f"cross_validation.method={method}", "train.epochs=1", *keys])
            self.assertEqual(len(self.lines(method, "folds.csv")), folds)
        overlap = json.loads((self.folder / "repeated_k_fold/cross_validation.json").read_text())
        self.assertTrue(overlap["corrected_for_overlap"])

    def test_a_model_is_trained_on_all_examples_where_asked(self):
        self.validate("run", keys=["cross_validation.refit=true", "train.epochs=1"])
        summary = json.loads((self.folder / "run/final/summary.json").read_text())
        self.assertEqual(summary["steps"], 10)  # of 24 examples

    def test_killed_and_resumed_gives_the_same_tables(self):
        long = ["train.epochs=6"]
        self.validate("whole", keys=long)
        resume = ()
        for _ in range(3):
            keys = settings("data.augmentation.shift=0", *long)
            words = ("cross-validate", "folds.toml", "--output", "killed", *keys)
            with self.started(*words, *resume, ranks=2) as process:
                journal = self.folder / "killed/journal.jsonl"
                before = len(journal.read_text().splitlines()) if journal.exists() else 0
                while process.poll() is None:
                    if journal.exists() and len(journal.read_text().splitlines()) > before + 2:
                        break
                    time.sleep(0.01)
                for pid in ranks_of(process):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                process.wait(timeout=60)
            resume = ("--resume",)
        self.validate("killed", "--resume", ranks=2, keys=long)
        self.assertEqual(self.tables("killed"), self.tables("whole"))


class Groups(CrossValidationTest):
    """Examples that belong together, as the file's train/groups says."""

    def test_folds_that_divide_them_are_warned_of(self):
        with h5py.File(self.digits, "r") as file:
            examples = file["train/labels"].shape[0]
        own = self.folder / "grouped.h5"
        shutil.copy(self.digits, own)
        for groups, keys, warned in (
            (numpy.arange(examples) // 2, (), True),
            (numpy.arange(examples) // 2, ("data.split_by=rows",), False),
            (numpy.arange(examples), (), False),
            (numpy.arange(examples) // 2, ("cross_validation.method=group_k_fold",), False),
        ):
            with h5py.File(own, "a") as file:
                file.pop("train/groups", None)
                file["train/groups"] = groups
            result = self.validate("grouped", "--overwrite", keys=(f"data.path={own}", *keys))
            told = result.err + result.out
            self.assertEqual("has groups (train/groups)" in told and "divides them" in told, warned, result)


class Nested(CrossValidationTest):
    SEARCH = """
[search]
method = "grid"
[search.space]
"optimizer.learning_rate" = [1e-5, 0.01]
"""
    KEYS = ("cross_validation.nested=true", "cross_validation.inner_folds=3", "cross_validation.folds=4")

    def setUp(self):
        super().setUp()
        self.write("folds.toml", (self.folder / "folds.toml").read_text() + self.SEARCH)

    def test_each_fold_measures_a_search_that_never_saw_it(self):
        self.validate("one", keys=self.KEYS)
        folds = self.lines("one", "folds.csv")
        self.assertEqual({line["choice"] for line in folds}, {"optimizer.learning_rate = 0.01"})
        self.assertEqual([line["validation_examples"] for line in folds], ["60"] * 4)
        self.assertEqual(len(self.lines("one", "predictions.csv")), 240)
        self.assertFalse((self.folder / "one/folds").exists())  # cross_validation.keep = "none"
        self.validate("two", keys=self.KEYS, ranks=2)
        self.assertEqual(self.tables("two"), self.tables("one"))
        # 4 folds of 2 trials on 3 inner folds, and the best trial of each.
        ended = [line for line in (self.folder / "one/journal.jsonl").read_text().splitlines() if '"ended"' in line]
        self.assertEqual(len(ended), 4 * 2 * 3 + 4)

    def test_the_chosen_model_is_what_its_config_trains_on_the_outer_training_examples(self):
        self.validate("run", keys=[*self.KEYS, "cross_validation.keep=all", "data.normalization=feature"])
        with h5py.File(self.digits, "r") as file:
            features = file["train/features"][()].reshape(240, -1).astype(numpy.float64)
            scale = float(file["train/features"].attrs.get("scale", 1 / 255))
        folds = numpy.array([int(line["fold"]) for line in self.lines("run", "predictions.csv")])
        for fold in range(4):
            with h5py.File(self.checkpoints(f"run/folds/000{fold}/best")[-1], "r") as file:
                mean = numpy.array(json.loads(file["header"][()].tobytes())["normalization"]["mean"])
            self.assertLess(numpy.abs(mean - features[folds != fold].mean(axis=0) * scale).max(), 1e-6)

    def test_a_fold_without_the_metric_that_chose_has_the_others(self):
        with h5py.File(self.digits, "r") as digits, h5py.File(self.folder / "one.h5", "w") as file:
            digits.copy("train", file)
            file["train/labels"][:60] = 3
        consecutive = ["cross_validation.shuffle=false", "cross_validation.stratified=false"]
        keys = [*self.KEYS, *consecutive, "data.path=one.h5", "search.metric=validation.auc"]
        self.validate("run", keys=keys)
        folds = self.lines("run", "folds.csv")
        self.assertEqual([line["status"] for line in folds], ["complete"] * 4)
        self.assertEqual([bool(line["auc"]) for line in folds], [False, True, True, True])
        figures = json.loads((self.folder / "run/cross_validation.json").read_text())["metrics"]
        self.assertEqual((figures["accuracy"]["folds"], figures["auc"]["folds"]), (4, 3))

    def test_a_space_may_set_no_more_than_a_config(self):
        spaces = (
            ('"train.early_stopping.patience" = [1, 2]', "a fold that decides when training stops"),
            ('"train" = [{ epochs = 2, batch_size = 8, early_stopping = { patience = 1 } }]', "a fold that decides"),
            ('"data.path" = ["digits.h5", "other.h5"]', "'data.path' cannot vary"),
            ('"seed" = [1, 2]', "'seed' cannot vary"),
        )
        for space, reason in spaces:
            text = (self.folder / "folds.toml").read_text().replace(self.SEARCH, "")
            self.write("space.toml", text + f'[search]\nmethod = "grid"\n[search.space]\n{space}\n')
            words = ("cross-validate", "space.toml", "--output", "refused", *settings(*self.KEYS))
            result = self.unisono(*words)
            self.assertEqual(result.code, 2, result)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn(reason, messages(result)[0])
        self.assertFalse((self.folder / "refused/journal.jsonl").exists())

    def test_inner_folds_that_cannot_be_are_named_with_their_outer_fold(self):
        result = self.validate("refused", keys=[*self.KEYS, "cross_validation.inner_folds=100"], code=2)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertRegex(messages(result)[0], r"within outer fold 0, .*inner_folds = 100")

    def test_a_nested_search_without_a_space_is_refused(self):
        self.write("folds.toml", (self.folder / "folds.toml").read_text().replace(self.SEARCH, ""))
        result = self.validate("refused", keys=self.KEYS, code=2)
        self.assertIn("[search]", messages(result)[0])


class Refusals(CrossValidationTest):
    def test_bad_settings_are_refused_with_one_message(self):
        for keys, code, text in (
            (["data.validation_fraction=0.1"], 2, "validation_fraction"),
            (["train.early_stopping.patience=2"], 2, "early_stopping"),
            (["cross_validation.folds=1"], 2, "folds"),
            (["cross_validation.folds=100"], 2, "class"),
            (["cross_validation.method=leave_p_out"], 2, "most_fits"),
            (["cross_validation.method=group_k_fold"], 3, "groups"),
            (["cross_validation.method=bootstrap"], 2, "bootstrap"),
            (["cross_validation.ranks_per_fold=2"], 2, "ranks"),
            (["data.reader=streaming"], 2, "reader"),
            (["train.threshold_by=f1"], 2, "threshold_by"),
            (["data.split_by=groups"], 2, 'method = "k_fold" divides groups'),
        ):
            for ranks in (0, 3):
                result = self.validate("refused", keys=keys, code=code, ranks=ranks)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn(text, messages(result)[0])
        self.assertFalse((self.folder / "refused/journal.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
