"""scripts/compare-bits: one binary equals itself, also where it resumes; another instruction set does not."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import BINARY

SCRIPT = pathlib.Path(os.environ["UNISONO_SOURCE"]) / "scripts/compare-bits"


def compare(old, new, only, *options):
    words = [sys.executable, SCRIPT, old, new, "--only", only, *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


class CompareBits(unittest.TestCase):
    def test_a_binary_equals_itself(self):
        for options in ((), ("--resumed-by-both",)):
            done = compare(BINARY, BINARY, "^(linear serial|dense averaging, 3)", *options)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stdout.splitlines()[-1], "2 the same, 0 different")

    def test_what_rounds_differently_differs(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "unisono"
            other.write_text(f'#!/bin/sh\nUNISONO_MAX_ISA=portable exec "{BINARY}" "$@"\n')
            other.chmod(0o755)
            done = compare(BINARY, other, "^dense serial")
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("DIFFERENT  dense serial, 1 rank: ", done.stdout)
            self.assertIn("parameters/dense1.weight", done.stdout)

    def test_no_experiment_and_a_run_that_fails_are_no_success(self):
        self.assertEqual(compare(BINARY, BINARY, "no such experiment").returncode, 1)
        done = compare(BINARY, "/bin/false", "^linear serial")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("new: exit code 1", done.stdout)


if __name__ == "__main__":
    unittest.main()
