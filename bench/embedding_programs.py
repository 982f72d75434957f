"""How bench/compare-embeddings runs each of its programs: the same settings for all, and what is timed of each; and how
bench/compare-exchange trains word vectors.

Every function trains on the text, writes vectors in word2vec's text format where `output` says so, and returns the
words a second of training alone. All rates count the same words, those of the vocabulary, before subsampling: programs
report them in different ways, and the share of the text that is done in a second is what they have in common.
"""

import dataclasses
import gzip
import pathlib
import re
import time

import peers

RATES = {"skip_gram": 0.025, "cbow": 0.05}
LINE = 1000  # words
GLOVE_WINDOW = 2  # places
GLOVE_RATE, GLOVE_X_MAX = 0.05, 10
MEASURES = {"WordSim-353": "EN-WS-353-ALL.txt", "SimLex-999": "EN-SIMLEX-999.txt", "analogies": "questions-words.txt"}


def asked(python, tests, text, vectors):
    """What MEASURES say of the vectors, by the files of the folder: Spearman's ρ, and the share of analogies."""
    *similarity, analogies = (tests / name for name in MEASURES.values())
    words = ["--set", text.set, "--analogies", analogies, "--similarity", *similarity]
    result = peers.output_of([python, peers.HERE / "word_quality.py", vectors, *words])
    return [*result["similarity"], result["analogies"]]


@dataclasses.dataclass
class Job:
    """What is trained: "skip_gram" or "cbow", by how many threads, for how many epochs."""

    architecture: str = "skip_gram"
    threads: int = 1
    epochs: int = 1
    seed: int = 1
    ranks: int = 1  # of unisono
    settings: dict = dataclasses.field(default_factory=dict)  # of unisono, besides


class Text:
    """The text, or its first words, in lines; the set that unisono makes of it, and how many words of the vocabulary it
    has."""

    def __init__(self, unisono, source, folder, most=None):
        self.lines, self.set = folder / "text.txt", folder / "text.h5"
        with (gzip.open if source.suffix == ".gz" else open)(source, "rt", encoding="utf-8") as file:
            words = file.read().split(None, most or -1)[:most]
        with open(self.lines, "w", encoding="utf-8") as file:
            file.writelines(" ".join(words[i : i + LINE]) + "\n" for i in range(0, len(words), LINE))
        words = ["--output", self.set, "--overwrite"]
        said = peers.run([unisono, "data", "import", "text", self.lines, *words])
        self.words, self.sentences = map(int, re.search(r"(\d+) training words in (\d+) sentences", said).groups())
        peers.say(said.strip())


class Unisono:
    """`whole_seconds`: how long the last job took with its start and, where `imports`, with an import of the text."""

    def __init__(self, binary, text, folder, mpirun=peers.MPIRUN, imports=False):
        self.imports = imports
        self.binary, self.text, self.run, self.mpirun = binary, text, folder / "run", mpirun

    def __call__(self, job, output=None):
        settings = {
            "data.path": self.text.set,
            "model.architecture": job.architecture,
            "optimizer.learning_rate": RATES[job.architecture],
            "train.epochs": job.epochs,
            "seed": job.seed,
        }
        if job.ranks > 1:
            settings |= {"strategy.kind": "averaging", "train.threads": 1}
        else:
            settings["strategy.threads"] = job.threads
        start = time.perf_counter()
        if self.imports:
            self.import_text(job)
        trained = self.train("word2vec.toml", settings | job.settings, job)
        self.whole_seconds = time.perf_counter() - start
        self.export(output)
        return trained.rate

    def import_text(self, job):
        words = ["--output", self.text.set.with_name("again.h5"), "--overwrite"]
        peers.run(peers.pinned(job.threads, [self.binary, "data", "import", "text", self.text.lines, *words]))

    def train(self, config, settings, job):
        config = peers.ROOT / "configs" / config
        return peers.train(self.binary, config, self.run, settings, job.threads, job.ranks, self.mpirun)

    def export(self, output):
        if output:
            words = ["--format", "word2vec-text", "--output", output, "--overwrite"]
            peers.run([self.binary, "export", self.run, *words])

    def glove(self, pairs, job, output=None):
        """(entries a second, mean cost of an entry in the last epoch)."""
        settings = {"data.path": pairs, "train.epochs": job.epochs, "seed": job.seed, "strategy.threads": job.threads}
        settings |= {"model.x_max": GLOVE_X_MAX, "optimizer.learning_rate": GLOVE_RATE}
        trained = self.train("glove.toml", settings, job)
        self.export(output)
        return trained.rate, trained.summary["train"]["loss"]


