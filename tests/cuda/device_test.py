"""The whole binary with device = "cuda", on the simulated device: it arrives where the CPU arrives, and says what is
wrong."""

import json
import math
import os
import pathlib
import re
import sys
import unittest

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from harness import CONFIG, BinaryTest  # noqa: E402

CUDA = ("--set", "device=cuda", "--set", "allow_shared_device=true")
RESIDUAL = CONFIG.replace(
    """  { kind = "flatten" },
  { kind = "dropout", rate = 0.2 },
""",
    """  { kind = "residual", layers = [
    { kind = "convolution", channels = 4, kernel = 3, padding = 1 }, { kind = "batch_norm" }, { kind = "relu" },
    { kind = "convolution", channels = 4, kernel = 3, padding = 1 }, { kind = "batch_norm" } ] },
  { kind = "relu" },
  { kind = "max_pool", size = 2 },
  { kind = "layer_norm" },
  { kind = "global_average_pool" },
""",
)


def strategy(kind, **settings):
    words = ["--set", f"strategy.kind={kind}"]
    for key, value in settings.items():
        words += ["--set", f"strategy.{key}={value}"]
    return words


class OnADevice(BinaryTest):
    """Distances are those of all parameters, relative to their norm, after ten steps of sgd (Adam divides each gradient
    by its own size, so that the rounding of one that is nearly zero moves its parameter by up to the rate). Each step
    rounds each parameter once, by u = 2⁻²⁴ of it at most, and its gradient in some dozen places; ten steps of such
    errors of random signs leave a few u, and 16 are allowed. (Two instruction sets of the CPU are 0.6 u apart.) In tf32
    and bf16 a gradient's error is of their own u, relative to the gradient; the whole way of ten steps is well below
    the parameters' norm, so that one u of that is allowed."""

    SGD = ("--set", "optimizer.kind=sgd", "--set", "optimizer.learning_rate=0.02", "--set", "train.epochs=1")
    ALLOWED = {"fp32": 16 * 2**-24, "tf32": 2**-11, "bf16": 2**-8}

    def distance(self, run):
        return self.summary(run)["compared_with"]["relative_distance"]

    def compare(self, ranks, *arguments, precision="fp32"):
        arguments = ("--overwrite", *self.SGD, *arguments)
        self.train("cpu", *arguments, ranks=ranks)
        self.train("gpu", "--compare-with", "cpu", *CUDA, "--set", f"precision={precision}", *arguments, ranks=ranks)
        distance = self.distance("gpu")
        self.assertLess(distance, self.ALLOWED[precision], f"{arguments} in {precision}")
        self.assertIn(precision, self.summary("gpu")["device"])
        return distance

    def test_every_precision_follows_the_cpu(self):
        distances = [self.compare(0, precision=precision) for precision in self.ALLOWED]
        self.assertLess(distances[0], distances[1])  # they are not all the same kernels
        self.assertLess(distances[1], distances[2])

    def test_mixtures_of_examples_follow_the_cpu(self):
        mixed = ("--set", "data.augmentation.mixup=0.4", "--set", "data.augmentation.cutmix=1")
        for precision in self.ALLOWED:
            self.compare(0, *mixed, "--set", "model.label_smoothing=0.1", precision=precision)
        self.compare(2, *mixed)
        result = self.train("copied", *CUDA, *self.SGD, *mixed)
        self.assertIn("copied to the GPU batch by batch", result.out)

    def test_a_set_that_the_device_keeps_and_one_that_is_copied_end_alike(self):
        side, examples = 200, 500
        with h5py.File(self.folder / "large.h5", "w") as file:
            file["train/features"] = np.random.default_rng(1).integers(0, 256, (examples, side, side), np.uint8)
            file["train/labels"] = np.arange(examples) % 3
        arguments = (*CUDA, *self.SGD, "--set", "data.path=large.h5", "--set", "data.normalization=channel")
        arguments += ("--set", "data.augmentation.shift=2", "--set", "data.augmentation.horizontal_flip=true")
        arguments += ("--set", 'model.layers=[{kind="flatten"},{kind="dense",units=3}]', "--set", "train.batch_size=64")
        kept = self.train("kept", *arguments)
        self.assertIn("the GPU keeps the training set: 19.1 MiB", kept.out)
        copied = self.train("copied", *arguments, environment={"UNISONO_SIMULATED_MEMORY": str(72 << 20)})
        self.assertIn("copied to the GPU batch by batch", copied.out)
        self.assert_same_bits("kept", "copied")
        memory = {"UNISONO_SIMULATED_MEMORY": str(96 << 20)}
        result = self.train("large", *arguments, "--set", "train.batch_size=500", code=6, environment=memory)
        self.assertRegex(result.err, r"out of GPU memory.*\(19\.1 MiB of that are examples.*streaming")

    def counts_of_training(self, examples, ranks, *arguments):
        """What the processes on the simulated device counted, added up."""
        with h5py.File(self.folder / "images.h5", "w") as file:
            file["train/features"] = np.random.default_rng(1).integers(0, 256, (examples, 8, 8), np.uint8)
            file["train/labels"] = np.arange(examples) % 3
        layers = '[{kind="convolution",channels=4,kernel=3},{kind="flatten"},{kind="dense",units=3}]'
        arguments = (*CUDA, *self.SGD, "--set", "data.path=images.h5", "--set", f"model.layers={layers}", *arguments)
        arguments += ("--set", "train.batch_size=8", "--set", "precision=bf16", "--overwrite")
        arguments += ("--set", "data.normalization=channel", "--set", "train.report_every_steps=1000")
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        self.train("steps", *arguments, ranks=ranks, environment={"UNISONO_SIMULATED_REPORT": str(report)})
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        return {key: sum(line[key] for line in lines) for key in lines[0]}

    def test_the_number_of_steps_changes_no_number_of_blocking_copies(self):
        for ranks, words in ((0, ()), (0, ("--set", "data.reader=streaming")), (2, strategy("allreduce"))):
            with self.subTest(ranks=ranks, words=words):
                few, many = (self.counts_of_training(examples, ranks, *words) for examples in (96, 288))
                self.assertGreater(many["graph_launches"], few["graph_launches"] + 20)
                self.assertGreater(few["blocking_copies"], 0)  # θ, and what a report says, at the end
                self.assertEqual(few["blocking_copies"], many["blocking_copies"])

    def test_every_strategy_follows_the_cpu(self):
        for ranks, words in (
            (2, strategy("allreduce")),
            (2, strategy("averaging", period=3)),
            (2, strategy("parameter_server", consistency="synchronous")),
            (3, strategy("parameter_server", consistency="synchronous", servers=1)),
            (1, strategy("elastic_averaging", period=2)),
        ):
            with self.subTest(ranks=ranks, words=words):
                self.compare(ranks, *words)

    def test_residual_networks_and_micro_batches_follow_the_cpu(self):
        self.write("config.toml", RESIDUAL)
        self.compare(0)
        self.compare(2, "--set", "train.accumulate=2")

    def test_micro_batches_that_are_copied_follow_the_cpu(self):
        # Of 75 KB each, and more than the source has memory for at a time.
        arguments = ("--set", "train.batch_size=120", "--set", "train.accumulate=5")
        self.compare(0, *arguments, "--set", "data.reader=streaming")

    def test_every_optimizer_follows_the_cpu(self):
        for kind in ("adam", "adamw", "adagrad", "rmsprop", "lars", "lamb"):
            words = ["--set", f"optimizer.kind={kind}", "--set", "optimizer.clip_norm=0.5"]
            # Where gradients are divided by their own size, rounding is not small beside what is left of a small one.
            if kind in ("adam", "adamw", "lamb", "rmsprop", "adagrad"):
                words += ["--set", "optimizer.epsilon=0.1"]
            with self.subTest(kind=kind):
                self.compare(0, *words)

    def test_a_run_changes_its_device_and_goes_on(self):
        self.train("whole", *self.SGD, "--set", "train.epochs=3")
        self.train("moved", *self.SGD, "--set", "train.epochs=1")
        on_device = self.train("moved", "--resume", *CUDA, *self.SGD, "--set", "train.epochs=2")
        self.assertIn("device (", on_device.out)  # it says that this is different
        back = self.train("moved", "--resume", *self.SGD, "--set", "train.epochs=3", "--compare-with", "whole")
        self.assertIn("up to rounding", back.out)
        self.assertLess(self.distance("moved"), self.ALLOWED["fp32"])

    def test_a_run_on_the_device_is_resumed_with_the_same_bits(self):
        self.train("whole", *CUDA, "--set", "train.epochs=2")
        self.train("stopped", *CUDA, "--set", "train.epochs=1")
        self.train("stopped", "--resume", *CUDA, "--set", "train.epochs=2")
        self.assert_same_bits("whole", "stopped")

    def test_trained_models_are_applied_on_either_device(self):
        self.train("run", *CUDA, *self.SGD, "--set", "precision=bf16")
        figures = []
        for device in ("cpu", "cuda"):
            result = self.unisono("evaluate", "run", "--device", device)
            self.assertEqual(result.code, 0, result)
            figures.append(float(next(line for line in result.out.splitlines() if " loss " in line).split()[-1]))
        self.assertTrue(math.isclose(figures[0], figures[1], rel_tol=2**-8), figures)
        self.assertNotEqual(figures[0], figures[1])
        self.assertEqual(self.unisono("predict", "run", "--device", "cuda", "--output", "out.csv").code, 0)


