"""Classifiers of texts through the binary: from a table to probabilities, on any division of the work over ranks."""

import csv
import json
import random
import unittest

import h5py

from harness import BinaryTest, messages, settings

WORDS = {
    "sea": ("ship", "wave", "sail", "fish"),
    "land": ("tree", "field", "cow", "barn"),
    "sky": ("cloud", "star", "bird", "wind"),
}

CONFIG = """
name = "texts"
seed = 3
[data]
path = "texts.h5"
context = 24
[model]
layers = [
  { kind = "embedding", units = 16 },
  { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 2, dropout = 0.1 }] },
  { kind = "residual", layers = [{ kind = "rms_norm" }, { kind = "swiglu", units = 16 }, { kind = "dense", units = 16 },
                                 { kind = "dropout", rate = 0.1 }] },
  { kind = "layer_norm" },
  { kind = "sequence_pool" },
  { kind = "dropout", rate = 0.1 },
  { kind = "dense", units = 3 } ]
[optimizer]
kind = "adamw"
learning_rate = 0.01
clip_norm = 1
[train]
epochs = 2
batch_size = 12
micro_batches = 4
threads = 1
"""

IMPORT = ("--tokenizer", "characters", "--text-column", "text", "--label-column", "class", "--output", "texts.h5")


def rows_of(count, seed=1):
    """Texts of one to six words: two in three are those of the text's class, the others those of any."""
    draw = random.Random(seed)
    every = [word for words in WORDS.values() for word in words]
    for _ in range(count):
        name = draw.choice(sorted(WORDS))
        words = [draw.choice(WORDS[name] if draw.random() < 2 / 3 else every) for _ in range(draw.randint(1, 6))]
        yield " ".join(words), name


