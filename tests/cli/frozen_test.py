"""A rank that does not go on: it alone is named, whatever the strategy, and the others end with exit code 5."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import unittest

from harness import AT_ONCE, BINARY, BinaryTest, kill_session

LAUNCH = pathlib.Path(os.environ["UNISONO_SOURCE"]) / "scripts/launch"
AT_A_TIME = 4  # they wait most of the time
OPTIONS = (
    "communication.timeout_seconds=3",  # enough for a busy machine
    "train.epochs=100000",
    "train.report_every_steps=20",
)
# The rank that is stopped, and the strategy.
CASES = {
    "allreduce": (0, "kind=allreduce"),
    "averaging": (1, "kind=averaging", "period=4"),
    "hogwild": (2, "kind=hogwild", "period=4"),
    "asynchronous": (0, "kind=parameter_server"),
    "synchronous": (2, "kind=parameter_server", "consistency=synchronous"),
    "a worker": (0, "kind=parameter_server", "servers=1"),
    "a bounded worker": (1, "kind=parameter_server", "servers=1", "consistency=bounded", "staleness=2"),
    "the server": (2, "kind=parameter_server", "servers=1", "consistency=synchronous"),
    "an elastic worker": (1, "kind=elastic_averaging", "period=4", "servers=1"),
    "stratified": (1, "kind=stratified"),
    "the first stage": (0, "kind=allreduce", "replica.stages=3", "train.micro_batches=6"),
    "the last stage": (2, "kind=allreduce", "replica.stages=3", "train.micro_batches=6"),
}
RATINGS = """
name = "ratings"
model = { kind = "factorization", dimension = 4 }
data.path = "ratings.h5"
optimizer = { kind = "sgd", learning_rate = 0.01 }
train = { batch_size = 0, threads = 1 }
checkpoint.every_epochs = 1000000
"""


def process_of(rank, folder):
    """The process of a job that runs in this folder."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            if (
                (process / "comm").read_text() == "unisono\n"
                and os.readlink(process / "cwd") == str(folder)
                and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables
            ):
                return int(process.name)
    raise AssertionError(f"rank {rank} is not there")


class FrozenRank(BinaryTest):
    def freeze(self, name):
        """The exit code of a run on three ranks one of which is stopped, what it said, and that rank's process."""
        rank, *keys = CASES[name]
        folder = self.folder / name
        folder.mkdir()
        os.symlink(self.digits, folder / "digits.h5")
        os.symlink(self.folder / "ratings.h5", folder / "ratings.h5")
        config = self.folder / ("ratings.toml" if name == "stratified" else "config.toml")
        settings = (*OPTIONS, *(key if "." in key else f"strategy.{key}" for key in keys))
        words = [LAUNCH, "-n", "3", BINARY, "train", config, "--output", "run"]
        words += [word for setting in settings for word in ("--set", setting)]
        with subprocess.Popen(
            words,
            cwd=folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **AT_ONCE},
        ) as process:
            try:
                self.wait_for_step(f"{name}/run", 40, process)
                frozen = process_of(rank, folder)
                os.kill(frozen, signal.SIGSTOP)
                out, _ = process.communicate(timeout=90)
                return process.returncode, out, frozen
            finally:
                kill_session(process.pid)

    def test_the_rank_that_was_stopped_is_named_alone(self):
        self.write(
            "ratings.txt", "".join(f"u{i % 40} i{i * 7 % 31} {1 + i * 13 % 9 / 2}\n" for i in range(8000))
        )
        self.succeed("data", "import", "ratings", "ratings.txt", "--output", "ratings.h5")
        self.write("ratings.toml", RATINGS)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = {name: pool.submit(self.freeze, name) for name in CASES}
        for name, run in runs.items():
            with self.subTest(name):
                code, out, frozen = run.result()
                self.assertEqual(code, 5, out)
                said = re.findall(r"^unisono: .*error: .*$", out, re.MULTILINE)
                self.assertEqual(len(said), 1, out)
                named = rf"rank {CASES[name][0]} \(\S+, pid {frozen}, last step \d+\)"
                self.assertRegex(said[0], rf"^unisono: communication error: {named} did not (arrive|answer) ")
                self.assertEqual(said[0].count("pid "), 1, out)
                self.assertIn(" within 3 s; see what holds it up there", said[0])


if __name__ == "__main__":
    unittest.main()