class WhatHappened(BinaryTest):
    """What `bench` and `info` tell of a GPU's work, and what the log says where it falls back."""

    WITH_BIAS = CONFIG.replace("stride = 2, bias = false }", "stride = 2 }")
    FALLBACK = r"cuDNN has no fp32 kernel for a convolution \(1×28×28 → 4, 5×5, stride 2×2, batch 24\) that"

    def setUp(self):
        super().setUp()
        self.write("config.toml", self.WITH_BIAS)

    def test_bench_counts_launches_and_names_engines(self):
        result = self.succeed("bench", "config.toml", "--json", "--steps", "4", *CUDA)
        self.assertEqual(result.out.count("\n"), 1)  # one object and nothing else
        gpu = json.loads(result.out)["gpu"]
        software = r"^CUDA 1\d\.\d+, driver for CUDA 1\d\.\d+, cuBLASLt [\d.]+, cuDNN 9\.[\d.]+$"
        self.assertRegex(gpu["software"], software)
        # One more in all, for the losses at the end.
        self.assertEqual(gpu["graph_launches_per_step"], 1.25)
        self.assertGreater(gpu["graph_operations_per_step"], 10)
        self.assertEqual(gpu["refused_captures"], 0)
        self.assertEqual(gpu["products_per_step"], 3)  # of one dense layer: y, dx, dw
        self.assertEqual(gpu["unfused_products_per_step"], 1)  # 10 units are too few for the bias' gradient
        passes = {engine["pass"]: engine for engine in gpu["convolutions"]}
        self.assertEqual(set(passes), {"forward", "weight gradient"})
        for engine in passes.values():
            self.assertEqual((engine["times_per_step"], engine["engine"]), (1, 0))
        self.assertRegex(gpu["fallbacks"][0], self.FALLBACK)
        self.assertIn("10 units with a batch of 24 that includes the gradient of the bias", gpu["fallbacks"][1])
        self.assertEqual(len(gpu["fallbacks"]), 2)
        self.assertNotIn("gpu", json.loads(self.succeed("bench", "config.toml", "--json", "--steps", "4").out))
        text = self.succeed("bench", "config.toml", "--steps", "4", *CUDA).out
        launches = r"\n  launches    1\.25 CUDA graphs a step with [\d.]+ operations, and 0 operations outside"
        self.assertRegex(text, launches)
        self.assertIn("\n  products    3 a step, of which 1 need another kernel", text)
        self.assertIn("\n  cuDNN       passes of convolutions a step: 2 by engine 0", text)
        self.assertRegex(text, r"\n  fallback    " + self.FALLBACK)

    def test_info_makes_steps_on_the_device(self):
        text = self.succeed("info", "config.toml", *CUDA).out
        self.assertRegex(text, r"\nGPU, in steps on random data: .*simulated device 0, fp32\n")
        engine = r"\n    1×28×28 → 4, .*, forward: engine \d+, .* of workspace, 1 times a step"
        self.assertRegex(text, engine)
        told = json.loads(self.succeed("info", "config.toml", "--json", *CUDA).out)
        self.assertIn("simulated device 0", told["gpu"]["device"])
        self.assertEqual(told["gpu"]["graph_launches_per_step"], 1.25)
        self.assertNotIn("gpu", json.loads(self.succeed("info", "config.toml", "--json").out))

    def test_info_says_why_it_does_not_look(self):
        nothing = {"UNISONO_SIMULATED_DEVICES": "0"}
        text = self.unisono("info", "config.toml", *CUDA, environment=nothing).out
        self.assertRegex(text, r"\nGPU: not looked at: rank 0 .*: this process sees no GPU")
        told = self.unisono("info", "config.toml", "--json", *CUDA, environment=nothing)
        self.assertIn("sees no GPU", json.loads(told.out)["gpu"]["obstacle"])
        words = ("--set", "replica.stages=2", "--set", "train.micro_batches=4")
        text = self.succeed("info", "config.toml", *CUDA, *words).out
        self.assertIn("the run has 2 ranks, of which 1 rank started", text)

    def test_a_run_says_once_where_it_falls_back(self):
        for ranks in (0, 2):
            result = self.train("run", "--overwrite", *CUDA, "--set", "train.epochs=1", ranks=ranks)
            pattern = self.FALLBACK.replace("batch 24", r"batch \d+")
            self.assertEqual(len(re.findall(pattern, result.out)), 1, result.out)


