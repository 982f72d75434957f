"""`report`: pages about runs, seen in a real browser where there is one; and what they are made of."""

import csv
import json
import os
import re
import shutil
import unittest

import browser
import h5py
import numpy
from harness import BinaryTest, messages, settings

TRAIN = settings("train.epochs=3", "data.validation_fraction=0.2", "train.batch_size=16", "train.report_every_steps=2")


PAGES = [
    (("runs/a", "--examples", "3"), "runs/a/report.html"),
    (("runs/a", "runs/b"), "report.html"),
]


class Reports(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls("run_once")
        BinaryTest.setUp(test)
        cls.trained = test
        test.train("runs/a", *TRAIN)
        test.train("runs/b", *TRAIN, *settings("optimizer.learning_rate=0.02", "seed=4"))

    @classmethod
    def tearDownClass(cls):
        cls.trained.tearDown()
        super().tearDownClass()

    def run_once(self):
        """What setUpClass makes a test of, for its folder."""

    def setUp(self):
        super().setUp()
        shutil.copytree(self.trained.folder / "runs", self.folder / "runs", symlinks=True)

    def report(self, *arguments, file="runs/a/report.html"):
        result = self.succeed("report", *arguments)
        text = (self.folder / file).read_text()
        self.assertIn(file, result.out)
        return text

    def figures(self, *arguments, **options):
        return browser.Figures(self.report(*arguments, **options))


class Contents(Reports):
    def test_a_run_has_its_result_and_curves(self):
        page = self.figures("runs/a")
        self.assertEqual(page.headings[0], "a")
        sections = ["Result", "Losses and metrics", "Steps", "Time", "Other figures", "Settings"]
        self.assertEqual(page.headings[1:], sections)
        summary = self.summary("runs/a")
        ended = dict(page.tables["How it ended"])
        self.assertEqual(ended["status"], "complete")
        self.assertEqual(ended["epochs made"], "3")
        head, *rows = page.tables["Metrics at the end"]
        for split, *values in rows:
            for name, value in zip(head[1:], values):
                self.assertAlmostEqual(float(value), summary[split][name.replace(" ", "_")], delta=1e-3)
        self.assertEqual([row[0] for row in rows], ["train", "validation", "test"])
        self.assertEqual(
            list(page.plots)[:5],
            ["loss", "accuracy", "top5 accuracy", "learning rate", "norm of the gradient"],
        )

    def test_axes_span_the_values(self):
        page = self.figures("runs/a")
        lines = self.metrics("runs/a")
        losses = [line["loss"] for line in lines]
        plot = page.plots["loss"]
        self.assertEqual(plot["x"], (0, 3))
        low, high = plot["y"]
        self.assertLessEqual(low, min(losses))
        self.assertGreaterEqual(high, max(losses))
        self.assertLess(high - low, 2 * (max(losses) - min(losses)))
        self.assertEqual(set(plot["series"]), {"train", "validation", "test"})
        self.assert_drawn(plot["series"]["train"], [line["loss"] for line in lines if line["event"] == "train"])

    def assert_drawn(self, points, values):
        """The heights of the points are a linear function of the values, which falls: y goes down in a drawing."""
        self.assertEqual(len(points), len(values))
        y = numpy.array([point[1] for point in points])
        slope, start = numpy.polyfit(values, y, 1)
        self.assertLess(slope, 0)
        self.assertLess(numpy.abs(slope * numpy.array(values) + start - y).max(), 0.02)
        x = [point[0] for point in points]
        self.assertEqual(x, sorted(x))

    def test_only_settings_that_are_not_defaults_are_listed(self):
        page = self.figures("runs/a")
        keys = dict(page.tables["Settings other than the defaults"][1:])
        self.assertEqual(keys["train.epochs"], "3")
        self.assertEqual(keys["optimizer.kind"], '"adam"')
        self.assertEqual(keys["data.augmentation.shift"], "1")
        for default in ("strategy.kind", "checkpoint.keep", "optimizer.beta1", "schedule.kind", "data.shuffle"):
            self.assertNotIn(default, keys)

    def test_time_adds_up(self):
        page = self.figures("runs/a")
        head, *rows = page.tables["Seconds by part, mean over the ranks that train"]
        seconds = {row[0]: float(row[1].replace(",", "")) for row in rows}
        self.assertAlmostEqual(sum(seconds.values()), 2 * seconds["total"], delta=0.02 * seconds["total"])

    def test_an_early_stop_keeps_each_evaluation_and_marks_the_restored_one(self):
        more = settings("train.epochs=12", "train.early_stopping.metric=loss", "train.early_stopping.patience=1")
        self.train("runs/early", *TRAIN, *more, *settings("optimizer.learning_rate=0.5"))
        early = self.summary("runs/early")["stopped_early"]
        self.assertLess(early["weights_of_epoch"], early["epoch"])
        page = self.figures("runs/early", file="runs/early/report.html")
        head, *rows = page.tables["Evaluations"]
        self.assertEqual([int(row[1]) for row in rows], list(range(1, early["epoch"] + 1)))
        marks = [row[head.index("weights")] for row in rows]
        kept = early["weights_of_epoch"] - 1
        self.assertEqual(marks, ["restored" if i == kept else "" for i in range(len(rows))])
        losses = [line["loss"] for line in self.metrics("runs/early") if line.get("split") == "validation"]
        loss = head.index("validation loss")
        for row, value in zip(rows, losses[: early["epoch"]]):
            self.assertAlmostEqual(float(row[loss]) / value, 1, delta=1e-3)
        self.assertEqual([i for i, row in enumerate(rows) if row[head.index("test loss")]], [kept])
        self.assertEqual(len(page.plots["loss"]["series"]["validation"]), len(rows))

    def test_several_runs_have_common_plots(self):
        page = self.figures("runs/a", "runs/b", file="report.html")
        self.assertEqual(page.headings[0], "2 runs beside each other")
        head, *rows = page.tables["What differs in the settings"]
        self.assertEqual(head, ["run", "seed", "optimizer.learning_rate", "ranks"])
        self.assertEqual(rows, [["a", "3", "0.01", "1"], ["b", "4", "0.02", "1"]])
        for title in ("train loss", "validation accuracy", "learning rate"):
            self.assertEqual(list(page.plots[title]["series"]), ["a", "b"])
        self.assertEqual(page.plots["train loss"]["x"], (0, 3))

    def test_runs_of_the_same_name_have_their_paths(self):
        shutil.copytree(self.folder / "runs/a", self.folder / "other/a")
        page = self.figures("runs/a", "other/a", "--output", "both.html", file="both.html")
        self.assertEqual(list(page.plots["train loss"]["series"]), ["runs/a", "other/a"])

    def test_seeds_are_averaged(self):
        self.train("runs/c", *TRAIN, *settings("seed=5"))
        page = self.figures("runs/a", "runs/c", file="report.html")
        head, row = page.tables["Mean ± standard deviation over seeds"]
        self.assertEqual(row[0], "a, c")
        mean = (self.summary("runs/a")["test"]["loss"] + self.summary("runs/c")["test"]["loss"]) / 2
        self.assertAlmostEqual(float(row[head.index("test loss")].split()[0]), mean, delta=1e-3 * mean)

    def test_examples_are_the_worst_ones(self):
        text = self.report("runs/a", "--examples", "5")
        page = browser.Figures(text)
        evaluated = json.loads(self.succeed("evaluate", "runs/a", "--json").out)
        matrix = evaluated["confusion_matrix"]
        cells = [int(n) for n in re.findall(r"<title>label \d, predicted \d: (\d+)</title>", text)]
        self.assertEqual(cells, [n for row in matrix for n in row])
        self.assertEqual(len(page.tables["Classes"]), 11)
        self.assertEqual(text.count("data:image/png"), 5)
        self.succeed("predict", "runs/a", "--output", "p.h5")
        with h5py.File(self.folder / "p.h5") as predicted, h5py.File(self.digits) as digits:
            labels = digits["test/labels"][:]
            wrong = 1 - predicted["predictions"][:][numpy.arange(len(labels)), labels]
        shown = [int(n) for n in re.findall(r'alt="example (\d+):', text)]
        self.assertEqual(shown, list(numpy.argsort(-wrong, kind="stable")[:5]))

    def test_examples_of_a_regression_are_a_table(self):
        rows = ["x,y"] + [f"{i},{3 * i + (50 if i in (7, 21) else 0)}" for i in range(40)]
        self.write("line.csv", "\n".join(rows))
        self.succeed("data", "import", "csv", "line.csv", "--target", "y", "--output", "line.h5")
        config = """
            name = "line"
            data.path = "line.h5"
            model = { kind = "linear", loss = "squared" }
            optimizer.kind = "lbfgs"
            strategy.kind = "batch"
            """
        self.write("line.toml", config)
        self.train("runs/line", config="line.toml")
        page = self.figures("runs/line", "--examples", "3", file="runs/line/report.html")
        head, *worst = page.tables["Worst examples"]
        self.assertEqual(head, ["example", "answer", "predicted", "distance from the target", "values"])
        self.assertEqual({row[0]: row[4] for row in worst[:2]}, {"7": "x = 7", "21": "x = 21"})
        errors = [float(row[3]) for row in worst]
        self.assertEqual(errors, sorted(errors, reverse=True))
        self.assertIn("objective", page.plots)

    def test_vectors_have_their_neighbours(self):
        sentence = " ".join(f"w{i % 7} w{i % 5 + 7}" for i in range(60))
        self.write("text.txt", "\n".join([sentence] * 20))
        self.succeed("data", "import", "text", "text.txt", "--output", "text.h5")
        config = """
            name = "words"
            data.path = "text.h5"
            model = { kind = "word2vec", dimension = 8 }
            optimizer = { kind = "sgd", learning_rate = 0.05 }
            strategy.kind = "serial"
            train = { epochs = 2, batch_size = 64, threads = 1 }
            """
        self.write("words.toml", config)
        self.train("runs/words", config="words.toml")
        page = self.figures("runs/words", "--examples", "1", file="runs/words/report.html")
        head, first, *_ = page.tables["Nearest neighbours of the first words"]
        nearest = json.loads(self.succeed("neighbors", "runs/words", first[0], "--top", "6", "--json").out)
        expected = [f"{one['name']} {one['cosine']:.2f}" for one in nearest["lists"][0]["neighbors"]]
        self.assertEqual(first[1].split(", "), expected)

    def test_examples_that_are_gone_are_named(self):
        os.rename(self.digits, f"{self.digits}.away")
        try:
            result = self.succeed("report", "runs/a", "--examples", "5")
        finally:
            os.rename(f"{self.digits}.away", self.digits)
        self.assertIn("the report has no examples", result.err)
        self.assertIn("The model could not be applied", (self.folder / "runs/a/report.html").read_text())

    def test_staleness_and_servers(self):
        self.train("runs/s", *TRAIN, *settings("strategy.kind=parameter_server"), ranks=3)
        page = self.figures("runs/s", file="runs/s/report.html")
        self.assertIn("Counters", page.headings)
        self.assertEqual(len(page.tables["Servers"]), 1 + len(self.summary("runs/s")["serving"]["servers"]))
        self.assertIn("Staleness", page.plots)

    def test_a_pipeline_has_its_timeline(self):
        pipeline = settings("replica.stages=2", "train.micro_batches=4")
        self.train("runs/p", *TRAIN, *pipeline, ranks=2)
        text = self.report("runs/p", file="runs/p/report.html")
        self.assertIn("A step of the pipeline, predicted", text)
        self.assertIn("stage 1", text)

    def test_a_run_that_was_killed_has_a_page(self):
        (self.folder / "runs/a/summary.json").unlink()
        with open(self.folder / "runs/a/metrics.jsonl", "a") as file:
            file.write('{"event":"train","st')
        page = self.figures("runs/a")
        self.assertEqual(dict(page.tables["How it ended"])["status"], "unfinished")

    def test_values_that_are_not_finite_leave_gaps(self):
        path = self.folder / "runs/a/metrics.jsonl"
        lines = path.read_text().splitlines()
        for i in (3, 4):
            line = json.loads(lines[i])
            line["loss"] = None
            lines[i] = json.dumps(line)
        path.write_text("\n".join(lines) + "\n")
        text = self.report("runs/a")
        self.assertEqual(re.findall(r"[\",\s>-]nan\b", text), [])
        drawn = browser.Figures(text).plots["loss"]["series"]["train"]
        self.assertEqual(len(drawn), sum(line["event"] == "train" for line in self.metrics("runs/a")) - 2)

    def test_markup_in_files_is_text(self):
        evil = "<img src=x onerror=alert(1)>"
        os.rename(self.folder / "runs/a", self.folder / evil)
        run = self.folder / evil
        config = (run / "config.toml").read_text()
        script = "</pre></title><script>document.title='taken'</script>"
        (run / "config.toml").write_text(config.replace('"digits.h5"', json.dumps(script)))
        with open(run / "metrics.jsonl", "a") as file:
            print(json.dumps({"event": "evaluation", "step": 45, "epoch": 3, "split": "<b>", script: 1.5}), file=file)
        with open(run / "log.txt", "a") as file:
            file.write(script)
        text = self.report(evil, file=f"{evil}/report.html")
        self.assertNotIn("<img src=x", text)
        self.assertNotIn("<script>document", text)
        self.assertIn("&lt;script&gt;document", text)
        self.assertEqual(text.count("<script"), 1)
        self.assertEqual(text.count("</pre>"), 2)

    def test_a_page_needs_nothing_else(self):
        for arguments, file in PAGES:
            text = self.report(*arguments, file=file)
            for name in ("http://", "https://", "@import", "url("):
                self.assertNotIn(name, text.replace("http://www.w3.org/2000/svg", ""))


class Errors(Reports):
    def assert_refused(self, arguments, code, *parts):
        result = self.unisono("report", *arguments)
        self.assertEqual(result.code, code, result)
        self.assertEqual(len(messages(result)), 1, result)
        for part in parts:
            self.assertIn(part, result.err)

    def test_folders_without_a_run(self):
        self.assert_refused(["nothing"], 4, "nothing: there is no such run")
        self.assert_refused(["runs"], 4, "runs: is not a run folder")
        self.assert_refused(["runs/a", "runs"], 4, "runs: is not a run folder")
        self.assert_refused([], 2, "folders")

    def test_files_of_others_are_kept(self):
        self.write("mine.html", "<p>mine</p>")
        self.assert_refused(["runs/a", "--output", "mine.html"], 1, "mine.html", "not a report", "another file")
        self.assertEqual((self.folder / "mine.html").read_text(), "<p>mine</p>")
        self.assert_refused(["runs/a", "--output", "no/such/folder.html"], 1, "no/such/folder.html: cannot be written")

    def test_an_earlier_report_is_replaced(self):
        self.report("runs/a/")
        self.report("runs/a")

    def test_a_run_that_diverged_has_a_page(self):
        run = ("runs/wild", *TRAIN, *settings("optimizer.learning_rate=1e18", "optimizer.kind=sgd"))
        self.train(*run, code=1)
        self.succeed("report", "runs/wild")
        self.assertIn("diverged", (self.folder / "runs/wild/report.html").read_text())
        self.succeed("watch", "runs/wild")

    def test_summaries_of_another_shape(self):
        path = self.folder / "runs/a/summary.json"
        summary = json.loads(path.read_text())
        for damage in ({"best": {"metric": 1, "value": None}}, {"seconds": 3}, {"serving": [1]}, {"device": []}):
            path.write_text(json.dumps({**summary, **damage}))
            result = self.unisono("report", "runs/a")
            self.assertIn(result.code, (0, 4), (damage, result))
            self.assertEqual(len(messages(result)), int(result.code == 4), result)

    def test_a_damaged_run(self):
        (self.folder / "runs/a/summary.json").write_text("[")
        self.assert_refused(["runs/a"], 4, "runs/a: its summary.json is damaged")


EVIL = "<script>document.title='taken'</script>"

SEARCH = """
[search]
method = "random"
trials = 12
[search.space]
"optimizer" = [
  { kind = "sgd", learning_rate = { log = [1e-2, 0.3] } },
  { kind = "adam", learning_rate = { log = [1e-3, 0.03] } },
]
"train.batch_size" = [24, 48]
"""

STUDY = """
[study]
seeds = 2
margin = 0.05
variants = [
  { name = "%s", strategy = { kind = "averaging", period = 2 } },
  { name = "slow", optimizer.learning_rate = 1e-5 },
]
"""


class Experiments(BinaryTest):
    """Searches, cross-validations and studies, each made once."""

    PLAIN = settings("data.augmentation.shift=0", "train.epochs=2")
    HELD_BACK = settings("data.validation_fraction=0.25")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = cls("run_once")
        BinaryTest.setUp(cls.made)
        cls.made.make()

    @classmethod
    def tearDownClass(cls):
        cls.made.tearDown()
        super().tearDownClass()

    def run_once(self):
        """What setUpClass makes a test of, for its folder."""

    def make(self):
        config = (self.folder / "config.toml").read_text()
        self.write("search.toml", config.replace('"test"', f'"{EVIL[:25]}"') + SEARCH)
        choices = f'[search]\nmethod = "grid"\n[search.space]\n"train.freeze" = ["convolution1.weight", "{EVIL}"]\n'
        self.write("evil.toml", config + choices)
        self.write("study.toml", config + STUDY % EVIL)
        search = ("search", "search.toml", *self.PLAIN, *self.HELD_BACK)
        self.succeed(*search, *settings("search.refit=true"), "--output", "random")
        halving = settings("search.method=halving", "search.reduction_factor=2", "train.epochs=4")
        self.succeed("search", "search.toml", *self.HELD_BACK, *settings("data.augmentation.shift=0"), *halving,
                     "--output", "halving")
        self.succeed("search", "evil.toml", *self.PLAIN, *self.HELD_BACK, "--output", "evil")
        self.succeed("cross-validate", "config.toml", *self.PLAIN, "--output", "folds")
        self.succeed("study", "study.toml", *self.PLAIN, "--output", "study")

    def setUp(self):
        super().setUp()
        for name in ("random", "halving", "evil", "folds", "study"):
            shutil.copytree(self.made.folder / name, self.folder / name)

    def text(self, folder):
        result = self.succeed("report", folder)
        self.assertIn(f"{folder}/report.html", result.out)
        return (self.folder / folder / "report.html").read_text()

    def page(self, folder):
        return browser.Figures(self.text(folder))

    def rows(self, path):
        return list(csv.DictReader((self.folder / path).read_text().splitlines()))

    def lines(self, path):
        return (self.folder / path).read_text().splitlines()

    def json(self, path):
        return json.loads((self.folder / path).read_text())


class Searches(Experiments):
    def test_a_search_has_its_table(self):
        page = self.page("random")
        sections = ["random", "Result", "What the settings do", "Course", "Timeline", "Trials", "Settings"]
        self.assertEqual(page.headings, sections)
        rows = self.rows("random/trials.csv")
        head, *shown = page.tables["Trials"]
        self.assertEqual(head[:3], ["trial", "status", "validation accuracy"])
        names = ["optimizer", "optimizer[sgd].learning_rate", "optimizer[adam].learning_rate", "train.batch_size"]
        self.assertEqual(head[5:], names)
        self.assertEqual([row[0] for row in shown], [row["trial"] for row in rows])
        for row, line in zip(shown, rows):
            self.assertAlmostEqual(float(row[2]), float(line["value"]), delta=1e-4)
            self.assertIn(f'kind = "{row[5]}"', line["optimizer"])
            self.assertEqual(row[6] == "", row[5] == "adam")
            self.assertIn(f"learning_rate = {row[6] or row[7]}", line["optimizer"])
            self.assertEqual(row[8], line["train.batch_size"])
        best = max(rows, key=lambda row: float(row["value"]))
        found = dict(page.tables["The best trial"])
        self.assertEqual(found["trial"], best["trial"])
        self.assertEqual(dict(page.tables["The search"])["ended as"], "12 complete")
        self.assertIn("The best trial's settings, trained on all examples", page.tables)

    def test_plots_span_the_values(self):
        text = self.text("random")
        page = browser.Figures(text)
        values = [float(row["value"]) for row in self.rows("random/trials.csv")]
        for name in ("train.batch_size", "optimizer", "optimizer[sgd].learning_rate", "Best so far"):
            low, high = page.plots[name]["y"]
            self.assertLessEqual(low, min(values))
            self.assertGreaterEqual(high, max(values))
        self.assertEqual(page.plots["optimizer"]["x"], (-0.5, 1.5))
        self.assertEqual(page.plots["optimizer[sgd].learning_rate"]["spacing"]["x"], "logarithmic")
        lines = set(re.findall(r"<title>(trial \d+:[^<]*)</title></polyline>", text))
        self.assertEqual(len(lines), 12)  # of parallel coordinates
        self.assertIn("Importance of each setting", page.plots)
        self.assertEqual(len(set(re.findall(r"<title>trial (\d+): complete", text))), 12)  # blocks of the timeline

    def test_rungs_are_those_of_the_journal(self):
        page = self.page("halving")
        head, *rows = page.tables["Rungs"]
        self.assertEqual(head[:4], ["epochs", "trials", "failed", "went on"])
        self.assertEqual([int(row[0]) for row in rows], [1, 2, 4])
        lines = (self.folder / "halving/journal.jsonl").read_text().splitlines()
        ended = [json.loads(line[17:])["ended"]["epochs"] for line in lines if '"ended"' in line]
        self.assertEqual([int(row[1]) for row in rows], [ended.count(epochs) for epochs in (1, 2, 4)])
        self.assertEqual([row[3] for row in rows], [rows[1][1], rows[2][1], "0"])
        self.assertIn("Trials from rung to rung", page.plots)
        slices = [plot["series"] for plot in page.plots.values() if "best" in plot["series"]]
        self.assertTrue(slices)
        for series in slices:
            self.assertLessEqual({"1 epoch", "4 epochs"}, set(series))

    def test_a_search_that_was_killed_has_a_page(self):
        journal = self.folder / "random/journal.jsonl"
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(lines[:8]) + lines[8][:30])
        for name in ("search.json", "trials.csv"):
            (self.folder / "random" / name).unlink()
        page = self.page("random")
        self.assertEqual(dict(page.tables["The search"])["status"], "unfinished")
        self.assertLess(len(page.tables["Trials"]), 9)
        journal.write_text("".join(lines[:1]))
        self.assertEqual(self.page("random").headings, ["random", "Result", "Settings"])

    def test_names_in_configs_are_text(self):
        for folder in ("random", "evil", "study"):
            text = self.text(folder)
            self.assertEqual(text.count("<script"), 1)
            self.assertIn("&lt;script&gt;document", text)

    def test_what_has_no_page(self):
        journal = self.folder / "random/journal.jsonl"
        damaged = journal.read_text().replace("random", "rondom", 1)
        (self.folder / "study/study.json").unlink()
        for arguments, part in (
            (("study",), "this study has not ended"),
            (("random", "folds"), "report on it alone"),
        ):
            result = self.unisono("report", *arguments)
            self.assertEqual((result.code, len(messages(result))), (4, 1), result)
            self.assertIn(part, result.err)
        journal.write_text(damaged)
        result = self.unisono("report", "random")
        self.assertEqual((result.code, len(messages(result))), (4, 1), result)
        self.assertIn("journal.jsonl:1: this line was changed", result.err)


