"""unisono generate: a model that has learned a text by heart continues it."""

import json
import math
import subprocess
import unittest

from harness import BINARY, BinaryTest, finished, messages

PATTERN = "the cat sat on the mat. "
TEXT = PATTERN * 200
MODEL = """
name = "text"
seed = 1
[data]
path = "text.h5"
context = 31
[model]
layers = [
  { kind = "embedding", units = 32 },
  { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 2 }] },
  { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "dense", units = 64 }, { kind = "gelu_tanh" },
                                 { kind = "dense", units = 32 }] },
  { kind = "layer_norm" },
  { kind = "unembedding", tied = true },
]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 30
batch_size = 8
threads = 1
"""


class GenerateTest(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.digits.parent
        (folder / "text.txt").write_text(TEXT)
        (folder / "text.toml").write_text(MODEL)
        words = ["data", "import", "tokens", "text.txt", "--output", "text.h5", "--tokenizer", "characters"]
        for command in ([*words, "--validation-fraction", "0.1"], ["train", "text.toml", "--output", "run"]):
            subprocess.run([BINARY, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        cls.run_folder = folder / "run"

    def generate(self, *arguments, **options):
        return self.succeed("generate", self.run_folder, *arguments, **options).out

    def texts(self, *arguments, **options):
        return [json.loads(line) for line in self.generate(*arguments, "--json", **options).splitlines()]

    def refuse(self, code, *arguments, run=None):
        result = self.unisono("generate", run or self.run_folder, *arguments)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, "", result)
        self.assertEqual(len(messages(result)), 1, result)
        return messages(result)[0]

    def test_most_likely_tokens_continue_what_was_learned(self):
        # beyond the context of 31 tokens, so that the window moves on
        out = self.generate("--prompt", "the cat sat", "--temperature", 0, "--tokens", 100)
        self.assertEqual(out, TEXT[: 11 + 100] + "\n")

    def test_long_prompts_are_read_at_their_end(self):
        result = self.succeed("generate", self.run_folder, "--prompt", TEXT[:200], "--temperature", 0, "--tokens", 50)
        self.assertEqual(result.out, TEXT[:250] + "\n")
        self.assertIn("200 tokens, of which the model reads the last 31", result.err)

    def test_json(self):
        arguments = ("--prompt", "the cat", "--tokens", 30, "--temperature", 1.5, "--seed", 5)
        (made,) = self.texts(*arguments)
        self.assertEqual(list(made), ["prompt", "text", "tokens", "log_probabilities", "ended_by"])
        self.assertEqual((made["prompt"], made["ended_by"]), ("the cat", "length"))
        self.assertEqual(len(made["text"]), 30)
        self.assertEqual((len(made["tokens"]), len(made["log_probabilities"])), (30, 30))
        self.assertLess(max(made["log_probabilities"]), 0)
        letters = sorted(set(TEXT))
        self.assertEqual([letters[token] for token in made["tokens"]], list(made["text"]))
        self.assertEqual(self.generate(*arguments), "the cat" + made["text"] + "\n")

    def test_probabilities_are_those_of_an_evaluation(self):
        # A text learned by heart: each token is nearly certain.
        (made,) = self.texts("--prompt", TEXT[:24], "--tokens", 24, "--temperature", 0)
        self.assertGreater(math.exp(sum(made["log_probabilities"]) / 24), 0.9)

    def test_a_text_depends_on_seed_and_number_alone(self):
        prompts = ["the cat", "sat on", "t"]
        options = ("--tokens", 40, "--temperature", 2)
        arguments = [word for prompt in prompts for word in ("--prompt", prompt)]
        together = self.texts(*arguments, *options, "--threads", 1)
        self.assertEqual([made["prompt"] for made in together], prompts)
        self.assertEqual(self.texts(*arguments, *options, "--threads", 2), together)
        self.assertEqual(self.texts("--prompt", "the cat", *options), together[:1])
        self.assertEqual(self.texts(*arguments[:2], "--prompt", "on", *arguments[4:], *options)[2], together[2])
        self.assertNotEqual(self.texts(*arguments, *options, "--seed", 2), together)
        same = self.texts("--prompt", "t", "--prompt", "t", *options)
        self.assertNotEqual(same[0]["text"], same[1]["text"])

    def test_more_prompts_than_are_made_together(self):
        prompts = [TEXT[i : i + 8] for i in range(24)] * 2
        self.write("prompts.txt", "".join(prompt + "\n" for prompt in prompts))
        made = self.texts("--prompts", "prompts.txt", "--temperature", 0, "--tokens", 12)
        self.assertEqual([one["prompt"] for one in made], prompts)
        self.assertEqual([one["text"] for one in made], [TEXT[i + 8 : i + 20] for i in range(24)] * 2)

    def test_prompts_from_standard_input(self):
        words = [BINARY, "generate", self.run_folder, "--prompts", "-", "--temperature", "0", "--tokens", "5"]
        done = subprocess.run(words, input="the cat\nthe mat\n", text=True, capture_output=True)
        self.assertEqual(done.stdout, "--- 1 of 2 ---\nthe cat sat \n\n--- 2 of 2 ---\nthe mat. the\n", done.stderr)

    def test_texts_end_before_a_stop(self):
        (made,) = self.texts("--prompt", "the cat", "--temperature", 0, "--stop", "mat", "--stop", "zzz")
        self.assertEqual((made["text"], made["ended_by"]), (" sat on the ", "stop"))
        self.assertEqual(len(made["tokens"]), len(" sat on the mat"))
        out = self.generate("--prompt", "the cat", "--temperature", 0, "--stop", "mat")
        self.assertEqual(out, "the cat sat on the \n")

    def test_rules_of_sampling(self):
        likeliest = self.generate("--prompt", "the cat", "--tokens", 30, "--temperature", 0)
        for rule in (("--top-k", 1), ("--top-p", 1e-6), ("--temperature", 1e-4)):
            self.assertEqual(self.generate("--prompt", "the cat", "--tokens", 30, *rule), likeliest)
        penalised = self.generate("--prompt", "the cat", "--tokens", 5, "--temperature", 0, "--repetition-penalty", 1e6)
        self.assertNotEqual(penalised, likeliest[:12] + "\n")

    def test_one_of_several_ranks_does_it(self):
        out = self.generate("--prompt", "the cat", "--temperature", 0, "--tokens", 4, ranks=2)
        self.assertEqual(out, "the cat sat\n")

    def test_refused_options(self):
        for option, value, says in (
            ("--temperature", -1, "--temperature -1"),
            ("--temperature", "nan", "--temperature nan"),
            ("--top-p", 0, "--top-p 0: must be above 0"),
            ("--top-p", 1.5, "--top-p 1.5"),
            ("--top-k", 0, "--top-k"),
            ("--tokens", 0, "--tokens"),
            ("--repetition-penalty", 0, "--repetition-penalty 0"),
            ("--stop", "", "--stop: is empty"),
        ):
            self.assertIn(says, self.refuse(2, "--prompt", "the", option, value))

    def test_refused_prompts(self):
        self.assertIn("there is no prompt", self.refuse(2))
        self.assertIn("the prompt is empty", self.refuse(2, "--prompt", ""))
        self.write("prompts.txt", "the\n\ncat\n")
        self.assertIn("prompts.txt:2: the prompt is empty", self.refuse(2, "--prompts", "prompts.txt"))
        self.assertIn("missing.txt: cannot be read", self.refuse(3, "--prompts", "missing.txt"))
        self.assertIn("Z", self.refuse(3, "--prompt", "the Z"))
        self.write("prompts.txt", b"the\n\xff\xfe\n")
        self.assertIn("prompts.txt:2: ", self.refuse(3, "--prompts", "prompts.txt"))

    def test_refused_models(self):
        self.assertIn("missing", self.refuse(4, "--prompt", "the", run="missing"))
        self.train("digits")
        message = self.refuse(2, "--prompt", "the", run="digits")
        self.assertIn("not a language model", message)
        self.assertIn("unisono predict", message)

    def test_help(self):
        result = finished([BINARY, "generate", "--help"], self.folder)
        for option in ("--prompt", "--prompts", "--tokens", "--temperature", "--top-k", "--top-p", "--json", "--stop"):
            self.assertIn(option, result.out)


if __name__ == "__main__":
    unittest.main()
