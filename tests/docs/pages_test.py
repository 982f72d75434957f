"""The commands and programs of pages of the documentation, run one after the other in a folder, as a reader would. Of a
page whose programs need packages that are not installed, only the commands are run that need no result of theirs.

UNISONO_SOURCE=. UNISONO=build/release/bin/unisono python3 tests/docs/pages_test.py
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"]).resolve()
BINARY = pathlib.Path(os.environ["UNISONO"]).resolve()
BLOCK = re.compile(r"```(sh|python|toml)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\S+\.toml)\n")


class Pages(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "configs").symlink_to(SOURCE / "configs")

    def run_words(self, *words):
        path = f"{BINARY.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            words,
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=300,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(self.folder)},
        )
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def run_page(self, name, missing):
        """Returns what its programs have printed. missing: packages that are not installed."""
        printed = []
        for language, text in BLOCK.findall((SOURCE / "docs" / name).read_text()):
            if language == "toml":
                file = FILE.match(text)
                (self.folder / file[1]).write_text(text)
            elif language == "sh":
                if not missing or not re.search(r"tuned|\bnet\.toml", text):
                    printed.append(self.run_words("bash", "-euo", "pipefail", "-c", text))
            elif not missing:
                printed.append(self.run_words(sys.executable, "-c", text))
        return printed

    def test_from_pytorch(self):
        packages = ("torch", "safetensors", "onnxruntime")
        missing = [name for name in packages if importlib.util.find_spec(name) is None]
        printed = self.run_page("from-pytorch.md", missing)
        self.assertTrue((self.folder / "lenet.onnx").exists() and (self.folder / "lenet.py").exists())
        if missing:
            self.skipTest(f"its programs were left out, since these are not installed: {', '.join(missing)}")
        accuracies = [float(text.split()[1]) for text in printed if text.startswith("accuracy")]
        self.assertEqual(len(accuracies), 2)
        self.assertEqual(accuracies[0], accuracies[1])
        said = self.run_words(BINARY, "evaluate", "runs/lenet", "--json")
        self.assertAlmostEqual(accuracies[0], float(re.search(r'"accuracy": ?([0-9.]+)', said)[1]), delta=1e-4)
        taken = re.findall(r"initialised from (\w+)\.safetensors .*: (\d+) of (\d+) tensors", "".join(printed))
        self.assertEqual(taken, [("tuned", "8", "8"), ("net", "8", "9")])  # 9: with num_batches_tracked


if __name__ == "__main__":
    unittest.main()
