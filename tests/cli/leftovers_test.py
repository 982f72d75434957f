"""What killed processes leave is removed at the next start, and nothing that somebody may still use; a run folder that
is removed while the run goes on is missed by its name."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

import numpy

from harness import BINARY, BinaryTest, ranks_of

SHARED_MEMORY = pathlib.Path("/dev/shm")
ENDLESS = ("--set", "train.epochs=100000", "--set", "train.report_every_steps=5")


def segments():
    return {path.name for path in SHARED_MEMORY.glob("*") if path.name.startswith(("vader_segment.", "osc_sm."))}


class Leftovers(BinaryTest):
    def gone_process(self):
        """The number of a process that has ended."""
        with subprocess.Popen(["true"]) as process:
            pass
        return process.pid

    @unittest.skipUnless(SHARED_MEMORY.is_dir(), "no shared memory here")
    def test_segments_of_a_killed_run_are_gone_after_the_next_start(self):
        before = segments()
        with self.started("train", "config.toml", "--output", "run", *ENDLESS, ranks=2) as process:
            self.wait_for_step("run", 10, process)
            ranks = ranks_of(process)
            variables = pathlib.Path(f"/proc/{ranks[0]}/environ").read_bytes()
            job = f".{int(variables.split(b'PMIX_NAMESPACE=')[1].split(bytes(1))[0]):x}."
            os.kill(process.pid, signal.SIGKILL)
            for rank in ranks:
                os.kill(rank, signal.SIGKILL)
            process.wait()
            while any(pathlib.Path(f"/proc/{rank}").exists() and
                      ") Z" not in pathlib.Path(f"/proc/{rank}/stat").read_text() for rank in ranks):
                pass
        left = {name for name in segments() - before if job in name}
        if not left:
            self.skipTest("nothing was left, or a program that was started meanwhile has removed it")
        in_use = SHARED_MEMORY / f"vader_segment.test.{os.geteuid()}.{os.getpid():x}.0"
        with in_use.open("w") as file:
            file.write("somebody has it open")
            file.flush()
            self.succeed("info", "config.toml")
            self.assertEqual(left & segments(), set())
            self.assertTrue(in_use.exists())
        in_use.unlink()

    def test_an_import_removes_what_killed_imports_left_in_its_folder(self):
        host, gone = socket.gethostname(), self.gone_process()
        dead = [self.write(f"{name}.h5.unfinished-{gone}@{host}", "half") for name in ("digits", "other")]
        kept = [
            self.write(f"a.h5.unfinished-{os.getpid()}@{host}", "somebody writes it"),
            self.write(f"b.h5.unfinished-{gone}@another-host", "who knows"),
            self.write("c.h5.unfinished-notes", "something else"),
        ]
        self.succeed("data", "digits", "--train", "20", "--test", "10", "--output", "new.h5")
        self.assertEqual([path.name for path in dead if path.exists()], [])
        self.assertEqual([path.name for path in kept if not path.exists()], [])

    def test_an_import_that_is_killed_leaves_a_file_that_the_next_one_removes(self):
        words = [BINARY, "data", "digits", "--train", "200000", "--output", self.folder / "large.h5"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            while not list(self.folder.glob("large.h5.unfinished-*")):
                self.assertIsNone(process.poll())
            process.kill()
        self.succeed("data", "digits", "--train", "20", "--test", "10", "--output", "new.h5")
        self.assertEqual(list(self.folder.glob("*.unfinished-*")), [])

    def test_an_import_that_a_signal_ends_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            words = [BINARY, "data", "digits", "--train", "200000", "--output", self.folder / "large.h5"]
            with self.subTest(number), subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
                while not list(self.folder.glob("large.h5.unfinished-*")):
                    self.assertIsNone(process.poll())
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=20), -number)
                self.assertEqual(list(self.folder.glob("large.h5*")), [])

    def test_a_prediction_from_a_raw_file_removes_what_a_killed_one_left(self):
        left = self.write(f".unisono-input.unfinished-{self.gone_process()}@{socket.gethostname()}", "half")
        self.train("run")
        numpy.save(self.folder / "new.npy", numpy.zeros((3, 28, 28), "u1"))
        self.succeed("predict", "run", "--input", "new.npy", "--output", "out.csv")
        self.assertFalse(left.exists())
        self.assertEqual(list(self.folder.glob(".unisono-input*")), [])

    def test_a_resumed_run_removes_what_the_killed_one_was_writing(self):
        self.train("run")
        for name in ("summary.json.tmp", "config.toml.tmp", "checkpoints/step-000000020.h5.tmp"):
            self.write(f"run/{name}", "half")
        mine = self.write("run/mine.csv.tmp", "of another program")
        self.train("run", "--resume", "--set", "train.epochs=3")
        self.assertEqual(list((self.folder / "run").rglob("*.tmp")), [mine])


class GoneFolder(BinaryTest):
    def test_a_folder_that_was_removed_is_named(self):
        with self.started("train", "config.toml", "--output", "run", *ENDLESS, ranks=2) as process:
            self.wait_for_step("run", 10, process)
            while (self.folder / "run").exists():
                shutil.rmtree(self.folder / "run", ignore_errors=True)
            out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, out)
        said = [line for line in out.splitlines() if line.startswith("unisono: ")]
        self.assertEqual(len(said), 1, out)
        # A file of the folder goes first: which of the two a write meets is a matter of time.
        gone = "(the folder run(/checkpoints)? is gone: it|the file) was removed or renamed while the program ran; "
        self.assertRegex(said[0], f"^unisono: output error: .*; {gone}")
        self.assertNotIn("free some space", out)


if __name__ == "__main__":
    unittest.main()
