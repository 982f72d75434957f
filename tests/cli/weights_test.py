"""Where a run's weights come from, which of them are trained, and which of them are used: train.initialise_from,
train.freeze, train.weight_average."""

import json
import os
import signal
import unittest

import h5py
import numpy

from harness import INTERRUPTED, BinaryTest, ranks_of

# Two layers with weights below a head, of which one is normalised; momentum and decay would move what is not frozen.
NETWORK = """
name = "test"
seed = 3
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [
  { kind = "convolution", channels = 4, kernel = 5, stride = 2, bias = false },
  { kind = "batch_norm" },
  { kind = "relu" },
  { kind = "flatten" },
  { kind = "dense", units = 12 },
  { kind = "relu" },
  { kind = "dense", units = UNITS },
]
[optimizer]
kind = "sgd"
learning_rate = 0.02
momentum = 0.9
weight_decay = 0.01
[train]
epochs = 2
batch_size = 24
threads = 1
report_every_steps = 4
"""
LINEAR = """
name = "linear"
[data]
path = "digits.h5"
[model]
kind = "linear"
loss = "softmax"
[optimizer]
kind = "sgd"
learning_rate = 0.01
[train]
epochs = 1
[strategy]
kind = "serial"
"""
SMALL = ("--set", "train.epochs=1")


