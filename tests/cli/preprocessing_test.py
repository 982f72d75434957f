"""What was fitted on the training rows travels with the model: raw files are read as those were, or refused.

Predictions are checked against the same preprocessing in NumPy, with the coefficients of the checkpoint.
pipeline_test.py compares with scikit-learn.
"""

import gzip
import json
import re
import unittest

import h5py
import numpy

from harness import BinaryTest

CONFIG_OF_TABLE = """
name = "table"
[data]
path = "table.h5"
[model]
kind = "network"
loss = "{loss}"
layers = [{{ kind = "dense", units = {units} }}]
[optimizer]
kind = "adam"
learning_rate = 0.05
[train]
epochs = 20
batch_size = 16
"""

CONFIG_OF_ROWS = """
name = "rows"
[data]
path = "rows.h5"
[model]
kind = "linear"
[strategy]
kind = "allreduce"
[optimizer]
kind = "sgd"
learning_rate = 0.5
[train]
epochs = 10
batch_size = 20
"""


def table(rows, names):
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n"


class PreprocessingTest(BinaryTest):
    def newest(self, run):
        return sorted((self.folder / run / "checkpoints").glob("step-*.h5"))[-1]

    def layer(self, run):
        with h5py.File(self.newest(run)) as file:
            bias = numpy.array(file["parameters/dense1.bias"])
            return numpy.array(file["parameters/dense1.weight"]).reshape(len(bias), -1), bias

    def check(self, *arguments, ranks=0):
        result = self.unisono(*arguments, ranks=ranks)
        self.assertEqual(result.code, 0, result)
        return result

    def refused(self, pattern, *arguments, code=3):
        result = self.unisono(*arguments)
        self.assertEqual(result.code, code, result)
        self.assertRegex(result.err, pattern)
        self.assertEqual(result.err.strip().count("\n"), 0, result.err)

    def train_table(self, text, *options, loss="softmax_cross_entropy", units=2, name="table"):
        self.write(name + ".csv", text)
        self.check("data", "import", "csv", name + ".csv", *options, "--output", name + ".h5", "--overwrite")
        config = CONFIG_OF_TABLE.replace("table", name).format(loss=loss, units=units)
        self.write(name + ".toml", config)
        self.check("train", name + ".toml", "--overwrite")

    def predictions(self, run, *arguments, ranks=0):
        (self.folder / "predictions.h5").unlink(missing_ok=True)
        self.check("predict", run, *arguments, "--output", "predictions.h5", ranks=ranks)
        with h5py.File(self.folder / "predictions.h5") as file:
            return numpy.array(file["predictions"])

    def fill(self):
        """What stands for a missing number of the first column: the mean of the rows that were trained on."""
        with h5py.File(self.newest("runs/table")) as file:
            header = bytes(file["header"][()]).decode().replace(" ", "").replace("\n", "")
        return float(header.split('"fill":')[1].split(",")[0])

    def softmax(self, run, features):
        weight, bias = self.layer(run)
        z = features @ weight.T.astype(float) + bias
        z = numpy.exp(z - z.max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True)


def animals(rows, seed, spread=1.0):
    """x and y around 100 and 0.001 by kind; colours that tell something, too."""
    random = numpy.random.default_rng(seed)
    kinds = random.integers(0, 2, rows)
    x = 100 + 7 * kinds + spread * random.normal(size=rows)
    y = 0.001 * (1 + kinds + spread * random.normal(size=rows))
    colours = numpy.where(random.random(rows) < 0.8, numpy.where(kinds, "red", "blue"), "green")
    return kinds, x, y, colours


