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
START = {  # what a shell reads first
    "Environment Modules": pathlib.Path("/usr/share/modules/init/bash"),
    "Lmod": pathlib.Path("/usr/share/lmod/lmod/init/bash"),
}


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

    def printed(self, tool, *commands):
        """What a fresh shell prints after it has loaded the module."""
        if not START[tool].exists():
            self.skipTest(f"{tool} is not installed")
        script = [f". {START[tool]}", f"module use {self.modules}", "module load unisono/0.1.0", *commands]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.prefix)}
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)], capture_output=True, text=True, check=False, env=env, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def check_load_and_unload(self, tool):
        shown = self.printed(
            tool,
            "unisono --prefix && command -v unisono-launch && echo $UNISONO $UNISONO_SHARE",
            "module unload unisono",
            "command -v unisono || true",
            'echo "PATH=$PATH" "UNISONO=$UNISONO"',
        )
        share = self.prefix / "share" / "unisono"
        wanted = [self.prefix, self.prefix / "bin/unisono-launch", self.prefix / "bin/unisono", share]
        self.assertEqual(shown, [*map(str, wanted), "PATH=/usr/bin:/bin", "UNISONO="])
        self.assertTrue((share / "train.sbatch").exists())

    def test_environment_modules_load_and_unload_it(self):
        self.check_load_and_unload("Environment Modules")

    def test_lmod_loads_and_unloads_it(self):
        self.check_load_and_unload("Lmod")

    def check_manual_pages(self, tool):
        before = subprocess.run(["man", "-w", "man"], capture_output=True, text=True, check=False).stdout.split()
        pages = self.printed(tool, "man -w unisono", "man -w man || true")
        self.assertEqual(pages, [str(self.prefix / "share/man/man1/unisono.1.gz"), *before])

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_environment_modules_show_its_manual_page_beside_all_others(self):
        self.check_manual_pages("Environment Modules")

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_lmod_shows_its_manual_page_beside_all_others(self):
        self.check_manual_pages("Lmod")


if __name__ == "__main__":
    unittest.main()
