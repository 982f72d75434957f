"""strategy.compression: trained, resumed and evaluated through the binary; what it refuses."""

import unittest

import numpy

from harness import BinaryTest, settings

KINDS = {
    "bf16": (),
    "eight_bit": (),
    "one_bit": ("strategy.compression.warmup_steps=2",),
    "threshold": ("strategy.compression.density=0.05",),
    "top_k": ("strategy.compression.density=0.05", "strategy.compression.ramp_steps=3"),
    "power_sgd": ("strategy.compression.rank=1",),
}


def compressed(kind, *given):
    return settings("strategy.kind=allreduce", f"strategy.compression.kind={kind}", *given)


WORDS = """
name = "words"
[data]
path = "text.h5"
[model]
kind = "word2vec"
dimension = 16
window = 3
subsample = 0
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 2
batch_size = 2000
threads = 1
report_every_steps = 1
[strategy]
kind = "averaging"
"""


class Compression(BinaryTest):
    def test_every_kind_is_resumed_to_the_same_bits_and_learns(self):
        for kind, given in KINDS.items():
            with self.subTest(kind=kind):
                options = compressed(kind, *given)
                self.train(f"{kind}-whole", *options, ranks=3)
                half = settings("train.epochs=1", "checkpoint.every_steps=4")
                self.train(f"{kind}-parts", *options, *half, ranks=3)
                result = self.train(f"{kind}-parts", *options, "--resume", ranks=3)
                self.assertNotIn("not bit for bit", result.out)
                self.assert_same_bits(f"{kind}-whole", f"{kind}-parts")
                self.check_report(f"{kind}-whole")

    def check_report(self, run):
        compression = self.summary(run)["compression"]
        self.assertGreater(compression["sent_bytes"], 0)
        self.assertLess(compression["sent_bytes"], compression["plain_bytes"])
        losses = [line["loss"] for line in self.metrics(run) if line["event"] == "train"]
        self.assertLess(losses[-1], losses[0])
        result = self.succeed("evaluate", run)
        self.assertRegex(result.out, rf" accuracy +{self.summary(run)['test']['accuracy']:.6g}\n")

    def test_another_number_of_ranks_goes_on(self):
        options = compressed("top_k", "strategy.compression.density=0.01")
        self.train("run", *options, ranks=3)
        result = self.train("run", *options, *settings("train.epochs=3"), "--resume", ranks=2)
        self.assertIn("not bit for bit", result.out)
        self.assertEqual(self.summary("run")["steps"], 30)
        owners = {name.split("/")[1] for name in self.vectors("run") if "/residual/" in name}
        self.assertEqual(owners, {"0", "1"})

    def test_replicas_may_be_pipelines(self):
        options = compressed("eight_bit", "replica.stages=2", "train.micro_batches=4")
        self.train("pipeline", *options, ranks=4)
        self.check_report("pipeline")

    def test_a_whole_share_is_allreduce(self):
        self.train("plain", *settings("strategy.kind=allreduce"), ranks=3)
        self.train("all", *compressed("top_k", "strategy.compression.density=1"), ranks=3)
        plain, everything = self.vectors("plain"), self.vectors("all")
        for name, values in plain.items():
            self.assertEqual(values.tobytes(), everything[name].tobytes(), name)

    def test_outer_steps_of_compressed_changes(self):
        outer = ("strategy.kind=averaging", "strategy.period=3", 'strategy.outer.kind="nesterov"')
        options = settings(*outer, "strategy.compression.kind=eight_bit")
        self.train("outer-whole", *options, ranks=3)
        self.train("outer-parts", *options, *settings("train.epochs=1", "checkpoint.every_steps=4"), ranks=3)
        self.train("outer-parts", *options, "--resume", ranks=3)
        self.assert_same_bits("outer-whole", "outer-parts")
        self.check_report("outer-whole")

    def write_words(self):
        """Pairs of words that follow one another, so that there is something to learn."""
        random = numpy.random.default_rng(5)
        first = random.integers(0, 100, 12000)
        lines = [" ".join(f"a{word} b{word}" for word in first[at : at + 20]) for at in range(0, len(first), 20)]
        self.write("text.txt", "\n".join(lines))
        self.succeed("data", "import", "text", "text.txt", "--test-fraction", "0.1", "--output", "text.h5")
        self.write("words.toml", WORDS)

    def test_rows_whose_changes_are_added(self):
        self.write_words()
        self.train("plain", config="words.toml", ranks=2)
        plain = self.summary("plain")["test"]["loss"]
        self.train("untrained", *settings("optimizer.learning_rate=1e-9"), config="words.toml", ranks=2)
        least = 0.9 * self.summary("untrained")["test"]["loss"]
        self.assertLess(plain, least)
        for kind in ("bf16", "eight_bit", "one_bit"):
            with self.subTest(kind=kind):
                options = settings(f"strategy.compression.kind={kind}")
                self.train(f"{kind}-whole", *options, config="words.toml", ranks=2)
                self.train(f"{kind}-parts", *options, *settings("train.epochs=1"), config="words.toml", ranks=2)
                self.train(f"{kind}-parts", *options, "--resume", config="words.toml", ranks=2)
                self.assert_same_bits(f"{kind}-whole", f"{kind}-parts")
                compression = self.summary(f"{kind}-whole")["compression"]
                self.assertLess(0, compression["sent_bytes"])
                self.assertLess(compression["sent_bytes"], 0.6 * compression["plain_bytes"])
                self.assertLess(self.summary(f"{kind}-whole")["test"]["loss"], least)
        self.assertAlmostEqual(self.summary("bf16-whole")["test"]["loss"], plain, delta=0.02 * plain)
        for message, *given in (
            ("or strategy.merge = \"sum\"", "strategy.merge=mean"),
            ("rare rows would wait for long", "strategy.compression.kind=top_k"),
            ("its rows are compressed alike", 'strategy.compression.exact=["*"]'),
        ):
            words = settings("strategy.compression.kind=bf16", *given)
            result = self.train("bad", *words, config="words.toml", ranks=2, code=2)
            self.assertIn(message, result.err)

    def test_gradients_that_are_not_numbers_end_the_run(self):
        for kind in ("threshold", "top_k"):
            with self.subTest(kind=kind):
                result = self.train(kind, *compressed(kind, "optimizer.learning_rate=1e38"), ranks=2, code=1)
                self.assertIn(f"{kind} diverged", result.err)

    def test_what_would_mean_nothing_or_cannot_work_is_refused(self):
        for message, (kind, *given) in {
            "strategy.compression.kind": ("zip",),
            "unknown key 'rank'": ("top_k", "strategy.compression.rank=2"),
            "strategy.compression.density": ("top_k", "strategy.compression.density=0"),
            "strategy.compression.threshold": ("threshold", "strategy.compression.threshold=-1"),
            "is outside of the range of fp32": ("threshold", "strategy.compression.threshold=1e-300"),
            "density chooses the threshold, but threshold is given": (
                "threshold",
                "strategy.compression.threshold=1",
                "strategy.compression.density=0.5",
            ),
            "unknown key 'residual_limit' in [strategy.compression]; known here": (
                "threshold",
                "strategy.kind=parameter_server",
                "strategy.compression.threshold=1",
                "strategy.compression.residual_limit=2",
            ),
            "residual_limit is in thresholds": ("threshold", "strategy.compression.residual_limit=2"),
            "strategy.compression.momentum": ("top_k", "strategy.compression.momentum=1"),
            "takes the place of the optimizer's own state": ("top_k", "strategy.compression.momentum=0.9"),
            "strategy.compression.rank": ("power_sgd", "strategy.compression.rank=0"),
            "warmup_steps belongs to compressed gradients": ("none", "strategy.compression.warmup_steps=10"),
            "exact belongs to compressed gradients": ("none", 'strategy.compression.exact=["*"]'),
            "no block of the model fits 'dense9'": ("bf16", 'strategy.compression.exact=["dense9"]'),
            "optimizer.clip_norm would clip sums": ("bf16", "optimizer.clip_norm=1"),
            "so sums depend on the number of ranks": (
                "bf16",
                "communication.reduction=reproducible",
                "train.micro_batches=8",
            ),
            "averages of whole parameters are not compressed": ("bf16", "strategy.kind=averaging"),
            "compressed changes are not sent so": (
                "bf16",
                "strategy.kind=averaging",
                "strategy.outer.kind=sgd",
                "strategy.optimizer_state=keep",
                "strategy.overlap=true",
            ),
            "'kind' in [strategy.compression] is 'power_sgd', which does not exist": (
                "power_sgd",
                "strategy.kind=averaging",
            ),
            "unknown key 'compression'": ("bf16", "strategy.kind=gossip"),
        }.items():
            with self.subTest(message=message):
                result = self.train("bad", *compressed(kind, *given), ranks=3, code=2)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error:"), 1, result)


if __name__ == "__main__":
    unittest.main()
