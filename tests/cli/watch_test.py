"""`watch`: how a run goes, in the terminal."""

import os
import pty
import re
import subprocess
import time
import unittest

from harness import BINARY, BinaryTest, messages, settings

SLOW = [
    *settings("fault.slow_rank=0", "fault.pause_seconds=0.02"),
    *settings("data.validation_fraction=0.2", "train.batch_size=16", "train.epochs=6"),
]


class Watch(BinaryTest):
    def test_a_picture_of_a_run_that_ended(self):
        self.train("run", *settings("data.validation_fraction=0.2"))
        out = self.succeed("watch", "run/", "--once").out
        lines = out.splitlines()
        self.assertEqual(lines[0], "run: complete")
        self.assertRegex(lines[1], r"^  \[=+\] 100 %  epoch 2/2  step (\d+)/\1$")
        summary, text = self.summary("run"), " ".join(lines)
        self.assertIn(f"{summary['test']['loss']:.4g}", text)
        self.assertRegex(out, r"best validation accuracy +[\d.]+  at step")
        self.assertNotIn("left", out)
        self.assertNotIn("\x1b", out)
        self.assertEqual(self.succeed("watch", "run").out, out)  # nothing more is to come

    def test_it_follows_a_run_to_its_end(self):
        with self.started("train", "config.toml", "--output", "run", *SLOW) as process:
            self.wait_for_step("run", 8, process)
            once = self.succeed("watch", "run", "--once").out
            self.assertEqual(once.splitlines()[0], "run: running")
            self.assertRegex(once, r"\d+:\d\d left")
            out = self.succeed("watch", "run", "--every", "0.05").out
        steps = [int(step) for step in re.findall(r"step (\d+)/72", out)]
        self.assertGreater(len(steps), 3)
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(steps[-1], 72)
        self.assertIn("run: complete", out)

    def test_a_run_that_was_stopped(self):
        with self.started("train", "config.toml", "--output", "run", *SLOW) as process:
            self.wait_for_step("run", 8, process)
            process.terminate()
            out = self.succeed("watch", "run", "--every", "0.05").out
        self.assertIn("run: interrupted", out)

    def test_on_a_terminal_it_draws_over_the_last_picture(self):
        with self.started("train", "config.toml", "--output", "run", *SLOW) as process:
            self.wait_for_step("run", 8, process)
            main, terminal = pty.openpty()
            with subprocess.Popen(
                [BINARY, "watch", "run", "--every", "0.1"], cwd=self.folder, stdout=terminal, stdin=subprocess.DEVNULL
            ) as watching:
                os.close(terminal)
                seen = b""
                while True:
                    try:
                        seen += os.read(main, 65536)
                    except OSError:  # the other end is closed
                        break
            os.close(main)
        self.assertEqual(watching.returncode, 0)
        self.assertRegex(seen.decode(), r"\x1b\[\d+A\x1b\[J")

    def test_it_follows_a_search_to_its_end(self):
        space = """
            [search]
            method = "random"
            trials = 8
            [search.space]
            "optimizer.learning_rate" = { log = [1e-3, 1e-2] }
            """
        self.write("search.toml", (self.folder / "config.toml").read_text() + space)
        with self.started("search", "search.toml", "--output", "found", *SLOW) as process:
            self.wait_for(self.folder / "found/journal.jsonl", process, '"ended"')
            once = self.succeed("watch", "found", "--once").out
            self.assertEqual(once.splitlines()[0], "found: running, random")
            self.assertRegex(once, r"trials \d/8  \d running")
            self.assertRegex(once, r"best validation accuracy +[\d.]+  trial \d")
            self.assertRegex(once, r"\n  trial \d +\d+:\d\d .*optimizer.learning_rate = ")
            self.assertRegex(once, r"\d+:\d\d left")
            out = self.succeed("watch", "found", "--every", "0.05").out
        trials = [int(done) for done in re.findall(r"trials (\d)/8", out)]
        self.assertEqual(trials, sorted(trials))
        self.assertEqual(trials[-1], 8)
        self.assertIn("found: complete, random", out)
        self.assertNotIn("left", out[out.index("found: complete") :])

    def test_it_follows_a_cross_validation_to_its_end(self):
        slow = [*SLOW, *settings("data.validation_fraction=0")]
        with self.started("cross-validate", "config.toml", "--output", "folds", *slow) as process:
            self.wait_for(self.folder / "folds/journal.jsonl", process, '"ended"')
            once = self.succeed("watch", "folds", "--once").out
            self.assertEqual(once.splitlines()[0], "folds: running")
            self.assertRegex(once, r"folds [1-4]/5  \d running")
            self.assertRegex(once, r"mean accuracy +[\d.]+")
            out = self.succeed("watch", "folds", "--every", "0.05").out
        self.assertIn("folds: complete", out)
        self.assertIn("folds 5/5", out)

    def wait_for(self, path, process, text):
        end = time.monotonic() + 60
        while not path.exists() or text not in path.read_text():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_errors(self):
        result = self.unisono("watch", "nothing")
        self.assertEqual(result.code, 4, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertEqual(self.unisono("watch", "nothing", "--every", "0").code, 2)


if __name__ == "__main__":
    unittest.main()