class InParts(BinaryTest):
    """Pipelines, and sums that do not depend on the number of ranks: the same bits as on one rank with the device."""

    MORE = ("--set", "train.weight_average=0.9", "--set", "optimizer.kind=adamw")

    def setUp(self):
        super().setUp()
        self.write("config.toml", RESIDUAL)

    def figures(self, run, norms=True):
        """What the metrics say of the model: losses, accuracies, norms."""
        apart = ("seconds", "examples_per_second", "memory", "ranks", "threads")
        apart += () if norms else ("gradient_norm", "parameter_norm")
        return [{key: value for key, value in line.items() if not key.startswith(apart)} for line in self.metrics(run)]

    def test_a_pipeline_leaves_what_one_rank_leaves(self):
        arguments = (*CUDA, *self.MORE, "--set", "train.micro_batches=4")
        self.train("one", *arguments)
        for stages, *more in ((2, "replica.schedule=interleaved", "replica.chunks=2"), (3, "replica.recompute=all")):
            words = [word for setting in (f"replica.stages={stages}", *more) for word in ("--set", setting)]
            with self.subTest(words):
                self.train("parts", "--overwrite", *arguments, *words, ranks=stages)
                self.assert_same_bits("one", "parts")
                self.assertEqual(self.figures("one", norms=False), self.figures("parts", norms=False))
                for own, other in zip(self.metrics("one"), self.metrics("parts")):
                    for norm in {"gradient_norm", "parameter_norm"} & own.keys():
                        self.assertTrue(math.isclose(own[norm], other[norm], rel_tol=1e-12))
        figures = [self.succeed("evaluate", run, "--device", "cuda").out for run in ("one", "parts")]
        self.assertEqual(*(text.replace("parts", "one") for text in figures))

    def test_a_pipeline_of_examples_that_are_copied(self):
        arguments = (*CUDA, "--set", "train.micro_batches=4", "--set", "data.reader=streaming")
        self.train("one", *arguments)
        self.train("parts", *arguments, "--set", "replica.stages=2", "--set", "replica.recompute=all", ranks=2)
        self.assert_same_bits("one", "parts")

    def test_a_run_is_resumed_in_other_parts(self):
        arguments = (*CUDA, *self.MORE, "--set", "train.micro_batches=4")
        self.train("whole", *arguments, "--set", "train.epochs=3")
        self.train("parts", *arguments, "--set", "train.epochs=1", "--set", "replica.stages=2", ranks=2)
        self.train("parts", "--resume", *arguments, "--set", "train.epochs=2", "--set", "replica.stages=3", ranks=3)
        self.train("parts", "--resume", *arguments, "--set", "train.epochs=3")
        self.assert_same_bits("whole", "parts")

    def test_reproducible_sums_have_the_same_bits_on_any_ranks(self):
        arguments = (*CUDA, *self.MORE, "--set", "train.micro_batches=8")
        arguments += ("--set", "communication.reduction=reproducible", "--set", "optimizer.clip_norm=0.5")
        self.train("one", *arguments)
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.train("some", "--overwrite", *arguments, ranks=ranks)
                self.assert_same_bits("one", "some")
                self.assertEqual(self.figures("one"), self.figures("some"))

    def test_automatic_placement_is_refused(self):
        for device in ("cuda", "auto"):
            words = ("--set", f"device={device}", "--set", "allow_shared_device=true", "--set", "replica.stages=auto")
            result = self.train("new", *words, "--set", "train.micro_batches=4", ranks=2, code=2)
            self.assertIn("placed automatically only on CPUs", result.err)

    def test_norms_of_what_stages_share_are_refused(self):
        for setting, word in (("optimizer.clip_norm=1", "clip_norm"), ("optimizer.kind=lamb", "lamb")):
            words = ("--set", "train.micro_batches=4", "--set", "replica.stages=2", "--set", setting)
            result = self.train("new", *CUDA, *words, ranks=2, code=2)
            self.assertIn("computed only on CPUs", result.err)
            self.assertIn(word, result.err)
            self.assertFalse((self.folder / "new").exists())