class Gensim:
    """In the faster of its two ways to take a text, which is found on the text's beginning. `train_seconds` and
    `whole_seconds`: of the last job, without and with its start, reading the text and counting its words."""

    def __init__(self, python, text, folder):
        self.python, self.text, self.modes = python, text, {}
        self.sample = folder / "sample.txt"
        with open(text.lines, encoding="utf-8") as lines, open(self.sample, "w", encoding="utf-8") as file:
            file.writelines(line for _, line in zip(range(text.sentences // 10), lines))

    def seconds(self, path, mode, job, output=None):
        words = [path, "--mode", mode, "--architecture", job.architecture, "--rate", RATES[job.architecture]]
        words += ["--workers", job.threads, "--epochs", job.epochs, "--seed", job.seed]
        words += ["--output", output] if output else []
        command = peers.pinned(job.threads, [self.python, peers.HERE / "gensim_peer.py", *words])
        return peers.output_of(command, OMP_NUM_THREADS="1")["seconds"]

    def __call__(self, job, output=None):
        case = (job.architecture, job.threads)
        if case not in self.modes:
            tried = {mode: self.seconds(self.sample, mode, Job(*case)) for mode in ("memory", "file")}
            self.modes[case] = min(tried, key=tried.get)
            peers.say(f"gensim, {case[0]}, {case[1]} workers: fastest with the text in '{self.modes[case]}'")
        start = time.perf_counter()
        self.train_seconds = self.seconds(self.text.lines, self.modes[case], job, output)
        self.whole_seconds = time.perf_counter() - start
        return self.text.words * job.epochs / self.train_seconds


class Word2Vec:
    """word2vec.c: from what it says it has done, by our clock (its own is that of all threads' time on the cores)."""

    def __init__(self, folder, text, work):
        self.program, self.text = peers.built(folder, "word2vec", "word2vec"), text
        self.output = work / "word2vec.txt"

    def __call__(self, job, output=None):
        words = ["-train", self.text.lines, "-output", output or self.output, "-cbow", int(job.architecture == "cbow")]
        words += ["-size", 100, "-window", 5, "-negative", 5, "-hs", 0, "-sample", 1e-4, "-min-count", 5]
        words += ["-alpha", RATES[job.architecture], "-threads", job.threads, "-iter", job.epochs, "-binary", 0]
        lines = peers.stamped_lines(peers.pinned(job.threads, [self.program, *words]))
        found = [(when, re.search(r"Progress: ([\d.]+)%  Words/thread/sec", line)) for when, line in lines]
        done = [(when, float(match[1]) / 100) for when, match in found if match]
        (first, none), (last, all_of_it) = done[0], done[-1]
        return self.text.words * job.epochs * (all_of_it - none) / (last - first)


class FastText:
    """fastText without subwords: it reports words/sec/thread, ends of lines counted as words."""

    def __init__(self, folder, text, work):
        self.program, self.text = peers.built(folder, "fasttext", "opt"), text
        self.output = work / "fasttext"

    def __call__(self, job, output=None):
        words = ["skipgram" if job.architecture == "skip_gram" else "cbow", "-input", self.text.lines]
        words += ["-output", self.output, "-dim", 100, "-ws", 5, "-neg", 5, "-loss", "ns", "-t", 1e-4, "-minCount", 5]
        words += ["-minn", 0, "-maxn", 0, "-lr", RATES[job.architecture], "-epoch", job.epochs]
        words += ["-thread", job.threads, "-seed", job.seed]
        lines = peers.stamped_lines(peers.pinned(job.threads, [self.program, *words]))
        reported = re.findall(r"words/sec/thread:\s*(\d+)", " ".join(line for _, line in lines))
        if output:
            pathlib.Path(f"{self.output}.vec").rename(output)
        return int(reported[-1]) * job.threads * self.text.words / (self.text.words + self.text.sentences)


class StanfordGlove:
    """Its own counts of the co-occurrences, shuffled by its own program; timed from iteration to iteration."""

    def __init__(self, folder, text, work):
        self.folder, self.work = peers.built(folder, pathlib.Path("build") / "glove").parent, work
        self.vocabulary, self.pairs = work / "vocabulary.txt", work / "pairs.bin"
        counted = work / "counted.bin"
        self.pipe("vocab_count", text.lines, self.vocabulary, "-min-count", 5, "-verbose", 0)
        options = ["-memory", 4, "-verbose", 0]
        counting = ["-window-size", GLOVE_WINDOW, "-symmetric", 1, "-vocab-file", self.vocabulary]
        self.pipe("cooccur", text.lines, counted, *counting, "-overflow-file", work / "overflow", *options)
        self.pipe("shuffle", counted, self.pairs, "-temp-file", work / "shuffled", "-seed", 1, *options)
        counted.unlink()
        self.entries = self.pairs.stat().st_size // 16

    def pipe(self, program, source, target, *options):
        with open(source, "rb") as stdin, open(target, "wb") as stdout:
            peers.run([self.folder / program, *options], stdin=stdin, stdout=stdout)

    def __call__(self, job, output=None):
        """(entries a second, mean cost of an entry in the last iteration)."""
        vectors = self.work / "stanford"
        words = ["-input-file", self.pairs, "-vocab-file", self.vocabulary, "-save-file", vectors, "-binary", 0]
        words += ["-vector-size", 100, "-threads", job.threads, "-iter", job.epochs, "-eta", GLOVE_RATE]
        words += ["-x-max", GLOVE_X_MAX, "-alpha", 0.75, "-model", 2, "-write-header", 1, "-seed", job.seed]
        lines = peers.stamped_lines(peers.pinned(job.threads, [self.folder / "glove", *words, "-verbose", 2]))
        start = max(when for when, line in lines if line.startswith("alpha:"))
        ends = [(when, match[1]) for when, line in lines if (match := re.search(r"iter: \d+, cost: ([\d.]+)", line))]
        if output:
            vectors.with_suffix(".txt").rename(output)
        return self.entries * job.epochs / (ends[-1][0] - start), float(ends[-1][1])
