"""Comparisons that take long even on their quick settings: they run through and write their tables."""

import os
import unittest

from scripts_test import ScriptTest


class SlowScripts(ScriptTest):
    def test_servers_with_and_without_a_slow_worker(self):
        images = self.draw_images()
        parts = ("messages", "stragglers", "results")
        marks = [f"<!-- compare-servers {part}: {end} -->\n" for part in parts for end in ("begin", "end")]
        self.output.write_text("".join(marks))
        self.run_script("compare-servers", "--images", images, "--parts", ",".join(parts))
        text = self.output.read_text()
        self.assertRegex(text, r"\| 80,150,568 \| [\d.]+ \| [\d.]+ \| \d+ % \| [\d.]+ \| \d+ % \| [\d.]+ \|")
        self.assertRegex(text, r"\| asynchronous \| [\d,]+ \| [\d.]+ \(1\) \| [\d,]+ \| [\d.]+ \(2\.5\) \|")
        self.assertRegex(text, r"\| Factorization of .* \| test rmse \| asynchronous \| 0\.\d{4} ± 0\.0000 \|")

    def test_pytorch_on_a_gpu(self):
        """On the simulated GPU, and with a PyTorch that only says how fast it was."""
        if "UNISONO_SIMULATED" not in os.environ:
            self.skipTest("built without CUDA")
        python = self.folder / "pytorch"
        python.write_text('#!/bin/sh\n[ "$1" = -c ] && echo 9.9 || echo \'{"examples_per_second": 1000}\'\n')
        python.chmod(0o755)
        mark = "<!-- compare-pytorch on a GPU: {} -->\n"
        self.output.write_text(mark.format("begin") + mark.format("end"))
        words = ["--device", "cuda", "--python", python, "--rounds", "2", "--unisono", os.environ["UNISONO_SIMULATED"]]
        self.run_script("compare-pytorch", *words, "--cases", "mlp-512:2:bf16")
        text = self.output.read_text()
        self.assertRegex(text, r"simulated device 0; measured there: [\d,]+ TFLOP/s in bf16, \d+ GB/s in a copy")
        self.assertRegex(text, r"\| mlp-512, 2, bf16 \| 1,000 \| 1,000 \| 1,000 \| [\d,]+ \| [\d.]+ \| .* \| \d+ % \|")
        done = self.run_script("compare-pytorch", *words, "--cases", "mlp:2:bf16", code=1)
        self.assertIn("unknown model mlp; there are mlp-512", done.stderr)
        done = self.run_script("compare-pytorch", *words, "--cases", "mlp-512:2:fp8", code=1)
        self.assertIn("each is MODEL:BATCH:PRECISION", done.stderr)


if __name__ == "__main__":
    unittest.main()
