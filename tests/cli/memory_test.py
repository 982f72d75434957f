"""Models that are larger than the memory, and memory that a process may not have."""

import json
import os
import pathlib
import re
import resource
import subprocess
import unittest

import h5py
import numpy

from harness import AT_ONCE, BINARY, BinaryTest, without_sanitizer

LAUNCH = pathlib.Path(os.environ["UNISONO_SOURCE"]) / "scripts/launch"
MEBI = 1 << 20


def network(units):
    return f"""
name = "large"
data.path = "digits.h5"
train = {{ epochs = 1, batch_size = 24, threads = 1 }}
optimizer = {{ kind = "adam", learning_rate = 0.0001 }}
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [
  {{ kind = "flatten" }},
  {{ kind = "dense", units = {units} }},
  {{ kind = "relu" }},
  {{ kind = "dense", units = {units} }},
  {{ kind = "relu" }},
  {{ kind = "dense", units = 10 }},
]
"""


class MeasuredTest(BinaryTest):
    def measured(self, *words):
        """Its output, and the most memory that it took."""
        with open(self.folder / "out.txt", "w") as out:
            child = subprocess.Popen([BINARY, *words], cwd=self.folder, stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return (self.folder / "out.txt").read_text(), usage.ru_maxrss * 1024


class TooLarge(BinaryTest):
    def test_info_tells_the_memory_of_a_model_that_no_machine_holds(self):
        self.write("large.toml", network(1_000_000))
        for ranks in (0, 2):
            told = json.loads(self.succeed("info", "large.toml", "--json", ranks=ranks, timeout=60).out)
            self.assertGreater(told["parameters"], 10**12)
            self.assertGreater(told["peak_memory_bytes"], 4 * 4 * 10**12)  # θ, gradient and Adam's two
            self.assertGreater(told["memory"]["scratch of the kernels"], 0)
            self.assertIn("peak memory of a rank, predicted: ", self.succeed("info", "large.toml", ranks=ranks).out)

    def test_info_takes_little_memory_itself(self):
        self.write("large.toml", network(30_000))  # 3.4 GiB of parameters
        words = [BINARY, "info", "large.toml"]
        child = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        self.assertLess(usage.ru_maxrss * 1024, 500 * MEBI)

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_info_where_a_try_does_not_fit(self):
        self.write("large.toml", network(4_000))
        done = subprocess.run(
            [BINARY, "info", "large.toml"], cwd=self.folder, capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (460 * MEBI, 460 * MEBI)),
        )
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("peak memory of a rank, predicted: ", done.stdout)


WIDE = """
name = "wide"
data.path = "wide.h5"
[model]
kind = "linear"
loss = "logistic"
l2 = 0.001
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 1
threads = 1
[strategy]
kind = "serial"
"""


class ManyFeatures(MeasuredTest):
    """Linear models of sparse rows, with far more columns than values."""

    COLUMNS = 30_000_000

    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        with h5py.File(self.folder / "wide.h5", "w") as file:
            for group in ("train", "test"):
                columns = numpy.sort(random.integers(0, self.COLUMNS, (1000, 10)), axis=1)
                file[f"{group}/features/indptr"] = numpy.arange(0, 10_001, 10).astype("u8")
                file[f"{group}/features/indices"] = columns.ravel().astype("u4")
                file[f"{group}/features"].attrs["columns"] = self.COLUMNS
                file[f"{group}/labels"] = random.integers(0, 2, 1000)
        self.write("wide.toml", WIDE)

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_info_takes_little_memory_and_predicts_that_of_training(self):
        two_threads = ("--set", "strategy.kind=hogwild", "--set", "strategy.threads=2")
        for words in ((), ("--set", "model.l2=0"), two_threads):
            told, taken = self.measured("info", "wide.toml", "--json", *words)
            self.assertLess(taken, 4 * self.COLUMNS)  # less than θ
            predicted = json.loads(told)["peak_memory_bytes"]
            _, needed = self.measured("train", "wide.toml", "--overwrite", *words)
            self.assertLess(needed, predicted / 0.9, json.loads(told)["memory"])
            self.assertGreater(needed, predicted / 1.1, json.loads(told)["memory"])
            self.assertGreater(needed, 2 * 4 * self.COLUMNS)  # θ, and its copy for a checkpoint