class ScalingTest(PreprocessingTest):
    def test_new_rows_are_scaled_as_the_training_rows_were(self):
        kinds, x, y, colours = animals(200, 1)
        rows = [(f"{a:.6f}", f"{b:.8f}", c, "cat" if k else "dog") for k, a, b, c in zip(kinds, x, y, colours)]
        self.train_table(table(rows, ["x", "y", "colour", "kind"]), "--label", "kind", "--standardize")
        # New rows of one kind alone: their own mean and deviation would be others. Columns in another order.
        kinds, x, y, colours = animals(60, 2)
        x, y, colours = x[kinds == 1], y[kinds == 1], colours[kinds == 1]
        new = [(c, f"{b:.8f}", 5, f"{a:.6f}") for a, b, c in zip(x, y, colours)]
        self.write("new.csv", table(new, ["colour", "y", "id", "x"]))
        _, tx, ty, _ = animals(200, 1)
        numbers = numpy.column_stack([(x - tx.mean()) / tx.std(), (y - ty.mean()) / ty.std()])
        levels = numpy.array([[c == level for level in ("blue", "green", "red")] for c in colours], dtype=float)
        expected = self.softmax("runs/table", numpy.hstack([numbers, levels]))
        for ranks in (0, 2):
            got = self.predictions("runs/table", "--input", "new.csv", ranks=ranks)
            numpy.testing.assert_allclose(got, expected, atol=2e-5)
        self.assertGreater((got[:, 0] > 0.5).mean(), 0.9)  # cat is class 0
        self.assertEqual(list(self.folder.glob(".unisono-input*")), [])

    def test_evaluate_names_a_class_that_the_model_does_not_know(self):
        self.train_table(table([("1", "no"), ("2", "yes")] * 10, ["x", "k"]), "--label", "k")
        self.write("new.csv", "x,k\n1,no\n2,Yes.\n3,maybe\n")
        said = r"new\.csv:3: column 'k': 'Yes\.' is not one of the classes .* \(no, yes\); is it 'yes'\?"
        self.refused(said + "; correct or leave out what lacks labels .* 'unisono predict'", "evaluate", "runs/table",
                     "--input", "new.csv")  # fmt: skip
        result = self.check("predict", "runs/table", "--input", "new.csv", "--output", "p.csv")
        self.assertRegex(result.err, said + ": the file's labels or targets are ignored")
        self.write("other.csv", "x\n1\n")
        self.refused(r"other\.csv: has no column 'k'", "evaluate", "runs/table", "--input", "other.csv")

    def test_a_raw_file_is_named_as_the_user_named_it(self):
        self.train_table(table([("1", "n"), ("2", "y")] * 10, ["x", "k"]), "--label", "k")
        self.write("new.csv", "x\n1\n")
        result = self.check("predict", "runs/table", "--input", "new.csv", "--output", "p.csv")
        told = r"p\.csv: 1 prediction of .*, for new\.csv; a batch of 1 took .* \(the first, .*\)\n"
        self.assertRegex(result.out, told)
        result = self.check("evaluate", "runs/table", "--input", "table.csv")
        self.assertIn("on table.csv, 20 examples", result.out)
        self.refused(r"new\.csv: has no column 'k' to compare with", "evaluate", "runs/table", "--input", "new.csv")
        # A set has groups, however it is given.
        result = self.check("evaluate", "runs/table", "--input", "table.h5", "--split", "train")
        self.assertIn("on train of table.h5, 20 examples", result.out)

    def test_columns_of_the_raw_file_are_kept_beside_the_predictions(self):
        rows = [(0, 0, "a"), (0, 1, "b"), (1, 0, "a"), (1, 1, "b")] * 5
        self.train_table(table(rows, ["x", "z", "kind"]), "--label", "kind")
        self.write("new.csv", 'customer id,z,x,note\n007,0,1,"a, b"\n\n008,1,0,=1+1\n')
        words = ("predict", "runs/table", "--input", "new.csv", "--output", "p.csv")
        for ranks in (0, 2):
            kept = ("--keep", "customer id", "--keep", "note", "--overwrite")
            self.check(*words, *kept, ranks=ranks)
            lines = (self.folder / "p.csv").read_text().splitlines()
            self.assertEqual(lines[0], "example,customer id,note,class,class_name,p0,p1")
            self.assertTrue(lines[1].startswith('0,007,"a, b",0,a,'), lines)
            self.assertTrue(lines[2].startswith("1,008,'=1+1,1,b,"), lines)
        self.refused("--keep customer: new.csv has no such column; it has customer id, z, x, note", *words,
                     "--keep", "customer", code=2)  # fmt: skip
        self.refused("--keep note: is given twice", *words, "--keep", "note", "--keep", "note", "--overwrite", code=2)
        self.write("new.csv", "x,z,p1\n0,1,2\n")
        self.refused("--keep p1: the table of predictions has a column of this name", *words, "--keep", "p1",
                     "--overwrite", code=2)  # fmt: skip
        self.refused("--keep note: p.h5 holds arrays", *words[:-1], "p.h5", "--keep", "note", code=2)
        self.refused("--keep x: only the columns of a CSV file", "predict", "runs/table", "--output", "q.csv",
                     "--keep", "x", code=2)  # fmt: skip

    def test_features_that_differ_a_thousandfold_are_named_unless_they_are_scaled(self):
        rows = [(i % 7, 1000 * (i * i % 41), "ab"[i % 2]) for i in range(60)]
        text = table(rows, ["age", "income", "kind"])
        self.write("table.csv", text)
        self.write("table.toml", CONFIG_OF_TABLE.format(loss="softmax_cross_entropy", units=2))
        told = r"deviations of the features differ by more than 1000 \('income' has 1\.\de\+04, 'age' has 2\)"
        for scale, warned in ((("--scale", "none"), True), ((), False), (("--scale", "min_max"), False)):
            with self.subTest(scale=scale):
                words = ("--label", "kind", "--output", "table.h5", "--overwrite")
                self.check("data", "import", "csv", "table.csv", *words, *scale)
                result = self.check("train", "table.toml", "--output", "runs/scales", "--overwrite")
                (self.assertRegex if warned else self.assertNotRegex)(result.err + result.out, told)

    def test_a_set_that_was_standardised_on_import_refuses_raw_files(self):
        # As earlier versions wrote it: encoded, standardised, without a recipe.
        with h5py.File(self.folder / "table.h5", "w") as file:
            features = numpy.random.default_rng(1).normal(size=(40, 3)).astype("f4")
            file["train/features"], file["train/labels"] = features, (features[:, 0] > 0).astype("i8")
            file["train/features"].attrs["feature_names"] = ["x", "w=a", "w=b"]
        self.write("table.toml", CONFIG_OF_TABLE.format(loss="softmax_cross_entropy", units=2))
        self.check("train", "table.toml")
        self.check("evaluate", "runs/table")
        self.write("new.csv", "x,w\n1,a\n")
        self.refused(r"new\.csv.*without a preprocessing recipe.*data import csv", "predict", "runs/table",
                     "--input", "new.csv", "--output", "p.csv")  # fmt: skip
        self.write("raw.csv", "x,w,k\n1,a,n\n2,b,y\n")
        self.check("data", "import", "csv", "raw.csv", "--label", "k", "--output", "raw.h5")
        self.refused(r"raw\.h5: holds raw columns", "predict", "runs/table", "--data", "raw.h5", "--output", "p.csv")

    def test_folds_of_one_set_have_fits_of_their_own(self):
        kinds, x, y, colours = animals(100, 1)
        rows = [(f"{a:.6f}", f"{b:.8f}", "cat" if k else "dog") for k, a, b in zip(kinds, x, y)]
        self.write("t.csv", table(rows, ["x", "y", "kind"]))
        self.check("data", "import", "csv", "t.csv", "--label", "kind", "--missing", "mean", "--output", "table.h5")
        self.write("table.toml", CONFIG_OF_TABLE.format(loss="softmax_cross_entropy", units=2))
        fills = []
        for seed in (1, 2):
            self.check("train", "table.toml", "--overwrite", "--set", "data.validation_fraction=0.5",
                       "--set", f"data.split_seed={seed}")  # fmt: skip
            fills.append(self.fill())
        self.assertNotEqual(*fills)
        self.assertAlmostEqual(sum(fills) / 2, x.mean(), delta=5)


NAMED = ("--label", "k", "--header", "yes")


