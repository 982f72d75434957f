"""The Python package: runs, sets, training and predictions from Python."""

import importlib.util
import os
import pathlib
import sys
import tempfile
import time
import unittest

import h5py
import numpy

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"])
sys.path.insert(0, str(SOURCE / "python"))
import unisono


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


CONFIG = {
    "name": "from python",
    "data": {"path": "set.h5", "normalization": "feature"},
    "model": {
        "kind": "network",
        "loss": "softmax_cross_entropy",
        "layers": [
            {"kind": "dense", "units": 8},
            {"kind": "batch_norm"},
            {"kind": "relu"},
            {"kind": "dense", "units": 2},
        ],
    },
    "optimizer": {"kind": "adam", "learning_rate": 0.01},
    "train": {"epochs": 5, "batch_size": 20, "threads": 1},
}


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        random = numpy.random.default_rng(1)
        self.features = random.normal(size=(300, 4)).astype("float32")
        self.labels = numpy.where(self.features[:, 0] + self.features[:, 1] > 0, "yes", "no")

    def write(self, name="set.h5"):
        x, y = self.features, self.labels
        return unisono.write_set(
            name, (x[:200], y[:200]), validation=(x[200:250], y[200:250]), test=(x[250:], y[250:]), overwrite=True
        )


class Runs(InFolder):
    def setUp(self):
        super().setUp()
        self.write()

    def test_a_run_from_config_to_predictions(self):
        run = unisono.launch(CONFIG, output="run", progress=False)
        self.assertEqual(run.summary["status"], "complete")
        self.assertEqual(run.config["train"]["epochs"], 5)
        columns = run.columns("train")
        self.assertEqual(columns["epoch"].tolist(), [1, 2, 3, 4, 5])
        self.assertGreater(columns["seconds.compute"].min(), 0)
        self.assertEqual([one.step for one in run.checkpoints], [40, 50])
        last = run.checkpoint()
        self.assertEqual(last.step, 50)
        self.assertEqual(last.parameters["dense1.weight"].shape[:2], (8, 4))
        self.assertEqual(set(last.statistics), {"batch_norm1.mean", "batch_norm1.variance"})
        self.assertEqual(run.checkpoint("best").config["name"], "from python")
        predicted = run.predict()
        self.assertEqual(predicted.class_names, ["no", "yes"])
        self.assertEqual(predicted.outputs, "probabilities")
        found = numpy.array(predicted.class_names)[predicted["classes"]]
        accuracy = float(numpy.mean(found == self.labels[250:]))
        self.assertAlmostEqual(run.evaluate(split="test")["accuracy"], accuracy)
        self.assertAlmostEqual(run.summary["test"]["accuracy"], accuracy)
        # A forward pass by hand, with the parameters and statistics as arrays.
        p, s = last.parameters, last.statistics
        mean, deviation = self.features[:200].mean(axis=0), self.features[:200].std(axis=0)
        hidden = (self.features[250:] - mean) / deviation @ p["dense1.weight"].reshape(8, 4).T + p["dense1.bias"]
        hidden = (hidden - s["batch_norm1.mean"]) / numpy.sqrt(s["batch_norm1.variance"] + 1e-5)
        hidden = numpy.maximum(hidden * p["batch_norm1.gamma"] + p["batch_norm1.beta"], 0)
        scores = hidden @ p["dense2.weight"].reshape(2, 8).T + p["dense2.bias"]
        odds = numpy.exp(scores[:, 1] - scores[:, 0])
        numpy.testing.assert_allclose(predicted["predictions"][:, 1], odds / (1 + odds), atol=1e-5)
        page = run._repr_html_()
        self.assertIn("<iframe srcdoc=", page)
        self.assertIn("from python", page)

    def test_ranks_changes_and_going_on(self):
        whole = unisono.launch(CONFIG, output="whole", ranks=2, progress=False)
        self.assertEqual(whole.summary["ranks"], 2)
        part = unisono.launch(CONFIG, output="part", ranks=2, changes={"train": {"epochs": 2}}, progress=False)
        self.assertEqual(part.summary["epochs"], 2)
        changes = {"train": {"epochs": 5}}
        part = unisono.launch(CONFIG, output="part", ranks=2, resume=True, changes=changes, progress=False)
        for name, array in whole.checkpoint().parameters.items():
            numpy.testing.assert_array_equal(part.checkpoint().parameters[name], array)

    def test_a_training_in_the_background_is_stopped_and_goes_on(self):
        endless = unisono.merge(CONFIG, {"train": {"epochs": 1_000_000}})
        for ranks in (1, 2):
            self.check_stop(endless, ranks)

    def check_stop(self, endless, ranks):
        training = unisono.start(endless, output=f"run-{ranks}", ranks=ranks)
        while not training.events("train"):
            self.assertTrue(training.is_running, training.output)
            time.sleep(0.01)
        training.stop()
        with self.assertRaises(unisono.Interrupted):
            training.wait(progress=False)
        steps = unisono.Run(f"run-{ranks}").checkpoint().step
        self.assertGreater(steps, 0)

    def test_what_the_program_refuses_is_an_exception_of_its_kind(self):
        def message(kind, **options):
            with self.assertRaises(kind) as caught:
                unisono.launch(output="no", progress=False, **options)
            return str(caught.exception)

        wrong = unisono.merge(CONFIG, {"optimizer": {"kind": "adams"}})
        self.assertRegex(message(unisono.ConfigError, config=wrong), r"^config error: config:\d+:\d+: .*'adams'")
        missing = unisono.merge(CONFIG, {"data": {"path": "nowhere.h5"}})
        self.assertIn("nowhere.h5: there is no such file", message(unisono.DataError, config=missing))
        with self.assertRaisesRegex(unisono.DataError, "is no run"):
            unisono.Run("nothing")
        unisono.launch(CONFIG, output="run", progress=False)
        with self.assertRaisesRegex(unisono.CheckpointError, "there is no checkpoint 7; there are step-000000040"):
            unisono.Run("run").checkpoint(7)
        path = unisono.Run("run").checkpoint().path
        path.write_bytes(path.read_bytes()[:500])
        with self.assertRaisesRegex(unisono.CheckpointError, "damaged"):
            unisono.Checkpoint(path)
        with self.assertRaises(FileExistsError):
            unisono.write_set("set.h5", self.features)

    def test_mistakes_are_told(self):
        for ranks in (1.5, 0, -1, True, "2", None):
            with self.assertRaisesRegex(ValueError, "ranks = .*: a whole number of at least 1 is needed"):
                unisono.launch(CONFIG, ranks=ranks, output="no")
        for config in (3, None, ["a"]):
            with self.assertRaisesRegex(TypeError, "a config is the path of a TOML file, or nested dictionaries, not"):
                unisono.launch(config, output="no")
        pathlib.Path("wrong.toml").write_text("name = ")
        with self.assertRaisesRegex(unisono.ConfigError, "config error: wrong.toml: Invalid value .at end of document"):
            unisono.launch("wrong.toml")
        self.assertFalse(pathlib.Path("no").exists())
        run = unisono.launch(CONFIG, output="run", progress=False)
        self.assertEqual(run.checkpoint(numpy.int64(40)).step, 40)
        for which in ("nope", 40.5, None, True):
            with self.assertRaisesRegex(ValueError, 'which = .*: "last", "best" or the number of a step is wanted'):
                run.checkpoint(which)

    def test_a_search(self):
        config = unisono.merge(
            CONFIG,
            {"search": {"method": "grid", "space": {"optimizer.learning_rate": [1e-6, 0.01], "train.epochs": [1, 5]}}},
        )
        found = unisono.search(config, ranks=2, output="found")
        trials = found.trials
        self.assertEqual(len(trials["trial"]), 4)
        best_of = numpy.argmax if "accuracy" in found.result["metric"] else numpy.argmin
        best = int(best_of(trials["value"]))
        self.assertEqual(found.result["best"], trials["trial"][best])
        self.assertEqual(found.best.config["optimizer"]["learning_rate"], 0.01)
        self.assertEqual(set(trials["optimizer.learning_rate"]), {1e-6, 0.01})
        with self.assertRaisesRegex(unisono.ConfigError, "no \\[search\\]|search"):
            unisono.search(CONFIG, output="no")

    def test_configs_are_written_as_they_are_read(self):
        config = {
            "name": 'quotes " \\ and\nlines',
            "a": {"b": [1, 2.5, True, {"c": "ü"}], "empty": {}},
            "with.dot": 1e-7,
            "n": numpy.float32(0.5),
        }
        pathlib.Path("c.toml").write_text(unisono.configs.to_toml(config))
        read = unisono.read_config("c.toml")
        self.assertEqual(read, {**config, "n": 0.5})

    @needs("pandas")
    def test_metrics_are_a_data_frame(self):
        run = unisono.launch(CONFIG, output="run", progress=False)
        frame = run.metrics("evaluation")
        self.assertEqual(set(frame["split"]), {"validation", "test"})
        self.assertEqual(frame[frame.split == "test"].accuracy.iloc[-1], run.summary["test"]["accuracy"])


