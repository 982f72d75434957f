"""predict --input on raw files equals a scikit-learn Pipeline that was fitted on the same training rows, and whose
coefficients are those of the checkpoint. Tables with numbers, categories and missing values; columns in another order;
renamed columns; unseen levels; one row.

Tolerance: features are fp32 here and doubles there. A feature x is off by eps/2 |x|, a weighted sum of K of them by at
most (K + 2) eps/2 Σ|w x|, which is below 1e-5 times the size of the sums for the tables here.
"""

import csv
import os
import pathlib
import unittest
import warnings

import h5py
import numpy

try:
    from sklearn.compose import ColumnTransformer
    from sklearn.datasets import load_svmlight_file
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
except ImportError:  # scripts/install-deps test
    Pipeline = None

from harness import BinaryTest

DATA = pathlib.Path(os.environ["UNISONO_DATA"]) if os.environ.get("UNISONO_DATA") else None

NETWORK = """
name = "table"
[data]
path = "table.h5"
[model]
kind = "network"
loss = "{loss}"
layers = [{{ kind = "dense", units = {units} }}]
[optimizer]
kind = "adam"
learning_rate = 0.02
[train]
epochs = 5
batch_size = 16
threads = 1
"""

LINEAR = """
name = "rows"
[data]
path = "rows.h5"
[model]
kind = "linear"
[optimizer]
kind = "sgd"
learning_rate = 0.2
[train]
epochs = 1
[strategy]
kind = "serial"
"""

MISSING = ("", "?", "NA")


class Table:
    """Rows of strings under names; `categories` are the names of columns that are no numbers."""

    def __init__(self, names, rows, answer, categories=()):
        self.names, self.rows, self.answer, self.categories = list(names), rows, answer, set(categories)
        self.features = [name for name in self.names if name != answer]

    def text(self, names=None, rows=None, heading=None):
        names = names or self.names
        places = [self.names.index(name) for name in names]
        chosen = [[row[i] for i in places] for row in (self.rows if rows is None else rows)]
        return "\n".join(",".join(row) for row in [heading or names, *chosen]) + "\n"

    def values(self):
        """For scikit-learn: numbers with NaN where they are missing, levels as they are."""
        out = numpy.empty((len(self.rows), len(self.features)), dtype=object)
        for j, name in enumerate(self.features):
            i = self.names.index(name)
            for k, row in enumerate(self.rows):
                missing = row[i] in MISSING
                if name in self.categories:
                    out[k, j] = "" if missing else row[i]
                else:
                    out[k, j] = numpy.nan if missing else float(row[i])
        return out

    def answers(self):
        return numpy.array([row[self.names.index(self.answer)] for row in self.rows])


def with_holes(rows, column, every, mark=""):
    """The rows, with this column's value missing in some."""
    rows = [list(row) for row in rows]
    for row in rows[3::every]:
        row[column] = mark
    return rows


