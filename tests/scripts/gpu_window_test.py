#!/usr/bin/env python3
"""scripts/gpu-window: rehearsed to its end, to "no GPU can be used", and until its time is over.

The programs of the bundle are the simulated device's or stand-ins; so are NVIDIA's tools and PyTorch.
UNISONO=… UNISONO_SIMULATED=… python3 tests/scripts/gpu_window_test.py     both in build/release/bin
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import unittest
from pathlib import Path

from fakes import ROOT, ScriptTest

SCRIPT = "scripts/gpu-window"
BINARY = Path(os.environ["UNISONO"]).resolve()
SIMULATED = Path(os.environ["UNISONO_SIMULATED"]).resolve()

# What `unisono bench --json` prints, of a GPU that computes 100 TFLOP/s and copies 1 TB/s.
BENCH = {
    "name": "resnet20", "parameters": 74000000, "examples_per_second": 200000.0, "flops_per_example": 4.4e8,
    "peak_gflops_per_second": 100000.0, "fraction_of_peak": 0.88, "bandwidth_gigabytes_per_second": 1000.0,
    "gpu": {"launches_per_step": 0.5, "graph_launches_per_step": 1.0, "graph_operations_per_step": 301.0,
            "refused_captures": 0, "unfused_products_per_step": 0.0,
            "convolutions": [{"pass": "weight gradient, converted", "convolution": "16×32×32 → 16, 3×3",
                              "engine": 57, "times_per_step": 6.0}],
            "fallbacks": ["cuDNN has no kernel for something: another kernel adds it"]},
}

NCU = """==PROF== Connected to process 1
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","gpu__time_duration.sum"
"","","","","","","ns"
"0","1","unisono","host","slow","1","2,000"
"1","1","unisono","host","fast","1","10"
"2","1","unisono","host","slow","1","1,000"
"""


class GpuWindow(ScriptTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.out.mkdir()
        self.bundle = self.folder / "unisono-0.1.0-x86_64-linux"
        for folder in ("bin", "scripts", "bench"):
            (self.bundle / folder).mkdir(parents=True)
        for script in ("test-gpu", "cuda-libraries", "gpu-window"):
            shutil.copy(ROOT / "scripts" / script, self.bundle / "scripts" / script)
        shutil.copytree(ROOT / "configs", self.bundle / "configs")
        shutil.copytree(ROOT / "bench/models", self.bundle / "bench/models")
        shutil.copy(ROOT / "bench/pytorch_peer.py", self.bundle / "bench/pytorch_peer.py")
        self.program("mpirun", "exit 0")

    def program(self, name, body):
        """A program of the bundle, which notes how it is called."""
        shutil.move(self.fake(name, body), self.bundle / "bin" / name)

    def stand_in_for_nvidia(self):
        self.fake("nvidia-smi", "echo 'NVIDIA H100, 81559 MiB, 999.1, 1980 MHz, Default'")
        (self.folder / "ncu.csv").write_text(NCU)
        self.fake("ncu", f"cat {self.folder / 'ncu.csv'}")
        self.fake("compute-sanitizer", 'echo "========= ERROR SUMMARY: 0 errors"')
        torch = """
if [[ $1 == -c ]]; then echo "torch 9.9 cuda 13.0"
elif [[ $1 == */pytorch_peer.py ]]; then echo '{"examples_per_second": 100000.0, "torch": "9.9"}'
else exec PYTHON "$@"; fi"""
        self.fake("python3", torch.replace("PYTHON", sys.executable))

    def simulated_programs(self):
        """Those of the simulated device, made so small that they take seconds."""
        (self.folder / "bench.json").write_text(json.dumps(BENCH, separators=(",", ":"), ensure_ascii=False) + "\n")
        self.program("unisono", f"""
if [[ $1 == bench && $* == *"--batch-per-rank 64 "*"precision=tf32"* ]]; then
  words=("$@")
  for i in "${{!words[@]}}"; do
    case ${{words[i]}} in
      --steps) words[i+1]=1 ;;
      --batch-per-rank) words[i+1]=2 ;;
    esac
  done
  exec {SIMULATED} "${{words[@]}}"
