"""Models that are updated in place, through the binary: linear models, factorization, word2vec and GloVe."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import h5py
import numpy

from harness import BINARY, INTERRUPTED, PARTS, BinaryTest, messages

HEAD = """
name = "test"
seed = 3
[data]
path = "{path}"
[train]
epochs = {epochs}
batch_size = 150
report_every_steps = 1
[optimizer]
kind = "{rule}"
learning_rate = {rate}
[model]
kind = "{kind}"
{model}
"""


class Kind:
    """A model with a set of its own. `figures`: those of an evaluation"""

    def __init__(self, path, kind, rule, rate, model="", figures=("loss",), split="test"):
        self.path, self.kind, self.rule, self.rate, self.model = path, kind, rule, rate, model
        self.figures, self.split = figures, split

    def config(self, epochs=4):
        values = {"rule": self.rule, "rate": self.rate, "kind": self.kind, "model": self.model}
        return HEAD.format(path=self.path, epochs=epochs, **values)


KINDS = {
    "linear": Kind("rows.h5", "linear", "sgd", 0.1, "l2 = 1e-4", ("loss", "accuracy", "auc")),
    "averaged": Kind("rows.h5", "linear", "sgd", 0.1, "averaged = true", ("loss", "accuracy", "auc")),
    "factorization": Kind("ratings.h5", "factorization", "adagrad", 0.1, "dimension = 4", ("loss", "rmse", "mae")),
    "skip_gram": Kind("text.h5", "word2vec", "sgd", 0.1, "dimension = 8\nsubsample = 0"),
    "cbow": Kind(
        "text.h5",
        "word2vec",
        "sgd",
        0.1,
        'architecture = "cbow"\noutput = "hierarchical_softmax"\ndimension = 8\nsubsample = 0',
    ),
    "glove": Kind("pairs.h5", "glove", "adagrad", 0.1, "dimension = 8", split="train"),
}

EVALUATE = ("evaluate", "--json", "--split")
RARELY = ("--set", "checkpoint.every_epochs=0", "--set", "train.evaluate_every_epochs=0")
MODELLED = {"linear.weight", "linear.bias", "words.input", "words.output"}  # parameters of two kinds
AT_A_TIME = 4  # runs: they mostly wait for MPI to start and to end
SERIAL = ("--set", "strategy.kind=serial")


def hogwild(threads, *more):
    return "--set", "strategy.kind=hogwild", "--set", f"strategy.threads={threads}", *more


AVERAGING = ("--set", "strategy.kind=averaging", "--set", "strategy.period=2")


def write_rows(file, group, rows, random, weights):
    """Rows of six of 40 columns; the sign of what they weigh is the label, in 19 of 20 cases."""
    columns = numpy.array([numpy.sort(random.choice(40, 6, replace=False)) for _ in range(rows)])
    values = random.normal(size=columns.shape).astype("f4")
    labels = (values * weights[columns]).sum(1) > 0
    file[f"{group}/features/indptr"] = numpy.arange(0, 6 * rows + 1, 6, dtype="u8")
    file[f"{group}/features/indices"] = columns.reshape(-1).astype("u4")
    file[f"{group}/features/data"] = values.reshape(-1)
    file[f"{group}/features"].attrs["columns"] = 40
    file[f"{group}/labels"] = (labels ^ (random.random(rows) < 0.05)).astype("i4")


def write_ratings(file, group, n, random, factors):
    users, items = random.integers(0, 60, n), random.integers(0, 40, n)
    file[f"{group}/users"], file[f"{group}/items"] = users.astype("u4"), items.astype("u4")
    file[f"{group}/ratings"] = (3 + (factors[0][users] * factors[1][items]).sum(1)).astype("f4")


def write_text(file, group, sentences, random):
    """Words of the same ten stand together."""
    topics = random.integers(0, 3, sentences)
    words = [10 * topic + numpy.minimum(random.geometric(0.3, 8) - 1, 9) for topic in topics]
    file[f"{group}/words"] = numpy.concatenate(words).astype("i4")
    file[f"{group}/sentences"] = numpy.arange(0, 8 * sentences + 1, 8, dtype="u8")
    return words


def write_sets(folder):
    random = numpy.random.default_rng(1)
    with h5py.File(folder / "rows.h5", "w") as file:
        weights = random.normal(size=40)
        write_rows(file, "train", 900, random, weights)
        write_rows(file, "test", 200, random, weights)
        file.attrs["class_names"] = ["no", "yes"]
    with h5py.File(folder / "ratings.h5", "w") as file:
        factors = random.normal(size=(60, 3)), random.normal(size=(40, 3))
        write_ratings(file, "train", 3000, random, factors)
        write_ratings(file, "test", 300, random, factors)
        for name, n in (("users", 60), ("items", 40)):
            file[f"dictionary/{name}"] = [f"{name}{i}" for i in range(n)]
    with h5py.File(folder / "text.h5", "w") as file:
        words = write_text(file, "train", 200, random)
        write_text(file, "test", 40, random)
        file["dictionary/words"] = [f"word{i}" for i in range(30)]
        file["dictionary/counts"] = numpy.bincount(numpy.concatenate(words), minlength=30).astype("i8")
    with h5py.File(folder / "pairs.h5", "w") as file:
        pairs = random.permutation(900)
        file["train/rows"], file["train/columns"] = (pairs // 30).astype("u4"), (pairs % 30).astype("u4")
        file["train/counts"] = random.uniform(0.5, 60, 900).astype("f4")
        file["dictionary/words"] = [f"word{i}" for i in range(30)]


class InPlaceSets(BinaryTest):
    """Tests whose folder has a set and a config of each kind."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_sets(pathlib.Path(cls.shared.name))

    def setUp(self):
        super().setUp()
        for kind in KINDS.values():
            link = self.folder / kind.path
            if not link.exists():
                os.symlink(pathlib.Path(self.shared.name) / kind.path, link)
        for name, kind in KINDS.items():
            self.write(f"{name}.toml", kind.config())


