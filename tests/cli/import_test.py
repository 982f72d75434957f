"""Sparse sets from text, from the command line to what an h5py user reads; what is said about them on the way."""

import collections
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest

import h5py
import numpy

from harness import BINARY, BinaryTest, messages, names_in

DATA = os.environ.get("UNISONO_DATA")


def dense(group, columns):
    """The matrix that a group of CSR datasets stands for."""
    indptr, indices = group["indptr"][:], group["indices"][:]
    values = group["data"][:] if "data" in group else numpy.ones(len(indices), "f4")
    matrix = numpy.zeros((len(indptr) - 1, columns), "f4")
    for row in range(len(matrix)):
        part = slice(indptr[row], indptr[row + 1])
        matrix[row, indices[part]] = values[part]
    return matrix


def needed(name):
    """A file of UNISONO_DATA; the test is skipped where there is none."""
    if DATA is None:
        raise unittest.SkipTest(f"UNISONO_DATA does not name a folder with {name}")
    return pathlib.Path(DATA) / name


class Csv(BinaryTest):
    def test_what_is_found_is_said_and_described(self):
        self.write("a.csv", "g,t,w,x,c,y\na,2024-02-29,1,3,u,2\nb,2024-03-01,2,5,v,3\n")
        options = ("--group", "g", "--time", "t", "--weight", "w", "--missing", "mean")
        said = self.succeed("data", "import", "csv", "a.csv", "--target", "y", *options, "--output", "a.h5").out
        self.assertEqual(
            said,
            "a.h5: 2 training, 0 validation and 0 test examples of 2 columns, with a target\n"
            "columns separated by ',', with their names in the first line\n"
            "  g  group     2 groups: a, b\n"
            "  t  time      dates\n"
            "  w  weight    1 to 2\n"
            "  x  number    3 to 5\n"
            "  c  category  2 levels: u, v\n"
            "  y  target    2 to 3\n",
        )
        described = self.succeed("data", "describe", "a.h5").out
        self.assertIn("2 categories: u, v", described)
        self.assertIn("numbers become the mean; missing categories are a category of their own", described)
        for line in ("  groups    int64 [2]", "  times     float64 [2]", "  weights   float32 [2]"):
            self.assertIn(line + "\n", described)
        result = self.unisono("data", "import", "csv", "a.csv", "--target", "c", "--output", "b.h5")
        self.assertRegex(result.err, "a.csv:2: column 'c': 'u' is not a number .*, as targets must be;")

    def test_roles_of_columns_are_said(self):
        colours = "red green blue white".split()
        rows = [f"{i},{i * 7 % 31},{colours[i % 4]},2024-01-{i + 1:02},5,p{i},{i % 2}" for i in range(25)]
        self.write("a.csv", "id,size,colour,day,same,name,y\n" + "\n".join(rows))
        options = ("a.csv", "--label", "y", "--output", "a.h5", "--overwrite")
        said = self.succeed("data", "import", "csv", *options).out
        self.assertIn("25 training, 0 validation and 0 test examples of 3 columns, 2 classes\n", said)
        for line in (
            "  id      left out  counts the rows; --include 'id' keeps it",
            "  size    number    0 to 30",
            "  colour  category  4 levels: blue, green, red, …",
            "  day     left out  dates; --dates 'day' makes numbers of dates; --include 'day' keeps it",
            "  same    number    constant: 5",
            "  name    left out  a text of its own in each row; --include 'name' keeps it",
            "  y       label     2 classes: 0, 1",
        ):
            self.assertIn(line + "\n", said)
        said = self.succeed("data", "import", "csv", *options, "--include", "id,name,day").out
        self.assertIn("examples of 6 columns", said)
        result = self.unisono("data", "import", "csv", *options, "--include", "id", "--exclude", "id")
        self.assertEqual(result.code, 2, result)
        self.assertIn("--exclude and --include both name column 'id'", result.err)
        wide = [",".join(f"{i * j}.5" for j in range(70)) + ",a" for i in range(9)]
        self.write("wide.csv", "\n".join(wide))
        said = self.succeed("data", "import", "csv", "wide.csv", "--output", "w.h5").out.splitlines()
        self.write("zip.csv", "zip,x\n01067,5\n10115,6\n")
        lines = self.succeed("data", "import", "csv", "zip.csv", "--output", "z.h5").out.splitlines()
        self.assertEqual(
            lines[2:],
            [
                "  zip  number    1067 to 10115, with leading zeros: --categorical takes the values as names",
                "  x    number    5 to 6",
            ],
        )
        self.write("long.csv", 'x,w\n1,"a\nb"\n2,"' + "é" * 40 + '"\n')
        lines = self.succeed("data", "import", "csv", "long.csv", "--output", "l.h5").out.splitlines()
        self.assertEqual(lines[3], "  w  category  2 levels: a b, " + "é" * 15 + "…")
        self.assertEqual(said[1], "columns separated by ',', without a line of names")
        self.assertEqual(said[2:], ["  column1   number    constant: 0.5", "  column71  category  1 level: a",
                                    "  and 69 columns of numbers"])

    def test_a_table_in_latin_1(self):
        self.write("a.csv", "größe,w\n1,a\n2,b\n".encode("latin1"))
        result = self.unisono("data", "import", "csv", "a.csv", "--output", "a.h5")
        self.assertEqual(result.code, 3, result)
        self.assertRegex(result.err, "data error: a.csv:1:3: the byte 0xF6 is not .* set --encoding latin1")
        said = self.succeed("data", "import", "csv", "a.csv", "--encoding", "latin1", "--output", "a.h5").out
        self.assertIn("  größe  number    1 to 2\n", said)
        self.write("t.txt", "zwölf zwölf".encode("latin1"))
        options = ("--minimum-count", "1", "--encoding", "latin1", "--output", "t.h5")
        self.succeed("data", "import", "text", "t.txt", *options)
        with h5py.File(self.folder / "t.h5", "r") as file:
            self.assertEqual(names_in(file["dictionary/words"]), ["zwölf"])

    def test_how_rows_were_divided_is_said(self):
        self.write("a.csv", "x,g\n" + "".join(f"{i * 7 % 5},{'abcde'[i % 5]}\n" for i in range(40)))
        options = ("a.csv", "--group", "g", "--test-fraction", "0.2", "--output", "a.h5", "--overwrite")
        said = self.succeed("data", "import", "csv", *options).out
        self.assertIn("32 training, 0 validation and 8 test examples", said)
        self.assertIn("rows divided by --split group\n", said)
        with h5py.File(self.folder / "a.h5", "r") as file:
            self.assertFalse(set(file["train/groups"]) & set(file["test/groups"]))
        self.assertNotIn("--split", self.succeed("data", "import", "csv", *options, "--split", "random").out)

    def test_numbers_as_labels_are_asked_about(self):
        self.write("a.csv", "x,price\n" + "".join(f"{i * 7 % 11},{i * 3}\n" for i in range(150)))
        self.write("a.txt", "".join(f"{i * 3} 1:{i}\n" for i in range(150)))
        for kind, options in (("csv", ("a.csv", "--label", "price")), ("libsvm", ("a.txt",))):
            words = ("data", "import", kind, *options, "--output", "a.h5", "--overwrite")
            result = self.unisono(*words)
            self.assertEqual(result.code, 2, result)
            self.assertRegex(
                result.err,
                "config error: a[.].*: the labels are .*1[50]0 different numbers: add --task regression to predict "
                "them as numbers, or --task classes for a class of each",
            )
            self.assertFalse((self.folder / "a.h5").exists())
            self.assertIn("150 classes", self.succeed(*words, "--task", "classes").out)
            self.assertIn("target", self.succeed(*words, "--task", "regression").out)
            (self.folder / "a.h5").unlink()

    def test_classes_of_the_test_table_alone_are_named(self):
        self.write("a.csv", "x,y\n1,<=50K\n2,>50K\n3,>50K\n")
        self.write("b.csv", "x,y\n1,<=50K.\n2,>50K.\n3,<=50K.\n")
        options = ("a.csv", "--label", "y", "--test-file", "b.csv", "--output", "a.h5")
        said = self.succeed("data", "import", "csv", *options).out
        self.assertIn(
            "warning: a.h5: 3 of 3 test rows are of classes that no training row has: '<=50K.' (2; is it '<=50K'?), "
            "'>50K.' (1; is it '>50K'?)\n",
            said,
        )

    def test_two_imports_of_a_file_are_alike(self):
        self.write("a.csv", "x,y\n1,a\n2,b\n")
        sets = []
        for _ in range(2):
            self.succeed("data", "import", "csv", "a.csv", "--label", "y", "--output", "a.h5", "--overwrite")
            sets.append((self.folder / "a.h5").read_bytes())
            time.sleep(1.1)  # times in HDF5 files count seconds
        self.assertEqual(*sets)

    def test_a_full_disk_leaves_nothing_behind(self):
        self.write("a.csv", "x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(5000)))
        for size in (0, 1, 24):
            words = [BINARY, "data", "import", "csv", "a.csv", "--output", "full/a.h5"]
            script = f"ulimit -f {size}; trap '' XFSZ; exec " + " ".join(words)
            result = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(result.returncode, 1, result)
            self.assertEqual(list((self.folder / "full").iterdir()), [])


class Libsvm(BinaryTest):
    def test_what_is_found_is_said_and_what_h5py_reads_is_the_text(self):
        matrix = numpy.array([[0, 1.5, 0, -2], [3, 0, 0, 0], [0, 0, 0, 0.25]], "f4")
        lines = (
            " ".join([str(label), *(f"{i}:{v}" for i, v in enumerate(row) if v)])
            for label, row in zip((2, 7, 2), matrix)
        )
        self.write("a.svm.gz", gzip.compress("\n".join(lines).encode()))
        self.write("b.svm", "7 0:1 # a comment\n")
        said = self.succeed("data", "import", "libsvm", "a.svm.gz", "--test-file", "b.svm", "--output", "a.h5").out
        self.assertEqual(
            said,
            "a.h5: 3 training, 0 validation and 1 test examples of 4 columns, 1.2 values each; "
            "2 classes (2, 7); index of the first column: 0\n",
        )
        with h5py.File(self.folder / "a.h5", "r") as file:
            self.assertTrue((dense(file["train/features"], 4) == matrix).all())
            self.assertEqual(file["train/features"].attrs["columns"], 4)
            types = [file["train/features/" + name].dtype for name in ("indptr", "indices", "data")]
            self.assertEqual(types, ["u8", "u4", "f4"])
            self.assertEqual(file["train/labels"].dtype, "i4")
            self.assertEqual(list(file["train/labels"]), [0, 1, 0])
            self.assertEqual(list(file["test/labels"]), [1])
            self.assertEqual(list(file.attrs["class_names"]), [b"2", b"7"])

    def test_options_change_what_is_found(self):
        self.write("a.svm", "1 1:1\n2 2:1\n")
        options = ("--base", "0", "--columns", "9", "--task", "regression", "--output", "a.h5", "--compression", "3")
        said = self.succeed("data", "import", "libsvm", "a.svm", *options).out
        self.assertIn("9 columns, 1.0 values each, all of them 1; targets; index of the first column: 0", said)
        with h5py.File(self.folder / "a.h5", "r") as file:
            self.assertEqual(list(file["train/targets"]), [1, 2])
            self.assertEqual(list(file["train/features/indices"]), [1, 2])
            self.assertEqual(file["train/features/indices"].compression, "gzip")
        result = self.unisono("data", "import", "libsvm", "a.svm", "--output", "a.h5")
        self.assertEqual(result.code, 1, result)
        self.assertIn("add --overwrite", messages(result)[0])
        self.succeed("data", "import", "libsvm", "a.svm", "--output", "a.h5", "--overwrite")

    def test_a9a(self):
        train, test = needed("libsvm/a9a"), needed("libsvm/a9a.t")
        said = self.succeed("data", "import", "libsvm", train, "--test-file", test, "--output", "a9a.h5").out
        self.assertIn("32561 training, 0 validation and 16281 test examples of 123 columns, 13.9 values each", said)
        self.assertIn("all of them 1; 2 classes (-1, 1); index of the first column: 1", said)
        self.assertIn("24,720", self.succeed("data", "describe", "a9a.h5").out)


class Ratings(BinaryTest):
    def test_what_h5py_reads_is_the_text(self):
        self.write("r.csv", "userId,movieId,rating,timestamp\n7,Amélie,4.5,100\n3,Brazil,2,200\n7,Brazil,3,300\n")
        said = self.succeed("data", "import", "ratings", "r.csv", "--split", "leave_one_out", "--output", "r.h5").out
        self.assertEqual(
            said,
            "r.h5: 2 training, 0 validation and 1 test ratings of 2 items by 2 users, with times; "
            "columns separated by ',', header line 'userId,movieId,rating,timestamp'\n"
            "user: userId, item: movieId, rating: rating, time: timestamp\n",
        )
        with h5py.File(self.folder / "r.h5", "r") as file:
            users, items = names_in(file["dictionary/users"]), names_in(file["dictionary/items"])
            self.assertEqual((users, items), (["7", "3"], ["Amélie", "Brazil"]))
            train, test = file["train"], file["test"]
            types = [train[name].dtype for name in ("users", "items", "ratings", "times")]
            self.assertEqual(types, ["u4", "u4", "f4", "i8"])
            self.assertEqual(list(train["users"]), [0, 1])
            self.assertEqual(list(train["ratings"]), [4.5, 2])
            self.assertEqual((list(test["items"]), list(test["times"])), ([1], [300]))

    def test_every_separator_gives_the_same_set(self):
        rows = [(random.Random(i).randrange(9), i % 5, i % 4 + 0.5) for i in range(50)]
        sets = []
        for separator in ("::", "\t", ",", ";", " ", "   "):
            self.write("r", "\n".join(separator.join(map(str, row)) for row in rows))
            self.succeed("data", "import", "ratings", "r", "--test-fraction", "0.2", "--output", "r.h5", "--overwrite")
            with h5py.File(self.folder / "r.h5", "r") as file:
                parts = [f"{group}/{name}" for group in ("train", "test") for name in ("users", "ratings")]
                sets.append([list(file[part]) for part in parts])
        self.assertEqual(len(sets[0][0]), 40)
        for other in sets[1:]:
            self.assertEqual(other, sets[0])

    def test_libmf(self):
        lines = needed("libmf-demo/real_matrix.tr.txt")
        said = self.succeed("data", "import", "ratings", lines, "--output", "r.h5").out
        self.assertIn("5000 training, 0 validation and 0 test ratings", said)
        self.assertIn("columns separated by spaces, no header line", said)


def count_pairs(sentences, window):
    counts = collections.Counter()
    for sentence in sentences:
        for i, word in enumerate(sentence):
            for d in range(1, min(window, i) + 1):
                counts[sentence[i - d], word] += 1 / d
                counts[word, sentence[i - d]] += 1 / d
    return counts


class Text(BinaryTest):
    def import_words(self, *options):
        chance = random.Random(7)
        weights = [1 / rank for rank in range(1, 401)]
        self.sentences = [
            [f"w{number}" for number in chance.choices(range(400), weights, k=chance.randrange(400))]
            for _ in range(300)
        ]
        self.write("text.txt", "\n".join(" ".join(sentence) for sentence in self.sentences))
        return self.succeed("data", "import", "text", "text.txt", "--output", "text.h5", *options).out

    def test_what_h5py_reads_is_the_text_without_its_rare_words(self):
        said = self.import_words("--minimum-count", "20")
        counts = collections.Counter(word for sentence in self.sentences for word in sentence)
        kept = sorted((word for word in counts if counts[word] >= 20), key=lambda word: (-counts[word], word.encode()))
        self.assertIn(f"{len(kept)} of {len(counts)} distinct words kept", said)
        with h5py.File(self.folder / "text.h5", "r") as file:
            words, ends = file["train/words"][:], file["train/sentences"][:]
            self.assertEqual((words.dtype, ends.dtype), ("i4", "u8"))
            dictionary = names_in(file["dictionary/words"])
            self.assertEqual(dictionary, kept)
            self.assertEqual(list(file["dictionary/counts"]), [counts[word] for word in kept])
            expected = [[word for word in sentence if counts[word] >= 20] for sentence in self.sentences]
            found = [[dictionary[word] for word in words[a:b]] for a, b in zip(ends, ends[1:])]
            self.assertEqual(found, [sentence for sentence in expected if sentence])

    def test_a_folder_and_small_letters(self):
        self.write("texts/b/2.txt", "ÄPFEL Äpfel")
        self.write("texts/1.txt.gz", gzip.compress("äpfel\n".encode()))
        options = ("--lowercase", "--minimum-count", "1", "--sentence-length", "1", "--output", "t.h5")
        said = self.succeed("data", "import", "text", "texts", *options).out
        self.assertIn("3 training words in 3 sentences", said)
        with h5py.File(self.folder / "t.h5", "r") as file:
            self.assertEqual(names_in(file["dictionary/words"]), ["äpfel"])

    def test_co_occurrences_are_those_of_counting_every_pair_in_any_memory(self):
        self.import_words("--minimum-count", "1")
        runs = []
        for name, options in (("a.h5", ()), ("b.h5", ("--memory", "1MiB"))):
            said = self.succeed("data", "cooccurrences", "text.h5", "--window", "10", "--output", name, *options).out
            runs.append(int(said.split()[-2]))
        self.assertEqual(runs[0], 1)
        self.assertGreater(runs[1], 1)
        with h5py.File(self.folder / "a.h5", "r") as a, h5py.File(self.folder / "b.h5", "r") as b:
            for name in ("rows", "columns", "counts"):
                self.assertEqual(a["train/" + name][:].tobytes(), b["train/" + name][:].tobytes())
            words = names_in(a["dictionary/words"])
            entries = zip(a["train/rows"], a["train/columns"], a["train/counts"])
            counts = {(words[row], words[column]): float(count) for row, column, count in entries}
        expected = count_pairs(self.sentences, 10)
        self.assertEqual(counts.keys(), expected.keys())
        for pair, count in expected.items():
            self.assertAlmostEqual(counts[pair] / count, 1, delta=1e-6)

    def test_left_words_are_rows_where_the_count_is_not_symmetric(self):
        self.write("t.txt", "a b c")
        self.succeed("data", "import", "text", "t.txt", "--minimum-count", "1", "--output", "t.h5")
        self.succeed("data", "cooccurrences", "t.h5", "--symmetric", "no", "--output", "c.h5")
        with h5py.File(self.folder / "c.h5", "r") as file:
            entries = zip(file["train/rows"], file["train/columns"], file["train/counts"])
            self.assertEqual(sorted(entries), [(0, 1, 1), (0, 2, 0.5), (1, 2, 1)])


def gpt2_spelling():
    """The character that stands for each byte in GPT-2's files."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


class Tokens(BinaryTest):
    def import_tokens(self, *words):
        return self.succeed("data", "import", "tokens", *words, "--output", "t.h5", "--overwrite").out

    def tokens(self, group="train"):
        with h5py.File(self.folder / "t.h5", "r") as file:
            return list(file[group + "/tokens"])

    def test_characters_are_numbered_and_divided_as_nanogpt_does(self):
        text = needed("tinyshakespeare/input.txt").read_text()
        said = self.import_tokens(str(needed("tinyshakespeare/input.txt")), "--tokenizer", "characters",
                                  "--validation-fraction", "0.1")  # fmt: skip
        self.assertEqual(
            said,
            "t.h5: 1003854 training, 111540 validation and 0 test tokens in 1 document; tokenizer characters with 65 "
            "tokens, 1.00 bytes a token\n",
        )
        number = {character: i for i, character in enumerate(sorted(set(text)))}
        expected, cut = [number[character] for character in text], int(0.9 * len(text))
        self.assertEqual(self.tokens(), expected[:cut])
        self.assertEqual(self.tokens("validation"), expected[cut:])
        with h5py.File(self.folder / "t.h5", "r") as file:
            self.assertEqual(file["train/tokens"].dtype, "u2")
            self.assertIsNone(file["train/tokens"].chunks)
            self.assertEqual(file.attrs["vocabulary"], 65)
            self.assertEqual(names_in(file["tokenizer/vocabulary"]), sorted(set(text)))
        described = self.succeed("data", "describe", "t.h5").out
        self.assertIn("a text as numbers of 65 tokens, tokenizer characters", described)
        self.assertIn("beginning of train:\n  First Citizen:\\nBefore we proceed", described)

    def test_documents_are_closed_and_divided_as_a_whole(self):
        lines = [f"line {i}" for i in range(40)]
        self.write("t.txt", "\r\n".join(lines) + "\n\n")
        words = ("t.txt", "--documents", "lines", "--validation-fraction", "0.25", "--seed", "3")
        said = self.import_tokens(*words)
        self.assertIn("in 40 documents; tokenizer bytes with 257 tokens", said)
        found = {}
        with h5py.File(self.folder / "t.h5", "r") as file:
            for group in ("train", "validation"):
                tokens, ends = file[group + "/tokens"][:], file[group + "/documents"][:].astype("i8")
                self.assertTrue(all(tokens[end - 1] == 256 for end in ends[1:]))
                found[group] = [bytes(tokens[a : b - 1].astype("u1")).decode() for a, b in zip(ends, ends[1:])]
        self.assertEqual((len(found["train"]), len(found["validation"])), (30, 10))
        self.assertEqual(sorted(found["train"] + found["validation"]), sorted(lines))
        self.import_tokens("t.txt", "--document-separator", "line ", "--split", "end", "--test-fraction", "0.5")
        self.assertEqual(bytes(self.tokens()[:2]), b"0\r")

    def test_files_for_validation_and_testing(self):
        for name in ("a", "b", "c"):
            self.write(name + ".txt", name * 5)
        self.import_tokens("a.txt", "--validation-file", "b.txt", "--test-file", "c.txt", "--tokenizer", "characters")
        self.assertEqual([self.tokens(group) for group in ("train", "validation", "test")], [[0] * 5, [1] * 5, [2] * 5])

    def test_gpt2_files(self):
        merges = ["a b", "Ġ ab", "ab c"]
        tokens = gpt2_spelling() + [merge.replace(" ", "") for merge in merges] + ["<|endoftext|>"]
        self.write("vocab.json", json.dumps({token: i for i, token in enumerate(tokens)}))
        self.write("merges.txt", "#version: 0.2\n" + "\n".join(merges) + "\n")
        self.write("t.txt", "abc ab é")
        words = ("t.txt", "--tokenizer", "gpt2", "--vocabulary", "vocab.json", "--merges", "merges.txt")
        if "without it" in self.unisono("data", "import", "tokens", *words, "--output", "t.h5", "--overwrite").err:
            self.skipTest("this build lacks PCRE2")
        self.assertEqual(self.tokens(), [258, 257, ord(" "), 0xC3, 0xA9])
        self.import_tokens("t.txt", "t.txt", *words[1:])
        self.assertEqual(self.tokens().count(259), 2)

    def test_what_does_not_fit_is_refused(self):
        self.write("t.txt", b"abc\xff")
        self.write("e.txt", b"")
        cases = (
            (("t.txt", "--tokenizer", "characters"), 3, "t.txt: byte 4: the byte 0xFF is not part of a UTF-8"),
            (("e.txt",), 3, "e.txt: holds no text"),
            (("t.txt", "--tokenizer", "gpt2"), 2, "--vocabulary vocab.json --merges merges.txt"),
            (("t.txt", "--tokenizer", "sentencepiece"), 2, "--model FILE.model"),
            (("t.txt", "--model", "m"), 2, "--model is for --tokenizer sentencepiece"),
            (("t.txt", "--documents", "lines", "--document-separator", "x"), 2, "cannot be combined"),
            (("t.txt", "--document-separator", ""), 2, "--document-separator"),
            (("t.txt", "--test-file", ""), 2, "--test-file"),
            (("t.txt", "--validation-fraction", "1"), 2, "must be at least 0 and less than 1"),
            (("t.txt", "--test-file", "t.txt", "--test-fraction", "0.5"), 2, "cannot be combined"),
            (("t.txt", "--tokenizer-from", "no.h5"), 3, "no.h5"),
        )
        for words, code, message in cases:
            result = self.unisono("data", "import", "tokens", *words, "--output", "t.h5")
            self.assertEqual((result.code, message in result.err), (code, True), result.err)

    def test_a_set_by_h5py_is_described(self):
        with h5py.File(self.folder / "t.h5", "w") as file:
            file["train/tokens"] = numpy.array([1, 2, 1, 0], "u2")
            file.attrs["vocabulary"] = 3
        said = self.succeed("data", "describe", "t.h5").out
        self.assertIn("a text as numbers of 3 tokens, the file holds no tokenizer", said)
        self.assertIn("train: 4 tokens in 1 document, 3 of them different", said)


class TableImport(BinaryTest):
    def test_columns_and_what_is_to_be_predicted_are_said(self):
        for header, columns in (("x,y", "1 column"), ("x,z,y", "2 columns")):
            rows = "".join(",".join("123"[: header.count(",") + 1]) + "\n" for _ in range(3))
            self.write("table.csv", header + "\n" + rows)
            words = ("table.csv", "--target", "y", "--overwrite", "--output", "table.h5")
            said = self.succeed("data", "import", "csv", *words).out
            self.assertIn(f"table.h5: 3 training, 0 validation and 0 test examples of {columns}, with a target", said)
        said = self.succeed("data", "import", "csv", "table.csv", "--output", "unlabelled.h5").out
        self.assertIn("examples of 3 columns, no labels or targets", said)


class Documented(BinaryTest):
    def test_the_sets_that_the_docs_write_with_h5py_are_what_they_say(self):
        page = (pathlib.Path(os.environ["UNISONO_SOURCE"]) / "docs" / "data-format.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", page.split("## Sparse sets")[1], re.DOTALL)
        titles = {
            "sparse.h5": "sparse examples of 5,000 columns",
            "ratings.h5": "ratings of 30 items by 100 users",
            "text.h5": "text of 8 distinct words",
            "pairs.h5": "co-occurrences of 8 words",
            "tokens.h5": "a text as numbers of 256 tokens, tokenizer bytes",
        }
        self.assertEqual(len(blocks), len(titles))
        for block, (name, title) in zip(blocks, titles.items()):
            subprocess.run([sys.executable, "-c", block], cwd=self.folder, check=True)
            self.assertIn(title, self.succeed("data", "describe", name).out)
        self.succeed("data", "cooccurrences", "text.h5", "--output", "counted.h5")

    def test_sets_with_names_of_classes_and_labels_are_read_under_them(self):
        page = (pathlib.Path(os.environ["UNISONO_SOURCE"]) / "docs" / "data-format.md").read_text()
        for name, counts in (("animals.h5", r"0 cat +1 .*\n +1 dog +2 "), ("photos.h5", r"0 cat +2 .*\n +1 dog +1 ")):
            (block,) = (b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if name in b)
            subprocess.run([sys.executable, "-c", block], cwd=self.folder, check=True)
            self.assertRegex(self.succeed("data", "describe", name).out, counts)


if __name__ == "__main__":
    unittest.main()