class WithoutADevice(BinaryTest):
    def check(self, code, *words, environment=None, ranks=0, arguments=()):
        result = self.unisono(
            "train", "config.toml", "--output", "run", *arguments, ranks=ranks, environment=environment
        )
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.err.count("error:"), 1, result)
        for word in words:
            self.assertIn(word, result.err)
        self.assertFalse((self.folder / "run" / "checkpoints").exists())

    def test_no_device_is_an_error_that_says_so(self):
        for ranks in (0, 2):
            self.check(
                6,
                "device error",
                "sees no GPU",
                'device = "cpu"',
                ranks=ranks,
                environment={"UNISONO_SIMULATED_DEVICES": "0"},
                arguments=CUDA,
            )

    def test_auto_takes_the_cpu_and_says_so(self):
        result = self.train(
            "run", "--set", "device=auto", "--set", "train.epochs=1", environment={"UNISONO_SIMULATED_DEVICES": "0"}
        )
        self.assertIn('device = "auto": the CPU', result.out)
        result = self.train("run", "--overwrite", "--set", "device=auto", "--set", "train.epochs=1")
        self.assertIn('device = "auto": simulated device', result.out)

    def test_ranks_share_a_device_only_where_they_may(self):
        self.check(6, "ranks 0 and 1 would share a GPU", "allow_shared_device", ranks=2, arguments=CUDA[:2])

    def test_models_and_strategies_without_a_way_there(self):
        self.check(2, "hogwild", arguments=(*CUDA, "--set", "strategy.kind=hogwild"))
        text = 'name = "t"\n[data]\npath = "digits.h5"\n[model]\nkind = "linear"\n'
        text += '[optimizer]\nkind = "sgd"\nlearning_rate = 0.1\n'
        self.write("config.toml", text)
        self.check(2, "linear", "can be trained only on CPUs", arguments=CUDA)

    def test_precision_is_of_devices(self):
        self.check(2, "precision", arguments=("--set", "precision=bf16"))

    def test_a_model_that_does_not_fit(self):
        self.check(
            6,
            "out of GPU memory",
            "were asked for",
            "are free",
            environment={"UNISONO_SIMULATED_MEMORY": str(48 << 20)},
            arguments=(*CUDA, "--set", 'model.layers=[{kind="dense",units=8000},{kind="dense",units=10}]'),
        )

    def test_nccl_where_a_device_is_shared(self):
        self.check(5, "share a GPU", ranks=2, arguments=(*CUDA, "--set", "communication.device_transport=nccl"))


if __name__ == "__main__":
    unittest.main()
