"""The module file of packaging/, with Environment Modules or Lmod, whichever is installed (Debian allows only one).

python3 tests/install/module_test.py SOURCE_FOLDER BUILD_FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop()).resolve()
SOURCE = pathlib.Path(sys.argv.pop()).resolve()
# What a shell reads first: of Environment Modules, of Lmod.
STARTS = [pathlib.Path("/usr/share/modules/init/bash"), pathlib.Path("/usr/share/lmod/lmod/init/bash")]
INSTALLED = [start for start in STARTS if start.exists()]


@unittest.skipUnless(INSTALLED, "neither Environment Modules nor Lmod is installed")
class Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name) / "opt"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, capture_output=True)
        cls.modules = pathlib.Path(folder.name) / "modules"
        (cls.modules / "unisono").mkdir(parents=True)
        text = (SOURCE / "packaging" / "modulefile").read_text(encoding="utf-8")
        text, found = re.subn(r"^set prefix .*$", f"set prefix {cls.prefix}", text, flags=re.MULTILINE)
        assert found == 1, text
        (cls.modules / "unisono" / "0.1.0").write_text(text, encoding="utf-8")

    def printed(self, start, *commands):
        """What a fresh shell prints after it has loaded the module."""
        script = [f". {start}", f"module use {self.modules}", "module load unisono/0.1.0", *commands]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.prefix)}
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)], capture_output=True, text=True, check=False, env=env, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def check_load_and_unload(self, start):
        shown = self.printed(
            start,
            "unisono --prefix && command -v unisono-launch && echo $UNISONO $UNISONO_SHARE",
            "module unload unisono",
            "command -v unisono || true",
            'echo "PATH=$PATH" "UNISONO=$UNISONO"',
        )
        share = self.prefix / "share" / "unisono"
        wanted = [self.prefix, self.prefix / "bin/unisono-launch", self.prefix / "bin/unisono", share]
        self.assertEqual(shown, [*map(str, wanted), "PATH=/usr/bin:/bin", "UNISONO="])
        self.assertTrue((share / "train.sbatch").exists())

    def test_it_is_loaded_and_unloaded(self):
        for start in INSTALLED:
            with self.subTest(start):
                self.check_load_and_unload(start)

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_its_manual_page_is_shown_beside_all_others(self):
        before = subprocess.run(["man", "-w", "man"], capture_output=True, text=True, check=False).stdout.split()
        for start in INSTALLED:
            with self.subTest(start):
                pages = self.printed(start, "man -w unisono", "man -w man || true")
                self.assertEqual(pages, [str(self.prefix / "share/man/man1/unisono.1.gz"), *before])


if __name__ == "__main__":
    unittest.main()
