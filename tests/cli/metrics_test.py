"""Metrics of classifiers: in the evaluations of training, and wherever a run or a job decides by one."""

import csv
import json
import unittest

import h5py
import numpy

try:
    import sklearn.metrics as metrics
except ImportError:  # scripts/install-deps test
    metrics = None

import browser
from harness import BinaryTest, messages, network_of_table, settings

NETWORK = network_of_table(hidden=6)

LINEAR = """
name = "linear"
[data]
path = "set.h5"
[model]
kind = "linear"
loss = "{loss}"
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 3
batch_size = 16
threads = 1
"""

SEARCH = """
[search]
method = "grid"
metric = "{metric}"
[search.space]
"optimizer.learning_rate" = {{ choices = [1e-6, 0.02] }}
"""

OF_CLASSES = {"auc", "average_precision", "balanced_accuracy", "precision", "recall", "f1"}
OF_TWO = {"precision_macro", "recall_macro", "f1_macro"}
OF_PROBABILITIES = {"log_loss", "brier_score", "expected_calibration_error"}


def calibration_error(confidence, right):
    """Guo et al.: 15 bins ((b - 1)/15, b/15]."""
    bins = numpy.clip(numpy.ceil(confidence * 15).astype(int) - 1, 0, 14)
    return sum(abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in range(15)) / len(right)


def expected_figures(labels, outputs, classes, probabilities):
    """What scikit-learn makes of predictions: outputs [n, K]."""
    predicted = outputs.argmax(axis=1)
    two = classes == 2
    average = {"average": "binary"} if two else {"average": "macro"}
    each = metrics.precision_recall_fscore_support(labels, predicted, zero_division=0, **average)
    found = dict(zip(("precision", "recall", "f1"), each))
    found["balanced_accuracy"] = metrics.balanced_accuracy_score(labels, predicted)
    found["accuracy"] = metrics.accuracy_score(labels, predicted)
    if two:
        means = metrics.precision_recall_fscore_support(labels, predicted, zero_division=0, average="macro")
        found |= zip(("precision_macro", "recall_macro", "f1_macro"), means)
    onehot = numpy.eye(classes)[labels]
    truth, scores = (labels, outputs[:, 1]) if two else (onehot, outputs)
    found["auc"] = metrics.roc_auc_score(truth, scores)
    found["average_precision"] = metrics.average_precision_score(truth, scores)
    if probabilities:
        found["log_loss"] = metrics.log_loss(labels, outputs)
        squares = (outputs[:, 1] - labels) ** 2 if two else ((outputs - onehot) ** 2).sum(axis=1)
        found["brier_score"] = squares.mean()
        found["expected_calibration_error"] = calibration_error(outputs.max(axis=1), predicted == labels)
    return found


class Metrics(BinaryTest):
    def make_set(self, classes, examples=(300, 90, 157), positive=None):
        """Rows around a centre for each class, so near to each other that a classifier errs.
        positive: the share of the second class in each group."""
        random = numpy.random.default_rng(5)
        centres = random.normal(0, 0.7, (classes, 5))
        with h5py.File(self.folder / "set.h5", "w") as file:
            for group, count in zip(("train", "validation", "test"), examples):
                labels = random.integers(0, classes, count)
                if positive:
                    labels = (random.random(count) < positive[group]).astype(int)
                file[f"{group}/features"] = (centres[labels] + random.normal(0, 1, (count, 5))).astype("f4")
                file[f"{group}/labels"] = labels.astype("i4")

    def labels(self, split):
        with h5py.File(self.folder / "set.h5") as file:
            return file[f"{split}/labels"][:].astype(int)

    def trained(self, text, *arguments, run="run", ranks=0):
        self.write("model.toml", text)
        return self.train(run, *arguments, config="model.toml", ranks=ranks)

    def evaluations(self, run="run", split="test"):
        return [line for line in self.metrics(run) if line["event"] == "evaluation" and line["split"] == split]

    def refuse(self, text, *arguments):
        self.write("model.toml", text)
        result = self.unisono("train", "model.toml", "--output", "refused", *arguments)
        self.assertEqual((result.code, len(messages(result))), (2, 1), result)
        return messages(result)[0]