class CategoriesTest(PreprocessingTest):
    TEXT = table([("a", "n"), ("b", "y"), ("c", "n"), ("a", "n"), ("b", "y"), ("c", "n")] * 4, ["w", "k"])

    def test_levels_keep_their_features_in_every_file(self):
        self.train_table(self.TEXT, *NAMED)
        expected = self.softmax("runs/table", numpy.eye(3)[[1, 2, 1]])
        self.write("new.csv", "w\nb\nc\nb\n")
        numpy.testing.assert_allclose(self.predictions("runs/table", "--input", "new.csv"), expected, atol=1e-6)
        # A set of its own, whose levels have other numbers.
        self.write("other.csv", "k,w\ny,b\nn,c\ny,b\n")
        self.check("data", "import", "csv", "other.csv", *NAMED, "--output", "other.h5")
        numpy.testing.assert_allclose(self.predictions("runs/table", "--data", "other.h5"), expected, atol=1e-6)
        result = self.check("evaluate", "runs/table", "--data", "other.h5", "--json")
        self.assertIn('"accuracy":1', result.out.replace(" ", ""))

    def test_an_unknown_level_is_refused_or_other(self):
        self.train_table(self.TEXT, *NAMED)
        self.write("new.csv", "w\nb\nd\n")
        self.refused(r"new\.csv:3: column 'w': 'd', which the model was not trained on \(it knows a, b, c",
                     "predict", "runs/table", "--input", "new.csv", "--output", "p.csv")  # fmt: skip
        self.write("other.csv", "k,w\ny,b\nn,d\n")
        self.check("data", "import", "csv", "other.csv", *NAMED, "--output", "other.h5")
        self.refused(
            r"other\.h5: /train/features: example 1: column 'w': 'd'", "evaluate", "runs/table", "--data", "other.h5"
        )
        self.train_table(self.TEXT + "e,n\n", *NAMED, "--unknown", "other", "--minimum-frequency", "2")
        expected = self.softmax("runs/table", numpy.eye(4)[[1, 3]])  # a, b, c, other
        numpy.testing.assert_allclose(self.predictions("runs/table", "--input", "new.csv"), expected, atol=1e-6)

    def test_classes_are_known_by_their_names(self):
        self.train_table(self.TEXT, *NAMED)
        self.write("other.csv", "k,w\ny,b\ny,b\n")  # one class, which would have the number 0
        self.check("data", "import", "csv", "other.csv", *NAMED, "--output", "other.h5")
        result = self.check("evaluate", "runs/table", "--data", "other.h5", "--json")
        self.assertIn('"accuracy":1', result.out.replace(" ", ""))
        self.write("third.csv", "k,w\nmaybe,b\n")
        self.check("data", "import", "csv", "third.csv", *NAMED, "--output", "third.h5")
        self.refused(r"third\.h5.*class 'maybe'", "evaluate", "runs/table", "--data", "third.h5")

    def test_one_row_and_renamed_columns(self):
        self.train_table(self.TEXT, *NAMED)
        self.write("one.csv", "w\nc\n")
        self.assertEqual(self.predictions("runs/table", "--input", "one.csv").shape, (1, 2))
        self.write("renamed.csv", "W\nc\n")
        self.refused(r"renamed\.csv: the first line has none", "predict", "runs/table", "--input", "renamed.csv",
                     "--output", "p.csv")  # fmt: skip