class TextClassifierTest(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write_table("texts.csv", rows_of(400))
        self.write("config.toml", CONFIG)
        self.imported = self.succeed("data", "import", "tokens", "texts.csv", "--validation-fraction", "0.2", *IMPORT)

    def write_table(self, name, rows, header=("text", "class")):
        with open(self.folder / name, "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])

    def change(self, before, after):
        self.assertIn(before, CONFIG)
        self.write("config.toml", CONFIG.replace(before, after))

    def refused(self, *command, code=2):
        result = self.unisono(*command)
        self.assertEqual(result.code, code, result)
        return messages(result)[0]


class Learning(TextClassifierTest):
    def test_it_learns_to_tell_texts_apart(self):
        self.assertIn("320 training, 80 validation and 0 test texts of 3 classes (land, sea, sky)", self.imported.out)
        described = self.succeed("data", "describe", "texts.h5").out
        self.assertRegex(described, r"train: .* tokens in 320 documents(.|\n)*3 classes(.|\n)*0 land +\d+ +\d+\.\d %")
        trained = self.train("run", *settings("train.epochs=20", "train.micro_batches=1"))
        self.assertRegex(trained.out, r"\d+ of 320 train texts, \d+ of 80 validation texts are longer than")
        result = json.loads(self.succeed("evaluate", "run", "--json").out)
        # A third of the words says nothing; of texts of a single word, all that there is.
        self.assertGreater(result["accuracy"], 0.75)
        self.assertGreater(result["f1"], 0.75)
        self.assertEqual(result["examples"], 80)
        self.assertIn("of 320 train texts", self.succeed("info", "config.toml").out)

    def test_a_classifier_is_planned_without_data(self):
        shape = ("--vocabulary", "30", "--classes", "3", "--json")
        told = json.loads(self.succeed("info", "config.toml", *shape).out)
        self.assertEqual(told["layers"][-1]["output"], "3")
        timed = json.loads(self.succeed("bench", "config.toml", *shape, "--steps", "3").out)
        self.assertGreater(timed["examples_per_second"], 0)
        self.assertIn("--classes needs", self.refused("info", "config.toml", "--classes", "3"))

    def test_texts_of_a_table_are_predicted(self):
        self.train("run", *settings("train.epochs=12", "train.micro_batches=1"))
        rows = list(rows_of(50, seed=5))
        self.write_table("new.csv", [(text,) for text, _ in rows], header=("text",))
        self.write_table("labelled.csv", [(i, name, text) for i, (text, name) in enumerate(rows)],
                         header=("number", "class", "text"))
        self.succeed("predict", "run", "--input", "new.csv", "--output", "new-predictions.csv")
        keep = ("--keep", "number", "--keep", "text")
        self.succeed("predict", "run", "--input", "labelled.csv", "--output", "predictions.csv", *keep, ranks=2)
        with open(self.folder / "new-predictions.csv") as bare, open(self.folder / "predictions.csv") as labelled:
            bare, labelled = list(csv.DictReader(bare)), list(csv.DictReader(labelled))
        self.assertEqual([row["class_name"] for row in bare], [row["class_name"] for row in labelled])
        self.assertEqual([row["label_name"] for row in labelled], [name for _, name in rows])
        self.assertEqual([(row["number"], row["text"]) for row in labelled],
                         [(str(i), text) for i, (text, _) in enumerate(rows)])
        right = sum(row["label_name"] == row["class_name"] for row in labelled)
        self.assertGreater(right, 30)
        for row in bare:
            self.assertAlmostEqual(sum(float(row[f"p{i}"]) for i in range(3)), 1, delta=1e-5)
        result = json.loads(self.succeed("evaluate", "run", "--input", "labelled.csv", "--json").out)
        self.assertAlmostEqual(result["accuracy"], right / 50)
        self.write_table("strange.csv", [("ship", "sea"), ("star", "stone")])
        strange = self.succeed("predict", "run", "--input", "strange.csv", "--output", "strange-predictions.csv")
        self.assertIn("'stone' is not one of the classes", strange.out + strange.err)

    def test_texts_do_not_depend_on_others_beside_them(self):
        self.train("run")
        self.write_table("new.csv", [("ship wave",), ("tree field cow barn tree",), ("a",)], header=("text",))
        self.write_table("one.csv", [("ship wave",)], header=("text",))
        for name in ("new", "one"):
            self.succeed("predict", "run", "--input", f"{name}.csv", "--output", f"{name}-p.csv")
        first = [(self.folder / f"{name}-p.csv").read_text().splitlines()[1] for name in ("new", "one")]
        self.assertEqual(*first)

    def test_the_weights_of_a_language_model_are_taken(self):
        with open(self.folder / "text.txt", "w") as file:
            file.write(" ".join(text for text, _ in rows_of(800, seed=9)))
        self.succeed("data", "import", "tokens", "text.txt", "--tokenizer-from", "texts.h5", "--output", "plain.h5")
        end = CONFIG.index('  { kind = "sequence_pool" }')
        head = '  { kind = "unembedding" } ]\n'
        language = CONFIG[:end] + head + CONFIG[CONFIG.index("[optimizer]") :]
        self.write("language.toml", language.replace("texts.h5", "plain.h5"))
        self.succeed("train", "language.toml", "--output", "language", "--progress", "none")
        trained = self.train("run", *settings("train.initialise_from='language'"))
        self.assertRegex(trained.out, r"initialised from .*: 1\d of \d+ tensors")
        of_bytes = ("--tokenizer", "bytes", "--output", "plain.h5", "--overwrite")
        self.succeed("data", "import", "tokens", "text.txt", *of_bytes)
        self.succeed("train", "language.toml", "--output", "bytes", "--progress", "none")
        from_bytes = settings("train.initialise_from='bytes'")
        message = self.refused("train", "config.toml", *from_bytes, "--output", "other", code=3)
        self.assertIn("the tokens of bytes are not those of texts.h5", message)


class Divided(TextClassifierTest):
    def test_pipelines_leave_what_one_rank_leaves(self):
        self.train("one")
        for ranks, pairs in (
            (2, ["replica.stages=2"]),
            (3, ["replica.stages=3", "replica.schedule=gpipe"]),
            (2, ["replica.stages=2", "replica.schedule=zero_bubble", "replica.recompute=all"]),
            (2, ["replica.stages=2", "replica.schedule=interleaved", "replica.chunks=2"]),
        ):
            with self.subTest(pairs):
                self.train("-".join(pairs), *settings(*pairs), ranks=ranks)
                self.assert_same_run("one", "-".join(pairs))

    def test_reproducible_sums_leave_it_on_any_number_of_ranks(self):
        reproducible = settings("communication.reduction=reproducible", "communication.leaves=4")
        self.train("one", *reproducible)
        for ranks in (2, 3):
            with self.subTest(ranks):
                self.train(f"{ranks}", *reproducible, ranks=ranks)
                self.assert_same_bits("one", f"{ranks}")

    def test_streamed_texts_give_what_memory_gives(self):
        self.train("memory")
        self.train("streamed", *settings("data.reader=streaming"))
        self.assert_same_bits("memory", "streamed")

    def test_a_run_goes_on_where_it_ended(self):
        self.train("whole", *settings("train.epochs=2"))
        self.train("parts", *settings("train.epochs=1"))
        self.succeed("train", "--resume", "parts", *settings("train.epochs=2"))
        self.assert_same_bits("whole", "parts")


class Refused(TextClassifierTest):
    def test_networks_that_do_not_fit(self):
        for before, after, message in (
            ("heads = 2, dropout = 0.1", "heads = 2, causal = false", "tokens see later ones (causal = false)"),
            ('  { kind = "sequence_pool" },\n', "", "makes one vector of each text"),
            ("units = 3 }", "units = 4 }", "3 classes"),
            ('{ kind = "dense", units = 3 }', '{ kind = "unembedding" }', "has made one vector of each"),
            ("context = 24", "", "data.context"),
            ("context = 24", 'context = 24\nwindows = "random"', "each of which is an example"),
        ):
            with self.subTest(after or before):
                self.change(before, after)
                self.assertIn(message, self.refused("train", "config.toml", "--output", "run"))

    def test_tables_that_do_not_fit(self):
        for words, message in (
            (("--text-column", "words", "--label-column", "class"), "there is no such column; choose from text, class"),
            (("--text-column", "text", "--label-column", "none"), "there is no such column"),
            (("--text-column", "text"), "needs --label-column"),
            (("--label-column", "class"), "needs --text-column"),
            (("--text-column", "text", "--label-column", "text"), "both name column 'text'"),
        ):
            with self.subTest(words):
                self.assertIn(
                    message, self.refused("data", "import", "tokens", "texts.csv", *words, "--output", "other.h5")
                )
        self.write_table("empty.csv", [("ship", "sea"), ("", "sky")])
        message = self.refused("data", "import", "tokens", "empty.csv", *IMPORT[:-1], "other.h5", code=3)
        self.assertIn("empty.csv:3: column 'text': the text is empty", message)
        for header in (("text", "text", "class"), ("text", "class", "class")):
            self.write_table("twice.csv", [("ship", "sea", "sky")], header=header)
            message = self.refused("data", "import", "tokens", "twice.csv", *IMPORT[:-1], "other.h5", code=3)
            self.assertIn(f"twice.csv: 2 columns are named '{header[1]}'", message)

    def test_what_a_trained_model_cannot_read(self):
        self.train("run")
        self.write_table("other.csv", [("ship",)], header=("words",))
        message = self.refused("predict", "run", "--input", "other.csv", "--output", "p.csv", code=3)
        self.assertIn("other.csv: has no column 'text', which the model was trained on", message)
        self.write_table("new.csv", [("ship",)], header=("text",))
        message = self.refused("evaluate", "run", "--input", "new.csv", code=3)
        self.assertIn("use 'unisono predict'", message)
        self.assertIn("is no language model", self.refused("evaluate", "run", "--stride", "3"))
        self.assertIn("language model", self.refused("generate", "run", "--prompt", "ship"))

    def test_a_set_without_names_of_its_classes(self):
        with h5py.File(self.folder / "texts.h5", "a") as file:
            del file.attrs["class_names"]
        self.assertIn("no attribute 'class_names'", self.refused("train", "config.toml", "--output", "run", code=3))


if __name__ == "__main__":
    unittest.main()
