"""bench/generated.py: what it draws is a function of the seed, as described, and what unisono imports."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["UNISONO_SOURCE"]) / "bench"))
import generated


class Drawn(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def unisono(self, *words):
        words = [os.environ["UNISONO"], *map(str, words)]
        return subprocess.run(words, cwd=self.folder, check=True, text=True, capture_output=True).stdout


class Ratings(Drawn):
    SIZE = {"users": 200, "items": 100, "per_user": 20}

    def test_the_seed_decides(self):
        one, same, other = (generated.draw_ratings(**self.SIZE, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one[0], same[0])
        self.assertFalse(np.array_equal(one[0][2], other[0][2]))

    def test_every_user_rates_so_many_different_items_and_a_tenth_is_held_out(self):
        train, test = generated.draw_ratings(**self.SIZE)
        self.assertEqual((len(train[0]), len(test[0])), (3600, 400))
        users, items = (np.concatenate([train[i], test[i]]) for i in (0, 1))
        np.testing.assert_array_equal(np.bincount(users), 20)
        self.assertEqual(len(np.unique(users * 100 + items)), 4000)

    def test_stars_are_whole_numbers_of_users_with_20_to_700_different_items(self):
        train, test = generated.draw_stars()
        again, _ = generated.draw_stars()
        np.testing.assert_array_equal(train[2], again[2])
        users, items, stars = (np.concatenate(parts) for parts in zip(train, test))
        self.assertEqual(set(stars), {1, 2, 3, 4, 5})
        self.assertEqual(len(np.unique(users * 1682 + items)), len(users))
        counts = np.bincount(users)
        self.assertEqual(len(counts), 943)
        self.assertTrue(20 <= counts.min() and counts.max() <= 700)
        self.assertAlmostEqual(len(test[0]) / len(users), 0.2, places=3)
        self.assertAlmostEqual(stars.std(), 1.1, delta=0.05)

    def test_items_are_as_popular_as_zipf_says(self):
        train, _ = generated.draw_ratings(users=4000, items=1000, per_user=5)
        counts = np.sort(np.bincount(train[1], minlength=1000))[::-1]
        # Few of many: nearly as with replacement. Ranks 10 to 20 have ln 2 / ln 1000 of what 1 to 1000 have, or less.
        self.assertAlmostEqual(counts[10:20].sum() / counts.sum(), np.log(2) / (np.log(1000) + 0.58), delta=0.02)

    def test_unisono_imports_them(self):
        drawn = generated.draw_ratings(**self.SIZE)
        for name, part in zip(("train", "test"), drawn):
            generated.write_ratings(self.folder / f"{name}.txt", part)
        words = ("train.txt", "--test-file", "test.txt", "--split", "none", "--output", "ratings.h5")
        self.assertIn(
            "3600 training, 0 validation and 400 test ratings", self.unisono("data", "import", "ratings", *words)
        )


class Sparse(Drawn):
    SIZE = {"examples": 2000, "features": 5000, "mean_values": 20}

    def test_the_seed_decides(self):
        one, same, other = (generated.draw_sparse(**self.SIZE, seed=seed) for seed in (1, 1, 2))
        for mine, yours in zip(one, same):
            np.testing.assert_array_equal(mine, yours)
        self.assertFalse(np.array_equal(one[3], other[3]))

    def test_rows_ascend_and_have_length_1_and_both_classes_are_frequent(self):
        indptr, indices, values, labels = generated.draw_sparse(**self.SIZE)
        for begin, end in zip(indptr[:100], indptr[1:101]):
            row = slice(int(begin), int(end))
            self.assertTrue(np.all(np.diff(indices[row].astype("i8")) > 0))
            self.assertAlmostEqual(float(np.sum(values[row] ** 2)), 1, places=5)
        self.assertEqual(indptr[-1], len(indices))
        self.assertTrue(0.4 < labels.mean() < 0.6)

    def test_unisono_reads_them(self):
        generated.write_sparse(self.folder / "sparse.h5", generated.draw_sparse(**self.SIZE), self.SIZE["features"])
        said = self.unisono("data", "describe", "sparse.h5")
        self.assertIn("train: 1,800 examples", said)
        self.assertIn("of 5,000 columns", said)


if __name__ == "__main__":
    unittest.main()
