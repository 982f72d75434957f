"""data.stage: copies of sets on local disks. The same results with and without them, and what is read from where."""

import json
import os
import pathlib
import random
import shutil
import time
import unittest

import h5py
import numpy

from harness import BinaryTest, kill_session, messages, settings

CONFIG = """
name = "staged"
seed = 3
[data]
path = "set.h5"
reader = "streaming"
window_bytes = 600000
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 8 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "adam"
learning_rate = 0.001
[train]
epochs = 2
batch_size = 60
threads = 1
report_every_steps = 50
"""
KILLS = 30
CONFIGURATION = 2


def write_set(path, seed=1, examples=3000, compression=None):
    random_numbers = numpy.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        for group, count in (("train", examples), ("test", 300)):
            images = random_numbers.integers(0, 256, (count, 3, 20, 20), dtype=numpy.uint8)
            file.create_dataset(f"{group}/features", data=images, compression=compression)
            file[f"{group}/labels"] = random_numbers.integers(0, 10, count)
        file.attrs["classes"] = 10


class StagingTest(BinaryTest):
    def setUp(self):
        super().setUp()
        write_set(self.folder / "set.h5")
        self.write("config.toml", CONFIG)
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.staged = settings(f"data.stage={self.disk}")

    def read(self, run):
        """Megabytes that a run has read from the file, from copies and from other nodes."""
        read = self.summary(run)["staging"]
        return [read[name + "_bytes"] for name in ("file", "copy", "neighbour")]

    def copies(self):
        return [entry for entry in self.disk.glob("unisono-*/*") if entry.is_dir()]

    def size(self):
        return (self.folder / "set.h5").stat().st_size

    def test_results_are_the_same_and_no_byte_is_read_twice(self):
        for ranks in (0, 2, 3):
            for more in ([], ["data.partition=fixed"])[: 1 if ranks == 0 else 2]:
                run = f"{ranks}{len(more)}"
                self.train(run + "plain", *settings(*more), ranks=ranks)
                self.assertNotIn("staging", self.summary(run + "plain"))
                for job in ("first", "second"):
                    self.train(run + job, *self.staged, *settings(*more), ranks=ranks)
                    self.assert_same_bits(run + "plain", run + job)
                    from_file, from_copy, _ = self.read(run + job)
                    # All pages of 256 KiB with something that is read, once: all of the file, but for gaps in it.
                    self.assertEqual(from_file, self.size() if job == "first" else 0)
                    self.assertGreater(from_copy, 0)
                shutil.rmtree(self.disk)
                self.disk.mkdir()

    def test_later_epochs_read_nothing_from_the_file(self):
        self.train("run", *self.staged)
        lines = [line["staging"] for line in self.metrics("run") if line["event"] == "train"]
        self.assertEqual([line["file_bytes"] for line in lines], [self.size(), 0])
        self.assertGreater(lines[1]["copy_bytes"], 0)

    def test_resident_compressed_and_other_sets(self):
        write_set(self.folder / "set.h5", compression="gzip")
        for reader in ("streaming", "resident"):
            more = settings(f"data.reader={reader}")
            self.train(reader + "plain", *more)
            self.train(reader, *self.staged, *more)
            self.assert_same_bits(reader + "plain", reader)
            self.assertEqual(self.read(reader)[0], self.size() if reader == "streaming" else 0)

    def test_tokens_are_staged_where_they_would_be_mapped(self):
        self.write("text.txt", "".join(random.Random(2).choices("abcdefgh \n", k=300_000)))
        self.succeed("data", "import", "tokens", "text.txt", "--output", "text.h5")
        self.write(
            "config.toml",
            """
name = "tokens"
[data]
path = "text.h5"
reader = "streaming"
context = 16
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "embedding", units = 4 }, { kind = "unembedding" }]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
steps = 30
batch_size = 16
threads = 1
""",
        )
        self.train("plain")
        for job in ("first", "second"):
            self.train(job, *self.staged)
            self.assert_same_bits("plain", job)
        self.assertGreater(self.read("first")[0], 0)
        self.assertEqual(self.read("second")[0], 0)

    def test_a_set_that_has_changed_is_staged_anew(self):
        self.train("old", *self.staged)
        write_set(self.folder / "set.h5", seed=2)
        self.train("plain")
        self.train("new", *self.staged)
        self.assert_same_bits("plain", "new")
        self.assertEqual(self.read("new")[0], self.size())
        self.assertEqual(len(self.copies()), 1)

    def test_a_damaged_copy_is_read_again_with_one_warning(self):
        self.train("plain")
        self.train("first", *self.staged)
        (copy,) = self.copies()
        with open(copy / "pages", "r+b") as pages:
            for at in (1_000_000, 2_000_000):
                pages.seek(at)
                pages.write(b"damaged")
        result = self.train("second", *self.staged)
        self.assertEqual(result.err.count("warning"), 1, result)
        self.assertIn("a part of the copy on the local disk is damaged; it is copied again", result.err)
        self.assert_same_bits("plain", "second")
        self.assertEqual(self.read("second")[0], 2 * (256 << 10))
        self.assertNotIn("warning", self.train("third", *self.staged).err)

    def test_a_folder_that_cannot_be_used_is_refused_once(self):
        for ranks in (0, 2):
            result = self.train("run", *settings("data.stage=nowhere"), ranks=ranks, code=CONFIGURATION)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn('data.stage = "nowhere": there is no such folder; name a folder on a local disk', result.err)

    def test_a_limit_keeps_a_part_and_removes_other_sets(self):
        self.train("first", *self.staged)
        shutil.copy(self.folder / "set.h5", self.folder / "other.h5")
        limit = settings(f"data.stage_bytes={self.size() // 2}")
        result = self.train("second", *self.staged, *settings("data.path=other.h5"), *limit)
        self.assertIn("there is room for", result.out)
        self.assertIn("removed to make room: ", result.out)
        self.assert_same_bits("first", "second")
        self.assertGreater(self.read("second")[0], self.size())
        self.assertLessEqual(sum(file.stat().st_blocks for file in self.copies()[0].glob("*")) * 512, self.size() // 2)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a small disk")
    def test_a_full_disk_is_one_warning(self):
        self.train("plain")
        if os.system(f"mount -t tmpfs -o size=1m tmpfs {self.disk} 2> /dev/null"):
            self.skipTest("nothing can be mounted here")
        try:
            result = self.train("full", *self.staged)
            self.assertEqual(result.err.count("warning"), 1, result)
            self.assertIn("its copy on the local disk cannot be written: No space left on device", result.err)
            self.assert_same_bits("plain", "full")
        finally:
            os.system(f"umount {self.disk}")

    def test_a_killed_run_leaves_nothing_that_is_half_done(self):
        begun = time.monotonic()
        self.train("plain")
        longest = time.monotonic() - begun
        left = 0
        draw = random.Random(5)
        for kill in range(KILLS):
            if self.copies() and kill % 3 == 0:
                shutil.rmtree(self.copies()[0])
            with self.started("train", "config.toml", "--output", f"killed{kill}", *self.staged) as process:
                time.sleep(draw.uniform(0.01, longest))
                left += process.poll() is None
                kill_session(process.pid)
            if kill % 10 == 9:
                result = self.train(f"after{kill}", *self.staged)
                self.assertNotIn("warning", result.err)
                self.assert_same_bits("plain", f"after{kill}")
        self.assertGreater(left, KILLS // 3)  # so many were killed before their end

    def test_evaluation_and_checks_do_not_stage(self):
        self.train("run", *self.staged)
        shutil.rmtree(self.disk)
        self.succeed("evaluate", "run")
        self.succeed("config", "check", "config.toml", *self.staged)
        self.assertFalse(self.disk.exists())

    def test_a_resumed_run_may_stage(self):
        self.train("whole")
        self.train("part", *settings("train.epochs=1"))
        self.train("part", "--resume", *settings("train.epochs=2"), *self.staged)
        self.assert_same_bits("whole", "part")
        self.assertGreater(self.read("part")[0], 0)


if __name__ == "__main__":
    unittest.main()
