"""The Debian package that cpack makes: what it holds, what it depends on, and what lintian says of it.

python3 tests/install/package_test.py BUILD_FOLDER OUTPUT_FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

OUTPUT = pathlib.Path(sys.argv.pop()).resolve()
BUILD = pathlib.Path(sys.argv.pop()).resolve()


def printed(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(OUTPUT, ignore_errors=True)
        printed("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", OUTPUT)
        (cls.package,) = OUTPUT.glob("unisono_*.deb")

    def field(self, name):
        return printed("dpkg-deb", "--field", self.package, name).strip()

    def test_it_depends_on_what_the_program_is_linked_with(self):
        depends = {re.match(r"[^ ]+", one)[0] for one in self.field("Depends").split(", ")}
        self.assertLessEqual({"openmpi-bin", "libc6", "libopenmpi3", "zlib1g"}, depends)
        self.assertTrue(any(name.startswith("libhdf5") for name in depends), depends)
        self.assertEqual(self.field("Section"), "science")

    def test_it_holds_the_runtime_alone(self):
        files = set(re.findall(r"\./(\S+[^/\s])$", printed("dpkg-deb", "--contents", self.package), re.MULTILINE))
        wanted = {
            "usr/bin/unisono",
            "usr/bin/unisono-launch",
            "usr/share/unisono/train.sbatch",
            "usr/share/unisono/configs/lenet.toml",
            "usr/share/man/man1/unisono.1.gz",
            "usr/share/bash-completion/completions/unisono",
            "usr/share/doc/unisono/copyright",
        }
        self.assertLessEqual(wanted, files)
        self.assertEqual({name for name in files if re.search(r"\.(a|hpp|cmake)$", name)}, set())

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_has_nothing_to_say(self):
        self.assertEqual(printed("lintian", "--fail-on", "error,warning", self.package), "")


if __name__ == "__main__":
    unittest.main()