@unittest.skipIf(metrics is None, "scikit-learn is not there: scripts/install-deps test")
class Values(Metrics):
    def check(self, text, classes, probabilities, ranks):
        self.trained(text, ranks=ranks)
        for split in ("validation", "test"):
            out = f"{split}-{ranks}.h5"
            self.succeed("predict", "run", "--split", split, "--output", out, "--overwrite")
            with h5py.File(self.folder / out) as file:
                outputs = file["predictions"][:].astype(float)
            expected = expected_figures(self.labels(split), outputs, classes, probabilities)
            line = self.evaluations(split=split)[-1]
            evaluated = json.loads(self.succeed("evaluate", "run", "--split", split, "--json").out)
            for name, value in expected.items():
                # Predictions are rounded to floats.
                self.assertAlmostEqual(line[name], value, delta=2e-6, msg=f"{name} of {split}, {ranks} ranks")
                self.assertAlmostEqual(evaluated[name], value, delta=2e-6, msg=name)
            self.assertEqual(evaluated["roc_auc"], evaluated["auc"])
            self.assertEqual(self.summary("run")[split]["f1"], line["f1"])
            names = OF_CLASSES | (OF_TWO if classes == 2 else set()) | (OF_PROBABILITIES if probabilities else set())
            self.assertLessEqual(names, line.keys())
            self.assertEqual(OF_PROBABILITIES <= line.keys(), probabilities)
        self.assertNotIn("f1", self.summary("run")["train"])

    def test_two_classes_of_a_network(self):
        self.make_set(2)
        for ranks in (0, 3):
            self.check(NETWORK.format(loss="softmax_cross_entropy", units=2), 2, True, ranks)
            (self.folder / "run").rename(self.folder / f"softmax-{ranks}")
        self.check(NETWORK.format(loss="sigmoid_cross_entropy", units=1), 2, True, 0)

    def test_four_classes_of_a_network(self):
        self.make_set(4)
        for ranks in (0, 3):
            self.check(NETWORK.format(loss="softmax_cross_entropy", units=4), 4, True, ranks)
            (self.folder / "run").rename(self.folder / f"softmax-{ranks}")
        self.check(NETWORK.format(loss="multiclass_hinge", units=4), 4, False, 0)

    def test_linear_models(self):
        for classes, loss in ((2, "logistic"), (2, "hinge"), (3, "softmax")):
            self.make_set(classes)
            for ranks in (0, 3):
                self.check(LINEAR.format(loss=loss), classes, loss != "hinge", ranks)
                (self.folder / "run").rename(self.folder / f"{loss}-{ranks}")

    def test_a_pipeline(self):
        self.make_set(3)
        text = NETWORK.format(loss="softmax_cross_entropy", units=3) + "micro_batches = 2\n[replica]\nstages = 2\n"
        self.check(text, 3, True, 2)


