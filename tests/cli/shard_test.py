"""strategy.shard = "optimizer": the bits of the whole optimizer, with a part of its state on each rank."""

import json
import unittest

from harness import BinaryTest, messages, settings

SHARD = settings("strategy.shard=optimizer")
AUTOMATIC = settings("strategy.shard=automatic")
WHOLE = settings("strategy.shard=none")
# The norms of layers and of the whole gradient are needed.
HARD = settings('optimizer={ kind = "lamb", learning_rate = 0.02, clip_norm = 0.5, weight_decay = 0.01 }')
# Ranks that share no memory, and buckets so small that each rank's shard has many slices.
MESSAGES = settings("communication.shared_memory=false", "communication.bucket_bytes=256")


class Shard(BinaryTest):
    def test_weights_state_and_norms_have_the_bits_of_the_whole_optimizer(self):
        for name, options in {
            "adam": (),
            "lamb": HARD,
            "messages": (*HARD, *MESSAGES),
            "adam-messages": MESSAGES,
            "sgd": settings('optimizer={ kind = "sgd", learning_rate = 0.1 }'),
            "average": settings("train.weight_average=0.9", "train.micro_batches=4"),
            "frozen": (*HARD, *settings('train.freeze=["convolution1"]')),
        }.items():
            for ranks in (1, 2, 3, 4) if name in ("lamb", "messages") else (3,):
                with self.subTest(name=name, ranks=ranks):
                    run, other = f"{name}-{ranks}-whole", f"{name}-{ranks}-shards"
                    self.train(run, *WHOLE, *options, ranks=ranks)
                    self.train(other, *SHARD, *options, ranks=ranks)
                    self.assert_same_run(run, other)

    def test_ranks_of_one_node_share_the_parameters_of_large_models_unless_a_setting_rules_it_out(self):
        # 4.3 million parameters, and of each two moments and a gradient: 138 MB of two ranks.
        large = settings(
            'model.layers=[{ kind = "flatten" }, { kind = "dense", units = 2048 }, { kind = "relu" }, '
            '{ kind = "dense", units = 2048 }, { kind = "dense", units = 10 }]',
            'optimizer={ kind = "adam", learning_rate = 0.001 }',
            "train.epochs=1",
            "train.batch_size=120",
        )
        self.train("whole", *WHOLE, *large, ranks=2)
        self.train("automatic", *AUTOMATIC, *large, ranks=2)
        self.assert_same_run("whole", "automatic")
        self.assertIn("optimizer_state", self.summary("automatic"))
        for name, options in {
            "nodes": MESSAGES,
            "compressed": settings("strategy.compression.kind=bf16"),
            "reproducible": settings("communication.reduction=reproducible", "train.micro_batches=4"),
        }.items():
            with self.subTest(name=name):
                self.train(name, *AUTOMATIC, *large, *options, ranks=2)
                self.assertNotIn("optimizer_state", self.summary(name))
        self.train("small", *AUTOMATIC, ranks=2)
        self.assertNotIn("optimizer_state", self.summary("small"))

    def test_the_best_weights_come_back_after_early_stopping(self):
        stop = settings("train.early_stopping.patience=1", "train.epochs=6", "data.validation_fraction=0.2")
        self.train("whole", *WHOLE, *stop, ranks=3)
        self.train("shards", *SHARD, *stop, ranks=3)
        self.assert_same_bits("whole", "shards")

    def test_it_is_resumed_on_any_number_of_ranks_and_with_the_shard_switched_on_and_off(self):
        half = settings("train.epochs=1")
        self.train("whole", *WHOLE, *HARD, ranks=3)
        for before, after in ((SHARD, SHARD), (SHARD, WHOLE), (WHOLE, SHARD)):
            name = f"{before[1]}-{after[1]}".replace("strategy.shard=", "")
            with self.subTest(name=name):
                self.train(name, *before, *HARD, *half, ranks=3)
                result = self.train(name, *after, *HARD, "--resume", ranks=3)
                self.assertNotIn("not bit for bit", result.out)
                self.assert_same_bits("whole", name)
        for ranks in (0, 2, 4):
            with self.subTest(ranks=ranks):
                for name, shard in (("again-whole", WHOLE), ("again-shards", SHARD)):
                    self.train(f"{name}-{ranks}", *SHARD, *HARD, *half, ranks=3)
                    self.train(f"{name}-{ranks}", *shard, *HARD, "--resume", ranks=ranks)
                self.assert_same_bits(f"again-whole-{ranks}", f"again-shards-{ranks}")

    def test_replicas_of_two_stages(self):
        options = (*HARD, *settings("replica.stages=2", "train.micro_batches=4", "train.epochs=1"))
        self.train("whole", *WHOLE, *options, ranks=4)
        self.train("shards", *SHARD, *options, ranks=4)
        self.assert_same_run("whole", "shards")
        longer = settings("train.epochs=2")
        self.train("whole", *WHOLE, *options, *longer, "--resume", ranks=4)
        self.train("shards", *SHARD, *options, *longer, "--resume", ranks=4)
        self.assert_same_bits("whole", "shards")

    def test_the_summary_and_info_tell_the_memory_of_the_shards(self):
        # Adam's two moments of θ: N floats, padding included, of which each rank keeps its part; a bucket's slices are
        # whole cache lines of 64 bytes, and there is one bucket.
        result = self.train("shards", *SHARD, ranks=4)
        state = self.summary("shards")["optimizer_state"]
        self.assertLessEqual(state["largest_shard_bytes"], state["bytes"] / 4 + 2 * 64)
        self.assertGreaterEqual(state["largest_shard_bytes"], state["bytes"] / 4)
        self.assertRegex(result.out, r"optimizer +[\d.]+ MB of its state in the largest rank, of [\d.]+ MB\n")
        self.assertNotIn("optimizer_state", self.summary_of_whole())
        told = {}
        for name, shard in (("whole", WHOLE), ("shards", SHARD)):
            told[name] = json.loads(self.succeed("info", "config.toml", *shard, "--json", ranks=4).out)["memory"]
        self.assertEqual(told["whole"]["optimizer state"], state["bytes"])
        self.assertLessEqual(abs(told["shards"]["optimizer state"] - state["bytes"] / 4), 2 * 64)

    def summary_of_whole(self):
        self.train("whole", *WHOLE, ranks=2)
        return self.summary("whole")

    def test_what_cannot_be_sharded_is_refused(self):
        for message, given in {
            "strategy.shard": ("strategy.shard=gradient",),
            "unknown key 'shard'": ("strategy.kind=averaging", "strategy.shard=optimizer"),
            "compressed sums": ("strategy.shard=optimizer", "strategy.compression.kind=bf16"),
            "in the order of the ranks": (
                "strategy.shard=optimizer",
                "communication.reduction=reproducible",
                "train.micro_batches=4",
            ),
        }.items():
            with self.subTest(given=given):
                result = self.train("bad", *settings(*given), ranks=2, code=2)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn(message, messages(result)[0])
                self.assertFalse((self.folder / "bad").exists())


if __name__ == "__main__":
    unittest.main()