class Validations(Experiments):
    def test_a_cross_validation_has_its_figures(self):
        page = self.page("folds")
        self.assertEqual(page.headings, ["folds", "Result", "Classes", "Timeline", "Folds", "Settings"])
        results = self.json("folds/cross_validation.json")
        head, *rows = page.tables["Metrics of the validation examples"]
        for name, mean, counted, deviation, interval, pooled in rows:
            expected = results["metrics"][name.replace(" ", "_")]
            self.assertAlmostEqual(float(mean), expected["mean"], delta=1e-3)
            self.assertEqual(int(counted), expected["folds"])
            low, high = map(float, interval.split(" to "))
            self.assertAlmostEqual(low, expected["low"], delta=1e-3)
            self.assertAlmostEqual(high, expected["high"], delta=1e-3)
            self.assertEqual(pooled != "", "pooled" in expected, name)  # areas and F1 do not follow from those of folds
            if pooled:
                self.assertAlmostEqual(float(pooled), expected["pooled"], delta=1e-3)
        head, *rows = page.tables["Folds"]
        for row, line in zip(rows, self.rows("folds/folds.csv"), strict=True):
            self.assertEqual(row[2:4], [line["training_examples"], line["validation_examples"]])
            self.assertAlmostEqual(float(row[head.index("loss")]), float(line["loss"]), delta=1e-3)
        low, high = page.plots["accuracy"]["y"]
        for line in self.rows("folds/folds.csv"):
            self.assertTrue(low <= float(line["accuracy"]) <= high)

    def test_the_confusion_matrix_is_that_of_the_predictions(self):
        text = self.text("folds")
        matrix = numpy.zeros((10, 10), int)
        for line in self.rows("folds/predictions.csv"):
            outputs = [float(line[f"p{digit}"]) for digit in range(10)]
            matrix[int(line["label"]), int(numpy.argmax(outputs))] += 1
        cells = [int(n) for n in re.findall(r"<title>label \d, predicted \d: (\d+)</title>", text)]
        self.assertEqual(cells, matrix.ravel().tolist())

    def nested(self):
        keys = ("cross_validation.nested=true", "cross_validation.inner_folds=2", "cross_validation.folds=3")
        space = '[search]\nmethod = "grid"\n[search.space]\n"optimizer.learning_rate" = [1e-4, 0.05]\n'
        self.write("nested.toml", (self.folder / "config.toml").read_text() + space)
        self.succeed("cross-validate", "nested.toml", *self.PLAIN, *settings(*keys), "--output", "nested")

    def test_searches_within_folds_have_a_table(self):
        self.nested()
        page = self.page("nested")
        trainings = [json.loads(line.split(" ", 1)[1]) for line in self.lines("nested/journal.jsonl")]
        ended = [(entry["ended"], entry["result"]["value"]) for entry in trainings if "ended" in entry]
        head, *rows = page.tables["What was chosen"]
        for fold, (row, line) in enumerate(zip(rows, self.rows("nested/folds.csv"), strict=True)):
            inner = [value for one, value in ended if one["outer"] == fold and one["trial"] == 1 and "refit" not in one]
            self.assertEqual(len(inner), 2)
            self.assertEqual(row[:4], [str(fold), "2", "trial 1", line["choice"]])
            self.assertAlmostEqual(float(row[4]), sum(inner) / 2, delta=1e-3)
            self.assertAlmostEqual(float(row[5]), float(line["accuracy"]), delta=1e-3)

    def test_searches_within_folds_that_were_killed_have_a_page(self):
        self.nested()
        journal = self.folder / "nested/journal.jsonl"
        lines = self.lines("nested/journal.jsonl")
        # The folds are trained side by side, so any two of them may be the first to end.
        ends = [i for i, line in enumerate(lines) if '"ended"' in line and "refit" in line]
        self.assertEqual(len(ends), 3)
        ended = sorted(str(json.loads(lines[i].split(" ", 1)[1])["ended"]["outer"]) for i in ends[:2])
        journal.write_text("\n".join(lines[: ends[1] + 1]) + "\n")
        (self.folder / "nested/cross_validation.json").unlink()
        page = self.page("nested")
        self.assertEqual(dict(page.tables["The cross-validation"])["folds that have ended"], "2")
        self.assertEqual([row[0] for row in page.tables["Folds"][1:]], ended)
        self.assertIn("folds 2/3", self.succeed("watch", "nested", "--once").out)

    def test_exact_fits_have_a_page(self):
        rows = ["x,y"] + [f"{i},{3 * i + i * i % 7}" for i in range(30)]
        self.write("line.csv", "\n".join(rows))
        self.succeed("data", "import", "csv", "line.csv", "--target", "y", "--output", "line.h5")
        self.write(
            "line.toml",
            """
            name = "line"
            data.path = "line.h5"
            model = { kind = "linear", loss = "squared" }
            optimizer.kind = "lbfgs"
            strategy.kind = "batch"
            cross_validation.method = "leave_one_out"
            """,
        )
        self.succeed("cross-validate", "line.toml", "--output", "line")
        page = self.page("line")
        facts = dict(page.tables["The cross-validation"])
        self.assertEqual((facts["status"], facts["folds"]), ("complete", "30"))
        self.assertEqual(facts["models"], "solved exactly, not trained")
        self.assertNotIn("Classes", page.headings)
        self.assertIn("line: complete", self.succeed("watch", "line").out)


