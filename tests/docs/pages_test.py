"""The pages for readers who come from other programs: their examples run and print what the pages say, and their tables
name keys, settings, commands and options that exist.

UNISONO=build/release/bin/unisono UNISONO_SOURCE=. python3 tests/docs/pages_test.py [--print]

--print shows what the examples print, for the pages.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"]).resolve()
UNISONO = pathlib.Path(os.environ["UNISONO"]).resolve()
sys.path.insert(0, str(SOURCE / "python"))
PRINT = "--print" in sys.argv
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
FILES = (".jsonl", ".sbatch", ".h5")
# Examples of the other program, which need not be installed: only their syntax is checked.
FOREIGN = ("import lightning", "import torch")


def blocks_of(page):
    """(language, text) of each block. Output has no language."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def spans_of_tables(page):
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row.split(" | ", 1)[-1])]


def run(*words, **options):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **options)


def keys_of_reference():
    """All keys of a config."""
    keys, section = set(), ""
    for line in run(UNISONO, "config", "reference").stdout.splitlines():
        if found := re.match(r"\[+([\w.]+)\]", line):
            section = found[1] + "."
            keys.add(found[1])
        elif found := re.match(r"  (\w+)(?: = |, required)", line):
            keys.add(section + found[1])
    return keys


class Examples:
    """What a page's examples leave in a folder, one after the other."""

    def __init__(self, folder):
        self.scope = {}
        tools = folder / "tools"
        tools.mkdir()
        (tools / "unisono").symlink_to(UNISONO)
        (tools / "unisono-launch").symlink_to(SOURCE / "scripts/launch")
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        os.environ["UNISONO"] = str(tools / "unisono")

    def python(self, text):
        code = compile(text, "example", "exec")
        printed = io.StringIO()
        if not any(word in text for word in FOREIGN):
            with contextlib.redirect_stdout(printed):
                exec(code, self.scope)
        return printed.getvalue()

    def sh(self, text):
        done = subprocess.run(
            ["bash", "-euc", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    def toml(self, text):
        name = re.match(r"# (\S+\.toml)\n", text)[1]
        pathlib.Path(name).write_text(text)
        done = run(UNISONO, "config", "check", name)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return ""


class Pages(unittest.TestCase):
    def check_examples(self, page):
        with tempfile.TemporaryDirectory(prefix="unisono-test-") as name, contextlib.chdir(name):
            examples = Examples(pathlib.Path(name))
            printed = ""
            for language, text in blocks_of(page):
                if language:
                    printed = getattr(examples, language)(text)
                    if PRINT and printed:
                        print(printed, file=sys.stderr)
                elif not PRINT:
                    self.check_output(text, printed)
            self.check_tables(page)

    def check_output(self, expected, printed):
        """Texts must be equal, and shares nearly so; other numbers may differ from machine to machine, and … stands for
        any lines."""
        parts = [re.escape(re.sub(r"\s+", " ", NUMBER.sub("0", part)).strip()) for part in expected.split("…\n")]
        whole = re.sub(r"\s+", " ", NUMBER.sub("0", printed)).strip()
        self.assertRegex(whole, "^" + ".*".join(parts) + "$")
        if "…\n" not in expected:
            for said, found in zip(NUMBER.findall(expected), NUMBER.findall(printed), strict=True):
                if re.fullmatch(r"0\.\d+|1\.0", said):
                    self.assertAlmostEqual(float(said), float(found), delta=0.1, msg=printed)

    def check_tables(self, page):
        keys = keys_of_reference()
        (config,) = pathlib.Path().glob("*.toml")
        for span in spans_of_tables(page):
            with self.subTest(span):
                if found := re.fullmatch(r"([a-z_]+(?:\.[a-z_]+)*) = (.+)", span):
                    done = run(UNISONO, "config", "check", config, "--set", f"{found[1]}={found[2]}")
                    self.assertEqual(done.returncode, 0, done.stderr)
                elif re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", span) and not span.endswith(FILES):
                    self.assertTrue(span in keys, f"{span} is no key")
                elif span.startswith("unisono "):
                    self.check_command(span.split()[1:])

    def check_command(self, words):
        command = [word for word in words if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")]
        done = run(UNISONO, *command, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        for option in (word for word in words if word.startswith("--")):
            self.assertRegex(done.stdout, rf"[ ,]{option}\b")

    def test_from_scikit_learn(self):
        self.check_examples((SOURCE / "docs/from-scikit-learn.md").read_text())

    def test_from_lightning(self):
        self.check_examples((SOURCE / "docs/from-lightning.md").read_text())


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--print"])
