"""Language models through the binary: what they learn, what their metrics say, and that any division of the work over
ranks leaves what one rank leaves."""

import json
import math
import random
import re
import shutil
import unittest

import h5py

from harness import BinaryTest, messages, settings

MODEL = """
name = "letters"
seed = 3
[data]
path = "text.h5"
context = 20
[model]
layers = [
  { kind = "embedding", units = 16 },
  { kind = "repeat", times = 2, layers = [
    { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 2, dropout = 0.1 },
                                   { kind = "dropout", rate = 0.1 }] },
    { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "dense", units = 32 }, { kind = "gelu_tanh" },
                                   { kind = "dense", units = 16 }] } ] },
  { kind = "layer_norm" },
  { kind = "unembedding", tied = true } ]
[optimizer]
kind = "adamw"
learning_rate = 0.01
clip_norm = 1
[train]
epochs = 2
batch_size = 12
micro_batches = 4
threads = 1
"""

LLAMA = """
layers = [
  { kind = "embedding", units = 16, positions = "none" },
  { kind = "residual", layers = [{ kind = "rms_norm" },
                                 { kind = "attention", heads = 4, key_heads = 2, rotary = true, bias = false }] },
  { kind = "residual", layers = [{ kind = "rms_norm" }, { kind = "swiglu", units = 24 },
                                 { kind = "dense", units = 16, bias = false }] },
  { kind = "rms_norm" },
  { kind = "unembedding" } ]
"""

WORDS = ("the", "cat", "dog", "sees", "a", "house", "and", "runs", "to", "tree")


def text_of(words, seed=1):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words)) + "\n"


def layers_of(config):
    start = config.index("layers = [")
    return config[start : config.index("[optimizer]")]


