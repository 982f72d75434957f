"""`compare` and `runs`: tables of runs; `export` of all parameters, by layer."""

import csv
import io
import json
import shutil
import statistics
import unittest

import h5py
import numpy

from harness import BinaryTest, messages


class Tables(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls("run_once")
        test.setUp()
        cls.trained, cls.run_folder = test, test.folder / "runs"
        for name, *words in (("s3",), ("s4", "seed=4"), ("fast", "optimizer.learning_rate=0.02", "train.epochs=1")):
            test.train(f"runs/{name}", *(word for given in words for word in ("--set", given)))
        cls.seeds = [test.summary(f"runs/{name}") for name in ("s3", "s4")]

    @classmethod
    def tearDownClass(cls):
        cls.trained.tearDown()
        super().tearDownClass()

    def run_once(self):
        """What setUpClass makes a test of, for its folder."""

    def setUp(self):
        super().setUp()
        if hasattr(type(self), "run_folder"):
            shutil.copytree(self.run_folder, self.folder / "runs")

    def test_a_comparison_shows_what_differs_and_means_over_seeds(self):
        ours = json.loads(self.succeed("compare", "runs/s3", "runs/s4/", "runs/fast", "--json").out)
        self.assertEqual(ours["differing"], ["optimizer.learning_rate", "train.epochs"])
        self.assertEqual([run["run"] for run in ours["runs"]], ["runs/s3", "runs/s4", "runs/fast"])
        self.assertEqual([run["config"]["optimizer.learning_rate"] for run in ours["runs"]], ["0.01", "0.01", "0.02"])
        self.assertEqual([run["seed"] for run in ours["runs"]], ["3", "4", "3"])
        for run, summary in zip(ours["runs"], self.seeds):
            self.assertEqual(run["metrics"]["test"], summary["test"])
            self.assertEqual(run["metrics"]["train"], summary["train"])
            self.assertEqual((run["status"], run["epochs"], run["steps"]), ("complete", 2, 20))
            self.assertEqual(run["examples_per_second"], summary["examples_per_second"])
        (group,) = ours["groups"]
        self.assertEqual((group["runs"], group["seeds"]), (["runs/s3", "runs/s4"], ["3", "4"]))
        losses = [summary["test"]["loss"] for summary in self.seeds]
        self.assertAlmostEqual(group["metrics"]["test"]["loss"]["mean"], statistics.mean(losses), places=12)
        self.assertAlmostEqual(group["metrics"]["test"]["loss"]["deviation"], statistics.stdev(losses), places=12)

        lines = self.succeed("compare", "runs/s3", "runs/s4", "runs/fast").out.splitlines()
        self.assertEqual(lines[0].split()[0], "run")
        for word in ("status", "seed", "optimizer.learning_rate", "train.epochs", "test loss", "test accuracy"):
            self.assertIn(word, lines[0])
        self.assertRegex(lines[4], rf"^mean ± deviation of 2 .* {statistics.mean(losses):.4g} ± ")
        self.assertEqual(len(lines), 5)

    def test_a_table_can_be_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.succeed("compare", "runs/s3", "runs/fast", "--csv").out)))
        self.assertEqual([row["run"] for row in rows], ["runs/s3", "runs/fast"])
        self.assertEqual([row["train.epochs"] for row in rows], ["2", "1"])
        self.assertEqual(float(rows[0]["test loss"]), self.seeds[0]["test"]["loss"])

    def test_all_runs_of_a_folder_are_listed_and_others_are_named(self):
        (self.folder / "runs/notes").mkdir()
        (self.folder / "runs/grid").mkdir()
        (self.folder / "runs/s4").rename(self.folder / "runs/grid/s4")
        shutil.copytree(self.folder / "runs/s3", self.folder / "runs/broken")
        (self.folder / "runs/broken/summary.json").write_text('{"status": "comp')
        result = self.succeed("runs")
        names = [line.split()[0] for line in result.out.splitlines()[:4]]
        self.assertEqual(names, ["run", "runs/fast", "runs/grid/s4", "runs/s3"])
        self.assertIn("warning: runs/notes: holds no runs; it is left out", result.err)
        self.assertIn("warning: runs/broken: its summary.json is damaged; it is left out", result.err)
        ours = json.loads(self.succeed("runs", "runs", "--json").out)
        self.assertEqual([one["folder"] for one in ours["skipped"]], ["runs/notes", "runs/broken"])
        self.assertEqual(len(ours["groups"]), 1)
        one = self.succeed("runs", "runs/s3").out.splitlines()  # a run itself
        self.assertEqual(len(one), 2)

    def test_a_comparison_with_what_is_no_run_is_an_error(self):
        (self.folder / "notes").mkdir()
        for words in (("runs/s3", "notes"), ("runs/s3", "none")):
            result = self.unisono("compare", *words)
            self.assertEqual(result.code, 4, result)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn(f"{words[1]}: ", result.err)
        self.assertEqual(self.unisono("runs", "none").code, 4)
        self.assertEqual(self.unisono("compare").code, 2)

    def test_a_run_that_is_going_on_and_one_that_was_killed_are_told_apart(self):
        words = ("train", "config.toml", "--output", "runs/long", "--set", "train.epochs=100000")
        with self.started(*words) as process:
            self.wait_for_step("runs/long", 20, process)
            (run,) = json.loads(self.succeed("compare", "runs/long", "--json").out)["runs"]
            self.assertEqual(run["status"], "running")
            self.assertGreaterEqual(run["steps"], 20)
            self.assertIn("loss", run["metrics"]["train"])
            process.kill()
            process.wait()
            (run,) = json.loads(self.succeed("compare", "runs/long", "--json").out)["runs"]
            self.assertEqual(run["status"], "unfinished")