class WeightsTest(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("network.toml", NETWORK.replace("UNITS", "10"))
        self.write("other-head.toml", NETWORK.replace("UNITS", "3").replace("digits.h5", "three.h5"))
        with h5py.File(self.digits, "r") as digits, h5py.File(self.folder / "three.h5", "w") as three:
            for group in ("train", "test"):
                three[f"{group}/features"] = digits[f"{group}/features"][()]
                three[f"{group}/labels"] = digits[f"{group}/labels"][()] % 3
        self.write("linear.toml", LINEAR)

    def pretrain(self, *arguments, ranks=0):
        self.train("other", *SMALL, *arguments, config="network.toml", ranks=ranks)
        return self.vectors("other")

    def log(self, run):
        return (self.folder / run / "log.txt").read_text()

    def refuse(self, config, *arguments, ranks=0, code=2):
        result = self.unisono("train", config, "--output", "refused", *arguments, ranks=ranks)
        self.assertEqual(result.code, code, result)
        return result.err


class InitialisingFromARun(WeightsTest):
    """A rate of 0 shows what a run began with."""

    STILL = ("--set", "optimizer.learning_rate=0", *SMALL)

    def test_blocks_whose_names_and_shapes_agree_are_taken_and_the_others_begin_anew(self):
        other = self.pretrain()
        self.train("fresh", *self.STILL, config="other-head.toml")
        for ranks in (0, 2):
            run = f"tuned{ranks}"
            result = self.train(
                run, *self.STILL, "--set", "train.initialise_from=other", config="other-head.toml", ranks=ranks
            )
            own, fresh = self.vectors(run), self.vectors("fresh")
            for name in own:
                if not name.startswith("parameters/"):
                    continue
                source = fresh if name.startswith("parameters/dense2.") else other
                self.assertEqual(own[name].tobytes(), source[name].tobytes(), name)
            self.assertIn("step-000000010.h5 (step 10): 5 of 7 tensors", result.out)
            self.assertIn(
                "dense2: 10 × 12 in the checkpoint, 3 × 12 in this model (starts from initial values)", result.out
            )
            effective = (self.folder / run / "config.toml").read_text()
            self.assertIn('initialise_from = "other"', effective)

    def test_running_statistics_are_taken_too(self):
        other = self.pretrain()
        self.train(
            "tuned", *self.STILL, "--set", "train.initialise_from=other", "--set", "train.freeze=['batch_norm1']",
            config="network.toml",
        )  # fmt: skip
        own = self.vectors("tuned")
        for name in ("batch_norm1.mean", "batch_norm1.variance"):
            self.assertEqual(own[f"statistics/{name}"].tobytes(), other[f"statistics/{name}"].tobytes(), name)

    def test_a_checkpoint_file_does_as_well(self):
        other = self.pretrain()
        self.train(
            "tuned", *self.STILL, "--set", f"train.initialise_from={self.checkpoints('other')[-1]}",
            config="network.toml",
        )  # fmt: skip
        own = self.vectors("tuned")
        self.assertEqual(own["parameters/dense2.weight"].tobytes(), other["parameters/dense2.weight"].tobytes())

    def test_a_resumed_run_goes_on_from_its_own_checkpoint(self):
        self.pretrain()
        settings = ("--set", "train.initialise_from=other")
        self.train("whole", *settings, config="network.toml")
        longer = (*settings, "--set", "train.epochs=1000")
        words = ("train", "network.toml", "--output", "stopped", *longer)
        with self.started(*words) as process:
            self.wait_for_step("stopped", 3, process)
            os.kill(ranks_of(process)[0], signal.SIGUSR1)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, INTERRUPTED)
        steps = self.summary("stopped")["steps"]
        epochs = ("--set", f"train.epochs={steps // 10 + 2}")
        result = self.train("stopped", "--resume", *settings, *epochs, config="network.toml")
        self.assertNotIn("initialised from", result.out)
        self.train("whole2", *settings, *epochs, config="network.toml")
        self.assert_same_bits("whole2", "stopped")

    def test_every_kind_of_model_and_of_strategy(self):
        self.train("other-linear", config="linear.toml")
        result = self.train(
            "tuned", "--set", "train.initialise_from=other-linear", "--set", "optimizer.learning_rate=0",
            config="linear.toml",
        )  # fmt: skip
        self.assertIn("initialised from", result.out)
        names = [name for name in self.vectors("tuned") if name.startswith("parameters/")]
        for name in names:
            self.assertEqual(self.vectors("tuned")[name].tobytes(), self.vectors("other-linear")[name].tobytes(), name)

    def test_ratings_take_the_factors_of_the_same_users_and_items_alone(self):
        config = """
name = "ratings"
[data]
path = "ratings.h5"
[model]
kind = "factorization"
dimension = 4
[optimizer]
kind = "adagrad"
learning_rate = 0.05
[train]
epochs = 2
[strategy]
kind = "stratified"
threads = 1
"""
        rng = numpy.random.default_rng(1)
        for name, shift in (("ratings", 0), ("others", 5)):
            lines = [f"u{u + shift} i{i} {rng.integers(1, 6)}\n" for u in range(300) for i in range(60)]
            self.write(f"{name}.txt", "".join(lines))
            self.succeed("data", "import", "ratings", f"{name}.txt", "--split", "none", "--output", f"{name}.h5")
        self.write("ratings.toml", config)
        self.train("first", config="ratings.toml")
        first = self.vectors("first")
        for ranks in (0, 2):
            run = f"second{ranks}"
            self.train(
                run, "--set", "train.initialise_from=first", "--set", "optimizer.learning_rate=0",
                config="ratings.toml", ranks=ranks,
            )  # fmt: skip
            own = self.vectors(run)
            for name in ("users.factors", "users.bias", "items.factors", "items.bias"):
                self.assertEqual(own[f"parameters/{name}"].tobytes(), first[f"parameters/{name}"].tobytes(), name)
        others = ("--set", "train.initialise_from=first", "--set", "data.path=others.h5")
        error = self.refuse("ratings.toml", *others, code=3)
        self.assertIn("differ from those of others.h5", error)

    def test_what_cannot_be_is_refused(self):
        self.pretrain()
        self.assertIn("no parameters of", self.refuse("linear.toml", "--set", "train.initialise_from=other"))
        result = self.unisono(
            "train", "network.toml", "--output", "no", "--set", "train.initialise_from=nowhere"
        )
        self.assertEqual(result.code, 4, result)
        self.assertIn("nowhere: there is no such run or checkpoint", result.err)

    def test_a_run_may_start_from_the_one_that_it_replaces(self):
        other = self.pretrain()
        for wrong, code in (("train.initialise_from=nowhere", 4), ("train.class_weights=[1]", 2)):
            result = self.unisono("train", "network.toml", "--output", "other", "--overwrite", "--set", wrong)
            self.assertEqual(result.code, code, result)
            self.assertEqual(len(self.checkpoints("other")), 1)  # still there
        for ranks in (0, 2):
            self.train("other", *self.STILL, "--overwrite", "--set", "train.initialise_from=other",
                       config="network.toml", ranks=ranks)  # fmt: skip
            own = self.vectors("other")
            self.assertEqual(own["parameters/dense2.weight"].tobytes(), other["parameters/dense2.weight"].tobytes())
            self.assertIn("initialised from other/checkpoints", self.log("other"))

    def test_another_normalisation_is_said(self):
        self.pretrain()
        result = self.train(
            "tuned", *self.STILL, "--set", "train.initialise_from=other", "--set", "data.normalization=feature",
            config="network.toml",
        )  # fmt: skip
        self.assertIn("features are normalised by this run's own training set", result.out)


