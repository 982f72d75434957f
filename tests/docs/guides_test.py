"""The guides docs/add-a-….md work: their examples, a layer, an optimizer and a strategy, are added to a copy of the
sources, as the guides say and nowhere else. A network with all three trains, and what the strategy counts is found in
all that the run leaves.

UNISONO_SOURCE=. UNISONO=build/release/bin/unisono python3 tests/docs/guides_test.py
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
layers = [
  { kind = "flatten" },
  { kind = "dense", units = 12 },
  { kind = "hard_tanh", limit = 2 },
  { kind = "dense", units = 10 },
]
[optimizer]
kind = "lion"
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


def blocks_of(folder, guide):
    return re.findall(r"```cpp\n(.*?)```", (folder / "docs" / guide).read_text(), re.DOTALL)


def the_block_with(blocks, text):
    found = [block for block in blocks if text in block]
    assert len(found) == 1, f"{len(found)} blocks have {text!r}"
    return found[0]


def parts_of(block):
    """Of a block that shows two places of one file."""
    first, second = block.split("…\n")
    return first, second


def add_row(table, list_begin, block, last_row):
    """Declares a row of a table and adds it to the list, as the guide's block shows."""
    declaration, rows = parts_of(block)
    replace_once(table, list_begin, f"{declaration}\n{list_begin}")
    added = rows.strip()
    added = added[added.index(last_row):]
    replace_once(table, re.search(re.escape(last_row) + r",?(};)?\n", table.read_text())[0], added + "\n")


def add_kernel(folder, header, blocks, interface):
    """The header of an interface of kernels, and what the CPU's backend gets."""
    (folder / "include/unisono/kernels" / header).write_text(the_block_with(blocks, f"class {interface} {{"))
    backend = folder / "src/kernels/cpu/cpu_backend.hpp"
    first, declarations = parts_of(the_block_with(blocks, "class CpuBackend final"))
    assert first.strip() == f"class CpuBackend final : public Backend, public {interface} {{", first
    text = backend.read_text()
    head = re.search(r"class CpuBackend final : public Backend.* {", text)[0]
    replace_once(backend, head, head.replace(" {", f", public {interface} {{"))
    replace_once(backend, "\n  void sgd_update(", f"\n{declarations}  void sgd_update(")
    replace_once(backend, '#include "unisono/kernels/backend.hpp"',
                 f'#include "unisono/kernels/backend.hpp"\n#include "unisono/kernels/{header}"')


def add_layer(folder):
    blocks = blocks_of(folder, "add-a-layer.md")
    (folder / "src/nn/layers/hard_tanh.cpp").write_text(the_block_with(blocks, "class HardTanh final"))
    (folder / "tests/nn/hard_tanh_test.cpp").write_text(the_block_with(blocks, "TEST_CASE"))
    (folder / "src/kernels/cpu/hard_tanh.cpp").write_text(the_block_with(blocks, "void CpuBackend::hard_tanh_forward"))
    add_row(folder / "src/nn/layers/catalog.cpp", "const std::vector<LayerKind>& layer_kinds() {",
            the_block_with(blocks, "LayerKind hard_tanh_layer();\n"), "residual_block()")
    add_kernel(folder, "hard_tanh.hpp", blocks, "HardTanhKernels")


def add_optimizer(folder):
    blocks = blocks_of(folder, "add-an-optimizer.md")
    (folder / "src/optim/lion.cpp").write_text(the_block_with(blocks, "class Lion final"))
    (folder / "tests/optim/lion_test.cpp").write_text(the_block_with(blocks, "TEST_CASE"))
    with (folder / "src/kernels/cpu/updates.cpp").open("a") as updates:
        updates.write(the_block_with(blocks, "void CpuBackend::lion_update"))
    add_row(folder / "src/optim/catalog.cpp", "const std::vector<OptimizerKind>& optimizer_kinds() {",
            the_block_with(blocks, "OptimizerKind lion();\n"), "als()")
    add_kernel(folder, "lion.hpp", blocks, "LionKernels")


def add_strategy(folder):
    blocks = blocks_of(folder, "add-a-strategy.md")
    (folder / "src/strategies/majority_vote.cpp").write_text(the_block_with(blocks, "MajorityVote::train"))
    (folder / "tests/strategies/majority_vote_test.cpp").write_text(the_block_with(blocks, "TEST_CASE"))
    add_row(folder / "src/strategies/catalog.cpp", "const std::vector<StrategyKind>& strategy_kinds() {",
            the_block_with(blocks, "StrategyKind majority_vote_strategy();\n"), "stratified_strategy()")


class Guides(unittest.TestCase):
    def run_in(self, folder, *command):
        process = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
        self.assertEqual(process.returncode, 0, f"{command}\n{process.stdout[-4000:]}\n{process.stderr[-4000:]}")
        return process.stdout

    def test_the_examples_build_train_and_count(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            sources_in(folder)
            add_layer(folder)
            add_optimizer(folder)
            add_strategy(folder)
            self.run_in(folder, "cmake", "--preset", "release", "-DUNISONO_TESTS=ON")
            tests = {"nn_tests": "[hard_tanh]", "optim_tests": "[lion]", "strategies_tests": "[majority_vote]"}
            self.run_in(folder, "cmake", "--build", "build/release", "--target", "unisono", *tests)
            binaries = folder / "build/release/bin"
            for binary, tag in tests.items():
                self.run_in(folder, binaries / binary, tag)
            self.run_in(folder, binaries / "optim_tests")  # every rule of the table, and so Lion
            reference = self.run_in(folder, binaries / "unisono", "config", "reference")
            for kind in ("hard_tanh", "lion", "majority_vote"):
                self.assertIn(kind, reference)

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
        self.assertTrue(f">{summary['voted_bytes']:,} bytes</td>" in page, "the report lacks the counter's sum")


if __name__ == "__main__":
    unittest.main()
