#!/usr/bin/env python3
"""scripts/fetch-data: uses a download only with its known checksum. A fake curl takes the place of the network."""
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from fakes import ROOT, ScriptTest


class FetchData(ScriptTest):
    def setUp(self):
        super().setUp()
        # The script works in the project's folder: a copy keeps its downloads apart.
        (self.folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/fetch-data", self.folder / "scripts/fetch-data")
        self.unisono = self.fake("unisono")

    def fetch(self, *sets):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "UNISONO": str(self.unisono)}
        return subprocess.run([self.folder / "scripts/fetch-data", *sets], capture_output=True, text=True, check=False,
                              timeout=60, env=environment)

    def fake_downloads(self, source):
        """curl --fail --location --retry 3 --output FILE URL"""
        self.fake("curl", f'cp "{source}/$(basename "$7")" "$6"')

    def test_a_download_with_another_checksum_is_refused_and_named(self):
        self.fake("curl", 'echo changed > "$6"')
        result = self.fetch("mnist")
        self.assertEqual(result.returncode, 1)
        self.assertIn("train-images-idx3-ubyte.gz does not have the checksum 440fcabf", result.stderr)
        self.assertEqual(self.calls("unisono"), [])
        self.assertFalse((self.folder / "data/download/mnist/train-images-idx3-ubyte.gz").exists())

    def test_a_failed_download_is_named(self):
        self.fake("curl", "exit 22")
        result = self.fetch("cifar10")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cifar-10-binary.tar.gz cannot be fetched", result.stderr)

    def test_an_unknown_set_is_refused_before_anything_is_fetched(self):
        self.fake("curl")
        result = self.fetch("mnist", "imagenet")
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no set 'imagenet'; choose from mnist, fashion-mnist, cifar10", result.stderr)
        self.assertEqual(self.calls("curl"), [])

    def test_a_missing_binary_is_named(self):
        self.unisono.unlink()
        self.assertIn("unisono is missing; build it first", self.fetch("mnist").stderr)

    @unittest.skipUnless("UNISONO_DATA" in os.environ, "UNISONO_DATA does not say where Fashion-MNIST is")
    def test_good_files_are_imported_and_not_fetched_again(self):
        self.fake_downloads(Path(os.environ["UNISONO_DATA"]) / "fashion-mnist")
        for _ in range(2):
            result = self.fetch("fashion-mnist")
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.calls("curl")), 4)
        self.assertEqual(self.calls("unisono"), 2 * [
            "unisono data import idx data/download/fashion-mnist --output data/fashion-mnist.h5"])

    def test_a_set_that_is_there_is_left_alone(self):
        (self.folder / "data").mkdir()
        (self.folder / "data/mnist.h5").touch()
        self.fake("curl")
        self.assertEqual(self.fetch("mnist").returncode, 0)
        self.assertEqual(self.calls("curl") + self.calls("unisono"), [])


if __name__ == "__main__":
    unittest.main()