class Studies(Experiments):
    def test_a_study_has_its_verdicts(self):
        page = self.page("study")
        study = self.json("study/study.json")
        self.assertRegex("".join(page.texts), r"Of 2 ways, \d [a-z ]+ \(")
        head, *rows = page.tables["Does it reach the state of the serial run?"]
        self.assertEqual([row[0] for row in rows], ["serial", EVIL, "slow"])
        for row, way in zip(rows, study["ways"]):
            self.assertEqual(row[2], way["verdict_text"])
            self.assertAlmostEqual(float(row[3]), way["mean"], delta=1e-3)
        head, *rows = page.tables["Trainings"]
        for row, training in zip(rows, study["trainings"]):
            parts = training["seconds"]
            trained = parts["total"] - parts["evaluation"] - parts["checkpoint"]
            self.assertAlmostEqual(float(row[head.index("seconds of training")]) / trained, 1, delta=1e-3)
        plot = page.plots["Difference from the serial run: test accuracy"]
        for way in study["ways"][1:]:
            self.assertLessEqual(plot["x"][0], way["difference"]["low"])
            self.assertGreaterEqual(plot["x"][1], way["difference"]["high"])
        self.assertEqual(len(page.tables["Trainings"]), 7)
        self.assertEqual(len(page.plots["test accuracy over updates"]["series"]), 3)
        for title in ("Speed-up", "Where the time goes, without evaluations", "test accuracy over seconds"):
            self.assertIn(title, page.plots)

    def test_a_study_of_another_shape(self):
        path = self.folder / "study/study.json"
        study = self.json("study/study.json")
        for damage in ({"ways": 3}, {"trainings": None}, {"metric": []}, {"seeds": "two"}):
            path.write_text(json.dumps({**study, **damage}))
            result = self.unisono("report", "study")
            self.assertIn(result.code, (0, 4), (damage, result))
            self.assertEqual(len(messages(result)), int(result.code == 4), result)
        path.write_text("{")
        self.assertEqual(self.unisono("report", "study").code, 4)