fi
[[ $1 != bench ]] || exec cat {self.folder / 'bench.json'}
exec {SIMULATED} "$@" """)
        self.program("gpu_tests", 'echo "assertions: 9 | 9 passed"')
        self.program("bench_device_products", f"exec {SIMULATED.parent}/bench_device_products_simulated --sizes 16")
        self.program("bench_device_updates", f"exec {SIMULATED.parent}/bench_device_updates_simulated --floats 1024")

    def run_window(self, *arguments, script=SCRIPT, **environment):
        environment = {**os.environ, "OUT": str(self.out), "TMPDIR": str(self.folder), **environment}
        environment["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        words = ["bash", ROOT / script if script == SCRIPT else script, *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=110, cwd=self.folder,
                              env=environment)

    def assert_line(self, result, pattern):
        self.assertTrue(re.search(pattern, result.stdout, re.MULTILINE), result.stdout + result.stderr)

    def test_to_its_end(self):
        self.stand_in_for_nvidia()
        self.simulated_programs()
        # Of the long steps, only those that were asked for; the rest is test-gpu's own test.
        self.bundle.joinpath("scripts/test-gpu").write_text(
            "#!/bin/bash\n"
            '[[ $* != *memory* ]] || echo "ok 1 s  device  a simulated device"\n'
            '[[ $* != *trainings* ]] || echo "FAILED 1 s  trainings  mlp: 1 off"\n'
            '[[ $* != *trainings* ]] || exit 1\n')
        result = self.run_window("100", "--bundle", self.bundle)
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)  # the trainings' failure
        self.assert_line(result, r"^NVIDIA H100, 81559 MiB")
        self.assert_line(result, r"^torch 9\.9 cuda")
        self.assert_line(result, r"^operations +rc +0 .* assertions: 9 \| 9 passed$")
        self.assert_line(result, r"^trainings +rc +1 ")
        self.assert_line(result, r"^FAILED 1 s  trainings  mlp: 1 off$")
        self.assert_line(result, r"^ours-resnet20-128-bf16 +rc +0 ")
        self.assert_line(result, r"^  examples_per_second 200000\.0, fraction_of_peak 0\.88, .* refused_captures 0$")
        self.assert_line(result, r'^  "fallbacks":\["cuDNN has no kernel for something')
        self.assert_line(result, r"^  pass:weight gradient, converted,convolution:16×32×32 .*,engine:57,")
        self.assert_line(result, r"^ours-mlp-512-64-tf32 +rc +0 ")
        rate = r"[\d.e-]+ TFLOP/s"
        self.assert_line(result, rf"^square m +16, n +16, k +16: first choice +{rate}, fastest of \d+ +{rate}$")
        self.assert_line(result, r"^sgd with momentum +[\d.]+ GB/s, +[\d.]+ % of a copy's")
        floor = r"its floor is [\d.]+ ms: products [\d.]+, update 1\.628, passes 0\.403$"
        self.assert_line(result, rf"^mlp-8192: a step takes 20\.480 ms, {floor}")
        self.assert_line(result, r"^mlp-8192: [\d.]+ of the fastest product, [\d.]+ of the floor$")
        self.assert_line(result, r"^  PyTorch 100000 examples/s, unisono 200000: ratio 2\.000$")
        self.assert_line(result, r"^fp32-gradients-resnet20-1024 +rc +0 ")
        self.assert_line(result, r"^ +3000 ns +2 x  slow$")
        self.assert_line(result, r"^racecheck +rc +0 .*ERROR SUMMARY: 0 errors$")
        self.assert_line(result, r"^== +\d+ s  the end$")
        self.assertEqual((self.out / "summary.txt").read_text(), result.stdout)
        with tarfile.open(self.out / "logs.tar.gz") as logs:
            self.assertLessEqual({"./operations.log", "./products.log", "./ncu-resnet20.log"}, set(logs.getnames()))
        for tool in self.calls("compute-sanitizer"):
            self.assertIn("--kernel-regex kns=unisono", tool)
        self.assertEqual(list(self.folder.glob("tmp.*")), [])  # nothing is left

    def place_beside(self, folder):
        """The script, under another name, beside the bundle's archive, in a folder of a project."""
        beside = self.folder / folder
        beside.mkdir()
        shutil.copy(ROOT / SCRIPT, beside / "window.sh")
        with tarfile.open(beside / f"{self.bundle.name}.tar.xz", "w:xz", preset=0) as archive:
            archive.add(self.bundle, self.bundle.name)
        return f"{folder}/window.sh"

    def test_without_a_gpu_it_stops_early_and_says_why(self):
        self.program("unisono", f'exec {BINARY} "$@"')
        self.program("gpu_tests", "exit 1")
        script = self.place_beside(".gpu")
        began = time.monotonic()
        result = self.run_window("100", script=script, CUDA_VISIBLE_DEVICES="")
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assert_line(result, r"^test-gpu: no GPU can be used, so that nothing was tested")
        self.assert_line(result, r"^loud +rc +6 ")
        self.assert_line(result, r"^== +\d+ s  no GPU can be used: stopped, so that time is left for a second run$")
        self.assertEqual(self.calls("gpu_tests"), [])
        self.assertTrue((self.out / "logs.tar.gz").exists())

    def test_it_ends_in_time_and_names_what_is_left(self):
        self.stand_in_for_nvidia()
        self.simulated_programs()
        self.program("gpu_tests", "exec sleep 100")
        self.bundle.joinpath("scripts/test-gpu").write_text("#!/bin/bash\necho 'ok 1 s  device  simulated'\n")
        references = self.bundle / "references"
        references.mkdir()
        (references / "stamp").write_text("stale\n")
        began = time.monotonic()
        result = self.run_window("24", script=self.bundle / "scripts/gpu-window")
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assert_line(result, r"^the references in .* were made for another bundle, and are not used$")
        self.assert_line(result, r"^operations +rc 124 ")
        for name in ("ours-mlp-8192-4096-bf16", "products", "torch-resnet20-128-bf16-graphs", "ncu-mlp-8192",
                     "racecheck"):
            self.assert_line(result, rf"^SKIPPED +{name}: no time left$")
        self.assert_line(result, r"^mlp-8192: no floor, for lack of its figures$")

    def test_a_bundle_that_is_not_there_and_bad_words(self):
        result = self.run_window("60", "--bundle", self.folder / "nowhere")
        self.assertEqual(result.returncode, 1)
        self.assert_line(result, r"^gpu-window: there is no bundle: .* make one with scripts/make-bundle")
        result = self.run_window("soon")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'soon' is no number of seconds", result.stderr)
        self.assertIn("scripts/gpu-window [SECONDS]", self.run_window("--help").stdout)


if __name__ == "__main__":
    unittest.main()
