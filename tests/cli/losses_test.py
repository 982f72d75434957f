"""Losses, activations and class weights through the binary."""

import re
import unittest

import h5py
import numpy

from harness import BinaryTest, messages

NETWORK = """
name = "losses"
seed = 5
[data]
path = "{path}"
shuffle = {shuffle}
[model]
kind = "network"
loss = "{loss}"
layers = [{layers}]
[optimizer]
kind = "{optimizer}"
learning_rate = {rate}
[train]
epochs = {epochs}
batch_size = {batch}
threads = 1
"""

LINEAR = """
name = "losses"
[data]
path = "{path}"
shuffle = false
[model]
kind = "linear"
[optimizer]
kind = "sgd"
learning_rate = {rate}
[train]
epochs = {epochs}
batch_size = {batch}
[strategy]
kind = "{strategy}"
"""


def write_set(path, features, **answers):
    """The same examples to train and to test on."""
    with h5py.File(path, "w") as file:
        for group in ("train", "test"):
            file[f"{group}/features"] = features.astype(numpy.float32)
            for name, values in answers.items():
                file[f"{group}/{name}"] = values
        if "labels" in answers:
            file.attrs["classes"] = int(answers["labels"].max()) + 1


def blobs(counts, seed=1, spread=0.6, width=4):
    """Examples of classes around points that are two apart, in random order."""
    random = numpy.random.default_rng(seed)
    labels = numpy.concatenate([numpy.full(n, k, numpy.int64) for k, n in enumerate(counts)])
    features = random.normal(0, spread, (len(labels), width))
    features[numpy.arange(len(labels)), labels % width] += 2
    order = random.permutation(len(labels))
    return features[order], labels[order]


class LossTest(BinaryTest):
    def network(self, **changes):
        settings = {
            "path": "set.h5",
            "shuffle": "true",
            "loss": "softmax_cross_entropy",
            "layers": '{ kind = "dense", units = 8 }, { kind = "tanh" }, { kind = "dense", units = 3 }',
            "optimizer": "adam",
            "rate": 0.02,
            "epochs": 20,
            "batch": 20,
            **changes,
        }
        self.write("config.toml", NETWORK.format(**settings))

    def linear(self, **changes):
        settings = {"path": "set.h5", "rate": 0.1, "epochs": 3, "batch": 50, "strategy": "serial", **changes}
        self.write("config.toml", LINEAR.format(**settings))

    def predictions(self, run):
        self.succeed("predict", run, "--output", "predictions.h5", "--overwrite")
        with h5py.File(self.folder / "predictions.h5", "r") as file:
            return {name: file[name][()] for name in file}