class Parameters(BinaryTest):
    def test_a_networks_parameters_are_exported_by_layer(self):
        self.train("run", "--set", "data.normalization=channel")
        self.succeed("export", "run", "--format", "npz", "--output", "w.npz")
        self.succeed("export", "run", "--format", "hdf5", "--output", "w.h5")
        arrays = numpy.load(self.folder / "w.npz")
        with h5py.File(self.checkpoints("run")[-1]) as checkpoint, h5py.File(self.folder / "w.h5") as file:
            self.assertEqual(file.attrs["step"], 20)
            names = {}
            for group in ("parameters", "statistics"):
                self.assertEqual(sorted(file[group]), sorted(checkpoint[group]))
                names.update({name: checkpoint[group][name][()] for name in checkpoint[group]})
                for name in checkpoint[group]:
                    numpy.testing.assert_array_equal(file[group][name], checkpoint[group][name])
            self.assertEqual(names["convolution1.weight"].shape, (4, 1, 5, 5))
            self.assertEqual(set(arrays), {*names, "normalization.mean", "normalization.scale"})
            for name, values in names.items():
                numpy.testing.assert_array_equal(arrays[name], values)
            header = json.loads(bytes(checkpoint["header"][()]))
            mean = numpy.float32(header["normalization"]["mean"])
            numpy.testing.assert_array_equal(arrays["normalization.mean"], mean)
            self.assertIn("normalization/normalization.scale", file)
        for output in ("w.npz", "w.h5"):
            kind = "npz" if output == "w.npz" else "hdf5"
            result = self.unisono("export", "run", "--format", kind, "--output", output)
            self.assertEqual(result.code, 1, result)
            self.assertIn("add --overwrite", result.err)
            self.succeed("export", "run", "--format", kind, "--output", output, "--overwrite")
        result = self.unisono("export", "run", "--format", "npz", "--table", "words", "--output", "x.npz")
        self.assertEqual(result.code, 2, result)
        self.assertFalse(list(self.folder.glob("*.tmp")))


if __name__ == "__main__":
    unittest.main()
