"""Methods for the whole training set: the same bits on any ranks, however portions move and runs are stopped."""

import json
import os
import random
import signal
import unittest

import h5py
import numpy

from harness import AT_ONCE, BinaryTest, messages, ranks_of, settings, without_sanitizer

LINEAR = """
name = "linear"
[data]
path = "digits.h5"
normalization = "none"
[model]
kind = "linear"
l2 = 1e-3
[optimizer]
kind = "lbfgs"
[train]
epochs = 12
threads = 1
evaluate_every_epochs = 0
[strategy]
kind = "batch"
"""

NETWORK = """
name = "network"
seed = 3
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [
  { kind = "convolution", channels = 3, kernel = 5, stride = 3 },
  { kind = "tanh" },
  { kind = "flatten" },
  { kind = "dense", units = 10 },
]
[optimizer]
kind = "lbfgs"
weight_decay = 1e-4
history = 3
[train]
epochs = 6
threads = 1
evaluate_every_epochs = 0
[strategy]
kind = "batch"
"""

# One margin and few features, so that Hessians are formed as matrices.
MATRIX = LINEAR.replace('"digits.h5"', '"table.h5"').replace('"lbfgs"', '"newton_cg"').replace("1e-3", "1e-6")

# Images that a dense layer sees first: its weights have an axis with one position, that of the channels.
PERCEPTRON = NETWORK.replace('{ kind = "convolution", channels = 3, kernel = 5, stride = 3 },', "")

METHODS = {
    "lbfgs": LINEAR,
    "armijo": LINEAR.replace('"lbfgs"', '"lbfgs"\nline_search = "armijo"'),
    "owlqn": LINEAR.replace("l2 = 1e-3", "l1 = 1e-3"),
    "newton_cg": LINEAR.replace('"lbfgs"', '"newton_cg"'),
    "newton_cg with matrices": MATRIX,
    "conjugate_gradient": LINEAR.replace('"lbfgs"', '"conjugate_gradient"'),
    "gradient_descent": LINEAR.replace('"lbfgs"', '"gradient_descent"'),
    "network": NETWORK,
    "perceptron": PERCEPTRON,
}


def write_table(path, features, labels):
    with h5py.File(path, "w") as file:
        for group in ("train", "test"):
            file[f"{group}/features"] = numpy.asarray(features, "f4")
            file[f"{group}/labels"] = numpy.asarray(labels, "i4")
        file.attrs["classes"] = int(max(labels)) + 1


