"""Threads that cannot be had: whatever a run needs them for, it ends with one message and exit code 6."""

import os
import pathlib
import resource
import subprocess
import unittest

from harness import BINARY, BinaryTest, command, messages

SOURCE = pathlib.Path(__file__).with_name("few_threads.c")
MOST = 20  # a run of these needs fewer at a time

CASES = {
    "serial": (),
    "hogwild": ("strategy.kind=hogwild",),
    "parameter_server": ("strategy.kind=parameter_server",),
    "streaming": ("data.reader=streaming",),
}


@unittest.skipIf("libasan" in subprocess.run(["ldd", BINARY], capture_output=True, text=True).stdout,
                 "the address sanitizer wants to be loaded first")
class FewThreads(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.library = pathlib.Path(cls.shared.name) / "few_threads.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", cls.library, SOURCE, "-ldl"], check=True)

    def with_threads(self, most, *arguments, ranks=0):
        environment = {"MOST_THREADS": str(most), "LD_PRELOAD": str(self.library)}
        return self.unisono(*arguments, ranks=ranks, environment=environment)

    def assert_says_so(self, result):
        self.assertEqual(result.code, 6, result)
        said = messages(result)
        self.assertEqual(len(said), 1, result)
        self.assertRegex(
            said[0],
            r"^unisono: device error: [a-z' ]+ needs \d+ more threads?, but the system "
            r"started (none|\d+): "
            r"Resource temporarily unavailable \(.*\); raise the limit, or use fewer threads "
            r"\(train.threads, or strategy.threads where they share a model\)",
        )
        self.assertNotIn("terminate", result.err)

    def test_each_thread_that_is_missing_is_told(self):
        for name, keys in CASES.items():
            options = [word for key in keys for word in ("--set", key)]
            words = ("--set", "train.threads=3", "--set", "train.epochs=1", "--overwrite", *options)
            for most in range(MOST):
                with self.subTest(name=name, threads=most):
                    result = self.with_threads(most, "train", "config.toml", "--output", "run", *words)
                    if result.code == 0:
                        break
                    self.assert_says_so(result)
            self.assertGreater(most, 3, name)  # it did need some
            self.assertLess(most, MOST - 1, name)

    def test_one_rank_of_two_ends_both(self):
        words = ("train", "config.toml", "--output", "run", "--overwrite", "--set", "train.threads=2")
        for most in (0, 1):
            with self.subTest(threads=most):
                self.assert_says_so(self.with_threads(most, *words, ranks=2))

    def test_the_limit_of_the_address_space_is_named(self):
        words = command(0, "train", "config.toml", "--output", "run")
        environment = {**os.environ, "MOST_THREADS": "0", "LD_PRELOAD": str(self.library)}
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env=environment, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)))
        self.assertEqual(done.returncode, 6, done)
        self.assertIn("this process may address 1048576 MiB (ulimit -v)", done.stderr)


if __name__ == "__main__":
    unittest.main()
