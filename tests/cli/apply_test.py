"""A trained model applied to sets: the same figures and predictions on any number of ranks."""

import contextlib
import json
import unittest

import h5py
import numpy

from harness import BinaryTest, messages, settings


class Applying(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls("run_once")
        test.setUp()
        cls.run_folder = test.folder
        test.train("run", "--set", "data.normalization=channel", "--set", "train.threads=0")
        cls.trained = test  # its folder stays until the class ends

    @classmethod
    def tearDownClass(cls):
        cls.trained.tearDown()
        super().tearDownClass()

    def run_once(self):
        """What setUpClass makes a test of, for its folder."""

    def setUp(self):
        super().setUp()
        if hasattr(type(self), "run_folder"):
            (self.folder / "run").symlink_to(self.run_folder / "run")

    def figures(self, *arguments, ranks=0):
        return json.loads(self.succeed("evaluate", "run", "--json", *arguments, ranks=ranks).out)

    def test_an_evaluation_gives_the_runs_own_figures_on_any_number_of_ranks(self):
        own = self.summary("run")["test"]
        for ranks in (0, 2, 3):
            with self.subTest(ranks=ranks):
                figures = self.figures(ranks=ranks)
                self.assertEqual((figures["split"], figures["examples"], figures["step"]), ("test", 101, 20))
                self.assertEqual(figures["accuracy"], own["accuracy"])
                # Each example's loss is the same bits; only their doubles are added in another order.
                self.assertAlmostEqual(figures["loss"], own["loss"], places=12)

    def test_a_checkpoint_a_split_and_another_file_can_be_named(self):
        first = self.checkpoints("run")[0]
        figures = json.loads(self.succeed("evaluate", first, "--split", "train", "--json").out)
        self.assertEqual((figures["step"], figures["examples"]), (10, 240))
        self.succeed("data", "digits", "--train", "1", "--test", "57", "--seed", "9", "--output", "other.h5")
        self.assertEqual(self.figures("--data", "other.h5")["examples"], 57)
        text = self.succeed("evaluate", "run").out
        self.assertRegex(text, r"accuracy +0\.\d+")

    def test_an_exported_file_is_called_one(self):
        for format in ("hdf5", "npz"):
            self.succeed("export", "run", "--format", format, "--output", f"weights.{format}")
            again = ("export", "--format", "npz", "--output", "a.npz")
            for command in (("evaluate",), ("predict", "--output", "p.csv"), again):
                result = self.unisono(command[0], f"weights.{format}", *command[1:])
                self.assertEqual(result.code, 4, result)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn(f"weights.{format}: is no checkpoint: ", messages(result)[0])
                self.assertIn("from the folder of its run, or one of its checkpoints/*.h5", messages(result)[0])
                self.assertIn(f"--set train.initialise_from=weights.{format}' makes a run of it", messages(result)[0])
                self.assertNotIn("name another checkpoint", messages(result)[0])
        result = self.unisono("evaluate", "digits.h5")
        self.assertEqual(result.code, 4, result)
        self.assertIn("digits.h5: is no checkpoint: it is a data set", messages(result)[0])

    def test_a_set_of_features_alone_is_normalised_as_in_training(self):
        with h5py.File(self.digits, "r") as digits, h5py.File(self.folder / "features.h5", "w") as features:
            digits.copy("test/features", features.create_group("test"))  # with its scale
        self.succeed("predict", "run", "--output", "all.h5")
        self.succeed("predict", "run", "--data", "features.h5", "--output", "alone.h5")
        with h5py.File(self.folder / "all.h5", "r") as a, h5py.File(self.folder / "alone.h5", "r") as b:
            numpy.testing.assert_array_equal(a["predictions"], b["predictions"])
        result = self.unisono("evaluate", "run", "--data", "features.h5", ranks=2)
        self.assertEqual(result.code, 3, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertIn("unisono predict", result.err)

    def test_predictions_are_the_same_on_any_number_of_ranks_and_in_order(self):
        self.succeed("predict", "run", "--output", "one.h5")
        with h5py.File(self.folder / "one.h5", "r") as file:
            one, classes = file["predictions"][:], file["classes"][:]
        self.assertEqual(one.shape, (101, 10))
        numpy.testing.assert_allclose(one.sum(axis=1), 1, atol=10 * 2**-24)
        numpy.testing.assert_array_equal(classes, one.argmax(axis=1))
        with h5py.File(self.digits, "r") as file:
            accuracy = numpy.mean(classes == file["test/labels"][:])
        self.assertAlmostEqual(accuracy, self.summary("run")["test"]["accuracy"], places=12)
        for ranks in (2, 3):
            self.succeed("predict", "run", "--output", f"{ranks}.h5", ranks=ranks)
            with h5py.File(self.folder / f"{ranks}.h5", "r") as file:
                numpy.testing.assert_array_equal(file["predictions"], one)

    def test_the_size_of_a_batch_changes_no_prediction(self):
        first = "the first, with all preparations"
        for size, largest, which in ((1, 1, "the median"), (40, 40, "the median"), (1000, 101, first)):
            done = self.succeed("predict", "run", "--batch-size", str(size), "--output", f"{size}.h5")
            self.assertRegex(done.out, rf"for test of .*; a batch of {largest} took [\d.]+ (µs|ms|s) \({which}\)")
        with contextlib.ExitStack() as files:
            one, some, all_of_them = (
                files.enter_context(h5py.File(self.folder / f"{size}.h5", "r"))["predictions"][()]
                for size in (1, 40, 1000)
            )
        numpy.testing.assert_array_equal(one, all_of_them)
        numpy.testing.assert_array_equal(some, all_of_them)
        self.assertEqual(self.unisono("predict", "run", "--batch-size", "0", "--output", "no.h5").code, 2)

    def test_an_ensemble_predicts_the_mean_of_its_models(self):
        others = ("--set", "seed=4", "--set", "data.normalization=none", "--set", "train.evaluation_batch_size=7")
        self.train("other", *others)
        for run in ("run", "other"):
            self.succeed("predict", run, "--output", f"{run}.h5")
        for ranks in (0, 3):
            with self.subTest(ranks=ranks):
                words = ("predict", "run", "--ensemble", "other", "--output", f"both-{ranks}.h5")
                self.assertIn("and 1 other model", self.succeed(*words, ranks=ranks).out)
                with contextlib.ExitStack() as files:
                    a, b, both = (
                        files.enter_context(h5py.File(self.folder / f"{name}.h5", "r"))["predictions"][()]
                        for name in ("run", "other", f"both-{ranks}")
                    )
                # Halves of sums in double, rounded once.
                mean = (a.astype(numpy.float64) + b.astype(numpy.float64)) / 2
                numpy.testing.assert_array_equal(both, mean.astype(numpy.float32))

    def test_models_of_other_outputs_are_no_ensemble(self):
        layers = '[{ kind = "flatten" }, { kind = "dense", units = 784 }]'
        keys = (f"model.layers={layers}", "model.loss=mean_squared_error", "data.targets=features", "train.epochs=1")
        self.train("wider", *settings(*keys, "optimizer.learning_rate=1e-4", "data.augmentation.shift=0"))
        result = self.unisono("predict", "run", "--ensemble", "wider", "--output", "both.h5", ranks=2)
        self.assertEqual(result.code, 2, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertIn("--ensemble wider: this model has 784 outputs", result.err)

    def test_a_table_of_predictions_has_a_line_an_example(self):
        for ranks in (0, 2):
            self.succeed("predict", "run", "--output", "out.h5", "--overwrite", ranks=ranks)
            self.succeed("predict", "run", "--output", "out.csv", "--overwrite", ranks=ranks)
            lines = (self.folder / "out.csv").read_text().splitlines()
            self.assertEqual(lines[0], "example,label,class," + ",".join(f"p{i}" for i in range(10)))
            table = numpy.array([[float(word) for word in line.split(",")] for line in lines[1:]])
            numpy.testing.assert_array_equal(table[:, 0], numpy.arange(101))
            with h5py.File(self.folder / "out.h5", "r") as file:
                numpy.testing.assert_array_equal(table[:, 1], file["labels"])
                numpy.testing.assert_array_equal(table[:, 2], file["classes"])
                numpy.testing.assert_array_equal(table[:, 3:].astype(numpy.float32), file["predictions"])


if __name__ == "__main__":
    unittest.main()