class LanguageModelTest(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", text_of(1500))
        self.write("config.toml", MODEL)
        words = ("--output", "text.h5", "--tokenizer", "characters", "--validation-fraction", "0.1")
        self.succeed("data", "import", "tokens", "text.txt", *words)

    def evaluations(self, run):
        """Metrics of the validation part, after each epoch."""
        return [line for line in self.metrics(run) if line["event"] == "evaluation" and line["split"] == "validation"]


class Learning(LanguageModelTest):
    def test_it_learns_the_words_of_a_text(self):
        self.train("run", *settings("train.epochs=12", "train.micro_batches=1"))
        last = self.evaluations("run")[-1]
        # Ten words drawn at random, of 3.2 letters and a space on average: ln 10 nats each, 0.55 a character, whatever
        # the model. One that knows no more than how frequent the characters are has 2.5.
        self.assertLess(last["loss"], 1)
        self.assertGreater(last["loss"], 0.5)
        self.assertAlmostEqual(last["perplexity"], math.exp(last["loss"]), delta=1e-9 * last["perplexity"])
        self.assertAlmostEqual(last["bits_per_byte"], last["loss"] / math.log(2), delta=1e-9)  # a character is a byte
        self.assertGreater(last["accuracy"], 0.6)

    def test_evaluate_gives_the_metrics_of_the_run(self):
        self.train("run")
        last = self.evaluations("run")[-1]
        result = self.succeed("evaluate", "run")
        for name in ("loss", "perplexity", "bits_per_byte", "accuracy"):
            found = float(re.search(rf"^ *{name} +(\S+)$", result.out, re.MULTILINE)[1])
            self.assertAlmostEqual(found, last[name], delta=1e-5 * last[name])  # six digits are shown

    def test_a_text_is_evaluated_with_windows_that_overlap(self):
        self.train("run")
        self.write("other.txt", text_of(300, seed=5))

        def loss(*options):
            return json.loads(self.succeed("evaluate", "run", "--input", "other.txt", "--json", *options).out)["loss"]

        apart, overlapping = loss(), loss("--stride", "5")
        self.assertNotEqual(overlapping, apart)  # tokens are predicted from others before them
        self.assertLess(abs(overlapping - apart), 0.2 * apart)
        self.assertEqual(loss("--stride", "20"), apart)
        for options, message in (
            (("--stride", "21"), "20 tokens at once"),
            (("--input", "none.txt"), "none.txt"),
        ):
            result = self.unisono("evaluate", "run", *options)
            self.assertIn(message, messages(result)[0])
        self.write("foreign.txt", "the cat sees thé dog\n")
        result = self.unisono("evaluate", "run", "--input", "foreign.txt")
        self.assertEqual(result.code, 3, result)
        self.assertIn("é", messages(result)[0])

    def test_a_llama_trains(self):
        self.write("config.toml", MODEL.replace(layers_of(MODEL), LLAMA))
        self.train("run", *settings("train.epochs=4"))
        losses = [line["loss"] for line in self.evaluations("run")]
        self.assertLess(losses[-1], losses[0])


class Divided(LanguageModelTest):
    def test_pipelines_leave_what_one_rank_leaves(self):
        self.train("one")
        for ranks, pairs in (
            (2, ["replica.stages=2"]),
            (2, ["replica.stages=2", "replica.schedule=naive", "replica.recompute=all"]),
            (1, ["replica.recompute=blocks"]),
            (2, ["replica.stages=2", "replica.schedule=zero_bubble", "replica.recompute=blocks"]),
            (3, ["replica.stages=3", "replica.schedule=gpipe"]),
            (2, ["replica.stages=2", "replica.schedule=zero_bubble"]),
            (2, ["replica.stages=2", "replica.schedule=interleaved", "replica.chunks=2"]),
        ):
            with self.subTest(pairs):
                self.train("-".join(pairs), *settings(*pairs), ranks=ranks)
                self.assert_same_run("one", "-".join(pairs))

    def test_reproducible_sums_leave_it_on_any_number_of_ranks(self):
        reproducible = settings("communication.reduction=reproducible", "communication.leaves=4", "data.windows=random")
        self.train("one", *reproducible)
        stages = ["replica.stages=2"]
        for ranks, pairs in ((3, []), (4, stages), (4, [*stages, "replica.schedule=zero_bubble"])):
            with self.subTest(ranks=ranks, pairs=pairs):
                run = f"{ranks}-{len(pairs)}"
                self.train(run, *reproducible, *settings(*pairs), ranks=ranks)
                self.assert_same_bits("one", run)

    def test_ranks_and_threads_train_the_same_model(self):
        self.train("one", *settings("train.epochs=1"))
        self.train("threads", *settings("train.epochs=1", "train.threads=2"))
        self.assert_same_bits("one", "threads")
        self.train("ranks", *settings("train.epochs=1"), ranks=2)
        # AdamW's first steps move a parameter by the rate whatever its gradient's size, so that roundings of gradients
        # near 0 become differences of a step; the losses are those of the same training.
        for a, b in zip(self.evaluations("one"), self.evaluations("ranks")):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3)

    def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(self):
        self.train("whole")
        self.train("parts", *settings("train.epochs=1"))
        self.succeed("train", "--resume", "parts", *settings("train.epochs=2"))
        self.assert_same_bits("whole", "parts")
        self.train("stages", *settings("train.epochs=1", "replica.stages=2"), ranks=2)
        self.succeed("train", "--resume", "stages", *settings("train.epochs=2", "replica.stages=1"))
        self.assert_same_bits("whole", "stages")


