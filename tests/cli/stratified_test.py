"""Matrix factorization by blocks: the same bits on any number of ranks and threads, each rank with a part of it all."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import h5py
import numpy

from harness import INTERRUPTED, BinaryTest, ranks_of

USERS, ITEMS, RATINGS = 300, 200, 15000
GRID = 5  # ⌊√(15000 / 512)⌋ blocks a side
STRIDE = 32  # floats of a row: 4 factors, filled up to 16; bias and sum of squares, filled up to 16

CONFIG = """
name = "test"
seed = 3
[data]
path = "ratings.h5"
[model]
kind = "factorization"
dimension = 4
[optimizer]
kind = "adagrad"
learning_rate = 0.1
[schedule]
kind = "linear"
[train]
epochs = 4
report_every_steps = 3
[strategy]
kind = "stratified"
threads = 1
"""

SERIAL = ("--set", 'strategy={kind="serial"}', "--set", "data.order=strata")
TWO_THREADS = ("--set", "strategy.threads=2")


def write_ratings(file, group, n, random, factors):
    users, items = random.integers(0, USERS, n), random.integers(0, ITEMS, n)
    file[f"{group}/users"], file[f"{group}/items"] = users.astype("u4"), items.astype("u4")
    file[f"{group}/ratings"] = (3 + (factors[0][users] * factors[1][items]).sum(1)).astype("f4")


class Stratified(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = numpy.random.default_rng(1)
        factors = random.normal(size=(USERS, 3)), random.normal(size=(ITEMS, 3))
        with h5py.File(pathlib.Path(cls.shared.name) / "ratings.h5", "w") as file:
            write_ratings(file, "train", RATINGS, random, factors)
            write_ratings(file, "test", 2000, random, factors)
            for name, n in (("users", USERS), ("items", ITEMS)):
                file[f"dictionary/{name}"] = [f"{name}{i}" for i in range(n)]

    def setUp(self):
        super().setUp()
        link = self.folder / "ratings.h5"
        if not link.exists():
            os.symlink(pathlib.Path(self.shared.name) / "ratings.h5", link)
        self.write("config.toml", CONFIG)

    def test_ranks_and_threads_leave_the_bits_of_the_serial_run(self):
        self.train("serial", *SERIAL)
        serial = self.summary("serial")
        self.assertLess(serial["test"]["rmse"], 1.5)  # the mean rating alone has 1.7
        self.assertEqual(serial["steps"], 4 * GRID)
        for ranks, options in ((0, ()), (0, TWO_THREADS), (2, TWO_THREADS), (3, ()), (4, ())):
            with self.subTest(ranks=ranks, options=options):
                run = f"run{ranks}-{len(options)}"
                told = self.train(run, *options, "--compare-with", "serial", ranks=ranks).out
                self.assert_same_bits("serial", run)
                summary = self.summary(run)
                self.assertIn("parameters equal those of serial/checkpoints/step-000000020.h5 bit for bit", told)
                self.assertEqual(summary["compared_with"]["relative_distance"], 0)
                self.assertEqual(summary["steps"], 4 * GRID)
                for part in ("train", "test"):
                    self.assertAlmostEqual(summary[part]["rmse"], serial[part]["rmse"], places=12)
                passed = 4 * ranks * ITEMS * STRIDE * 4 if ranks > 1 else 0
                self.assertEqual(summary["passed_bytes"], passed)

    def test_ranks_that_lose_their_cores_now_and_then_wait_for_nothing_that_never_comes(self):
        patience = ("--set", "communication.timeout_seconds=20", "--set", "checkpoint.every_epochs=5")
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        try:
            self.train("run", *patience, "--set", "train.epochs=100", ranks=2)
        finally:
            for other in others:
                other.kill()
                other.wait()
        self.assertEqual(self.summary("run")["steps"], 100 * GRID)

    def test_a_validation_part_and_other_checkpoints_change_nothing(self):
        held_back = ("--set", "data.validation_fraction=0.2", "--set", "checkpoint.every_steps=3")
        self.train("serial", *SERIAL, *held_back)
        self.train("ranks", *held_back, ranks=3)
        self.assert_same_bits("serial", "ranks")
        for split in ("validation", "test"):
            self.assertAlmostEqual(
                self.summary("serial")[split]["rmse"], self.summary("ranks")[split]["rmse"], places=12
            )

    def test_stopped_and_resumed_on_other_ranks_it_ends_with_the_same_bits(self):
        endless = ("--set", "train.epochs=1000000", "--set", "schedule.kind=constant")
        with self.started("train", "config.toml", "--output", "stopped", *endless, ranks=2) as process:
            self.wait_for_step("stopped", 40, process)
            os.kill(ranks_of(process)[0], signal.SIGUSR1)
            output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, INTERRUPTED, output)
        epochs = self.summary("stopped")["steps"] // GRID
        for ranks, more in ((3, 2), (0, 3)):
            epochs += more
            longer = ("--set", f"train.epochs={epochs}", "--set", "schedule.kind=constant")
            self.train("stopped", "--resume", *longer, ranks=ranks)
        self.train("whole", *longer, ranks=4)
        self.assert_same_bits("whole", "stopped")

    def test_the_model_is_used_as_any_other(self):
        self.train("run", ranks=2)
        told = self.summary("run")["test"]["rmse"]
        evaluated = json.loads(self.succeed("evaluate", "run", "--split", "test", "--json", ranks=2).out)
        self.assertAlmostEqual(evaluated["rmse"], told, places=6)
        self.succeed("predict", "run", "--top", "2", "--output", "top.csv")
        lines = (self.folder / "top.csv").read_text().splitlines()
        self.assertEqual((lines[0], len(lines)), ("user,rank,item,score", 1 + 2 * USERS))
        self.succeed("neighbors", "run", "items3", "--table", "items", "--top", "3")

    def test_a_rank_holds_a_part_of_the_parameters_and_of_the_data(self):
        memory = {}
        for ranks in (0, 4):
            memory[ranks] = json.loads(self.succeed("info", "config.toml", "--json", ranks=ranks).out)["memory"]
        users, items = -(-USERS // GRID), -(-ITEMS // GRID)
        self.assertEqual(memory[0]["parameters"], 4 * STRIDE * (USERS + ITEMS))
        # A rank has one or two of the five rows, and places for two columns more; the first has one.
        self.assertEqual(memory[4]["parameters"], 4 * STRIDE * (users + 3 * items))
        self.assertEqual(memory[4]["examples"], memory[0]["examples"] // 4)


if __name__ == "__main__":
    unittest.main()
