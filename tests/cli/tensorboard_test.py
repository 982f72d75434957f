"""`metrics.tensorboard`: files that TensorBoard reads. An independent reader stands in where it is not installed.

UNISONO_TENSORBOARD names a Python interpreter that has the package `tensorboard`.
"""

import json
import os
import struct
import subprocess
import sys
import unittest

import numpy
from harness import BinaryTest, settings
from protobuf import fields

TENSORBOARD = os.environ.get("UNISONO_TENSORBOARD", sys.executable)
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0, "scalars": 0})
events.Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""
SETTINGS = settings("metrics.tensorboard=true", "data.validation_fraction=0.2", "train.report_every_steps=3")


def has_tensorboard():
    words = [TENSORBOARD, "-c", "import tensorboard.backend.event_processing.event_accumulator"]
    return subprocess.run(words, capture_output=True).returncode == 0


def checksum(data):
    """CRC-32C, bit by bit, masked as TFRecord has it."""
    sum = 0xFFFFFFFF
    for byte in data:
        sum ^= byte
        for _ in range(8):
            sum = sum >> 1 ^ (0x82F63B78 if sum & 1 else 0)
    sum ^= 0xFFFFFFFF
    return ((sum >> 15 | sum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, sum_of_length = struct.unpack("<QI", data[:12])
        content, sum = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])[0]
        assert sum_of_length == checksum(data[:8]) and sum == checksum(content)
        yield content
        data = data[16 + length :]


def scalars(data):
    """{tag: [(step, value)]}, and the file's version."""
    found, versions = {}, []
    for record in records(data):
        event = dict(fields(record))
        versions += [event[3].decode()] if 3 in event else []
        for number, value in fields(event.get(5, b"")):
            assert number == 1
            scalar = dict(fields(value))
            found.setdefault(scalar[1].decode(), []).append((event[2], struct.unpack("<f", scalar[2])[0]))
    return found, versions


class Tensorboard(BinaryTest):
    def file(self, run):
        (path,) = (self.folder / run / "tensorboard").iterdir()
        return path

    def expected(self, run):
        """What metrics.jsonl says, as float32."""
        found = {}

        def add(path, value, step):
            if isinstance(value, dict):
                for name, inner in value.items():
                    if (path, name) not in (("train", "step"), ("train", "epoch")):
                        add(f"{path}/{name}", inner, step)
            elif isinstance(value, (int, float)) and not path.endswith(("/step", "/epoch", "/steps_per_epoch")):
                found.setdefault(path, []).append((step, float(numpy.float32(value))))

        for line in self.metrics(run):
            add(line.get("split", "train"), line, line["step"])
        return found

    def test_it_holds_all_numbers(self):
        self.train("run", *SETTINGS)
        found, versions = scalars(self.file("run").read_bytes())
        self.assertEqual(versions, ["brain.Event:2"])
        self.assertEqual(found, self.expected("run"))
        for tag in ("train/loss", "train/seconds/compute", "train/learning_rate", "validation/accuracy", "test/loss"):
            self.assertIn(tag, found)

    def test_there_is_none_by_default(self):
        self.train("run")
        self.assertFalse((self.folder / "run/tensorboard").exists())

    def test_a_resumed_run_has_each_step_once(self):
        often = settings("checkpoint.every_steps=4")  # with a report each
        self.train("whole", *SETTINGS, *often)
        stop = settings("fault.slow_rank=0", "fault.pause_seconds=0.05")
        with self.started("train", "config.toml", "--output", "run", *SETTINGS, *often, *stop) as process:
            self.wait_for_step("run", 9, process)
            process.kill()
            process.wait()
        with open(self.file("run"), "ab") as file:
            file.write(b"cut short")
        self.train("run", *SETTINGS, *often, "--resume")
        found, versions = scalars(self.file("run").read_bytes())
        self.assertEqual(versions, ["brain.Event:2"])
        self.assertEqual(found, self.expected("run"))
        whole, _ = scalars(self.file("whole").read_bytes())
        self.assertEqual(found["train/loss"], whole["train/loss"])

    def test_overwriting_begins_anew(self):
        self.train("run", *SETTINGS)
        self.train("run", *SETTINGS, "--overwrite")
        found, _ = scalars(self.file("run").read_bytes())
        self.assertEqual(found, self.expected("run"))

    @unittest.skipUnless(has_tensorboard(), "there is no TensorBoard: pip install tensorboard")
    def test_tensorboard_reads_it(self):
        self.train("run", *SETTINGS)
        words = [TENSORBOARD, "-c", READ, str(self.folder / "run/tensorboard")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        read = {tag: [tuple(one) for one in values] for tag, values in json.loads(done.stdout).items()}
        self.assertEqual(read, self.expected("run"))


if __name__ == "__main__":
    unittest.main()