class Freezing(WeightsTest):
    STRATEGIES = (
        (0, "allreduce"),
        (2, "allreduce"),
        (3, "averaging", "strategy.period=3"),
        (2, "parameter_server"),
        (2, "parameter_server", "strategy.consistency=synchronous"),
        (2, "parameter_server", "strategy.pull_period=2", "strategy.push_period=2"),
        (2, "elastic_averaging", "strategy.period=2"),
        (0, "hogwild", "strategy.threads=2"),
        (2, "hogwild", "strategy.threads=1", "strategy.period=3"),
    )
    OPTIMIZERS = ("sgd", "adagrad", "rmsprop", "adam", "adamw", "lars", "lamb")

    def start(self, run, *settings, ranks=0):
        """A run on what another one has learnt, and both ones' vectors."""
        words = [word for setting in settings for word in ("--set", setting)]
        self.train(run, "--set", "train.initialise_from=other", *words, config="network.toml", ranks=ranks)
        return self.vectors("other"), self.vectors(run)

    def assert_frozen(self, before, after, frozen, *groups):
        for name in before:
            group, _, block = name.rpartition("/")
            if group not in groups:
                continue
            same = before[name].tobytes() == after[name].tobytes()
            self.assertEqual(same, block.startswith(frozen), name)

    def test_frozen_layers_stay_bit_for_bit_in_every_strategy(self):
        self.pretrain()
        for ranks, kind, *settings in self.STRATEGIES:
            with self.subTest(ranks=ranks, kind=kind, settings=settings):
                run = f"run{ranks}{kind}{len(settings)}{settings[-1:]}"
                vectors = self.start(
                    run, "train.freeze=['convolution*','batch_norm1']", f"strategy.kind={kind}", *settings, ranks=ranks
                )
                self.assert_frozen(*vectors, ("convolution1", "batch_norm1"), "parameters", "statistics")

    def test_every_optimizer_leaves_frozen_blocks_and_their_state_alone(self):
        self.pretrain()
        for optimizer in self.OPTIMIZERS:
            with self.subTest(optimizer=optimizer):
                settings = ["optimizer.learning_rate=0.01", f"optimizer.kind={optimizer}"]
                if optimizer not in ("sgd", "lars"):
                    self.write("network.toml", NETWORK.replace("UNITS", "10").replace("momentum = 0.9\n", ""))
                else:
                    self.write("network.toml", NETWORK.replace("UNITS", "10"))
                vectors = self.start(f"run-{optimizer}", "train.freeze=['dense1.weight']", *settings)
                self.assert_frozen(*vectors, "dense1.weight", "parameters")
                for name, values in vectors[1].items():
                    if name.startswith("optimizer/") and name.endswith("/dense1.weight"):
                        self.assertFalse(values.any(), name)

    def test_a_frozen_batch_norm_normalises_by_its_running_statistics(self):
        """All but the head frozen: training and evaluation compute the same features."""
        self.pretrain()
        self.train(
            "run", "--set", "train.initialise_from=other",
            "--set", "train.freeze=['convolution1','batch_norm1','dense1']",
            "--set", "optimizer.learning_rate=0", "--set", "train.epochs=1", config="network.toml",
        )  # fmt: skip
        train = self.summary("run")["train"]
        on_train = json.loads(self.succeed("evaluate", "run", "--split", "train", "--json").out)
        self.assertAlmostEqual(train["loss"], on_train["loss"], places=5)
        info = self.succeed("info", "run/config.toml").out
        self.assertIn("frozen batch statistics", info)
        self.assertRegex(info, r"(?m)^\d,\d{3} of \d,\d{3} parameters are frozen$")

    def test_the_norm_that_is_clipped_is_that_of_what_is_trained(self):
        self.pretrain()
        self.start("run", "train.freeze=['convolution1','dense1']", "optimizer.clip_norm=1000", "train.epochs=1")
        self.start("only", "train.freeze=['convolution1','dense1']", "train.epochs=1")
        norms = [[line["gradient_norm"] for line in self.metrics(run) if line["event"] == "train"]
                 for run in ("run", "only")]  # fmt: skip
        for clipped, plain in zip(*norms):
            self.assertAlmostEqual(clipped, plain, places=5)
        self.start("all", "optimizer.clip_norm=1000", "train.epochs=1")
        every = [line["gradient_norm"] for line in self.metrics("all") if line["event"] == "train"]
        self.assertGreater(every[0], 1.05 * norms[0][0])

    def test_ranks_agree_with_one(self):
        self.pretrain()
        for ranks in (0, 2, 3):
            self.start(f"run{ranks}", "train.freeze=['convolution1','batch_norm1']", ranks=ranks)
        self.assert_close("run0", "run2", 1e-4)
        self.assert_close("run0", "run3", 1e-4)

    def test_what_cannot_be_is_refused(self):
        error = self.refuse("network.toml", "--set", "train.freeze=['conv']")
        self.assertIn("train.freeze: no parameters are called 'conv'", error)
        self.assertIn("convolution1.weight, batch_norm1.gamma, batch_norm1.beta, dense1.weight", error)
        self.assertIn("nothing to train", self.refuse("network.toml", "--set", "train.freeze=['*']"))
        self.assertIn("train.freeze is for", self.refuse("linear.toml", "--set", "train.freeze=['*']"))


