"""Sets and dictionaries whose bytes were damaged: refused with one line and the exit code of data errors, by every
command, and never followed by HDF5."""

import pathlib
import random
import struct
import unittest

import h5py
import numpy

from harness import BinaryTest, messages, names_in, settings

DATA = 3
WORDS = [f"w{i}" for i in range(30)]
MODEL = """
name = "words"
[data]
path = "text.h5"
[model]
kind = "word2vec"
dimension = 4
window = 2
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 1
batch_size = 100
[strategy]
kind = "hogwild"
threads = 1
"""


def write_text(path):
    """A text as users write it, and as importers of earlier versions did: names are strings of variable length."""
    words = numpy.arange(600) * 7 % len(WORDS)
    with h5py.File(path, "w") as file:
        file["train/words"], file["train/sentences"] = words.astype("i4"), numpy.arange(0, 601, 20).astype("u8")
        file["dictionary/words"] = WORDS
        file["dictionary/counts"] = numpy.bincount(words, minlength=len(WORDS)).astype("i8")


def patched(path, mark, offset, patch):
    """The file with bytes behind the first `mark` replaced."""
    content = bytearray(path.read_bytes())
    at = content.index(mark) + offset
    content[at : at + len(patch)] = patch
    path.write_bytes(content)


class LinkedSets(BinaryTest):
    """The library gives zeros for sources of a dataset that are missing or too small."""

    def write_virtual(self, name, source, dataset, rows):
        with h5py.File(self.folder / name, "w") as file:
            layout = h5py.VirtualLayout((8, 3), "f4")
            layout[:rows] = h5py.VirtualSource(source, dataset, (8, 3))[:rows]
            file.create_virtual_dataset("train/features", layout)
            file["train/labels"] = numpy.arange(8) % 2

    def described(self, name):
        result = self.unisono("data", "describe", name, "--external-files")
        self.assertIn(result.code, (0, DATA), result)
        return result.out if result.code == 0 else result.err

    def test_virtual_datasets_have_all_their_sources(self):
        with h5py.File(self.folder / "source.h5", "w") as file:
            file["x"] = numpy.arange(24, dtype="f4").reshape(8, 3)
            file["short"] = numpy.ones((6, 3), "f4")
        self.write_virtual("whole.h5", "source.h5", "x", 8)
        self.assertIn("0, 1, 2\n", self.described("whole.h5"))
        self.write_virtual("gone.h5", "gone-source.h5", "x", 8)
        self.assertRegex(self.described("gone.h5"), "gone.h5: /train/features is virtual, and its source file 'gone-so")
        self.write_virtual("other.h5", "source.h5", "z", 8)
        self.assertIn("source file 'source.h5' has no dataset 'z'", self.described("other.h5"))
        self.write_virtual("short.h5", "source.h5", "short", 8)
        self.assertIn("'short' in its source file 'source.h5' is smaller than what", self.described("short.h5"))
        self.write_virtual("part.h5", "source.h5", "x", 6)
        self.assertIn("its sources cover 18 of its 24 values", self.described("part.h5"))
        self.write_virtual("nested.h5", "gone.h5", "train/features", 8)
        self.assertIn("'gone-source.h5' cannot be opened", self.described("nested.h5"))

    def test_training_does_not_begin_without_a_source(self):
        self.write_virtual("gone.h5", "gone-source.h5", "x", 8)
        layers = 'kind = "network"\nloss = "softmax_cross_entropy"\nlayers = [{ kind = "dense", units = 2 }]'
        rest = "[optimizer]\nlearning_rate = 0.1\n[train]\nepochs = 1\nbatch_size = 4\n"
        self.write("gone.toml", f'name = "g"\n[data]\npath = "gone.h5"\n[model]\n{layers}\n{rest}')
        for reader in ("resident", "streaming"):
            result = self.unisono("train", "gone.toml", *settings(f"data.reader={reader}", "data.external_files=true"))
            self.assertEqual(result.code, DATA, result)
            self.assertIn("'gone-source.h5' cannot be opened", result.err)

    def test_raw_files_hold_all_values(self):
        numpy.arange(24, dtype="f4").tofile(self.folder / "raw.bin")
        for name, offset in (("raw.h5", 0), ("short.h5", 40)):
            with h5py.File(self.folder / name, "w") as file:
                file.create_dataset("train/features", (8, 3), "f4", external=[("raw.bin", offset, 96)])
                file["train/labels"] = numpy.arange(8) % 2
        self.assertIn("0, 1, 2\n", self.described("raw.h5"))
        self.assertIn("has its values in the file 'raw.bin', which is too small", self.described("short.h5"))
        (self.folder / "raw.bin").unlink()
        self.assertIn("'raw.bin', which cannot be read: No such file", self.described("raw.h5"))


