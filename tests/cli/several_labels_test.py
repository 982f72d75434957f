"""Pictures and rows that may have several labels each: from a list to predictions, beside figures of NumPy."""

import csv
import io
import json
import re
import unittest

import h5py
import numpy
from harness import BinaryTest, messages, settings
from PIL import Image

NAMES = ["blue, dark", "green", "red"]  # by the alphabet; of the channels 2, 1 and 0
CONFIG = """
name = "labels"
[data]
path = "set.h5"
[model]
kind = "network"
loss = "sigmoid_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 3 }]
[optimizer]
kind = "adam"
learning_rate = 0.003
[train]
epochs = 4
batch_size = 8
threads = 1
"""


def figures(targets, probabilities):
    """Of one label: precision, recall, F1 and average precision; None where they would be 0/0."""
    predicted = probabilities > 0.5
    hits = int((predicted & (targets == 1)).sum())

    def part(of):
        return hits / of if of > 0 else None

    total = int(predicted.sum() + targets.sum())
    average = None
    if 0 < targets.sum() < len(targets):
        average, recall = 0, 0
        for threshold in sorted(set(probabilities), reverse=True):
            above = probabilities >= threshold
            new = (above & (targets == 1)).sum() / targets.sum()
            average += (new - recall) * (above & (targets == 1)).sum() / above.sum()
            recall = new
    return {
        "precision": part(int(predicted.sum())),
        "recall": part(int(targets.sum())),
        "f1": 2 * hits / total if total > 0 else None,
        "examples": int(targets.sum()),
        "average_precision": average,
    }


def mean(values):
    there = [value for value in values if value is not None]
    return sum(there) / len(there)


