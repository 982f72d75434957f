"""communication.reduction = "reproducible": the same bits on any number of ranks, stopped and resumed on others."""

import unittest

from harness import BinaryTest

REPRODUCIBLE = ("--set", "communication.reduction=reproducible", "--set", "train.micro_batches=8")
LOCAL_STATISTICS = """model.layers=[
  { kind = "flatten" }, { kind = "dense", units = 10 }, { kind = "batch_norm", statistics = "local" }]"""


class Reproducible(BinaryTest):
    def test_any_number_of_ranks_gives_the_same_bits_and_metrics(self):
        self.train("one", *REPRODUCIBLE)
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.train(f"run-{ranks}", *REPRODUCIBLE, ranks=ranks)
                self.assert_same_bits("one", f"run-{ranks}")
                self.assertEqual(self.figures("one"), self.figures(f"run-{ranks}"))

    def figures(self, run):
        """What the metrics say of the model: losses, accuracies, norms."""
        times = ("seconds", "examples_per_second", "memory", "ranks", "threads")
        return [{key: value for key, value in line.items() if not key.startswith(times)} for line in self.metrics(run)]

    def test_the_same_bits_without_shared_memory_and_with_other_optimizers(self):
        for name, optimizer in {
            "lamb": '{ kind = "lamb", learning_rate = 0.01, clip_norm = 0.5 }',
            "sgd": '{ kind = "sgd", learning_rate = 0.01, momentum = 0.9 }',
        }.items():
            with self.subTest(optimizer=name):
                options = (*REPRODUCIBLE, "--set", f"optimizer={optimizer}")
                self.train(f"{name}-1", *options)
                self.train(f"{name}-3", *options, "--set", "communication.shared_memory=false", ranks=3)
                self.assert_same_bits(f"{name}-1", f"{name}-3")

    def test_a_run_is_resumed_on_another_number_of_ranks(self):
        self.train("whole", *REPRODUCIBLE)
        self.train("parts", *REPRODUCIBLE, "--set", "train.epochs=1", ranks=2)
        self.train("parts", *REPRODUCIBLE, "--resume", ranks=3)
        self.assert_same_bits("whole", "parts")

    def test_what_would_not_be_reproducible_is_refused(self):
        cases = {
            "of which each needs one leaf": ("communication.leaves=1",),
            "is less than the 2 replicas, and each micro-batch": ("train.micro_batches=1",),
            "use train.micro_batches instead": ("train.micro_batches=1", "train.accumulate=4"),
            "use allreduce or serial": ('strategy={ kind = "averaging" }',),
            "each rank has its own order": ("data.partition=fixed",),
            "local batch statistics": (LOCAL_STATISTICS,),
            "it is one of 'fast', 'reproducible'": ("communication.reduction=exact",),
        }
        for message, settings in cases.items():
            with self.subTest(settings=settings):
                words = [word for setting in settings for word in ("--set", setting)]
                result = self.train("bad", *REPRODUCIBLE, *words, ranks=2, code=2)
                self.assertIn(message, result.err)
                self.assertFalse((self.folder / "bad").exists())


if __name__ == "__main__":
    unittest.main()
