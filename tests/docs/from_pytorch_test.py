"""The page for readers who come from PyTorch: its commands and programs run, one after the other, and its table names
keys that exist. Where PyTorch or onnxruntime are not installed, only the commands run that need no result of theirs.

UNISONO=build/release/bin/unisono UNISONO_SOURCE=. python3 tests/docs/from_pytorch_test.py
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import unittest

import pages_test

PACKAGES = ("torch", "safetensors", "onnxruntime")
PAGE = (pages_test.SOURCE / "docs/from-pytorch.md").read_text()


class Page(unittest.TestCase):
    def run_examples(self, missing):
        """Returns what they have printed."""
        examples = pages_test.Examples(pathlib.Path())
        printed = ""
        for language, text in pages_test.blocks_of(PAGE):
            if language == "toml":
                examples.toml(text)
            elif language == "sh" and not (missing and re.search(r"tuned|\bnet\.toml", text)):
                printed += examples.sh(text)
            elif language == "python" and not missing:
                done = pages_test.run(sys.executable, "-c", text, env={**os.environ, "PYTHONPATH": "."})
                self.assertEqual(done.returncode, 0, f"{text}\n{done.stderr}")
                printed += done.stdout
        return printed

    def test_its_examples_run(self):
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        with tempfile.TemporaryDirectory(prefix="unisono-test-") as name, contextlib.chdir(name):
            pathlib.Path("configs").symlink_to(pages_test.SOURCE / "configs")
            printed = self.run_examples(missing)
            pages_test.Pages().check_tables(PAGE)
            self.assertTrue(pathlib.Path("lenet.onnx").exists() and pathlib.Path("lenet.py").exists())
            if missing:
                self.skipTest(f"its programs were left out, since these are not installed: {', '.join(missing)}")
            said = pages_test.run(pages_test.UNISONO, "evaluate", "runs/lenet", "--json").stdout
            own = float(re.search(r'"accuracy": ?([0-9.]+)', said)[1])
        accuracies = [float(number) for number in re.findall(r"^accuracy ([0-9.]+)$", printed, re.MULTILINE)]
        self.assertEqual(len(accuracies), 2)
        for accuracy in accuracies:
            self.assertAlmostEqual(accuracy, own, delta=1e-4)
        taken = re.findall(r"initialised from (\w+)\.safetensors .*: (\d+) of (\d+) tensors", printed)
        self.assertEqual(taken, [("tuned", "8", "8"), ("net", "8", "9")])  # 9: with num_batches_tracked


if __name__ == "__main__":
    unittest.main()
