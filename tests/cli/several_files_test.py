"""Sets of several HDF5 files, which data.path names by a pattern."""

import io
import json
import unittest

import h5py
import numpy
from harness import BinaryTest, without_sanitizer
from PIL import Image

CONFIG = """
name = "several"
[data]
path = "part-*.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 4 }]
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 2
batch_size = 16
threads = 1
"""
FEATURES, CLASSES = 5, 4
MEBI = 1 << 20


def write_examples(file, group, numbers):
    random = numpy.random.default_rng(3)
    all_features = random.integers(0, 256, (1000, FEATURES), "uint8")
    file[f"{group}/features"] = all_features[numbers]
    file[f"{group}/features"].attrs["scale"] = 1 / 255
    file[f"{group}/labels"] = all_features[numbers, 0] // 64
    file.attrs["classes"] = CLASSES


class SeveralFiles(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", CONFIG)
        with h5py.File(self.folder / "whole.h5", "w") as file:
            write_examples(file, "train", slice(0, 300))
            write_examples(file, "test", slice(800, 860))
        for i, (first, last) in enumerate([(0, 70), (70, 71), (71, 300)]):
            with h5py.File(self.folder / f"part-{i}.h5", "w") as file:
                write_examples(file, "train", slice(first, last))
        with h5py.File(self.folder / "part-9-test.h5", "w") as file:
            write_examples(file, "test", slice(800, 860))

    def test_a_pattern_trains_as_one_file_on_any_ranks_and_resumed(self):
        for reader in ("resident", "streaming"):
            for ranks in (1, 2, 3):
                same = ("--set", f"data.reader={reader}")
                self.train(f"{reader}-{ranks}", *same, ranks=ranks)
                self.train(f"whole-{reader}-{ranks}", *same, "--set", "data.path=whole.h5", ranks=ranks)
                self.assert_same_run(f"{reader}-{ranks}", f"whole-{reader}-{ranks}")

    def test_what_one_file_began_several_go_on_with(self):
        self.train("several")
        self.train("run", "--set", "data.path=whole.h5", "--set", "train.epochs=1")
        self.succeed("train", "--resume", "run", "--change", 'data.path="part-*.h5"', "--change", "train.epochs=2")
        self.assert_same_bits("run", "several")

    def test_models_are_applied_to_patterns(self):
        self.succeed("train", "config.toml", "--output", "run")
        evaluate = ("evaluate", "run", "--split", "test", "--json")
        told, other = (json.loads(self.succeed(*evaluate, "--data", path).out) for path in ("part-*.h5", "whole.h5"))
        self.assertEqual(told["loss"], other["loss"])
        self.succeed("predict", "run", "--data", "part-[0-2].h5", "--split", "train", "--output", "p.csv")
        self.succeed("predict", "run", "--data", "whole.h5", "--split", "train", "--output", "w.csv")
        self.assertEqual((self.folder / "p.csv").read_bytes(), (self.folder / "w.csv").read_bytes())
        # A run that moved with its files finds them.
        moved = self.folder / "moved"
        moved.mkdir()
        for path in [*self.folder.glob("part-*.h5"), self.folder / "run"]:
            path.rename(moved / path.name)
        self.succeed("evaluate", "moved/run", "--split", "test")

    def test_searches_and_folds_do_not_go_on_with_other_data(self):
        space = ("--set", "search.method=grid", "--set", "search.space={'optimizer.learning_rate'=[0.1, 0.2]}")
        held_out = ("--set", "data.validation_fraction=0.2")
        commands = [("search", *space, *held_out), ("cross-validate", "--set", "cross_validation.folds=2")]
        for command, *options in commands:
            self.succeed(command, "config.toml", *options, "--output", command)
            self.succeed(command, "config.toml", *options, "--output", command, "--resume")
        (self.folder / "part-1.h5").unlink()
        for command, *options in commands:
            result = self.unisono(command, "config.toml", *options, "--output", command, "--resume")
            self.assertEqual(result.code, 3, result)
            self.assertIn(f"{command}: was begun on different data from part-*.h5", result.err)

    def test_a_pattern_is_staged(self):
        large = numpy.random.default_rng(5).integers(0, 256, (300_000, FEATURES), "uint8")
        for i in range(3):  # 1.5 MB each: several pages
            with h5py.File(self.folder / f"part-{i}.h5", "a") as file:
                del file["train"]
                file["train/features"] = large[i :: 3]
                file["train/features"].attrs["scale"] = 1 / 255
                file["train/labels"] = large[i :: 3, 0] // 64
        (self.folder / "disk").mkdir()
        options = ("--set", "train.batch_size=1000", "--set", "data.reader=streaming")
        staged = (*options, "--set", f"data.stage={self.folder}/disk")
        size = sum(path.stat().st_size for path in self.folder.glob("part-*.h5"))
        for ranks in (1, 2):
            self.train(f"plain-{ranks}", *options, ranks=ranks)
            for job, from_files in (("first", size if ranks == 1 else 0), ("second", 0)):
                self.train(f"{job}-{ranks}", *staged, ranks=ranks)
                self.assert_same_bits(f"plain-{ranks}", f"{job}-{ranks}")
                self.assertEqual(self.summary(f"{job}-{ranks}")["staging"]["file_bytes"], from_files)
        with h5py.File(self.folder / "part-1.h5", "a") as file:
            file["train/labels"][...] = 3
        self.train("plain", *options)
        self.train("changed", *staged)
        self.assert_same_bits("plain", "changed")
        self.assertGreater(self.summary("changed")["staging"]["file_bytes"], 0)
        self.assertEqual(len([entry for entry in self.folder.glob("disk/*/*") if entry.is_dir()]), 1)

    def test_what_is_told_of_a_pattern(self):
        text = self.succeed("data", "describe", "part-*.h5").out
        self.assertIn("part-*.h5: 4 files, ", text)
        self.assertIn("300 examples", text)
        checked = self.succeed("config", "check", "config.toml")
        self.assertIn("part-*.h5 fits: 300 training, 0 validation and 60 test examples", checked.out + checked.err)
        self.assertIn("300", self.succeed("data", "describe", "part-*.h5", "--advise").out)

    def test_what_is_no_set(self):
        def refused(message, *options):
            for ranks in (1, 2):
                done = self.train("no", *options, ranks=ranks, code=3)
                self.assertEqual(done.err.count(message), 1, done.err)

        refused("none-*.h5: no file has a name like this; check the path", "--set", 'data.path="none-*.h5"')
        with h5py.File(self.folder / "part-3.h5", "w") as file:
            write_examples(file, "train", slice(0, 9))
            file.attrs["classes"] = CLASSES + 1
        refused("part-3.h5: has other classes, unlike part-0.h5; give all files of a set the same attributes")
        (self.folder / "part-3.h5").write_bytes((self.folder / "part-0.h5").read_bytes()[:-100])
        refused("part-3.h5")
        (self.folder / "part-3.h5").write_text("no HDF5")
        refused("part-3.h5: this is not an HDF5 file")


class SixteenMillion(BinaryTest):
    """The same file under many names is a set of any size that takes no disk."""

    def setUp(self):
        super().setUp()
        self.write("config.toml", CONFIG)

    def link(self, name, count):
        for i in range(count):
            (self.folder / f"part-{i:02}.h5").symlink_to(name)

    def check(self, name, *options):
        streamed = ("--set", "data.reader=streaming", "--set", "data.window_bytes=4194304", *options)
        memory = {}
        for path in (name, "part-*.h5"):
            self.train("run", *streamed, "--overwrite", "--set", f'data.path="{path}"')
            memory[path] = self.summary("run")["peak_memory_bytes"] / MEBI
        # Files are open, and an epoch's blocks, of about 1 MiB each, are known: far from a byte for each example.
        self.assertLess(memory["part-*.h5"] - memory[name], 6, memory)

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_memory_does_not_grow_with_a_table(self):
        features = numpy.random.default_rng(1).integers(0, 256, (10**6, 4), "uint8")
        with h5py.File(self.folder / "million.h5", "w") as file:
            file["train/features"], file["train/labels"] = features, features[:, 0] // 64
            file.attrs["classes"] = CLASSES
        self.link("million.h5", 16)
        self.check("million.h5", "--set", "train.epochs=1", "--set", "train.batch_size=4096",
                   "--set", "data.validation_fraction=0.1")

    @without_sanitizer("a sanitizer needs memory of its own")
    def test_memory_does_not_grow_with_pictures(self):
        png = io.BytesIO()
        Image.fromarray(numpy.arange(0, 256, 16, "uint8").reshape(4, 4)).save(png, "PNG")
        one, count = numpy.frombuffer(png.getvalue(), "uint8"), 250_000
        form = {"height": 4, "width": 4, "fit": "crop", "colours": "grey"}
        recipe = json.dumps({"format": "unisono recipe", "version": 1, "images": form})
        with h5py.File(self.folder / "pictures.h5", "w") as file:
            file["train/pictures"] = numpy.tile(one, count)
            file["train/ends"] = (numpy.arange(count, dtype="uint64") + 1) * len(one)
            file["train/labels"] = numpy.arange(count, dtype="uint32") % CLASSES
            file.attrs["classes"] = CLASSES
            file["recipe"] = numpy.frombuffer(recipe.encode(), "uint8")
        self.link("pictures.h5", 64)
        config = (self.folder / "config.toml").read_text()
        self.write("config.toml", config.replace("epochs = 2", "steps = 20"))
        self.check("pictures.h5", "--set", "train.batch_size=1024")


if __name__ == "__main__":
    unittest.main()
