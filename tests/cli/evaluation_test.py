"""What `evaluate` and `predict` say of classifiers and of ratings, beside scikit-learn and beside numpy."""

import csv
import json
import unittest

import h5py
import numpy

try:
    import sklearn.metrics as metrics
except ImportError:  # scripts/install-deps test
    metrics = None

from harness import BinaryTest, messages, network_of_table, settings

NAMES = ["ash", "birch", "cedar, red", "dogwood"]

NETWORK = network_of_table(hidden=8)

LINEAR = """
name = "linear"
[data]
path = "set.h5"
[model]
kind = "linear"
loss = "{loss}"
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 2
[strategy]
kind = "serial"
"""

RATINGS = """
name = "ratings"
[data]
path = "ratings.h5"
[model]
kind = "factorization"
dimension = 3
[optimizer]
kind = "adagrad"
learning_rate = 0.1
[train]
epochs = 5
[strategy]
kind = "serial"
"""


class Evaluating(BinaryTest):
    def make_set(self, classes, names=None, targets=False, examples=(200, 157)):
        """Rows around a centre for each class, so near to each other that a classifier errs."""
        random = numpy.random.default_rng(5)
        centres = random.normal(0, 1, (classes, 6))
        with h5py.File(self.folder / "set.h5", "w") as file:
            if names:
                file.attrs["class_names"] = names
            for group, count in zip(("train", "test"), examples):
                labels = random.integers(0, classes, count)
                file[f"{group}/features"] = (centres[labels] + random.normal(0, 1, (count, 6))).astype("f4")
                if targets:
                    file[f"{group}/targets"] = labels.astype("f4")[:, None]
                else:
                    file[f"{group}/labels"] = labels.astype("i4")
        with h5py.File(self.folder / "set.h5") as file:
            answers = file["test/targets"][:, 0] if targets else file["test/labels"][:]
        return answers.astype(int)

    def trained(self, text, run="run"):
        self.write("model.toml", text)
        self.train(run, config="model.toml")

    def figures(self, *arguments, ranks=0):
        return json.loads(self.succeed("evaluate", "run", "--json", *arguments, ranks=ranks).out)

    def outputs(self, *arguments, output="out.h5", ranks=0):
        self.succeed("predict", "run", "--output", output, *arguments, ranks=ranks)
        with h5py.File(self.folder / output) as file:
            return {name: item[()] for name, item in file.items()}

    def table(self, *arguments, output="out.csv", ranks=0):
        self.succeed("predict", "run", "--output", output, *arguments, ranks=ranks)
        with open(self.folder / output, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def calibration_error(confidence, right):
    """Guo et al.: 15 bins ((b - 1)/15, b/15]."""
    bins = numpy.clip(numpy.ceil(confidence * 15).astype(int) - 1, 0, 14)
    gaps = [abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in range(15)]
    return sum(gaps) / len(right)


class UntrainedClasses(Evaluating):
    """Classes that only the test group has."""

    def make(self, test):
        random = numpy.random.default_rng(3)
        with h5py.File(self.folder / "set.h5", "w") as file:
            file.attrs["class_names"] = ["<=50K", ">50K", "<=50K."]
            for group, labels in (("train", numpy.arange(40) % 2), ("test", numpy.array(test))):
                file[f"{group}/features"] = (labels[:, None] + random.normal(0, 0.1, (len(labels), 6))).astype("f4")
                file[f"{group}/labels"] = labels
        self.write("model.toml", NETWORK.format(loss="softmax_cross_entropy", units=3))
        return self.train("run", config="model.toml")

    def test_they_are_named_and_have_no_figures(self):
        said = "4 of 10 test examples are of a class that no training example has: '<=50K.' \\(4; is it '<=50K'\\?\\)"
        result = self.make([0, 1, 2] * 3 + [2])
        self.assertRegex(result.out + result.err, f"warning: set.h5: {said}; they count as wrong")
        self.assertRegex(result.out, f"  unknown     {said}")
        counts = {"examples": 10, "classes": [{"class": 2, "examples": 4}]}
        self.assertEqual(self.summary("run")["unseen"], {"test": counts})
        figures = self.figures()
        self.assertEqual(figures["unseen"], counts)
        self.assertLessEqual(figures["accuracy"], 0.6)
        other = figures["classes"][2]
        self.assertEqual((other["precision"], other["recall"], other["f1"], other["roc_auc"]), (None,) * 4)
        self.assertEqual((other["examples"], other["trained"]), (4, False))
        for name in ("precision", "recall", "f1"):
            known = [one[name] for one in figures["classes"][:2]]
            self.assertAlmostEqual(figures[f"{name}_macro"], sum(known) / 2, places=12)
        text = self.succeed("evaluate", "run")
        self.assertRegex(text.err, said)
        self.assertRegex(text.out, r"2 <=50K\. +- +- +- +4")
        self.assertIn("-: undefined, since no training example has this class; the means leave it out", text.out)
        # Another file with the classes of the run, and no training group.
        with h5py.File(self.folder / "set.h5") as file, h5py.File(self.folder / "new.h5", "w") as new:
            new.attrs["class_names"] = file.attrs["class_names"]
            file.copy("test", new)
        self.assertEqual(self.figures("--data", "new.h5")["classes"][2]["f1"], None)

    def test_metrics_of_such_examples_alone_are_undefined(self):
        result = self.make([2] * 6)
        self.assertRegex(result.out + result.err, "6 of 6 test examples .*; all metrics of this split are undefined")
        summary = self.summary("run")
        self.assertEqual(summary["status"], "complete")
        self.assertEqual(summary["test"], {"loss": None, "accuracy": None})
        self.assertIn("test loss undefined accuracy undefined", result.out)
        figures = self.figures()
        for name in ("loss", "accuracy", "f1_macro", "f1_weighted", "roc_auc"):
            self.assertIsNone(figures[name], name)
        self.assertNotIn("brier_score", figures)
        self.assertRegex(self.succeed("evaluate", "run").out, "accuracy +undefined")

    def test_nothing_is_decided_by_such_examples_alone(self):
        self.make([2] * 6)
        for keys in (["checkpoint.best={metric='accuracy',on='test'}"],
                     ["train.early_stopping={patience=1,metric='loss',on='test'}"]):  # fmt: skip
            result = self.unisono("train", "model.toml", "--output", "other", *settings(*keys))
            self.assertEqual((result.code, len(messages(result))), (2, 1), result)
            said = "it is undefined, since in set.h5: 6 of 6 test examples are of a class"
            self.assertRegex(messages(result)[0], said)

    def test_a_set_whose_classes_all_are_trained_says_nothing(self):
        result = self.make([0, 1, 1])
        self.assertNotIn("no training example", result.out + result.err)
        self.assertNotIn("unseen", self.summary("run"))
        self.assertNotIn("unseen", self.figures())


@unittest.skipIf(metrics is None, "scikit-learn is not there: scripts/install-deps test")
class ScikitLearn(Evaluating):
    def check(self, labels, scores, classes, probabilities):
        """All figures of the run's test set, from what it predicts: scores [n, K], or [n] of the second class."""
        binary = scores.ndim == 1
        predicted = (scores > (0.5 if probabilities else 0)).astype(int) if binary else scores.argmax(axis=1)
        ours = self.figures()
        numpy.testing.assert_array_equal(ours["confusion_matrix"], metrics.confusion_matrix(labels, predicted))
        each = metrics.precision_recall_fscore_support(labels, predicted, zero_division=0)
        for name, values in zip(("precision", "recall", "f1", "examples"), each):
            numpy.testing.assert_allclose([one[name] for one in ours["classes"]], values, rtol=1e-12)
        for mean in ("macro", "weighted"):
            means = metrics.precision_recall_fscore_support(labels, predicted, average=mean, zero_division=0)
            for name, value in zip(("precision", "recall", "f1"), means):
                self.assertAlmostEqual(ours[f"{name}_{mean}"], value, places=12)
        accuracy = ours["accuracy" if "accuracy" in ours else "subset_accuracy"]
        self.assertAlmostEqual(accuracy, metrics.accuracy_score(labels, predicted), places=12)
        onehot = numpy.eye(classes)[labels]
        if binary:
            self.assertAlmostEqual(ours["roc_auc"], metrics.roc_auc_score(labels, scores), places=12)
            precision = metrics.average_precision_score(labels, scores)
            self.assertAlmostEqual(ours["average_precision"], precision, places=12)
        else:
            areas = metrics.roc_auc_score(onehot, scores, average=None)
            precisions = metrics.average_precision_score(onehot, scores, average=None)
            numpy.testing.assert_allclose([one["roc_auc"] for one in ours["classes"]], areas, rtol=1e-12)
            own = [one["average_precision"] for one in ours["classes"]]
            numpy.testing.assert_allclose(own, precisions, rtol=1e-12)
            self.assertAlmostEqual(ours["roc_auc"], areas.mean(), places=12)
            self.assertAlmostEqual(ours["average_precision"], precisions.mean(), places=12)
        if not probabilities:
            self.assertNotIn("brier_score", ours)
            self.assertNotIn("expected_calibration_error", ours)
            return
        scores = scores.astype(float)
        if binary:
            brier, confidence = metrics.brier_score_loss(labels, scores), numpy.maximum(scores, 1 - scores)
        else:
            brier, confidence = ((scores - onehot) ** 2).sum(axis=1).mean(), scores.max(axis=1)
        self.assertAlmostEqual(ours["brier_score"], brier, places=12)
        error = calibration_error(confidence, predicted == labels)
        self.assertAlmostEqual(ours["expected_calibration_error"], error, places=6)
        self.assertEqual(sum(one["examples"] for one in ours["calibration"]), len(labels))

    def test_figures_of_four_classes_are_scikit_learns(self):
        labels = self.make_set(4, NAMES)
        self.trained(NETWORK.format(loss="softmax_cross_entropy", units=4))
        self.check(labels, self.outputs()["predictions"], 4, probabilities=True)

    def test_figures_of_two_classes_are_scikit_learns(self):
        labels = self.make_set(2)
        self.trained(NETWORK.format(loss="softmax_cross_entropy", units=2))
        out = self.outputs()["predictions"]
        self.check(labels, out[:, 1], 2, probabilities=True)

    def test_figures_of_one_sigmoid_output_are_scikit_learns(self):
        labels = self.make_set(2, targets=True)
        self.trained(NETWORK.format(loss="sigmoid_cross_entropy", units=1))
        out = self.outputs()
        self.check(labels, out["predictions"][:, 0], 2, probabilities=True)
        numpy.testing.assert_array_equal(out["classes"], out["predictions"][:, 0] > 0.5)

    def test_figures_of_linear_models_are_scikit_learns(self):
        labels = self.make_set(2)
        for loss, probabilities in (("logistic", True), ("hinge", False)):
            with self.subTest(loss=loss):
                self.trained(LINEAR.format(loss=loss), run=loss)
                (self.folder / "run").unlink(missing_ok=True)
                (self.folder / "run").symlink_to(loss)
                out = self.outputs(output=f"{loss}.h5")["predictions"]
                self.check(labels, out[:, 1], 2, probabilities)

    def test_ndcg_is_scikit_learns(self):
        make_ratings(self.folder / "ratings.h5")
        self.trained(RATINGS)
        users, items, expected = 40, 30, []
        scores = numpy.zeros((users, items))
        with h5py.File(self.checkpoints("run")[-1]) as file:
            blocks = {name: item[()] for name, item in file["parameters"].items()}
        scores += blocks["users.bias"][:, None] + blocks["items.bias"][None, :]
        scores += blocks["users.factors"].astype(float) @ blocks["items.factors"].T.astype(float)
        with h5py.File(self.folder / "ratings.h5") as file:
            seen, judged = {}, {}
            for user, item in zip(file["train/users"], file["train/items"]):
                seen.setdefault(user, set()).add(item)
            least = file["train/ratings"][:].mean(dtype=float)
            for user, item, rating in zip(file["test/users"], file["test/items"], file["test/ratings"]):
                if rating >= least and item not in seen.get(user, ()):
                    judged.setdefault(user, set()).add(item)
        for user, relevant in judged.items():
            candidates = [item for item in range(items) if item not in seen.get(user, ())]
            truth = [[item in relevant for item in candidates]]
            expected.append(metrics.ndcg_score(truth, [scores[user, candidates]], k=5))
        ours = self.figures("--at", "5")
        self.assertEqual(ours["users_with_relevant_items"], len(judged))
        self.assertAlmostEqual(ours["relevant_from"], least, places=6)
        self.assertAlmostEqual(ours["ndcg_at_5"], numpy.mean(expected), places=12)


def make_ratings(path, users=40, items=30):
    random = numpy.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for group, count in (("train", 500), ("test", 200)):
            file[f"{group}/users"] = random.integers(0, users, count).astype("u4")
            file[f"{group}/items"] = random.integers(0, items, count).astype("u4")
            file[f"{group}/ratings"] = random.integers(1, 6, count).astype("f4")
        strings = h5py.string_dtype()
        file.create_dataset("dictionary/users", data=[f"u{i}" for i in range(users)], dtype=strings)
        file.create_dataset("dictionary/items", data=[f"i{i}" for i in range(items)], dtype=strings)


class Figures(Evaluating):
    def test_they_are_the_same_on_any_number_of_ranks(self):
        self.make_set(4, NAMES)
        self.trained(NETWORK.format(loss="softmax_cross_entropy", units=4))
        alone = self.figures()
        for ranks in (2, 3):
            ours = self.figures(ranks=ranks)
            for name in ("confusion_matrix", "classes", "roc_auc", "average_precision", "f1_macro"):
                self.assertEqual(ours[name], alone[name], name)
            for name in ("brier_score", "expected_calibration_error"):  # sums in another order
                self.assertAlmostEqual(ours[name], alone[name], places=12)

    def test_they_are_readable_and_classes_have_their_names(self):
        self.make_set(4, NAMES)
        self.trained(NETWORK.format(loss="softmax_cross_entropy", units=4))
        text = self.succeed("evaluate", "run").out
        self.assertRegex(text, r"\n  2 cedar, red +0\.\d{4} +0\.\d{4} +0\.\d{4} +\d+\n")
        self.assertRegex(text, r"\n  macro mean +0\.\d{4}")
        self.assertRegex(text, r"\n  true \\ predicted +0 +1 +2 +3\n")
        self.assertRegex(text, r"\n  expected_calibration_error +0\.\d+")
        self.assertEqual([one["name"] for one in self.figures()["classes"]], NAMES)

    def test_targets_that_are_no_classes_have_an_r2_and_no_classes(self):
        self.make_set(4, targets=True)
        self.trained(LINEAR.format(loss="squared"))
        ours = self.figures()
        self.assertNotIn("confusion_matrix", ours)
        out = self.outputs()
        error = ((out["predictions"] - out["targets"]) ** 2).sum()
        spread = ((out["targets"] - out["targets"].mean()) ** 2).sum()
        self.assertAlmostEqual(ours["r2"], 1 - error / spread, places=5)

    def test_r2_of_several_targets_is_the_mean_of_each_ones(self):
        # Targets of very different means: about their common mean, a model that knows these is nearly right.
        random = numpy.random.default_rng(5)
        with h5py.File(self.folder / "set.h5", "w") as file:
            for group, count in (("train", 200), ("test", 157)):
                features = random.normal(0, 1, (count, 6)).astype("f4")
                noise = random.normal(0, 1, (3, count))
                file[f"{group}/features"] = features
                columns = [noise[0], 30 + noise[1], features[:, 0] + 0.1 * noise[2], numpy.full(count, 2)]
                file[f"{group}/targets"] = numpy.stack(columns, axis=1).astype("f4")
        linear, network = 'kind = "linear"', 'kind = "network"\nlayers = [{ kind = "dense", units = 4 }]'
        self.trained(LINEAR.format(loss="mean_squared_error").replace(linear, network))
        out = self.outputs()
        targets, predictions = (out[name].astype(float) for name in ("targets", "predictions"))
        errors = ((predictions - targets) ** 2).sum(axis=0)[:3]  # the last target never varies
        spreads = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)[:3]
        expected = (1 - errors / spreads).mean()
        self.assertLess(expected, 0.5)
        for ranks in (0, 2):
            self.assertAlmostEqual(self.figures(ranks=ranks)["r2"], expected, places=5)
        self.assertAlmostEqual(self.summary("run")["test"]["r2"], expected, places=5)

    def test_precision_and_recall_of_the_best_items_are_those_of_predict_top(self):
        make_ratings(self.folder / "ratings.h5")
        self.trained(RATINGS)
        self.succeed("predict", "run", "--top", "4", "--output", "top.h5")
        with h5py.File(self.folder / "top.h5") as top, h5py.File(self.folder / "ratings.h5") as data:
            best = dict(zip(top["users"], top["items"]))
            train = set(zip(data["train/users"], data["train/items"]))
            liked = {}
            for user, item, rating in zip(data["test/users"], data["test/items"], data["test/ratings"]):
                if rating >= 4 and (user, item) not in train:
                    liked.setdefault(user, set()).add(item)
        hits = {user: len(items & set(best[user])) for user, items in liked.items()}
        precision = numpy.mean([hits[user] / 4 for user in liked])
        recall = numpy.mean([hits[user] / len(liked[user]) for user in liked])
        for ranks in (0, 3):
            ours = self.figures("--at", "4", "--relevant", "4", ranks=ranks)
            self.assertAlmostEqual(ours["precision_at_4"], precision, places=12)
            self.assertAlmostEqual(ours["recall_at_4"], recall, places=12)
        self.assertRegex(self.succeed("evaluate", "run").out, r"\n  ndcg@10 +0\.\d+")
        self.assertNotIn("precision", self.succeed("evaluate", "run", "--at", "0").out)
        self.assertIn("r2", ours)