class DamagedSets(BinaryTest):
    def refused(self, *arguments, **options):
        result = self.unisono(*arguments, timeout=60, **options)
        self.assertEqual(result.code, DATA, result)
        self.assertEqual(len(messages(result)), 1, result)
        return result.err

    # A place in the heap that leads nowhere, a string longer than its heap, one without end, a heap that is none.
    DAMAGES = (
        (8, struct.pack("<Q", 2**63)),
        (16, struct.pack("<H", 0)),
        (24, struct.pack("<Q", 2**64 - 16)),
        (24, struct.pack("<Q", 2**40)),
        (0, b"xxxx"),
    )

    def test_names_in_the_heap(self):
        self.write("words.toml", MODEL)
        for offset, patch in self.DAMAGES:
            write_text(self.folder / "text.h5")
            patched(self.folder / "text.h5", b"GCOL", offset, patch)
            for arguments in (
                ("data", "describe", "text.h5"),
                ("data", "cooccurrences", "text.h5", "--output", "pairs.h5"),
                ("train", "words.toml", "--output", "run"),
            ):
                with self.subTest(offset=offset, patch=patch, command=arguments[:2]):
                    self.assertIn("text.h5: /dictionary/words is damaged", self.refused(*arguments))

    def test_class_names_in_the_heap(self):
        for offset, patch in self.DAMAGES:
            path = self.folder / "table.h5"
            with h5py.File(path, "w") as file:
                file["train/features"] = numpy.zeros((9, 3), "f4")
                file["train/labels"], file.attrs["class_names"] = numpy.arange(9) % 2, ["no", "yes"]
            patched(path, b"GCOL", offset, patch)
            with self.subTest(offset=offset, patch=patch):
                self.assertIn("attribute 'class_names' is damaged", self.refused("data", "describe", "table.h5"))

    def test_the_dictionary_of_a_run(self):
        write_text(self.folder / "text.h5")
        self.write("words.toml", MODEL)
        self.train("run", config="words.toml")
        kept = self.folder / "run/dictionary.h5"
        with h5py.File(kept, "r") as file:
            self.assertEqual(names_in(file["dictionary/words"]), WORDS)
        self.succeed("neighbors", "run", "w1")
        whole = kept.read_bytes()
        for at in range(5, len(whole) - 25, len(whole) // 12):
            kept.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
            with self.subTest(at=at):
                self.assertIn("dictionary.h5: was changed or damaged", self.refused("neighbors", "run", "w1"))

    def test_a_sealed_set_on_two_ranks(self):
        path = self.folder / "copy.h5"
        whole = self.digits.read_bytes()
        path.write_bytes(whole)
        self.write("config.toml", (self.folder / "config.toml").read_text().replace("digits.h5", "copy.h5"))
        self.train("whole", ranks=2)
        path.write_bytes(whole[:60000] + bytes([whole[60000] ^ 1]) + whole[60001:])
        said = self.refused("train", "config.toml", "--output", "run", ranks=2)
        self.assertIn("copy.h5: was changed or damaged since it was written", said)
        self.assertIn("copy.h5: was changed or damaged", self.refused("data", "describe", "copy.h5"))

    def test_what_h5py_changes_has_no_checksum(self):
        path = self.folder / "copy.h5"
        path.write_bytes(self.digits.read_bytes())
        with h5py.File(path, "a") as file:
            file.attrs["class_names"] = list("abcdefghij")
        self.assertRegex(self.succeed("data", "describe", "copy.h5").out, r"\n +0 a ")
        whole = bytearray(self.digits.read_bytes())
        whole[60000] ^= 1
        path.write_bytes(whole)
        self.refused("data", "describe", "copy.h5")
        h5py.File(path, "a").close()  # the change was meant
        self.succeed("data", "describe", "copy.h5")

    def test_any_byte_of_any_set(self):
        """A sample of what tests/fuzz/set_mutations.cpp does, through the binary."""
        draw = random.Random(7)
        sets = sorted((pathlib.Path(__file__).parents[1] / "fuzz/corpus/sets").glob("*.h5"))
        for i in range(40):
            whole = bytearray(draw.choice(sets).read_bytes())
            for _ in range(draw.choice((1, 1, 8))):
                whole[draw.randrange(len(whole))] = draw.randrange(256)
            self.write("any.h5", bytes(whole[: draw.randrange(len(whole))] if i % 8 == 0 else whole))
            result = self.unisono("data", "describe", "any.h5", timeout=60)
            self.assertIn(result.code, (0, DATA), f"mutation {i}: {result}")
            self.assertEqual(len(messages(result)), result.code // DATA, result)


if __name__ == "__main__":
    unittest.main()
