"""What is done with trained vectors: exported, searched, tested, and asked for recommendations; checked with numpy."""

import csv
import json
import os
import pathlib
import shutil
import unittest

import h5py
import numpy

from harness import BinaryTest, messages, names_in

TEXT_CONFIG = """
name = "words"
[data]
path = "text.h5"
[model]
kind = "word2vec"
dimension = 10
window = 3
subsample = 0
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 2
batch_size = 2000
[strategy]
kind = "hogwild"
threads = 1
"""

RATINGS_CONFIG = """
name = "ratings"
[data]
path = "ratings.h5"
[model]
kind = "factorization"
dimension = 5
initial_range = 1.0
[optimizer]
kind = "adagrad"
learning_rate = 0.1
[train]
epochs = 3
[strategy]
kind = "serial"
"""

VOCABULARY = 120
QUESTIONS = 300
FEW = 30


def write_text(path, words):
    """Some thousand words; the frequencies fall, so the vocabulary's order is known to none but the importer."""
    random = numpy.random.default_rng(5)
    shares = 1 / numpy.arange(2, words + 2)
    numbers = random.choice(words, size=8000, p=shares / shares.sum())
    lines = [" ".join(f"w{n}" for n in numbers[i : i + 20]) for i in range(0, len(numbers), 20)]
    path.write_text("\n".join(lines) + "\n")


def unit(vectors):
    return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)


def mean_ranks(values):
    """Equal values share the mean of their ranks."""
    return numpy.array([(values < value).sum() + ((values == value).sum() - 1) / 2 for value in values])


