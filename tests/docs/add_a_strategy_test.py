"""docs/add-a-strategy.md works: its example is added to a copy of the sources, as it says and nowhere else, and what it
counts is found in all that a run leaves.

UNISONO_SOURCE=. UNISONO=build/release/bin/unisono python3 tests/docs/add_a_strategy_test.py
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"]).resolve()
sys.path.insert(0, str(SOURCE / "tests/cli"))
import harness  # noqa: E402

CONFIG = """
name = "vote"
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 10 }]
[optimizer]
learning_rate = 0.001
[train]
epochs = 2
batch_size = 24
threads = 1
report_every_steps = 1
[strategy]
kind = "majority_vote"
[metrics]
tensorboard = true
"""


def sources_in(folder):
    """Copies what a clone would have, with what has been edited since."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=SOURCE, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (SOURCE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, folder / name)


def replace_once(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


def add_example(folder):
    """Follows the guide: the strategy's file, two places of the table, its test."""
    blocks = re.findall(r"```cpp\n(.*?)```", (folder / "docs/add-a-strategy.md").read_text(), re.DOTALL)
    strategy, test = blocks[0], blocks[2]
    assert "MajorityVote::train" in strategy and "TEST_CASE" in test
    (folder / "src/strategies/majority_vote.cpp").write_text(strategy)
    (folder / "tests/strategies/majority_vote_test.cpp").write_text(test)
    table = folder / "src/strategies/catalog.cpp"
    replace_once(table, "\nconst std::vector<StrategyKind>& strategy_kinds() {",
                 "StrategyKind majority_vote_strategy();\n\nconst std::vector<StrategyKind>& strategy_kinds() {")
    replace_once(table, "stratified_strategy()};", "stratified_strategy(), majority_vote_strategy()};")


class AddAStrategy(unittest.TestCase):
    def run_in(self, folder, *command):
        process = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
        self.assertEqual(process.returncode, 0, f"{command}\n{process.stdout[-4000:]}\n{process.stderr[-4000:]}")
        return process.stdout

    def test_the_example_of_the_guide_builds_trains_and_counts(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            sources_in(folder)
            add_example(folder)
            self.run_in(folder, "cmake", "--preset", "release", "-DUNISONO_TESTS=ON")
            self.run_in(folder, "cmake", "--build", "build/release", "--target", "unisono", "strategies_tests")
            binaries = folder / "build/release/bin"
            self.run_in(folder, binaries / "strategies_tests", "[majority_vote]")
            self.assertIn("majority_vote", self.run_in(folder, binaries / "unisono", "config", "reference"))

            harness.draw_digits(folder / "digits.h5")
            (folder / "vote.toml").write_text(CONFIG)
            said = self.run_in(folder, *harness.MPIRUN, "-n", "3", binaries / "unisono", "train", "vote.toml")
            self.assertRegex(said, r"\n  votes +[0-9.]+ MB per epoch and rank\n")
            self.check_run(folder / "runs/vote", binaries / "unisono")

    def check_run(self, run, unisono):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        reported = [line["voted_bytes"] for line in lines if line["event"] == "train"]
        self.assertGreater(min(reported), 0)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["voted_bytes"], sum(reported))
        self.assertEqual(summary["counters"], {"voted_bytes": "bytes"})
        # One gradient of each rank in each step, padded to whole cache lines.
        self.assertEqual(summary["voted_bytes"] % (3 * summary["steps"] * 64), 0)
        events = next(run.rglob("events.out.tfevents*")).read_bytes()
        self.assertIn(b"train/voted_bytes", events)
        self.run_in(run, unisono, "report", run)
        page = (run / "report.html").read_text()
        self.assertTrue("<title>Voted bytes</title>" in page, "the report has no curve of the counter")
        self.assertTrue(f"<td>{summary['voted_bytes']:,} bytes</td>" in page, "the report lacks the counter's sum")


if __name__ == "__main__":
    unittest.main()
