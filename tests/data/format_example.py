"""Runs the first Python block of docs/data-format.md, and has the set that it writes opened by a test.

usage: format_example.py docs/data-format.md data_tests
"""
import os
import re
import subprocess
import sys
import tempfile

page, tests = (os.path.abspath(path) for path in sys.argv[1:])
try:
    import h5py  # noqa: F401
except ImportError:
    print("skipped: there is no h5py")
    sys.exit(77)
with open(page, encoding="utf-8") as file:
    block = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    exec(block)
    environment = dict(os.environ, UNISONO_EXAMPLE=os.path.join(folder, "set.h5"))
    sys.exit(subprocess.run([tests, "[example]"], env=environment).returncode)
