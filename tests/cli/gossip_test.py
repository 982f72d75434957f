"""strategy.kind = "gossip": trained, resumed and evaluated through the binary; what it refuses."""

import unittest

from harness import BinaryTest, settings

GOSSIP = settings("strategy.kind=gossip", "strategy.topology=ring", "strategy.momentum=mix", "strategy.period=2")
ADAPT = (*GOSSIP, *settings("strategy.order=adapt_then_combine"))
FLOATS = 4 * 25 + 2 * 4 + 4 * 12 * 12 * 10 + 10  # of CONFIG's network, less what the layout adds


class Gossip(BinaryTest):
    def test_it_is_resumed_to_the_same_bits_with_every_ranks_parameters(self):
        for order in (GOSSIP, ADAPT):
            name = f"order{len(order)}"
            with self.subTest(order=order):
                self.train(f"{name}-whole", *order, ranks=3)
                self.train(f"{name}-parts", *order, *settings("train.epochs=1", "checkpoint.every_steps=4"), ranks=3)
                result = self.train(f"{name}-parts", *order, "--resume", ranks=3)
                self.assertNotIn("not bit for bit", result.out)
                self.assert_same_bits(f"{name}-whole", f"{name}-parts")
        self.check_consensus("order8-whole")
        self.check_evaluation("order8-whole")
        self.check_another_number_of_ranks("order8-parts")

    def check_consensus(self, run):
        vectors = self.vectors(run)
        for vector, kept in (("parameters", "replica"), ("statistics", "replica_statistics")):
            for name in [name for name in vectors if name.startswith(vector + "/")]:
                block = name.removeprefix(vector)
                ranks = [vectors[f"optimizer/{rank}/{kept}{block}"].astype(float) for rank in range(3)]
                self.assertTrue(any((own != ranks[0]).any() for own in ranks), name)
                # Three products with 1/3 and two sums are rounded.
                most = 6 * 2.0**-24 * max(float(abs(own).max()) for own in ranks)
                self.assertLessEqual(float(abs(sum(ranks) / 3 - vectors[name]).max()), most, name)
        summary = self.summary(run)
        lines = [line for line in self.metrics(run) if line["event"] == "train"]
        self.assertEqual(summary["gossip"]["consensus_distance"], lines[-1]["consensus_distance"])
        self.assertGreater(lines[-1]["consensus_distance"], 0)
        self.assertLess(summary["gossip"]["second_singular_value"], 1e-6)  # a ring of three is complete
        # θ and Adam's two moments, to two neighbours, in every second of 20 steps, by three ranks.
        least = 3 * 2 * 10 * 3 * 4 * FLOATS
        self.assertGreaterEqual(summary["gossip"]["sent_bytes"], least)
        self.assertLess(summary["gossip"]["sent_bytes"], 1.05 * least)
        self.assertGreater(summary["averaged_bytes"], 0)

    def check_evaluation(self, run):
        for ranks in (0, 2):
            result = self.succeed("evaluate", run, ranks=ranks)
            self.assertRegex(result.out, rf" accuracy +{self.summary(run)['test']['accuracy']:.6g}\n")

    def check_another_number_of_ranks(self, run):
        result = self.train(run, *GOSSIP, *settings("train.epochs=3"), "--resume", ranks=2)
        self.assertIn("every rank continues with the mean", result.out)
        self.assertEqual(self.summary(run)["steps"], 30)

    def test_all_topologies_learn_and_pipelines_do_too(self):
        for topology in ("ring", "grid", "exponential", "complete"):
            with self.subTest(topology=topology):
                options = settings("strategy.kind=gossip", f"strategy.topology={topology}")
                result = self.train(topology, *options, ranks=4)
                self.assertRegex(result.out, r"gossip +\d+\.\d MB per epoch and rank to neighbours; ranks are ")
                losses = [line["loss"] for line in self.metrics(topology) if line["event"] == "train"]
                self.assertLess(losses[-1], losses[0])
        pipeline = settings("strategy.kind=gossip", "replica.stages=2", "train.micro_batches=4")
        self.train("pipeline", *pipeline, ranks=4)
        self.assertGreater(self.summary("pipeline")["gossip"]["consensus_distance"], 0)

    def test_what_would_mean_nothing_or_cannot_work_is_refused(self):
        statistics = 'model.layers=[{ kind = "flatten" }, { kind = "dense", units = 10 }, STATISTICS]'
        for message, given in {
            "strategy.topology": ("strategy.topology=star",),
            "strategy.order": ("strategy.order=adapt",),
            "strategy.momentum": ("strategy.momentum=average",),
            "strategy.period": ("strategy.period=0",),
            "unknown key 'optimizer_state'": ("strategy.optimizer_state=keep",),
            "keeps no vectors that could be mixed": (
                "strategy.momentum=mix",
                'optimizer={ kind = "sgd", learning_rate = 0.1 }',
            ),
            "use allreduce or serial": ("communication.reduction=reproducible", "train.micro_batches=8"),
            "train.weight_average needs ranks that regularly hold": ("train.weight_average=0.9",),
            "needs a strategy that keeps the ranks in step": (
                statistics.replace("STATISTICS", '{ kind = "batch_norm", statistics = "global" }'),
            ),
            "2 examples for 3 ranks": ("train.batch_size=2",),
        }.items():
            with self.subTest(given=given):
                words = settings("strategy.kind=gossip", *given)
                result = self.train("bad", *words, ranks=3, code=2)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error:"), 1, result)
                self.assertFalse((self.folder / "bad").exists())


if __name__ == "__main__":
    unittest.main()
