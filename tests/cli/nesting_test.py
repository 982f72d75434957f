"""Configs and JSON files that are nested very deeply, or very long: they are refused or read, and never crash."""

import resource
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

    def test_the_time_of_long_configs_does_not_grow_with_the_square(self):
        def layers(count):
            pairs = '{ kind = "dense", units = 2 },\n{ kind = "relu" },\n' * (count // 2)
            text = CONFIG.split("layers = [")[0] + 'layers = [{ kind = "flatten" },\n' + pairs
            return text + '{ kind = "dense", units = 10 }]\n[optimizer]' + CONFIG.split("]\n[optimizer]")[1]

        def choices(count):
            values = ", ".join(f"{1e-3 + i * 1e-6:.6f}" for i in range(count))
            space = f'[search.space]\n"optimizer.learning_rate" = [{values}]\n'
            return f'{CONFIG}\n[search]\nmethod = "random"\ntrials = 2\n{space}'

        for text, count in ((layers, 100_000), (choices, 200_000)):
            # Ten times as long: 100 times the time where it grows with the square.
            short, long = (self.seconds_of_check(text(n)) for n in (count // 10, count))
            self.assertLess(long, 30 * max(short, 0.05), text.__name__)

    def seconds_of_check(self, config):
        """Of a core, so that other programs make no difference."""
        self.write("long.toml", config)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = self.unisono("config", "check", "long.toml", timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(result.code, 0, result.err[-2000:])
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    unittest.main()
