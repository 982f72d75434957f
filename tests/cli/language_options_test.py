"""What options of training do for language models: schedules in steps, the decay's rule, rates of tokens, bench."""

import json
import unittest

import numpy

import harness
from harness import settings

CONFIG = """
name = "language"
seed = 3
[data]
path = "text.h5"
context = 8
[model]
layers = [
  { kind = "embedding", units = 16 },
  { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 2 }] },
  { kind = "layer_norm" },
  { kind = "unembedding", tied = true } ]
[train]
batch_size = 16
epochs = 2
threads = 1
report_every_steps = 1
[optimizer]
kind = "adamw"
learning_rate = 0.01
"""


class LanguageOptionsTest(harness.BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", CONFIG)
        words = "the cat and the dog saw a bird in the old tree by the river ".split()
        text = " ".join(words[i * i % 17 % len(words)] for i in range(600))
        self.write("text.txt", text)
        self.succeed("data", "import", "tokens", "text.txt", "--tokenizer", "characters", "--output", "text.h5")

    def rates(self, run):
        return [line["learning_rate"] for line in self.metrics(run) if line["event"] == "train"]

    def test_wsd_with_a_warm_up_in_steps_and_a_resumed_run(self):
        words = settings("schedule.kind=wsd", "schedule.warmup_steps=3", "schedule.decay_fraction=0.25")
        self.train("run", *words)
        rates = self.rates("run")
        steps, falling = len(rates), round(0.25 * len(rates))
        numpy.testing.assert_allclose(rates[:3], [0.0025, 0.005, 0.0075])
        numpy.testing.assert_allclose(rates[3 : steps - falling], 0.01)
        expected = [0.01 * (1 - (i / falling) ** 0.5) for i in range(1, falling + 1)]
        numpy.testing.assert_allclose(rates[steps - falling :], expected, atol=1e-12)

        refused = self.unisono("train", "run", "--resume", "--set", "train.epochs=4")
        self.assertEqual(refused.code, 2)
        self.assertIn('schedule.kind = "wsd"', refused.err)
        self.succeed("train", "run", "--resume", *settings("train.epochs=4", "schedule.epochs=4"))
        again = self.rates("run")
        numpy.testing.assert_allclose(again[steps : 2 * steps - 2 * falling], 0.01)
        self.assertLess(again[-1], 1e-9)

    def test_wsd_leaves_the_length_of_the_run_open_until_the_rate_falls(self):
        self.train("run", *settings("schedule.kind=wsd", "train.epochs=1", "schedule.epochs=100"))
        stable = self.rates("run")
        self.assertEqual(set(stable), {0.01})
        self.succeed("train", "run", "--resume", *settings("train.epochs=2", "schedule.epochs=2"))
        self.train("whole", *settings("schedule.kind=wsd", "train.epochs=2"))
        self.assertEqual(self.rates("run"), self.rates("whole"))
        self.assert_same_bits("run", "whole")

    def test_a_warm_up_as_long_as_the_schedule_is_refused(self):
        result = self.train("run", *settings("schedule.warmup_steps=100000"), code=2)
        self.assertIn("schedule.warmup_steps = 100000 leaves none of the schedule's", result.err)
        both = settings("schedule.warmup_steps=3", "schedule.warmup_epochs=1")
        self.assertIn("remove one of them", self.train("run", *both, code=2).err)

    def test_the_rule_of_the_decay(self):
        """Without a gradient, a step of AdamW multiplies what decays by 1 − rate · λ, and leaves the rest."""
        frozen = settings("train.epochs=1", "optimizer.epsilon=1e30", "optimizer.weight_decay=0.5")
        start = self.parameters("none", *frozen, "--set", "optimizer.learning_rate=0")
        layers = [name for name in start if name.endswith(".weight") and name.startswith("residual")]
        tables = [name for name in start if name.startswith("embedding")]
        norms = [name for name in start if name.endswith(".gamma")]
        self.assertTrue(layers and len(tables) == 2 and norms, start.keys())
        for rule, decaying in (
            ("weights", layers + tables),
            ("without_embeddings", layers),
            ("all", layers + tables + norms),
        ):
            end = self.parameters(rule, *frozen, "--set", f"optimizer.decay={rule}")
            for name in layers + tables + norms:
                with self.subTest(rule=rule, block=name):
                    factor = numpy.abs(end[name]).sum() / numpy.abs(start[name]).sum()
                    self.assertEqual(factor < 0.99, name in decaying, factor)

    def parameters(self, run, *words):
        self.train(run, *words)
        vectors = self.vectors(run)
        prefix = "parameters/"
        return {name[len(prefix) :]: value for name, value in vectors.items() if name.startswith(prefix)}

    def test_rates_are_of_tokens_too(self):
        out = self.train("run").out
        self.assertRegex(out, r"speed       [\d,.]+ examples/s, [\d,.]+ tokens/s, ")
        self.assertRegex(out, r"epoch 1/2: .*; [\d,.]+ examples/s, [\d,.]+ tokens/s")
        summary = self.summary("run")
        self.assertAlmostEqual(summary["tokens_per_second"] / summary["examples_per_second"], 8)

    def test_every_metric_of_a_language_model_can_decide(self):
        for metric in ("loss", "perplexity", "bits_per_byte", "accuracy"):
            words = settings(f"train.early_stopping.metric={metric}", "train.early_stopping.patience=1")
            self.train(metric, *words, "--set", "data.validation_fraction=0.2")
            self.assertEqual(self.summary(metric)["best"]["metric"], f"validation {metric}")
        result = self.train("rmse", *settings("checkpoint.best.metric=rmse", "data.validation_fraction=0.2"), code=2)
        self.assertIn("it has loss, perplexity, bits_per_byte, accuracy, top5_accuracy", result.err)

    def test_a_study_compares_language_models_by_their_parameters_and_losses(self):
        study = """
[study]
seeds = 2
margin = 0.1
metric = "validation.perplexity"
[[study.variants]]
strategy = { kind = "averaging", period = 2 }
ranks = [2]
"""
        self.write("study.toml", CONFIG.replace("context = 8", "context = 8\nvalidation_fraction = 0.2") + study)
        out = self.succeed("study", "study.toml", "--output", "study", ranks=2).out
        self.assertIn("compared by validation perplexity", out)
        self.assertIn("averaging", (self.folder / "study" / "study.md").read_text())

    def test_bench_and_info_need_no_set_of_tokens(self):
        words = ["--vocabulary", "100", "--set", "data.path=none.h5"]
        out = self.succeed("bench", "config.toml", "--steps", "2", "--json", *words).out
        figures = json.loads(out.splitlines()[-1])
        self.assertAlmostEqual(figures["tokens_per_second"] / figures["examples_per_second"], 8)
        self.assertIn(" tokens/s (median", self.succeed("bench", "config.toml", "--steps", "2", *words).out)
        self.assertIn("100", self.succeed("info", "config.toml", *words).out)
        refused = self.unisono("bench", "config.toml", "--vocabulary", "100", "--set", "data.context=0")
        self.assertEqual(refused.code, 2)
        self.assertIn("data.context", refused.err)


if __name__ == "__main__":
    unittest.main()