class OddTablesTest(PreprocessingTest):
    """What would be read in another way than it was meant, without a word."""

    def import_refused(self, pattern, text, *options, code=3):
        self.write("odd.csv", text)
        self.refused(pattern, "data", "import", "csv", "odd.csv", *options, "--output", "odd.h5", code=code)

    def test_a_column_of_numbers_is_one_whatever_its_first_value_is(self):
        for first in ("inf", "-Infinity", "1e400"):
            self.import_refused(f"odd.csv:2: column 'x': '{first}' is not a number", f"x,y\n{first},1\n2,2\n",
                                "--target", "y")  # fmt: skip
        self.import_refused(r"odd\.csv:3: column 'x': '\+-2' is not a number", "x,y\n1,1\n+-2,2\n", "--target", "y")
        for rows in ("-,1\n3,2\n", "3,1\n-,2\n"):  # in either order
            self.import_refused(r"odd\.csv:3: column 'x': .*--categorical", "x,y\n" + rows, "--target", "y")
        self.write("odd.csv", "x,y\n-,1\n3,2\n")
        self.check("data", "import", "csv", "odd.csv", "--target", "y", "--categorical", "x", "--output", "odd.h5")

    def test_long_numbers_are_not_taken_for_each_other(self):
        ids = [12345678901234567890 + i for i in range(40)]
        rows = [(name, i, i % 2) for i, name in enumerate(ids)]
        self.write("t.csv", table(rows, ["id", "x", "k"]))
        self.check("data", "import", "csv", "t.csv", "--label", "k", "--group", "id", "--output", "t.h5")
        with h5py.File(self.folder / "t.h5") as file:
            self.assertEqual(len(set(file["train/groups"][:])), 40)
        result = self.check("data", "import", "csv", "t.csv", "--label", "id", "--output", "t.h5", "--overwrite")
        self.assertIn("40 classes", result.out)
        names = [(f"{ids[0] + i % 2}", "no" if i % 2 else "yes") for i in range(40)]
        self.train_table(table(names, ["w", "k"]), *NAMED, "--categorical", "w")
        self.write("new.csv", f"w\n{ids[0]}\n{ids[1]}\n")
        got = self.predictions("runs/table", "--input", "new.csv")
        numpy.testing.assert_allclose(got, self.softmax("runs/table", numpy.eye(2)), atol=1e-6)

    def test_numbers_that_float32_cannot_tell_apart_are_refused(self):
        rows = [(1700000000 + i, i % 2) for i in range(100)]
        self.import_refused(r"odd\.csv: column 'x': its values, from 1700000000 to 1700000099, differ too little",
                            table(rows, ["x", "k"]), "--label", "k")  # fmt: skip
        self.write("t.csv", table([(1700000000 + 86400 * i, i % 2) for i in range(100)], ["x", "k"]))
        self.check("data", "import", "csv", "t.csv", "--label", "k", "--output", "t.h5")

    def test_times_are_all_dates_or_all_numbers(self):
        for first, second in (("20240229", "2024-02-29"), ("2024-02-29", "20240229")):
            self.import_refused(r"odd\.csv:3: column 't': .* write all of them in the same way",
                                f"x,t,k\n1,{first},a\n2,{second},b\n", "--label", "k", "--time", "t")  # fmt: skip

    def test_targets_that_float32_cannot_hold_are_left_out(self):
        self.train_table("x,y\n1,1\n2,2\n", "--target", "y", loss="mean_squared_error", units=1)
        self.write("new.csv", "x,y\n1,1e39\n")
        result = self.check("predict", "runs/table", "--input", "new.csv", "--output", "p.csv")
        self.assertIn("new.csv:2: column 'y': '1e39' is not a number in the range of float32: ", result.err)

    def test_a_column_has_one_role(self):
        text = "x,w,k\n1,1,a\n2,0,b\n"
        for options, both in (
            (("--weight", "k"), "--weight and --label"),
            (("--exclude", "k"), "--exclude and --label"),
            (("--categorical", "w", "--weight", "w"), "--categorical and --weight"),
        ):
            self.import_refused(f"{both} both name column", text, "--label", "k", *options, code=2)
        self.write("odd.csv", text)
        self.check("data", "import", "csv", "odd.csv", "--label", "k", "--categorical", "k", "--output", "odd.h5")
        self.import_refused(r"column 'w': all weights are 0", "x,w,k\n1,0,a\n2,0,b\n", "--label", "k",
                            "--weight", "w")  # fmt: skip
        self.write("odd.csv", "x,w\n1,0\n2,0\n")
        result = self.check("data", "import", "csv", "odd.csv", "--output", "odd.h5", "--overwrite")
        self.assertIn("no labels or targets", result.out)

    def test_messages_name_the_file_that_was_given(self):
        self.train_table(CategoriesTest.TEXT, *NAMED)
        self.write("new.csv", "w,k,k\nb,n,y\n")
        self.refused(r"new\.csv: two columns are named 'k'", "predict", "runs/table", "--input", "new.csv", "--output",
                     "p.csv")  # fmt: skip
        self.write("new.csv", "w\nb\n")
        self.refused(r"--split train: new\.csv is a raw file", "predict", "runs/table", "--input", "new.csv",
                     "--output", "p.csv", "--split", "train", code=2)  # fmt: skip
        with h5py.File(self.folder / "table.h5", "w") as file:
            features = numpy.random.default_rng(1).normal(size=(40, 3)).astype("f4")
            file["train/features"], file["train/labels"] = features, (features[:, 0] > 0).astype("i8")
        self.check("train", "table.toml", "--overwrite")
        wide, empty = numpy.ones((2, 4), "f4"), numpy.full((2, 3), numpy.nan)
        for wrong, what in ((wide, "examples are 4×1×1"), (empty, "finite")):
            numpy.save(self.folder / "new.npy", wrong)
            for command in (("predict", "runs/table", "--output", "p.csv"), ("evaluate", "runs/table")):
                self.refused(rf"data error: new\.npy: .*{what}", *command, "--input", "new.npy")
        numpy.save(self.folder / "new.npy", numpy.ones((2, 3), "f4"))
        saved = (self.folder / "new.npy").read_bytes()
        for shape, what in (
            (b"(9, 3, 1)", r"values of 4 bytes each in the shape \(9, 3, 1\), but 24 bytes follow"),
            (b"(4294967296, 4294967296, 4294967296)", "but 24 bytes follow"),
            (b"(99999999999999999999, 3)", "impossible shape"),
        ):
            header = saved[10:128].replace(b"(2, 3)", shape).rstrip().ljust(117) + b"\n"
            (self.folder / "new.npy").write_bytes(saved[:10] + header + saved[128:])
            self.refused(rf"data error: new\.npy: .*{what}", "predict", "runs/table", "--output", "p.csv", "--input",
                         "new.npy")  # fmt: skip

    def test_a_recipe_that_names_a_column_twice_is_refused(self):
        self.write("t.csv", table([(i, 2 * i, i % 2) for i in range(10)], ["a", "b", "k"]))
        self.check("data", "import", "csv", "t.csv", "--label", "k", "--output", "t.h5")
        with h5py.File(self.folder / "t.h5", "r+") as file:
            recipe = bytes(file["recipe"][()]).replace(b'"name":"b"', b'"name":"a"')
            del file["recipe"]
            file["recipe"] = numpy.frombuffer(recipe, "u1")
        self.refused(r"t\.h5: /recipe: two columns are named 'a'", "data", "describe", "t.h5")


class ResumeTest(PreprocessingTest):
    """A run goes on with the preprocessing that it was started with, or not at all."""

    def test_a_set_that_was_imported_otherwise_is_refused(self):
        rows = [(f"{a:.4f}", c, i % 3, i % 5, "cat" if k else "dog")
                for i, (k, a, _, c) in enumerate(zip(*animals(120, 1)))]  # fmt: skip
        text = table(rows, ["x", "colour", "v", "w", "kind"])
        options = ("--label", "kind", "--exclude", "v", "--weight", "w", "--scale", "standard")
        self.train_table(text, *options)

        def resume(what, *options, text=text):
            self.write("table.csv", text)
            self.check("data", "import", "csv", "table.csv", *options, "--output", "table.h5", "--overwrite")
            arguments = ("train", "runs/table", "--resume", "--set", "train.epochs=21")
            self.refused(what, *arguments, code=3) if what else self.check(*arguments)

        resume("the scaling of the features changed in table.h5", *options[:-1], "min_max")
        resume("the categories of column 'colour' changed", *options, text=text.replace("green", "brown"))
        resume("the names of the classes changed", *options, text=text.replace("dog", "fox"))
        resume("different data", "--label", "kind", "--exclude", "w", "--weight", "v", "--scale", "standard")
        resume("", *options, "--unknown", "other", "--compression", "4")

    def test_weights_of_other_features_are_not_taken_over_in_silence(self):
        text = CategoriesTest.TEXT
        self.train_table(text, *NAMED)
        self.train_table(text.replace("c", "z").replace("a,", "m,"), *NAMED, name="other")
        result = self.check("train", "other.toml", "--set", "train.initialise_from=runs/table", "--overwrite")
        self.assertIn("feature 1 is 'w=b', but 'w=a' there", result.out)


