"""Data sets whose values are in other files: refused unless the config or an option allows them."""

import os
import unittest

import h5py
import numpy

from harness import CONFIG, BinaryTest, messages, settings

CONFIGURATION, DATA, CHECKPOINT = 2, 3, 4
ALLOWED = settings("data.external_files=true")


class ExternalFilesTest(BinaryTest):
    """The features of a set are in another file, in each of the ways that HDF5 has."""

    def make(self, kind):
        """A copy of the digits, "set.h5", whose training features are in "secret.h5" or "secret.raw"."""
        with h5py.File(self.digits) as digits:
            features = digits["train/features"][:]
            with h5py.File(self.folder / "secret.h5", "w") as secret:
                for name in ("train", "test"):
                    digits.copy(name, secret)
                secret["features"] = features
            features.tofile(self.folder / "secret.raw")
            with h5py.File(self.folder / "set.h5", "w") as file:
                for name in ("train", "test"):
                    digits.copy(name, file)
                for name, value in digits.attrs.items():
                    file.attrs[name] = value
                attributes = dict(file["train/features"].attrs)
                if kind == "all":
                    del file["train"], file["test"]
                elif kind in ("group", "soft"):
                    del file["train"]
                else:
                    del file["train/features"]
                self.refer(file, kind, features)
                if kind not in ("all", "group", "soft", "link"):
                    file["train/features"].attrs.update(attributes)

    def refer(self, file, kind, features):
        if kind == "link":
            file["train/features"] = h5py.ExternalLink("secret.h5", "/train/features")
        elif kind == "all":
            for name in ("train", "test"):
                file[name] = h5py.ExternalLink("secret.h5", name)
        elif kind == "group":
            file["train"] = h5py.ExternalLink("secret.h5", "/train")
        elif kind == "soft":
            file["elsewhere"] = h5py.ExternalLink("secret.h5", "/")
            file["train"] = h5py.SoftLink("/elsewhere/train")
        elif kind == "raw":
            place = str(self.folder / "secret.raw")
            external = [(place, 0, h5py.h5f.UNLIMITED)]
            file.create_dataset("train/features", features.shape, features.dtype, external=external)
        else:
            source = "secret.h5" if kind == "virtual" else "."
            name = "features" if kind == "virtual" else "linked/features"
            if kind == "virtual through a link":
                file["linked"] = h5py.ExternalLink("secret.h5", "/")
            layout = h5py.VirtualLayout(features.shape, features.dtype)
            layout[...] = h5py.VirtualSource(source, name, features.shape, features.dtype)
            file.create_virtual_dataset("train/features", layout)

    KINDS = ("link", "all", "group", "soft", "raw", "virtual", "virtual through a link")

    def test_they_are_refused(self):
        self.write("config.toml", CONFIG.replace("digits.h5", "set.h5"))
        for kind in self.KINDS:
            for words in (("train", "config.toml", "--output", "run"), ("data", "describe", "set.h5")):
                with self.subTest(kind=kind, words=words):
                    self.make(kind)
                    result = self.unisono(*words)
                    self.assertEqual(result.code, DATA, result)
                    told = r"set\.h5: /\S+ refers to the file '[^']*secret\.(h5|raw)', which is not read"
                    self.assertRegex(messages(result)[0], told)
                    self.assertFalse(os.path.exists(self.folder / "run/checkpoints"))

    def test_they_are_read_where_that_is_allowed(self):
        self.train("plain", "--set", "train.epochs=1")
        self.write("config.toml", CONFIG.replace("digits.h5", "set.h5"))
        for kind in self.KINDS:
            with self.subTest(kind=kind):
                self.make(kind)
                self.train(kind, "--set", "train.epochs=1", *ALLOWED)
                self.assert_same_bits(kind, "plain")
                self.succeed("data", "describe", "set.h5", "--external-files")

    def test_the_other_file_is_a_part_of_the_set(self):
        self.write("config.toml", CONFIG.replace("digits.h5", "set.h5"))
        for kind in ("link", "raw", "virtual"):
            with self.subTest(kind=kind):
                self.make(kind)
                self.train(kind, "--set", "train.epochs=1", *ALLOWED)
                # A byte of an image in the middle, which no sample of rows need see.
                if kind == "raw":
                    with open(self.folder / "secret.raw", "r+b") as file:
                        file.seek(100 * 784 + 300)
                        byte = file.read(1)
                        file.seek(-1, os.SEEK_CUR)
                        file.write(bytes([byte[0] ^ 1]))
                else:
                    with h5py.File(self.folder / "secret.h5", "r+") as file:
                        for name in ("features", "train/features"):
                            row = file[name][101]
                            file[name][101] = numpy.bitwise_xor(row, 1)
                words = ("train", "config.toml", "--output", kind, "--resume", *settings("train.epochs=2"), *ALLOWED)
                result = self.unisono(*words)
                self.assertNotEqual(result.code, 0, result)
                self.assertRegex(messages(result)[0], "different data from set.h5")


if __name__ == "__main__":
    unittest.main()
