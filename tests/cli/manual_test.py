"""`unisono manual`: the manual page and the completions know every command and option."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import BINARY, BinaryTest


def commands_below(test, path):
    """The commands below a command, by its help."""
    text = test.succeed(*path, "--help").out
    if "\nSubcommands:" not in text:
        return []
    return re.findall(r"^  ([a-z0-9-]+) ", text.split("\nSubcommands:")[1], re.MULTILINE)


def all_commands(test, path=()):
    found = [path]
    for name in commands_below(test, path):
        found += all_commands(test, (*path, name))
    return found


class ManualTest(BinaryTest):
    def page(self, what):
        return self.succeed("manual", what).out

    def test_the_page_has_every_command_and_option(self):
        page = self.page("man").replace("\\-", "-")
        commands = all_commands(self)
        self.assertGreater(len(commands), 30)
        for path in commands:
            title = "unisono " + " ".join(path) if path else "unisono"
            section = re.search(rf"^\.SS {re.escape(title)}(?: [^\n]*)?\n(.*?)(?=^\.S)", page, re.MULTILINE | re.DOTALL)
            self.assertIsNotNone(section, title)
            for option in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", self.succeed(*path, "--help").out, re.MULTILINE):
                self.assertIn(option, section[1], title)
        self.assertTrue(page.isascii())

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_the_page_is_good_roff(self):
        path = self.write("unisono.1", self.page("man"))
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", path], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("28×28", done.stdout)

    def completed_by(self, shell, script, line):
        words = [shell, "-c", script, shell, *line]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return {offered.split("\t")[0].split(":")[0] for offered in done.stdout.splitlines()}

    def check(self, shell, script):
        for line, expected in [
            (["unisono", "tr"], {"train"}),
            (["unisono", "data", "im"], {"import"}),
            (["unisono", "data", "import", "csv", "--header", ""], {"auto", "no", "yes"}),
            (["unisono", "evaluate", "run", "--split", "t"], {"test", "train"}),
            (["unisono", "evaluate", "run", "--spl"], {"--split"}),
            (["unisono", "manual", ""], {"man", "bash", "zsh", "fish"}),
        ]:
            offered = self.completed_by(shell, script, line)
            # zsh leaves the choice among what it is offered to the shell.
            if shell == "zsh":
                offered = {word for word in offered if word.startswith(line[-1])}
            self.assertEqual(offered, expected, (shell, line))

    def test_bash(self):
        path = self.write("completion", self.page("bash"))
        self.check(
            "bash",
            f"""source '{path}'
            COMP_WORDS=("$@"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _unisono
            printf '%s\\n' "${{COMPREPLY[@]}}" """,
        )

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        path = self.write("completion", self.page("zsh"))
        self.check(
            "zsh",
            f"""compdef() {{ :; }}; _files() {{ :; }}; compadd() {{ shift; print -l -- "$@"; }}
            _describe() {{ local array=${{@[-1]}}; print -l -- ${{(P)array}}; }}
            source '{path}'; words=("$@"); CURRENT=$#words; PREFIX=$words[-1]; _unisono""",
        )

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        path = self.write("completion", self.page("fish"))
        # Arguments behind the script begin with its name.
        self.check("fish", f"source '{path}'; complete -C (string join -- ' ' $argv[2..-1])")

    def test_prefix(self):
        copy = self.folder / "prefix/bin/unisono"
        copy.parent.mkdir(parents=True)
        shutil.copy(BINARY, copy)
        words = [copy, "--prefix"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not installed: 'cmake --install", done.stderr)
        (self.folder / "prefix/share/unisono").mkdir(parents=True)
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ))
        self.assertEqual(pathlib.Path(done.stdout.strip()), (self.folder / "prefix").resolve())


if __name__ == "__main__":
    unittest.main()