class Minimised(BinaryTest):
    def setUp(self):
        super().setUp()
        draw = numpy.random.default_rng(1)
        features = draw.normal(size=(300, 20)) * numpy.geomspace(0.1, 3, 20)
        labels = features @ draw.normal(size=20) + draw.normal(size=300) > 0
        write_table(self.folder / "table.h5", features, labels)

    def figures_of(self, run):
        """Of training: evaluations add up their losses in another order on other numbers of ranks."""
        return [line for line in super().figures_of(run) if line["event"] == "train"]

    def test_the_loss_falls_in_every_iteration_and_ranks_change_no_bit(self):
        for name, config in METHODS.items():
            with self.subTest(name):
                self.write("config.toml", config)
                self.train(f"{name}1")
                objective = [line["objective"] for line in self.figures_of(f"{name}1")]
                self.assertGreater(len(objective), 3)
                if name != "gradient_descent":
                    self.assertEqual(objective, sorted(objective, reverse=True))
                self.assertLess(objective[-1], objective[0])
                for ranks in (2, 3, 4) if name in ("lbfgs", "network") else (3,):
                    self.train(f"{name}{ranks}", ranks=ranks)
                    self.assert_same_run(f"{name}{ranks}", f"{name}1")
                hessians = self.summary(f"{name}3")["minimisation"]["hessians"]
                self.assertEqual(hessians > 0, name.endswith("matrices"), hessians)

    def test_owners_pauses_backups_and_cancellations_change_no_bit(self):
        self.write("config.toml", NETWORK)
        self.train("serial", *settings("strategy.portions=13", "train.epochs=4"))
        for i, backup in enumerate(("true", "false")):
            slow = settings(
                "strategy.portions=13",
                "train.epochs=4",
                "fault.slow_rank=1",
                "fault.pause_seconds=0.03",
                f"strategy.backup={backup}",
            )
            self.train(f"slow{i}", *slow, ranks=3)
            self.assert_same_run(f"slow{i}", "serial")
            moved = self.summary(f"slow{i}")["minimisation"]
            self.assertGreater(moved["portions_moved"], 0)
            if backup == "false":
                self.assertEqual(moved["portions_repeated"], 0)

    def test_a_stopped_run_goes_on_as_if_it_had_not_stopped_on_any_number_of_ranks(self):
        for name, config in METHODS.items():
            with self.subTest(name):
                self.write("config.toml", config)
                self.train("whole", "--overwrite", *settings("train.epochs=5"))
                chosen = random.Random(name)
                first, ranks, later = chosen.randint(1, 4), chosen.choice((0, 2, 3)), chosen.choice((0, 2, 4))
                self.train("stopped", "--overwrite", *settings(f"train.epochs={first}"), ranks=ranks)
                self.train("stopped", "--resume", *settings("train.epochs=5"), ranks=later)
                self.assert_same_bits("stopped", "whole")

    def test_the_order_of_sparse_examples_is_that_of_the_file(self):
        draw = random.Random(5)
        rows = [f"{draw.choice((-1, 1))} {draw.randint(1, 20)}:1 {draw.randint(21, 40)}:1\n" for _ in range(500)]
        self.write("a.svm", "".join(rows))
        self.succeed("data", "import", "libsvm", "a.svm", "--output", "a.h5")
        self.write("config.toml", LINEAR)
        for run, words in (("a", ("seed=1",)), ("b", ("seed=2", "data.shuffle=true"))):
            self.train(run, *settings("data.path=a.h5", *words))
        self.assert_same_bits("b", "a")

    def test_a_signal_stops_it_between_iterations(self):
        self.write("config.toml", NETWORK)
        length = settings("train.epochs=12")
        self.train("whole", *length)
        slow = (*length, *settings("fault.emulated_seconds=0.1"))
        with self.started("train", "config.toml", "--output", "stopped", *slow, ranks=2) as process:
            self.wait_for_step("stopped", 2, process)
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
        self.assertLess(self.summary("stopped")["steps"], 12)
        self.train("stopped", "--resume", *length, ranks=3)
        self.assert_same_bits("stopped", "whole")

    def test_a_rank_that_dies_ends_the_job_and_the_run_can_be_resumed(self):
        self.write("config.toml", NETWORK)
        self.train("whole", *settings("train.epochs=8"))
        slow = settings("train.epochs=8", "fault.emulated_seconds=0.05", "communication.timeout_seconds=5")
        with self.started("train", "config.toml", "--output", "died", *slow, ranks=2, environment=AT_ONCE) as process:
            self.wait_for_step("died", 2, process)
            os.kill(ranks_of(process)[-1], signal.SIGKILL)
            process.wait(60)
        self.assertNotEqual(process.returncode, 0)
        self.train("died", "--resume", *settings("train.epochs=8"), ranks=2)
        self.assert_same_bits("died", "whole")

    def test_it_polishes_what_sgd_has_trained(self):
        self.write("config.toml", NETWORK)
        sgd = NETWORK.replace('kind = "lbfgs"', 'kind = "sgd"\nlearning_rate = 0.1').replace("history = 3", "")
        self.write("sgd.toml", sgd.replace('[strategy]\nkind = "batch"', ""))
        self.train("sgd", config="sgd.toml")
        self.train("polished", *settings('train.initialise_from="sgd"'))
        self.assertLess(self.figures_of("polished")[0]["loss"], self.figures_of("sgd")[-1]["loss"])


class Memory(BinaryTest):
    @without_sanitizer("a sanitizer needs memory of its own")
    def test_info_predicts_the_memory_of_a_rank(self):
        units = "{ kind = \"dense\", units = 700 }, { kind = \"relu\" }, " * 2
        begin, end = NETWORK.index("layers = ["), NETWORK.index("[optimizer]")
        layers = f'layers = [{{ kind = "flatten" }}, {units}{{ kind = "dense", units = 10 }}]\n'
        self.write("config.toml", NETWORK[:begin] + layers + NETWORK[end:])
        for ranks in (1, 2):
            words = settings("optimizer.history=10", "train.epochs=12")
            told = json.loads(self.succeed("info", "config.toml", "--json", *words, ranks=ranks).out)
            self.train("run", "--overwrite", *words, ranks=ranks)
            measured = self.summary("run")["peak_memory_bytes"]
            # Which portions a rank gets decides how many sums it holds at once; predicted are the most.
            most = (0.15 if ranks == 1 else 0.35) * measured
            self.assertLess(told["peak_memory_bytes"] - measured, most, (ranks, told, measured))
            self.assertGreater(told["peak_memory_bytes"], 0.95 * measured, (ranks, told, measured))


    def test_info_knows_the_passes_of_a_set_that_is_not_there(self):
        self.write("config.toml", NETWORK)
        told = json.loads(self.succeed("info", "config.toml", "--features", "1x28x28", "--classes", "10", "--json").out)
        self.assertGreater(told["memory"]["activations and their gradients"], 1e6)