class Losses(LossTest):
    def test_losses_of_errors_are_what_numpy_makes_of_the_predictions(self):
        random = numpy.random.default_rng(2)
        features = random.normal(0, 1, (200, 3))
        targets = (features @ random.normal(0, 1, (3, 2)) + 0.1 * random.normal(0, 1, (200, 2))).astype(numpy.float32)
        targets[::20] += 8  # outliers
        write_set(self.folder / "set.h5", features, targets=targets)
        layers = '{ kind = "dense", units = 2 }'
        for loss, delta in (("mean_absolute_error", None), ("huber", None), ("huber", 0.25)):
            self.network(loss=loss, layers=layers)
            options = ["--set", f"model.delta={delta}"] if delta else []
            self.train(f"runs/{loss}{delta}", *options)
            test = self.summary(f"runs/{loss}{delta}")["test"]
            error = numpy.abs(self.predictions(f"runs/{loss}{delta}")["predictions"] - targets).astype(numpy.float64)
            d = delta or 1
            huber = numpy.where(error <= d, error**2 / 2, d * (error - d / 2))
            expected = (error if loss == "mean_absolute_error" else huber).mean()
            self.assertAlmostEqual(test["loss"], expected, delta=1e-5 * expected)
            self.assertAlmostEqual(test["mae"], error.mean(), delta=1e-5 * error.mean())
            self.assertLess(numpy.median(error), 0.4)  # the outliers do not draw it

    def test_a_multiclass_hinge_tells_classes_apart_by_scores(self):
        features, labels = blobs((60, 60, 60))
        write_set(self.folder / "set.h5", features, labels=labels)
        self.network(loss="multiclass_hinge")
        self.train("run")
        test = self.summary("run")["test"]
        found = self.predictions("run")
        scores = found["predictions"].astype(numpy.float64)
        own = scores[numpy.arange(len(labels)), labels]
        others = scores.copy()
        others[numpy.arange(len(labels)), labels] = -numpy.inf
        expected = numpy.maximum(0, 1 + others.max(axis=1) - own).mean()
        self.assertAlmostEqual(test["loss"], expected, delta=1e-5 * max(1, expected))
        self.assertAlmostEqual(test["accuracy"], (found["classes"] == labels).mean(), places=6)
        self.assertGreater(test["accuracy"], 0.95)

    def test_one_output_tells_two_classes_apart(self):
        features, labels = blobs((80, 40))
        write_set(self.folder / "set.h5", features, labels=labels)
        layers = '{ kind = "dense", units = 8 }, { kind = "silu" }, { kind = "dense", units = 1 }'
        self.network(loss="sigmoid_cross_entropy", layers=layers)
        for ranks in (0, 2):
            self.train(f"run{ranks}", ranks=ranks)
        test = self.summary("run0")["test"]
        found = self.predictions("run0")
        p = found["predictions"].astype(numpy.float64)
        self.assertEqual(p.shape, (120, 2))
        numpy.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
        numpy.testing.assert_array_equal(found["classes"], p[:, 1] > 0.5)
        self.assertAlmostEqual(test["accuracy"], (found["classes"] == labels).mean(), places=6)
        self.assertGreater(test["accuracy"], 0.95)
        loss = -numpy.log(p[numpy.arange(120), labels]).mean()
        self.assertAlmostEqual(test["loss"], loss, delta=1e-5 * loss)
        self.succeed("predict", "run0", "--output", "predictions.csv")
        lines = (self.folder / "predictions.csv").read_text().splitlines()
        self.assertEqual(lines[0].count("p1"), 1)
        # 120 steps of Adam: what roundings of sums in another order, 2⁻²⁴ each, have grown to.
        self.assert_close("run0", "run2", 1e-3)

    def test_one_output_is_not_enough_for_three_classes(self):
        features, labels = blobs((20, 20, 20))
        write_set(self.folder / "set.h5", features, labels=labels)
        self.network(loss="sigmoid_cross_entropy", layers='{ kind = "dense", units = 1 }')
        result = self.unisono("train", "config.toml", "--output", "run")
        self.assertEqual(result.code, 2, result)
        self.assertIn("one output tells two classes apart, but the data have 3; give the last layer 3", result.err)

    def test_a_delta_belongs_to_huber(self):
        self.network()
        result = self.unisono("train", "config.toml", "--set", "model.delta=2")
        self.assertEqual(result.code, 2, result)
        self.assertIn('delta belongs to loss = "huber"', result.err)

    def test_every_activation_trains(self):
        features, labels = blobs((60, 60, 60))
        write_set(self.folder / "set.h5", features, labels=labels)
        kinds = ('"silu"', '"leaky_relu"', '"leaky_relu", slope = 0.2', '"elu"', '"elu", alpha = 0.5', '"softplus"')
        for number, kind in enumerate(kinds):
            layers = f'{{ kind = "dense", units = 8 }}, {{ kind = {kind} }}, {{ kind = "dense", units = 3 }}'
            self.network(layers=layers)
            self.train(f"run{number}")
            self.assertGreater(self.summary(f"run{number}")["test"]["accuracy"], 0.95, kind)