class SeveralLabels(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", CONFIG)

    def make_pictures(self, count=120, columns=("red", "green", "blue, dark"), rare=0.15):
        """Noise, with a bright part in the channel of each label. Returns labels [count, 3], as `columns`."""
        random = numpy.random.default_rng(5)
        shares = dict(zip(["red", "green", "blue, dark"], (0.4, 0.3, rare)))
        labels = random.random((count, 3)) < [shares[name] for name in columns]
        places = {"red": (0, slice(2, 6)), "green": (1, slice(8, 12)), "blue, dark": (2, slice(5, 9))}
        rows = []
        for i in range(count):
            pixels = random.integers(0, 150, (14, 14, 3), "uint8")
            for k in numpy.flatnonzero(labels[i]):
                channel, part = places[columns[k]]
                pixels[part, part, channel] = random.integers(120, 220)
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            self.write(f"photos/{i % 3}/nr {i:03}.png", file.getvalue())
            own = [columns[k] for k in numpy.flatnonzero(labels[i])]
            split = "train" if i < 70 else "val" if i < 90 else "test"
            rows.append([f"{i % 3}/nr {i:03}.png", ";".join(own), *labels[i].astype(int), split])
        self.write_list("list.csv", columns, rows)
        return labels, rows

    def write_list(self, name, columns, rows):
        text = io.StringIO()
        csv.writer(text).writerows([["file", "labels", *columns, "split"], *rows])
        self.write(name, text.getvalue())

    def words(self, *options, output="set.h5", table="list.csv"):
        return ("data", "import", "images", "photos", "--list", table, "--size", "14", "--output", output, *options)

    def imported(self, *options, separator=("--label-column", "labels", "--label-separator", ";"), **names):
        return self.succeed(*self.words(*separator, "--split-column", "split", *options, **names))

    def refused(self, *words, code=3, ranks=0):
        result = self.unisono(*words, ranks=ranks)
        self.assertEqual(result.code, code, result)
        self.assertEqual(len(messages(result)), 1, result)
        return messages(result)[0]

    def table(self, name):
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def check_figures(self, ours, targets, probabilities):
        """What `evaluate --json` says, beside NumPy's figures of [n, K]."""
        each = [figures(targets[:, k], probabilities[:, k]) for k in range(targets.shape[1])]
        for own, expected in zip(ours["labels"], each):
            for name, value in expected.items():
                if value is None:
                    self.assertIsNone(own[name], (own["name"], name))
                else:
                    self.assertAlmostEqual(own[name], value, places=12, msg=(own["name"], name))
        for name in ("precision", "recall", "f1", "average_precision"):
            self.assertAlmostEqual(ours[name], mean([one[name] for one in each]), places=12)
        predicted = probabilities > 0.5
        hits = (predicted & (targets == 1)).sum()
        self.assertAlmostEqual(ours["f1_micro"], 2 * hits / (predicted.sum() + targets.sum()), places=12)
        self.assertAlmostEqual(ours["subset_accuracy"], (predicted == targets).all(axis=1).mean(), places=12)

    def test_from_a_list_to_predictions(self):
        labels, rows = self.make_pictures()
        result = self.imported()
        counts = "70 training, 20 validation and 30 test examples of 3×14×14, with several of 3 labels"
        self.assertIn(counts, result.out)
        with h5py.File(self.folder / "set.h5") as file:
            self.assertEqual([name.decode() for name in file.attrs["label_names"]], NAMES)
            self.assertNotIn("class_names", file.attrs)
            numpy.testing.assert_array_equal(file["train/targets"][:], labels[:70, ::-1])
            targets = file["test/targets"][:]
        told = self.train("run", *settings("train.epochs=12")).out
        self.assertRegex(told, r"validation loss [0-9.]+, subset_accuracy [0-9.]+, average_precision [0-9.]+")
        last = [line for line in self.metrics("run") if line.get("split") == "validation"][-1]
        self.assertLessEqual({"f1", "f1_micro", "precision", "recall", "auc", "average_precision"}, last.keys())

        self.succeed("predict", "run", "--output", "p.csv")
        table = self.table("p.csv")
        self.assertEqual(list(table[0]), ["example", "file", "labels", "predicted", *(f"p_{name}" for name in NAMES)])
        probabilities = numpy.array([[numpy.float32(row[f"p_{name}"]) for name in NAMES] for row in table])
        for i, row in enumerate(table):
            self.assertEqual((row["file"], sorted(filter(None, row["labels"].split(";")))),
                             (rows[90 + i][0], sorted(filter(None, rows[90 + i][1].split(";")))))  # fmt: skip
            predicted = [name for name, p in zip(NAMES, probabilities[i]) if p > 0.5]
            self.assertEqual(row["predicted"], ";".join(predicted))
        self.assertGreater(len({row["predicted"] for row in table}), 2)
        self.succeed("predict", "run", "--output", "p.csv", "--overwrite")  # which knows its own table

        ours = json.loads(self.succeed("evaluate", "run", "--json").out)
        self.check_figures(ours, targets, probabilities)
        on_two = json.loads(self.succeed("evaluate", "run", "--json", ranks=2).out)
        # The loss is a sum in another order; all others are counts.
        self.assertAlmostEqual(on_two.pop("loss"), ours.pop("loss"), places=12)
        self.assertEqual(on_two, ours)

        self.succeed("predict", "run", "--output", "p.h5")
        with h5py.File(self.folder / "p.h5") as file:
            self.assertEqual([name.decode() for name in file["label_names"]], NAMES)
            self.assertEqual(file["predictions"].attrs["outputs"], b"probabilities")
            numpy.testing.assert_array_equal(file["predictions"][:], probabilities)
            numpy.testing.assert_array_equal(file["targets"][:], targets)
        self.succeed("predict", "run", "--input", "photos/0", "--output", "new.csv")
        new = self.table("new.csv")
        self.assertEqual(list(new[0])[:3], ["example", "file", "predicted"])
        by_file = {"0/" + row["file"]: row["predicted"] for row in new}
        for row in table:
            if row["file"].startswith("0/"):
                self.assertEqual(by_file[row["file"]], row["predicted"])
        self.assertIn("neither labels nor targets", self.refused("evaluate", "run", "--input", "photos/0"))

    def test_both_forms_of_a_list_and_kept_files_give_the_same_model(self):
        self.make_pictures(columns=("blue, dark", "green", "red"))
        self.imported()
        self.train("cells")
        columns = ("--label-columns", "green,red")
        self.imported(separator=columns, output="two.h5")
        with h5py.File(self.folder / "two.h5") as file:
            self.assertEqual([name.decode() for name in file.attrs["label_names"]], ["green", "red"])
        self.imported("--encoded", "--verify", output="kept.h5")
        self.train("kept", *settings("data.path=kept.h5"))
        self.assert_same_bits("cells", "kept")
        self.train("two ranks", ranks=2)
        self.assert_close("cells", "two ranks", 1e-4)

    def test_a_set_with_other_labels(self):
        _, rows = self.make_pictures(columns=("red", "green", "blue, dark"), rare=0.3)
        self.imported()
        self.train("run")
        expected = json.loads(self.succeed("evaluate", "run", "--json").out)
        with h5py.File(self.folder / "set.h5", "a") as file:  # the same labels in another order
            file.attrs["label_names"] = ["red", "blue, dark", "green"]
            for group in ("train", "validation", "test"):
                values = file[f"{group}/targets"][:]
                file[f"{group}/targets"][...] = values[:, [2, 0, 1]]
        (self.folder / "set.h5").rename(self.folder / "turned.h5")
        turned = json.loads(self.succeed("evaluate", "run", "--data", "turned.h5", "--json").out)
        for name in ("loss", "labels", "f1", "f1_micro", "average_precision"):
            self.assertEqual(turned[name], expected[name])
        with h5py.File(self.folder / "turned.h5", "a") as file:
            file["test/targets"][3, 1] = 2
        for ranks in (0, 2):
            refusal = self.refused("evaluate", "run", "--data", "turned.h5", ranks=ranks)
            self.assertIn("turned.h5: /test/targets: example 3 has the value 2", refusal)
        with h5py.File(self.folder / "turned.h5", "a") as file:  # nobody says what the targets are
            del file.attrs["label_names"]
            values = file["test/targets"][:] / 2
            del file["test/targets"]
            file["test/targets"] = values
        for ranks in (0, 2):
            refusal = self.refused("evaluate", "run", "--data", "turned.h5", ranks=ranks)
            self.assertIn("turned.h5: some targets are neither 0 nor 1", refusal)
        # A list of pictures without one of the labels, and one with a label more.
        few = [row for row in rows if "blue" not in row[1]]
        self.write_list("few.csv", ("red", "green", "blue, dark"), few)
        self.imported(table="few.csv", output="few.h5")
        result = self.succeed("evaluate", "run", "--data", "few.h5", "--json")
        self.assertEqual(len(re.findall("does not name the label blue, dark, so that no example has it",
                                        result.out + result.err)), 1)  # fmt: skip
        blue = json.loads(result.out.splitlines()[-1])["labels"][0]
        self.assertEqual((blue["name"], blue["examples"]), ("blue, dark", 0))
        self.assertIsNone(blue["recall"])
        self.assertIsNone(blue["average_precision"])
        text = self.succeed("evaluate", "run", "--data", "few.h5").out
        self.assertRegex(text, r"blue, dark +(-|0\.0000) +- +(-|0\.0000) +- +0\n")
        self.assertIn("-: undefined, since it would be 0/0", text)
        rows[95][1] = "violet"
        self.write_list("more.csv", ("red", "green", "blue, dark"), rows)
        result = self.imported(table="more.csv", output="more.h5")
        self.assertIn("warning: more.h5: no training picture has the label violet", result.out)
        for ranks in (0, 2):
            refusal = self.refused("evaluate", "run", "--data", "more.h5", ranks=ranks)
            self.assertIn("more.h5: has the label 'violet', which the model was not trained on", refusal)

    def test_a_set_with_classes(self):
        self.make_pictures()
        self.imported()
        self.train("run")
        with h5py.File(self.folder / "set.h5") as file, h5py.File(self.folder / "classes.h5", "w") as other:
            file.copy("test", other)
            del other["test/targets"]
            other["test/labels"] = numpy.arange(len(file["test/targets"])) % 2
        refusal = self.refused("evaluate", "run", "--data", "classes.h5")
        self.assertIn("has a class for each example, but the model was trained on several labels", refusal)
        self.succeed("predict", "run", "--data", "classes.h5", "--output", "p.csv")
        header = (self.folder / "p.csv").read_text().splitlines()[0]
        self.assertNotIn("labels", header)

    def test_losses_and_mixtures(self):
        self.make_pictures()
        self.imported("--encoded")
        refusal = self.refused("train", "config.toml", *settings("model.loss=softmax_cross_entropy"), code=2)
        self.assertIn("sigmoid_cross_entropy for several labels of an example", refusal)
        self.train("squares", *settings("model.loss=mean_squared_error", "train.epochs=1"))
        self.assertIn("rmse", self.summary("squares")["test"])
        mixed = settings("data.augmentation.mixup=0.4", "data.augmentation.cutmix=1")
        self.train("mixed", *mixed)
        self.train("mixed on two", *mixed, ranks=2)
        self.assert_close("mixed", "mixed on two", 1e-4)
        self.train("chosen", *settings("checkpoint.best.metric=f1_micro", "metrics.show=['f1']"))
        self.assertEqual(self.summary("chosen")["best"]["metric"], "validation f1_micro")
        refusal = self.refused("train", "config.toml", *settings("checkpoint.best.metric=accuracy"), code=2)
        self.assertIn("it has loss, subset_accuracy, auc, average_precision, precision, recall, f1, f1_micro", refusal)
        refusal = self.refused("train", "config.toml", *settings("train.class_weights=balanced"), code=2)
        self.assertIn("has no labels, which class weights need", refusal)

    def test_a_description_and_a_page(self):
        labels, _ = self.make_pictures(columns=("blue, dark", "green", "red"))
        self.imported()
        text = self.succeed("data", "describe", "set.h5").out
        own = labels[:70]
        self.assertIn("targets   uint8 [70, 3]: an example may have several of 3 labels", text)
        self.assertIn(f"{own.sum() / 70:.3g} labels an example, at most {own.sum(axis=1).max()}; "
                      f"{(own.sum(axis=1) == 0).sum()} without any", text)  # fmt: skip
        for k, name in enumerate(NAMES):
            count = own[:, k].sum()
            self.assertRegex(text, rf"{k} {name} +{count} +{100 * count / 70:.1f} %")
        self.train("run")
        self.succeed("report", "run", "--examples", "3", "--output", "run.html")
        page = re.sub(r"<[^>]*>", " ", (self.folder / "run.html").read_text())
        ours = json.loads(self.succeed("evaluate", "run", "--json").out)
        for one in ours["labels"]:
            values = [one[name] for name in ("precision", "recall", "f1")]
            cells = ["undefined" if value is None else f"{value:.3f}" for value in values]
            self.assertRegex(page, r"\s+".join([one["name"], str(one["examples"]), *cells]))
        self.assertRegex(page, r"Worst examples, by distance from the labels")
        self.assertRegex(page, rf"(none|{'|'.join(NAMES)})[^<]*, predicted (none|{'|'.join(NAMES)})")

    def test_lists_that_are_refused(self):
        _, rows = self.make_pictures(count=6)
        cells = ("--label-column", "labels", "--label-separator", ";")
        rows[2][1] = "red;red"
        rows[3][3] = 2
        self.write_list("list.csv", ("red", "green", "blue, dark"), rows)
        self.assertIn("list.csv:4: column 'labels': has the label 'red' twice", self.refused(*self.words(*cells)))
        columns = ("--label-columns", "red,green")
        self.assertIn("list.csv:5: column 'green': '2' is neither 0 nor 1", self.refused(*self.words(*columns)))
        for options in ((*cells, *columns), (*columns, "--label-column", "labels"), ("--label-separator", "")):
            self.assertEqual(self.unisono(*self.words(*options)).code, 2)
        rows[2][1], rows[3][3] = "", 0
        rows[4][0] = "missing.png"
        self.write_list("list.csv", ("red", "green", "blue, dark"), rows)
        self.assertIn("list.csv:6: ", self.refused(*self.words(*cells)))
        result = self.succeed(*self.words(*cells, "--skip-damaged"))
        self.assertIn("5 training", result.out)
        self.assertIn("left out: photos/missing.png", result.out)

    def test_rows_of_a_table(self):
        random = numpy.random.default_rng(3)
        values = random.normal(size=(200, 3)).round(3)
        flags = numpy.stack([values[:, 0] > 0.3, values[:, 1] + values[:, 2] > 1], 1).astype(int)

        def write(name, header, columns):
            lines = [",".join(map(str, row)) for row in zip(*columns)]
            self.write(name, "\n".join([header, *lines]) + "\n")

        a, b, c = values.T
        write("t.csv", "a,b,warm,c,big", (a, b, flags[:, 0], c, flags[:, 1]))
        split = ("--validation-fraction", "0.2", "--test-fraction", "0.2")
        words = ("data", "import", "csv", "t.csv", "--label-columns", "warm,big", "--output", "set.h5", *split)
        self.assertIn("40 test examples of 3 columns, with several of 2 labels", self.succeed(*words).out)
        text = CONFIG.replace('{ kind = "flatten" }, ', '{ kind = "dense", units = 8 }, { kind = "relu" }, ')
        self.write("config.toml", text.replace("units = 3", "units = 2").replace("0.003", "0.02"))
        self.train("run")
        write("new.csv", "big,c,warm,a,b", (flags[:50, 1], c[:50], flags[:50, 0], a[:50], b[:50]))
        self.succeed("predict", "run", "--input", "new.csv", "--keep", "a", "--output", "p.csv")
        table = self.table("p.csv")
        self.assertEqual(list(table[0]), ["example", "a", "labels", "predicted", "p_warm", "p_big"])
        for row, own in zip(table, flags):
            self.assertEqual(row["labels"], ";".join(name for name, flag in zip(("warm", "big"), own) if flag))
        probabilities = numpy.array([[numpy.float32(row[f"p_{name}"]) for name in ("warm", "big")] for row in table])
        ours = json.loads(self.succeed("evaluate", "run", "--input", "new.csv", "--json").out)
        self.check_figures(ours, flags[:50], probabilities)
        # Some of the columns are not enough: nobody says that no row has the label.
        write("few.csv", "a,b,c,warm", (a[:9], b[:9], c[:9], flags[:9, 0]))
        self.assertIn("few.csv: has no column 'big', which is a label of the model",
                      self.refused("evaluate", "run", "--input", "few.csv"))  # fmt: skip
        write("none.csv", "a,b,c", (a[:9], b[:9], c[:9]))
        self.assertIn("none.csv: has no columns 'warm', 'big' to compare with; use 'unisono predict'",
                      self.refused("evaluate", "run", "--input", "none.csv"))  # fmt: skip
        twice = ("a,b,c,big,warm,warm", (a[:9], b[:9], c[:9], flags[:9, 1], flags[:9, 0], flags[:9, 0]))
        write("twice.csv", *twice)
        self.assertIn("twice.csv: two columns are named 'warm'",
                      self.refused("evaluate", "run", "--input", "twice.csv"))  # fmt: skip
        self.succeed("predict", "run", "--input", "few.csv", "--output", "few.csv.csv")
        self.assertNotIn("labels", self.table("few.csv.csv")[0])
        write("odd.csv", "a,b,c,warm,big", (a[:9], b[:9], c[:9], flags[:9, 0], flags[:9, 1] + 2))
        refusal = self.refused("evaluate", "run", "--input", "odd.csv")
        self.assertRegex(refusal, r"odd\.csv:2: column 'big': '[23]' is neither 0 nor 1")
        other = (*words[:3], "t.csv", "--output", "b.h5", "--label-columns")
        self.assertIn("t.csv:2: column 'a': ", self.refused(*other, "warm,a"))
        self.assertIn("--label-columns 'x': there is no such column", self.refused(*other, "warm,x", code=2))
        self.assertIn("cannot be combined with --label", self.refused(*other, "warm", "--label", "big", code=2))
        self.assertIn("--label-columns names column 'warm' twice", self.refused(*other, "warm,big,warm", code=2))

    def test_one_label_is_a_label_too(self):
        self.make_pictures(columns=("blue, dark", "green", "red"))
        self.imported(separator=("--label-columns", "red"))
        self.write("config.toml", CONFIG.replace("units = 3", "units = 1"))
        self.train("run")
        self.succeed("predict", "run", "--output", "p.csv")
        self.assertEqual(list(self.table("p.csv")[0]), ["example", "file", "labels", "predicted", "p_red"])
        self.assertEqual(len(json.loads(self.succeed("evaluate", "run", "--json").out)["labels"]), 1)


if __name__ == "__main__":
    unittest.main()