class Trained(BinaryTest):
    """A class of tests with one run in `run`, made once. A subclass says how."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls("make_once")
        test.setUp()
        cls.made = test  # its folder stays until the class ends
        test.make()

    @classmethod
    def tearDownClass(cls):
        cls.made.tearDown()
        super().tearDownClass()

    def make_once(self):
        """What setUpClass makes a test of, for its folder."""

    def setUp(self):
        super().setUp()
        if hasattr(type(self), "made"):
            for path in self.made.folder.iterdir():
                if path.name not in ("digits.h5", "config.toml"):
                    copy = shutil.copytree if path.is_dir() else shutil.copy
                    copy(path, self.folder / path.name)

    def fails(self, code, pattern, *arguments):
        result = self.unisono(*arguments)
        self.assertEqual(result.code, code, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertRegex(messages(result)[0], pattern)

    def assert_finished(self):
        self.assertEqual([path.name for path in self.folder.glob("*.tmp")], [])


class WordVectors(Trained):
    def make(self):
        write_text(self.folder / "text.txt", VOCABULARY)
        self.succeed("data", "import", "text", "text.txt", "--minimum-count", "2", "--output", "text.h5")
        self.write("words.toml", TEXT_CONFIG)
        self.train("run", config="words.toml")

    def words(self):
        with h5py.File(self.folder / "text.h5", "r") as file:
            return names_in(file["dictionary/words"])

    def parameters(self):
        return self.vectors("run")["parameters/words.input"]

    # The run's dictionary -------------------------------------------------------------------------------------------

    def test_a_run_needs_its_set_no_longer(self):
        with h5py.File(self.folder / "run/dictionary.h5", "r") as kept, h5py.File(self.folder / "text.h5", "r") as own:
            self.assertEqual(names_in(kept["dictionary/words"]), names_in(own["dictionary/words"]))
            numpy.testing.assert_array_equal(kept["dictionary/counts"], own["dictionary/counts"])
        (self.folder / "text.h5").rename(self.folder / "away.h5")
        self.succeed("neighbors", "run", "w1")
        self.succeed("neighbors", self.checkpoints("run")[0], "w1")
        self.succeed("export", "run", "--format", "npy", "--output", "v.npy")

    def test_names_are_looked_for_in_the_set_where_the_run_lost_them(self):
        (self.folder / "run/dictionary.h5").unlink()
        (self.folder / "run/data.json").unlink()  # this run is a copy of another one, whose set is there
        self.succeed("neighbors", "run", "w1")
        (self.folder / "text.h5").rename(self.folder / "away.h5")
        self.fails(3, r"dictionary\.h5 is missing.*text\.h5: there is no such file", "neighbors", "run", "w1")

    def test_resumed_and_overwritten_runs_have_their_names(self):
        (self.folder / "run/dictionary.h5").unlink()
        self.train("run", "--resume", "--set", "train.epochs=3", config="words.toml")
        self.assertTrue((self.folder / "run/dictionary.h5").exists())
        write_text(self.folder / "text.txt", 50)
        self.succeed("data", "import", "text", "text.txt", "--minimum-count", "2", "--overwrite", "--output", "text.h5")
        shutil.copy(self.folder / "text.h5", self.folder / "run/dictionary.h5")
        self.fails(
            3,
            r"dictionary\.h5 is missing or belongs to another run.*text\.h5 has different names now",
            "neighbors",
            "run",
            "w1",
        )
        self.train("run", "--overwrite", config="words.toml")
        self.succeed("neighbors", "run", "w1")

    # Export ---------------------------------------------------------------------------------------------------------

    def test_every_format_holds_the_models_vectors(self):
        words, vectors = self.words(), self.parameters()
        for format in ("word2vec-text", "word2vec-binary", "npy", "csv"):
            self.succeed("export", "run", "--format", format, "--output", f"v.{format}")
        head, *lines = (self.folder / "v.word2vec-text").read_text().splitlines()
        self.assertEqual(head, f"{len(words)} 10")
        self.assertEqual([line.split(" ")[0] for line in lines], words)
        numpy.testing.assert_array_equal(numpy.array([line.split(" ")[1:] for line in lines], "f4"), vectors)

        binary = (self.folder / "v.word2vec-binary").read_bytes()
        head, rest = binary.split(b"\n", 1)
        self.assertEqual(head, f"{len(words)} 10".encode())
        for word, vector in zip(words, vectors):
            name, rest = rest.split(b" ", 1)
            self.assertEqual(name.decode(), word)
            self.assertEqual(rest[:40], vector.tobytes())
            self.assertEqual(rest[40:41], b"\n")
            rest = rest[41:]
        self.assertEqual(rest, b"")

        loaded = numpy.load(self.folder / "v.npy")
        self.assertEqual(loaded.dtype.str, "<f4")
        numpy.testing.assert_array_equal(loaded, vectors)
        self.assertEqual((self.folder / "v.npy.names.txt").read_text().splitlines(), words)

        with open(self.folder / "v.csv", newline="") as file:
            head, *rows = csv.reader(file)
        self.assertEqual(head, ["name"] + [f"x{k}" for k in range(10)])
        self.assertEqual([row[0] for row in rows], words)
        numpy.testing.assert_array_equal(numpy.array([row[1:] for row in rows], "f4"), vectors)
        self.assert_finished()

    def test_files_are_replaced_only_if_that_is_asked_for(self):
        export = ("export", "run", "--format", "npy", "--output", "v.npy")
        self.write("v.npy.names.txt", "mine")
        self.fails(1, r"v\.npy\.names\.txt: already exists; .*--overwrite", *export)
        self.assertFalse((self.folder / "v.npy").exists())
        self.assertEqual((self.folder / "v.npy.names.txt").read_text(), "mine")
        self.succeed(*export, "--overwrite")
        self.assertEqual(numpy.load(self.folder / "v.npy").shape, self.parameters().shape)
        # What no export has written is not replaced.
        self.write("table.csv", "a,b\n1,2\n")
        table = ("export", "run", "--format", "csv", "--output", "table.csv", "--overwrite")
        self.fails(1, r"table\.csv: exists and is not an exported file, so it is not replaced", *table)
        self.assertEqual((self.folder / "table.csv").read_text(), "a,b\n1,2\n")
        self.assert_finished()

    # Neighbours -----------------------------------------------------------------------------------------------------

    def test_neighbors_are_those_with_the_largest_cosines(self):
        words, vectors = self.words(), unit(self.parameters().astype("f8"))
        answer = json.loads(self.succeed("neighbors", "run", "w3", "w40", "--top", "7", "--json").out)
        self.assertEqual((answer["table"], answer["step"]), ("words", self.summary("run")["steps"]))
        self.assertEqual([one["name"] for one in answer["lists"]], ["w3", "w40"])
        for one in answer["lists"]:
            own = words.index(one["name"])
            cosines = vectors @ vectors[own]
            cosines[own] = -2
            best = numpy.argsort(-cosines)[:7]
            self.assertEqual([neighbor["name"] for neighbor in one["neighbors"]], [words[i] for i in best])
            numpy.testing.assert_allclose(
                [neighbor["cosine"] for neighbor in one["neighbors"]], cosines[best], atol=1e-9
            )
        text = self.succeed("neighbors", "run", "w3", "--top", "2").out.splitlines()
        self.assertEqual(text[0], "w3")
        self.assertRegex(text[1], r"^  w\d+ +-?0\.\d{4}$")
        self.assertEqual(len(text), 3)

    # Analogies and similarities -------------------------------------------------------------------------------------

    def answers(self, given, frequent):
        """3CosAdd of some (a, b, c), in double precision."""
        vectors = unit(self.parameters().astype("f8")[:frequent])
        cosines = (vectors[given[:, 1]] - vectors[given[:, 0]] + vectors[given[:, 2]]) @ vectors.T
        cosines[numpy.arange(len(given))[:, None], given] = -9
        return cosines.argmax(axis=1)

    def write_questions(self, words):
        """In three sections; some capitalised, some of words that there are not. Every second one has the right answer.
        Returns where the words of each stand, -1 where there is no such word."""
        random = numpy.random.default_rng(8)
        questions = random.integers(0, len(words), (QUESTIONS, 4))
        questions[::2, 3] = self.answers(questions[::2, :3], len(words))
        questions[1::4] %= FEW
        questions[1::4, 3] = self.answers(questions[1::4, :3], FEW)  # right among the few most frequent words
        questions[random.random(questions.shape) < 0.03] = -1
        lines = []
        for i, row in enumerate(questions):
            if i % 100 == 0:
                lines.append(f": {'gram' if i == 100 else 'part '}{i}")
            names = " ".join("nobody" if n < 0 else words[n] for n in row)
            lines.append(names.upper() if i % 7 == 0 else names)
        self.write("questions.txt", "\n".join(lines) + "\n")
        return questions

    def test_analogies_are_answered_by_3cosadd_on_any_number_of_ranks(self):
        words = self.words()
        questions = self.write_questions(words)
        for frequent in (FEW, len(words)):
            known = ((questions >= 0) & (questions < frequent)).all(axis=1)
            right = numpy.zeros(QUESTIONS, bool)
            right[known] = self.answers(questions[known][:, :3], frequent) == questions[known][:, 3]
            expected = [(known[i : i + 100].sum(), right[i : i + 100].sum()) for i in (0, 100, 200)]
            self.assertGreater(right.sum(), 50)
            for ranks in (0, 2, 3):
                arguments = ("evaluate", "run", "--analogies", "questions.txt", "--words", frequent, "--json")
                (result,) = json.loads(self.succeed(*arguments, ranks=ranks).out)["analogies"]
                sections = {section["name"]: section for section in result["sections"]}
                self.assertEqual(list(sections), ["part 0", "gram100", "part 200", "semantic", "syntactic", "total"])
                self.assertEqual([(s["found"], s["right"]) for s in result["sections"][:3]], expected)
                self.assertEqual(sections["syntactic"]["right"], expected[1][1])
                self.assertEqual((result["words"], result["total"]["questions"]), (frequent, QUESTIONS))
                self.assertEqual(result["total"]["right"], right.sum())
                self.assertAlmostEqual(result["total"]["accuracy"], right.sum() / known.sum(), places=12)
        text = self.succeed("evaluate", "run", "--analogies", "questions.txt").out
        self.assertRegex(text, rf"analogies among the {len(words)} most frequent words, in lower case.*, in \d+\.\d s")
        self.assertRegex(text, r"  total +\d+\.\d\d % +\d+ of +\d+ right, of +300 questions")

    def test_similarity_is_spearmans_correlation_on_any_number_of_ranks(self):
        random = numpy.random.default_rng(4)
        rows, scores, place = [], [], {word: i for i, word in enumerate(self.words())}
        vectors = unit(self.parameters().astype("f8"))
        cosines = []
        for _ in range(90):
            a, b = (f"w{n}" for n in random.integers(0, VOCABULARY + 10, 2))
            score = random.integers(0, 20) / 2  # with ties
            rows.append(f"{a}\t{b.upper()} {score}")
            if a in place and b in place:
                scores.append(score)
                cosines.append(vectors[place[a]] @ vectors[place[b]])
        self.write("pairs.txt", "# scores\n" + "\n".join(rows) + "\n")
        expected = numpy.corrcoef(mean_ranks(numpy.array(scores)), mean_ranks(numpy.array(cosines)))[0, 1]
        for ranks in (0, 2):
            arguments = ("evaluate", "run", "--similarity", "pairs.txt", "--json")
            (result,) = json.loads(self.succeed(*arguments, ranks=ranks).out)["similarity"]
            self.assertEqual((result["pairs"], result["found"]), (90, len(scores)))
            self.assertAlmostEqual(result["spearman"], expected, places=12)

    def test_the_loss_of_text_is_evaluated_too(self):
        one = json.loads(self.succeed("evaluate", "run", "--json").out)
        two = json.loads(self.succeed("evaluate", "run", "--json", ranks=2).out)
        self.assertGreater(one["loss"], 0)
        self.assertLess(one["loss"], 0.7)
        self.assertEqual(one["examples"], two["examples"])
        self.assertAlmostEqual(one["loss"], two["loss"], delta=0.05)  # another choice of windows


class SmallTexts(BinaryTest):
    """Texts from which nothing, or little, can be learnt."""

    def imported(self, text):
        self.write("text.txt", text)
        self.succeed("data", "import", "text", "text.txt", "--minimum-count", "1", "--output", "text.h5", "--overwrite")
        self.write("words.toml", TEXT_CONFIG)

    def test_a_text_without_pairs_is_refused(self):
        self.imported("one\ntwo\nthree\n" * 50)
        for ranks in (0, 2):
            result = self.unisono("train", "words.toml", ranks=ranks)
            self.assertEqual(result.code, 3, result)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertRegex(messages(result)[0], "text.h5: no training sentence has two or more words.*minimum-count")
        result = self.unisono("data", "cooccurrences", "text.h5", "--output", "c.h5")
        self.assertEqual(result.code, 3, result)
        self.assertRegex(messages(result)[0], "text.h5: no sentence has two or more words")

    def test_metrics_of_test_sentences_without_pairs_are_undefined(self):
        self.imported("one two three\n" * 50)
        with h5py.File(self.folder / "text.h5", "a") as file:
            file["test/words"], file["test/sentences"] = numpy.zeros(3, "i4"), numpy.arange(4).astype("u8")
        result = self.train("run", config="words.toml")
        said = "no test sentence has two or more words; all metrics of this split are undefined"
        self.assertIn(said, result.out + result.err)
        self.assertEqual(self.summary("run")["test"], {"loss": None})

    def test_a_loss_over_no_pairs_is_undefined(self):
        """All pairs of the only test sentence are left out by subsampling."""
        self.imported("one two three\n" * 50)
        with h5py.File(self.folder / "text.h5", "a") as file:
            file["test/words"], file["test/sentences"] = numpy.zeros(2, "i4"), numpy.array([0, 2], "u8")
        result = self.train("run", "--set", "model.subsample=1e-12", config="words.toml")
        summary = self.summary("run")
        self.assertEqual((summary["status"], summary["test"]), ("complete", {"loss": None}))
        self.assertIn("test loss undefined", result.out)

    def test_small_texts_and_vectors_that_are_alike_are_warned_of(self):
        write_text(self.folder / "text.txt", VOCABULARY)
        self.succeed("data", "import", "text", "text.txt", "--minimum-count", "1", "--output", "text.h5")
        self.write("words.toml", TEXT_CONFIG)
        few = ("--set", "train.epochs=1", "--set", "optimizer.learning_rate=1e-4")
        small = "warning: text.h5: the training text has 8,000 words; vectors of words from less than some 100,000"
        for run, words, are_alike in (("few", few, False), ("alike", (), True)):
            result = self.train(run, *words, config="words.toml")
            self.assertIn(small, result.err)
            vectors = unit(self.vectors(run)["parameters/words.input"].astype(float))
            n = len(vectors)
            mean = (numpy.square(vectors.sum(axis=0)).sum() - n) / (n * (n - 1))
            self.assertEqual(mean > 0.9, are_alike)
            said = f"vectors of words are nearly alike: the mean cosine of two words is {mean:.3f}"
            self.assertEqual(said in result.err, are_alike, result)
            self.assertEqual("nearly alike" in result.err, are_alike)


class Ratings(Trained):
    USERS, ITEMS = 40, 25

    def make(self):
        random = numpy.random.default_rng(6)
        lines = []
        for user in range(self.USERS):
            for item in random.choice(self.ITEMS, size=8 if user else self.ITEMS - 2, replace=False):
                lines.append(f'user {user}, jr.\tItem "{item}"\t{random.integers(1, 6)}')
        random.shuffle(lines)
        self.write("ratings.tsv", "\n".join(lines) + "\n")
        self.succeed(
            *("data", "import", "ratings", "ratings.tsv", "--header", "no", "--delimiter", "tab"),
            *("--split", "random", "--test-fraction", "0.2", "--output", "ratings.h5"),
        )
        self.write("ratings.toml", RATINGS_CONFIG)
        self.train("run", config="ratings.toml")

    def setUp(self):
        super().setUp()
        if not (self.folder / "ratings.h5").exists():
            return
        with h5py.File(self.folder / "ratings.h5", "r") as file:
            self.users = names_in(file["dictionary/users"])
            self.items = names_in(file["dictionary/items"])
            self.rated = {tuple(pair) for pair in zip(file["train/users"][:], file["train/items"][:])}
            self.asked = list(zip(file["test/users"][:], file["test/items"][:]))
            self.mean = file["train/ratings"][:].astype("f8").mean()

    def scores(self):
        theta = {name[len("parameters/") :]: values.astype("f8") for name, values in self.vectors("run").items()}
        return (
            self.mean
            + theta["users.bias"][:, None]
            + theta["items.bias"][None, :]
            + theta["users.factors"] @ theta["items.factors"].T
        )

    def best(self, user, top):
        scores = self.scores()[user]
        left = [item for item in numpy.argsort(-scores) if (user, item) not in self.rated]
        return left[:top], scores[left[:top]]

    def table(self, name):
        with open(self.folder / name, newline="") as file:
            return list(csv.reader(file))

    def test_predicted_ratings_name_user_and_item(self):
        scores = self.scores()
        for ranks in (0, 2):
            self.succeed("predict", "run", "--output", "pairs.csv", "--overwrite", ranks=ranks)
            head, *rows = self.table("pairs.csv")
            self.assertEqual(head, ["example", "user", "item", "rating", "y0"])
            self.assertEqual([row[1:3] for row in rows], [[self.users[u], self.items[i]] for u, i in self.asked])
            numpy.testing.assert_allclose(
                [float(row[4]) for row in rows], [scores[u, i] for u, i in self.asked], atol=1e-4
            )
            self.succeed("predict", "run", "--output", "pairs.h5", "--overwrite", ranks=ranks)
            with h5py.File(self.folder / "pairs.h5", "r") as file:
                numpy.testing.assert_array_equal(
                    file["predictions"][:, 0], numpy.array([row[4] for row in rows], numpy.float32)
                )

    def test_an_evaluation_gives_the_runs_own_figures(self):
        for ranks in (0, 2):
            figures = json.loads(self.succeed("evaluate", "run", "--json", ranks=ranks).out)
            self.assertAlmostEqual(figures["rmse"], self.summary("run")["test"]["rmse"], places=6)
            errors = []
            with h5py.File(self.folder / "ratings.h5", "r") as file:
                errors = [self.scores()[u, i] - r for (u, i), r in zip(self.asked, file["test/ratings"])]
            self.assertAlmostEqual(figures["rmse"], float(numpy.sqrt(numpy.mean(numpy.square(errors)))), places=5)

    def test_the_best_items_are_those_that_a_user_has_not_rated(self):
        for ranks in (0, 2, 3):
            self.succeed("predict", "run", "--top", "9", "--output", "top.csv", "--overwrite", ranks=ranks)
            head, *rows = self.table("top.csv")
            self.assertEqual(head, ["user", "rank", "item", "score"])
            expected = [(user, *self.best(user, 9)) for user in range(self.USERS)]
            self.assertEqual(
                [row[:3] for row in rows],
                [
                    [self.users[user], str(k + 1), self.items[item]]
                    for user, items, _ in expected
                    for k, item in enumerate(items)
                ],
            )
            numpy.testing.assert_allclose(
                [float(row[3]) for row in rows], numpy.concatenate([scores for _, _, scores in expected]), atol=1e-4
            )
        # One user has rated nearly all items.
        self.assertLess(len(rows), 9 * self.USERS)
        self.assert_finished()

    def test_users_can_be_named(self):
        chosen = [self.users[7], self.users[3]]
        self.write("users.txt", "\n".join(chosen) + "\r\n\n")
        self.succeed("predict", "run", "--top", "4", "--users-file", "users.txt", "--output", "top.h5")
        with h5py.File(self.folder / "top.h5", "r") as file:
            names = file["dictionary/users"].asstr()[:]
            self.assertEqual([names[user] for user in file["users"]], chosen)
            for row, user in enumerate((7, 3)):
                items, scores = self.best(user, 4)
                numpy.testing.assert_array_equal(file["items"][row], items)
                numpy.testing.assert_allclose(file["scores"][row], scores, atol=1e-4)
        self.fails(
            3,
            r"'user 9, jx\.' is not among the 40 users .* did you mean 'user 9, jr\.'",
            *("predict", "run", "--top", "4", "--users-file", self.write("x.txt", "user 9, jx."), "--output", "x.csv"),
        )

    def test_users_and_items_have_vectors_to_export_and_to_compare(self):
        self.fails(2, r"vectors of users and of items; choose with --table", "neighbors", "run", 'Item "1"')
        answer = json.loads(
            self.succeed("neighbors", "run", 'Item "1"', "--table", "items", "--top", "3", "--json").out
        )
        vectors = unit(self.vectors("run")["parameters/items.factors"].astype("f8"))
        own = self.items.index('Item "1"')
        best = [item for item in numpy.argsort(-(vectors @ vectors[own])) if item != own][:3]
        self.assertEqual([n["name"] for n in answer["lists"][0]["neighbors"]], [self.items[item] for item in best])
        self.succeed("export", "run", "--table", "users", "--format", "csv", "--output", "users.csv")
        self.assertEqual([row[0] for row in self.table("users.csv")[1:]], self.users)
        self.fails(
            3,
            r"the name 'user .*' \(number 0\) is empty or contains a space.*npy or csv",
            *("export", "run", "--table", "users", "--format", "word2vec-text", "--output", "users.txt"),
        )
        self.assert_finished()


class LinearWeights(Trained):
    def make(self):
        lines = [f"{label} 1:{x} 3:{-x if label else x}" for x in (1, 2, 3) for label in (0, 1)]
        self.write("rows.txt", "\n".join(lines) + "\n")
        self.succeed("data", "import", "libsvm", "rows.txt", "--output", "rows.h5")
        self.write(
            "linear.toml",
            'name = "linear"\n[data]\npath = "rows.h5"\n[model]\nkind = "linear"\n[optimizer]\nkind = "sgd"\n'
            'learning_rate = 0.1\n[train]\nepochs = 3\n[strategy]\nkind = "serial"\n',
        )
        self.train("run", config="linear.toml")

    def test_weights_are_exported_by_the_number_of_their_feature(self):
        self.succeed("export", "run", "--table", "features", "--format", "csv", "--output", "weights.csv")
        with open(self.folder / "weights.csv", newline="") as file:
            head, *rows = csv.reader(file)
        self.assertEqual([head] + [[row[0]] for row in rows], [["name", "x0"], ["0"], ["1"], ["2"]])
        theta = self.vectors("run")
        numpy.testing.assert_array_equal(
            numpy.array([row[1] for row in rows], "f4"), theta["parameters/linear.weight"].reshape(-1)
        )
        self.succeed("export", "run", "--table", "bias", "--format", "npy", "--output", "bias.npy")
        numpy.testing.assert_array_equal(
            numpy.load(self.folder / "bias.npy").reshape(-1), theta["parameters/linear.bias"].reshape(-1)
        )
        result = self.unisono("evaluate", "run", "--analogies", "rows.txt", ranks=2)
        self.assertEqual(result.code, 2, result)
        self.assertEqual(len(messages(result)), 1, result)


class Wikipedia(BinaryTest):
    """One epoch of a hundred million letters, where UNISONO_DATA has them: some ten seconds."""

    def test_words_know_what_people_know(self):
        data = pathlib.Path(os.environ.get("UNISONO_DATA", "/nowhere"))
        if not (data / "wiki8").exists():
            self.skipTest("UNISONO_DATA names no folder with wiki8/ and word-eval/")
        self.succeed(*("data", "import", "text", data / "wiki8/wiki8.gz", "--output", "text.h5"))
        self.write("words.toml", TEXT_CONFIG.replace("dimension = 10", "dimension = 100").replace("= 0\n", "= 1e-4\n"))
        settings = ("train.epochs=1", "train.batch_size=0", "strategy.threads=2", "optimizer.learning_rate=0.025")
        self.train("run", *(word for setting in settings for word in ("--set", setting)), config="words.toml")
        tests = [data / "word-eval" / name for name in ("questions-words.txt", "EN-WS-353-ALL.txt")]
        result = json.loads(
            self.succeed("evaluate", "run", "--json", "--analogies", tests[0], "--similarity", tests[1]).out
        )
        # By chance one analogy of 30,000 is right, and ρ is 0; after three epochs it is 0.3 and 0.64.
        self.assertGreater(result["analogies"][0]["total"]["accuracy"], 0.05)
        self.assertGreater(result["similarity"][0]["spearman"], 0.5)


if __name__ == "__main__":
    unittest.main()
