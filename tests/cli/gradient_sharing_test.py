"""strategy.kind = "gradient_sharing": trained, repeated, resumed through the binary; what it refuses."""

import unittest

from harness import BinaryTest, settings

KIND, RARE_REPORTS = "strategy.kind=gradient_sharing", "train.report_every_steps=100"
SHARING = settings(KIND, RARE_REPORTS, "strategy.density=0.05")
IN_STEP = (*SHARING, *settings("strategy.staleness_bound=0"))
EXAMPLES, BATCH = 240, 24  # of harness.py
FLOATS = 4 * 25 + 2 * 4 + 4 * 12 * 12 * 10 + 10  # of CONFIG's network, less what the layout adds


class GradientSharing(BinaryTest):
    def test_it_learns_and_tells_what_it_sent(self):
        told = self.train("run", *SHARING, *settings("train.epochs=6"), ranks=4)
        self.assertRegex(told.out, r"sharing +240 updates in \d+\.\d MB per epoch and rank, [\d.]+ % of the \d+\.\d MB")
        losses = [line["loss"] for line in self.metrics("run") if line["event"] == "train"]
        self.assertLess(losses[-1], 0.7 * losses[0])
        steps = self.summary("run")["worker_steps"]
        self.assertEqual(sum(steps), 4 * 60)
        self.assertIn("  workers     {}, {}, {} and {} steps, on ".format(*steps), told.out)
        own = self.summary("run")["worker_examples"]
        self.assertEqual(own, [min(EXAMPLES // 4, made * BATCH // 4) for made in steps])
        sharing = self.summary("run")["sharing"]
        self.assertEqual(sharing["updates"], 4 * 60)
        self.assertEqual(sum(sharing["staleness"]["counts"]), 4 * 60 * 3)
        # Each update goes along three edges.
        whole = 4 * 60 * 3 * 4 * FLOATS
        self.assertGreaterEqual(sharing["plain_bytes"], whole)
        self.assertLess(sharing["plain_bytes"], 1.05 * whole)
        self.assertLess(sharing["sent_bytes"], 0.15 * whole)
        self.assertGreater(sharing["sent_bytes"], 0.01 * whole)
        # Ranks differ by the order in which they added up 240 updates and averaged.
        self.assertLess(sharing["consensus_distance"], 1e-5)
        for ranks in (0, 2):
            result = self.succeed("evaluate", "run", ranks=ranks)
            self.assertRegex(result.out, rf" accuracy +{self.summary('run')['test']['accuracy']:.6g}\n")

    def test_a_recorded_run_is_repeated_by_as_many_ranks(self):
        for bound in (-1, 1):
            run = f"bound{bound}"
            record = settings(f"strategy.staleness_bound={bound}", "strategy.record=true", "train.epochs=4")
            self.train(run, *SHARING, *record, *settings("train.epochs=2"), ranks=3)
            self.train(run, *SHARING, *record, "--resume", ranks=3)  # a record goes on
            told = self.succeed("replay", run, "--output", f"{run}-again", ranks=3).out
            self.assertIn("bit for bit", told)
            self.assert_same_bits(run, f"{run}-again")
        for ranks in (0, 2):
            result = self.unisono("replay", run, "--output", f"refused{ranks}", ranks=ranks)
            self.assertEqual(result.code, 2, result)
            self.assertIn("start mpirun -n 3", result.err)
            self.assertEqual(result.err.count("error:"), 1, result)
        result = self.train(run, *SHARING, *record, *settings("train.epochs=5"), "--resume", ranks=2, code=2)
        self.assertIn("the run was recorded with 3 workers and 1 thread: resume with the same", result.err)

    def test_it_is_resumed_to_the_same_bits_and_on_other_ranks(self):
        for name, options, ranks in (("alone", SHARING, 1), ("in-step", IN_STEP, 3)):
            with self.subTest(name=name):
                self.train(f"{name}-whole", *options, ranks=ranks)
                self.train(f"{name}-parts", *options, *settings("train.epochs=1"), ranks=ranks)
                self.train(f"{name}-parts", *options, "--resume", ranks=ranks)
                self.assert_same_bits(f"{name}-whole", f"{name}-parts")
        before = self.vectors("in-step-whole")
        residuals = {name for name in before if "/residual/" in name}
        self.assertEqual({name.split("/")[1] for name in residuals}, {"0", "1", "2"})
        self.assertTrue(any(abs(before[name]).max() > 0 for name in residuals))
        result = self.train("in-step-whole", *IN_STEP, *settings("train.epochs=3"), "--resume", ranks=2)
        self.assertIn("every rank continues with the mean", result.out)
        self.assertEqual(self.summary("in-step-whole")["steps"], 30)
        self.train("in-step-whole", *IN_STEP, *settings("train.epochs=4"), "--resume", ranks=4)
        self.assertEqual(self.summary("in-step-whole")["steps"], 40)

    def test_what_was_not_sent_is_kept_on_another_number_of_ranks(self):
        # Nothing reaches the threshold, and from the end of the second epoch on the learning rate is 0.
        falling = settings("schedule.kind=linear", "schedule.final_factor=0")
        nothing = (*settings(KIND, RARE_REPORTS, "strategy.threshold=1000"), *falling)
        self.train("run", *nothing, *settings("schedule.epochs=2"), ranks=3)
        before = self.vectors("run")
        again = settings("schedule.epochs=2", "train.epochs=3")
        told = self.train("run", *nothing, *again, "--resume", ranks=2).out
        self.assertIn("3 ranks had their own optimizer states: every rank continues with the mean of these", told)
        self.assertIn("3 ranks had residuals of their own: every rank continues with an equal share of their sum", told)
        after = self.vectors("run")
        blocks = [name.removeprefix("optimizer/0/") for name in before if name.startswith("optimizer/0/residual/")]
        self.assertEqual(len(blocks), 5)
        for block in blocks:
            were = [before[f"optimizer/{rank}/{block}"].astype(float) for rank in range(3)]
            are = [after[f"optimizer/{rank}/{block}"].astype(float) for rank in range(2)]
            # The mean of three, and its product with 3/2, of which each rank holds one: six roundings.
            most = 6 * 2.0**-24 * max(float(sum(abs(own) for own in were).max()), 1e-30)
            self.assertGreater(float(abs(sum(were)).max()), 0, block)
            self.assertLessEqual(float(abs(sum(were) - sum(are)).max()), most, block)
        self.assertEqual(self.summary("run")["sharing"]["updates"], 20)

    def test_a_slow_rank_holds_nobody_up(self):
        # Steps that take long beside what a busy machine adds to them.
        slow = settings("fault.slow_rank=1", "fault.emulated_seconds=0.06", "fault.slow_factor=5")
        reports = settings("train.report_every_steps=100", "train.evaluate_every_epochs=100")
        # In a segment of an epoch of 60 steps, so that ranks meet rarely.
        batches = settings("train.batch_size=4", "checkpoint.every_epochs=100", "train.epochs=1")
        self.train("shared", *SHARING, *slow, *reports, *batches, ranks=4)
        steps = self.summary("shared")["worker_steps"]
        self.assertEqual(sum(steps), 4 * 60)
        late = steps.pop(1)
        self.assertGreater(sum(steps) / len(steps), 1.5 * late)  # 5 where the machine is free
        self.train("bound", *SHARING, *slow, *reports, *batches, *settings("strategy.staleness_bound=2"), ranks=4)
        steps = self.summary("bound")["worker_steps"]
        self.assertLess(max(steps), 1.5 * min(steps))
        self.assertGreater(self.summary("bound")["seconds"]["straggler_wait"], 0.3)

    def test_what_would_mean_nothing_or_cannot_work_is_refused(self):
        for message, given in {
            "strategy.threshold": ("strategy.threshold=-1",),
            "strategy.density": ("strategy.density=0",),
            "'density' means nothing beside a threshold": ("strategy.threshold=1", "strategy.density=0.5"),
            "between 1.2e-38 and 3.4e38": ("strategy.threshold=1e-300",),
            "threshold must be 0 or lie": ("strategy.threshold=1e300",),
            "strategy.staleness_bound": ("strategy.staleness_bound=-2",),
            "unknown key 'period'": ("strategy.period=2",),
            "synchronous runs need no record": ("strategy.staleness_bound=0", "strategy.record=true"),
            "use allreduce or serial": ("communication.reduction=reproducible", "train.micro_batches=8"),
            "train.weight_average needs ranks that regularly hold": ("train.weight_average=0.9",),
            "trains only models that each rank holds as a whole": ("replica.stages=2", "train.micro_batches=4"),
            "encodes its updates on CPUs": ("device=cuda",),
        }.items():
            with self.subTest(given=given):
                words = settings("strategy.kind=gradient_sharing", *given)
                result = self.train("bad", *words, ranks=2, code=2)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error:"), 1, result)
                self.assertFalse((self.folder / "bad").exists())

    def test_ranks_without_examples_are_refused_where_they_would_take_the_steps(self):
        plain = (*SHARING, *settings('model.layers=[{ kind = "flatten" }, { kind = "dense", units = 10 }]'))
        few = settings("train.batch_size=2", "data.partition=global")
        cut = settings("train.batch_size=6", "train.accumulate=3", "data.partition=global")
        for message, options in {
            "2 examples for 3 ranks, and those without examples would take steps from the others": (*plain, *few),
            "6 examples in 3 micro-batches for 3 ranks": (*plain, *cut),
            "2 examples for 3 ranks, and those without examples would never change": (*IN_STEP, *few),
            "make it at least 3, or start fewer ranks": (*plain, *settings("train.batch_size=2")),
        }.items():
            with self.subTest(message=message):
                result = self.train("bad", *options, ranks=3, code=2)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error:"), 1, result)
                self.assertFalse((self.folder / "bad").exists())
        # With a bound, all ranks make as many steps.
        self.train("bounded", *plain, *few, *settings("strategy.staleness_bound=1"), ranks=3)
        losses = [line["loss"] for line in self.metrics("bounded") if line["event"] == "train"]
        self.assertLess(losses[-1], losses[0])
        self.train("alone", *plain, *few, *settings("train.batch_size=1"), ranks=1)


if __name__ == "__main__":
    unittest.main()
