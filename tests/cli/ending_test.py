"""Trainings that get signals, or lose a rank, in their first and last moments. A complete one ends with 0."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

from harness import BINARY, INTERRUPTED, BinaryTest, kill_session, processes, settings

LAUNCH = pathlib.Path(os.environ["UNISONO_SOURCE"]) / "scripts/launch"
TRIES = 5
LONG = settings("train.epochs=100000", "checkpoint.every_epochs=0")


class Ending(BinaryTest):
    def launched(self, run, *arguments):
        words = [LAUNCH, "-n", "2", BINARY, "train", "config.toml", "--output", run, "--progress", "none", *arguments]
        return subprocess.Popen(
            words, cwd=self.folder, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def code_of(self, job, timeout=60):
        try:
            return job.wait(timeout=timeout)
        finally:
            kill_session(job.pid)
            self.said = job.stderr.read()
            job.stderr.close()

    def wait_for(self, path, timeout=60):
        deadline = time.monotonic() + timeout
        while not (self.folder / path).exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)

    def launched_to_its_summary(self, run, *arguments):
        job = self.launched(run, *arguments)
        self.wait_for(f"{run}/summary.json")
        return job

    def ranks(self, job):
        return [id for id, name, _, session in processes() if session == job.pid and name.startswith("unisono")]

    def test_signals_after_the_summary_change_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            for i in range(TRIES):
                with self.subTest(number=number, i=i):
                    job = self.launched_to_its_summary(f"{number}-{i}")
                    time.sleep(0.02 * i)
                    job.send_signal(number)
                    self.assertEqual(self.code_of(job), 0, self.said)

    def test_signals_to_ranks_after_the_summary_change_nothing(self):
        reached = 0
        for number in (signal.SIGUSR1, signal.SIGTERM):
            for i in range(TRIES):
                with self.subTest(number=number, i=i):
                    job = self.launched_to_its_summary(f"{number}-{i}")
                    time.sleep(0.02 * i)
                    for rank in self.ranks(job):
                        try:
                            os.kill(rank, number)
                            reached += 1
                        except ProcessLookupError:
                            pass
                    self.assertEqual(self.code_of(job), 0, self.said)
        self.assertGreater(reached, 0)

    def test_a_rank_that_is_stopped_after_the_summary_does_not_hold_the_others(self):
        stopped = 0
        for i in range(3):
            with self.subTest(i=i):
                job = self.launched_to_its_summary(f"run{i}", *settings("communication.timeout_seconds=2"))
                ranks = self.ranks(job)
                if ranks:
                    os.kill(ranks[-1], signal.SIGSTOP)
                    stopped += 1
                self.assertEqual(self.code_of(job, timeout=40), 0, self.said)
        self.assertGreater(stopped, 0)

    def test_signals_of_the_first_moments_stop_a_training_with_a_checkpoint(self):
        for delay in (0.05, 0.1, 0.2, 0.3):
            for number in (signal.SIGUSR1, signal.SIGTERM):
                with self.subTest(delay=delay, number=number):
                    job = self.launched(f"{delay}-{number}", *LONG)
                    time.sleep(delay)
                    job.send_signal(number)
                    self.assertEqual(self.code_of(job), INTERRUPTED, self.said)
                    self.assertEqual(len(self.checkpoints(f"{delay}-{number}")), 1)


if __name__ == "__main__":
    unittest.main()