class ThreadsWithModels(MeasuredTest):
    @without_sanitizer("a sanitizer needs memory of its own")
    def test_each_thread_that_makes_its_own_steps_has_activations(self):
        layers = '[{ kind = "convolution", channels = 24, kernel = 3 }, { kind = "dense", units = 10 }]'
        self.write("own.toml", f'name = "own"\ndata.path = "digits.h5"\noptimizer.learning_rate = 0.01\n'
                   f'train = {{ epochs = 4, batch_size = 120 }}\n[model]\nkind = "network"\nlayers = {layers}\n')
        of_threads = {}
        for threads in (1, 3):
            words = ("--set", "strategy.kind=hogwild", "--set", f"strategy.threads={threads}")
            told, _ = self.measured("info", "own.toml", "--json", *words)
            predicted = json.loads(told)["peak_memory_bytes"]
            _, needed = self.measured("train", "own.toml", "--overwrite", *words)
            self.assertLess(needed, predicted / 0.9, told)
            self.assertGreater(needed, predicted / 1.1, told)
            of_threads[threads] = needed
        self.assertGreater(of_threads[3], of_threads[1] + 2 * 2 * 4 * 120 * 24 * 26 * 26)  # values and gradients


class LimitedAddresses(BinaryTest):
    def words(self, mebibytes):
        """That start a training on two ranks, which may address so much each."""
        self.write("large.toml", network(4_000))  # 73 MiB of parameters
        shell = f'ulimit -v {mebibytes * 1024}; exec "$@"'
        return [LAUNCH, "-n", "2", "bash", "-c", shell, "-", BINARY, "train", "large.toml", "--output", "run",
                "--overwrite"]

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_memory_that_cannot_be_had_is_called_memory(self):
        before = {path.name for path in pathlib.Path("/dev/shm").glob("osc_sm.*")}
        told = set()
        for mebibytes in (300, 400, 500, 600):
            with self.subTest(mebibytes=mebibytes):
                done = subprocess.run(
                    self.words(mebibytes), cwd=self.folder, capture_output=True, text=True, check=False, timeout=100,
                    env={**os.environ, **AT_ONCE},
                )
                self.assertIn(done.returncode, (0, 6), done)
                said = re.findall(r"^unisono: .*$", done.stderr, re.MULTILINE)
                self.assertEqual(len(said), 1 if done.returncode == 6 else 0, done)
                if said:
                    # A thread whose stack finds no room is also a want of memory: its error names the limit.
                    thread = rf".* the system started none: .*may address {mebibytes} MiB \(ulimit -v\)"
                    self.assertRegex(said[0], f"^unisono: device error: (out of memory|a window of |{thread})")
                    told.add("error")
                if re.search(r"no room for a shared window of [\d.]+ MiB \(this process may not address", done.stderr):
                    told.add("window")
                self.assertNotIn("MPI_ERR", done.stderr)
        self.assertEqual(told, {"error", "window"})
        self.assertEqual({path.name for path in pathlib.Path("/dev/shm").glob("osc_sm.*")} - before, set())

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_so_little_that_mpi_cannot_start_is_said(self):
        for mebibytes in (100, 150, 195):
            done = subprocess.run(
                self.words(mebibytes), cwd=self.folder, capture_output=True, text=True, check=False, timeout=100,
            )
            self.assertEqual(done.returncode, 6, done)
            said = re.findall(r"^unisono: .*$", done.stderr, re.MULTILINE)
            self.assertEqual(len(said), 1, done)
            self.assertRegex(said[0], f"device error: this process may address only {mebibytes} MiB .*ulimit -v")


if __name__ == "__main__":
    unittest.main()
