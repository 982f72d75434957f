"""Configs and JSON files that are nested very deeply, or very long: they are refused or read, and never crash."""

import time
import unittest

from harness import CONFIG, BinaryTest, messages

CONFIGURATION, DATA, CHECKPOINT = 2, 3, 4
DEEP = "[" * 200_000 + "]" * 200_000
DEEP_OBJECTS = '{"a":' * 200_000 + "1" + "}" * 200_000


class NestingTest(BinaryTest):
    def refuse(self, code, message, *arguments):
        result = self.unisono(*arguments)
        self.assertEqual(result.code, code, str(result)[-2000:])
        self.assertEqual(len(messages(result)), 1, str(result)[-2000:])
        self.assertRegex(messages(result)[0], message)

    def test_configs_of_deep_tables(self):
        steps = ".".join("a" * 80_000)
        deep = {
            "key": f"{steps} = 1\n",
            "table": f"[{steps}]\nx = 1\n",
            "spread": "[" + ".".join("a" * 200) + "]\n" + ".".join("b" * 200) + " = 1\n",
            "braces": ("a.b.c = { " * 120) + "x = 1" + "}" * 120 + "\n",
            "array": "a = " + DEEP + "\n",
        }
        for name, text in deep.items():
            with self.subTest(name):
                self.write("deep.toml", CONFIG + "\n" + text)
                self.refuse(CONFIGURATION, r"deep\.toml:\d+:\d+: .*nested too deeply", "config", "check", "deep.toml")

    def test_dots_in_values_are_no_levels(self):
        self.write("dots.toml", 'name = "' + "." * 1000 + '"\n# ' + "[." * 1000 + CONFIG.replace('name = "test"', ""))
        self.succeed("config", "check", "dots.toml")
        numbers = ", ".join(["0.5"] * 1000)
        self.write("numbers.toml", CONFIG + f"\n[fault]\nemulated_gflops = [{numbers}]\n")
        self.succeed("config", "check", "numbers.toml")

    def test_deep_overrides(self):
        key = ".".join("a" * 50_000)
        self.refuse(CONFIGURATION, "more than 256 steps", "config", "check", "config.toml", "--set", f"{key}=1")
        value = "[" * 30_000 + "]" * 30_000
        self.refuse(CONFIGURATION, "nested too deeply", "config", "check", "config.toml", "--set", f"data.path={value}")

    def test_deep_records_of_runs(self):
        for record in ("summary.json", "metrics.jsonl"):
            for text in (DEEP, DEEP_OBJECTS, '{"event":"train","step":1,"x":' + DEEP + "}"):
                with self.subTest(record):
                    self.train("run", "--overwrite", "--set", "train.epochs=1")
                    self.write(f"run/{record}", text + "\n")
                    expected = (DATA, rf"run/{record}: arrays and objects are nested more than 256 deep")
                    self.refuse(*expected, "report", "run", "--output", "page.html")
                    self.refuse(*expected, "watch", "run", "--once")
                    if record == "metrics.jsonl":
                        resume = ("--resume", "--set", "train.epochs=2", "--output", "run")
                        self.refuse(*expected, "train", "config.toml", *resume)

    def test_deep_journals(self):
        self.write("search/journal.jsonl", "0123456789abcdef " + DEEP + "\n")
        self.refuse(DATA, "nested more than 256 deep", "report", "search", "--output", "page.html")

    def test_long_configs_take_seconds(self):
        """A hundred thousand layers or twice as many choices: minutes, where the time grew with the square."""
        layers = '{ kind = "dense", units = 2 },\n{ kind = "relu" },\n' * 50_000
        text = CONFIG.split("layers = [")[0] + 'layers = [{ kind = "flatten" },\n' + layers
        text += '{ kind = "dense", units = 10 }]\n[optimizer]' + CONFIG.split("]\n[optimizer]")[1]
        self.write("layers.toml", text)
        self.check_in_time("layers.toml")
        choices = ", ".join(f"{1e-3 + i * 1e-6:.6f}" for i in range(200_000))
        space = f'\n[search]\nmethod = "random"\ntrials = 2\n[search.space]\n"optimizer.learning_rate" = [{choices}]\n'
        self.write("choices.toml", CONFIG + space)
        self.check_in_time("choices.toml")

    def check_in_time(self, config, seconds=20):
        begin = time.monotonic()
        result = self.unisono("config", "check", config, timeout=150)
        self.assertEqual(result.code, 0, result.err[-2000:])
        self.assertLess(time.monotonic() - begin, seconds)


if __name__ == "__main__":
    unittest.main()
