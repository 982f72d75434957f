#!/usr/bin/env python3
"""scripts/make-bundle: what it packs is complete, and runs wherever it is unpacked.

UNISONO=build/release/bin/unisono python3 tests/scripts/make_bundle_test.py
"""
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

from fakes import ROOT

SCRIPT = ROOT / "scripts/make-bundle"
BINARY = Path(os.environ["UNISONO"]).resolve()
GLIBC = re.compile(r"(ld-linux-x86-64|lib(c|m|mvec|dl|rt|pthread|util|resolv|anl))\.so\.\d+")
BARE = {"PATH": "/usr/bin:/bin"}

CONFIG = """
name = "tiny"
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 1
batch_size = 16
"""


def make_bundle(*arguments):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=100)


def needed(file):
    """The libraries that an ELF file asks for; none of another file."""
    dynamic = subprocess.run(["readelf", "--dynamic", file], capture_output=True, text=True, check=False)
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout))


class Bundle(unittest.TestCase):
    """One bundle, unpacked under a path with a space."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="unisono-test-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        cls.archive = cls.folder / "bundle.tar.xz"
        cls.made = make_bundle("--binaries", BINARY.parent, "--output", cls.archive, "--level", "0")
        assert cls.made.returncode == 0, cls.made.stdout + cls.made.stderr
        place = cls.folder / "any place"
        with tarfile.open(cls.archive) as archive:
            archive.extractall(place)
        (cls.root,) = place.iterdir()

    def run_bare(self, *command, **environment):
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, cwd=self.folder, env={**BARE, **environment})

    def succeed(self, *command, **environment):
        result = self.run_bare(*command, **environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def elf_files(self):
        files = [path for path in self.root.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreater(len(files), 50)
        return files

    def test_it_is_small_and_says_what_it_needs(self):
        self.assertLess(self.archive.stat().st_size, 60 << 20)
        needs = re.search(r"MiB, \d+ files; needs glibc (2\.\d+) or newer", self.made.stdout)
        self.assertTrue(needs, self.made.stdout)
        self.assertIn(f"glibc {needs[1]} or newer", (self.root / "README").read_text())

    def test_its_name_is_that_of_the_version_and_machine(self):
        version = self.succeed(BINARY, "--version").splitlines()[0]
        self.assertEqual(self.root.name, f"unisono-{version}-{os.uname().machine}-linux")

    def test_every_library_is_packed_or_of_glibc(self):
        files = self.elf_files()
        names = {path.name for path in files}
        for path in files:
            missing = {library for library in needed(path) - names if not GLIBC.fullmatch(library)}
            self.assertEqual(missing, set(), path)
        self.assertEqual({name for name in names if GLIBC.fullmatch(name) or re.match("lib(cuda|cublas|nccl)", name)},
                         set())

    def test_the_loader_takes_the_packed_libraries(self):
        broken = self.folder / "broken"
        broken.mkdir()
        for library in (self.root / "lib").glob("*.so*"):
            (broken / library.name).write_text("no library")
        loaded = self.succeed(self.root / "libexec/unisono", LD_TRACE_LOADED_OBJECTS="1", LD_LIBRARY_PATH=str(broken))
        for name, path in re.findall(r"(\S+) => (.*) \(0x", loaded):
            self.assertEqual(path.startswith(str(self.root)), not GLIBC.fullmatch(name), path)
        version = self.succeed(self.root / "bin/unisono", "--version", LD_LIBRARY_PATH=str(broken))
        self.assertRegex(version, r"^\d+\.\d+\.\d+\nwith")

    def test_licences_are_there(self):
        self.assertIn("Apache License", (self.root / "LICENSE").read_text())
        packages = {path.name for path in (self.root / "share/licences").iterdir()}
        self.assertLessEqual({"libopenmpi3", "libfmt9", "libstdc++6", "libcli11-dev", "common-licenses"}, packages)
        self.assertRegex((self.root / "share/licences/packages").read_text(), r"(?m)^libopenmpi3\S*\t\d+\.\d+")

    def test_it_trains_on_two_ranks_with_its_own_mpirun(self):
        unisono, mpirun = self.root / "bin/unisono", self.root / "bin/mpirun"
        (self.folder / "tiny.toml").write_text(CONFIG)
        self.succeed(unisono, "data", "digits", "--train", 64, "--test", 16, "--output", "digits.h5")
        self.succeed(unisono, "train", "tiny.toml", "--output", "one")
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
        printed = self.succeed(mpirun, *options, unisono, "train", "tiny.toml", "--output", "two")
        self.assertIn("allreduce on 2 ranks", printed)

    def test_the_config_and_job_script_are_where_an_installation_has_them(self):
        prefix = self.succeed(self.root / "bin/unisono", "--prefix").strip()
        self.assertEqual(prefix, str(self.root.resolve()))
        self.succeed(self.root / "bin/unisono", "config", "check", f"{prefix}/share/unisono/configs/lenet.toml")
        script = Path(prefix, "share/unisono/train.sbatch")
        self.assertEqual(script.read_text(), (ROOT / "slurm/train.sbatch").read_text())
        told = self.succeed(self.root / "bin/unisono-launch", "-n", "1", self.root / "bin/unisono", "--version")
        self.assertEqual(told, self.succeed(BINARY, "--version"))

    def test_it_is_started_through_links_too(self):
        link = self.folder / "my-unisono"
        link.symlink_to(self.root / "bin/unisono")
        self.assertEqual(self.succeed(link, "--version"), self.succeed(BINARY, "--version"))

    def test_exit_codes_are_the_programs(self):
        result = self.run_bare(self.root / "bin/unisono", "train", "no-such.toml")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("no-such.toml", result.stderr)

    def test_cuda_is_looked_for_where_there_is_a_gpu(self):
        """A starter that believes in a GPU, and sees a fake program."""
        starter = (self.root / "bin/unisono").read_text().replace("/dev/nvidia*", "/dev/null")
        starter = re.sub('wanted=".*"', 'wanted="libabsent.so.1"', starter)
        other = self.folder / "with a gpu"
        shutil.copytree(self.root / "scripts", other / "scripts")
        for path, text in {"bin/show": starter, "libexec/show": '#!/bin/sh\necho "$LD_LIBRARY_PATH"\n'}.items():
            (other / path).parent.mkdir()
            (other / path).write_text(text)
            (other / path).chmod(0o755)
        wheel = self.folder / "site-packages/nvidia/absent/lib"
        wheel.mkdir(parents=True)
        (wheel / "libabsent.so.1").touch()
        nowhere = {"CUDA_HOME": "/nowhere"}
        self.assertEqual(self.succeed(other / "bin/show", **nowhere), "\n")
        self.assertEqual(self.succeed(other / "bin/show", **nowhere, PYTHONPATH=str(wheel.parents[2])), f"{wheel}\n")
        self.assertEqual(
            self.succeed(other / "bin/show", **nowhere, PYTHONPATH=str(wheel.parents[2]), LD_LIBRARY_PATH="/mine"),
            f"/mine:{wheel}\n")
        self.assertEqual(self.succeed(other / "bin/show", PYTHONPATH="", LD_LIBRARY_PATH=str(wheel)), f"{wheel}\n")


class Refusals(unittest.TestCase):
    def refuse(self, *arguments):
        result = make_bundle(*arguments)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def test_a_missing_binary_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(f"make-bundle: {folder}/unisono is missing; build it first",
                          self.refuse("--binaries", folder, "--output", f"{folder}/bundle.tar.xz"))
            self.assertIn("no_tests is missing; build it first: cmake --build build/release --target no_tests",
                          self.refuse("--binaries", BINARY.parent, "--output", f"{folder}/bundle.tar.xz", "no_tests"))
            self.assertEqual(os.listdir(folder), [])

    def test_an_output_that_cannot_be_written_is_named(self):
        self.assertIn("make-bundle: /no-such-folder/bundle.tar.xz cannot be written",
                      self.refuse("--binaries", BINARY.parent, "--output", "/no-such-folder/bundle.tar.xz"))

    def test_a_larger_archive_than_allowed_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(self.refuse("--binaries", BINARY.parent, "--output", f"{folder}/bundle.tar.xz",
                                         "--level", "0", "--limit", "1"), r"would have \d+ MiB, of at most 1")
            self.assertEqual(os.listdir(folder), [])

    def test_bad_options_are_refused(self):
        self.assertIn("there is no option '--outptu'", self.refuse("--outptu", "bundle.tar.xz"))
        self.assertIn("--output needs a value", self.refuse("--output"))
        self.assertIn("--level best: a digit is wanted", self.refuse("--level", "best"))


if __name__ == "__main__":
    unittest.main()
