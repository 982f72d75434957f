"""bench/word_quality.py, which judges other programs' vectors, against `unisono evaluate` on ours."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["UNISONO_SOURCE"]) / "bench"))
import word_quality

CONFIG = """
name = "words"
[data]
path = "text.h5"
[model]
kind = "word2vec"
dimension = 7
subsample = 0
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 1
[strategy]
kind = "serial"
"""


class AgainstOurs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        rng = np.random.default_rng(1)
        # 60 words, rare ones last; the last 20 of them are not among those that analogies are asked of.
        words = [f"w{n}" for n in np.minimum(rng.geometric(0.05, 20000), 60)]
        cls.write("text.txt", "\n".join(" ".join(words[i : i + 50]) for i in range(0, len(words), 50)))
        cls.write("config.toml", CONFIG)
        questions = [" ".join(f"W{n}" for n in rng.integers(1, 70, 4)) for _ in range(3000)]
        cls.write(
            "questions.txt", ": some\n" + "\n".join(questions[:1500]) + "\n: gram\n" + "\n".join(questions[1500:])
        )
        pairs = [f"w{a}\tW{b}\t{score}" for a, b, score in rng.integers(1, 70, (200, 3))]
        cls.write("pairs.txt", "\n".join(pairs) + "\n")
        cls.unisono("data", "import", "text", "text.txt", "--output", "text.h5")
        cls.unisono("train", "config.toml", "--output", "run")
        cls.unisono("export", "run", "--format", "word2vec-text", "--output", "vectors.txt")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def write(cls, name, text):
        (cls.folder / name).write_text(text)

    @classmethod
    def unisono(cls, *words):
        words = [os.environ["UNISONO"], *map(str, words)]
        return subprocess.run(words, cwd=cls.folder, check=True, text=True, capture_output=True).stdout

    def test_the_same_vectors_get_the_same_figures(self):
        words = ["--analogies", "questions.txt", "--words", "40", "--similarity", "pairs.txt"]
        ours = json.loads(self.unisono("evaluate", "run", *words, "--json"))
        command = [sys.executable, word_quality.__file__, "vectors.txt", "--set", "text.h5", *words]
        theirs = json.loads(subprocess.run(command, cwd=self.folder, check=True, capture_output=True).stdout)
        total = next(s for s in ours["analogies"][0]["sections"] if s["name"] == "total")
        self.assertGreater(total["right"], 0)
        self.assertAlmostEqual(theirs["analogies"], total["right"] / total["found"], delta=1.5 / total["found"])
        self.assertAlmostEqual(theirs["similarity"][0], ours["similarity"][0]["spearman"], places=3)

    def test_equal_values_share_their_ranks_mean(self):
        np.testing.assert_array_equal(word_quality.ranks([3, 1, 3, 2]), [3.5, 1, 3.5, 2])


if __name__ == "__main__":
    unittest.main()