class MissingTest(PreprocessingTest):
    def test_missing_values_become_what_the_training_rows_say(self):
        for missing, fill in (("mean", 4.0), ("median", 2.0)):
            text = "x,w,y\n1,a,1\n2,b,2\n,a,3\n9,,4\n"
            words = ("--target", "y", "--missing", missing, "--scale", "none")
            self.train_table(text, *words, loss="mean_squared_error", units=1)
            self.write("new.csv", "x,w\n?,b\n5,\n")
            weight, bias = self.layer("runs/table")
            features = numpy.array([[fill, 0, 0, 1], [5, 1, 0, 0]])  # x, w missing, w a, w b
            got = self.predictions("runs/table", "--input", "new.csv")
            numpy.testing.assert_allclose(got, features @ weight.T + bias, rtol=1e-5)
        self.train_table("x,y\n1,1\n2,2\n", "--target", "y", loss="mean_squared_error", units=1)
        self.write("new.csv", "x\n1\n\"\"\n")
        self.refused(r"new\.csv:3: column 'x': the value is missing", "predict", "runs/table", "--input", "new.csv",
                     "--output", "p.csv")  # fmt: skip


class LibsvmTest(PreprocessingTest):
    """The first column of the training file is never used, so that its base cannot be seen from it."""

    def rows(self, seed, base, first_column):
        random = numpy.random.default_rng(seed)
        lines, matrix = [], numpy.zeros((120, 6))
        for row in matrix:
            label = random.integers(0, 2)
            row[1 + label] = 1
            row[3:] = random.random(3).round(3)
            if first_column:
                row[0] = 0.5
            entries = " ".join(f"{i + base}:{value:g}" for i, value in enumerate(row) if value)
            lines.append(f"{2 * label - 1} {entries}\n")
        return "".join(lines), matrix

    def train_rows(self, *options):
        self.write("train.txt", self.rows(1, 0, False)[0])
        self.check("data", "import", "libsvm", "train.txt", "--columns", "6", *options, "--output", "rows.h5")
        self.write("rows.toml", CONFIG_OF_ROWS)
        self.check("train", "rows.toml", "--overwrite")

    def accuracy(self, *arguments):
        out = self.check("evaluate", "runs/rows", *arguments, "--json").out
        return float(out.replace(" ", "").split('"accuracy":')[1].split(",")[0].split("}")[0])

    def test_the_base_is_the_training_files(self):
        self.train_rows("--base", "0")
        self.write("new.txt", self.rows(2, 0, True)[0])
        self.assertGreater(self.accuracy("--input", "new.txt"), 0.95)
        one = self.rows(3, 1, False)[0]
        self.write("one.txt", one)
        self.check("data", "import", "libsvm", "one.txt", "--columns", "6", "--output", "one.h5")
        self.refused(r"one\.h5: was imported with 1 .* with 0.*--base 0", "evaluate", "runs/rows", "--data", "one.h5")

    def test_a_guess_that_was_wrong_is_found_out(self):
        self.train_rows()  # auto says 1
        self.write("new.txt", self.rows(2, 0, True)[0])
        self.refused(r"new\.txt:1:\d+: has the index 0, but the first column has the index 1", "evaluate", "runs/rows",
                     "--input", "new.txt")  # fmt: skip
        self.check("data", "import", "libsvm", "new.txt", "--columns", "6", "--output", "new.h5")
        self.refused(r"new\.h5: was imported with 0 .* with 1", "evaluate", "runs/rows", "--data", "new.h5")

    def test_an_index_beyond_the_training_columns_is_refused(self):
        self.train_rows("--base", "0")
        self.write("wide.txt", "1 2:1 6:1\n")
        self.refused(r"wide\.txt:1:\d+: the index 6 is beyond the 6 columns", "predict", "runs/rows", "--input",
                     "wide.txt", "--output", "p.csv")  # fmt: skip

    def test_labels_that_say_nothing_are_left_out(self):
        self.train_rows("--base", "0")
        self.write("blank.txt", "0 2:1 3:0.5\n0 1:1\n")
        result = self.check("predict", "runs/rows", "--input", "blank.txt", "--output", "p.csv")
        said = r"blank\.txt:1:1: the label 0 is not one of the classes that the model was trained on \(-1, 1\)"
        self.assertRegex(result.out + result.err, said + ": the file's labels or targets are ignored")
        self.refused(said + "; correct or leave out what lacks labels", "evaluate", "runs/rows", "--input", "blank.txt")


