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
        self.succeed(*words, "--overwrite")

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


class Unknown(Ratings):
    """Test ratings of users and items that have no training ratings."""

    def trained(self, test, *settings):
        self.write("train.txt", "".join(f"u{i % 7} i{i % 5} {1 + i % 5}\n" for i in range(35)))
        self.write("test.txt", test)
        self.imported("train.txt", "test.txt")
        words = [word for setting in settings for word in ("--set", setting)]
        return self.train("run", "--set", "data.path=ratings.h5", "--overwrite", *words, config=SHIPPED)

    def test_they_are_said_and_counted(self):
        result = self.trained("u1 i1 3\nnew i1 3\nu1 other 4\nnew other 5\n")
        said = "of 4 test ratings, 2 are of users without training ratings, 2 of such items, 1 of both"
        self.assertIn(f"warning: ratings.h5: {said}", result.out + result.err)
        self.assertIn(f"  unknown     {said}\n", result.out)
        counts = {"examples": 4, "of_unknown_users": 2, "of_unknown_items": 2, "of_both": 1}
        self.assertEqual(self.summary("run")["unseen"]["test"], counts)
        self.assertGreater(self.summary("run")["test"]["rmse"], 0)
        told = self.succeed("evaluate", "run", "--json", "--at", "0")
        self.assertEqual(json.loads(told.out)["unseen"], counts)

    def test_metrics_are_undefined_where_nothing_is_known_of_any_rating(self):
        nothing = "all metrics of this split are undefined"
        result = self.trained("new other 3\nnew another 4\n")
        self.assertIn(nothing, result.out + result.err)
        self.assertEqual(set(self.summary("run")["test"].values()), {None})
        told = json.loads(self.succeed("evaluate", "run", "--json", "--at", "0").out)
        self.assertEqual((told["loss"], told["rmse"]), (None, None))
        ranked = json.loads(self.succeed("evaluate", "run", "--json").out)
        self.assertEqual([ranked[f"{name}_at_10"] for name in ("precision", "recall", "ndcg")], [None] * 3)
        # A known user has a bias; without biases, the factors of an unknown item say nothing.
        known_users = "u1 other 3\nu2 another 4\n"
        self.assertNotIn(nothing, self.trained(known_users).out)
        self.assertGreater(self.summary("run")["test"]["rmse"], 0)
        self.assertIn(nothing, self.trained(known_users, "model.biases=false").out)
        self.assertIsNone(self.summary("run")["test"]["rmse"])


class Deciding(Ratings):
    def test_r2_decides_and_rankings_of_nobody_are_undefined(self):
        self.write_generated(generated.draw_ratings(users=60, items=40, per_user=12))
        words = ("--set", "data.path=ratings.h5", "--set", "data.validation_fraction=0.2", "--set", "train.epochs=2")
        self.train("run", *words, "--set", "checkpoint.best.metric=r2", config=SHIPPED)
        self.assertEqual(self.summary("run")["best"]["metric"], "validation r2")
        told = self.succeed("evaluate", "run", "--split", "validation", "--relevant", "1e6")
        self.assertIn("for 0 users with relevant items", told.out)
        for name in ("precision", "recall", "ndcg"):
            self.assertRegex(told.out, rf"  {name}@10 +undefined\n")


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
