"""What surrounds a command: pipes in place of files, ports, and numbers at the end of their range."""

import os
import re
import time
import unittest

from harness import CONFIG, BinaryTest, messages, ranks_of, settings

CONFIGURATION, DATA = 2, 3


def listening_ports(process):
    """Of TCP, in hexadecimal."""
    sockets = set()
    for name in os.listdir(f"/proc/{process}/fd"):
        try:
            sockets.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{process}/fd/{name}")))
        except FileNotFoundError:
            pass
    ports = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as lines:
            for words in (line.split() for line in lines):
                if words[9:] and words[3] == "0A" and words[9] in sockets:
                    ports.append(words[1])
    return ports


class EnvironmentTest(BinaryTest):
    def test_pipes_are_no_data_sets(self):
        os.mkfifo(self.folder / "pipe.h5")
        for words in (("data", "describe", "pipe.h5"), ("train", "config.toml", "--set", "data.path=pipe.h5")):
            result = self.unisono(*words, timeout=30)
            self.assertEqual(result.code, DATA, result)
            self.assertRegex(messages(result)[0], "pipe.h5: this is a pipe")

    def test_one_process_listens_on_no_port(self):
        long = settings("train.epochs=100000", "checkpoint.every_epochs=0")
        with self.started("train", "config.toml", "--output", "run", *long) as process:
            self.wait_for_step("run", 1, process)
            time.sleep(0.2)
            for rank in ranks_of(process):
                self.assertEqual(listening_ports(rank), [])

    def test_numbers_that_would_become_zero_are_refused(self):
        def refused(message, *words):
            result = self.unisono("config", "check", *words)
            self.assertEqual(result.code, CONFIGURATION, result)
            self.assertRegex(messages(result)[0], message)

        self.write("small.toml", CONFIG.replace("learning_rate = 0.01", "learning_rate = 1e-400"))
        refused(r"small\.toml:\d+:17: the number 1e-400 is too small: it would become 0", "small.toml")
        refused("--set optimizer.weight_decay=2.5e-999: the number 2.5e-999 is too small", "config.toml", "--set",
                "optimizer.weight_decay=2.5e-999")
        for number in ("0.0", "0e5", "0.000_0", "1e-300"):
            self.succeed("config", "check", "config.toml", "--set", f"optimizer.weight_decay={number}")


if __name__ == "__main__":
    unittest.main()