class Sets(InFolder):
    def test_what_is_written_is_read(self):
        self.write()
        read = unisono.read_set("set.h5")
        sizes = {name: len(group) for name, group in read.items()}
        self.assertEqual(sizes, {"train": 200, "validation": 50, "test": 50})
        self.assertEqual(read.class_names, ["no", "yes"])
        numpy.testing.assert_array_equal(read["train"].features, self.features[:200])
        numpy.testing.assert_array_equal(numpy.array(read.class_names)[read["test"].labels], self.labels[250:])

    def test_files_that_do_not_fit_together_are_refused(self):
        x, y = self.features, self.labels
        unisono.write_set("part-0.h5", (x, y))
        for name, groups, message in [
            ("names", {"train": (x, numpy.where(y == "no", "maybe", y))}, "part-1.h5: has other names of classes"),
            ("labels", {"train": x}, "part-1.h5"),
            ("shape", {"train": (x[:, :2], y)}, "part-1.h5: /train/features has the shape"),
        ]:
            unisono.write_set("part-1.h5", **groups, overwrite=True)
            with self.subTest(name), self.assertRaisesRegex(unisono.DataError, message):
                unisono.read_set("part-*.h5")
        self.assertEqual(len(unisono.read_set("part-[^1].h5")["train"]), 300)

    def test_images_targets_weights_and_several_files(self):
        images = numpy.random.default_rng(2).integers(0, 256, (20, 3, 4, 5), dtype="uint8")
        targets = numpy.arange(40.0).reshape(20, 2)
        for i in range(2):
            part = slice(10 * i, 10 * i + 10)
            unisono.write_set(f"part-{i}.h5", (images[part], targets[part], numpy.ones(10)))
        read = unisono.read_set("part-*.h5")["train"]
        numpy.testing.assert_allclose(read.features, images / 255, rtol=1e-6)
        numpy.testing.assert_array_equal(read.targets, targets)
        self.assertEqual(read.weights.shape, (20,))
        told = unisono.run_program("data", "describe", "part-*.h5")
        self.assertIn("2 files", told)
        self.assertIn("3 channels of 4 × 5", told)

    def test_several_labels(self):
        x = self.features[:200]
        targets = numpy.stack([x[:, 0] > 0, x[:, 1] > 0], axis=1).astype(int)
        unisono.write_set("set.h5", (x, targets), test=(x[:40], targets[:40]), label_names=["cat", "dog"])
        self.assertEqual(unisono.read_set("set.h5").label_names, ["cat", "dog"])
        network = {"kind": "network", "loss": "sigmoid_cross_entropy", "layers": [{"kind": "dense", "units": 2}]}
        run = unisono.launch({**CONFIG, "model": network}, output="run", progress=False)
        predicted = run.predict()
        self.assertEqual(predicted.label_names, ["cat", "dog"])
        self.assertEqual(set(predicted), {"predictions", "targets"})
        numpy.testing.assert_array_equal(predicted["targets"], targets[:40])
        self.assertIn("f1_micro", run.summary["test"])
        for wrong in (targets + 1, targets[:, :1], targets[:, 0]):
            with self.assertRaisesRegex(ValueError, "label_names names"):
                unisono.write_set("no.h5", (x, wrong), label_names=["cat", "dog"])

    def test_what_is_no_set_is_refused(self):
        x, y = self.features, self.labels
        for wrong, message in [
            (((x, y[:5]),), "X has 300 examples, y has 5"),
            ((numpy.array([["a"], ["b"]]),), "features must be numbers"),
            ((numpy.array([[1.0], [numpy.nan]]),), "not finite"),
            (((x, numpy.full(300, -1)),), "a label is -1"),
            (((x, y, y, y),), "not 4 things"),
            (((x, numpy.where(y == "yes", 2**32, 0)),), "a label is 2\\*\\*31 or more"),
            (((x, numpy.full(300, numpy.inf)),), "values of y are not finite"),
            (((x.astype(float) * 1e300,),), "values of X are not finite"),
            (((x, y, -numpy.ones(300)),), "weights are one number for each example, at least 0"),
            (((x, numpy.array([None, *y[1:]], dtype=object)),), "y must be words, or numbers, for all examples"),
            ((numpy.ma.masked_greater(x, 0),), "X is masked"),
            ((x[:0],), "a group needs examples"),
            ((), "a set needs examples"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                unisono.write_set("no.h5", *wrong)
        self.assertFalse(pathlib.Path("no.h5").exists())
        for names in ({"feature_names": ["a"]}, {"class_names": ["no", "yes", "no"]}, {"feature_names": ["a"] * 4}):
            with self.assertRaisesRegex(ValueError, "names"):
                unisono.write_set("no.h5", (x, y), **names)
        with self.assertRaisesRegex(ValueError, "'yes' is none of the classes"):
            unisono.write_set("no.h5", (x, y), class_names=["no", "maybe"])
        with h5py.File("other.h5", "w") as file:
            file["x"] = [1]
        with self.assertRaisesRegex(unisono.DataError, "none of the groups"):
            unisono.read_set("other.h5")
        pathlib.Path("text.h5").write_text("no HDF5")
        with self.assertRaisesRegex(unisono.DataError, "text.h5: cannot be read"):
            unisono.read_set("text.h5")

    @needs("pandas")
    def test_tables_with_words_and_gaps(self):
        import pandas

        frame = pandas.DataFrame(
            {"size": [1.0, None, 3.0, 4.0] * 10, "colour": ["red", "blue"] * 20, "kind": ["a", "b", "b", "a"] * 10}
        )
        unisono.import_table(frame, "set.h5", label="kind", missing="mean", test_fraction=0.25)
        config = unisono.merge(CONFIG, {"data": {"path": "set.h5", "normalization": "auto"}})
        run = unisono.launch(config, output="run", progress=False)
        new = frame.drop(columns="kind")
        new.to_csv("new.csv", index=False)
        predicted = run.predict(input="new.csv")["predictions"]
        self.assertEqual(len(predicted), 40)
        numpy.testing.assert_array_equal(run.predict(input=new)["predictions"], predicted)
        with self.assertRaisesRegex(TypeError, "a table is a data frame, an Arrow table or a path, not dict"):
            run.predict(input={"size": [1.0]})
        self.assertEqual(unisono.read_set("set.h5").feature_names, ["size", "colour"])
        unisono.write_set("frame.h5", (frame[["size"]].dropna(), frame.dropna()["kind"]))
        self.assertEqual(unisono.read_set("frame.h5").feature_names, ["size"])

    @needs("pyarrow")
    def test_parquet_files(self):
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({"x": self.features[:, 0], "y": self.features[:, 1], "answer": self.labels})
        pyarrow.parquet.write_table(table, "table.parquet")
        for given in (table, "table.parquet"):
            unisono.import_table(given, "set.h5", label="answer", test_fraction=0.2, overwrite=True)
            run = unisono.launch(CONFIG, output="run", overwrite=True, progress=False)
            self.assertGreater(run.summary["test"]["accuracy"], 0.8)
        by_table = run.predict(input=table)["predictions"]
        numpy.testing.assert_array_equal(run.predict(input="table.parquet")["predictions"], by_table)
        self.assertEqual(by_table.shape, (300, 2))

    @needs("torch")
    def test_sets_of_pytorch(self):
        import torch

        pairs = torch.utils.data.TensorDataset(torch.tensor(self.features), torch.arange(300) % 3)
        unisono.write_set("set.h5", pairs)
        self.assertEqual(unisono.read_set("set.h5")["train"].labels.tolist(), [i % 3 for i in range(300)])


if __name__ == "__main__":
    unittest.main()