class ScaledRowsTest(PreprocessingTest):
    """Columns of sparse rows on very different scales: the first hides the others from plain SGD."""

    SCALES = numpy.array([1e4, 1, 1e-3, 1])

    def rows(self, seed, count=300):
        random = numpy.random.default_rng(seed)
        kinds = random.integers(0, 2, count)
        matrix = random.normal(size=(count, 4)) + numpy.outer(2 * kinds - 1, [0, 1, 1, 0])
        matrix = numpy.where(random.random((count, 4)) < 0.8, matrix * self.SCALES, 0)
        lines = [
            " ".join([str(2 * kind - 1), *(f"{i + 1}:{value:.6g}" for i, value in enumerate(row) if value)]) + "\n"
            for kind, row in zip(kinds, matrix)
        ]
        matrix = numpy.array([[float(f"{value:.6g}") for value in row] for row in matrix])
        return "".join(lines), matrix.astype("f4").astype(float)

    def setUp(self):
        super().setUp()
        text, self.matrix = self.rows(1)
        self.write("rows.txt", text)
        self.write("rows.toml", CONFIG_OF_ROWS)

    def import_rows(self, *options):
        self.check("data", "import", "libsvm", "rows.txt", *options, "--output", "rows.h5", "--overwrite")

    def train_rows(self, *options, ranks=0):
        return self.check("train", "rows.toml", "--overwrite", *options, ranks=ranks)

    def normalization(self, checkpoint):
        with h5py.File(checkpoint) as file:
            return json.loads(file["header"][()].tobytes())["normalization"]

    def loss(self):
        return self.summary("runs/rows")["train"]["loss"]

    def test_rows_on_very_different_scales_are_learnt_when_they_are_scaled(self):
        told = r"differ by more than 1000 \(index 1 has \d(\.\d)?e\+03, index 3 has 0\.001[0-9]*\).*= \"feature\""
        small = ("--set", "optimizer.learning_rate=1e-9")  # a rate that the first column allows
        self.import_rows()
        self.assertRegex(self.train_rows(*small).err, told)
        raw = self.loss()
        self.import_rows("--scale", "standard")
        described = self.check("data", "describe", "rows.h5").out
        self.assertIn("sparse examples of 4 columns, which runs divide by their standard deviations\n", described)
        self.assertNotRegex(self.train_rows().err, "deviations")
        self.assertLess(self.loss(), raw / 2)
        self.assertIn('normalization = "auto"', (self.folder / "runs/rows/config.toml").read_text())
        known = self.normalization(self.newest("runs/rows"))
        self.assertEqual(known["mean"], [])
        numpy.testing.assert_allclose(known["scale"], 1 / self.matrix.std(axis=0), rtol=1e-6)
        # What the import said is what the config says, and the config overrides it.
        self.train_rows("--set", "data.normalization=none", *small)
        self.assertEqual((self.loss(), self.normalization(self.newest("runs/rows"))["scale"]), (raw, []))
        self.import_rows()
        self.train_rows("--set", "data.normalization=feature")
        self.assertEqual(self.normalization(self.newest("runs/rows")), known)

    def test_new_rows_are_multiplied_by_the_factors_of_the_training_rows(self):
        self.import_rows("--scale", "standard")
        self.train_rows()
        self.check("export", "runs/rows", "--format", "npz", "--output", "rows.npz")
        with numpy.load(self.folder / "rows.npz") as arrays:
            self.assertNotIn("normalization.mean", arrays)
            weight = arrays["normalization.scale"].astype(float) * arrays["linear.weight"].astype(float).reshape(-1)
            bias = arrays["linear.bias"].astype(float)
        text, matrix = self.rows(2, 50)
        text, matrix = text + "1 2:1\n-1\n", numpy.vstack([matrix, [[0, 1, 0, 0], [0, 0, 0, 0]]])
        self.write("new.txt", text)
        ones = 1 / (1 + numpy.exp(-(matrix @ weight + bias)))
        got = self.predictions("runs/rows", "--input", "new.txt")
        numpy.testing.assert_allclose(got[:, 1], ones, rtol=1e-5)
        self.check("data", "import", "libsvm", "new.txt", "--output", "new.h5")  # which says nothing of scales
        numpy.testing.assert_array_equal(self.predictions("runs/rows", "--data", "new.h5", ranks=2), got)
        self.write("ones.txt", "1 1:1 3:1\n-1 2:1\n")  # which are stored without values
        ones = 1 / (1 + numpy.exp(-(numpy.array([[1, 0, 1, 0], [0, 1, 0, 0]]) @ weight + bias)))
        numpy.testing.assert_allclose(self.predictions("runs/rows", "--input", "ones.txt")[:, 1], ones, rtol=1e-5)
        self.check("data", "import", "libsvm", "new.txt", "--columns", "7", "--output", "wide.h5")
        self.refused(r"wide\.h5: has 7 columns, but the model was trained for 4", "evaluate", "runs/rows", "--data",
                     "wide.h5")  # fmt: skip
        self.refused(r"digits\.h5: holds a table, but the model was trained on sparse rows", "evaluate", "runs/rows",
                     "--data", "digits.h5")  # fmt: skip

    def test_factors_do_not_depend_on_ranks_and_a_resumed_run_has_them(self):
        self.import_rows("--scale", "standard")
        keys = ("--set", "data.validation_fraction=0.25")
        self.train_rows(*keys)
        known = self.normalization(self.newest("runs/rows"))
        self.assertGreater(numpy.abs(known["scale"] * self.matrix.std(axis=0) - 1).max(), 1e-3)  # of 3 in 4 rows
        whole = self.vectors("runs/rows")
        self.train_rows(*keys, ranks=3)
        self.assertEqual(self.normalization(self.newest("runs/rows")), known)
        self.train_rows(*keys, "--set", "train.epochs=4")
        self.check("train", "runs/rows", "--resume", "--set", "train.epochs=10")
        for name, values in self.vectors("runs/rows").items():
            self.assertEqual(values.tobytes(), whole[name].tobytes(), name)
        words = ("train", "runs/rows", "--resume", "--set", "train.epochs=11")
        self.import_rows()
        self.refused("different values of data.normalization", *words, code=2)
        lines = (self.folder / "rows.txt").read_text().splitlines(keepends=True)
        changed = [line.split(" 4:")[0] + " 4:1000\n" if " 4:" in line else line for line in lines[150:200]]
        self.write("rows.txt", "".join([*lines[:150], *changed, *lines[200:]]))
        self.import_rows("--scale", "standard")
        self.refused("the scaling of the features changed in rows.h5", *words, code=3)

    def test_folds_are_scaled_by_their_own_training_rows(self):
        self.import_rows("--scale", "standard")
        words = ("cross-validate", "rows.toml", "--set", "cross_validation.folds=4", "--set",
                 "cross_validation.keep=all")  # fmt: skip
        self.check(*words, "--output", "folds")
        self.check(*words, "--output", "more", ranks=2)
        lines = [line.split(",") for line in (self.folder / "folds/predictions.csv").read_text().splitlines()]
        rows = {name: numpy.array([line[lines[0].index(name)] for line in lines[1:]]) for name in ("fold", "p1")}
        for fold in range(4):
            with self.subTest(fold=fold):
                checkpoint = sorted((self.folder / f"folds/folds/000{fold}/checkpoints").glob("step-*.h5"))[-1]
                own = self.normalization(checkpoint)
                held_out = rows["fold"].astype(int) == fold
                numpy.testing.assert_allclose(own["scale"], 1 / self.matrix[~held_out].std(axis=0), rtol=1e-6)
                with h5py.File(checkpoint) as file:
                    weight = numpy.array(own["scale"]) * file["parameters/linear.weight"][:].reshape(-1)
                    z = self.matrix[held_out] @ weight + file["parameters/linear.bias"][0]
                numpy.testing.assert_allclose(rows["p1"][held_out].astype(float), 1 / (1 + numpy.exp(-z)), rtol=1e-5)
        for name in ("folds.csv", "predictions.csv"):
            self.assertEqual((self.folder / "more" / name).read_text(), (self.folder / "folds" / name).read_text())

    def test_a_search_within_a_fold_sees_no_row_that_it_holds_out(self):
        self.import_rows("--scale", "standard")
        search = '[search]\nmethod = "grid"\n[search.space]\n"optimizer.learning_rate" = [1e-5, 0.5]\n'
        self.write("nested.toml", CONFIG_OF_ROWS + search)
        keys = ("folds=3", "keep=all", "nested=true", "inner_folds=2")
        self.check("cross-validate", "nested.toml", "--output", "nested",
                   *[word for key in keys for word in ("--set", "cross_validation." + key)])  # fmt: skip
        lines = (self.folder / "nested/predictions.csv").read_text().splitlines()
        folds = numpy.array([int(line.split(",")[lines[0].split(",").index("fold")]) for line in lines[1:]])
        for fold in range(3):
            known = self.normalization(self.checkpoints(f"nested/folds/000{fold}/best")[-1])
            numpy.testing.assert_allclose(known["scale"], 1 / self.matrix[folds != fold].std(axis=0), rtol=1e-6)

    def test_what_would_fill_zeros_is_refused(self):
        self.import_rows()
        for kind in ("global", "channel"):
            words = ("train", "rows.toml", "--set", f"data.normalization={kind}")
            self.refused(r'normalization: rows\.h5 holds sparse rows.* be zeros; use "feature"', *words, code=2)
        self.refused("--scale: ", "data", "import", "libsvm", "rows.txt", "--scale", "min_max", "--output", "a.h5",
                     code=2)  # fmt: skip


