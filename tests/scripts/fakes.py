"""Programs that stand in for those which a script calls, and say how they were called."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        self.calls_file = self.folder / "calls"
        self.calls_file.touch()

    def fake(self, name, body="true"):
        """A program `name` on the PATH that notes its arguments and then does what `body` (bash) says."""
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.calls_file}\n{body}\n')
        path.chmod(0o755)
        return path

    def run_script(self, script, *arguments, **environment):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.run([ROOT / script, *arguments], capture_output=True, text=True, check=False, timeout=300,
                              cwd=self.folder, env={**os.environ, **environment, "PATH": path})

    def calls(self, name):
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith(name + " ")]