class Ended(BinaryTest):
    """Runs that end before train.epochs, and say why."""

    def ended(self, run, *words, config=LINEAR, **options):
        self.write("config.toml", config)
        self.train(run, *words, **options)
        summary = self.summary(run)
        return summary["status"], summary["minimisation"]["ended_by"], summary

    def test_converged(self):
        status, why, summary = self.ended("run", *settings("train.epochs=500", "optimizer.gradient_tolerance=1e-3"))
        self.assertEqual((status, why), ("converged", "gradient_tolerance"))
        self.assertLess(summary["steps"], 500)
        self.assertLessEqual(summary["minimisation"]["gradient_magnitude"], 1e-3)
        # Resumed as it is, it is complete; with a smaller tolerance it goes on.
        again = self.train("run", "--resume", *settings("train.epochs=500", "optimizer.gradient_tolerance=1e-3"))
        self.assertIn("already complete", again.out + again.err)
        self.train("run", "--resume", *settings("train.epochs=500", "optimizer.gradient_tolerance=5e-4"))
        self.assertGreater(self.summary("run")["steps"], summary["steps"])

    def test_other_ends(self):
        for name, value in (("function_tolerance", 0.05), ("passes", 4)):
            _, why, summary = self.ended(name, *settings(f"optimizer.{name}={value}", "train.epochs=100"))
            self.assertEqual(why, name)
            self.assertLess(summary["steps"], 100)
        self.assertEqual(self.ended("epochs", *settings("train.epochs=2"))[1], "epochs")

    def test_where_no_step_helps_the_figures_are_those_of_the_last_point(self):
        words = settings("train.epochs=500", "optimizer.gradient_tolerance=1e-12")
        _, why, summary = self.ended("run", *words, config=METHODS["newton_cg"])
        self.assertEqual(why, "stalled")
        self.assertGreater(summary["train"]["loss"], 0)
        penalty = summary["minimisation"]["objective"] - summary["train"]["loss"]
        self.assertGreater(penalty, 0)

    def test_a_resumed_run_that_finds_no_step_has_the_figures_of_where_it_began(self):
        write_table(self.folder / "four.h5", [[1, 0], [0, 1], [1, 0.5], [0.2, 1]], [0, 1, 0, 1])
        words = settings("data.path=four.h5", "model.l2=0.1", "train.epochs=100")
        _, why, summary = self.ended("run", *words, *settings("optimizer.gradient_tolerance=1e-12"))
        self.assertEqual(why, "no_decrease")
        again = self.train("run", "--resume", *words, *settings("optimizer.gradient_tolerance=1e-12"))
        self.assertIn("already complete; no setting of this method", again.out + again.err)
        for ranks in (0, 2):  # the loss where they begin is not known from before
            smaller = settings(f"optimizer.gradient_tolerance=1e-{13 + ranks}")
            self.train("run", "--resume", *words, *smaller, ranks=ranks)
            longer = self.summary("run")
            self.assertEqual(longer["minimisation"]["ended_by"], "no_decrease")
            self.assertEqual(longer["train"], summary["train"])

    def test_stopped_early(self):
        words = settings("train.epochs=60", "train.evaluate_every_epochs=1", "data.validation_fraction=0.3")
        words += settings("train.early_stopping.patience=1", "train.early_stopping.metric=accuracy")
        status, why, summary = self.ended("run", *words)
        self.assertEqual((status, why), ("complete", "early_stopping"))
        self.assertNotIn("objective", summary["minimisation"])

    def test_a_separable_set_without_a_penalty_has_no_minimum(self):
        write_table(self.folder / "two.h5", [[1, 0], [0, 1], [1, 0.5], [0.2, 1]], [0, 1, 0, 1])
        words = settings("data.path=two.h5", "model.l2=0", "train.epochs=1000")
        status, why, _ = self.ended("run", *words)
        self.assertEqual((status, why), ("complete", "separable"))
        # Ended by epochs, it can be made longer.
        words = settings("data.path=two.h5", "model.l2=0")
        _, why, short = self.ended("short", *words, *settings("train.epochs=3"))
        self.assertEqual((why, short["steps"], short["train"]["accuracy"]), ("epochs", 3, 1))
        self.train("short", "--resume", *words, *settings("train.epochs=5"))
        self.assertEqual(self.summary("short")["steps"], 5)
        status, why, _ = self.ended("penalty", *words, *settings("model.l2=0.1"))
        self.assertEqual((status, why), ("converged", "gradient_tolerance"))

    def test_a_constant_objective_and_a_minimum_at_the_start(self):
        write_table(self.folder / "zeros.h5", numpy.zeros((6, 3)), [0, 1] * 3)
        words = settings("data.path=zeros.h5", "model.l2=0")
        status, why, summary = self.ended("constant", *words)
        self.assertIn(why, ("constant", "gradient_tolerance"))
        self.assertEqual(summary["steps"], 1)
        status, why, summary = self.ended("run", *settings("train.epochs=300", "optimizer.gradient_tolerance=1e-3"))
        words = settings('train.initialise_from="run"', "optimizer.gradient_tolerance=1e-3")
        status, why, summary = self.ended("start", *words)
        self.assertEqual((status, why, summary["steps"]), ("converged", "gradient_tolerance", 1))