class StoredFeaturesTest(PreprocessingTest):
    def train_images(self, images, labels, *options, scale=None, path="table.h5"):
        with h5py.File(self.folder / path, "w") as file:
            file["train/features"], file["train/labels"] = images, labels
            if scale:
                file["train/features"].attrs["scale"] = scale
        layers = '[{ kind = "flatten" }, { kind = "dense", units = 2 }]'
        config = CONFIG_OF_TABLE.format(loss="softmax_cross_entropy", units=2)
        self.write("table.toml", config.replace('[{ kind = "dense", units = 2 }]', layers))
        return self.unisono("train", "table.toml", "--overwrite", *options)

    def test_channels_last_are_asked_for(self):
        random = numpy.random.default_rng(1)
        images, labels = random.random((20, 8, 8, 3), dtype="f4"), numpy.arange(20) % 2
        result = self.train_images(images, labels)
        self.assertEqual(result.code, 2, result)
        self.assertRegex(result.err, r"two ways: set data\.layout = \"hwc\" for images of 8 × 8 with 3 channels")
        self.assertEqual(self.train_images(images, labels, "--set", "data.layout=hwc").code, 0)
        described = self.check("data", "describe", "table.h5").out
        self.assertRegex(described, r"8 channels of 8 × 3 .*data\.layout = \"hwc\": 3 channels of 8 × 8")
        weight, bias = self.layer("runs/table")
        numpy.save(self.folder / "new.npy", images[:5])
        got = self.predictions("runs/table", "--input", "new.npy")
        expected = self.softmax("runs/table", images[:5].transpose(0, 3, 1, 2).reshape(5, -1))
        numpy.testing.assert_allclose(got, expected, atol=1e-5)

    def test_arrays_images_and_folders_have_the_training_sets_scale(self):
        random = numpy.random.default_rng(1)
        images, labels = random.integers(0, 256, (20, 6, 5), "u1"), numpy.arange(20) % 2
        self.assertEqual(self.train_images(images, labels, scale=1 / 255).code, 0)
        expected = self.softmax("runs/table", images[:4].reshape(4, -1) / 255)
        numpy.save(self.folder / "new.npy", images[:4])
        header = bytes([0, 0, 8, 3]) + numpy.array([4, 6, 5], ">i4").tobytes()
        self.write("images-idx3-ubyte.gz", gzip.compress(header + images[:4].tobytes()))
        (self.folder / "folder").mkdir()
        for i in range(4):
            numpy.save(self.folder / "folder" / f"{i}.npy", images[i])
        with h5py.File(self.folder / "new.h5", "w") as file:
            file["test/features"] = images[:4]
            file["test/features"].attrs["scale"] = 1 / 255
        for name in ("new.npy", "images-idx3-ubyte.gz", "folder", "new.h5"):
            numpy.testing.assert_allclose(self.predictions("runs/table", "--input", name), expected, atol=1e-5)
        numpy.save(self.folder / "floats.npy", images[:4] / 255)
        self.refused(r"floats\.npy: holds numbers other than bytes, but the model was trained on bytes", "predict",
                     "runs/table", "--input", "floats.npy", "--output", "p.csv")  # fmt: skip
        said = self.unisono("predict", "runs/table", "--input", "floats.npy", "--output", "p.csv").err
        advice = re.search(r"numpy\.rint\(\(array - ([\d.]+)\) / ([\d.]+)\)\.astype\(numpy\.uint8\)", said)
        offset, scale = map(float, advice.groups())
        made = numpy.rint((images[:4] / 255 - offset) / scale).astype(numpy.uint8)
        numpy.testing.assert_array_equal(made, images[:4])
        with h5py.File(self.folder / "unscaled.h5", "w") as file:
            file["test/features"] = images[:4]
        self.refused(r"unscaled\.h5: /test/features holds bytes that stand for 1 · byte", "predict", "runs/table",
                     "--data", "unscaled.h5", "--output", "p.csv")  # fmt: skip

    def test_training_refuses_a_set_whose_groups_have_other_scales(self):
        random = numpy.random.default_rng(1)
        with h5py.File(self.folder / "table.h5", "w") as file:
            for group, examples in (("train", 20), ("test", 10)):
                file[f"{group}/features"] = random.integers(0, 256, (examples, 30), "u1")
                file[f"{group}/labels"] = numpy.arange(examples) % 2
            file["train/features"].attrs["scale"] = 1 / 255
        self.write("table.toml", CONFIG_OF_TABLE.format(loss="softmax_cross_entropy", units=2))
        what = r"table\.h5: /test/features holds values that stand for 1 · value .* in /train/features .* 0\.0039"
        self.refused(what, "train", "table.toml")
        self.refused(what, "info", "table.toml")
        with h5py.File(self.folder / "table.h5", "a") as file:
            file["test/features"].attrs["scale"] = 1 / 255
        self.check("train", "table.toml")
        self.check("evaluate", "runs/table")


