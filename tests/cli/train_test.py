"""Training through the binary: what a run leaves behind, on one rank and on several."""

import unittest

from harness import PARTS, BinaryTest, messages


class Training(BinaryTest):
    def test_a_run_leaves_everything_that_is_promised(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                run = f"run{ranks}"
                result = self.train(run, ranks=ranks)
                self.assertEqual(result.out.count(": complete after 2 epochs, 20 steps"), 1, result)
                files = {path.name for path in (self.folder / run).iterdir()}
                self.assertLessEqual({"config.toml", "metrics.jsonl", "summary.json", "log.txt", "checkpoints"}, files)
                self.check_summary(self.summary(run), max(ranks, 1))
                self.check_metrics(self.metrics(run))
                self.assertIn("complete after 2 epochs", (self.folder / run / "log.txt").read_text())
                names = [path.name for path in self.checkpoints(run)]
                self.assertEqual(names, ["step-000000010.h5", "step-000000020.h5"])
                self.assertFalse((self.folder / run / "checkpoints" / "best.h5").exists())  # nothing to choose it by

    def check_summary(self, summary, ranks):
        self.assertEqual(summary["status"], "complete")
        self.assertEqual(summary["ranks"], ranks)
        self.assertEqual(summary["threads"], 1)
        self.assertEqual(summary["parameters"], 4 * 25 + 2 * 4 + (10 * 4 * 12 * 12 + 10))
        self.assertEqual((summary["epochs"], summary["steps"]), (2, 20))
        self.assertEqual(summary["batch_size_per_rank"], 24 / ranks)
        self.assertEqual(summary["batch_statistics"], "global")
        for part in ("train", "test"):
            for name in ("loss", "accuracy"):
                self.assertGreater(summary[part][name], 0)
        self.assertGreater(summary["examples_per_second"], 0)
        self.assertGreater(summary["peak_memory_bytes"], 10 << 20)
        seconds = summary["seconds"]
        self.assertEqual(set(seconds), PARTS | {"total"})
        self.assertAlmostEqual(sum(seconds[part] for part in PARTS), seconds["total"], places=9)
        self.assertGreaterEqual(min(seconds.values()), -1e-3)
        self.assertLess(seconds["other"], 0.1 * seconds["total"] + 0.05)

    def check_metrics(self, lines):
        reports = [line for line in lines if line["event"] == "train"]
        self.assertEqual([line["step"] for line in reports], list(range(1, 21)))
        for line in reports:
            self.assertEqual(line["epoch"], (line["step"] - 1) // 10 + 1)
            for key in ("loss", "learning_rate", "gradient_norm", "parameter_norm", "examples_per_second"):
                self.assertGreater(line[key], 0, key)
            parts = [seconds for key, seconds in line["seconds"].items() if key != "total"]
            self.assertAlmostEqual(sum(parts), line["seconds"]["total"], places=9)
        evaluations = [line for line in lines if line["event"] == "evaluation"]
        self.assertEqual([(line["step"], line["split"]) for line in evaluations], [(10, "test"), (20, "test")])

    def test_the_effective_config_gives_the_same_run(self):
        self.train("first", "--set", "train.epochs=1")
        text = (self.folder / "first" / "config.toml").read_text()
        self.assertTrue(text.startswith("# 1 rank: a rank takes 24 of 24 examples of each step\n"), text)
        self.assertIn("epochs = 1\n", text)
        self.train("second", config="first/config.toml")
        self.assert_same_bits("first", "second")

    def test_several_ranks_make_the_run_of_one(self):
        # 10 steps of SGD. A gradient sums its terms in another order: √24 roundings of 6e-8, relative to the largest, a
        # step, which batch normalisation and the steps behind amplify by some tens at most.
        self.train("one", "--set", "train.epochs=1", "--set", "optimizer.kind=sgd")
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                run = f"many{ranks}"
                self.train(run, "--set", "train.epochs=1", "--set", "optimizer.kind=sgd", ranks=ranks)
                self.assert_close("one", run, 1e-4)
                one, many = self.summary("one"), self.summary(run)
                self.assertAlmostEqual(one["train"]["loss"], many["train"]["loss"], places=4)

    def test_micro_batches_make_the_same_run_on_any_number_of_ranks(self):
        # Whole micro-batches of 6 examples, and their batch statistics, whatever rank has them; with 4 of them and 5
        # ranks each is cut. The tolerance is that of the test above.
        sets = ("--set", "train.epochs=1", "--set", "optimizer.kind=sgd")
        self.train("one", *sets, "--set", "train.micro_batches=4")
        self.train("accumulated", *sets, "--set", "train.accumulate=4")
        self.assert_same_bits("one", "accumulated")
        for ranks in (2, 3, 5):
            with self.subTest(ranks=ranks):
                self.train(f"many{ranks}", *sets, "--set", "train.micro_batches=4", ranks=ranks)
                self.assert_close("one", f"many{ranks}", 1e-4)
        self.train("cut", *sets)
        with self.assertRaises(AssertionError):  # its statistics are those of 24 examples
            self.assert_close("one", "cut", 1e-4)

    def test_micro_batches_are_resumed_on_other_ranks(self):
        sets = ("--set", "train.micro_batches=4", "--set", "optimizer.kind=sgd")
        self.train("whole", *sets, ranks=2)
        self.train("parts", *sets, "--set", "train.epochs=1", ranks=3)
        self.train("parts", *sets, "--set", "schedule.kind=constant", "--resume", ranks=2)
        self.assertEqual(self.summary("parts")["epochs"], 2)
        self.assert_close("whole", "parts", 1e-4)

    def test_the_default_folder_is_named_after_the_experiment(self):
        self.succeed("train", "config.toml", "--set", "train.epochs=1", "--set", "name=other")
        self.assertEqual(self.summary("runs/other")["name"], "other")

    def test_a_folder_with_results_is_refused_unless_told_what_to_do(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                run = f"run{ranks}"
                self.train(run, "--set", "train.epochs=1", ranks=ranks)
                before = (self.folder / run / "summary.json").read_bytes()
                result = self.train(run, ranks=ranks, code=1)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn("--resume", result.err)
                self.assertEqual((self.folder / run / "summary.json").read_bytes(), before)
                self.train(run, "--overwrite", "--set", "train.epochs=2", ranks=ranks)
                self.assertEqual(self.summary(run)["epochs"], 2)

    def test_a_validation_set_is_what_a_run_is_judged_by(self):
        self.train("run", "--set", "data.validation_fraction=0.25", "--set", "train.evaluate_every_epochs=0")
        summary = self.summary("run")
        self.assertGreater(summary["validation"]["accuracy"], 0)
        self.assertGreater(summary["test"]["accuracy"], 0)
        splits = [line["split"] for line in self.metrics("run") if line["event"] == "evaluation"]
        self.assertEqual(splits, ["validation", "test"])
        self.assertTrue((self.folder / "run" / "checkpoints" / "best.h5").exists())

    def test_averaging_runs_and_says_what_is_in_force(self):
        self.train("run", "--set", "strategy.kind=averaging", "--set", "strategy.period=4", ranks=2)
        summary = self.summary("run")
        self.assertEqual(summary["strategy"], "averaging")
        self.assertEqual(summary["batch_statistics"], "local")
        self.assertEqual(summary["steps"], 20)
        self.assertTrue(self.checkpoints("run")[-1].name.startswith("step-000000020"))


if __name__ == "__main__":
    unittest.main()
