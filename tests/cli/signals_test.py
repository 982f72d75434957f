"""Without scripts/launch: the first TERM or INT asks a training to stop, a second one ends it."""

import signal
import subprocess
import time
import unittest

from harness import INTERRUPTED, BinaryTest

# Steps that last far longer than the test.
SLOW = ("--set", "fault.emulated_seconds=60")


class SecondSignal(BinaryTest):
    def test_a_second_signal_ends_a_training_that_does_not_come_to_the_end_of_its_step(self):
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT),
                              (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(first=first, second=second):
                words = ("train", "config.toml", "--output", f"{first}{second}", *SLOW)
                with self.started(*words) as process:
                    self.wait_until_it_trains(process)
                    process.send_signal(first)
                    with self.assertRaises(subprocess.TimeoutExpired):
                        process.wait(timeout=1)
                    process.send_signal(second)
                    self.assertEqual(process.wait(timeout=20), -second)

    def test_the_same_signal_sent_twice_at_once_is_one_wish(self):
        words = ("train", "config.toml", "--output", "run", "--set", "fault.emulated_seconds=0.5")
        with self.started(*words) as process:
            self.wait_until_it_trains(process)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=20), INTERRUPTED)

    def wait_until_it_trains(self, process):
        for line in process.stdout:
            if "allreduce on 1 rank" in line:
                break
        time.sleep(0.3)


if __name__ == "__main__":
    unittest.main()