@unittest.skipIf(Pipeline is None, "scikit-learn is not there: scripts/install-deps test")
class Pipelines(BinaryTest):
    def train_on(self, table, *options, regression=False):
        self.table, self.regression = table, regression
        classes = len(set(table.answers()))
        self.write("table.csv", table.text())
        kind = "--target" if regression else "--label"
        self.succeed("data", "import", "csv", "table.csv", kind, table.answer, *options, "--output", "table.h5")
        loss = "mean_squared_error" if regression else "softmax_cross_entropy"
        self.write("table.toml", NETWORK.format(loss=loss, units=1 if regression else classes))
        self.succeed("train", "table.toml")

    def pipeline(self, scaler=None, missing="mean", encoder=None):
        """Fitted on the training rows; with the run's coefficients."""
        steps = []
        for j, name in enumerate(self.table.features):
            if name in self.table.categories:
                step = OneHotEncoder(**(encoder or {}))
            else:
                step = Pipeline([("fill", SimpleImputer(strategy=missing)), ("scale", scaler or "passthrough")])
            steps.append((name, step, [j]))
        model = LinearRegression() if self.regression else LogisticRegression(max_iter=1, multi_class="auto")
        pipeline = Pipeline([("columns", ColumnTransformer(steps)), ("model", model)])
        answers = self.table.answers()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            pipeline.fit(self.table.values(), answers.astype(float) if self.regression else answers)
        with h5py.File(self.checkpoints("runs/table")[-1]) as file:
            bias = file["parameters/dense1.bias"][:].astype(float)
            weight = file["parameters/dense1.weight"][:].astype(float).reshape(len(bias), -1)
        if self.regression:
            model.coef_, model.intercept_ = weight[0], bias[0]
        elif len(bias) == 2:  # the sigmoid of the difference is the softmax of the two
            model.coef_, model.intercept_ = weight[1:] - weight[:1], bias[1:] - bias[:1]
        else:
            model.coef_, model.intercept_ = weight, bias
        self.assertEqual(model.coef_.shape[-1], model.n_features_in_)
        return pipeline

    def predicted(self, name, ranks=0):
        (self.folder / "out.csv").unlink(missing_ok=True)
        self.succeed("predict", "runs/table", "--input", name, "--output", "out.csv", ranks=ranks)
        with open(self.folder / "out.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.names = [row.get("class_name") for row in rows]
        first = [key for key in rows[0] if key[0] in "py" and key[1:].isdigit()]
        return numpy.array([[float(row[key]) for key in first] for row in rows])

    def compare(self, pipeline, rows=None, names=None, ranks=0):
        """What is predicted of these rows of raw values, the columns in this order."""
        table = self.table
        new = Table(table.names, table.rows if rows is None else rows, table.answer, table.categories)
        self.write("new.csv", new.text(names or new.features))
        got = self.predicted("new.csv", ranks)
        if self.regression:
            expected = pipeline.predict(new.values())[:, None]
        else:
            expected = pipeline.predict_proba(new.values())
            sure = numpy.sort(expected, axis=1)[:, -1] - numpy.sort(expected, axis=1)[:, -2] > 1e-4
            said = pipeline.predict(new.values())
            self.assertEqual([n for n, s in zip(self.names, sure) if s], [str(n) for n in said[sure]])
        numpy.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-5)
        return got

    def refuse(self, pattern, text):
        self.write("new.csv", text)
        result = self.unisono("predict", "runs/table", "--input", "new.csv", "--output", "refused.csv")
        self.assertEqual(result.code, 3, result)
        self.assertRegex(result.err, pattern)
        self.assertFalse((self.folder / "refused.csv").exists())

    def round_trip(self, pipeline):
        """All rows; one row; columns in another order and a further one; a renamed and a missing column."""
        table = self.table
        everything = self.compare(pipeline)
        for i in (0, 3, len(table.rows) - 1):
            numpy.testing.assert_array_equal(self.compare(pipeline, rows=table.rows[i : i + 1])[0], everything[i])
        backwards = table.features[::-1]
        numpy.testing.assert_array_equal(self.compare(pipeline, names=backwards, ranks=2), everything)
        numpy.testing.assert_array_equal(self.compare(pipeline, names=[table.answer, *backwards]), everything)
        renamed = [*table.features[:-1], table.features[-1] + " renamed"]
        self.refuse(r"new\.csv.*" + table.features[-1], table.text(table.features, heading=renamed))
        self.refuse(r"new\.csv.*" + table.features[0], table.text(table.features[1:]))


class MadeTables(Pipelines):
    def test_categories_missing_values_and_rare_levels(self):
        random = numpy.random.default_rng(7)
        rows = []
        for i in range(300):
            kind = random.integers(0, 2)
            colour = random.choice(["red", "blue"], p=[0.8, 0.2] if kind else [0.3, 0.7])
            if i % 97 == 5:
                colour = f"shade {i}"  # three levels of one row each
            weight = f"{20 + 5 * kind + random.normal():.4f}"
            rows.append([weight, colour, str(random.choice(["S", "M", "L"])), "cat" if kind else "dog"])
        rows = with_holes(with_holes(rows, 0, 11, "?"), 2, 13)
        table = Table(["weight", "colour", "size", "kind"], rows, "kind", ["colour", "size"])
        self.train_on(table, "--scale", "standard", "--missing", "median", "--unknown", "other",
                      "--minimum-frequency", "5")  # fmt: skip
        encoder = {"min_frequency": 5, "handle_unknown": "infrequent_if_exist"}
        pipeline = self.pipeline(StandardScaler(), "median", encoder)
        self.round_trip(pipeline)
        self.compare(pipeline, rows=[["21", "violet", "XXL", "dog"], ["", "red", "", "cat"]])

    def test_an_unseen_level_without_an_other_one(self):
        rows = [[str(i % 7), "abc"[i % 3], "yn"[i % 2]] for i in range(60)]
        table = Table(["x", "level", "answer"], rows, "answer", ["level"])
        self.train_on(table, "--scale", "none")
        self.round_trip(self.pipeline())
        self.refuse(r"new\.csv:3: column 'level': 'd'", "x,level\n1,a\n2,d\n")
        self.refuse(r"new\.csv:2: column 'x': .*missing", "x,level\n?,a\n")
        self.refuse(r"new\.csv:3: column 'x': 'many'", "x,level\n1,a\nmany,a\n")


