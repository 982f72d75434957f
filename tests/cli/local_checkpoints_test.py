"""checkpoint.local: checkpoints are written to a local disk first, and copied to the run folder while training goes on.
The same results, whatever is killed, full or missing."""

import contextlib
import os
import random
import shutil
import signal
import time
import unittest

from harness import INTERRUPTED, BinaryTest, kill_session, messages, settings

KILLS = 30
CONFIGURATION = 2
# 2 MB in a checkpoint: parameters, and two moments of each.
LARGE = """
name = "large"
seed = 3
[data]
path = "digits.h5"
validation_fraction = 0.2
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 200 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 4
batch_size = 24
threads = 1
report_every_steps = 1
[checkpoint]
every_steps = 1
"""


class LocalCheckpoints(BinaryTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.local = settings(f"checkpoint.local={self.disk}")

    def left(self):
        """Names of the checkpoints on the local disk, and of what else is there."""
        return sorted(path.name for path in self.disk.rglob("*") if path.is_file() and path.name != "lock")

    def names(self, run):
        return sorted(path.name for path in (self.folder / run / "checkpoints").iterdir())

    def leave_on_disk(self, run):
        """Moves a run's newest checkpoint to where a killed run that could not copy it would have left it."""
        newest = self.checkpoints(run)[-1]
        place = self.disk / f"unisono-{os.geteuid()}" / "checkpoints" / ("0123456789abcdef" * 2)
        place.mkdir(parents=True)
        for folder in (place.parent.parent, place.parent, place):
            folder.chmod(0o700)
        shutil.move(newest, place / f"000001-{newest.name}")
        self.write(f"{run}/checkpoints/local.txt", f"somewhere\n{place}\n")
        return place

    def test_results_and_the_run_folder_are_as_without_it(self):
        often = ["data.validation_fraction=0.2", "checkpoint.every_steps=3"]
        cases = [
            (0, []),
            (2, ["replica.stages=2", "train.micro_batches=4"]),
            (2, ["strategy.kind=parameter_server", "strategy.servers=1", "strategy.consistency=synchronous"]),
        ]
        for number, (ranks, more) in enumerate(cases):
            with self.subTest(ranks=ranks, more=more):
                plain, local = f"plain{number}", f"local{number}"
                self.train(plain, *settings(*often, *more), ranks=ranks)
                result = self.train(local, *settings(*often, *more), *self.local, ranks=ranks)
                self.assertNotIn("warning", result.err)
                self.assertEqual(self.names(plain), self.names(local))
                self.assertIn("best.h5", self.names(local))
                self.assertEqual(self.left(), [])
                counts = self.summary(local)["local_checkpoints"]
                self.assertGreater(counts["copied"], 0)
                self.assertEqual(counts["direct"], 0)
                self.assertNotIn("local_checkpoints", self.summary(plain))
                self.assert_same_bits(plain, local)

    def test_a_resumed_run_takes_the_newer_checkpoint_from_the_local_disk(self):
        self.train("whole")
        for ranks, more in ((0, self.local), (2, []), (2, self.local)):
            run = f"run{ranks}{len(more)}"
            self.train(run, *settings("train.epochs=1", "checkpoint.every_steps=4"))
            place = self.leave_on_disk(run)
            result = self.train(run, "--resume", *settings("train.epochs=2"), *more, ranks=ranks)
            self.assertEqual(result.out.count("are copied to the run folder"), 1, result)
            self.assertIn(f"checkpoints up to step 10 are in {place} of somewhere alone", result.out)
            self.assertIn("resumed at step 10", result.out)
            self.assertEqual(self.left(), [])
            self.assertNotIn("local.txt", self.names(run))
            if ranks == 0:
                self.assert_same_run("whole", run)

    def test_a_newer_checkpoint_of_a_disk_that_nobody_sees_is_said(self):
        self.train("run", *settings("train.epochs=1", "checkpoint.every_steps=4"))
        place = self.leave_on_disk("run")
        shutil.move(self.disk, self.folder / "away")
        result = self.train("run", "--resume", *settings("train.epochs=2"), ranks=2)
        self.assertIn(f"the run may have left newer checkpoints in {place} of somewhere, which no rank", result.err)
        self.assertEqual(result.err.count("warning"), 1, result)
        self.assertIn("resumed at step 8", result.out)
        shutil.move(self.folder / "away", self.disk)
        result = self.train("run", "--resume", *settings("train.epochs=3"), *self.local)  # that one is of an older life
        self.assertIn("resumed at step 20", result.out)
        self.assertEqual(len(self.left()), 1)

    def test_a_new_run_in_the_folder_removes_what_the_old_one_left(self):
        self.train("run", *settings("train.epochs=1", "checkpoint.every_steps=4"))
        self.leave_on_disk("run")
        self.train("run", "--overwrite", *self.local)
        self.assertEqual(self.left(), [])

    def test_sets_that_are_staged_on_the_same_disk_do_not_displace_checkpoints(self):
        self.train("run", *settings("train.epochs=1", "checkpoint.every_steps=4"))
        self.leave_on_disk("run")
        before = self.left()
        self.train("other", *self.local, *settings(f"data.stage={self.disk}", "data.stage_bytes=1"))
        self.assertEqual([name for name in self.left() if name.endswith(".h5")], before)

    def test_a_killed_run_leaves_nothing_that_is_half_done(self):
        self.write("config.toml", LARGE)
        begun = time.monotonic()
        self.train("whole")
        longest = time.monotonic() - begun
        found = killed = half = 0
        draw = random.Random(5)
        for kill in range(KILLS):
            words = ("train", "config.toml", "--output", "run", *self.local)
            exists = (self.folder / "run" / "config.toml").exists()
            before = self.last_step("run")
            with self.started(*words, "--resume" if exists else "--overwrite") as process:
                if kill % 3 == 0:  # at any moment, also while what an earlier kill left is copied
                    time.sleep(draw.uniform(0.02, 0.3 * longest))
                else:
                    while process.poll() is None and self.last_step("run") <= before + 2:
                        time.sleep(0.002)
                    time.sleep(draw.uniform(0, 0.1))
                killed += process.poll() is None
                kill_session(process.pid)
            half += any(name.endswith(".tmp") for name in self.names("run")) if exists else 0
            found += any(name.endswith(".h5") for name in self.left())
            for path in (self.folder / "run" / "checkpoints").glob("*.h5") if kill % 5 == 4 else []:
                self.succeed("evaluate", path)
            if process.returncode == 0 or self.last_step("run") > 24:  # of 32
                if process.returncode != 0:
                    self.train("run", "--resume", *self.local)
                self.assert_same_bits("whole", "run")
                shutil.rmtree(self.folder / "run")
        self.assertGreater(killed, KILLS // 3)  # so many were killed before their end
        self.assertGreater(found, KILLS // 5)  # and so many left a checkpoint on the local disk
        self.assertGreater(half, 0)  # and some while one was copied
        result = self.train("run", "--resume" if (self.folder / "run").exists() else "--overwrite", *self.local)
        self.assertNotIn("damaged", result.err)
        self.assert_same_run("whole", "run")
        self.assertEqual(self.names("whole"), self.names("run"))
        self.assertEqual(self.left(), [])

    def test_a_signal_leaves_all_checkpoints_in_the_run_folder(self):
        self.write("config.toml", LARGE)
        words = ("train", "config.toml", "--output", "run", *self.local, *settings("train.epochs=100000"))
        with self.started(*words) as process:
            self.wait_for_step("run", 12, process)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), INTERRUPTED)
        self.assertEqual(self.left(), [])
        self.assertEqual(self.names("run")[-1], f"step-{self.summary('run')['steps']:09}.h5")

    def test_a_run_folder_that_is_gone_is_one_warning_and_an_error_at_the_end(self):
        self.write("config.toml", LARGE)
        checkpoints, away = self.folder / "run" / "checkpoints", self.folder / "away"
        words = ("train", "config.toml", "--output", "run", *self.local, *settings("train.epochs=100000"))
        with self.started(*words) as process:
            self.wait_for_step("run", 12, process)
            checkpoints.rename(away)
            step = self.last_step("run")
            self.wait_for_step("run", step + 30, process)
            process.send_signal(signal.SIGUSR1)
            code, text = process.wait(timeout=60), process.stdout.read()
        self.assertEqual(code, 1, text)
        self.assertEqual(text.count("warning: a checkpoint cannot be copied to the run folder: "), 1, text)
        self.assertRegex(text, "unisono: output error: run/checkpoints: a checkpoint could not be copied there: .*disk")
        self.assertEqual(text.count("error:"), 1, text)
        away.rename(checkpoints)
        step = max(int(name[-12:-3]) for name in self.left())
        length = settings(f"train.epochs={step // 8 + 2}")
        result = self.train("run", "--resume", *self.local, *length)
        self.assertIn(f"resumed at step {step}", result.out)
        self.train("whole", *length)
        self.assert_same_bits("whole", "run")

    def test_a_folder_that_cannot_be_used_is_refused_once(self):
        self.write("file", "")
        for ranks, disk, why in ((0, "nowhere", "there is no such folder"), (2, "file", "there is no such folder")):
            result = self.train("run", *settings(f"checkpoint.local={disk}"), ranks=ranks, code=CONFIGURATION)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn(f'checkpoint.local = "{disk}": {why}; name a folder on a local disk', result.err)
            self.assertFalse((self.folder / "run").exists())

    @contextlib.contextmanager
    def mounted(self, size):
        """A small disk instead of the local one."""
        if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size={size} tmpfs {self.disk} 2> /dev/null"):
            self.skipTest("only root can mount a small disk, and not everywhere")
        try:
            yield
        finally:
            os.system(f"umount {self.disk}")

    def test_a_disk_that_becomes_full_is_one_warning(self):
        self.write("config.toml", LARGE)
        short = settings("train.epochs=1")
        with self.mounted("3m"):
            for ranks in (0, 2):
                plain, run = f"plain{ranks}", f"run{ranks}"
                self.train(plain, *short, ranks=ranks)
                result = self.train(run, *short, *self.local, ranks=ranks)
                self.assertEqual(result.err.count("warning"), 1, result)
                self.assertIn("checkpoint.local: ", result.err)
                self.assertIn("No space left on device; what cannot be written there is written to the run", result.err)
                self.assert_same_bits(plain, run)
                self.assertEqual(self.names(plain), self.names(run))
                self.assertGreater(self.summary(run)["local_checkpoints"]["direct"], 0)
                self.assertEqual(self.left(), [])

    def test_a_full_disk_is_refused(self):
        with self.mounted("64k"):
            with contextlib.suppress(OSError), open(self.disk / "filler", "wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(4096))
            result = self.train("run", *self.local, code=CONFIGURATION)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn("cannot be written: No space left on device; name a folder on a local disk", result.err)

    def test_trials_of_a_search_write_to_the_local_disk_too(self):
        search = '\n[search]\nmethod = "grid"\n[search.space]\n"optimizer.learning_rate" = [0.01, 0.02]\n'
        self.write("search.toml", LARGE + search)
        for run, more in (("plain", []), ("local", self.local)):
            short = settings("train.epochs=1", "search.keep=all")
            self.succeed("search", "search.toml", "--output", run, *short, *more, ranks=2)
        for trial in ("trials/0000", "trials/0001"):
            self.assert_same_bits(f"plain/{trial}", f"local/{trial}")
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
