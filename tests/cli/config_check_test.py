"""What `unisono config check`, --set and --unset say of a config before anything is trained."""

import unittest

import h5py
import numpy

from harness import BinaryTest, messages

REGRESSION = """
name = "regression"
[data]
path = "table.h5"
[model]
kind = "network"
loss = "mean_squared_error"
layers = [{ kind = "dense", units = 2 }]
[optimizer]
learning_rate = 0.1
"""

LINEAR = """
name = "linear"
[data]
path = "column.h5"
[model]
kind = "linear"
[optimizer]
learning_rate = 0.1
"""

MOMENTUM = """
name = "momentum"
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.01
momentum = 0.9
[strategy]
kind = "averaging"
period = 4
"""


class ConfigCheck(BinaryTest):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(1)
        with h5py.File(self.folder / "table.h5", "w") as file:
            file["train/features"] = random.random((40, 5), "f4")
            file["train/targets"] = random.random((40, 3), "f4")
        with h5py.File(self.folder / "column.h5", "w") as file:
            file["train/features"], file["train/targets"] = random.random((40, 5), "f4"), random.random(40, "f4")

    def refused(self, code, config, *sets):
        """The message of `config check`, which is that of `train`."""
        options = [word for one in sets for word in ("--set", one)]
        checked = self.unisono("config", "check", config, *options)
        trained = self.unisono("train", config, *options, "--output", "runs/refused")
        self.assertEqual((checked.code, trained.code), (code, code), f"{checked}\n{trained}")
        self.assertEqual(messages(checked), messages(trained))
        self.assertEqual(checked.out, "")
        (message,) = messages(checked)
        return message

    def test_a_config_that_fits_its_data_is_printed_and_said_to_fit(self):
        result = self.succeed("config", "check", "config.toml")
        self.assertIn('path = "digits.h5"', result.out)
        self.assertIn(
            "unisono: digits.h5 fits: 240 training, 0 validation and 101 test examples; the model has 5,878 parameters",
            result.err,
        )

    def test_data_that_are_not_there_are_not_looked_at(self):
        result = self.succeed("config", "check", "config.toml", "--set", "data.path=none.h5")
        self.assertIn("unisono: none.h5 does not exist: the config is valid, but was not checked against", result.err)

    def test_what_does_not_fit_the_data_is_refused_as_in_training(self):
        for message, config, *sets in [
            ("has 9 outputs but the data have 10 classes", "config.toml", "model.layers.5.units=9"),
            ("mean_squared_error needs targets", "config.toml", "model.loss=mean_squared_error"),
            ("needs sparse rows or a table", "linear.toml", "data.path=ratings.h5"),
            ("train.accumulate", "regression.toml", "data.path=ratings.h5", "train.accumulate=2"),
            ("train.micro_batches", "regression.toml", "data.path=ratings.h5", "train.micro_batches=2"),
            ('train.batch_size = "largest": use', "config.toml", "train.batch_size=largest", "train.accumulate=2"),
            ("updated in place, example by example", "linear.toml", "strategy.kind=serial", "train.accumulate=2"),
            ("a step is a diagonal of the grid", "factorization.toml", "train.batch_size=7"),
            ('"stratified" and data.order = "strata" need ratings', "config.toml", "strategy.kind=stratified"),
            ("the kernel spans 50×50 values but the input is", "config.toml", "model.layers.0.kernel=50"),
            ("the last layer gives 2 and a target has 3", "regression.toml"),
            ("[data.augmentation] moves images", "regression.toml", "data.augmentation.shift=1"),
            ("softmax_cross_entropy needs labels", "regression.toml", "model.loss=softmax_cross_entropy"),
            ("in place, which supports only sgd", "linear.toml", "strategy.kind=serial", "optimizer.kind=adam"),
            ('device = "cuda": model.kind = "linear" can be trained only on CPUs', "linear.toml", "device=cuda"),
            ("use names of parameters or layers", "config.toml", 'train.freeze=["nothing*"]'),
            ("1 weight is given, but the data have 10 classes", "config.toml", "train.class_weights=[1]"),
            ("table.h5 has no labels", "regression.toml", "model.layers.0.units=3", "train.class_weights=balanced"),
            ("no such metric on test; it has loss", "config.toml", "checkpoint.best={metric='f2', on='test'}"),
            ("digits.h5 has no validation examples", "config.toml", "train.early_stopping.patience=2"),
        ]:
            with self.subTest(message):
                self.write_all()
                self.assertIn(message, self.refused(2, config, *sets))

    def test_a_run_to_start_from_that_is_not_there_is_refused_as_in_training(self):
        (self.folder / "empty").mkdir()
        for message, run in (("there is no such run", "nowhere"), ("holds no complete checkpoint", "empty")):
            self.assertIn(message, self.refused(4, "config.toml", f"train.initialise_from={run}"))

    def test_data_that_cannot_be_trained_on_are_a_data_error(self):
        self.write("broken.h5", "no HDF5 at all, but long enough for a signature")
        self.assertIn("is not an HDF5 file", self.refused(3, "config.toml", "data.path=broken.h5"))
        with h5py.File(self.folder / "short.h5", "w") as file:
            file["train/features"], file["train/labels"] = numpy.zeros((5, 28, 28)), numpy.zeros(4)
        self.assertIn("holds 4 values but", self.refused(3, "config.toml", "data.path=short.h5"))

    def test_the_hint_for_labels_that_are_names_is_the_way_to_train_on_them(self):
        labels = numpy.array(["dog", "cat", "dog", "bird"] * 10)
        with h5py.File(self.folder / "names.h5", "w") as f:
            f["train/features"] = numpy.random.default_rng(1).random((40, 5), "f4")
            f["train/labels"] = labels.tolist()
        loss = "model.loss=softmax_cross_entropy"
        self.write("names.toml", REGRESSION.replace("table.h5", "names.h5"))
        message = self.refused(3, "names.toml", loss)
        self.assertIn("names.h5: /train/labels holds text", message)
        line = message.split("with h5py: ")[1]
        with h5py.File(self.folder / "names.h5", "r+") as f:
            del f["train/labels"]
            exec(line, {"numpy": numpy, "labels": labels, "f": f})  # pylint: disable=exec-used
        self.succeed("train", "names.toml", "--set", loss, "--set", "model.layers.0.units=3", "--output", "runs/names")
        with h5py.File(self.folder / "names.h5") as f:
            self.assertEqual(list(f.attrs["class_names"]), ["bird", "cat", "dog"])

    def write_all(self):
        self.write("regression.toml", REGRESSION)
        self.write("linear.toml", LINEAR)
        factorization = 'name = "f"\n[data]\npath = "ratings.h5"\n[model]\nkind = "factorization"\n'
        factorization += "[optimizer]\nlearning_rate = 0.1\n"
        self.write("factorization.toml", factorization + '[strategy]\nkind = "stratified"\n')
        users = numpy.arange(60, dtype="u4") % 7
        with h5py.File(self.folder / "ratings.h5", "w") as file:
            file["train/users"], file["train/items"] = users, numpy.arange(60, dtype="u4") % 11
            file["train/ratings"] = users.astype("f4")


