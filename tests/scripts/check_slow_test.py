#!/usr/bin/env python3
"""scripts/check-slow: runs the parts that are named, goes on after a failure, and fails where one failed."""
import shutil
import subprocess
import unittest

from fakes import ROOT, ScriptTest


class CheckSlow(ScriptTest):
    def setUp(self):
        super().setUp()
        self.scripts = self.folder / "tree" / "scripts"
        self.scripts.mkdir(parents=True)
        shutil.copy(ROOT / "scripts/check-slow", self.scripts)
        # The scripts that it calls: the address sanitizer finds something.
        for name in ("test", "fuzz"):
            body = '[[ $1 != --asan ]] || { echo "50% tests passed"; exit 8; }\necho "100% tests passed"'
            shutil.copy(self.fake(name, body), self.scripts)

    def check_slow(self, *parts):
        command = [self.scripts / "check-slow", *parts]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def test_runs_the_named_parts_and_says_how_each_ended(self):
        result = self.check_slow("debug", "tsan")
        self.assertEqual(result.returncode, 0, result)
        self.assertRegex(result.stdout, r"debug +ok .*100% tests passed\ntsan +ok ")
        self.assertEqual(self.calls("test"), ["test --debug --without-mpi", "test --tsan"])

    def test_goes_on_after_a_failure_and_then_fails(self):
        result = self.check_slow("asan", "fuzz")
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stdout, r"asan +FAILED .*50% tests passed")
        self.assertRegex(result.stdout, r"\nfuzz +ok ")
        self.assertIn("check-slow: failed: asan", result.stdout)
        self.assertEqual(len(self.calls("fuzz")), 2)

    def test_a_part_that_does_not_exist_is_refused_before_anything_runs(self):
        result = self.check_slow("debug", "everything")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("no part 'everything'; choose from plain odr", result.stderr)
        self.assertEqual(self.calls("test"), [])


if __name__ == "__main__":
    unittest.main()