class Predicting(Evaluating):
    def test_tables_name_classes_and_have_the_labels(self):
        labels = self.make_set(4, NAMES)
        self.trained(NETWORK.format(loss="softmax_cross_entropy", units=4))
        for ranks in (0, 3):
            rows = self.table("--overwrite", ranks=ranks)
            self.assertEqual(
                list(rows[0]), ["example", "label", "label_name", "class", "class_name", "p0", "p1", "p2", "p3"]
            )
            self.assertEqual([int(row["label"]) for row in rows], labels.tolist())
            for row in rows:
                self.assertEqual(row["label_name"], NAMES[int(row["label"])])
                self.assertEqual(row["class_name"], NAMES[int(row["class"])])
            out = self.outputs("--overwrite", ranks=ranks)
            numpy.testing.assert_array_equal(out["labels"], labels)
            self.assertEqual([name.decode() for name in out["class_names"]], NAMES)
        (self.folder / "run/dictionary.h5").unlink()
        (self.folder / "set.h5").rename(self.folder / "other.h5")
        rows = self.table("--data", "other.h5", "--overwrite")  # nobody has the names that the run was trained with
        self.assertEqual(rows[0].keys() & {"class_name"}, {"class_name"})

    def test_margins_are_called_so_and_probabilities_p(self):
        labels = self.make_set(2)
        for loss, columns in (("hinge", ["margin0", "margin1"]), ("logistic", ["p0", "p1"])):
            self.trained(LINEAR.format(loss=loss), run=loss)
            self.succeed("predict", loss, "--output", f"{loss}.csv")
            with open(self.folder / f"{loss}.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(list(rows[0]), ["example", "label", "class", *columns])
            second = numpy.array([float(row[columns[1]]) for row in rows])
            chosen = numpy.array([int(row["class"]) for row in rows])
            numpy.testing.assert_array_equal(chosen, second > (0 if loss == "hinge" else 0.5))
            self.assertEqual([int(row["label"]) for row in rows], labels.tolist())

    def test_one_sigmoid_output_is_a_probability_and_a_class(self):
        answers = self.make_set(2, targets=True)
        self.trained(NETWORK.format(loss="sigmoid_cross_entropy", units=1))
        rows = self.table(ranks=2)
        self.assertEqual(list(rows[0]), ["example", "target", "class", "p1"])
        self.assertEqual([int(row["target"]) for row in rows], answers.tolist())
        for row in rows:
            self.assertEqual(int(row["class"]), int(float(row["p1"]) > 0.5))

    def test_ratings_stand_beside_their_predictions(self):
        make_ratings(self.folder / "ratings.h5")
        self.trained(RATINGS)
        rows = self.table(ranks=2)
        self.assertEqual(list(rows[0]), ["example", "user", "item", "rating", "y0"])
        with h5py.File(self.folder / "ratings.h5") as file:
            self.assertEqual([float(row["rating"]) for row in rows], file["test/ratings"][:].tolist())

    def test_a_file_is_replaced_only_where_that_is_said(self):
        make_ratings(self.folder / "ratings.h5")
        self.trained(RATINGS)
        for words in (["--output", "a.csv"], ["--output", "a.h5"], ["--top", "2", "--output", "t.csv"]):
            with self.subTest(words=words):
                file = self.folder / words[-1]
                self.succeed("predict", "run", *words)
                earlier = file.stat().st_mtime_ns
                for ranks in (0, 2):
                    result = self.unisono("predict", "run", *words, ranks=ranks)
                    self.assertEqual(result.code, 1, result)
                    self.assertEqual(len(messages(result)), 1, result)
                    self.assertIn("already exists; choose another --output, or add --overwrite", result.err)
                    self.assertEqual(file.stat().st_mtime_ns, earlier)
                self.succeed("predict", "run", *words, "--overwrite")
                self.assertNotEqual(file.stat().st_mtime_ns, earlier)


LAYERS = """
name = "layers"
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [
  { kind = "convolution", channels = 4, kernel = 5, stride = 2 },
  { kind = "relu" },
  { kind = "residual", layers = [
    { kind = "convolution", channels = 4, kernel = 3, padding = 1, bias = false },
    { kind = "batch_norm" },
    { kind = "relu" },
    { kind = "convolution", channels = 4, kernel = 3, padding = 1, bias = false },
    { kind = "batch_norm" },
  ] },
  { kind = "relu" },
  { kind = "flatten" },
  { kind = "dropout" },
  { kind = "dense", units = 16, name = "code" },
  { kind = "relu" },
  { kind = "dense", units = 10 },
]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 1
batch_size = 24
threads = 1
"""


class Layers(Evaluating):
    """Each layer's outputs follow from those of the layer before it."""

    def layer(self, name, ranks=0):
        return self.outputs("--layer", name, "--overwrite", ranks=ranks)["predictions"]

    def test_each_layer_follows_from_the_one_before(self):
        self.trained(LAYERS)
        with h5py.File(self.checkpoints("run")[-1]) as file:
            theta = {name: item[()] for name, item in file["parameters"].items()}
            running = {name: item[()] for name, item in file["statistics"].items()}
        with h5py.File(self.digits) as file:
            features = file["test/features"]
            images = features[:].astype("f4").reshape(101, 28, 28) * features.attrs.get("scale", 1)
        first = self.layer("convolution1").reshape(101, 4, 12, 12)
        weight, bias = theta["convolution1.weight"], theta["convolution1.bias"]
        patch = images[7, 4:9, 6:11]  # row 2 and column 3 of the outputs, stride 2
        expected = (weight[:, 0] * patch).sum(axis=(1, 2)) + bias
        numpy.testing.assert_allclose(first[7, :, 2, 3], expected, rtol=1e-4, atol=1e-5)
        self.assertLess(first.min(), 0)  # the ReLU behind it is another layer's
        relu = self.layer("relu1").reshape(first.shape)
        numpy.testing.assert_array_equal(relu, numpy.maximum(first, 0))

        inner = self.layer("residual1.convolution2").reshape(first.shape)
        gain, shift = (theta[f"residual1.batch_norm2.{name}"] for name in ("gamma", "beta"))
        mean, variance = (running[f"residual1.batch_norm2.{name}"] for name in ("mean", "variance"))
        column = (slice(None), None, None)
        norm = (inner - mean[column]) / numpy.sqrt(variance[column] + 1e-5) * gain[column] + shift[column]
        normed = self.layer("residual1.batch_norm2").reshape(first.shape)
        numpy.testing.assert_allclose(normed, norm, rtol=1e-4, atol=1e-5)
        added = self.layer("residual1").reshape(first.shape)
        numpy.testing.assert_allclose(added, normed + relu, rtol=1e-5, atol=1e-6)
        numpy.testing.assert_array_equal(self.layer("relu2").reshape(first.shape), numpy.maximum(added, 0))

        flat = self.layer("flatten1")
        numpy.testing.assert_array_equal(self.layer("dropout1"), flat)
        code = self.layer("code")
        weights = theta["code.weight"].reshape(16, -1)
        numpy.testing.assert_allclose(code, flat @ weights.T + theta["code.bias"], rtol=1e-4, atol=1e-5)
        logits = self.layer("dense2")
        shares = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        numpy.testing.assert_allclose(
            self.outputs("--overwrite")["predictions"], shares / shares.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6
        )
        numpy.testing.assert_array_equal(self.layer("code", ranks=3), code)

    def test_tables_have_labels_beside_a_layers_outputs(self):
        self.trained(LAYERS)
        rows = self.table("--layer", "code")
        self.assertEqual(list(rows[0]), ["example", "label", *(f"y{i}" for i in range(16))])
        self.succeed("predict", "run", "--layer", "code", "--output", "code.h5")
        with h5py.File(self.folder / "code.h5") as file:
            self.assertEqual(file["predictions"].attrs["layer"], b"code")
            self.assertEqual(file["predictions"].attrs["outputs"], b"values")

    def test_an_unknown_layer_is_an_error_that_lists_the_layers(self):
        self.trained(LAYERS)
        for ranks in (0, 2):
            result = self.unisono("predict", "run", "--layer", "dense7", "--output", "x.h5", ranks=ranks)
            self.assertEqual(result.code, 2, result)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn("no layer 'dense7'; choose from convolution1, relu1, residual1.convolution1,", result.err)
        make_ratings(self.folder / "ratings.h5")
        self.trained(RATINGS, run="factors")
        result = self.unisono("predict", "factors", "--layer", "dense1", "--output", "x.h5")
        self.assertEqual(result.code, 2, result)
        self.assertIn("only networks", result.err)


if __name__ == "__main__":
    unittest.main()