@unittest.skipUnless(browser.CHROMIUM, "there is no Chromium; scripts/install-deps browser installs it")
class ExperimentsInTheBrowser(Experiments):
    def test_pages_are_seen(self):
        for folder in ("random", "halving", "folds", "evil", "study"):
            written = self.page(folder)
            for dark in (False, True) if folder == "random" else (False,):
                seen = browser.visit(self.folder / folder / "report.html", dark)
                self.assertEqual((seen.messages, seen.requests), ([], []))
                figures = browser.Figures(seen.dom)
                self.assertEqual(figures.plots, written.plots)
                self.assertEqual(figures.tables, written.tables)
                colours = numpy.unique(seen.screenshot[:, :, :3].reshape(-1, 3), axis=0)
                self.assertGreater(len(colours), 20)
        self.assertNotIn("<title>taken", seen.dom)


@unittest.skipUnless(browser.CHROMIUM, "there is no Chromium; scripts/install-deps browser installs it")
class InTheBrowser(Reports):
    def assert_well(self, page, dark):
        seen = browser.visit(self.folder / page, dark)
        self.assertEqual(seen.messages, [])
        self.assertEqual(seen.requests, [])
        background = (20, 23, 27) if dark else (255, 255, 255)
        self.assertEqual(tuple(seen.screenshot[2, 2][:3]), background)
        drawn = (seen.screenshot[:, :, :3] != background).any(axis=2)
        self.assertGreater(drawn.mean(), 0.05)
        self.assertGreater(drawn[:100].mean(), 0.01)
        self.assertGreater(len(numpy.unique(seen.screenshot[:, :, :3].reshape(-1, 3), axis=0)), 20)
        return browser.Figures(seen.dom)

    def test_pages_are_seen(self):
        for arguments, file in PAGES:
            written = self.figures(*arguments, file=file)
            for dark in (False, True):
                seen = self.assert_well(file, dark)
                self.assertEqual(seen.plots, written.plots)
                self.assertEqual(seen.tables, written.tables)
                self.assertEqual(seen.headings, written.headings)

    def test_charts_and_tables_share_the_width(self):
        """At 1,200 pixels: each row of blocks ends at the right edge, and nothing is cut off."""
        measure = """<script>
          for (const blocks of document.querySelectorAll(".blocks")) {
            const rows = {}, edge = blocks.getBoundingClientRect();
            for (const block of blocks.children) {
              const box = block.getBoundingClientRect();
              rows[box.top] = Math.max(rows[box.top] || 0, box.right);
              const isCut = block.scrollWidth > block.clientWidth + 1;
              if (isCut) console.error("cut off: " + block.textContent.slice(0, 40));
            }
            for (const right of Object.values(rows)) {
              if (edge.right - right > 0.05 * edge.width) console.error("empty from " + right);
            }
            if (edge.width < 1000) console.error("narrow: " + edge.width);
          }</script>"""
        for arguments, file in PAGES:
            self.figures(*arguments, file=file)
            self.write("measured.html", (self.folder / file).read_text().replace("</body>", measure + "</body>"))
            self.assertEqual(browser.visit(self.folder / "measured.html", size=(1200, 900)).messages, [], file)

    def test_tables_are_sorted_by_a_click(self):
        text = self.report("runs/a")
        click = (
            "<script>for (let i = 0; i < 2; i++) [...document.querySelectorAll('table')]"
            ".find(t => t.caption.textContent.startsWith('Seconds')).querySelectorAll('button')[1].click();</script>"
        )
        self.write("clicked.html", text.replace("</body>", click + "</body>"))
        seen = browser.Figures(browser.visit(self.folder / "clicked.html").dom)
        rows = seen.tables["Seconds by part, mean over the ranks that train"][1:]
        values = [float(row[1].replace(",", "")) for row in rows]
        self.assertEqual(values, sorted(values, reverse=True))

    def test_markup_in_files_does_nothing(self):
        config = self.folder / "runs/a/config.toml"
        script = "</pre></title><script>document.title='taken'</script><img src=http://127.0.0.1:9/x>"
        config.write_text(config.read_text().replace('"digits.h5"', json.dumps(script)))
        self.report("runs/a")
        seen = browser.visit(self.folder / "runs/a/report.html")
        self.assertIn("<title>a</title>", seen.dom)
        self.assertEqual((seen.requests, seen.messages), ([], []))

    def test_this_test_would_notice(self):
        self.write("bad.html", "<!DOCTYPE html><script>console.error('oh')</script><img src='http://127.0.0.1:9/x'>")
        seen = browser.visit(self.folder / "bad.html")
        self.assertTrue(any("oh" in message for message in seen.messages))
        self.assertEqual(set(seen.requests), {"http://127.0.0.1:9/x"})


if __name__ == "__main__":
    unittest.main()