class TensorParallel(LanguageModelTest):
    """Layers whose work ranks share, by 4 parts."""

    DROPOUT = '"gelu_tanh" }, { kind = "dropout", rate = 0.2 }'
    FOUR = MODEL.replace("heads = 2", "heads = 4").replace('"gelu_tanh" }', DROPOUT)
    PARTS = "replica.tensor_leaves=4"

    def setUp(self):
        super().setUp()
        self.write("config.toml", self.FOUR)

    def check_same(self, *cases, common=()):
        self.train("one", *settings(self.PARTS, *common))
        for ranks, *pairs in cases:
            with self.subTest(ranks=ranks, pairs=pairs):
                run = f"{ranks} " + " ".join(pairs).replace("replica.", "")
                self.train(run, *settings(self.PARTS, *common, *pairs), ranks=ranks)
                self.assert_same_bits("one", run)

    def test_any_number_of_ranks_leaves_what_one_rank_leaves(self):
        both = ("replica.tensor=2", "replica.stages=2")
        schedules = ("naive", "gpipe", "1f1b", "interleaved", "zero_bubble")
        self.check_same(
            (2, "replica.tensor=2"),
            (4, "replica.tensor=4"),
            (2, "replica.stages=2"),
            *((4, *both, f"replica.schedule={schedule}") for schedule in schedules),
            (4, *both, "replica.recompute=all"),
            (4, *both, "replica.recompute=blocks"),
        )

    def test_so_do_replicas_with_reproducible_sums(self):
        self.check_same((4, "replica.tensor=2"), (2,), common=("communication.reduction=reproducible",))

    def test_norms_of_blocks_are_those_of_whole_blocks(self):
        both = (4, "replica.tensor=2", "replica.stages=2")
        self.check_same((2, "replica.tensor=2"), both, common=("optimizer.kind=lamb",))

    def test_a_llama_too(self):
        llama = LLAMA.replace("4, key_heads = 2", "8, key_heads = 4")
        self.write("config.toml", MODEL.replace(layers_of(MODEL), llama))
        self.check_same((2, "replica.tensor=2"), (4, "replica.tensor=4"))

    def test_a_run_goes_on_and_is_used_on_any_division(self):
        self.train("whole", *settings(self.PARTS))
        self.train("parts", *settings(self.PARTS, "replica.tensor=2", "train.epochs=1"), ranks=2)
        changed = settings("train.epochs=2", "replica.tensor=4")
        result = self.succeed("train", "--resume", "parts", *changed, ranks=4)
        self.assertIn("as if it had not stopped, although these differ: ranks", result.out)
        self.assert_same_bits("whole", "parts")
        self.train("other", *settings("replica.tensor=2", "train.epochs=1"), ranks=2)
        result = self.succeed("train", "--resume", "other", *settings("train.epochs=2", "replica.tensor=1"))
        self.assertIn("up to rounding", result.out)
        of_parts = self.succeed("evaluate", "parts").out
        self.assertEqual(self.succeed("evaluate", "whole").out, of_parts.replace("parts", "whole"))
        self.succeed("generate", "parts", "--prompt", "the ", "--tokens", "5")

    def test_without_a_fixed_order_losses_are_those_of_one_rank(self):
        self.train("one", *settings("train.epochs=1"))
        self.train("two", *settings("train.epochs=1", "replica.tensor=2"), ranks=2)
        for a, b in zip(self.evaluations("one"), self.evaluations("two")):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3)  # see test_ranks_and_threads_train_the_same_model
        first, other = (self.metrics(run)[0] for run in ("one", "two"))
        # Of each block of two residual ones 2 sums forward and 2 backward, of the embedding and of the head one: [60,
        # 16] activations for each of 4 micro-batches; and the softmax of the head, on 2 ranks.
        summary = self.summary("two")
        expected = summary["steps"] * 2 * 4 * (10 * 60 * 16 * 4 + 60 * (32 * 2 + 8))
        self.assertGreaterEqual(summary["tensor_bytes"], expected)
        self.assertLess(summary["tensor_bytes"], 1.2 * expected)  # rows are filled up to a register's lanes
        for name in ("gradient_norm", "parameter_norm"):
            self.assertAlmostEqual(first[name], other[name], delta=1e-3 * first[name])

    def test_what_cannot_be_divided_is_refused(self):
        digits = 'name = "d"\n[data]\npath = "digits.h5"\n[optimizer]\nlearning_rate = 0.1\n[model]\n'
        linear = digits + 'kind = "linear"\n'
        one_layer = digits + 'layers = [{ kind = "dense", units = 10 }]\n'
        two_layers = one_layer.replace("[{", '[{ kind = "dense", units = 3 }, { kind = "relu" }, {')
        no_heads = self.FOUR.replace("heads = 4", "heads = 1")
        for config, ranks, pairs, message in (
            (self.FOUR, 2, ["replica.tensor=8", "replica.tensor_leaves=8"], "do not divide 2 ranks"),
            (no_heads, 2, ["replica.tensor=2"], "divided into 2 parts (replica.tensor, replica.tensor_leaves)"),
            (self.FOUR, 1, ["replica.tensor_leaves=64"], "cannot be divided into 64 parts"),
            (self.FOUR, 2, ["replica.tensor=2", "replica.tensor_leaves=3"], "no multiple of tensor = 2"),
            (self.FOUR, 2, ["replica.tensor=2", "replica.tensor_leaves=6"], "must be a power of two"),
            (self.FOUR, 2, ["replica.tensor=2", "replica.stages=2"], "stages × tensor = 2 × 2 does not divide 2 ranks"),
            (self.FOUR, 3, ["replica.tensor=2", "replica.stages=auto"], "2 ranks for each layer do not divide 3 ranks"),
            (self.FOUR, 1, ["replica.tensor=2", "replica.stages=auto"], "2 ranks for each layer do not divide 1 rank"),
            (self.FOUR, 2, ["replica.tensor=2", "strategy.kind=parameter_server"], "remove replica.tensor"),
            (self.FOUR, 2, ["replica.tensor=2", "device=cuda", "precision=bf16"], "in fp32 only so far"),
            (linear, 2, ["replica.tensor=2"], "no layers that could be divided"),
            (one_layer, 2, ["replica.tensor=2"], "no layers that can be divided"),
            (two_layers, 4, ["replica.tensor=4"], "no layer of the model has as many units as there are parts (4)"),
        ):
            with self.subTest(message):
                self.write("config.toml", config)
                result = self.train("new", *settings(*pairs), ranks=ranks, code=2)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn(message, messages(result)[0])

    def test_placement_counts_what_a_rank_has_of_each_layer(self):
        pairs = ("replica.tensor=2", "replica.placement.speed=[1, 1, 3, 3]")
        self.train("one", *settings(self.PARTS))
        self.train("placed", *settings(self.PARTS, "replica.stages=2", *pairs), ranks=4)
        self.assert_same_bits("one", "placed")
        self.assertIn("ranks = [1, 0]", (self.folder / "placed" / "config.toml").read_text())  # the fast ones have more
        shown = json.loads(self.succeed("info", "config.toml", "--json", *settings(*pairs, "replica.stages=2")).out)
        self.assertEqual([stage["rank"] for stage in shown["stages"]], [2, 0])  # the first of those that share a stage
        tight = 'replica.placement.memory="2 MiB"'
        refused = self.train("new", *settings("replica.tensor=2", "replica.stages=auto", tight), ranks=4, code=2)
        self.assertIn("fits into no placement on 4 ranks", messages(refused)[0])

    def test_info_shows_repetitions_that_are_alike_once(self):
        text = self.succeed("info", "config.toml").out
        self.assertEqual(len(re.findall(r"(?m)^repeat1\.1…2\.residual2\.dense1 +dense ", text)), 1, text)
        self.assertNotIn("repeat1.2.", text)
        layers = json.loads(self.succeed("info", "config.toml", "--json").out)["layers"]
        self.assertIn("repeat1.2.residual2.dense1", [layer["name"] for layer in layers])
        frozen = self.succeed("info", "config.toml", *settings('train.freeze=["repeat1.1.residual1"]')).out
        self.assertIn("repeat1.1.residual2.dense1", frozen)  # not alike
        self.assertIn("repeat1.2.residual2.dense1", frozen)

    def test_info_predicts_what_a_rank_needs(self):
        wide = self.FOUR.replace("units = 32", "units = 4096")
        self.write("config.toml", wide)

        def gradient(*pairs):
            out = self.succeed("info", "config.toml", *settings(*pairs)).out
            return float(re.search(r"parameters and gradient +(\S+) MiB", out)[1])

        self.assertLess(gradient("replica.tensor=2"), 0.55 * gradient())