class Lines(Metrics):
    def test_lines_show_the_metrics_that_are_asked_for(self):
        self.make_set(4)
        text = NETWORK.format(loss="softmax_cross_entropy", units=4)
        plain = self.trained(text)
        self.assertNotRegex(plain.out, "auc|f1|precision")
        self.assertLessEqual(OF_CLASSES, self.evaluations()[-1].keys())
        # An epoch's line has the validation examples, the result those of the test, too.
        shown = self.trained(text, "--overwrite", *settings("metrics.show=['f1_macro']"))
        self.assertEqual(shown.out.count(" f1 "), 3 + 2, shown)
        self.assertNotIn("auc", shown.out)
        decides = self.trained(text, "--overwrite", *settings("checkpoint.best.metric=roc_auc"))
        self.assertEqual(decides.out.count(" auc "), 3 + 1, decides)
        page = self.succeed("report", "run", "--output", "page.html")
        self.assertEqual(page.code, 0)
        text = (self.folder / "page.html").read_text()
        self.assertIn("balanced accuracy", text)
        self.assertIn(" auc ", self.succeed("watch", "run", "--once").out)

    def test_an_unknown_metric_is_refused(self):
        self.make_set(4)
        text = NETWORK.format(loss="softmax_cross_entropy", units=4)
        self.assertIn("there is no metric 'f2'", self.refuse(text, *settings("metrics.show=['f2']")))
        wrong = self.refuse(text, *settings("checkpoint.best.metric=f2"))
        self.assertIn("no such metric on validation; it has loss, accuracy, auc, average_precision", wrong)
        wrong = self.refuse(text, *settings("checkpoint.best.metric=f1", "checkpoint.best.on=train"))
        self.assertIn("no such metric on train; it has loss, accuracy\n", wrong + "\n")

    def test_areas_of_many_classes_are_computed_where_they_are_asked_for(self):
        # 3,600 · 300 scores are more than 2^20.
        random = numpy.random.default_rng(3)
        with h5py.File(self.folder / "set.h5", "w") as file:
            for group, count in (("train", 900), ("validation", 3600)):
                labels = numpy.arange(count) % 300
                noise = random.normal(0, 1, (count, 4))
                file[f"{group}/features"] = (numpy.stack([labels % p for p in (2, 3, 5, 7)], 1) + noise).astype("f4")
                file[f"{group}/labels"] = labels.astype("i4")
        text = NETWORK.format(loss="softmax_cross_entropy", units=300)
        self.trained(text, *settings("train.epochs=1"))
        line = self.evaluations(split="validation")[-1]
        self.assertIn("f1", line)
        self.assertNotIn("auc", line)
        for number, key in enumerate(("metrics.show=['average_precision']", "checkpoint.best.metric=roc_auc")):
            self.trained(text, *settings("train.epochs=1", key), run=f"asked-{number}", ranks=2)
            self.assertGreater(self.evaluations(f"asked-{number}", "validation")[-1]["auc"], 0.5)


class Deciding(Metrics):
    def setUp(self):
        super().setUp()
        self.make_set(2, positive={"train": 0.3, "validation": 0.3, "test": 0.3})

    def test_a_run_decides_by_any_of_them(self):
        for name, spelt in (("f1", "validation.f1"), ("average_precision", "average_precision"), ("auc", "roc_auc"),
                            ("log_loss", "log_loss"), ("expected_calibration_error", "ece"),
                            ("f1_macro", "validation f1_macro")):  # fmt: skip
            for text in (NETWORK.format(loss="softmax_cross_entropy", units=2), LINEAR.format(loss="logistic")):
                with self.subTest(name=name):
                    keys = settings("train.epochs=8", f"checkpoint.best.metric='{spelt}'",
                                    f"train.early_stopping={{metric='{spelt}',patience=2}}")  # fmt: skip
                    self.trained(text, *keys, "--overwrite")
                    lines = [line[name] for line in self.evaluations(split="validation")]
                    summary = self.summary("run")
                    best = min(lines) if name in ("log_loss", "expected_calibration_error") else max(lines)
                    self.assertEqual(summary["best"]["metric"], f"validation {name}")
                    self.assertEqual(summary["best"]["value"], best)

    def test_a_split_that_contradicts_is_refused(self):
        text = LINEAR.format(loss="logistic")
        wrong = self.refuse(text, *settings("checkpoint.best.metric='test.f1'"))
        self.assertIn('checkpoint.best.on says validation; set checkpoint.best.on = "test"', wrong)

    def test_a_search_decides_by_any_of_them(self):
        for kind, text in (("net", NETWORK.format(loss="softmax_cross_entropy", units=2)),
                           ("linear", LINEAR.format(loss="logistic"))):  # fmt: skip
            for number, (name, spelt) in enumerate((("f1", "validation.f1"), ("average_precision", "average_precision"),
                                                    ("auc", "validation.roc_auc"), ("loss", "loss"))):  # fmt: skip
                self.write("search.toml", text + SEARCH.format(metric=spelt))
                found = f"{kind}-{number}"
                said = self.succeed("search", "search.toml", "--output", found).out
                self.assertIn(f"validation {name}", said)
                result = json.loads((self.folder / found / "search.json").read_text())
                values = [trial["metrics"][f"validation.{name}"] for trial in result["trials"]]
                self.assertEqual([trial["value"] for trial in result["trials"]], values)
                best = values.index(min(values) if name == "loss" else max(values))
                self.assertEqual(result["best"], best)
                self.assertGreater(abs(values[0] - values[1]), 0.01)
        self.assertIn("validation f1", self.succeed("watch", "net-0", "--once").out)
        self.succeed("report", "net-0", "--output", "page.html")
        self.assertIn("validation f1", (self.folder / "page.html").read_text())

    def test_cross_validation_has_them(self):
        self.write("folds.toml", LINEAR.format(loss="logistic") + "[cross_validation]\nfolds = 3\n")
        said = self.succeed("cross-validate", "folds.toml", "--output", "folds").out
        figures = json.loads((self.folder / "folds" / "cross_validation.json").read_text())["metrics"]
        self.assertLessEqual(OF_CLASSES | OF_TWO | OF_PROBABILITIES, figures.keys())
        self.assertIn("pooled", figures["log_loss"])
        self.assertNotIn("pooled", figures["f1"])
        self.assertNotRegex(said[: said.index("mean")], "f1|balanced")  # the folds' lines
        rows = list(csv.DictReader((self.folder / "folds" / "folds.csv").read_text().splitlines()))
        self.assertEqual(len(rows), 3)

    def test_what_is_undefined_is_not_there(self):
        self.make_set(2, positive={"train": 0.3, "validation": 0, "test": 0.3})
        told = self.trained(LINEAR.format(loss="logistic"))
        self.assertIn("so that auc, average_precision, precision, recall and f1 are undefined", told.out + told.err)
        line = self.evaluations(split="validation")[-1]
        self.assertFalse({"auc", "average_precision", "f1", "precision", "recall"} & line.keys())
        self.assertLessEqual({"balanced_accuracy", "f1_macro", "log_loss"}, line.keys())
        for metric in ("average_precision", "f1"):
            wrong = self.refuse(LINEAR.format(loss="logistic"), *settings(f"checkpoint.best.metric={metric}"))
            self.assertIn("it is undefined, since in", wrong)