class SplitTest(PreprocessingTest):
    def grouped(self):
        random = numpy.random.default_rng(1)
        rows = [(f"{value:.5f}", i % 20, "ab"[i % 2]) for i, value in enumerate(random.normal(size=100))]
        self.write("t.csv", table(rows, ["x", "who", "k"]))
        self.check("data", "import", "csv", "t.csv", "--label", "k", "--group", "who", "--output", "t.h5")
        config = CONFIG_OF_TABLE.replace("table", "t").format(loss="softmax_cross_entropy", units=2)
        self.write("t.toml", config.replace('path = "t.h5"', 'path = "t.h5"\nvalidation_fraction = 0.2'))

    def test_a_group_is_in_training_or_in_validation(self):
        self.grouped()
        result = self.check("train", "t.toml")
        self.assertIn("validation: 20 of 100 examples, all of 4 of 20 groups (train/groups); data.split_by", result.out)
        self.check("predict", "runs/t", "--split", "validation", "--output", "whole.csv")
        result = self.check("train", "t.toml", "--overwrite", "--set", "data.split_by=rows")
        self.assertNotIn("groups", result.out)
        self.check("predict", "runs/t", "--split", "validation", "--output", "rows.csv")
        lines = [(self.folder / name).read_text().splitlines() for name in ("whole.csv", "rows.csv")]
        self.assertEqual([len(one) for one in lines], [21, 21])

    def test_a_run_of_before_goes_on_with_its_own_rule(self):
        """Its config has no data.split_by."""
        self.grouped()
        rows = ("--set", "data.split_by=rows")
        self.check("train", "t.toml", *rows, "--output", "whole", "--set", "train.epochs=6")
        self.check("train", "t.toml", *rows, "--output", "run", "--set", "train.epochs=3")
        kept = (self.folder / "run/config.toml").read_text()
        self.assertIn('split_by = "rows"\n', kept)
        self.write("run/config.toml", kept.replace('split_by = "rows"\n', ""))
        result = self.check("train", "t.toml", "--output", "run", "--resume", "--set", "train.epochs=6")
        self.assertNotIn("all of 4 of 20 groups", result.out)
        self.assertEqual(json.loads((self.folder / "run/summary.json").read_text())["validation"],
                         json.loads((self.folder / "whole/summary.json").read_text())["validation"])

    def test_seeds_are_compared_on_the_same_validation_rows(self):
        random = numpy.random.default_rng(1)
        rows = [(f"{value:.5f}", "a" if i % 10 else "b") for i, value in enumerate(random.normal(size=100))]
        self.write("t.csv", table(rows, ["x", "k"]))
        self.check("data", "import", "csv", "t.csv", "--label", "k", "--missing", "mean", "--output", "table.h5")
        config = CONFIG_OF_TABLE.format(loss="softmax_cross_entropy", units=2)
        self.write("table.toml", config.replace("[data]", "[data]\nvalidation_fraction = 0.2"))
        fits = []
        for options in ((), ("--set", "seed=2"), ("--set", "data.split_seed=2")):
            self.check("train", "table.toml", "--overwrite", *options)
            fits.append(self.fill())
        self.assertEqual(fits[0], fits[1])
        self.assertNotEqual(fits[0], fits[2])
        # 10 rows of class b: a fifth of them validate.
        self.predictions("runs/table", "--split", "validation")
        result = self.check("evaluate", "runs/table", "--split", "validation", "--json").out
        self.assertIn('"examples":20', result.replace(" ", ""))


class WeightsTest(PreprocessingTest):
    def test_a_row_of_weight_two_counts_as_two_rows(self):
        rows = [("1", "2.5"), ("2", "1.5"), ("3", "4"), ("4", "3")]
        weighted = table([(*row, weight) for row, weight in zip(rows, ("2", "0", "1", "1"))], ["x", "y", "w"])
        repeated = table([rows[0], rows[0], rows[2], rows[3]], ["x", "y"])
        layers = []
        for text, options in ((weighted, ("--weight", "w")), (repeated, ())):
            self.write("t.csv", text)
            self.check("data", "import", "csv", "t.csv", "--target", "y", *options, "--scale", "none",
                       "--output", "table.h5", "--overwrite")  # fmt: skip
            config = CONFIG_OF_TABLE.format(loss="mean_squared_error", units=1).replace("adam", "sgd")
            self.write("table.toml", config.replace("batch_size = 16", "batch_size = 4"))
            self.check("train", "table.toml", "--overwrite", "--set", "optimizer.learning_rate=0.02")
            layers.append(self.layer("runs/table"))
        for one, other in zip(*layers):
            numpy.testing.assert_allclose(one, other, rtol=1e-5)

    def test_models_that_take_no_weights_refuse_them(self):
        with h5py.File(self.folder / "table.h5", "w") as file:
            file["train/features"], file["train/targets"] = numpy.ones((4, 2), "f4"), numpy.ones(4, "f4")
            file["train/weights"] = numpy.array([1, 1, -1, 1], "f4")
        self.write("table.toml", CONFIG_OF_TABLE.format(loss="mean_squared_error", units=1))
        self.refused(r"/train/weights: example 2 has the weight -1", "train", "table.toml")


if __name__ == "__main__":
    unittest.main()