class Refused(LanguageModelTest):
    """Each with one message and its exit code."""

    def refused(self, config, message, *pairs, code=2):
        with self.subTest(message):
            self.write("config.toml", config)
            result = self.train("new", *settings(*pairs), code=code)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn(message, messages(result)[0])

    def test_layers_that_do_not_fit(self):
        head = '{ kind = "unembedding", tied = true }'
        self.refused(MODEL.replace("heads = 2", "heads = 3"), "heads = 3 does not divide the 16 units")
        self.refused(MODEL.replace("heads = 2", "heads = 4, key_heads = 3"), "key_heads = 3 does not divide heads = 4")
        self.refused(MODEL.replace("heads = 2", "heads = 2, head_units = 5, rotary = true"), "an even number of units")
        self.refused(MODEL.replace(f",\n  {head}", ""), "let the last layer be { kind = \"unembedding\" }")
        narrow = '{ kind = "dense", units = 8 }, '
        self.refused(MODEL.replace(head, narrow + head), "tied weights its inputs must have the 16")
        self.refused(MODEL.replace(head, head + ', { kind = "relu" }'), "after the unembedding layer")
        self.refused(MODEL.replace('{ kind = "embedding", units = 16 },', ""), "begin with an embedding layer")
        self.refused(MODEL.replace('{ kind = "gelu_tanh" }', '{ kind = "batch_norm" }'), "does not take sequences")
        self.refused(MODEL.replace("times = 2", "times = 0"), "at least 1")
        self.refused(MODEL.replace(head, '{ kind = "sequence_pool" }, ' + head), "'sequence_pool1' has made one vector")
        self.refused(MODEL.replace("heads = 2", "heads = 2, causal = false"), "tokens see later ones (causal = false)")
        squared = 'loss = "mean_squared_error"\n[optimizer]'
        self.refused(MODEL.replace("[optimizer]", squared), "is softmax_cross_entropy")

    def test_sets_that_do_not_fit(self):
        self.refused(MODEL.replace("context = 20\n", ""), "context")
        self.refused(MODEL.replace("context = 20", "context = 100000"), "context", code=3)
        self.refused(MODEL.replace('"text.h5"', '"digits.h5"'), "context")
        table = MODEL.replace('"text.h5"', '"digits.h5"').replace("context = 20\n", "")
        self.refused(table, "an embedding layer takes token numbers")
        attention = 'layers = [{ kind = "dense", units = 16 }, { kind = "attention", heads = 2 }]\n'
        self.refused(table.replace(layers_of(table), attention), "its inputs have one row for each example")
        pooled = '{ kind = "sequence_pool" }, { kind = "attention", heads = 2 } ]\n'
        last = '{ kind = "layer_norm" },\n  { kind = "unembedding", tied = true } ]\n'
        self.refused(MODEL.replace(last, pooled), "its inputs have one row for each example")
        self.refused(MODEL, "holds the tokens of a text, whose end is held out", 'data.split_by="rows"')

    def test_tokens_of_another_tokenizer(self):
        one = settings("train.epochs=1")
        self.train("run", *one)
        self.succeed("data", "import", "tokens", "text.txt", "--tokenizer", "bytes", "--output", "bytes.h5")
        starts = settings("train.initialise_from=run", "data.path=bytes.h5", "data.validation_fraction=0.1")
        for words in (
            ("evaluate", "run", "--data", "bytes.h5", "--split", "train"),
            ("train", "config.toml", *one, *starts, "--output", "other"),
            ("train", "config.toml", *settings("data.path=bytes.h5"), "--output", "run", "--resume"),
        ):
            result = self.unisono(*words)
            self.assertEqual((result.code, len(messages(result))), (3, 1), result)

    def test_a_set_that_does_not_name_its_tokenizer_is_warned_of(self):
        one = settings("train.epochs=1")
        self.train("run", *one)
        shutil.copy(self.folder / "text.h5", self.folder / "bare.h5")
        with h5py.File(self.folder / "bare.h5", "a") as file:
            del file["tokenizer"]
        warning = "bare.h5: holds no tokenizer, so it cannot be checked that its tokens are those of run"
        self.assertIn(warning, self.succeed("evaluate", "run", "--data", "bare.h5").err)
        starts = settings("train.initialise_from=run", "data.path=bare.h5")
        self.assertIn(warning, self.train("other", *one, *starts, ranks=2).err)
        self.assertNotIn("tokenizer", self.succeed("evaluate", "run").err)

    def test_predict_says_what_to_use_instead(self):
        self.train("run", *settings("train.epochs=1"))
        result = self.unisono("predict", "run", "--output", "out.csv")
        self.assertEqual(result.code, 2, result)
        self.assertIn("language model", messages(result)[0])


if __name__ == "__main__":
    unittest.main()