@unittest.skipUnless(DATA, "UNISONO_DATA does not name the folder with iris, wdbc, wine-quality and libsvm")
class RealTables(Pipelines):
    def read(self, path, delimiter=","):
        with open(DATA / path, newline="", encoding="utf-8") as file:
            return [row for row in csv.reader(file, delimiter=delimiter) if row]

    def test_iris(self):
        rows = with_holes(self.read("iris/iris.csv"), 2, 7)
        table = Table(["sepal length", "sepal width", "petal length", "petal width", "species"], rows, "species")
        self.train_on(table, "--scale", "min_max", "--missing", "mean")
        self.round_trip(self.pipeline(MinMaxScaler(), "mean"))

    def test_breast_cancer(self):
        rows = [row[1:] for row in self.read("wdbc/wdbc.data")]
        names = ["diagnosis", *(f"f{i}" for i in range(len(rows[0]) - 1))]
        self.train_on(Table(names, with_holes(rows, 4, 5, "NA"), "diagnosis"), "--standardize", "--missing", "median")
        self.round_trip(self.pipeline(StandardScaler(), "median"))

    def test_wines_of_two_colours(self):
        rows = []
        for colour in ("red", "white"):
            read = self.read(f"wine-quality/winequality-{colour}.csv", ";")
            names = [*read[0][:-1], "colour", "quality"]
            rows += [[*row[:-1], colour, row[-1]] for row in read[1::9]]
        table = Table(names, with_holes(rows, 0, 6), "quality", ["colour"])
        self.train_on(table, "--scale", "standard", "--missing", "mean", regression=True)
        self.round_trip(self.pipeline(StandardScaler(), "mean"))
        self.refuse(r"new\.csv:2: column 'colour': 'rosé'",
                    table.text(table.features, [[*rows[0][:-2], "rosé", "5"]]))  # fmt: skip

    def test_a9a(self):
        self.succeed("data", "import", "libsvm", DATA / "libsvm/a9a", "--output", "rows.h5")
        self.write("rows.toml", LINEAR)
        self.succeed("train", "rows.toml")
        features, labels = load_svmlight_file(str(DATA / "libsvm/a9a"), n_features=123, zero_based=False)
        model = LogisticRegression(max_iter=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, labels)
        with h5py.File(self.checkpoints("runs/rows")[-1]) as file:
            model.coef_ = file["parameters/linear.weight"][:].astype(float).reshape(1, -1)
            model.intercept_ = file["parameters/linear.bias"][:].astype(float)
        # Its test file never uses the last column.
        new, _ = load_svmlight_file(str(DATA / "libsvm/a9a.t"), n_features=123, zero_based=False)
        lines = (DATA / "libsvm/a9a.t").read_text().splitlines(keepends=True)
        for name, chosen in (("all", slice(None)), ("one", slice(5, 6))):
            self.write(name + ".txt", "".join(lines[chosen]))
            self.succeed("predict", "runs/rows", "--input", name + ".txt", "--output", name + ".h5")
            with h5py.File(self.folder / (name + ".h5")) as file:
                got = file["predictions"][:]
            numpy.testing.assert_allclose(got, model.predict_proba(new[chosen]), atol=1e-5)
        self.write("wide.txt", "+1 3:1 124:1\n")
        result = self.unisono("predict", "runs/rows", "--input", "wide.txt", "--output", "wide.csv")
        self.assertEqual(result.code, 3, result)
        self.assertRegex(result.err, r"wide\.txt:1:\d+: the index 124 is beyond the 123 columns")


if __name__ == "__main__":
    unittest.main()
