"""strategy.kind = "gossip_async": trained, recorded, replayed, killed and resumed through the binary; its refusals."""

import os
import signal
import unittest

from harness import AT_ONCE, BinaryTest, ranks_of, settings

ASYNC = settings("strategy.kind=gossip_async")
RECORD = (*ASYNC, *settings("strategy.record=true"))


class GossipAsync(BinaryTest):
    def test_one_rank_leaves_the_bits_of_the_serial_run(self):
        self.train("serial", *settings("strategy.kind=serial"))
        for ranks in (0, 1):
            told = self.train(f"alone{ranks}", *ASYNC, "--compare-with", "serial", ranks=ranks).out
            self.assertIn("bit for bit", told)
            serial, alone = self.vectors("serial"), self.vectors(f"alone{ranks}")
            for name in serial:
                if name.startswith("statistics/"):
                    self.assertEqual(serial[name].tobytes(), alone[name].tobytes(), name)

    def test_a_recorded_run_is_repeated_bit_for_bit_on_as_many_ranks(self):
        for ranks in (2, 3, 4):
            run = f"run{ranks}"
            self.train(run, *RECORD, *settings("checkpoint.every_steps=4"), ranks=ranks)
            told = self.succeed("replay", run, "--output", f"again{ranks}", ranks=ranks).out
            self.assertIn("bit for bit", told)
            self.assert_same_bits(run, f"again{ranks}")  # every rank's parameters, too
        result = self.unisono("replay", "run4", "--output", "other", ranks=3)
        self.assertEqual(result.code, 2, result)
        self.assertIn("the run was recorded on 4 ranks", result.err)
        self.assertEqual(result.err.count("error:"), 1, result)

    def test_what_ranks_did_is_in_summary_and_metrics(self):
        told = self.train("run", *ASYNC, *settings("train.report_every_steps=5", "train.epochs=1"), ranks=3).out
        self.assertRegex(
            told,
            r"gossip +\d+\.\d MB per epoch and rank to neighbours; ranks are \S+ % of the norm from their consensus; "
            r"\d+ exchanges?, \S+ during a step on average, at most \d+; ranks made \d+ to \d+ steps",
        )
        gossip = self.summary("run")["gossip"]
        self.assertEqual(sum(gossip["rank_steps"]), 3 * 10)
        # In the first epoch, even ranks begin.
        self.assertEqual(gossip["exchanges"], gossip["rank_steps"][0] + gossip["rank_steps"][2])
        self.assertEqual(sum(gossip["staleness"]["counts"]), 3 * 10)
        lines = [line for line in self.metrics("run") if line["event"] == "train"]
        self.assertEqual(len(lines), 2)
        for key in ("exchanges", "sent_bytes"):
            self.assertEqual(sum(line["gossip"][key] for line in lines), gossip[key])
        self.assertEqual(sum(sum(line["gossip"]["staleness"]["counts"]) for line in lines), 3 * 10)
        self.assertEqual(lines[-1]["consensus_distance"], gossip["consensus_distance"])
        self.assertGreater(gossip["consensus_distance"], 0)
        floats = 4 * 25 + 2 * 4 + 4 * 12 * 12 * 10 + 10  # of CONFIG's network, less what the layout adds
        self.assertGreaterEqual(gossip["sent_bytes"], 2 * gossip["exchanges"] * 4 * floats)
        self.assertLess(gossip["sent_bytes"], 1.05 * 2 * gossip["exchanges"] * 4 * floats)
        self.check_consensus("run", 3)

    def check_consensus(self, run, ranks):
        vectors = self.vectors(run)
        for vector, kept in (("parameters", "replica"), ("statistics", "replica_statistics")):
            for name in [name for name in vectors if name.startswith(vector + "/")]:
                block = name.removeprefix(vector)
                own = [vectors[f"optimizer/{rank}/{kept}{block}"].astype(float) for rank in range(ranks)]
                self.assertTrue(any((one != own[0]).any() for one in own), name)
                # P products with 1/P and P - 1 sums are rounded.
                most = 2 * ranks * 2.0**-24 * max(float(abs(one).max()) for one in own)
                self.assertLessEqual(float(abs(sum(own) / ranks - vectors[name]).max()), most, name)
        result = self.succeed("evaluate", run, ranks=2)
        self.assertRegex(result.out, rf" accuracy +{self.summary(run)['test']['accuracy']:.6g}\n")

    def test_nobody_waits_for_a_slow_rank(self):
        slow = settings("fault.slow_rank=1", "fault.slow_factor=5", "fault.emulated_seconds=0.06")
        common = (*slow, *settings("train.report_every_steps=100", "train.batch_size=8", "train.epochs=1"))
        self.train("all", *settings("strategy.kind=allreduce"), *common, ranks=4)
        self.train("own", *ASYNC, *common, ranks=4)
        steps = self.summary("own")["gossip"]["rank_steps"]
        self.assertEqual(sum(steps), 4 * 30)
        self.assertGreater(min(steps[0], steps[2], steps[3]), 1.25 * steps[1])
        # In the 300 ms of the slow rank's step, and so of all, the others make five each: 16 in place of 4, or 4. On a
        # busy machine, whose other programs slow all ranks, it is less.
        speeds = [self.summary(run)["examples_per_second"] for run in ("all", "own")]
        self.assertGreater(speeds[1], 1.25 * speeds[0])

    def test_a_killed_run_loses_nothing_but_what_followed_its_last_checkpoint(self):
        options = (*RECORD, *settings("train.epochs=400", "checkpoint.every_steps=5"))
        with self.started("train", "config.toml", "--output", "run", *options, ranks=3, environment=AT_ONCE) as process:
            self.wait_for_step("run", 30, process)
            for rank in ranks_of(process):
                os.kill(rank, signal.SIGKILL)
            process.wait(60)
        step = int(self.checkpoints("run")[-1].stem.split("-")[1])
        self.assertGreaterEqual(step, 5)
        last = f"train.epochs={step // 10 + 2}"
        other = self.train("run", *options, *settings(last), "--resume", ranks=2, code=2).err
        self.assertIn("the run was recorded with 3 workers and 1 thread: resume with the same numbers", other)
        told = self.train("run", *options, *settings(last), "--resume", ranks=3)
        self.assertIn(f"resumed at step {step}", told.out + told.err)
        self.assertNotIn("not bit for bit", told.out)
        # Both parts of the run, repeated as one that was never killed.
        self.assertIn("bit for bit", self.succeed("replay", "run", ranks=3).out)

    def test_another_number_of_ranks_begins_with_the_consensus(self):
        self.train("run", *ASYNC, ranks=3)
        result = self.train("run", *ASYNC, *settings("train.epochs=4"), "--resume", ranks=4)
        self.assertIn("every rank continues with the mean", result.out)
        self.assertEqual(self.summary("run")["steps"], 40)
        self.assertEqual(sum(self.summary("run")["gossip"]["rank_steps"]), 4 * 40)
        lines = [line["loss"] for line in self.metrics("run") if line["event"] == "train"]
        self.assertLess(lines[-1], lines[0])

    def test_what_would_mean_nothing_or_cannot_work_is_refused(self):
        statistics = 'model.layers=[{ kind = "flatten" }, { kind = "dense", units = 10 }, STATISTICS]'
        for message, given in {
            "strategy.topology": ("strategy.topology=grid",),
            "strategy.period": ("strategy.period=0",),
            "unknown key 'servers'": ("strategy.servers=1",),
            "unknown key 'momentum'": ("strategy.momentum=mix",),
            "use allreduce or serial": ("communication.reduction=reproducible", "train.micro_batches=8"),
            "train.weight_average needs ranks that regularly hold": ("train.weight_average=0.9",),
            "needs a strategy that keeps the ranks in step": (
                statistics.replace("STATISTICS", '{ kind = "batch_norm", statistics = "global" }'),
            ),
            "leaves some of the 3 ranks without any examples": ("train.batch_size=2",),
            "2 examples for 3 ranks, and those without examples would take steps": (
                "train.batch_size=2",
                "data.partition=global",
            ),
            "choose allreduce, averaging, gossip or serial": ("replica.stages=3", "train.micro_batches=4"),
        }.items():
            with self.subTest(given=given):
                words = settings("strategy.kind=gossip_async", *given)
                result = self.train("bad", *words, ranks=3, code=2)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error:"), 1, result)
                self.assertFalse((self.folder / "bad").exists())


if __name__ == "__main__":
    unittest.main()
