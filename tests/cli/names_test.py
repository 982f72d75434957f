"""Names from files of others, and paths: what a terminal, a log and a spreadsheet see of them."""

import csv
import json
import os
import unittest

import h5py

from harness import CONFIG, BinaryTest, messages

EVIL = "\x1b]0;owned\x07 \x1b[2J\x9b31m"
TWO_LINES = "cat\nunisono: all is well"
FORMULA = "=cmd|' /C calc'!A0"


def latin1(text):
    """A word of a command line whose bytes are these, which are no UTF-8."""
    return os.fsdecode(text.encode("latin-1"))


class NamesTest(BinaryTest):
    def named_classes(self, *names):
        self.write("named.h5", self.digits.read_bytes())
        with h5py.File(self.folder / "named.h5", "r+") as file:
            file.attrs["class_names"] = [*names, *(f"c{i}" for i in range(10 - len(names)))]
        self.write("config.toml", CONFIG.replace("digits.h5", "named.h5").replace("epochs = 2", "epochs = 1"))

    def assert_printable(self, text, message=None):
        controls = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
        self.assertEqual(controls, [], message or text)

    def test_control_characters_in_names_of_classes(self):
        self.named_classes(EVIL, TWO_LINES)
        self.train("run")
        for arguments in (("data", "describe", "named.h5"), ("evaluate", "run"), ("watch", "run", "--once")):
            with self.subTest(arguments):
                result = self.succeed(*arguments)
                self.assert_printable(result.out + result.err)
                self.assertNotRegex(result.out + result.err, "(?m)^unisono: all is well")
        self.assertIn(r"\u001b[2J", self.succeed("evaluate", "run").out)
        stored = json.loads(self.succeed("evaluate", "run", "--json").out)
        self.assertEqual(stored["classes"][0]["name"], EVIL)

    def test_control_characters_in_the_name_of_a_run(self):
        name = 'name = "\\u001b]0;owned\\u0007\\u009bx\\nunisono: all is well"'
        self.write("config.toml", CONFIG.replace('name = "test"', name).replace("epochs = 2", "epochs = 1"))
        result = self.train("run")
        for text in (result.out + result.err, (self.folder / "run/log.txt").read_text()):
            self.assert_printable(text)
            self.assertNotRegex(text, "(?m)^unisono: all is well")
        other = self.train("other")
        self.assert_printable(other.out)
        result = self.succeed("runs", ".")
        self.assert_printable(result.out + result.err)

    def test_control_characters_in_tables(self):
        self.write("table.csv", f'a,{EVIL},"{TWO_LINES}",label\n' + "1,2,3,x\n2,3,5,y\n2,9,5,\x1b[2J\n" * 20)
        result = self.succeed("data", "import", "csv", "table.csv", "--label", "label", "--output", "table.h5")
        self.assert_printable(result.out + result.err)
        self.assertNotRegex(result.out, "(?m)^unisono: all is well")
        result = self.succeed("data", "describe", "table.h5")
        self.assert_printable(result.out + result.err)
        self.assertNotRegex(result.out, "(?m)^unisono: all is well")
        result = self.unisono("data", "import", "csv", "table.csv", "--label", TWO_LINES + "\x1b", "--output", "a.h5")
        self.assertEqual(result.code, 2, result)
        self.assert_printable(result.err)
        self.assertNotRegex(result.err, "(?m)^unisono: all is well")

    def test_formulas_in_predictions(self):
        self.named_classes(*[FORMULA] * 2, *("@sum", "+a", "-5", "-"))
        self.train("run")
        self.succeed("predict", "run", "--output", "p.csv")
        with open(self.folder / "p.csv", newline="") as file:
            names = {row["class"]: row["class_name"] for row in csv.DictReader(file)}
        expected = {"0": "'" + FORMULA, "1": "'" + FORMULA, "2": "'@sum", "3": "'+a", "4": "-5", "5": "-"}
        seen = expected.keys() & names.keys()
        self.assertTrue(seen & {"0", "1", "2", "3"}, names)
        self.assertEqual({key: names[key] for key in seen}, {key: expected[key] for key in seen})

    def test_folders_that_are_no_utf8(self):
        folder = latin1("r\xe9sultats")
        search = '\n[search]\nmethod = "random"\ntrials = 1\n[search.space]\n"optimizer.learning_rate" = [0.1, 0.2]\n'
        self.write("search.toml", CONFIG.replace("[data]", "[data]\nvalidation_fraction = 0.2") + search)
        for words in (("train", "config.toml"), ("search", "search.toml"), ("find-rate", "config.toml")):
            with self.subTest(words):
                result = self.unisono(*words, "--output", folder)
                self.assertEqual(result.code, 2, result)
                self.assertRegex(messages(result)[0], r"r\\xe9sultats: the name of this folder is not UTF-8")
                self.assertFalse(os.path.exists(os.path.join(self.folder, folder)))

    def test_paths_that_are_no_utf8_in_json(self):
        self.train("run", "--set", "train.epochs=1")
        os.symlink(self.digits, os.path.join(self.folder, latin1("d\xe9.h5")))
        result = self.succeed("evaluate", "run", "--data", latin1("d\xe9.h5"), "--json")
        self.assertIn("\ufffd", json.loads(result.out)["data"])


if __name__ == "__main__":
    unittest.main()