class AveragingWeights(WeightsTest):
    AVERAGE = ("--set", "train.weight_average=0.9")

    def test_it_is_the_moving_average_of_the_steps(self):
        """Of runs that end after each step: the average that ours holds is computed anew from theirs."""
        self.train("run", "--set", "checkpoint.every_steps=1", "--set", "checkpoint.keep=100", *self.AVERAGE,
                   config="network.toml")  # fmt: skip
        names = ("parameters/dense1.weight", "statistics/batch_norm1.mean")
        averages = {}
        checkpoints = self.checkpoints("run")
        self.assertEqual(len(checkpoints), 20)
        for t, path in enumerate(checkpoints, 1):
            decay = min(0.9, (t - 1) / (t + 8))
            with h5py.File(path, "r") as file:
                for name in names:
                    averages[name] = decay * averages.get(name, 0) + (1 - decay) * file[name][()].astype("f8")
                    numpy.testing.assert_allclose(file[f"average/{name}"][()], averages[name], rtol=1e-5, atol=1e-6)

    def test_it_is_what_is_evaluated_judged_and_applied(self):
        self.train("raw", config="network.toml")
        self.train("run", *self.AVERAGE, config="network.toml")
        # Training itself goes on as without it.
        raw, own = self.vectors("raw"), self.vectors("run")
        for name in raw:
            self.assertEqual(raw[name].tobytes(), own[name].tobytes(), name)
        self.assertEqual(self.summary("raw")["train"], self.summary("run")["train"])
        evaluated = json.loads(self.succeed("evaluate", "run", "--json").out)
        self.assertAlmostEqual(evaluated["loss"], self.summary("run")["test"]["loss"], places=6)
        self.assertNotAlmostEqual(evaluated["loss"], self.summary("raw")["test"]["loss"], places=4)
        # The same weights in the place of the parameters give the same figure.
        with h5py.File(self.checkpoints("run")[-1], "r") as file:
            average = {name: file[f"average/parameters/{name}"][()] for name in file["average/parameters"]}
        self.assertFalse((average["dense2.weight"] == own["parameters/dense2.weight"]).all())

    def test_a_stopped_run_goes_on_with_the_same_bits(self):
        for ranks, *strategy in ((0,), (2,), (2, "--set", "strategy.kind=averaging", "--set", "strategy.period=3")):
            with self.subTest(ranks=ranks, strategy=strategy):
                run, whole = f"stopped{ranks}{len(strategy)}", f"whole{ranks}{len(strategy)}"
                words = ("train", "network.toml", "--output", run, *self.AVERAGE, *strategy)
                with self.started(*words, "--set", "train.epochs=100000", ranks=ranks) as process:
                    self.wait_for_step(run, 8, process)
                    os.kill(ranks_of(process)[0], signal.SIGUSR1)
                    process.communicate(timeout=60)
                    self.assertEqual(process.returncode, INTERRUPTED)
                epochs = ("--set", f"train.epochs={self.summary(run)['steps'] // 10 + 2}")
                arguments = (*self.AVERAGE, *strategy, *epochs)
                self.train(run, "--resume", *arguments, config="network.toml", ranks=ranks)
                self.train(whole, *arguments, config="network.toml", ranks=ranks)
                self.assert_same_bits(run, whole)
                self.assertEqual(self.summary(run)["test"], self.summary(whole)["test"])

    def test_ranks_agree_with_one(self):
        for ranks in (0, 2, 3):
            self.train(f"run{ranks}", *self.AVERAGE, config="network.toml", ranks=ranks)
        self.assert_close("run0", "run2", 1e-4, groups=("parameters", "statistics", "average"))
        self.assert_close("run0", "run3", 1e-4, groups=("parameters", "statistics", "average"))

    def test_frozen_blocks_are_their_own_average(self):
        self.train("run", *self.AVERAGE, "--set", "train.freeze=['convolution1','batch_norm1']", config="network.toml")
        own = self.vectors("run")
        for name in ("parameters/convolution1.weight", "statistics/batch_norm1.variance"):
            self.assertEqual(own[name].tobytes(), own[f"average/{name}"].tobytes(), name)

    def test_fine_tuning_begins_with_the_average(self):
        self.pretrain(*self.AVERAGE)
        still = ("--set", "optimizer.learning_rate=0", *SMALL)
        self.train("tuned", *still, "--set", "train.initialise_from=other", config="network.toml")
        self.assertEqual(
            self.vectors("tuned")["parameters/dense1.weight"].tobytes(),
            self.vectors("other")["average/parameters/dense1.weight"].tobytes(),
        )

    def test_where_it_has_no_meaning_it_is_refused(self):
        self.assertIn("updated in place", self.refuse("linear.toml", *self.AVERAGE))
        for kind in ("hogwild", "parameter_server", "elastic_averaging"):
            error = self.refuse("network.toml", *self.AVERAGE, "--set", f"strategy.kind={kind}", ranks=2)
            self.assertIn("train.weight_average needs ranks that regularly hold the same model", error)
        self.refuse("network.toml", "--set", "train.weight_average=1")

    def test_a_run_without_it_is_not_resumed_with_it(self):
        self.train("run", config="network.toml")
        result = self.train("run", "--resume", "--set", "train.epochs=3", *self.AVERAGE, config="network.toml", code=2)
        self.assertIn("train.weight_average", result.err)


if __name__ == "__main__":
    unittest.main()
