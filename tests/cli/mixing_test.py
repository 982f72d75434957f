"""mixup and cutmix through the binary: with any ranks, threads, micro-batches, stages and resumed, the same are mixed,
in memory and streamed.

Tolerance: sums of gradients over ranks, threads or micro-batches are rounded in another order; plain SGD at a small
rate keeps what follows from that below 1e-5 of the largest parameters.
"""

import json
import unittest

import h5py
import numpy

from harness import BinaryTest, settings

CONFIG = """
name = "mixed"
seed = 3
[data]
path = "set.h5"
normalization = "channel"
[data.augmentation]
shift = 2
horizontal_flip = true
mixup = 0.4
cutmix = 1
[model]
kind = "network"
loss = "softmax_cross_entropy"
label_smoothing = 0.1
layers = [
  { kind = "convolution", channels = 3, kernel = 7, stride = 5 },
  { kind = "relu" },
  { kind = "flatten" },
  { kind = "dense", units = 6 },
]
[optimizer]
kind = "sgd"
learning_rate = 0.02
[train]
steps = 20
batch_size = 24
threads = 1
class_weights = [1, 2, 1, 0.5, 1, 3]
"""

STREAMED = ("data.reader=streaming", "data.window_bytes=8388608")


class Mixing(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", CONFIG)
        random = numpy.random.default_rng(1)
        with h5py.File(self.folder / "set.h5", "w") as file:
            # 200 images of 40 KiB are eight blocks: of a window of 8 MiB, four lanes.
            file["train/features"] = random.standard_normal((200, 2, 64, 80)).astype("float32")
            file["train/labels"] = random.integers(0, 6, 200)
            file["test/features"] = random.standard_normal((12, 2, 64, 80)).astype("float32")
            file["test/labels"] = random.integers(0, 6, 12)

    def test_ranks_threads_and_micro_batches_change_nothing(self):
        for name, reader in (("resident", ()), ("streamed", STREAMED)):
            with self.subTest(name):
                self.train(name, *settings(*reader))
                for ranks, *keys in (
                    (2,),
                    (3,),
                    (0, "train.threads=2"),
                    (2, "train.micro_batches=4"),
                    (3, "train.accumulate=3"),
                ):
                    other = f"{name}{ranks}{len(keys)}{keys}"
                    self.train(other, *settings(*reader, *keys), ranks=ranks)
                    self.assert_close(name, other, 1e-5)

    def test_a_resumed_run_ends_with_the_same_bits(self):
        for ranks, reader in ((0, ()), (0, STREAMED), (3, STREAMED)):
            with self.subTest(ranks=ranks, reader=reader):
                whole, stopped = f"whole{ranks}{len(reader)}", f"stopped{ranks}{len(reader)}"
                self.train(whole, *settings(*reader), ranks=ranks)
                self.train(stopped, *settings(*reader, "train.steps=11"), ranks=ranks)  # within the second epoch
                self.train(stopped, "--resume", *settings(*reader, "train.steps=20"), ranks=ranks)
                self.assert_same_bits(whole, stopped)

    def test_what_is_mixed_may_not_change_in_a_resumed_run(self):
        self.train("run")
        result = self.train("run", "--resume", *settings("train.steps=30", "data.augmentation.mixup=1"), code=2)
        self.assertIn("data.augmentation.mixup", result.err)

    def test_pipelines_give_the_bits_of_the_serial_run(self):
        keys = ("train.micro_batches=4",)
        self.train("serial", *settings(*keys))
        self.train("stages", *settings(*keys, "replica.stages=2"), ranks=2)
        self.assertEqual(self.summary("serial")["train"], self.summary("stages")["train"])
        for name, values in self.vectors("serial").items():
            if name.startswith("parameters"):
                self.assertEqual(values.tobytes(), self.vectors("stages")[name].tobytes(), name)

    def test_other_strategies_train_on_mixtures(self):
        self.train("serial")
        self.train("race", *settings("strategy.kind=hogwild", "strategy.threads=1"))
        self.assert_close("serial", "race", 1e-5)
        synchronous = ("strategy.kind=parameter_server", "strategy.servers=1", "strategy.consistency=synchronous")
        self.train("server", *settings(*synchronous, "data.partition=global"), ranks=3)
        self.assert_close("serial", "server", 1e-5)
        self.train("own", *settings("data.partition=fixed"), ranks=2)

    def test_mixtures_change_training_and_nothing_else(self):
        off = ("data.augmentation.mixup=0", "data.augmentation.cutmix=0")
        self.train("mixed", *settings("optimizer.learning_rate=0"))
        self.train("plain", *settings("optimizer.learning_rate=0", *off))
        mixed, plain = self.summary("mixed"), self.summary("plain")
        self.assertEqual(mixed["test"], plain["test"])
        self.assertNotEqual(mixed["train"]["loss"], plain["train"]["loss"])

    def test_predicted_memory_has_room_for_unmixed_examples(self):
        def predicted(*keys):
            result = self.succeed("info", "config.toml", "--json", *settings(*keys))
            return json.loads(result.out)["memory"]["batches prepared"]

        off = "data.augmentation={shift=2}"
        image = 4 * 2 * 64 * 80
        self.assertEqual(predicted() - predicted(off), 24 * image)
        parts = "train.micro_batches=4"
        self.assertEqual(predicted(parts) - predicted(parts, off), 2 * 6 * image)

    def test_targets_and_tables(self):
        random = numpy.random.default_rng(2)
        with h5py.File(self.folder / "table.h5", "w") as file:
            file["train/features"] = random.standard_normal((90, 7)).astype("float32")
            file["train/targets"] = random.random((90, 2)).astype("float32")
            file["train/weights"] = random.random(90).astype("float32")
        layers = "model.layers=[{kind='dense',units=5},{kind='tanh'},{kind='dense',units=2}]"
        keys = ["data.path=table.h5", layers, "model.label_smoothing=0", "train.class_weights=none"]
        keys += ["data.augmentation={mixup=0.4}"]
        for loss in ("mean_squared_error", "sigmoid_cross_entropy"):
            self.train(loss, *settings(f"model.loss={loss}", *keys))
            self.train(loss + "2", *settings(f"model.loss={loss}", *keys), ranks=2)
            self.assert_close(loss, loss + "2", 1e-5)

    def test_what_cannot_be_mixed_is_refused(self):
        random = numpy.random.default_rng(3)
        with h5py.File(self.folder / "table.h5", "w") as file:
            file["train/features"] = random.standard_normal((90, 7)).astype("float32")
            file["train/labels"] = random.integers(0, 6, 90)
        with h5py.File(self.folder / "rows.h5", "w") as file:
            file["train/features/indptr"] = numpy.array([0, 1, 2], "u8")
            file["train/features/indices"] = numpy.array([0, 1], "u4")
            file["train/features"].attrs["columns"] = 2
            file["train/labels"] = [0, 1]
        lbfgs = CONFIG.replace('"sgd"\nlearning_rate = 0.02', '"lbfgs"').replace("steps = 20", "epochs = 1")
        self.write("lbfgs.toml", lbfgs.replace("batch_size = 24\n", "") + '[strategy]\nkind = "batch"\n')
        self.write("linear.toml", CONFIG[: CONFIG.index("[model]")] + '[model]\nkind = "linear"\nloss = "softmax"\n' +
                   CONFIG[CONFIG.index("[optimizer]") :])
        plain = "data.augmentation={mixup=1}"
        for message, config, *keys in (
            ("cutmix cuts rectangles out of images", "config.toml", "data.path=table.h5"),
            ('mixup and cutmix are for networks, but model.kind is "linear"', "linear.toml"),
            ("multiclass_hinge knows no examples of two labels", "config.toml", "model.loss=multiclass_hinge",
             "model.label_smoothing=0"),
            ("rows.h5 holds sparse rows", "config.toml", "data.path=rows.h5", "data.normalization=none", plain),
            ("whole-batch methods minimise one function", "lbfgs.toml", plain),
            ("data.augmentation.mixup", "config.toml", "data.augmentation.mixup=-1"),
        ):
            with self.subTest(message):
                for ranks in (0, 2):
                    result = self.train("refused", *settings(*keys), config=config, ranks=ranks, code=2)
                    self.assertEqual((result.out + result.err).count(message), 1, result)
                result = self.unisono("config", "check", config, *settings(*keys))
                self.assertEqual(result.code, 2, result)
                self.assertIn(message, result.err)


if __name__ == "__main__":
    unittest.main()