class InPlace(InPlaceSets):
    def run_kind(self, name, run, *arguments, ranks=0):
        return self.train(run, *arguments, ranks=ranks, config=f"{name}.toml")

    def run_all(self, jobs):
        """Some runs at the same time: (name of the kind, run, options, ranks)"""
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = [pool.submit(self.run_kind, name, run, *options, ranks=ranks) for name, run, options, ranks in jobs]
            for run in runs:
                run.result()

    # What every way of training leaves behind -----------------------------------------------------------------------

    def test_one_thread_leaves_the_bits_of_the_serial_run(self):
        strategies = (("serial", SERIAL), ("one", hogwild(1)), ("alone", AVERAGING))
        self.run_all((name, f"{run}-{name}", options, 0) for name in KINDS for run, options in strategies)
        for name in KINDS:
            with self.subTest(model=name):
                self.assert_same_bits(f"serial-{name}", f"one-{name}")
                self.assert_same_bits(f"serial-{name}", f"alone-{name}")
                first, second = self.summary(f"serial-{name}"), self.summary(f"one-{name}")
                for part in ("train", KINDS[name].split):
                    self.assertEqual(first.get(part, {}).get("loss"), second.get(part, {}).get("loss"))
                self.check(name, f"serial-{name}", ranks=1, threads=1)

    def test_two_threads_learn_what_one_learns(self):
        for locking in ("none", "striped", "global"):
            options = hogwild(2, "--set", f"strategy.locking={locking}")
            names = [name for name in KINDS if name != "averaged" or locking != "none"]  # a mean of all updates
            self.run_all((name, f"{locking}-{name}", options, 0) for name in names)
            for name in names:
                with self.subTest(model=name, locking=locking):
                    self.check(name, f"{locking}-{name}", ranks=1, threads=2)

    def test_two_ranks_learn_what_one_learns(self):
        for kind, options in (("averaging", AVERAGING), ("hogwild", hogwild(1, "--set", "strategy.period=2"))):
            self.run_all((name, f"{kind}-{name}", options, 2) for name in KINDS)
            for name in KINDS:
                with self.subTest(model=name, strategy=kind):
                    self.check(name, f"{kind}-{name}", ranks=2, threads=1)

    def test_the_summary_tells_how_far_from_the_serial_run_it_ends(self):
        self.run_all((name, f"serial-{name}", SERIAL, 0) for name in ("averaged", "skip_gram"))
        two = hogwild(2, "--set", "strategy.locking=striped")
        ways = (("one", 0, hogwild(1)), ("two", 0, two), ("ranks", 2, AVERAGING))
        for name in ("averaged", "skip_gram"):
            for run, ranks, strategy in ways:
                with self.subTest(model=name, run=run):
                    other = f"serial-{name}"
                    told = self.run_kind(name, f"{run}-{name}", *strategy, "--compare-with", other, ranks=ranks).out
                    self.check_comparison(f"{run}-{name}", other)
                    where = rf"those of {other}/checkpoints/step-\d+\.h5"
                    self.assertRegex(told, rf"compared +parameters (equal|differ by .* from) {where}")
                    if run != "two":  # whose threads may come one after the other
                        self.assertEqual("bit for bit" in told, run == "one")

    def check_comparison(self, run, other):
        compared, summary = self.summary(run)["compared_with"], self.summary(other)
        a, b = (
            numpy.concatenate([values.reshape(-1) for name, values in self.parameters(one).items() if name in MODELLED])
            for one in (run, other)
        )
        difference = a.astype("f8") - b
        self.assertEqual(compared["different_parameters"], (a.view("u4") != b.view("u4")).sum())
        relative = numpy.linalg.norm(difference) / numpy.linalg.norm(b.astype("f8"))
        self.assertAlmostEqual(compared["relative_distance"], relative, places=12)
        self.assertEqual(compared["largest_difference"], numpy.abs(difference).max())
        self.assertEqual((compared["step"], compared["test"]), (summary["steps"], summary["test"]))

    def test_a_run_whose_other_one_is_gone_ends_without_the_comparison(self):
        self.run_kind("linear", "other", *SERIAL)
        arguments = ("--compare-with", "other", "--set", "train.epochs=300", "--set", "checkpoint.every_epochs=0")
        with self.started("train", "linear.toml", "--output", "run", *SERIAL, *arguments) as process:
            self.wait_for_step("run", 1, process)
            shutil.rmtree(self.folder / "other")
            output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 0, output)
        self.assertIn("not compared with other/checkpoints/step-", output)
        self.assertEqual(self.summary("run")["status"], "complete")
        self.assertNotIn("compared_with", self.summary("run"))

    def check(self, name, run, ranks, threads):
        kind, summary, lines = KINDS[name], self.summary(run), self.metrics(run)
        self.assertEqual((summary["status"], summary["ranks"], summary["threads"]), ("complete", ranks, threads))
        self.assertEqual(summary["epochs"], 4)
        self.assertEqual(summary["batch_size"], 150)
        self.assertGreater(summary["examples_per_second"], 0)
        seconds = summary["seconds"]
        self.assertEqual(set(seconds), PARTS | {"total"})
        self.assertAlmostEqual(sum(seconds[part] for part in PARTS), seconds["total"], places=9)

        reports = [line for line in lines if line["event"] == "train"]
        self.assertEqual(reports[-1]["step"], summary["steps"])
        self.assertEqual([line["step"] for line in reports], sorted({line["step"] for line in reports}))
        for line in reports:
            self.assertTrue(numpy.isfinite(line["loss"]), line)
            self.assertAlmostEqual(line["learning_rate"], kind.rate)
        losses = [line["loss"] for line in reports]
        third = max(1, len(losses) // 4)
        self.assertLess(numpy.mean(losses[-third:]), numpy.mean(losses[:third]), "nothing was learnt")

        evaluations = [line for line in lines if line["event"] == "evaluation"]
        self.assertEqual(len(evaluations), 4 if kind.split == "test" else 0)
        for line in evaluations:
            self.assertEqual(line["split"], "test")
            for figure in kind.figures:
                self.assertTrue(numpy.isfinite(line[figure]), line)
        if "auc" in kind.figures:
            self.assertGreater(evaluations[-1]["auc"], 0.85)
            self.assertGreater(evaluations[-1]["accuracy"], 0.8)

    # Stopped and resumed --------------------------------------------------------------------------------------------

    def test_stopped_anywhere_and_resumed_it_ends_with_the_same_bits(self):
        cases = [(name, hogwild(1)) for name in KINDS] + [("linear", SERIAL), ("skip_gram", SERIAL)]
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = [pool.submit(self.stop_and_resume, f"{i}", *case) for i, case in enumerate(cases)]
            for (name, strategy), run in zip(cases, runs):
                with self.subTest(model=name, strategy=strategy[1]):
                    stopped, whole = run.result()
                    self.assert_same_bits(whole, stopped)
                    self.assertEqual(self.summary(whole).get("test"), self.summary(stopped).get("test"))

    def stop_and_resume(self, number, name, strategy):
        stopped, whole = f"stopped{number}", f"whole{number}"
        steps = self.interrupt(name, stopped, *strategy, *RARELY)
        epochs = steps // -(-self.examples(name) // 150) + 2
        longer = ("--set", f"train.epochs={epochs}", *strategy, *RARELY)
        self.run_kind(name, whole, *longer)
        result = self.run_kind(name, stopped, "--resume", *longer)
        self.assertIn("resumed at step", result.out)
        self.assertNotIn("not bit for bit", result.out)
        return stopped, whole

    def examples(self, name):
        with h5py.File(self.folder / KINDS[name].path, "r") as file:
            train = file["train"]
            for dataset in ("labels", "ratings", "words", "counts"):
                if dataset in train:
                    return len(train[dataset])

    def interrupt(self, name, run, *arguments):
        """Stops an endless run soon after its 40th step. \return how many it has made"""
        endless = ("--set", "train.epochs=1000000")
        with self.started("train", f"{name}.toml", "--output", run, *endless, *arguments) as process:
            self.wait_for_step(run, 40, process)
            os.kill(process.pid, signal.SIGTERM)
            output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, INTERRUPTED, output)
        summary = self.summary(run)
        self.assertEqual(summary["status"], "interrupted")
        return summary["steps"]

    # What is done with the models -----------------------------------------------------------------------------------

    def test_evaluate_tells_what_training_told(self):
        self.run_all((name, f"run-{name}", SERIAL, 0) for name in KINDS)
        cases = [(name, ranks) for name in KINDS for ranks in (0, 2)]
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = [
                pool.submit(self.succeed, *EVALUATE, KINDS[name].split, f"run-{name}", ranks=ranks)
                for name, ranks in cases
            ]
            for (name, ranks), run in zip(cases, runs):
                with self.subTest(model=name, ranks=ranks):
                    self.check_figures(name, json.loads(run.result().out))

    def check_figures(self, name, figures):
        kind = KINDS[name]
        self.assertEqual(figures["split"], kind.split)
        for figure in kind.figures:
            self.assertTrue(numpy.isfinite(figures[figure]))
            if kind.split == "test":
                self.assertAlmostEqual(figures[figure], self.summary(f"run-{name}")["test"][figure], places=9)

    def test_predictions_are_those_of_the_parameters(self):
        self.run_all((("linear", "linear", SERIAL, 0), ("factorization", "factors", SERIAL, 0)))
        for ranks in (0, 2):
            for run in ("linear", "factors"):
                self.succeed("predict", run, "--split", "test", "--output", f"{run}{ranks}.h5", ranks=ranks)
        with h5py.File(self.folder / "rows.h5", "r") as file, h5py.File(self.folder / "linear0.h5", "r") as out:
            features, theta = file["test/features"], self.parameters("linear")
            full = numpy.zeros((200, 40))
            columns = features["indices"][:].reshape(200, 6)
            numpy.put_along_axis(full, columns.astype("i8"), features["data"][:].reshape(200, 6).astype("f8"), axis=1)
            expected = 1 / (1 + numpy.exp(-(full @ theta["linear.weight"] + theta["linear.bias"][0])))
            self.assertLess(numpy.abs(out["predictions"][:, 1] - expected).max(), 1e-5)
            self.assertLess(numpy.abs(out["predictions"][:].sum(1) - 1).max(), 1e-6)
            self.assertTrue(((expected > 0.5) == out["classes"][:]).all())
        with h5py.File(self.folder / "ratings.h5", "r") as file, h5py.File(self.folder / "factors0.h5", "r") as out:
            theta, test = self.parameters("factors"), file["test"]
            users, items = test["users"][:], test["items"][:]
            product = (theta["users.factors"][users] * theta["items.factors"][items]).sum(1)
            mean = file["train/ratings"][:].mean()
            expected = mean + theta["users.bias"][users] + theta["items.bias"][items] + product
            self.assertLess(numpy.abs(out["predictions"][:].reshape(-1) - expected).max(), 1e-4)
        for run in ("linear", "factors"):
            with h5py.File(self.folder / f"{run}0.h5", "r") as one, h5py.File(self.folder / f"{run}2.h5", "r") as two:
                self.assertEqual(one["predictions"][:].tobytes(), two["predictions"][:].tobytes())

    def parameters(self, run):
        """Parameters by their names, in their shapes."""
        return {name.split("/")[-1]: values for name, values in self.vectors(run).items() if "parameters" in name}

    def test_averaged_weights_are_exported_as_they_predict(self):
        self.run_kind("averaged", "run", *SERIAL)
        values = {}
        for table in ("features", "bias"):
            self.succeed("export", "run", "--table", table, "--format", "npy", "--output", f"{table}.npy")
            values[table] = numpy.load(self.folder / f"{table}.npy").astype("f8").reshape(-1)
        self.succeed("predict", "run", "--split", "test", "--output", "out.h5")
        with h5py.File(self.folder / "rows.h5", "r") as file, h5py.File(self.folder / "out.h5", "r") as out:
            features = file["test/features"]
            columns, x = (features[name][:].reshape(200, 6) for name in ("indices", "data"))
            expected = 1 / (1 + numpy.exp(-((values["features"][columns] * x).sum(1) + values["bias"][0])))
            self.assertLess(numpy.abs(out["predictions"][:, 1] - expected).max(), 1e-5)
        last = self.parameters("run")["linear.weight"]
        self.assertGreater(numpy.abs(values["features"] - last).max(), 1e-3, "no mean, but the last weights")

    def test_a_set_with_other_names_is_no_set_to_be_tested_on(self):
        for name, table in (("linear", "classes"), ("factorization", "items"), ("skip_gram", "words")):
            self.run_kind(name, f"names-{name}", *SERIAL)
            (self.folder / "other.h5").write_bytes((self.folder / KINDS[name].path).read_bytes())
            arguments = ("evaluate", f"names-{name}", "--data", "other.h5")
            self.succeed(*arguments)
            with h5py.File(self.folder / "other.h5", "a") as file:
                if table == "classes":
                    file.attrs["class_names"] = ["perhaps", "never"]
                else:
                    names = file[f"dictionary/{table}"]
                    names[0], names[1] = names[1], names[0]
            for command in (arguments, ("predict", *arguments[1:], "--output", "out.csv")):
                with self.subTest(model=name, command=command[0]):
                    result = self.unisono(*command, ranks=2 if name == "linear" else 0)
                    self.assertEqual(result.code, 3, result)
                    self.assertEqual(len(messages(result)), 1, result)
                    told = rf"its {table} are numbered differently .* number 0 is "
                    if table == "classes":  # classes are matched by name
                        told = r"/(train|test)/labels: example \d+ is of class '(perhaps|never)', which the model"
                    self.assertRegex(result.err, rf"other\.h5: {told}")

    def test_word_vectors_predict_nothing_and_say_what_does(self):
        for name in ("skip_gram", "glove"):
            self.run_kind(name, name, *SERIAL)
            for ranks in (0, 2):
                result = self.unisono("predict", name, "--split", "train", "--output", "out.csv", ranks=ranks)
                self.assertEqual(result.code, 2, result)
                self.assertEqual(len(messages(result)), 1, result)
                self.assertIn("unisono neighbors", result.err + result.out)
                self.assertFalse((self.folder / "out.csv").exists())

    def test_info_tells_parameters_and_memory(self):
        expected = {
            "linear": 41,
            "averaged": 41,
            "factorization": 100 * 5,
            "skip_gram": 2 * 30 * 8,
            "cbow": (30 + 29) * 8,
            "glove": 2 * 30 * 9,
        }
        self.run_all((name, f"run-{name}", SERIAL, 0) for name in KINDS)
        for name, parameters in expected.items():
            with self.subTest(model=name):
                told = json.loads(self.succeed("info", f"{name}.toml", *SERIAL, "--json").out)
                self.assertEqual(told["parameters"], parameters)
                text = self.succeed("info", f"{name}.toml", *SERIAL).out
                self.assertRegex(text, r"peak memory of a rank, predicted: \d+\.\d MiB")
                self.assertEqual(self.summary(f"run-{name}")["parameters"], parameters)

    # Other models ---------------------------------------------------------------------------------------------------

    def test_networks_learn_by_threads_that_do_not_wait(self):
        self.train("run", *hogwild(2, "--set", "train.epochs=6", "--set", "optimizer.learning_rate=0.003"))
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["threads"], summary["steps"]), ("complete", 2, 60))
        self.assertGreater(summary["test"]["accuracy"], 0.5)

    def test_softmax_on_digits_is_a_network_of_one_dense_layer(self):
        dense = '{ kind = "flatten" }, { kind = "dense", units = 10, initialiser = "zeros" }'
        models = {"linear": 'loss = "softmax"', "network": f'loss = "softmax_cross_entropy"\nlayers = [{dense}]'}
        for kind, model in models.items():
            config = HEAD.format(path="digits.h5", epochs=4, rule="sgd", rate=0.01, kind=kind, model=model)
            self.write(f"softmax-{kind}.toml", config)
        # Updated in place, a linear model makes a step for each example, whatever the batch.
        for strategy, ranks, batches in (("serial", 0, (24, 1)), ("allreduce", 2, (24, 24))):
            with self.subTest(strategy=strategy):
                for kind, batch in zip(models, batches):
                    settings = ("--set", f"strategy.kind={strategy}", "--set", f"train.batch_size={batch}")
                    self.train(f"{kind}-{strategy}", *settings, ranks=ranks, config=f"softmax-{kind}.toml")
                # Each step rounds a sum over the batch, an update, and, before them, a product of 784 pixels; the
                # errors are independent of each other.
                tolerance = numpy.sqrt(4 * 240 / batches[1] * (784 + batches[1])) * 2.0**-24
                self.assert_alike(f"linear-{strategy}", f"network-{strategy}", tolerance)

    def assert_alike(self, linear, network, tolerance):
        a, b = self.parameters(linear), self.parameters(network)
        for name in ("weight", "bias"):
            one = a[f"linear.{name}"].T
            (other,) = (values for key, values in b.items() if key.endswith(name))
            self.assertGreater(numpy.abs(one).max(), 0.001)
            self.assertLess(numpy.abs(one - other.reshape(one.shape)).max(), tolerance * numpy.abs(one).max())
        one, other = self.summary(linear)["test"], self.summary(network)["test"]
        self.assertEqual(one["accuracy"], other["accuracy"])
        self.assertAlmostEqual(one["loss"], other["loss"], delta=tolerance * other["loss"])

    def test_validation_examples_are_the_same_when_a_run_is_evaluated(self):
        for name in ("linear", "factorization"):
            run = f"validated-{name}"
            self.run_kind(name, run, *SERIAL, "--set", "data.validation_fraction=0.2")
            told = [line for line in self.metrics(run) if line.get("split") == "validation"][-1]
            result = self.succeed("evaluate", run, "--json", "--split", "validation")
            figures = json.loads(result.out)
            self.assertEqual(figures["examples"], round(0.2 * self.examples(name)))
            self.assertAlmostEqual(figures["loss"], told["loss"], places=9)

    def test_a9a_is_learnt_as_well_in_parallel(self):
        data = pathlib.Path(os.environ.get("UNISONO_DATA", "")) / "libsvm"
        if not os.environ.get("UNISONO_DATA") or not (data / "a9a").exists():
            self.skipTest("UNISONO_DATA does not name a folder with libsvm/a9a")
        words = ("data", "import", "libsvm", data / "a9a", "--test-file", data / "a9a.t", "--output", "a9a.h5")
        subprocess.run([BINARY, *map(str, words)], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        config = HEAD.format(path="a9a.h5", epochs=10, rule="sgd", rate=0.01, kind="linear", model="")
        self.write("a9a.toml", config.replace("batch_size = 150\n", "") + '[schedule]\nkind = "linear"\n')
        for run, ranks, strategy in (("serial", 0, SERIAL), ("threads", 0, hogwild(2)), ("ranks", 2, hogwild(1))):
            with self.subTest(run=run):
                self.train(run, *strategy, ranks=ranks, config="a9a.toml")
                test = self.summary(run)["test"]
                self.assertGreaterEqual(test["accuracy"], 0.848)
                self.assertGreaterEqual(test["auc"], 0.90)


if __name__ == "__main__":
    unittest.main()