class Refused(BinaryTest):
    """Each with exit code 2 and one message, and nothing is written."""

    def refused(self, message, *pairs, config=LINEAR, ranks=0):
        with self.subTest(pairs):
            self.write("config.toml", config)
            result = self.train("new", *settings(*pairs), ranks=ranks, code=2)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn(message, messages(result)[0])
            self.assertFalse((self.folder / "new").exists())

    def test_what_means_nothing(self):
        self.refused("'learning_rate' means nothing to lbfgs", "optimizer.learning_rate=0.1")
        self.refused("'clip_norm' means nothing to lbfgs", "optimizer.clip_norm=1")
        self.refused("'batch_size' means nothing", "train.batch_size=64")
        self.refused("'micro_batches' means nothing", "train.micro_batches=4")
        self.refused("'accumulate' means nothing", "train.accumulate=2")
        self.refused("'schedule' means nothing", "schedule.kind=cosine")
        self.refused('data.partition = "fixed" means nothing', "data.partition=fixed")
        self.refused("data.order means nothing", "data.order=strata")
        self.refused("replica.recompute means nothing", "replica.recompute=all", config=NETWORK)
        self.refused("whole-batch methods run only on CPUs", "device=cuda", config=NETWORK)

    def test_methods_and_strategy_need_each_other(self):
        self.refused('set strategy.kind = batch', "strategy.kind=allreduce")
        sgd = LINEAR.replace('kind = "lbfgs"', 'kind = "sgd"\nlearning_rate = 0.1')
        self.refused("set optimizer.kind = ", config=sgd, ranks=2)

    def test_values(self):
        for pair in (
            "optimizer.history=0",
            "optimizer.history=-3",
            "optimizer.gradient_tolerance=-1",
            "optimizer.passes=-1",
            "optimizer.function_tolerance=-0.1",
            "optimizer.line_search=exact",
            "optimizer.momentum=0.9",
            "strategy.portions=0",
            "strategy.portions=-5",
            "strategy.portions=many",
            "strategy.portion=3",
            "strategy.backup=3",
        ):
            self.refused(pair.split("=")[0].split(".")[1], pair)

    def test_models_and_data(self):
        write_table(self.folder / "two.h5", [[1, 0], [0, 1]], [0, 1])
        self.refused("squared_hinge", "model.loss=hinge", "data.path=two.h5")
        self.refused("dropout", config=NETWORK.replace('{ kind = "tanh" }', '{ kind = "dropout", rate = 0.5 }'))
        self.refused("batch_norm", config=NETWORK.replace('{ kind = "tanh" }', '{ kind = "batch_norm" }'))
        self.refused("augmentation", "data.augmentation.shift=1", config=NETWORK)
        self.refused("newton_cg", config=NETWORK.replace('"lbfgs"', '"newton_cg"').replace("history = 3", ""))
        self.refused("l1", "model.l1=0.1", config=METHODS["newton_cg"])
        self.refused("l1", "model.l1=0.1", config=METHODS["conjugate_gradient"])
        self.refused("averaged", "model.averaged=true")
        self.refused("stages", "replica.stages=2", config=NETWORK, ranks=2)
        begin, end = NETWORK.index("[model]"), NETWORK.index("[optimizer]")
        self.refused("word2vec", config=NETWORK[:begin] + '[model]\nkind = "word2vec"\n' + NETWORK[end:])

    def test_the_check_of_a_config_finds_them_too(self):
        self.write("config.toml", NETWORK.replace('{ kind = "tanh" }', '{ kind = "dropout", rate = 0.5 }'))
        result = self.unisono("config", "check", "config.toml")
        self.assertEqual(result.code, 2, result)
        self.assertIn("dropout", messages(result)[0])

    def test_bench_times_steps_only(self):
        self.write("config.toml", NETWORK)
        result = self.unisono("bench", "config.toml")
        self.assertEqual(result.code, 2, result)
        self.assertIn("lbfgs", messages(result)[0])


if __name__ == "__main__":
    unittest.main()
