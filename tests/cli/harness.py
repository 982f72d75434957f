"""What the tests of the binary share: they run it on some ranks, on small sets of digits, and look at what it leaves.

UNISONO=build/release/bin/unisono python3 tests/cli/train_test.py [TestClass.test_name]
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

import h5py
import numpy

BINARY = os.environ["UNISONO"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-q"]
INTERRUPTED = 75
# mpirun sleeps for two seconds between the signals that it sends to ranks which have ended already.
AT_ONCE = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}

# Everything that a run's continuation depends on: moments, dropout, batch statistics, augmentation, shuffling.
CONFIG = """
name = "test"
seed = 3
[data]
path = "digits.h5"
[data.augmentation]
shift = 1
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [
  { kind = "convolution", channels = 4, kernel = 5, stride = 2, bias = false },
  { kind = "batch_norm" },
  { kind = "relu" },
  { kind = "flatten" },
  { kind = "dropout", rate = 0.2 },
  { kind = "dense", units = 10 },
]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 2
batch_size = 24
threads = 1
report_every_steps = 1
"""

# A network without layers whose ranks must meet, of which `unisono plan` makes predictions.
NETWORK = """
name = "net"
[data]
path = "digits.h5"
[model]
kind = "network"
layers = [{ kind = "dense", units = 64 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.1
momentum = 0.9
[train]
epochs = 1
batch_size = 24
threads = 1
"""


# Of `seconds` in a summary, a report or a benchmark, beside their total.
PARTS = {
    "compute",
    "exposed_communication",
    "straggler_wait",
    "bubble",
    "input",
    "optimizer",
    "evaluation",
    "checkpoint",
    "other",
}


def draw_digits(path, *options):
    """A set of 240 and 101 digits."""
    words = [BINARY, "data", "digits", "--train", "240", "--test", "101", *options, "--output", path]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def command(ranks, *arguments):
    words = [BINARY, *map(str, arguments)]
    return words if ranks == 0 else [*MPIRUN, "-n", str(ranks), *words]


def network_of_table(hidden):
    """The config of a small network for set.h5, with places for its {loss} and for the {units} of its outputs."""
    return """
name = "net"
[data]
path = "set.h5"
[model]
kind = "network"
loss = "{loss}"
layers = [
  {{ kind = "dense", units = HIDDEN }},
  {{ kind = "relu" }},
  {{ kind = "dense", units = {units} }},
]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 3
batch_size = 16
threads = 1
""".replace("HIDDEN", str(hidden))


def settings(*pairs):
    """Such as "train.epochs=3", as words of a command."""
    return [word for pair in pairs for word in ("--set", pair)]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


# What the address sanitizer says of each process that has fibers, which is not the program's.
FIBERS = re.compile(r"^==\d+==WARNING: ASan doesn't fully support makecontext/swapcontext functions .*\n", re.MULTILINE)


def finished(words, folder, timeout=120, environment=None, **options):
    """The result of a command that runs in a folder, to its end, and gets no signals."""
    done = subprocess.run(
        words,
        cwd=folder,
        timeout=timeout,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **AT_ONCE, **(environment or {})},
        **options,
    )
    return Result(done.returncode, done.stdout, FIBERS.sub("", done.stderr))


def without_sanitizer(reason):
    """Leaves a test out where the binary has the address sanitizer."""
    return unittest.skipIf("keep_modules" in os.environ.get("LD_PRELOAD", ""), reason)


class BinaryTest(unittest.TestCase):
    """A test with a folder of its own. Ranks: 0 is the bare binary, others go through mpirun."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="unisono-test-")
        cls.digits = pathlib.Path(cls.shared.name) / "digits.h5"
        draw_digits(cls.digits)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="unisono-test-")
        self.folder = pathlib.Path(self.scratch.name)
        os.symlink(self.digits, self.folder / "digits.h5")
        self.write("config.toml", CONFIG)

    def tearDown(self):
        self.scratch.cleanup()

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def unisono(self, *arguments, ranks=0, timeout=120, environment=None):
        return finished(command(ranks, *arguments), self.folder, timeout, environment)

    def succeed(self, *arguments, **options):
        result = self.unisono(*arguments, **options)
        self.assertEqual(result.code, 0, result)
        return result

    def train(self, output, *arguments, ranks=0, code=0, config="config.toml", environment=None):
        words = ("train", config, "--output", output, *arguments)
        result = self.unisono(*words, ranks=ranks, environment=environment)
        self.assertEqual(result.code, code, result)
        return result

    def started(self, *arguments, ranks=0, environment=None):
        """A run in the background, which is gone when the block ends. Where the test kills its ranks, AT_ONCE is an
        environment for it; mpirun must have the time that it usually has where it gets a signal itself."""
        return self.running(command(ranks, *arguments), environment)

    @contextlib.contextmanager
    def running(self, words, environment=None):
        """A command in the background, whose whole session is gone when the block ends."""
        process = subprocess.Popen(
            words,
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield process
        finally:
            kill_session(process.pid)
            process.communicate()

    def wait_for_step(self, run, step, process, timeout=60):
        """Until metrics.jsonl of a run says that this step was made."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.last_step(run) >= step:
                return
            self.assertIsNone(process.poll(), "it ended before it was stopped")
            time.sleep(0.005)
        self.fail(f"step {step} was not made")

    def last_step(self, run):
        with contextlib.suppress(FileNotFoundError):
            return max((line["step"] for line in self.metrics(run)), default=0)
        return 0

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())

    def metrics(self, run):
        text = (self.folder / run / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def timeless(self, run):
        """The lines of metrics.jsonl without what depends on the clock."""
        of_clock = ("seconds", "examples_per_second", "tokens_per_second", "busy")

        def kept(line):
            if not isinstance(line, dict):
                return line
            return {key: kept(value) for key, value in line.items() if key not in of_clock}

        return [kept(line) for line in self.metrics(run)]

    def checkpoints(self, run):
        return sorted((self.folder / run / "checkpoints").glob("step-*.h5"))

    def vectors(self, run):
        """Every array of a run's last checkpoint: parameters, statistics, optimizer state."""
        arrays = {}

        def collect(name, item):
            if isinstance(item, h5py.Dataset) and item.dtype == numpy.float32:
                arrays[name] = item[()]

        with h5py.File(self.checkpoints(run)[-1], "r") as file:
            file.visititems(collect)
        return arrays

    def assert_same_bits(self, run, other):
        a, b = self.vectors(run), self.vectors(other)
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertEqual(a[name].tobytes(), b[name].tobytes(), name)

    def figures_of(self, run):
        """All that metrics.jsonl says, but for times."""
        lines = self.metrics(run)
        for line in lines:
            line.pop("seconds", None)
            line.pop("examples_per_second", None)
        return lines

    def assert_same_run(self, run, other):
        self.assert_same_bits(run, other)
        self.assertEqual(self.figures_of(run), self.figures_of(other))

    def assert_close(self, run, other, tolerance, groups=("parameters", "statistics")):
        """Elements differ by at most `tolerance` times the largest one of their array."""
        a, b = self.vectors(run), self.vectors(other)
        for name in a:
            if not name.startswith(groups):
                continue
            scale = float(numpy.abs(a[name]).max())
            self.assertLessEqual(float(numpy.abs(a[name] - b[name]).max()), tolerance * scale, name)


def processes():
    """Of every process that still runs: its id, its name, its parent's id and its session's id."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):  # not "*/stat", for which it may find one that just ends
        with contextlib.suppress(OSError):
            name, figures = (process / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            state, parent, _, session = figures.split()[:4]
            if state != "Z":
                yield int(process.name), name, int(parent), int(session)


def ranks_of(process):
    """The ids of a run's ranks: mpirun's children, or the process itself."""
    children = sorted(id for id, name, parent, _ in processes() if name == "unisono" and parent == process.pid)
    return children or [process.pid]


def kill_session(session, timeout=60):
    """Kills all processes of a session, and waits for their end: until then they write files. Each rank has a process
    group of its own, so that killing mpirun's group leaves them alive for a moment."""
    deadline = time.monotonic() + timeout
    while members := [id for id, _, _, of in processes() if of == session]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {members} outlive SIGKILL")
        for id in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(id, signal.SIGKILL)
        time.sleep(0.005)


def messages(result):
    """The lines in which unisono says what went wrong."""
    return re.findall(r"^unisono: .*error: .*$", result.out + "\n" + result.err, re.MULTILINE)


def names_in(item):
    """A list of strings, as unisono writes it, or as users of h5py do."""
    if isinstance(item, h5py.Dataset):
        return list(item.asstr()[:])
    text, ends = item["bytes"][:].tobytes(), item["offsets"][:]
    return [text[a:b].decode() for a, b in zip(ends, ends[1:])]
