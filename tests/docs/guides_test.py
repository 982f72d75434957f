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


def add_example(folder, guide, sources, table, row, last_row):
    """What all guides have: files of an example's own, and its row in a table.

    sources: {path: what the guide's block for it contains}
    table, row, last_row: the table's file, the declaration of the example's row, and the row before it
    """
    blocks = blocks_of(folder, guide)
    for path, text in sources.items():
        (folder / path).write_text(the_block_with(blocks, text))
    list_begin = re.search(r"const std::vector<\w+Kind>& \w+_kinds\(\) {", (folder / table).read_text())[0]
    add_row(folder / table, list_begin, the_block_with(blocks, f"Kind {row};\n"), last_row)
    return blocks


def add_layer(folder):
    sources = {
        "src/nn/layers/hard_tanh.cpp": "class HardTanh final",
        "src/kernels/cpu/hard_tanh.cpp": "void CpuBackend::hard_tanh_forward",
        "tests/nn/hard_tanh_test.cpp": "TEST_CASE",
    }
    table = "src/nn/layers/catalog.cpp"
    blocks = add_example(folder, "add-a-layer.md", sources, table, "hard_tanh_layer()", "scale_layer()")
    add_kernel(folder, "hard_tanh.hpp", blocks, "HardTanhKernels")


def add_optimizer(folder):
    sources = {"src/optim/lion.cpp": "class Lion final", "tests/optim/lion_test.cpp": "TEST_CASE"}
    blocks = add_example(folder, "add-an-optimizer.md", sources, "src/optim/catalog.cpp", "lion()", "als()")
    with (folder / "src/kernels/cpu/updates.cpp").open("a") as updates:
        updates.write(the_block_with(blocks, "void CpuBackend::lion_update"))
    add_kernel(folder, "lion.hpp", blocks, "LionKernels")


def add_strategy(folder):
    sources = {
        "src/strategies/majority_vote.cpp": "MajorityVote::train",
        "tests/strategies/majority_vote_test.cpp": "TEST_CASE",
    }
    table = "src/strategies/catalog.cpp"
    add_example(folder, "add-a-strategy.md", sources, table, "majority_vote_strategy()", "stratified_strategy()")


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