class Changes(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("momentum.toml", MOMENTUM)

    def test_another_kind_drops_the_keys_of_the_files_kind_and_says_so(self):
        result = self.succeed(
            "config", "check", "momentum.toml", "--set", "optimizer.kind=adam", "--set", "strategy.kind=allreduce"
        )
        self.assertIn("unisono: --set optimizer.kind=adam: momentum of the file's sgd is dropped\n", result.err)
        self.assertIn("unisono: --set strategy.kind=allreduce: period of the file's averaging is dropped\n", result.err)
        self.assertNotIn("momentum =", result.out)

    def test_it_is_said_once_by_all_ranks_together(self):
        result = self.succeed("train", "momentum.toml", "--set", "optimizer.kind=adam", ranks=2)
        self.assertEqual((result.out + result.err).count("momentum of the file's sgd is dropped"), 1, result)

    def test_a_key_that_is_set_is_never_dropped(self):
        result = self.unisono(
            "config", "check", "momentum.toml", "--set", "optimizer.kind=adam", "--set", "optimizer.momentum=0.5"
        )
        self.assertEqual(result.code, 2)
        self.assertIn("--set optimizer.momentum=0.5: unknown key 'momentum' in [optimizer]; kind 'adam'", result.err)

    def test_unset_takes_a_key_out(self):
        result = self.succeed("config", "check", "momentum.toml", "--unset", "optimizer.momentum")
        self.assertIn("momentum = 0.0", result.out)
        result = self.unisono("config", "check", "momentum.toml", "--unset", "optimizer.beta1")
        self.assertEqual(result.code, 2)
        self.assertIn("--unset optimizer.beta1: the config file has no such key", result.err)

    def test_a_key_of_a_section_is_suggested(self):
        result = self.unisono("config", "check", "momentum.toml", "--set", "learning_rate=0.1")
        self.assertEqual(result.code, 2)
        self.assertIn("did you mean 'optimizer.learning_rate'?", result.err)

    def test_a_mistake_in_the_file_is_shown(self):
        self.write("wrong.toml", 'name = "x"\n[data]\npath = digits.h5\n')
        result = self.unisono("train", "wrong.toml", ranks=2)
        self.assertEqual(result.code, 2)
        self.assertIn(
            "unisono: config error: wrong.toml:3:8: 'digits.h5' is not a value; a string needs quotes: \"digits.h5\"\n"
            "  3 | path = digits.h5\n"
            "    |        ^\n",
            result.err,
        )


if __name__ == "__main__":
    unittest.main()
