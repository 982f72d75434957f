"""Matrix factorization on ratings as users have them: configs/ratings.toml is good as it is shipped."""

import json
import os
import pathlib
import sys
import unittest

import h5py
import numpy

from harness import BinaryTest

ROOT = pathlib.Path(os.environ.get("UNISONO_SOURCE", pathlib.Path(__file__).parents[2]))
BEST_LIBMF, BEST_STARS = 0.9134, 0.8843
SHIPPED = ROOT / "configs" / "ratings.toml"
sys.path.insert(0, str(ROOT / "bench"))

import generated  # noqa: E402


class Ratings(BinaryTest):
    def imported(self, train, test):
        words = ("data", "import", "ratings", train, "--test-file", test, "--split", "none", "--output", "ratings.h5")
        self.succeed(*words)

    def write_generated(self, drawn):
        for name, ratings in zip(("train.txt", "test.txt"), drawn):
            generated.write_ratings(self.folder / name, ratings)
        self.imported("train.txt", "test.txt")

    def rmse_on_test(self, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        self.train("run", "--set", "data.path=ratings.h5", "--overwrite", *words, config=SHIPPED)
        return self.summary("run")["test"]["rmse"]


class ShippedConfig(Ratings):
    """The figures are the best of bench/tune-ratings' grid of 30 settings, chosen on a validation split."""

    def test_on_the_real_ratings_of_libmf(self):
        folder = pathlib.Path(os.environ.get("UNISONO_DATA", "/nowhere")) / "libmf-demo"
        if not folder.exists():
            self.skipTest("UNISONO_DATA names no folder with libmf-demo")
        self.imported(folder / "real_matrix.tr.txt", folder / "real_matrix.te.txt")
        self.assertLess(self.rmse_on_test(), 1.01 * BEST_LIBMF)

    def test_on_drawn_stars_like_those_of_movielens(self):
        self.write_generated(generated.draw_stars())
        self.assertLess(self.rmse_on_test(), 1.01 * BEST_STARS)


class PenaltiesOfRows(Ratings):
    def test_ranks_and_threads_agree_bit_for_bit(self):
        self.write_generated(generated.draw_ratings(users=300, items=200, per_user=50))
        settings = ("model.l2_per=user_and_item", "train.epochs=3", "model.dimension=8", "strategy.kind=stratified")
        words = [word for setting in settings for word in ("--set", setting)]
        for run, ranks, threads in (("one", 0, 1), ("threads", 0, 2), ("ranks", 2, 1)):
            threads_of = ("--set", f"strategy.threads={threads}")
            self.train(run, "--set", "data.path=ratings.h5", *words, *threads_of, config=SHIPPED, ranks=ranks)
        self.assert_same_bits("one", "threads")
        self.assert_same_bits("one", "ranks")
        with h5py.File(self.folder / "ratings.h5", "r") as file:
            counts = numpy.bincount(file["train/users"][()], minlength=300)
        own = self.vectors("one")["parameters/users.l2"]
        l2 = float(own[0] * counts[0])
        numpy.testing.assert_allclose(own * counts, l2, rtol=1e-6)

    def test_ratings_that_validate_are_not_counted(self):
        self.write_generated(generated.draw_ratings(users=300, items=200, per_user=50))
        settings = ("data.path=ratings.h5", "data.validation_fraction=0.2", "train.epochs=1", "model.user_l2=1")
        for order in ("true", "false"):
            words = [word for setting in (*settings, f"data.shuffle={order}") for word in ("--set", setting)]
            self.train("run", "--overwrite", *words, "--set", "model.l2_per=user_and_item", config=SHIPPED)
            own = self.vectors("run")["parameters/users.l2"]
            with h5py.File(self.folder / "ratings.h5", "r") as file:
                ratings = len(file["train/users"])
            self.assertEqual(round(float((1 / own).sum())), ratings - round(0.2 * ratings))


if __name__ == "__main__":
    unittest.main()
