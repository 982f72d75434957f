"""Those comparisons that need no network, on their quick settings: they run through and write their tables."""

import gzip
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"])


LLM_C = """#!/usr/bin/env python3
# int B = 4; int T = 64; step <= 40; int val_num_batches = 5;
import array
import pathlib

model = array.array("i", pathlib.Path("gpt2_124M.bin").read_bytes())
magic, version, context, vocabulary, layers, heads, units, padded = model[:8]
assert (magic, version, vocabulary, padded) == (20240326, 3, 65, 128)
block = 12 * units**2 + 13 * units
assert len(model) - 256 == (padded + context) * units + layers * block + 2 * units
for name in ("train", "val"):
    data = pathlib.Path(f"dev/data/tinyshakespeare/tiny_shakespeare_{name}.bin").read_bytes()
    head, tokens = array.array("i", data[:1024]), array.array("H", data[1024:])
    assert list(head[:3]) == [20240520, 1, len(tokens)] and max(tokens) < vocabulary
print("step 0: train loss 4.2 (took 900.0 ms)\\nstep 1: train loss 4.1 (took 600.0 ms)")
"""


class ScriptTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.output = self.folder / "performance.md"
        # An environment in which nothing is missing: this interpreter, which has numpy and h5py.
        (self.folder / "venv" / "bin").mkdir(parents=True)
        (self.folder / "venv" / "bin" / "python").symlink_to(sys.executable)

    def run_script(self, name, *words, code=0):
        words = [SOURCE / "bench" / name, "--unisono", os.environ["UNISONO"], "--output", self.output, *words]
        words += ["--venv", self.folder / "venv", "--quick"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        done = subprocess.run([sys.executable, *words], text=True, capture_output=True, env=environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def draw_images(self):
        """A folder of files as those of Fashion-MNIST."""
        images = self.folder / "images"
        images.mkdir()
        random = numpy.random.default_rng(1)
        for group, count in (("train", 640), ("t10k", 64)):
            pixels = random.integers(0, 256, (count, 28, 28), numpy.uint8)
            labels = random.integers(0, 10, count, numpy.uint8)
            for name, values in ((f"{group}-images-idx3-ubyte", pixels), (f"{group}-labels-idx1-ubyte", labels)):
                head = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
                (images / f"{name}.gz").write_bytes(gzip.compress(head + values.tobytes()))
        return images


class Scripts(ScriptTest):
    def test_factorization_without_its_peer(self):
        done = self.run_script("compare-factorization")
        self.assertIn("LIBMF: not given; name its folder with --libmf", done.stdout)
        text = self.output.read_text()
        self.assertIn("LIBMF: not given", text)
        self.assertRegex(text, r"\| unisono, `serial` \| 1 \| [\d.]+ M \|  \| 0\.\d{4} \|")
        self.assertRegex(text, r"\| unisono, `hogwild` \| 2 \| [\d.]+ M \|")

    def test_language_models_without_their_peer(self):
        words = ["--alone", "--cases", "characters", "--threads", "1", "--rounds", "1", "--two-ranks", "characters"]
        self.run_script("compare-language-models", *words)
        text = self.output.read_text()
        self.assertRegex(text, r"vocabulary \| — \| [\d,]+ \| [\d,]+ \| [\d,]+ \| — \| — \| [\d.]+ \| [\d.]+ \(≥ 1.6\)")
        self.assertIn("unisono alone; medians of one round", text)
        figures = r"1 \| — \| — \| [\d,]+ \| [\d,]+ \| \d+ \| \d+ % \| — \|"
        self.assertRegex(text, r"\| 4 × 128, T = 64, batch 12, 65 tokens in the vocabulary \| " + figures)

    def parts_of_language_models(self, *words):
        """The text that the script writes, of parts that stand beside the models and two ranks."""
        parts = ("llm.c", "attention", "generation")
        marks = [f"<!-- compare-language-models {part}: {end} -->\n" for part in parts for end in ("begin", "end")]
        self.output.write_text("".join(marks))
        words = ["--cases", "", "--two-ranks", "", "--rounds", "1", "--threads", "1", "--alone", *words]
        self.run_script("compare-language-models", *words)
        return self.output.read_text()

    def test_language_models_beside_llm_c(self):
        """A program in llm.c's place that only reads its files, and says how fast it was."""
        source = self.folder / "llm.c"
        source.mkdir()
        (source / "Makefile").write_text("train_gpt2: train_gpt2.c\n\tcp $< $@\n\tchmod +x $@\n")
        (source / "train_gpt2.c").write_text(LLM_C)
        text = self.parts_of_language_models("--llm-c", source)
        self.assertRegex(text, r"\| 1 \| 600 \| \d+ \| [\d,]+ \| [\d,]+ \| \d+ \| \d+ % \| [\d.]+ \(≥ 2\) \|")
        (built,) = self.folder.glob("cache/unisono-bench/built/*/train_gpt2")
        self.assertIn("# int B = 12; int T = 64; step <= 1; int val_num_batches = 0;\n", built.read_text())
        (source / "train_gpt2.c").write_text(LLM_C.replace("int T = 64", "int T = 128"))
        words = ["--cases", "", "--two-ranks", "", "--llm-c", source]
        done = self.run_script("compare-language-models", *words, code=1)
        self.assertIn("'int T = 64;' is not there once; it is another version", done.stderr)

    def test_attention_and_generation(self):
        words = ["--cases", "", "--two-ranks", "", "--attention", "--kernels", self.folder / "none"]
        done = self.run_script("compare-language-models", *words, code=1)
        self.assertIn("none does not exist: build it with UNISONO_BENCH, or name it with --kernels", done.stderr)
        if not (pathlib.Path(os.environ["UNISONO"]).parent / "bench_kernels").exists():
            self.skipTest("built without the benchmarks of kernels")
        text = self.parts_of_language_models("--attention", "--generation")
        row = r"\| T = 1024, 6 heads of 64, batch 1 \| 1 \| — \| [\d.]+ \| \d+ \| — \|  \| [\d,]+ \| 6,291,456 \|"
        self.assertRegex(text, row)
        self.assertIn("4 × 128, 300 tokens in the vocabulary, 835,328 parameters; tokens 9 to 40 of one text", text)
        self.assertRegex(text, r"\| 1 \| 3\.4 MB \| [\d.]+ \| [\d,]+ \| [\d.]+ \| [\d.]+ \| [\d.,]+ \(≥ 0\.8\) \|")

    def test_losses_of_language_models_without_their_peer(self):
        parts = ("recipe", "replicas")
        markers = (f"<!-- compare-language-losses {p}: {e} -->\n" for p in parts for e in ("begin", "end"))
        self.output.write_text("".join(markers))
        text = self.folder / "text.txt"
        text.write_text("To be, or not to be: that is the question.\n" * 600)
        words = ["--alone", "--text", text, "--ways", "H = 30"]
        self.run_script("compare-language-losses", *words)
        said = self.output.read_text()
        self.assertRegex(said, r"\| unisono \| (\d\.\d{4}) ± 0\.0000 \| \1 \| [\d.]+ \|")
        # Two sums of a byte and 1/128 for each parameter but the norms', beside four of four bytes.
        self.assertRegex(said, r"\| `allreduce` \| 1 \| \d\.\d{4} ± 0\.0000 \|  \| 19\.\d \|  \|")
        figures = r"\d\.\d{4} \| .* \(≤ 3\) \| 2\.4 \| 7\.\d+ \(≥ 100\) \|"
        self.assertRegex(said, r"\| H = 30, rate .* `eight_bit` \| 1 \| " + figures)
        done = self.run_script("compare-language-losses", *words[:3], "--ways", "H = 31", code=1)
        self.assertIn("unknown way H = 31; there are H = 30", done.stderr)

    def test_locking_of_what_is_given(self):
        done = self.run_script("compare-locking", "--models", "linear,factorization", "--threads", "1,2")
        self.assertIn("linear: not given; name its data with --a9a", done.stdout)
        text = self.output.read_text()
        self.assertIn("**Logistic regression on a9a**: not given.", text)
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith(("| serial", "| lock-free | 1"))]
        # The same bits, and so the same losses.
        self.assertEqual(rows[0][2:7], rows[1][2:7])
        for locking in ("lock-free", "striped", "global"):
            self.assertRegex(text, rf"\| {locking} \| 2 \| .* × serial \|")

    def test_what_servers_are_measured_with_must_be_given(self):
        done = self.run_script("compare-servers", code=1)
        self.assertIn("name the folder of Fashion-MNIST's idx.gz files with --images", done.stderr)
        done = self.run_script("compare-servers", "--images", self.folder, "--parts", "network", code=1)
        self.assertIn("the part network needs --hosts", done.stderr)

    def test_accuracy_of_what_sends_less(self):
        self.output.write_text("<!-- compare-exchange accuracy: begin -->\n<!-- compare-exchange accuracy: end -->\n")
        words = ["--images", self.draw_images(), "--runs", self.folder / "runs", "--parts", "accuracy"]
        ways = "eight_bit; averaging, period 16; DiLoCo, period 100"
        self.run_script("compare-exchange", *words, "--ways", ways)
        text = self.output.read_text()
        self.assertRegex(text, r"\| allreduce \| [\d.]+ ± [\d.]+ \|  \|  \|")
        self.assertRegex(text, r"\| eight_bit \| [\d.]+ ± [\d.]+ \| [+-][\d.]+ \| [+-][\d.]+ \|")
        done = self.run_script("compare-exchange", *words, "--ways", "zip", code=1)
        self.assertIn("unknown zip; there are allreduce; bf16", done.stderr)
        done = self.run_script("compare-exchange", *words[:4], "--parts", "link", code=1)
        self.assertIn("the part link needs --hosts with 3 names", done.stderr)

    def test_quality_of_words_whose_rows_are_compressed(self):
        self.output.write_text("<!-- compare-exchange words: begin -->\n<!-- compare-exchange words: end -->\n")
        random = numpy.random.default_rng(1)
        text, tests = self.folder / "words.txt", self.folder / "tests"
        text.write_text(" ".join(f"w{number}" for number in random.integers(1, 60, 20000)))
        tests.mkdir()
        for name in ("EN-WS-353-ALL.txt", "EN-SIMLEX-999.txt"):
            pairs = random.integers(1, 60, (50, 3))
            (tests / name).write_text("".join(f"w{one} w{other} {score}\n" for one, other, score in pairs))
        questions = [" ".join(f"w{number}" for number in four) for four in random.integers(1, 60, (50, 4))]
        (tests / "questions-words.txt").write_text(": some\n" + "\n".join(questions) + "\n")
        words = ["--text", text, "--runs", self.folder / "runs", "--parts", "words"]
        self.run_script("compare-exchange", *words, "--tests", tests)
        said = self.output.read_text()
        self.assertRegex(said, r"\| WordSim-353 \| as they are \| -?[\d.]+ ± [\d.]+ \|  \|  \|")
        self.assertRegex(said, r"\| analogies \| eight_bit \| [\d.]+ ± [\d.]+ \| [+-][\d.]+ \| [+-][\d.]+ \|")
        self.assertNotIn("words/s", said)
        for kept in self.folder.glob("runs/words/quality/bf16-*/measures.json"):
            kept.write_text("[0.1, 0.25, 0.3]")
        self.run_script("compare-exchange", *words, "--tests", tests)
        self.assertIn("| SimLex-999 | bf16 | 0.2500 ± 0.0000 |", self.output.read_text())
        done = self.run_script("compare-exchange", *words, code=1)
        self.assertIn("needs --hosts for its speed, or --tests for its quality", done.stderr)
        done = self.run_script("compare-exchange", *words, "--hosts", "one", code=1)
        self.assertIn("the part words needs --hosts with 2 names", done.stderr)

    def test_predictions_without_peers(self):
        self.output.write_text("<!-- compare-predict: begin -->\n<!-- compare-predict: end -->\n")
        words = ["--models", "mlp-512,lenet", "--against", ""]
        self.run_script("compare-predict", *words)
        for model in ("mlp-512", "lenet"):
            self.assertRegex(self.output.read_text(), rf"\| {model} \| unisono \| [\d,]+ µs \|  \| [\d,]+ ms \|  \|")
        done = self.run_script("compare-predict", "--against", "torch", code=1)
        self.assertIn("unknown program torch; there are pytorch, onnxruntime", done.stderr)

    def test_update_rules_on_a_gpu(self):
        if "UNISONO_SIMULATED" not in os.environ:
            self.skipTest("built without CUDA")
        bench = pathlib.Path(os.environ["UNISONO_SIMULATED"]).parent / "bench_device_updates_simulated"
        done = subprocess.run([bench, "--floats", "20000"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rule in ("sgd", "sgd with momentum", "adam"):
            self.assertRegex(done.stdout, rf"{rule} +[\d.]+ GB/s, +[\d.]+ % of a copy's [\d.]+")
        self.assertEqual(subprocess.run([bench, "--floats", "x"], capture_output=True).returncode, 2)

    def test_searches_without_their_peers(self):
        """A set of one column that tells the classes apart, and wines whose quality is nearly that of their alcohol."""
        random = numpy.random.default_rng(1)
        labels = random.integers(0, 2, 200)
        (self.folder / "a9a").write_text("".join(f"{2 * one - 1} {one + 1}:1 3:1\n" for one in labels))
        rows = random.normal(0, 1, (40, 3))
        rows[:, 2] = 5 + rows[:, 0] + 0.1 * rows[:, 1]
        lines = [";".join(f"{value:.4f}" for value in row) for row in rows]
        (self.folder / "winequality-red.csv").write_text("\n".join(["alcohol;acid;quality", *lines]) + "\n")
        parts = ("grid", "halving", "folds", "busy")
        self.output.write_text("".join(f"<!-- compare-search {p}: {e} -->\n" for p in parts for e in ("begin", "end")))
        words = ["--a9a", self.folder, "--wine", self.folder, "--alone"]
        done = self.run_script("compare-search", *words, code=1)
        # The error of these wines is another one than that of the real ones, and this is the only thing that is wrong.
        wrong = done.stdout.split("WRONG:\n")[1].splitlines()
        self.assertEqual(len(wrong), 2, wrong)
        self.assertTrue(all("leave-one-out: the error of" in line for line in wrong), wrong)
        text = self.output.read_text()
        self.assertRegex(text, r"\| unisono, 2 ranks \| [\d.]+ s \| [\d.]+ s \|  \|  \| 1\.0000 ± 0\.0000 \|")
        self.assertRegex(text, r"\| unisono, 2 threads \| \d+ \| [\d.]+ s \| [\d.]+ s \|  \|  \|  \| 0\.\d{4} \|")
        errors = re.findall(r"\| unisono, (?:a fit for each fold|from one fit) .* \| (0\.\d{6}) \|", text)
        self.assertEqual(errors, [self.error_without(rows)] * 2)
        self.assertRegex(text, r"\| sleeping on 8 ranks \| 0\.1\d+ s \| [\d.]+ s \| [\d.]+ \(≥ 0\.95\) \|")
        done = self.run_script("compare-search", "--parts", "gird", code=1)
        self.assertIn("unknown part gird; there are grid, halving, folds, busy", done.stderr)

    @staticmethod
    def error_without(rows):
        """The mean squared error on rows that are left out one by one: ridge with a penalty of 1, by numpy."""
        squares = []
        for i in range(len(rows)):
            x, y = numpy.delete(rows[:, :2], i, 0), numpy.delete(rows[:, 2], i)
            x, y = x - x.mean(0), y - y.mean()
            weights = numpy.linalg.solve(x.T @ x + numpy.eye(2), x.T @ y)
            others = numpy.delete(rows, i, 0).mean(0)
            squares.append((others[2] + (rows[i, :2] - others[:2]) @ weights - rows[i, 2]) ** 2)
        return f"{numpy.mean(squares):.6f}"

    def test_a_model_that_there_is_not_is_named(self):
        done = self.run_script("compare-locking", "--models", "linaer", code=1)
        self.assertIn("compare-locking: unknown model linaer; there are linear,", done.stderr)


if __name__ == "__main__":
    unittest.main()
