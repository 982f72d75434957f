"""A table of bad settings of searches, cross-validations, studies and reports, each run on one rank and on two: it must
end with its exit code and one message, which says what is wrong and what to do, and leave no folder behind.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import tempfile
import unittest

from harness import BinaryTest, command, finished, messages, settings

OTHER, CONFIGURATION, DATA, CHECKPOINT = 1, 2, 3, 4
TIMEOUT = 60  # seconds
AT_A_TIME = 4

PLAIN = """
name = "test"
seed = 3
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 8 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 2
batch_size = 24
"""
SPACE = '"optimizer.learning_rate" = { log = [1e-3, 0.5] }'
SEARCH = PLAIN + '[search]\nmethod = "random"\ntrials = 3\n[search.space]\n'
FOLDS = PLAIN + "[cross_validation]\nfolds = 3\n"
STUDY = PLAIN + "[study]\nseeds = 2\nvariants = [{ optimizer.learning_rate = 0.1 }]\n"


@dataclasses.dataclass
class Case:
    name: str
    code: int
    message: str  # a regular expression
    command: str
    config: str
    sets: tuple = ()
    ranks: tuple = (0, 2)
    arguments: tuple = ()
    prepare: object = None  # called with the folder


def space(name, message, line, *sets, **more):
    return Case(name, CONFIGURATION, message, "search", SEARCH + line, ("data.validation_fraction=0.2", *sets), **more)


def search(name, message, *sets, code=CONFIGURATION, held_back=0.2, **more):
    sets = (f"data.validation_fraction={held_back}", *sets)
    return Case(name, code, message, "search", SEARCH + SPACE, sets, **more)


def folds(name, message, *sets, code=CONFIGURATION, **more):
    return Case(name, code, message, "cross-validate", FOLDS, tuple(f"cross_validation.{one}" for one in sets), **more)


def folds_of(name, message, *sets, code=CONFIGURATION, **more):
    """Settings of other sections."""
    return Case(name, code, message, "cross-validate", FOLDS, sets, **more)


def study(name, message, *sets, code=CONFIGURATION, **more):
    return Case(name, code, message, "study", STUDY, sets, **more)


def empty_journal(folder):
    (folder / "new/trials/0000").mkdir(parents=True)
    (folder / "new/journal.jsonl").touch()


SPACES = [
    space("an unknown key", r"learning_rte' = 0\.001.*did you mean 'learning_rate'",
          '"optimizer.learning_rte" = { log = [1e-3, 1] }'),
    space("an unknown section", r"did you mean 'optimizer'", '"optimiser.learning_rate" = [0.1]'),
    space("an unknown key of a layer", r"did you mean 'units'", '"model.layers[1].unitss" = [4, 8]'),
    space("a layer that is not there", r"'9' is not an element of 'layers'", '"model.layers[9].units" = [4, 8]'),
    space("a word for a number", r"'batch_size'.*'b', but must be an integer", '"train.batch_size" = [12, "b"]'),
    space("a fraction for an integer", r"'train\.batch_size' = 10\.0.*must be an integer",
          '"train.batch_size" = { linear = [10, 20] }'),
    space("numbers out of range", r"'learning_rate'.*-1, but must be at least 0",
          '"optimizer.learning_rate" = { linear = [-1, 1] }'),
    space("an unknown key within a choice", r"unknown key 'momentm'",
          'optimizer = [{ kind = "sgd", learning_rate = 0.1, momentm = { linear = [0, 0.9] } }]'),
    space("a choice of an unknown kind", r"'admw'.*did you mean 'adamw'",
          'optimizer = [{ kind = "sgd", learning_rate = 0.1 }, { kind = "admw" }]'),
    space("no choices", r"'train\.batch_size' in \[search\.space\] has no choices", '"train.batch_size" = []'),
    space("a choice given twice", r"has the choice 12 twice", '"train.batch_size" = [12, 24, 12]'),
    space("low above high", r"the first number must be below the second",
          '"optimizer.learning_rate" = { linear = [0.5, 0.1] }'),
    space("a logarithm of 0", r"no logarithm at its smallest value", '"optimizer.learning_rate" = { log = [0, 0.1] }'),
    space("an infinite range", r"must have finite ends", '"optimizer.learning_rate" = { log = [1, inf] }'),
    space("three ends", r"takes the smallest and the largest value",
          '"optimizer.learning_rate" = { log = [1e-3, 0.1, 1] }'),
    space("fractions as integers", r"takes whole numbers", '"train.batch_size" = { integers = [1.5, 4] }'),
    space("a step of 0", r"needs a step that is a whole number, at least 1",
          '"train.batch_size" = { integers = [1, 4], step = 0 }'),
    space("an unknown distribution", r"did you mean 'log'", '"optimizer.learning_rate" = { logg = [1e-3, 0.1] }'),
    space("a fixed value", r"is 0\.1, which does not vary", '"optimizer.learning_rate" = 0.1'),
    space("no path of a key", r"is no path of a key", '"optimizer..learning_rate" = [0.1]'),
    space("a key given twice", r"is given twice",
          '"optimizer.learning_rate" = [0.1]\noptimizer."learning_rate" = [0.2]'),
    space("a key within a choice that gives it", r"is also given by the choice",
          'optimizer = [{ kind = "sgd", learning_rate = 0.1 }]\n"optimizer.learning_rate" = [0.1, 0.2]'),
    space("an empty space", r"at least one key that varies", ""),
    space("a seed that varies", r"'seed' cannot vary.*search\.repeats", "seed = [1, 2]"),
    space("a folder that varies", r"'output' cannot vary.*--output", 'output = ["a", "b"]'),
    space("threads that vary", r"'train\.threads' cannot vary.*threads_per_trial", '"train.threads" = [1, 2]'),
    space("threads that vary within a choice", r"'train\.threads' cannot vary",
          "train = [{ epochs = 1, threads = 1 }, { epochs = 2 }]"),
    space("a search that varies", r"'search' cannot vary", '"search.trials" = [1, 2]'),
    space("a set that varies", r"'data\.path' cannot vary", '"data.path" = ["digits.h5", "other.h5"]'),
    space("a validation set that varies", r"'data\.validation_fraction' cannot vary",
          '"data.validation_fraction" = [0.1, 0.2]'),
    space("epochs that vary where the method decides", r"'train\.epochs' cannot vary", '"train.epochs" = [9, 18]',
          "search.method=halving", "search.trials=9", "train.epochs=9"),
]  # fmt: skip

SEARCHES = [
    Case("a bad space of a config that is only trained", CONFIGURATION, r"has no choices", "train",
         SEARCH + '"train.batch_size" = []'),
    Case("no section", CONFIGURATION, r"has no section \[search\]", "search", PLAIN),
    search("an unknown key of the search", r"unknown key 'trails'.*did you mean 'trials'", "search.trails=5"),
    search("no trials", r"'trials' in \[search\] is 0, but must be at least 1", "search.trials=0"),
    search("an unknown method", r"'method' in \[search\] is 'bayes'", "search.method=bayes"),
    search("a metric that the model lacks", r"no such metric; it has loss, accuracy", "search.metric=validation.rmse"),
    search("a metric of the test set", r"search\.metric = \"test\.accuracy\".*test examples",
          "search.metric=test.accuracy"),
    search("a metric of the training set", r"validation examples", "search.metric=train.loss"),
    search("no validation examples", r"has no validation examples.*validation_fraction", held_back=0),
    search("a grid of real numbers", r"grid.*finitely many values", "search.method=grid"),
    search("halving without checkpoints", r"search\.keep = \"none\"", "search.method=halving", "search.keep=none",
           "train.epochs=9", "search.trials=9"),
    search("halving of few epochs", r"train\.epochs = 2 leaves no room", "search.method=halving", "search.trials=9"),
    search("halving of few trials", r"use at least 9 trials", "search.method=halving", "train.epochs=9"),
    search("a population of one", r"less than one trial", "search.method=population", "search.trials=1",
          "train.epochs=9"),
    search("a population with repeats", r"remove repeats", "search.method=population", "search.repeats=2",
          "train.epochs=9"),
    search("groups that do not divide the ranks", r"search\.ranks_per_trial = 3: .*start a multiple of 3",
           "search.ranks_per_trial=3"),
    search("a baseline outside the space", r"is 5\.0, which \[search\.space\] does not have",
           'search.baselines=[{"optimizer.learning_rate" = 5.0}]'),
    search("a baseline of another key", r"'train\.epochs' in search\.baselines is not varied",
           'search.baselines=[{"train.epochs" = 5}]'),
    search("more baselines than trials", r"trials = 1 are fewer than the 2 baselines", "search.trials=1",
           "search.baselines=[{optimizer.learning_rate = 0.1}, {optimizer.learning_rate = 0.2}]"),
    search("two targets", r"target must be one number", "search.target=[1, 2]"),
    search("folds and held-back examples", r"validation_fraction.*remove it", "search.cross_validate=true"),
    search("folds of a streamed set", r"folds need the data set in memory", "search.cross_validate=true",
           "data.reader=streaming", held_back=0),
    search("the median rule without evaluations", r"search\.median_rule.*evaluate_every_epochs",
          "search.median_rule=true",
           "train.evaluate_every_epochs=0"),
    search("stages that the ranks of a trial do not have", r"2 stages do not divide 1 rank", "replica.stages=2",
           "train.micro_batches=2"),
    search("an early stop by an unknown metric", r"early_stopping\.metric = \"rmse\"",
           "train.early_stopping.patience=2",
           "train.early_stopping.metric=rmse"),
    search("no data", r"none\.h5: there is no such file", "data.path=none.h5", code=DATA),
    search("nothing to resume", r"there is nothing to resume", code=CHECKPOINT, arguments=("--resume",)),
    search("a journal without its begin", r"does not begin with a config", code=CHECKPOINT, arguments=("--resume",),
           prepare=empty_journal),
    search("another job's trials without a journal", r"there is 'trials', but no journal", code=OTHER,
           prepare=lambda folder: (folder / "new/trials").mkdir(parents=True)),
    search("a file in place of the folder", r"new: the folder cannot be created", code=OTHER,
           prepare=lambda folder: (folder / "new").touch()),
]  # fmt: skip

CROSS_VALIDATIONS = [
    folds("one fold", r"'folds' in \[cross_validation\] is 1, but must be at least 2", "folds=1"),
    folds("more folds than examples of a class", r"a class has only \d+ training examples", "folds=100"),
    folds("more folds than examples", r"only 240 training examples", "folds=241", "stratified=false"),
    folds("a nested search and a model of all examples", r"remove refit", "nested=true", "refit=true"),
    folds("an unknown way to divide", r"did you mean 'k_fold'", "method=kfold"),
    folds("a key of another way", r"it is a key of 'repeated_k_fold'", "repeats=3"),
    folds("no column of groups", r"has no dataset /train/groups", "method=group_k_fold", code=DATA),
    folds("groups without a name", r"group is empty", "method=group_k_fold", "group="),
    folds("too many fits", r"more than most_fits = 100", "method=leave_one_out", "most_fits=100"),
    folds("pairs, triples, too many", r"leave_p_out.*more than most_fits", "method=leave_p_out", "p=3"),
    folds("more left out than there are", r"p = 300, but there are only 240", "method=leave_p_out", "p=300"),
    folds("all held out", r"'held_out_fraction'.*below 1", "method=shuffle_split", "held_out_fraction=1.0"),
    folds("a gap of everything", r"leaves the first fold no training examples", "method=time_series", "gap=500"),
    folds("an exact solution of a network", r"not linear with squared loss", "solver=exact"),
    folds("ranks that are not there", r"cross_validation\.ranks_per_fold = 3", "ranks_per_fold=3"),
    folds_of("held-back examples", r"validation_fraction = 0\.1.*remove it", "data.validation_fraction=0.1"),
    folds_of("a streamed set", r"folds need the data set in memory", "data.reader=streaming"),
    folds_of("stages of folds", r"replica\.stages", "replica.stages=2", "train.micro_batches=2",
          "cross_validation.ranks_per_fold=2", ranks=(2,)),
    folds_of("a loss of targets for labels", r"needs targets", "model.loss=mean_squared_error"),
]  # fmt: skip

STUDIES = [
    study("a study without variants", r"no variants", "study.variants=[]"),
    study("variants that are no list", r"must be a list of tables", "study.variants=3"),
    study("a variant of a set that is not there", r"none\.h5: there is no such file",
          'study.variants=[{ data.path = "none.h5" }]', code=DATA),
    Case("a range of rates without data", DATA, r"none\.h5: there is no such file", "find-rate", PLAIN,
          ("data.path=none.h5",)),
    study("an unknown key of a variant", r"did you mean 'ranks'", "study.variants=[{ rank = 2 }]"),
    study("a variant on too many ranks", r"start it with mpirun -n 3", "study.variants=[{ ranks = 3 }]"),
    study("a study's unknown strategy", r"did you mean 'averaging'",
          'study.variants=[{ strategy = { kind = "averging" } }]'),
    study("a study's metric that the model lacks", r"metric", "study.metric=test.rmse"),
    study("no study to resume", r"there is no study to resume", code=CHECKPOINT, arguments=("--resume",)),
]  # fmt: skip

TABLES = {"spaces": SPACES, "searches": SEARCHES, "cross_validations": CROSS_VALIDATIONS, "studies": STUDIES}


class BadSearches(BinaryTest):
    def run_case(self, case, ranks):
        """The result, and what the case left behind."""
        with tempfile.TemporaryDirectory(prefix="unisono-test-") as scratch:
            folder = pathlib.Path(scratch)
            os.symlink(self.digits, folder / "digits.h5")
            (folder / "config.toml").write_text(case.config)
            if case.prepare:
                case.prepare(folder)
            before = set(folder.rglob("*"))
            sets = settings(*case.sets)
            words = command(ranks, case.command, "config.toml", "--output", "new", *sets, *case.arguments)
            result = finished(words, folder, TIMEOUT)
            return result, set(folder.rglob("*")) - before

    def check_table(self, name):
        runs = [(case, ranks) for case in TABLES[name] for ranks in case.ranks]
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            outcomes = [pool.submit(self.run_case, *run) for run in runs]
            for (case, ranks), outcome in zip(runs, outcomes):
                with self.subTest(case=case.name, ranks=ranks):
                    result, left = outcome.result()
                    self.assertEqual(result.code, case.code, result)
                    said = messages(result)
                    self.assertEqual(len(said), 1, result)
                    self.assertRegex(said[0], case.message)
                    self.assertEqual(left, set(), result)

    def test_the_table_is_as_long_as_it_should_be_and_names_each_case_once(self):
        names = [case.name for table in TABLES.values() for case in table]
        self.assertGreaterEqual(len(names), 60)
        self.assertEqual(len(names), len(set(names)))


for _name in TABLES:
    setattr(BadSearches, f"test_{_name}", lambda self, name=_name: self.check_table(name))

if __name__ == "__main__":
    unittest.main()
