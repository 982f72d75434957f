"""Runs whose replicas are pipelines: each stage holds some layers, and all that a run leaves is the serial run's."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from harness import AT_ONCE, BINARY, CONFIG, MPIRUN, BinaryTest, messages, ranks_of, settings, without_sanitizer

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"])

PIPELINE = (
    CONFIG.replace("threads = 1", "threads = 1\nmicro_batches = 4\nweight_average = 0.9")
    .replace("learning_rate = 0.01", "learning_rate = 0.01\nclip_norm = 0.5")
)


def stages(number, *more):
    return settings(f"replica.stages={number}", *more)


# What divides the model, and on how many ranks.
DIVISIONS = (
    (2, stages(2)),
    (3, stages(3, "replica.schedule=gpipe")),
    (4, stages(4, "replica.schedule=zero_bubble")),
    (2, stages(2, "replica.schedule=interleaved", "replica.chunks=2")),
    (2, stages(2, 'replica.placement.first_layers=["convolution1", "batch_norm1"]', "replica.schedule=naive")),
)


class Refused(BinaryTest):
    """Each with exit code 2 and one message, and nothing is written."""

    def refused(self, ranks, message, *pairs):
        with self.subTest(pairs):
            self.write("config.toml", PIPELINE)
            result = self.train("new", *settings(*pairs), ranks=ranks, code=2)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn(message, messages(result)[0])
            self.assertFalse((self.folder / "new").exists())

    def test_stages_that_cannot_be(self):
        two = "replica.stages=2"
        self.refused(2, "3 stages do not divide 2 ranks", "replica.stages=3")
        self.refused(0, "2 stages do not divide 1 rank", two)
        self.refused(5, "can be cut into at most 4", "replica.stages=5")
        self.refused(2, "has no layer 'x'", two, 'replica.placement.first_layers=["convolution1", "x"]')
        self.refused(2, '"hogwild" trains only models', two, "strategy.kind=hogwild", "train.weight_average=0")
        self.refused(4, "1 for 2 replicas of 2 stages", two, "train.micro_batches=1")

    def test_the_check_of_a_config_finds_them_too(self):
        self.write("config.toml", PIPELINE)
        result = self.unisono("config", "check", "config.toml", *stages(9))
        self.assertEqual(result.code, 2, result)
        self.assertIn("can be cut into at most 4", messages(result)[0])


class Shown(BinaryTest):
    def test_info_lists_what_each_stage_holds(self):
        self.write("config.toml", PIPELINE)
        text = self.succeed("info", "config.toml", *stages(2)).out
        self.assertRegex(text, r"(?m)^ +0 .* convolution1 to dropout1$")
        self.assertRegex(text, r"(?m)^ +1 .* dense1$")
        shown = json.loads(self.succeed("info", "config.toml", "--json", *stages(2)).out)
        self.assertEqual(sum(stage["parameters"] for stage in shown["stages"]), shown["parameters"])
        self.assertEqual(sum(stage["flops_per_example"] for stage in shown["stages"]), shown["flops_per_example"])


# Runs its arguments, and leaves the most memory that they had in memory.RANK, in KiB.
MEASURED = """
import os, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
with open("memory." + os.environ["OMPI_COMM_WORLD_RANK"], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


class Memory(BinaryTest):
    @without_sanitizer("a sanitizer needs memory of its own")
    def test_info_predicts_the_memory_of_each_stage(self):
        layers = ", ".join('{ kind = "dense", units = 1500 }, { kind = "relu" }' for _ in range(3))
        layers = f'layers = [{{ kind = "flatten" }}, {layers}, {{ kind = "dense", units = 10 }}]\n'
        begin, end = PIPELINE.index("layers = ["), PIPELINE.index("[optimizer]")
        text = PIPELINE[:begin] + layers + PIPELINE[end:]
        self.write("config.toml", text.replace("batch_size = 24", "batch_size = 240"))
        self.write("measured.py", MEASURED)
        for schedule in ("gpipe", "1f1b"):
            division = stages(2, f"replica.schedule={schedule}", "optimizer.learning_rate=0.0001")
            told = json.loads(self.succeed("info", "config.toml", "--json", *division, ranks=2).out)
            words = [sys.executable, "measured.py", BINARY, "train", "config.toml", "--overwrite", "--output", "run"]
            subprocess.run([*MPIRUN, "-n", "2", *words, *division], cwd=self.folder, check=True, capture_output=True)
            for stage in (0, 1):
                measured = int((self.folder / f"memory.{stage}").read_text()) * 1024
                predicted = told["stages"][stage]["peak_memory_bytes"]
                self.assertLess(abs(predicted - measured), 0.1 * measured, (schedule, stage, predicted, measured))


class Trained(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", PIPELINE)

    def test_it_leaves_what_the_serial_run_leaves(self):
        rules = (["optimizer.kind=adam"], ["optimizer.kind=lamb", 'train.class_weights="balanced"'])
        for number, rule in enumerate(rules):
            self.train(f"serial{number}", *settings(*rule))
            for i, (ranks, division) in enumerate(DIVISIONS if number == 0 else DIVISIONS[1::2]):
                with self.subTest(division=division, rule=rule):
                    run = f"run{number}{i}"
                    self.train(run, *settings(*rule), *division, ranks=ranks)
                    self.assert_same_run(run, f"serial{number}")

    def test_replicas_of_stages_are_ranks_that_hold_the_whole_model(self):
        reproducible = settings("communication.reduction=reproducible")
        averaging = settings("strategy.kind=averaging", "strategy.period=3", "strategy.optimizer_state=keep")
        for name, strategy in (("allreduce", []), ("reproducible", reproducible), ("averaging", averaging)):
            with self.subTest(name):
                self.train(name, *strategy, ranks=2)
                self.train(f"{name}-stages", *strategy, *stages(2), ranks=4)
                self.assert_same_run(f"{name}-stages", name)

    def test_with_reproducible_sums_any_replicas_and_stages_leave_what_the_serial_run_leaves(self):
        reproducible = settings("communication.reduction=reproducible")
        self.train("serial", *reproducible)
        for ranks, number in ((4, 2), (6, 2), (6, 3)):
            with self.subTest(ranks=ranks, stages=number):
                self.train(f"run{ranks}{number}", *reproducible, *stages(number), ranks=ranks)
                self.assert_same_run(f"run{ranks}{number}", "serial")

    def test_it_goes_on_in_any_other_division(self):
        self.train("serial")
        divisions = [(0, []), *DIVISIONS[:3]]
        for i, (ranks, division) in enumerate(divisions):
            run, (other, next_division) = f"run{i}", divisions[(i + 1) % len(divisions)]
            with self.subTest(first=division, then=next_division):
                self.train(run, *division, *settings("train.epochs=1"), ranks=ranks)
                result = self.train(run, "--resume", *next_division, ranks=other)
                self.assertIn("resumed at step 10", result.out)
                self.assertNotIn("up to rounding", result.out)
                self.assert_same_run(run, "serial")

    def test_it_goes_on_in_another_division_when_a_stage_was_killed(self):
        endless = settings("train.epochs=1000000", "checkpoint.every_steps=1")
        words = ("train", "config.toml", "--output", "run", *endless, *stages(3))
        with self.started(*words, ranks=3, environment=AT_ONCE) as process:
            self.wait_for_step("run", 12, process)
            os.kill(ranks_of(process)[1], signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # mpirun itself may hang now and then
                self.assertNotEqual(process.wait(timeout=30), 0)
        length = settings(f"train.epochs={self.last_step('run') // 10 + 2}")
        self.train("serial", *length)
        result = self.train("run", "--resume", *length, *stages(2, "replica.schedule=zero_bubble"), ranks=2)
        self.assertIn("resumed at step", result.out)
        self.assert_same_bits("run", "serial")

    def test_another_number_of_replicas_is_named_where_a_run_goes_on(self):
        self.train("run", *settings("train.epochs=1"), ranks=2)
        result = self.train("run", "--resume", *stages(2), ranks=2)
        self.assertIn("not bit for bit, because these differ: replicas (2 before, 1 now)", result.out)

    def test_it_is_applied_on_any_number_of_ranks(self):
        self.train("serial")
        self.train("trial", *stages(4), ranks=4)
        for ranks in (0, 3):
            with self.subTest(ranks=ranks):
                tested = [self.succeed("evaluate", run, "--json", ranks=ranks).out for run in ("serial", "trial")]
                for run in ("serial", "trial"):
                    self.succeed("predict", run, "--output", f"{run}{ranks}.csv", ranks=ranks)
                serial, trial = (json.loads(text) for text in tested)
                self.assertEqual(
                    {key: value for key, value in serial.items() if isinstance(value, float)},
                    {key: value for key, value in trial.items() if isinstance(value, float)},
                )
                first, second = ((self.folder / f"{run}{ranks}.csv").read_text() for run in ("serial", "trial"))
                self.assertEqual(first, second)

    def test_it_starts_from_another_run_with_frozen_layers(self):
        self.train("earlier")
        frozen = 'train.freeze=["convolution1", "batch_norm1"]'
        more = settings("train.initialise_from=earlier", frozen, "train.epochs=1")
        self.train("serial", *more)
        self.train("stages", *more, *stages(3), ranks=3)
        self.assert_same_run("stages", "serial")

    def test_it_stops_early_with_the_best_weights(self):
        patience, rate = "train.early_stopping.patience=1", "optimizer.learning_rate=0.2"
        more = settings(patience, rate, "train.epochs=12", "data.validation_fraction=0.2")
        self.train("serial", *more)
        self.train("stages", *more, *stages(2), ranks=2)
        self.assertLess(self.summary("serial")["epochs"], 12)
        self.assert_same_run("stages", "serial")

    def test_its_distance_to_another_run_is_that_of_all_stages(self):
        self.train("serial")
        other = settings("optimizer.learning_rate=0.02")
        self.train("far", *other, "--compare-with", "serial")
        self.train("far-stages", *other, *stages(2), "--compare-with", "serial", ranks=2)
        expected, found = (self.summary(run)["compared_with"] for run in ("far", "far-stages"))
        self.assertEqual(found["different_parameters"], expected["different_parameters"])
        self.assertEqual(found["largest_difference"], expected["largest_difference"])
        self.assertAlmostEqual(found["relative_distance"], expected["relative_distance"], places=12)


AUTOENCODER = """
name = "autoencoder"
[data]
path = "digits.h5"
targets = "features"
[model]
kind = "network"
loss = "mean_squared_error"
layers = [
  { kind = "flatten" },
  { kind = "dense", units = 64 },
  { kind = "relu" },
  { kind = "dropout", rate = 0.1 },
  { kind = "dense", units = 16 },
  { kind = "tanh" },
  { kind = "dense", units = 64 },
  { kind = "relu" },
  { kind = "dense", units = 784 },
]
[optimizer]
kind = "adamw"
weight_decay = 0.1
learning_rate = 0.001
[train]
threads = 1
epochs = 2
"""


class Models(BinaryTest):
    """Each schedule, on 2 to 4 ranks; 240 examples in batches of 50, of which the last has 40."""

    DIVISIONS = (
        (2, stages(2, "replica.schedule=naive")),
        (3, stages(3, "replica.schedule=gpipe")),
        (4, stages(4)),
        (2, stages(2, "replica.schedule=interleaved", "replica.chunks=2", "replica.recompute=all")),
        (3, stages(3, "replica.schedule=zero_bubble")),
    )

    def compare(self, config, *pairs, divisions=DIVISIONS):
        sizes = ("train.batch_size=50", "train.micro_batches=5", "train.threads=1")
        words = settings("data.path=digits.h5", *sizes, *pairs)
        self.train("serial", *words, config=config)
        for i, (ranks, division) in enumerate(divisions):
            with self.subTest(division=division):
                self.train(f"run{i}", *words, *division, ranks=ranks, config=config)
                self.assert_same_bits(f"run{i}", "serial")

    def test_lenet(self):
        self.compare(SOURCE / "configs/lenet.toml", "train.epochs=1")

    def test_resnet(self):
        once = ("train.epochs=1", "schedule.kind=constant")
        self.compare(SOURCE / "configs/resnet20.toml", *once, divisions=self.DIVISIONS[2:4])

    def test_autoencoder(self):
        self.write("autoencoder.toml", AUTOENCODER)
        self.compare("autoencoder.toml")


class Bytes(BinaryTest):
    """What goes from stage to stage, and between the replicas of a stage."""

    def test_a_step_sends_each_boundary_twice_for_each_micro_batch(self):
        self.write("autoencoder.toml", AUTOENCODER)
        words = settings("train.batch_size=80", "train.micro_batches=5")
        cuts = 'replica.placement.first_layers=["dense1", "dense2", "dense3"]'
        widths = (64, 16)  # of the two boundaries
        for ranks, reduction in ((3, "fast"), (6, "reproducible")):
            with self.subTest(ranks=ranks):
                more = stages(3, cuts, f"communication.reduction={reduction}")
                self.train(f"run{ranks}", *words, *more, ranks=ranks, config="autoencoder.toml")
                found = self.summary(f"run{ranks}")["pipeline"]["boundary_bytes_per_step"]
                self.assertEqual(found, sum(2 * 5 * 16 * width * 4 for width in widths))


if __name__ == "__main__":
    unittest.main()