class ClassWeights(LossTest):
    def test_weights_are_repetitions(self):
        """A step on all examples: weight 3 is the example three times, but for the 1/B that the rate makes up for."""
        features, labels = blobs((90, 30))
        once, thrice = numpy.arange(120), numpy.concatenate([numpy.arange(120)] + 2 * [numpy.flatnonzero(labels == 1)])
        write_set(self.folder / "set.h5", features, labels=labels)
        write_set(self.folder / "repeated.h5", features[thrice], labels=labels[thrice])
        self.assertEqual(len(thrice), 180)
        for model in ("network", "linear"):
            for name, path, examples, rate in (("once", "set.h5", once, 0.4), ("repeated", "repeated.h5", thrice, 0.6)):
                common = {"path": path, "rate": rate, "epochs": 10, "batch": len(examples)}
                if model == "linear":
                    self.linear(strategy="allreduce", **common)
                else:
                    layers = '{ kind = "dense", units = 6 }, { kind = "silu" }, { kind = "dense", units = 2 }'
                    self.network(optimizer="sgd", layers=layers, **common)
                weights = ["--set", "train.class_weights=[1, 3]"] if name == "once" else []
                self.train(f"{model}-{name}", *weights)
            # Ten steps, in each of which sums of 180 terms are rounded in another order.
            self.assert_close(f"{model}-once", f"{model}-repeated", 1e-5, groups=("parameters",))

    def test_balanced_weights_are_those_of_the_training_split(self):
        features, labels = blobs((90, 20, 10))
        write_set(self.folder / "set.h5", features, labels=labels)
        self.network(epochs=2)
        self.train("balanced", "--set", "train.class_weights=balanced")
        weights = [120 / (3 * n) for n in (90, 20, 10)]
        self.train("listed", "--set", f"train.class_weights={weights}")
        self.assert_same_bits("balanced", "listed")
        self.train("plain")
        self.assertGreater(numpy.abs(self.flat("plain") - self.flat("balanced")).max(), 1e-3)
        # Streamed or resident, the counts are the same; so are they on two ranks.
        for reader in ("resident", "streaming"):
            self.train(reader, "--set", "train.class_weights=balanced", "--set", f"data.reader={reader}", ranks=2)
        self.assert_close("balanced", "resident", 1e-4)
        self.assertIn('class_weights = "balanced"', (self.folder / "balanced/config.toml").read_text())

    def flat(self, run):
        return numpy.concatenate([a.ravel() for name, a in self.vectors(run).items() if name.startswith("parameters")])

    def test_the_loss_that_is_reported_has_weights_and_evaluations_have_none(self):
        features, labels = blobs((90, 30))
        write_set(self.folder / "set.h5", features, labels=labels)
        layers = '{ kind = "dense", units = 2, initialiser = "zeros" }'
        self.network(optimizer="sgd", rate=1e-30, epochs=1, batch=120, layers=layers)
        self.train("run", "--set", "train.class_weights=[2, 4]")
        summary = self.summary("run")
        ln2 = float(numpy.log(2))  # of every example
        self.assertAlmostEqual(summary["train"]["loss"], (2 * 90 + 4 * 30) / 120 * ln2, places=5)
        self.assertAlmostEqual(summary["test"]["loss"], ln2, places=6)

    def test_in_place_a_weight_multiplies_the_step(self):
        features, labels = blobs((45, 15))
        write_set(self.folder / "set.h5", features, labels=labels)
        self.linear()
        self.train("run", "--set", "train.class_weights=[0.5, 2.5]")
        w, b = numpy.zeros(4), 0.0
        for _ in range(3):
            for x, t in zip(features.astype(numpy.float32).astype(numpy.float64), labels):
                step = 0.1 * (0.5, 2.5)[t] * (1 / (1 + numpy.exp(-(x @ w + b))) - t)
                w, b = w - step * x, b - step
        # 180 steps, each of some ten roundings.
        vectors = self.vectors("run")
        self.assertLess(numpy.abs(self.found(vectors, "linear.weight") - w).max(), 180 * 10 * 2**-24)
        self.assertLess(abs(self.found(vectors, "linear.bias")[0] - b), 180 * 10 * 2**-24)

    def found(self, vectors, name):
        return next(a for key, a in vectors.items() if key.endswith(name)).ravel()

    def test_sparse_rows_are_weighted_like_the_table_that_they_are(self):
        features, labels = blobs((45, 15))
        lines = []
        for x, t in zip(features.astype(numpy.float32), labels):
            lines.append(f"{t} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(x)))
        self.write("set.txt", "\n".join(lines) + "\n")
        self.succeed("data", "import", "libsvm", "set.txt", "--output", "sparse.h5")
        write_set(self.folder / "set.h5", features, labels=labels)
        for name, path in (("table", "set.h5"), ("sparse", "sparse.h5")):
            self.linear(path=path)
            self.train(name, "--set", "train.class_weights=balanced")
        # Sums of four products in another order, in 180 steps.
        self.assert_close("table", "sparse", 1e-4, groups=("parameters",))
        self.train("plain")
        self.assertGreater(numpy.abs(self.flat("plain") - self.flat("sparse")).max(), 1e-2)

    def test_balance_finds_a_rare_class(self):
        features, labels = blobs((400, 20), spread=1.6)
        write_set(self.folder / "set.h5", features, labels=labels)
        recall = {}
        for weights in ("none", "balanced"):
            self.linear(epochs=20, rate=0.05, strategy="allreduce")
            self.train(weights, "--set", f"train.class_weights={weights}")
            recall[weights] = (self.predictions(weights)["classes"][labels == 1] == 1).mean()
        self.assertGreater(recall["balanced"], recall["none"] + 0.3)

    def test_weights_that_do_not_fit_are_refused(self):
        features, labels = blobs((20, 20, 20))
        write_set(self.folder / "set.h5", features, labels=labels)
        write_set(self.folder / "targets.h5", features, targets=features[:, :1].astype(numpy.float32))
        self.network()
        with_targets = ["--set", "data.path=targets.h5", "--set", "model.loss=mean_squared_error"]
        one_output = ["--set", 'model.layers=[{kind = "dense", units = 1}]']
        for options, message in (
            (["--set", "train.class_weights=[1, 2]"], "2 weights are given, but the data have 3 classes"),
            (["--set", "train.class_weights=[1, -2, 1]"], "is -2, but must be at least 0"),
            (["--set", "train.class_weights=[1, inf, 1]"], "must be a finite number"),
            (["--set", "train.class_weights=[0, 0, 0]"], "no class has a weight above 0"),
            (["--set", "train.class_weights=balance"], "did you mean 'balanced'?"),
            (["--set", "train.class_weights=balanced", *with_targets, *one_output], "targets.h5 has no labels"),
        ):
            for ranks in (0, 2):
                result = self.unisono("train", "config.toml", "--output", "run", *options, ranks=ranks)
                self.assertEqual(result.code, 2, result)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn(message, re.sub(r"\s+", " ", result.out + result.err))

    def test_a_run_is_resumed_with_its_weights(self):
        features, labels = blobs((90, 30))
        write_set(self.folder / "set.h5", features, labels=labels)
        self.network(epochs=4, layers='{ kind = "dense", units = 2 }')
        weights = ["--set", "train.class_weights=balanced"]
        self.train("whole", *weights)
        self.train("parts", *weights, "--set", "train.epochs=2")
        self.train("parts", *weights, "--resume")
        self.assert_same_bits("whole", "parts")
        result = self.unisono("train", "config.toml", "--output", "parts", "--resume")
        self.assertEqual(result.code, 2, result)
        self.assertIn("train.class_weights", result.err)


if __name__ == "__main__":
    unittest.main()
