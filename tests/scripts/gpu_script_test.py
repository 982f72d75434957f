#!/usr/bin/env python3
"""scripts/test-gpu: fails loudly without a GPU, and tells good from bad on the simulated device.

UNISONO=… UNISONO_SIMULATED=… python3 tests/scripts/gpu_script_test.py     both in build/release/bin
"""
import os
import re
import shutil
import unittest
from pathlib import Path

from fakes import ROOT, ScriptTest

SCRIPT = "scripts/test-gpu"
BINARY = Path(os.environ["UNISONO"]).resolve()
SIMULATED = Path(os.environ["UNISONO_SIMULATED"]).resolve()


class TestGpu(ScriptTest):
    def run_gpu(self, *arguments, binary=SIMULATED, tests="/bin/true", **environment):
        self.logs = self.folder / "logs"
        return self.run_script(SCRIPT, "--binary", binary, "--tests", tests, "--logs", self.logs, *arguments,
                               **environment)


    def poser(self, body):
        """A unisono that does something else first."""
        return self.fake("unisono", f'{body}\nexec {SIMULATED} "$@"')

    def assert_line(self, result, pattern):
        self.assertTrue(re.search(pattern, result.stdout, re.MULTILINE), result.stdout + result.stderr)

    def test_without_a_gpu_it_fails_and_says_so(self):
        result = self.run_gpu(binary=BINARY, CUDA_VISIBLE_DEVICES="")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no GPU can be used, so that nothing was tested", result.stderr)
        self.assert_line(result, r"^FAILED .* device +unisono: device error: ")
        self.assertIn(f"logs and runs are in {self.logs}", result.stdout)

    def test_a_cpu_that_poses_as_a_gpu_is_caught(self):
        binary = self.poser('set -- "${@/device=cuda/device=cpu}"')
        result = self.run_gpu("--only", "memory", binary=binary)
        self.assertEqual(result.returncode, 1)
        self.assert_line(result, r"^FAILED .* it was made on .*, CPU, ")

    def test_a_model_that_is_too_large_is_refused_by_name(self):
        result = self.run_gpu("--only", "memory")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_line(result, r"^ok .* exit code 6, out of GPU memory: [0-9.]+ MiB were asked for, [0-9.]+ MiB are")
        self.assertIn("test-gpu: all passed", result.stdout)

    def test_a_result_that_is_not_the_cpus_is_a_failure(self):
        # A checkpoint of the CPU is resumed in bf16 where fp32 was asked for; those of the GPU as they should.
        binary = self.poser('[[ $* != *checkpoints/cpu-gpu* ]] || set -- "$@" --set precision=bf16')
        result = self.run_gpu("--only", "checkpoints", binary=binary)
        self.assertEqual(result.returncode, 1)
        judged = r"\S+ off, \S+ allowed \(CPU's own \S+\)"
        self.assert_line(result, rf"^FAILED .* written by the CPU, resumed by the GPU: {judged}; see ")
        self.assert_line(result, rf"^ok .* written by the GPU, resumed by the CPU: {judged}$")
        self.assert_line(result, r"^ok .* written by the GPU, resumed by the GPU: bit for bit$")
        self.assert_line(result, r"^ok .* evaluated by both: test loss \S+ and \S+$")
        self.assert_line(result, r"^checkpoints +3 +1 +0 ")
        self.assertIn("test-gpu: FAILED:\n  checkpoints: lenet, written by the CPU", result.stdout)

    def test_failed_operations_fail(self):
        tests = self.fake("gpu_tests", 'echo "test cases: 2 | 1 failed"; echo "assertions: 9 | 1 failed"; exit 1')
        result = self.run_gpu("--only", "operations", tests=tests)
        self.assertEqual(result.returncode, 1)
        self.assert_line(result, r"^FAILED .* operations +assertions: 9 \| 1 failed; see ")
        self.assertEqual(self.calls("gpu_tests"), ["gpu_tests [gpu]"])

    @unittest.skipIf(shutil.which("compute-sanitizer"), "compute-sanitizer is there")
    def test_a_missing_sanitizer_is_told(self):
        result = self.run_gpu("--only", "sanitizers", CUDA_HOME="/nowhere")
        self.assertEqual(result.returncode, 0)
        self.assert_line(result, r"^SKIPPED .* compute-sanitizer IS NOT THERE")

    def test_what_a_sanitizer_finds_is_a_failure(self):
        self.fake("compute-sanitizer", '[[ $* == *memcheck* ]] && echo "ERROR SUMMARY: 0 errors" && exit 0\n'
                  'echo "RACECHECK SUMMARY: 2 hazards displayed"; exit 99')
        result = self.run_gpu("--only", "sanitizers")
        self.assertEqual(result.returncode, 1)
        self.assert_line(result, r"^ok .* memcheck: every operation: ERROR SUMMARY: 0 errors$")
        self.assert_line(result, r"^FAILED .* racecheck: .* RACECHECK SUMMARY: 2 hazards displayed; see ")
        call = self.calls("compute-sanitizer")[0]
        self.assertRegex(call, r"--tool memcheck .*--error-exitcode 99 .*/bin/true \[gpu\]$")

    def test_bad_command_lines_are_refused(self):
        for arguments, complaint in (
            (("--only", "memroy"), "there is no step 'memroy'; choose from device operations trainings"),
            (("--bundle",), "--bundle needs a value"),
            (("--fast",), "there is no option '--fast'"),
            (("--bundle", "/nowhere"), "/nowhere has no unisono: pack it with scripts/make-bundle"),
            (("--binary", "/nowhere/unisono"), "/nowhere/unisono is missing"),
        ):
            result = self.run_script(SCRIPT, *arguments)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn(complaint, result.stderr)

    def test_a_checkout_is_built_where_it_was_not(self):
        for script in ("test-gpu", "cuda-libraries"):
            (self.folder / "scripts").mkdir(exist_ok=True)
            shutil.copy(ROOT / "scripts" / script, self.folder / "scripts" / script)
        (self.folder / "CMakeLists.txt").touch()
        (self.folder / "configs").symlink_to(ROOT / "configs")
        self.fake("nvcc")
        self.fake("cmake", "mkdir -p build/release/bin; install -m 755 /bin/false build/release/bin/unisono\n"
                  "cp /bin/false build/release/bin/gpu_tests")
        result = self.run_script(self.folder / SCRIPT, "--logs", self.folder / "logs")
        self.assertEqual(self.calls("cmake"), ["cmake --preset release -DUNISONO_TESTS=ON -DUNISONO_CUDA=ON",
                                               "cmake --build build/release --target unisono gpu_tests"])
        self.assertEqual(result.returncode, 1)
        self.assert_line(result, r"^FAILED .* device +it failed without a message; ")

    def test_help_names_every_step(self):
        result = self.run_script(SCRIPT, "--help")
        self.assertEqual(result.returncode, 0)
        steps = re.search(r"^readonly steps=\((.*)\)$", (ROOT / SCRIPT).read_text(), re.MULTILINE)[1].split()
        for step in steps:
            self.assertRegex(result.stdout, rf"(?m)^  {step} ")


if __name__ == "__main__":
    unittest.main()
