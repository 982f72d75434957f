#!/usr/bin/env python3
"""scripts/test-gpu: fails loudly without a GPU, and tells good from bad on the simulated device.

UNISONO=… UNISONO_SIMULATED=… python3 tests/scripts/gpu_script_test.py     both in build/release/bin
"""
import os
import re
import shutil
import time
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

    def test_a_failure_does_not_end_the_other_steps(self):
        result = self.run_gpu("--only", "memory", "--only", "operations", tests=self.fake("gpu_tests", "exit 1"))
        self.assertEqual(result.returncode, 1)
        self.assert_line(result, r"^FAILED .* operations ")
        self.assert_line(result, r"^ok .* memory .* exit code 6")

    def test_what_there_is_no_time_for_is_named(self):
        tests = self.fake("gpu_tests", "exec sleep 100")
        began = time.monotonic()
        result = self.run_gpu("--seconds", "15", "--only", "memory", "--only", "operations", tests=tests)
        self.assertLess(time.monotonic() - began, 25)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_line(result, r"^SKIPPED .* operations +no time left: error: ended after \d+ s; see ")
        self.assert_line(result, r"^SKIPPED .* memory +no time left: a model that is too large$")
        lacking = r"(?s)there was no time for:\n  operations: .*\n  memory: a model that is too large"
        self.assertRegex(result.stdout, lacking)
        self.assertIn("test-gpu: what was tested passed", result.stdout)
        self.assertNotIn("all passed", result.stdout)

    def imitation(self):
        """A unisono that trains nothing and leaves what a run leaves, so far as test-gpu looks at it; and an mpirun."""
        self.fake("mpirun", 'while [[ $1 != */unisono ]]; do shift; done\nexec "$@"')
        return self.fake("unisono", """
words=" $* "
output=${words##* --output }
output=${output%% *}
case $1 in
  data) touch "$output" ;;
  evaluate) echo '{"loss": 0.5}' ;;
  train)
    device="some CPU, CPU, AVX2, 1 thread"
    precision=fp32
    [[ $words != *precision=* ]] || { precision=${words##*precision=}; precision=${precision%% *}; }
    [[ $words != *device=cuda* ]] || device="some CPU, some GPU, $precision"
    mkdir -p "$output/checkpoints"
    touch "$output"/checkpoints/step-{8,16}.h5
    [[ $words != *300000* && $output != *too-large ]] || exit 6
    printf '{\n  "device": "%s",\n  "relative_distance": 1e-3,\n  "different_parameters": 0,\n' "$device" \
      >"$output/summary.json"
    printf '  "resumed_at_step": 8,\n  "examples_per_second": 100,\n  "test": {\n    "accuracy": 0.95\n  }\n}\n' \
      >>"$output/summary.json"
    ;;
esac
""")

    def test_references_made_beforehand_take_the_place_of_the_cpus_runs(self):
        unisono, references = self.imitation(), self.folder / "references"
        result = self.run_script(SCRIPT, "--make-references", references, "--binary", unisono)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn("device=cuda", self.calls_file.read_text())
        for kept in ("mlp/allreduce-1/cpu/checkpoints/step-16.h5", "lenet/pipeline-2/cpu/checkpoints/step-16.h5",
                     "resnet20/allreduce-1/portable/summary.json", "checkpoints/cpu/checkpoints/step-8.h5",
                     "checkpoints/avx2/summary.json", "learning/cpu/summary.json"):
            self.assertTrue((references / "runs" / kept).exists(), kept)
        for removed in ("mlp/start", "mlp/allreduce-1/avx2/checkpoints", "checkpoints/portable/checkpoints",
                        "learning/cpu/checkpoints"):
            self.assertFalse((references / "runs" / removed).exists(), removed)

        self.calls_file.write_text("")
        moved = references.rename(self.folder / "elsewhere")
        steps = ("trainings", "learning", "checkpoints")
        words = [word for step in steps for word in ("--only", step)]
        result = self.run_gpu(*words, "--references", moved, binary=unisono)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_line(result, r"^trainings +24 +0 +0 ")
        trained = [call for call in self.calls("unisono") if call.startswith("unisono train ")]
        on_cpu = [call for call in trained if "device=cuda" not in call]
        self.assertEqual(len(on_cpu), 1, on_cpu)  # the GPU's run that the CPU resumes
        self.assertIn("checkpoints/gpu-cpu", on_cpu[0])

        (moved / "stamp").write_text("another\n")
        result = self.run_script(SCRIPT, "--references", moved, "--binary", unisono, "--tests", "/bin/true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("was made by another version of this script or for other configs", result.stderr)

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
        self.assert_line(result, r"^ok .* memcheck: unisono's kernels: ERROR SUMMARY: 0 errors$")
        self.assert_line(result, r"^FAILED .* racecheck: .* RACECHECK SUMMARY: 2 hazards displayed; see ")
        for tool, call in zip(("memcheck", "racecheck"), self.calls("compute-sanitizer")):
            own = r"--error-exitcode 99 .*--kernel-regex kns=unisono /\S*/true \[gpu\]"
            self.assertRegex(call, rf"--tool {tool} .*{own}")

    def test_bad_command_lines_are_refused(self):
        for arguments, complaint in (
            (("--only", "memroy"), "there is no step 'memroy'; choose from device operations memory trainings"),
            (("--seconds", "soon"), "--seconds soon: a number of seconds is wanted"),
            (("--references", "/nowhere"), "/nowhere holds no references; --make-references makes them"),
            (("--make-references", "/tmp"), "/tmp is there already; --make-references makes a new folder"),
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
