"""Tables and arrays as other programs write them: compressed, in several files, NumPy's, HDF5 of any layout, dates."""

import csv
import datetime
import gzip
import io
import re
import struct
import subprocess
import unittest
import zipfile
import zlib

import h5py
import numpy

from harness import BinaryTest, messages, network_of_table, without_sanitizer

ROWS = "x,y\n" + "".join(f"{i * 7 % 13}.5,{'ab'[i % 2]}\n" for i in range(60))


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


def npy(array, **options):
    file = io.BytesIO()
    numpy.lib.format.write_array(file, array, **options)
    return file.getvalue()


def npy_of(header, values=b""):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + values


def header_of(descr="'<f4'", fortran="False", shape="(2,)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def npz(arrays, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in arrays:
            archive.writestr(name, data if isinstance(data, bytes) else npy(data))
    return file.getvalue()


class TablesTest(BinaryTest):
    def imported(self, kind, *arguments):
        self.succeed("data", "import", kind, *arguments, "--output", "set.h5", "--overwrite")
        return self.contents("set.h5")

    def contents(self, name):
        with h5py.File(self.folder / name, "r") as file:
            return {
                f"{group}/{item}": file[group][item][()]
                for group in ("train", "validation", "test")
                if group in file
                for item in file[group]
            }

    def assert_same_set(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        for name in one:
            numpy.testing.assert_array_equal(one[name], other[name])

    def skip_without(self, library, *arguments):
        """Skips the test where this build cannot import what needs an optional library."""
        if "built without it" in self.unisono("data", "import", *arguments, "--output", "with.h5").err:
            self.skipTest(f"this build lacks {library}")

    def skip_without_zstd(self):
        self.write("with.csv.zst", zstd(ROWS.encode()))
        self.skip_without("zstd", "csv", "with.csv.zst")

    def refused(self, text, kind, *arguments, code=3):
        """An import that ends with one message, and leaves nothing behind."""
        before = sorted(self.folder.iterdir())
        result = self.unisono("data", "import", kind, *arguments, "--output", "refused.h5")
        self.assertEqual(result.code, code, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertRegex(messages(result)[0], text)
        self.assertEqual(sorted(self.folder.iterdir()), before)


class CompressedTables(TablesTest):
    def test_every_compression_gives_the_same_set(self):
        self.skip_without_zstd()
        text = ROWS.encode()
        self.write("a.csv", text)
        plain = self.imported("csv", "a.csv", "--label", "y")
        for name, data in {
            "a.csv.gz": gzip.compress(text),
            "b.csv.gz": gzip.compress(text[:99]) + gzip.compress(text[99:]) + b"\0" * 512,
            "a.csv.zst": zstd(text),
            "b.csv.zst": zstd(text[:99], "--check") + zstd(text[99:]),
            "named_otherwise": zstd(text),
            "c.csv.zst": struct.pack("<II", 0x184D2A50, 4) + b"size" + zstd(text),  # as pzstd writes it
        }.items():
            self.write(name, data)
            self.assert_same_set(plain, self.imported("csv", name, "--label", "y"))

    def test_damaged_compression_is_refused(self):
        self.skip_without_zstd()
        text = ROWS.encode()
        packed, frame = gzip.compress(text), zstd(text, "--check")
        for name, data, message in (
            ("truncated.csv.gz", packed[:-20], "unexpected end of file"),
            ("header.csv.gz", packed[:5], "unexpected end of file"),
            ("trailing.csv.gz", packed + b"and more", "something else follows the compressed data"),
            ("zeros.csv.gz", packed + b"\0\0x", "something else follows the compressed data"),
            ("checksum.csv.gz", packed[:-8] + bytes(4) + packed[-4:], "incorrect data check"),
            ("truncated.csv.zst", frame[:-9], "unexpected end of file"),
            ("checksum.csv.zst", frame[:-1] + bytes([frame[-1] ^ 1]), "checksum"),
            ("trailing.csv.zst", frame + b"and more", "Unknown frame descriptor"),
        ):
            self.write(name, data)
            self.refused(f"data error: {name}: cannot be read to its end: .*{message}", "csv", name, "--label", "y")
        self.write("window.csv.zst", b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")  # of 2 GiB
        self.refused("window.csv.zst: needs more than 128 MiB of memory to be unpacked", "csv", "window.csv.zst")

    @without_sanitizer("which needs more memory")
    def test_a_bomb_takes_no_memory(self):
        self.skip_without_zstd()
        self.write("bomb.csv.gz", gzip.compress(b"1" * (300 << 20)))
        self.write("bomb.csv.zst", zstd(b"1" * (300 << 20)))
        rows = b"x,y\n" + b"5,1\n6,2\n" * (8 << 20)
        self.write("long.csv.gz", gzip.compress(rows, 1))
        for name in ("bomb.csv.gz", "bomb.csv.zst"):
            self.limited(f"{name}:1: the line is longer than 64 MiB", "csv", name)
        result = self.unisono_in(450 << 10, "csv", "long.csv.gz", "--output", "long.h5")
        self.assertEqual(result.returncode, 0, result)

    def unisono_in(self, kibibytes, *arguments):
        words = f"ulimit -v {kibibytes}; exec \"$UNISONO\" data import " + " ".join(arguments)
        return subprocess.run(["bash", "-c", words], cwd=self.folder, capture_output=True, text=True)

    def limited(self, text, *arguments):
        result = self.unisono_in(700 << 10, *arguments, "--output", "refused.h5")
        self.assertEqual(result.returncode, 3, result)
        self.assertIn(text, result.stderr)


class SeveralFiles(TablesTest):
    def test_files_follow_each_other(self):
        lines = ROWS.splitlines(keepends=True)
        self.write("all.csv", ROWS)
        self.write("a.csv", "".join(lines[:20]))
        self.write("b.csv.gz", gzip.compress("".join([lines[0], *lines[20:40]]).encode()))
        self.write("c.csv", "\ufeff" + "".join([lines[0], *lines[40:]]).rstrip("\n"))
        options = ("--label", "y", "--validation-fraction", "0.2", "--test-fraction", "0.1", "--split", "class")
        whole = self.imported("csv", "all.csv", *options)
        self.assert_same_set(whole, self.imported("csv", "a.csv", "b.csv.gz", "c.csv", *options))
        for name, part in (("d.csv", lines[1:31]), ("e.csv", lines[31:])):
            self.write(name, "".join(part))
        self.assert_same_set(whole, self.imported("csv", "d.csv", "e.csv", *("--label", "2"), *options[2:]))

    def test_files_with_other_columns_are_refused(self):
        self.write("a.csv", "x,z,y\n1,2,a\n3,4,b\n")
        self.write("other.csv", "x,w,y\n1,2,a\n")
        self.write("none.csv", "5,6,a\n")
        self.write("more.csv", "x,z,q,y\n1,2,3,a\n")
        self.write("later.csv", "x,z,y\n1,2,a\n1,bad,b\n")
        self.write("empty.csv", "\n\n")
        self.write("latin1.csv", "x,ä,y\n1,2,a\n".encode("latin1"))
        for name, text in (
            ("other.csv", "other.csv:1: column 2 is named 'w', but 'z' in a.csv; all files of a table must"),
            ("none.csv", "none.csv:1: column 1 is named '5', but 'x' in a.csv"),
            ("more.csv", "more.csv:1: has 4 fields, but a.csv has 3; all files of a table must have the same columns"),
            ("later.csv", "later.csv:3: column 'z': 'bad' is not a number"),
            ("missing.csv", "missing.csv: there is no such file"),
            ("empty.csv", "empty.csv: is empty; leave this file out"),
            ("latin1.csv", "latin1.csv:1:3: the byte 0xE4 is not part of a UTF-8 character"),
        ):
            self.refused(f"data error: {text}", "csv", "a.csv", name, "--label", "y")
        self.refused("empty.csv: is empty; leave this file out", "csv", "empty.csv", "a.csv", "--label", "y")
        words = ("csv", "a.csv", "--test-file", "other.csv", "--label", "y")
        self.refused("other.csv:1: column 2 is named 'w', but 'z' in a.csv", *words)
        self.write("p.csv", "1,2\n3,4.5\n")
        self.write("q.csv", "1,2\n3,4,5\n")
        self.refused("data error: q.csv:2: has 3 fields, but p.csv has 2", "csv", "p.csv", "q.csv", "--header", "no")

    def test_tsv(self):
        self.write("a.tsv", "x\tname\ty\n1\tone, two\t3\n2\ttwo, three\t4\n")
        said = self.succeed("data", "import", "csv", "a.tsv", "--target", "y", "--output", "a.h5").out
        self.assertIn("columns separated by tabs", said)
        self.write("b.txt", "x#y\n1#2\n3#4\n")
        self.succeed("data", "import", "csv", "b.txt", "--target", "y", "--separator", "#", "--output", "b.h5")
        numpy.testing.assert_array_equal(self.contents("b.h5")["train/features"], [[1], [3]])


NUMBERS = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split()


class Npy(TablesTest):
    def test_every_type_and_order_is_read_as_numpy_reads_it(self):
        random = numpy.random.default_rng(1)
        for kind in NUMBERS:
            for order in "<>":
                for shape in ((6,), (6, 3), (6, 3, 2), (6, 2, 3, 2)):
                    values = random.integers(0, 2 if kind == "b1" else 100, shape)
                    if kind.startswith("i"):
                        values -= 50
                    array = values.astype(order + kind)
                    for layout in (numpy.ascontiguousarray, numpy.asfortranarray):
                        self.write("x.npy", npy(layout(array)))
                        read = self.imported("npy", "x.npy", "--layout", "chw")["train/features"]
                        self.assertEqual(read.dtype, "u1" if kind == "u1" else "f4")
                        numpy.testing.assert_array_equal(read, array.astype("f4").reshape(read.shape))

    def test_versions_of_the_format_and_compression(self):
        array = numpy.arange(6, dtype="f4").reshape(3, 2)
        for version in ((1, 0), (2, 0), (3, 0)):
            self.write("x.npy", npy(array, version=version))
            numpy.testing.assert_array_equal(self.imported("npy", "x.npy")["train/features"], array)
        self.write("x.npy.gz", gzip.compress(npy(array)))
        numpy.testing.assert_array_equal(self.imported("npy", "x.npy.gz")["train/features"], array)

    def test_labels_are_numbered_and_targets_kept(self):
        x = numpy.arange(40, dtype="i8").reshape(20, 2)
        labels = numpy.array([7, -1, 30, 7] * 5, "i2")
        self.write("x.npy", npy(x))
        self.write("l.npy", npy(labels))
        self.write("t.npy", npy(labels[:, None] / 4))
        got = self.imported("npy", "x.npy", "--labels", "l.npy")
        self.assertEqual(list(got["train/labels"][:4]), [1, 0, 2, 1])
        with h5py.File(self.folder / "set.h5") as file:
            self.assertEqual(list(file.attrs["class_names"]), [b"-1", b"7", b"30"])
        got = self.imported("npy", "x.npy", "--targets", "t.npy")
        numpy.testing.assert_array_equal(got["train/targets"], labels / 4)
        got = self.imported("npy", "x.npy", "--labels", "l.npy", "--task", "regression")
        self.assertEqual(list(got["train/targets"]), list(labels))

    def test_files_follow_each_other_and_are_divided(self):
        x, y = numpy.arange(80, dtype="f8").reshape(40, 2), numpy.arange(40) % 4
        for i, part in enumerate((slice(0, 10), slice(10, 40))):
            self.write(f"x{i}.npy", npy(x[part]))
            self.write(f"y{i}.npy", npy(y[part]))
        self.write("x.npy", npy(x))
        self.write("y.npy", npy(y))
        fractions = ("--validation-fraction", "0.2", "--test-fraction", "0.1")
        for options in (fractions, ("--split", "class", "--validation-fraction", "0.2", "--test-fraction", "0.2")):
            whole = self.imported("npy", "x.npy", "--labels", "y.npy", *options)
            parts = self.imported("npy", "x0.npy", "x1.npy", "--labels", "y0.npy", "--labels", "y1.npy", *options)
            self.assert_same_set(whole, parts)
            seen = numpy.concatenate([whole[f"{group}/features"] for group in ("train", "validation", "test")])
            numpy.testing.assert_array_equal(seen[numpy.argsort(seen[:, 0])], x)
            for group in ("train", "validation", "test"):
                numpy.testing.assert_array_equal(whole[f"{group}/labels"], whole[f"{group}/features"][:, 0] // 2 % 4)
        test = ("--test-features", "x1.npy", "--test-labels", "y1.npy")
        got = self.imported("npy", "x0.npy", "--labels", "y0.npy", *test)
        numpy.testing.assert_array_equal(got["test/features"], x[10:])

    def test_bytes_of_images_stand_for_0_to_1(self):
        self.write("x.npy", npy(numpy.zeros((3, 4, 5), "u1")))
        self.imported("npy", "x.npy")
        with h5py.File(self.folder / "set.h5") as file:
            self.assertAlmostEqual(file["train/features"].attrs["scale"], 1 / 255)
        self.write("x.npy", npy(numpy.zeros((3, 4), "u1")))
        self.imported("npy", "x.npy")
        with h5py.File(self.folder / "set.h5") as file:
            self.assertNotIn("scale", file["train/features"].attrs)

    def test_bad_arrays_are_refused(self):
        good = npy(numpy.zeros((2, 2), "f4"))
        big = header_of(shape="(9223372036854775808, 2)")
        for name, data, text in (
            ("cut", good[:-3], "announces values of 4 bytes each in the shape .2, 2., but 13 bytes follow"),
            ("more", good + b"x", "announces values .* but 17 bytes follow"),
            ("header", good[:40], "ends inside its header"),
            ("front", good[:7], "ends inside its header"),
            ("empty", b"", "is not a .npy file"),
            ("text", b"1,2,3\n", "is not a .npy file"),
            ("long", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 99, "has a header of 4294967295 bytes"),
            ("huge", npy_of(big), "impossible shape"),
            ("overflow", npy_of(header_of(shape="(4294967296, 4294967296, 16)")), "announces values"),
            ("claims", npy_of(header_of(shape="(1000000000, 1000)")), "announces values .* but 0 bytes follow"),
            ("objects", npy(numpy.array([{}, []], object)), "values of type '.O', but only"),
            ("strings", npy(numpy.array(["a", "b"])), "values of type '<U1', but only"),
            ("complex", npy(numpy.zeros(3, "c8")), "values of type '<c8', but only"),
            ("long_double", npy(numpy.zeros(3, "g")), "values of type '<f16', but only"),
            ("dates", npy(numpy.zeros(3, "M8[D]")), "values of type '<M8.D.', but only"),
            ("structured", npy(numpy.zeros(3, "f4,i2")), "holds records of several fields"),
            ("version", b"\x93NUMPY\x09" + good[7:], "is written in version 9 of the format"),
            ("no_order", npy_of("{'descr': '<f4', 'shape': (2,)}\n", bytes(8)), "no valid 'fortran_order'"),
            ("scalar", npy(numpy.array(5.0)), "is a single number"),
            ("axes", npy(numpy.zeros((2, 1, 1, 1, 1))), "has 5 axes"),
            ("nothing", npy(numpy.zeros((0, 3))), "has no values: its shape is .0, 3."),
            ("nan", npy(numpy.array([[1, 2], [3, numpy.nan]])), "row 1: the value is missing .NaN.; replace it"),
            ("inf", npy(numpy.array([[1, 2], [3, -numpy.inf]])), "row 1: -inf is not a number in the range of float32"),
            ("large", npy(numpy.array([[1e300], [2]])), "row 0: 1e.300 is not a number in the range of float32"),
            ("near", npy(numpy.array([1700000001, 1700000002])), "differ too little for float32"),
        ):
            self.write(f"{name}.npy", data)
            self.refused(f"data error: {name}.npy: .*{text}", "npy", f"{name}.npy")
        self.write("cut.npy.gz", gzip.compress(good[:-3]))
        self.refused("cut.npy.gz: ends before its last value", "npy", "cut.npy.gz")
        self.write("more.npy.gz", gzip.compress(good + b"x"))
        self.refused("more.npy.gz: has more bytes than its header announces", "npy", "more.npy.gz")
        self.refused("none.npy: there is no such file", "npy", "none.npy")

    def test_arrays_that_do_not_fit_are_refused(self):
        self.write("x.npy", npy(numpy.zeros((4, 2), "f4")))
        self.write("bytes.npy", npy(numpy.zeros((4, 2), "u1")))
        self.write("wide.npy", npy(numpy.zeros((4, 3), "f4")))
        self.write("short.npy", npy(numpy.zeros(3, "i4")))
        self.write("y.npy", npy(numpy.arange(4)))
        self.write("half.npy", npy(numpy.arange(4) + 0.5))
        self.write("nan.npy", npy(numpy.array([0, 1, numpy.nan, 1])))
        self.write("many.npy", npy(numpy.arange(1500)))
        self.write("xs.npy", npy(numpy.zeros((1500, 1), "f4")))
        x = ("npy", "x.npy")
        self.refused("wide.npy: has rows of the shape .3., but those of x.npy have .2.", *x, "wide.npy")
        self.refused("short.npy: has 3 rows, but x.npy has 4", *x, "--labels", "short.npy")
        self.refused("wide.npy: has rows of 3 values, but an example has one label", *x, "--labels", "wide.npy")
        self.refused("half.npy: row 0: the label 0.5 is not a whole number", *x, "--labels", "half.npy")
        self.refused("nan.npy: row 2: the value is missing .NaN.", *x, "--labels", "nan.npy")
        self.refused("many.npy: row 1000: 1000 is distinct label number 1001", "npy", "xs.npy", "--labels", "many.npy")
        test = ("--test-features", "wide.npy", "--test-labels", "y.npy")
        self.refused("wide.npy: has rows of the shape .3.", *x, "--labels", "y.npy", *test)
        self.refused("bytes.npy: holds bytes", *x, "--test-features", "bytes.npy")
        self.refused("bytes.npy: holds bytes .uint8., but x.npy does not", *x, "bytes.npy")
        self.refused("x.npy: holds other numbers than bytes .uint8.", "npy", "bytes.npy", "x.npy")
        for text, options in (
            ("--labels and --targets cannot be combined", ("--labels", "y.npy", "--targets", "y.npy")),
            ("--labels and --test-labels must be given together", ("--labels", "y.npy", "--test-features", "x.npy")),
            ("--test-labels and --test-targets need --test-features", ("--labels", "y.npy", "--test-labels", "y.npy")),
            ("--split class needs --labels", ("--split", "class")),
            ("--split must be random or class", ("--split", "time")),
            ("--task says what the array of --labels holds", ("--task", "classes")),
        ):
            self.refused(f"config error: {text}", *x, *options, code=2)
        self.write("150.npy", npy(numpy.arange(1500) % 150))
        words = ("npy", "xs.npy", "--labels", "150.npy")
        self.refused("the labels are 150 different numbers: add --task", *words, code=2)
        self.imported(*words, "--task", "classes")


class Npz(TablesTest):
    def setUp(self):
        super().setUp()
        self.write("with.npz", npz([("x.npy", numpy.zeros((2, 2)))]))
        self.skip_without("minizip", "npz", "with.npz", "--features", "x")

    def test_stored_and_deflated_archives(self):
        x, y = numpy.random.default_rng(1).normal(size=(50, 3)), numpy.arange(50) % 3
        for save in (numpy.savez, numpy.savez_compressed):
            save(self.folder / "a.npz", x_train=x, y_train=y, x_test=x[:5], y_test=y[:5])
            options = ("--features", "x_train", "--labels", "y_train", "--test-features", "x_test")
            got = self.imported("npz", "a.npz", *options, "--test-labels", "y_test")
            numpy.testing.assert_array_equal(got["train/features"], x.astype("f4"))
            numpy.testing.assert_array_equal(got["train/labels"], y)
            numpy.testing.assert_array_equal(got["test/features"], x[:5].astype("f4"))
            got = self.imported("npz", "a.npz", "a.npz", "--features", "x_train", "--labels", "y_train")
            numpy.testing.assert_array_equal(got["train/labels"], numpy.concatenate([y, y]))

    def test_bad_archives_are_refused(self):
        x = numpy.zeros((200, 2), "f4")
        good = npz([("x.npy", x), ("y.npy", numpy.zeros(200, "i4"))])
        stored = npz([("x.npy", x)], zipfile.ZIP_STORED)
        encrypted = bytearray(good)
        for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            encrypted[encrypted.find(signature) + place] |= 1
        damaged = bytearray(stored)
        damaged[stored.find(bytes(100)) + 50] ^= 1
        lying = bytearray(npz([("x.npy", npy_of(header_of(shape="(1000000000, 1000)")))]))
        at = lying.find(b"PK\x01\x02") + 24
        lying[at : at + 4] = struct.pack("<I", 4000000000)
        with self.assertWarns(UserWarning):
            twice = npz([("x.npy", x), ("x.npy", x)])
        for name, data, text in (
            ("text", b"x,y\n1,2\n", "text.npz: is no zip file"),
            ("empty", b"", "empty.npz: is no zip file"),
            ("truncated", good[:-60], "truncated.npz: is no zip file"),
            ("encrypted", bytes(encrypted), "encrypted.npz/x.npy: is encrypted"),
            ("damaged", bytes(damaged), "damaged.npz/x.npy: is damaged: its checksum does not match"),
            ("twice", twice, "twice.npz: has two entries named 'x.npy'"),
            ("lying", bytes(lying), "lying.npz/x.npy: announces more bytes than it can hold"),
            ("method", npz([("x.npy", x)], zipfile.ZIP_LZMA), "method.npz/x.npy: is compressed with method 14"),
            ("cut", npz([("x.npy", npy(x)[:-8])]), "cut.npz/x.npy: its header announces .* but 1,592 bytes follow"),
            ("objects", npz([("x.npy", npy(numpy.array([{}], object)))]), "objects.npz/x.npy: holds values of type"),
            ("no_array", npz([("x.npy", b"hello")]), "no_array.npz/x.npy: is not a .npy file"),
        ):
            self.write(f"{name}.npz", data)
            self.refused(f"data error: {text}", "npz", f"{name}.npz", "--features", "x")
        self.write("good.npz", good)
        words = ("npz", "good.npz", "--features")
        self.refused("good.npz: holds no array 'X'; it holds x, y", *words, "X", code=2)
        self.refused("good.npz: holds no array 'x.npy'", *words, "x.npy", code=2)
        self.write("none.npz", npz([("readme.txt", b"hello")]))
        self.refused("holds no array 'x'; it holds none", "npz", "none.npz", "--features", "x", code=2)

    @without_sanitizer("which needs more memory")
    def test_a_bomb_takes_no_memory(self):
        header = npy_of(header_of("'|u1'", "True", "(400, 1000000)"))
        self.write("bomb.npz", npz([("x.npy", header + bytes(400000000))]))
        words = "ulimit -v 400000; exec \"$UNISONO\" data import npz bomb.npz --features x --output refused.h5"
        result = subprocess.run(["bash", "-c", words], cwd=self.folder, capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0, result)
        self.assertIn("memory", result.stderr)
        self.assertFalse((self.folder / "refused.h5").exists())
        header = npy_of(header_of("'|u1'", "False", "(400, 1000000)"))
        self.write("bomb.npz", npz([("x.npy", header + bytes(400000000))]))
        result = subprocess.run(["bash", "-c", words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result)


class Hdf5(TablesTest):
    def make(self, **datasets):
        with h5py.File(self.folder / "a.h5", "w") as file:
            for name, data in datasets.items():
                file[name.replace("__", "/")] = data

    def test_every_type_is_read(self):
        for kind in NUMBERS[1:]:
            for order in "<>":
                x = numpy.arange(24).astype(order + kind).reshape(4, 3, 2)
                self.make(deep__X=x, y=numpy.arange(4, dtype=order + "i2"))
                got = self.imported("hdf5", "a.h5", "--features", "/deep/X", "--labels", "y")
                numpy.testing.assert_array_equal(got["train/features"], x.astype("f4"))
                self.assertEqual(list(got["train/labels"]), [0, 1, 2, 3])

    def test_chunks_and_test_groups(self):
        x = numpy.random.default_rng(1).normal(size=(500, 2, 4, 3)).astype("f4")
        with h5py.File(self.folder / "a.h5", "w") as file:
            file.create_dataset("X", data=x, chunks=(7, 1, 4, 2), compression="gzip", shuffle=True)
            file.create_dataset("y", data=numpy.arange(500) / 8, chunks=(90,), fletcher32=True)
        options = ("--features", "/X", "--targets", "/y", "--test-features", "/X", "--test-targets", "/y")
        got = self.imported("hdf5", "a.h5", *options)
        for group in ("train", "test"):
            numpy.testing.assert_array_equal(got[f"{group}/features"], x)
            numpy.testing.assert_array_equal(got[f"{group}/targets"], numpy.arange(500) / 8)

    def test_bad_files_are_refused(self):
        self.make(X=numpy.zeros((4, 2)), y=numpy.arange(3), words=["a", "b", "c", "d"], g__Z=numpy.zeros(4),
                  flags=numpy.zeros(4, bool), one=5.0, pairs=numpy.zeros(4, "f4,i2"))
        words = ("hdf5", "a.h5", "--features")
        for name, text, code in (
            ("/x", "a.h5: holds no array '/x'; it holds /X, .*; is it '/X'", 2),
            ("/g", "a.h5: holds no array '/g'; it holds .*/g/Z", 2),
            ("/", "a.h5: holds no array '/'", 2),
            ("words", "a.h5: /words holds text", 3),
            ("flags", "a.h5: /flags holds values that are neither integers nor floats", 3),
            ("pairs", "a.h5: /pairs holds values that are neither", 3),
            ("one", "a.h5: /one is a single value", 3),
        ):
            self.refused(text, *words, name, code=code)
        self.refused("a.h5: /y: has 3 rows, but a.h5: /X has 4", *words, "X", "--labels", "y")
        with h5py.File(self.folder / "a.h5", "a") as file:  # groups without end
            for i in range(20):
                file[f"g/loop{i}"] = file["g"]
            file["gone"] = h5py.SoftLink("/nothing")
        self.refused("a.h5: holds no array '/Y'; it holds /X", *words, "/Y", code=2)
        self.refused("a.h5: /gone cannot be opened", *words, "/gone")
        self.write("b.h5", "no HDF5")
        self.refused("b.h5: this is not an HDF5 file", "hdf5", "b.h5", "--features", "X")
        data = (self.folder / "a.h5").read_bytes()
        self.write("c.h5", data[: len(data) // 2])
        self.refused("c.h5: .*(truncated|damaged)", "hdf5", "c.h5", "--features", "X")
        with h5py.File(self.folder / "d.h5", "w") as file:
            file["X"] = h5py.ExternalLink("a.h5", "/X")
        self.refused("d.h5: /X refers to the file 'a.h5', which is not read", "hdf5", "d.h5", "--features", "X")
        with h5py.File(self.folder / "e.h5", "w") as file:
            file.create_dataset("X", (100, 2), "f4", chunks=(10, 2))[:50] = 1
        self.refused("e.h5: /X was not written to its end", "hdf5", "e.h5", "--features", "X")


class Dates(TablesTest):
    def test_dates_become_features(self):
        self.write("a.csv", "when,y\n2024-02-29,1\n1969-12-31T12:30:00Z,2\n2000-01-01 06:00,3\n")
        options = ("--dates", "when", "--target", "y", "--scale", "none")
        said = self.succeed("data", "import", "csv", "a.csv", *options, "--output", "set.h5").out
        features = ", ".join(f"when.{part}" for part in ("year", "month", "weekday", "days", "hour"))
        self.assertIn(f"  when  date      1969-12-31 to 2024-02-29: {features}\n", said)
        got = self.contents("set.h5")["train/features"]
        expected = [[2024, 2, 4, 19782, 0], [1969, 12, 3, -1, 12.5], [2000, 1, 6, 10957, 6]]
        numpy.testing.assert_array_equal(got, expected)
        for row, text in zip(got, ("2024-02-29", "1969-12-31", "2000-01-01")):
            day = datetime.date.fromisoformat(text)
            days = (day - datetime.date(1970, 1, 1)).days
            self.assertEqual(list(row[:4]), [day.year, day.month, day.isoweekday(), days])

    def test_other_orders_are_read_where_they_are_asked_for(self):
        for order, text in (("dmy", "01/03/2024"), ("dmy", "1.3.2024"), ("mdy", "03/01/2024")):
            self.write("a.csv", f"d,y\n{text},1\n{text},2\n")
            got = self.imported("csv", "a.csv", "--dates", "d", "--date-format", order, "--target", "y")
            self.assertEqual(list(got["train/features"][0]), [2024, 3, 5, 19783])

    def test_bad_dates_are_refused(self):
        for text, options in (
            ("2024-02-30", ()),
            ("01/03/2024", ()),
            ("19782", ()),
            ("yesterday", ()),
            ("2024-02-29 25:00", ()),
            ("31/12/24", ("--date-format", "dmy")),
            ("12/31/2024", ("--date-format", "dmy")),
            ("2024-02-29", ("--date-format", "dmy")),
            ("31.11.2024", ("--date-format", "dmy")),
            ("+1/2/2024", ("--date-format", "dmy")),
            ("1/ 2/2024", ("--date-format", "dmy")),
            ("1/2/20245", ("--date-format", "dmy")),
            ("1/2-2024", ("--date-format", "dmy")),
            ("1/2/2024 12:30 PM", ("--date-format", "mdy")),
        ):
            self.write("a.csv", f"d,y\n{'01/01/2000' if options else '2024-02-29'},1\n{text},2\n")
            words = ("csv", "a.csv", "--dates", "d", "--target", "y", *options)
            self.refused(f"data error: a.csv:3: column 'd': '{re.escape(text)}' is not a date like", *words)
        self.write("a.csv", "d,y\n2024-02-29T12:00:00+02:00,1\n")
        self.refused("12:00:00.02:00' has a time zone; .* without naming it$", "csv", "a.csv", "--dates", "d")
        words = ("csv", "a.csv", "--date-format", "dmy")
        self.refused("--date-format says how columns of dates are written", *words, code=2)
        self.write("a.csv", "d,y\n2024-02-29,1\n,2\n")
        words = ("csv", "a.csv", "--dates", "d", "--target", "y")
        self.refused("a.csv:3: column 'd': the value is missing", *words)
        got = self.imported(*words, "--missing", "mean")
        self.assertTrue(numpy.isnan(got["train/features"][1]).all())
        self.refused("--dates 'e': there is no such column", "csv", "a.csv", "--dates", "e", code=2)
        both = ("--dates", "y", "--target", "y")
        self.refused("--dates and --target both name column 'y'", "csv", "a.csv", *both, code=2)
        self.write("a.csv", "d,d.year,y\n2024-02-29,1,2\n2024-02-28,2,3\n")
        self.refused("two columns are named 'd.year'", *words)

    def test_a_model_makes_the_same_features_of_a_raw_file(self):
        days = [datetime.date(2023, 1, 1) + datetime.timedelta(days=9 * i) for i in range(80)]
        rows = [(f"{day:%d/%m/%Y}", i % 7, day.month > 6) for i, day in enumerate(days)]
        self.write("a.csv", "day,x,late\n" + "".join(f"{d},{x},{late}\n" for d, x, late in rows))
        self.imported("csv", "a.csv", "--dates", "day", "--date-format", "dmy", "--label", "late", "--missing", "mean")
        self.write("config.toml", network_of_table(8).format(loss="softmax_cross_entropy", units=2))
        self.train("run")
        self.write("new.csv", "x,day\n" + "".join(f"{x},{d}\n" for d, x, _ in rows))
        self.succeed("predict", "run", "--input", "new.csv", "--output", "raw.csv")
        self.succeed("predict", "run", "--data", "set.h5", "--split", "train", "--output", "set.csv")
        tables = []
        for name in ("raw.csv", "set.csv"):
            with open(self.folder / name, newline="") as file:
                tables.append([(row["p0"], row["p1"]) for row in csv.DictReader(file)])
        self.assertEqual(len(tables[0]), 80)
        self.assertEqual(*tables)
        self.succeed("predict", "run", "--input", "new.csv", "--keep", "day", "--output", "kept.csv")
        self.write("bad.csv", "x,day\n1,2024-01-01\n")
        result = self.unisono("predict", "run", "--input", "bad.csv", "--output", "b.csv")
        self.assertEqual(result.code, 3, result)
        self.assertIn("bad.csv:2: column 'day': '2024-01-01' is not a date like 31/12/2024", result.err)
        self.write("bad.csv", "x\n1\n")
        result = self.unisono("predict", "run", "--input", "bad.csv", "--output", "b.csv")
        self.assertIn("bad.csv: has no column 'day', which the model was trained on", result.err)
        self.write("missing.csv", "x,day\n1,\n")
        self.succeed("predict", "run", "--input", "missing.csv", "--output", "m.csv")


class Training(TablesTest):
    def test_a_network_trains_on_arrays_and_predicts_from_them(self):
        random = numpy.random.default_rng(1)
        x = random.normal(size=(200, 4))
        self.write("x.npy", npy(x))
        self.write("y.npy", npy((x[:, 0] > 0).astype("i4")))
        self.imported("npy", "x.npy", "--labels", "y.npy", "--test-fraction", "0.2")
        self.write("config.toml", network_of_table(8).format(loss="softmax_cross_entropy", units=2))
        self.train("run", "--set", "train.epochs=30")
        self.assertGreater(self.summary("run")["test"]["accuracy"], 0.9)
        self.succeed("predict", "run", "--input", "x.npy", "--output", "p.csv")
        self.assertEqual(len((self.folder / "p.csv").read_text().splitlines()), 201)


if __name__ == "__main__":
    unittest.main()