class Thresholds(Metrics):
    """Of a set with few examples of the second class, so that ½ is no good threshold for F1."""

    def setUp(self):
        super().setUp()
        self.make_set(2, examples=(600, 200, 300), positive={"train": 0.12, "validation": 0.12, "test": 0.12})

    def outputs(self, *arguments, split="validation"):
        self.succeed("predict", "run", "--split", split, "--output", "out.h5", "--overwrite", *arguments)
        with h5py.File(self.folder / "out.h5") as file:
            return file["predictions"][:], file["classes"][:]

    def figures(self, *arguments):
        return json.loads(self.succeed("evaluate", "run", "--json", *arguments).out)

    def f1(self, labels, predicted):
        hits = (labels & predicted).sum()
        return 2 * hits / (labels.sum() + predicted.sum())

    def test_predict_and_evaluate_take_a_threshold(self):
        for text in (NETWORK.format(loss="softmax_cross_entropy", units=2), LINEAR.format(loss="logistic")):
            self.trained(text, "--overwrite")
            outputs, classes = self.outputs()
            numpy.testing.assert_array_equal(classes, outputs.argmax(axis=1))
            threshold = float(numpy.sort(outputs[:, 1])[-60])
            again, classes = self.outputs("--threshold", threshold)
            numpy.testing.assert_array_equal(again, outputs)
            numpy.testing.assert_array_equal(classes, outputs[:, 1] >= threshold)
            labels = self.labels("validation")
            plain = self.figures("--split", "validation")
            moved = self.figures("--split", "validation", "--threshold", threshold)
            self.assertAlmostEqual(moved["f1"], self.f1(labels, classes), places=12)
            self.assertAlmostEqual(moved["accuracy"], (labels == classes).mean(), places=12)
            self.assertEqual(moved["threshold"], threshold)
            self.assertNotIn("threshold", plain)
            for name in ("loss", "auc", "log_loss", "expected_calibration_error"):
                self.assertEqual(moved[name], plain[name])
            said = self.succeed("evaluate", "run", "--threshold", "0.25").out
            self.assertIn("where its output is at least 0.25", said)

    def test_a_threshold_is_chosen_and_kept(self):
        for number, text in enumerate((NETWORK.format(loss="sigmoid_cross_entropy", units=1),
                                       LINEAR.format(loss="logistic"), LINEAR.format(loss="hinge"))):  # fmt: skip
            for ranks in (0, 3):
                with self.subTest(number=number, ranks=ranks):
                    told = self.trained(text, "--overwrite", *settings("train.threshold_by=f1"), ranks=ranks)
                    threshold = self.summary("run")["threshold"]["value"]
                    self.assertIn(f"threshold   {threshold:.4g}", told.out)
                    self.assertEqual(self.evaluations(split="validation")[-1]["threshold"], threshold)
                    outputs, classes = self.outputs()
                    numpy.testing.assert_array_equal(classes, outputs[:, 1] >= threshold)
                    labels = self.labels("validation")
                    values = [self.f1(labels, outputs[:, 1] >= cut) for cut in outputs[:, 1]]
                    self.assertAlmostEqual(self.f1(labels, classes), max(values), places=12)
                    self.assertGreater(max(values), self.f1(labels, outputs.argmax(axis=1)))
                    chosen = self.summary("run")["threshold"]["f1"]
                    self.assertEqual(chosen, self.figures("--split", "validation")["f1"])
                    # What was chosen can be overridden; best.h5 has a threshold of its own.
                    usual = "0.5" if "hinge" not in text else "0"
                    _, classes = self.outputs("--threshold", usual)
                    numpy.testing.assert_array_equal(classes, outputs[:, 1] >= float(usual))
                    said = self.succeed("evaluate", "run/checkpoints/best.h5").out
                    self.assertRegex(said, "second class is predicted where its output is at least .*by validation f1")

    def test_a_resumed_run_and_an_exported_model_keep_it(self):
        text = LINEAR.format(loss="logistic")
        key = settings("train.threshold_by=balanced_accuracy")
        self.trained(text, *key)
        self.trained(text, *key, *settings("train.epochs=5"), run="longer")
        self.train("run", *key, *settings("train.epochs=5"), "--resume", config="model.toml")
        self.assertEqual(self.summary("run")["threshold"], self.summary("longer")["threshold"])
        self.succeed("export", "run", "--format", "npz", "--output", "model.npz")
        with numpy.load(self.folder / "model.npz") as file:
            kept = float(file["decision.threshold"][0])
        self.assertAlmostEqual(kept, self.summary("run")["threshold"]["value"], places=6)

    def test_thresholds_of_other_models_are_refused(self):
        self.trained(LINEAR.format(loss="logistic"))
        for words, why in ((("--threshold", "1.5"), "between 0 and 1"), (("--threshold", "nan"), "threshold")):
            result = self.unisono("predict", "run", "--output", "out.csv", *words)
            self.assertEqual(result.code, 2, result)
            self.assertIn(why, result.err)
        text = LINEAR.format(loss="logistic")
        self.assertIn("threshold_by", self.refuse(text, *settings("train.threshold_by=auc")))
        self.make_set(3)
        self.assertIn("two classes", self.refuse(LINEAR.format(loss="softmax"), *settings("train.threshold_by=f1")))
        self.trained(LINEAR.format(loss="softmax"), run="three")
        result = self.unisono("evaluate", "three", "--threshold", "0.5")
        self.assertEqual((result.code, len(messages(result))), (2, 1), result)
        self.assertIn("two classes", messages(result)[0])

    def test_a_threshold_needs_validation_examples(self):
        with h5py.File(self.folder / "set.h5", "r+") as file:
            del file["validation"]
        wrong = self.refuse(LINEAR.format(loss="logistic"), *settings("train.threshold_by=f1"))
        self.assertIn("data.validation_fraction", wrong)


class Curves(Metrics):
    def page(self, classes, loss, units):
        self.make_set(classes)
        self.trained(NETWORK.format(loss=loss, units=units), "--overwrite")
        self.succeed("report", "run", "--examples", "2", "--output", "page.html")
        return browser.Figures((self.folder / "page.html").read_text())

    def test_the_page_of_a_run_has_its_curves(self):
        for classes, curves in ((2, 1), (4, 4), (12, 10)):
            page = self.page(classes, "softmax_cross_entropy", classes)
            for title, name in (("ROC curve", "auc"), ("Precision and recall", "average precision")):
                series = page.plots[title]["series"]
                self.assertEqual(len(series), curves)
            if classes == 2:
                area = json.loads(self.succeed("evaluate", "run", "--json").out)["auc"]
                self.assertEqual(list(page.plots["ROC curve"]["series"]), [f"1: area {area:.3f}"])


if __name__ == "__main__":
    unittest.main()
