"""A table of bad inputs, each run through the binary on one rank, and some on two: it must end with its exit code and
one message, which says what is wrong, where, and what to do; with no crash or hang, and with an earlier run left whole.
"""

import concurrent.futures
import dataclasses
import gzip
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import tempfile
import unittest
from typing import Callable, Optional

import h5py
import numpy

from harness import BINARY, CONFIG, MPIRUN, BinaryTest, command, draw_digits, finished, messages

OTHER, USAGE, CONFIGURATION, DATA, CHECKPOINT, COMMUNICATION = 1, 2, 2, 3, 4, 5
TIMEOUT = 60  # seconds
AT_A_TIME = 4  # runs: they mostly wait for MPI to start and to end
FILE_LIMIT = 16 << 20  # bytes; Open MPI's own files, of some 10 MiB, must still fit


@dataclasses.dataclass
class Case:
    name: str
    code: int
    message: str  # a regular expression
    arguments: tuple
    prepare: Optional[Callable[[pathlib.Path], None]] = None
    environment: Optional[dict] = None
    ranks: tuple = (0, 2)
    limited: bool = False  # no file may grow beyond FILE_LIMIT


TRAIN = ("train", "config.toml", "--overwrite", "--output", "earlier")
TRAIN_NEW = ("train", "config.toml", "--output", "new")
CONVOLUTION = '{ kind = "convolution", channels = 4, kernel = 5, stride = 2, bias = false }'


# Configs -------------------------------------------------------------------------------------------------------------


def config(name, message, change=None, *, sets=(), code=CONFIGURATION, prepare=None):
    """Training with the usual config, in which something was replaced or overridden."""

    def write(folder):
        text = CONFIG
        if change:
            assert change[0] in text, change
            text = text.replace(*change)
        (folder / "config.toml").write_text(text)
        if prepare:
            prepare(folder)

    return Case(name, code, message, (*TRAIN, *(word for value in sets for word in ("--set", value))), write)


def layers(name, message, text, code=CONFIGURATION):
    return config(name, message, sets=[f"model.layers=[{text}]"], code=code)


END = '{kind="flatten"},{kind="dense",units=10}'

CONFIGS = [
    config(
        "unknown key",
        r"config\.toml:\d+:\d+: unknown key 'learning_rte'.*did you mean 'learning_rate'",
        ("learning_rate", "learning_rte"),
    ),
    config(
        "unknown section",
        r"config\.toml:\d+:\d+: unknown key 'optimiser'.*did you mean 'optimizer'",
        ("[optimizer]", "[optimiser]"),
    ),
    config(
        "unknown key of a layer",
        r"unknown key 'chanels'.*layers\[0\].*did you mean 'channels'",
        ("channels", "chanels"),
    ),
    config(
        "a key of another kind",
        r"'adam' has no such key, it is a key of 'sgd', 'lars'",
        ("learning_rate", "momentum = 0.9\nlearning_rate"),
    ),
    config(
        "a string for an integer",
        r"'epochs' in \[train\] must be an integer, not the string 'two'",
        ("epochs = 2", 'epochs = "two"'),
    ),
    config("a fraction for an integer", r"'epochs' in \[train\] must be an integer", ("epochs = 2", "epochs = 1.5")),
    config(
        "a table for a number",
        r"'batch_size' in \[train\] must be an integer or 'largest', not a table",
        ("batch_size = 24", "batch_size = {}"),
    ),
    config("no epochs", r"epochs = 0 makes a run that does not train", ("epochs = 2", "epochs = 0")),
    config(
        "a negative batch", r"'batch_size' in \[train\] is -1, but must be at least 0", sets=["train.batch_size=-1"]
    ),
    config("a batch beyond all bounds", r"'batch_size' in \[train\]", sets=["train.batch_size=1099511627776"]),
    config("a negative rate", r"'learning_rate' in \[optimizer\] is -0\.01", sets=["optimizer.learning_rate=-0.01"]),
    config("an infinite rate", r"'learning_rate' in \[optimizer\] is inf", sets=["optimizer.learning_rate=inf"]),
    config("a negative seed", r"'seed'.* is -1, but must be at least 0", ("seed = 3", "seed = -1")),
    config(
        "a validation fraction of all", r"'validation_fraction' in \[data\] is 1", sets=["data.validation_fraction=1.0"]
    ),
    config("no TOML", r"config\.toml:\d+:\d+: the bracket \] is missing at the end of", ("[train]", "[train")),
    config(
        "a key given twice",
        r"config\.toml:\d+:\d+: the key 'epochs' is given twice \(the first is in line \d+\)",
        ("epochs = 2", "epochs = 2\nepochs = 3"),
    ),
    config("no name", r"missing key 'name'", ('name = "test"', "")),
    config(
        "a name that is no folder's",
        r"config\.toml:\d+:\d+.*name must be usable as a folder name",
        ('"test"', '"a/b"'),
    ),
    config("no data", r"missing key 'path' in \[data\]", ('path = "digits.h5"', "")),
    config(
        "an unknown optimizer",
        r"'kind' in \[optimizer\] is 'adaam', which does not exist; did you mean 'adam'",
        ('"adam"', '"adaam"'),
    ),
    config(
        "an unknown strategy",
        r"'kind' in \[strategy\] is 'alreduce'.*did you mean 'allreduce'",
        sets=["strategy.kind=alreduce"],
    ),
    config("an unknown schedule", r"'kind' in \[schedule\].*'cosine'", sets=["schedule.kind=sinus"]),
    config(
        "an unknown loss",
        r"'loss' in \[model\] is 'hinge'.*'softmax_cross_entropy'",
        ("softmax_cross_entropy", "hinge"),
    ),
    config("an unknown model", r"'kind' in \[model\] is 'forest'", ('kind = "network"', 'kind = "forest"')),
    layers(
        "an unknown layer", r"'kind' in model\.layers\[0\] is 'dens'.*did you mean 'dense'", '{kind="dens",units=10}'
    ),
    layers("no layers", r"no layers.*at least one|at least one", ""),
    layers("a layer that is no table", r"array of tables, but element 0 is the string 'dense'", '"dense"'),
    layers(
        "a dense layer without units", r"missing key 'units' in model\.layers\[1\]", '{kind="flatten"},{kind="dense"}'
    ),
    layers(
        "a kernel larger than the image",
        r"convolution1.*the kernel spans 29",
        '{kind="convolution",channels=2,kernel=29},' + END,
    ),
    layers(
        "a window larger than the image",
        r"max_pool1.*the window 40.* is larger than the input",
        '{kind="max_pool",size=40},' + END,
    ),
    layers(
        "groups that do not divide the channels",
        r"convolution1.*groups",
        '{kind="convolution",channels=3,kernel=3,groups=2},' + END,
    ),
    layers(
        "a kernel of three extents", r"'kernel' has 3 numbers", '{kind="convolution",channels=3,kernel=[3,3,3]},' + END
    ),
    layers(
        "two layers of one name",
        r"another layer has this name already",
        '{kind="dense",units=4,name="a"},{kind="dense",units=10,name="a"}',
    ),
    layers("nothing dropped out is kept", r"'rate' in model\.layers\[0\] is 1", '{kind="dropout",rate=1.0},' + END),
    layers("too few outputs", r"9.*10 classes|10 classes.*9", '{kind="flatten"},{kind="dense",units=9}'),
    layers("images at the end", r"softmax_cross_entropy|outputs", '{kind="convolution",channels=10,kernel=3}'),
    config(
        "a loss that the data cannot serve", r"mean_squared_error needs targets", sets=["model.loss=mean_squared_error"]
    ),
    config(
        "batch statistics over ranks that are not in step",
        r"statistics.*averaging|statistics.*step",
        ('kind = "batch_norm"', 'kind = "batch_norm", statistics = "global"'),
        sets=["strategy.kind=averaging"],
    ),
    config("more micro-batches than examples", r"accumulate is larger than batch_size", sets=["train.accumulate=25"]),
    config("more parts than examples", r"micro_batches is larger than batch_size", sets=["train.micro_batches=25"]),
    Case(
        "more micro-batches than examples in a batch of the default size",
        CONFIGURATION,
        r"train.micro_batches is larger than the batch, which has 64 examples",
        ("train", "config.toml", "--unset", "train.batch_size", "--set", "train.micro_batches=65"),
    ),
    config(
        "two ways to divide a step",
        r"accumulate and micro_batches both divide the batch of a step",
        sets=["train.accumulate=2", "train.micro_batches=2"],
    ),
    config(
        "a warm-up longer than the run",
        r"warmup_epochs is larger than train\.epochs",
        sets=["schedule.warmup_epochs=3"],
    ),
    config(
        "nothing left to average",
        r"allreduce_epochs is larger than train\.epochs",
        sets=["strategy.kind=averaging", "strategy.allreduce_epochs=3"],
    ),
    config(
        "an override of an unknown key",
        r"--set train\.epoch=3.*unknown key 'epoch'.*did you mean 'epochs'",
        sets=["train.epoch=3"],
    ),
    config(
        "an override without a value", r"--set train\.epochs: a key and its value are expected", sets=["train.epochs"]
    ),
    config("an override of a number's part", r"--set seed\.x=1: 'seed' is not a table", sets=["seed.x=1"]),
    config(
        "an override of an element that is not there",
        r"--set model\.layers\.9\.units=1",
        sets=["model.layers.9.units=1"],
    ),
    Case(
        "a rate that explodes",
        OTHER,
        r"the loss is (nan|-?inf) at step \d+, with optimizer.learning_rate = 1e\+38.*clip_norm",
        (*TRAIN_NEW, "--set", "optimizer.kind=sgd", "--set", "optimizer.learning_rate=1e38"),
    ),
    Case("no such config", CONFIGURATION, r"none\.toml: cannot be read: No such file", ("train", "none.toml")),
    Case("an endless config", CONFIGURATION, r"/dev/zero: is not a config file", ("config", "check", "/dev/zero")),
    Case("a folder for a config", CONFIGURATION, r"earlier: is a folder that holds no run", ("train", "earlier")),
    Case("a binary file for a config", CONFIGURATION, r"digits\.h5.*not text in UTF-8", ("train", "digits.h5")),
]

# Command lines -------------------------------------------------------------------------------------------------------

USAGES = [
    Case("no command", USAGE, r"usage error: .*subcommand", ()),
    Case(
        "an unknown command",
        USAGE,
        r"usage error: there is no command 'trian'; did you mean 'train'",
        ("trian", "config.toml"),
    ),
    Case("an unknown option", USAGE, r"usage error: .*--epochs", ("train", "config.toml", "--epochs", "3")),
    Case("no config", USAGE, r"usage error: .*config is required", ("train",)),
    Case(
        "go on and start anew", USAGE, r"usage error: .*--resume", ("train", "config.toml", "--resume", "--overwrite")
    ),
    Case(
        "two ways to scale",
        USAGE,
        r"usage error: .*--standardize",
        ("data", "import", "csv", "t.csv", "--output", "t.h5", "--standardize", "--scale", "min_max"),
    ),
    Case("steps that are no number", USAGE, r"usage error: .*--steps", ("bench", "config.toml", "--steps", "many")),
    Case(
        "a shape that is none",
        CONFIGURATION,
        r"--features 3x32: it must be CxHxW",
        ("bench", "config.toml", "--features", "3x32"),
    ),
    Case(
        "a seed below zero",
        USAGE,
        r"usage error: --seed: -1 is below 0",
        ("data", "digits", "--seed", "-1", "--output", "new.h5"),
    ),
    Case("a split that is none", USAGE, r"usage error: .*--split", ("evaluate", "earlier", "--split", "half")),
]

# Data ----------------------------------------------------------------------------------------------------------------


def data(name, message, change):
    """Training on a set in which something is wrong. `change` gets the file, opened for writing."""

    def make(folder):
        path = folder / "bad.h5"
        with h5py.File(folder / "digits.h5", "r") as digits, h5py.File(path, "w") as bad:
            for group in ("train", "test"):
                for kind in ("features", "labels"):
                    bad[f"{group}/{kind}"] = digits[f"{group}/{kind}"][:]
            change(bad)

    return Case(name, DATA, message, (*TRAIN, "--set", "data.path=bad.h5"), make)


def replace(file, name, values):
    del file[name]
    file[name] = values


def poke(name, index, value, kind=numpy.float32):
    def change(file):
        values = file[name][:].astype(kind)
        values.reshape(-1)[index] = value
        replace(file, name, values)

    return change


def raw(name, message, content, path="bad.h5"):
    def make(folder):
        whole = (folder / "digits.h5").read_bytes()
        (folder / path).write_bytes(content(whole))

    return Case(name, DATA, message, (*TRAIN, "--set", f"data.path={path}"), make)


DATASETS = [
    Case("no such data", DATA, r"none\.h5: there is no such file", (*TRAIN, "--set", "data.path=none.h5")),
    Case("a folder for data", DATA, r"earlier: this is a folder", (*TRAIN, "--set", "data.path=earlier")),
    raw("an empty file", r"bad\.h5: this is not an HDF5 file", lambda whole: b""),
    raw("text for data", r"bad\.h5: this is not an HDF5 file", lambda whole: b"1,2,3\n" * 99),
    raw("a wrong magic number", r"bad\.h5: was changed or damaged", lambda whole: b"\0" + whole[1:]),
    raw("half a file", r"bad\.h5: cannot be opened.*damaged", lambda whole: whole[: len(whole) // 2]),
    raw("a file cut at its very end", r"bad\.h5: .*its checksum is cut off or damaged", lambda whole: whole[:-1]),
    data("no training group", r"bad\.h5: has no group 'train'", lambda file: file.move("train", "training")),
    data("no features", r"bad\.h5: /train", lambda file: file.__delitem__("train/features")),
    data("no labels", r"bad\.h5: /train", lambda file: file.__delitem__("train/labels")),
    data(
        "fewer labels than examples",
        r"bad\.h5: /train/labels.* 239 .*240",
        lambda file: replace(file, "train/labels", file["train/labels"][:-1]),
    ),
    data(
        "no examples",
        r"bad\.h5: /train",
        lambda file: (
            replace(file, "train/features", numpy.zeros((0, 28, 28), numpy.uint8)),
            replace(file, "train/labels", numpy.zeros(0, numpy.uint8)),
        ),
    ),
    data(
        "a negative label",
        r"bad\.h5: /train/labels: example 7 has the label -1",
        poke("train/labels", 7, -1, numpy.int32),
    ),
    data("a fractional label", r"bad\.h5: /train/labels", poke("train/labels", 7, 0.5)),
    data(
        "labels that are words",
        r"bad\.h5: /train/labels",
        lambda file: replace(file, "train/labels", numpy.array([b"cat"] * 240)),
    ),
    data(
        "labels in two columns",
        r"bad\.h5: /train/labels",
        lambda file: replace(file, "train/labels", numpy.zeros((240, 2), numpy.uint8)),
    ),
    data("a test label that training never had", r"bad\.h5: /test/labels", poke("test/labels", 3, 10, numpy.int32)),
    data(
        "a NaN",
        r"bad\.h5: /train/features: example 5 holds a value that is not finite.*position 30",
        poke("train/features", 5 * 784 + 30, numpy.nan),
    ),
    data(
        "an infinite value", r"bad\.h5: /train/features: example 0 .*not finite", poke("train/features", 0, numpy.inf)
    ),
    data(
        "test examples of another shape",
        r"bad\.h5: /test/features",
        lambda file: replace(file, "test/features", file["test/features"][:, :27]),
    ),
    data(
        "features that are words",
        r"bad\.h5: /train/features",
        lambda file: replace(file, "train/features", numpy.array([b"x"] * 240)),
    ),
    data(
        "features of one extent",
        r"bad\.h5: .*/train/features",
        lambda file: replace(file, "train/features", numpy.zeros(240, numpy.float32)),
    ),
    data(
        "a set that was written in part",
        r"bad\.h5: /train/features has shape \[240, 28, 28\], but parts of it were never written",
        lambda file: (
            file["train"].__delitem__("features"),
            file.create_dataset("train/features", (240, 28, 28), "u1", chunks=(100, 28, 28)).write_direct(
                numpy.ones((200, 28, 28), "u1"), dest_sel=numpy.s_[:200]
            ),
        ),
    ),
    data(
        "labels that were never written",
        r"bad\.h5: /train/labels has shape \[240\], but parts of it were never written",
        lambda file: (file["train"].__delitem__("labels"), file.create_dataset("train/labels", (240,), "u1")),
    ),
    data(
        "a compression that is not installed",
        r"bad\.h5: /train/features is compressed with the filter 'lzf' \(32000\), which is not installed",
        lambda file: file.create_dataset("train/lzf", data=file["train/features"][:], compression="lzf")
        and (file.__delitem__("train/features"), file.move("train/lzf", "train/features")),
    ),
    Case(
        "to describe what is no set",
        DATA,
        r"config\.toml: this is not an HDF5 file",
        ("data", "describe", "config.toml"),
    ),
]

# Importers -----------------------------------------------------------------------------------------------------------


def idx(values):
    return b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def idx_case(name, message, change):
    def make(folder):
        (folder / "idx").mkdir()
        files = {
            "train-images-idx3-ubyte": idx(numpy.zeros((5, 4, 4), numpy.uint8)),
            "train-labels-idx1-ubyte": idx(numpy.zeros(5, numpy.uint8)),
        }
        change(files)
        for file, content in files.items():
            (folder / "idx" / file).write_bytes(content)

    return Case(name, DATA, message, ("data", "import", "idx", "idx", "--output", "new.h5"), make)


def csv_case(name, message, text, *options, code=DATA):
    def make(folder):
        (folder / "table.csv").write_text(text)

    return Case(name, code, message, ("data", "import", "csv", "table.csv", "--output", "new.h5", *options), make)


def cifar_case(name, message, content):
    def make(folder):
        (folder / "cifar").mkdir()
        for i in range(1, 6):
            (folder / "cifar" / f"data_batch_{i}.bin").write_bytes(content)
        (folder / "cifar" / "test_batch.bin").write_bytes(content)

    return Case(name, DATA, message, ("data", "import", "cifar10", "cifar", "--output", "new.h5"), make)


def text_case(name, message, kind, text, *options, code=DATA):
    """An import of lines; `text`: what they are, as bytes or a string"""

    def make(folder):
        (folder / "lines.txt").write_bytes(text if isinstance(text, bytes) else text.encode())

    return Case(name, code, message, ("data", "import", kind, "lines.txt", "--output", "new.h5", *options), make)


def counted(name, message, change, *options, code=DATA):
    """Counting the co-occurrences of a set of text in which something is wrong. `change` gets the file"""

    def make(folder):
        with h5py.File(folder / "text.h5", "w") as file:
            file["train/words"] = numpy.array([0, 1, 0, 2], "i4")
            file["train/sentences"] = numpy.array([0, 3, 4], "u8")
            file["dictionary/words"] = ["a", "b", "c"]
            file["dictionary/counts"] = [2, 1, 1]
            change(file)

    return Case(name, code, message, ("data", "cooccurrences", "text.h5", "--output", "new.h5", *options), make)


TABLE = "a,b,kind\n1,2,x\n3,4,y\n"

IMPORTS = [
    Case("no such folder", DATA, r"none", ("data", "import", "idx", "none", "--output", "new.h5")),
    idx_case(
        "no labels file",
        r"idx: has no file 'train-labels-idx1-ubyte'",
        lambda files: files.pop("train-labels-idx1-ubyte"),
    ),
    idx_case(
        "a wrong IDX magic number",
        r"train-images-idx3-ubyte: begins with 01 00 08 03",
        lambda files: files.update({"train-images-idx3-ubyte": b"\1" + files["train-images-idx3-ubyte"][1:]}),
    ),
    idx_case(
        "truncated images",
        r"train-images-idx3-ubyte: its header announces 80 values .* but 79 follow",
        lambda files: files.update({"train-images-idx3-ubyte": files["train-images-idx3-ubyte"][:-1]}),
    ),
    idx_case(
        "more images than labels",
        r"train-labels-idx1-ubyte: .*do not belong together",
        lambda files: files.update({"train-labels-idx1-ubyte": idx(numpy.zeros(4, numpy.uint8))}),
    ),
    idx_case(
        "truncated gzip",
        r"train-images-idx3-ubyte\.gz: cannot be read to its end",
        lambda files: files.update(
            {"train-images-idx3-ubyte.gz": gzip.compress(files.pop("train-images-idx3-ubyte"))[:-9]}
        ),
    ),
    cifar_case("half a record", r"data_batch_1\.bin: has 100 bytes", b"\0" * 100),
    cifar_case(
        "a class that CIFAR-10 does not have",
        r"data_batch_1\.bin: byte 0: record 0 has the label 10",
        b"\x0a" + b"\0" * 3072,
    ),
    csv_case("a missing value", r"table\.csv:3: column 'b'", "a,b,kind\n1,2,x\n3,,y\n", "--label", "kind"),
    csv_case(
        "a row that is too short",
        r"table\.csv:3: has 2 fields, but the first line has 3",
        "a,b,kind\n1,2,x\n3,4\n",
        "--label",
        "kind",
    ),
    csv_case("no such column", r"sort", TABLE, "--label", "sort", code=CONFIGURATION),
    csv_case("an empty table", r"table\.csv: is empty", "", "--label", "kind"),
    csv_case("a target that is no number", r"table\.csv:2: column 'kind'", TABLE, "--target", "kind"),
    text_case("indices that descend", r"lines\.txt:2:7: the index 2 follows 3", "libsvm", "1 1:1\n1 3:1 2:1\n"),
    text_case("an index without a value", r"lines\.txt:1:3: '5' is not of the form index:value", "libsvm", "1 5\n"),
    text_case("a value that is NaN", r"lines\.txt:1:5: the value of '1:nan' is not a number", "libsvm", "1 1:nan\n"),
    text_case(
        "a label that is a word", r"lines\.txt:2:1: the label 'cat' is not a number", "libsvm", "1 1:1\ncat 2:1\n"
    ),
    text_case("queries", r"lines\.txt:1:3: 'qid:' is for ranking", "libsvm", "1 qid:7 1:1\n"),
    text_case(
        "an index beyond the columns",
        r"lines\.txt:1:3: the index 4 is beyond --columns 3",
        "libsvm",
        "1 4:1\n",
        "--columns",
        "3",
    ),
    text_case("comments alone", r"lines\.txt: has no examples", "libsvm", "# nothing\n\n"),
    text_case("gzip that is none", r"lines\.txt:1:2: a zero byte", "libsvm", b"\x1f\x00 1:1\n"),
    text_case(
        "a test file that is not there",
        r"other\.txt: there is no such file",
        "libsvm",
        "1 1:1\n",
        "--test-file",
        "other.txt",
    ),
    text_case(
        "fractions that leave nothing",
        r"leave no examples for training",
        "libsvm",
        "1 1:1\n",
        "--test-fraction",
        "0.5",
        "--validation-fraction",
        "0.5",
        code=CONFIGURATION,
    ),
    text_case("a base that is none", r"--base", "libsvm", "1 1:1\n", "--base", "2", code=USAGE),
    text_case("lines of two fields", r"lines\.txt: no delimiter found.*set --delimiter", "ratings", "1 2\n3 4\n"),
    text_case(
        "a rating that is no number",
        r"lines\.txt:2: column 3 \(rating\): 'x'",
        "ratings",
        "1,2,3\n1,2,x\n1,2,3\n",
    ),
    text_case(
        "a first rating that is not finite", r"lines\.txt:1: column 3 \(rating\): 'nan'", "ratings", "u,i,nan\nv,j,3\n"
    ),
    text_case("a field too many", r"lines\.txt:2:7: has 4 fields, but 3", "ratings", "1;2;3\n1;2;3;4\n1;2;3\n"),
    text_case(
        "an index beyond all columns",
        r"lines\.txt:1:7: the index 4294967295 needs more than",
        "libsvm",
        "1 0:1 4294967295:1\n",
    ),
    text_case("a text without words", r"lines\.txt: has no words", "text", "\n \n"),
    text_case(
        "rows without values",
        r"lines\.txt: no example has a value; if that is intended, set --columns",
        "libsvm",
        "1\n0\n",
    ),
    text_case("a field too few", r"lines\.txt:3:4: has 2 fields, but 3", "ratings", "1;2;3\n1;2;3\n1;2\n"),
    text_case("a user without a name", r"lines\.txt:2: column 1 \(user\): is empty", "ratings", "1,2,3\n,2,3\n"),
    text_case(
        "an item in Latin-1",
        r"lines\.txt:1: column 2 \(item\): the byte 0xE9.*--encoding latin1",
        "ratings",
        b"1,caf\xe9,3\n",
    ),
    text_case("a time that is a date", r"lines\.txt:1: column 4 \(time\)", "ratings", "1,2,3,2005-09-06\n"),
    text_case(
        "a split by times that are not there",
        r"lines\.txt: has no times",
        "ratings",
        "1 2 3\n",
        "--split",
        "time",
        "--test-fraction",
        "0.5",
    ),
    text_case(
        "a split and a fraction that contradict it",
        r"leave_one_out.*--test-fraction",
        "ratings",
        "1 2 3\n",
        "--split",
        "leave_one_out",
        "--test-fraction",
        "0.5",
        code=CONFIGURATION,
    ),
    text_case("a text in Latin-1", r"lines\.txt:2:8: the byte 0xE9.*--encoding latin1", "text", b"one\ntwo caf\xe9\n"),
    text_case("a text in UTF-16", r"lines\.txt:1:4: .* UTF-16; .*'iconv -f utf-16", "text", "one".encode("utf-16")),
    text_case(
        "targets that float32 takes for one",
        r"lines\.txt: the target: its values, from 1700000000.5 to 1700000001.5, differ too little for float32",
        "libsvm",
        "1700000000.5 1:1\n1700000001.5 1:2\n",
    ),
    text_case("lines in UTF-32", r"lines\.txt:1:3: .* UTF-32; .*'iconv -f utf-32", "libsvm", "1 1:1".encode("utf-32")),
    text_case("a text with a zero byte", r"lines\.txt:1:4: a zero byte", "text", b"one\0two\n"),
    text_case("a word without end", r"lines\.txt:1:1: a word of more than 64 KiB", "text", "x" * 100000),
    text_case("words that are all rare", r"lines\.txt: none of its 3 words occurs 5 times", "text", "a b c\n"),
    text_case("an empty text", r"lines\.txt: has no words", "text", ""),
    Case(
        "a folder without texts",
        DATA,
        r"texts: this folder has no files",
        ("data", "import", "text", "texts", "--output", "new.h5"),
        lambda folder: (folder / "texts").mkdir(),
    ),
    Case(
        "to count what is no text",
        DATA,
        r"digits\.h5: has no /train/words; it is not a text set",
        ("data", "cooccurrences", "digits.h5", "--output", "new.h5"),
    ),
    Case(
        "memory below zero",
        USAGE,
        r"usage error: .*-5GiB is below 0",
        ("data", "cooccurrences", "digits.h5", "--output", "new.h5", "--memory", "-5GiB"),
    ),
    counted(
        "a word that is not in the dictionary",
        r"text\.h5: /train/words: word 3 has the number 7, but the dictionary has only 3",
        lambda file: file["train/words"].__setitem__(3, 7),
    ),
    counted(
        "sentences that overlap",
        r"text\.h5: /train/sentences: holds 2 after 3",
        lambda file: replace(file, "train/sentences", numpy.array([0, 3, 2, 4], "u8")),
    ),
    counted(
        "a dictionary of numbers",
        r"text\.h5: /dictionary/words is not a list of strings",
        lambda file: replace(file, "dictionary/words", numpy.arange(3)),
    ),
    Case(
        "co-occurrences in place of their text",
        CONFIGURATION,
        r"--output digits\.h5: this is the input text set",
        ("data", "cooccurrences", "digits.h5", "--output", "digits.h5", "--overwrite"),
    ),
    counted(
        "too little memory",
        r"--memory.*at least 1 MiB",
        lambda file: None,
        "--memory",
        "10KiB",
        code=CONFIGURATION,
    ),
    Case(
        "a file that is there already",
        OTHER,
        r"digits\.h5",
        ("data", "digits", "--train", "3", "--output", "digits.h5"),
    ),
]

# Checkpoints ---------------------------------------------------------------------------------------------------------


def edit(change):
    """Changes the bytes of all checkpoints of the run in `trained`."""

    def prepare(folder):
        for path in (folder / "trained" / "checkpoints").glob("*.h5"):
            path.write_bytes(change(path.read_bytes()))

    return prepare


def flip(at):
    return lambda content: content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def plain_hdf5(folder):
    with h5py.File(folder / "plain.h5", "w") as file:
        file["parameters/w"] = numpy.zeros(3)


RESUME = ("train", "config.toml", "--resume", "--output", "trained")
COMPARED = ("train", "config.toml", "--output")


def targets_for_labels(path):
    with h5py.File(path, "w") as file:
        file["test/features"] = numpy.zeros((20, 28, 28), "f4")
        file["test/targets"] = numpy.zeros((20, 3), "f4")


CHECKPOINTS = [
    Case(
        "nothing to resume",
        CHECKPOINT,
        r"nowhere: there is no run to resume",
        ("train", "config.toml", "--resume", "--output", "nowhere"),
    ),
    Case("no such run", CHECKPOINT, r"nowhere: there is no such run or checkpoint", ("evaluate", "nowhere")),
    Case(
        "no run to compare with",
        CHECKPOINT,
        r"nowhere: there is no such run",
        (*COMPARED, "new", "--compare-with", "nowhere"),
    ),
    Case(
        "a run to compare with itself",
        CONFIGURATION,
        r"--compare-with trained: this is the run's own folder",
        (*COMPARED, "trained", "--overwrite", "--compare-with", "trained"),
    ),
    Case(
        "a run to compare with that is of another model",
        CHECKPOINT,
        r"trained/checkpoints.*another model",
        (*COMPARED, "new", "--compare-with", "trained", "--set", "model.layers.0.channels=5"),
    ),
    Case("a run without checkpoints", CHECKPOINT, r"earlier: holds no complete checkpoint", ("evaluate", "earlier")),
    Case(
        "all checkpoints truncated",
        CHECKPOINT,
        r"trained/checkpoints: all \d checkpoints are damaged",
        RESUME,
        edit(lambda content: content[: len(content) // 2]),
    ),
    Case(
        "all checkpoints empty",
        CHECKPOINT,
        r"trained/checkpoints: all \d checkpoints are damaged.*is truncated",
        RESUME,
        edit(lambda content: b""),
    ),
    Case(
        "a byte of all checkpoints flipped",
        CHECKPOINT,
        r"all \d checkpoints are damaged.*checksum",
        RESUME,
        edit(flip(5000)),
    ),
    Case("a byte of their checksums flipped", CHECKPOINT, r"all \d checkpoints are damaged", RESUME, edit(flip(-1))),
    Case(
        "targets for a model of labels",
        DATA,
        r"targets\.h5: /test has no labels, but the model was trained with labels",
        ("evaluate", "trained", "--data", "targets.h5"),
        lambda folder: targets_for_labels(folder / "targets.h5"),
    ),
    Case(
        "a fixed part on other ranks",
        CONFIGURATION,
        r"started on 1 rank, each with a fixed part of the set.*not on 2",
        ("train", "config.toml", "--resume", "--output", "fixed", "--set", "data.partition=fixed"),
        lambda folder: subprocess.run(
            [BINARY, "train", "config.toml", "--output", "fixed", "--set", "data.partition=fixed"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        ),
        ranks=(2,),
    ),
    Case(
        "a damaged checkpoint to evaluate",
        CHECKPOINT,
        r"step-000000020\.h5 is damaged.*name another checkpoint",
        ("evaluate", "trained/checkpoints/step-000000020.h5"),
        edit(flip(3000)),
    ),
    Case(
        "another program's HDF5 file",
        CHECKPOINT,
        r"plain\.h5 is truncated or not a checkpoint",
        ("evaluate", "plain.h5"),
        plain_hdf5,
    ),
    Case(
        "text for a checkpoint",
        CHECKPOINT,
        r"config\.toml: is no checkpoint: it is not an HDF5 file",
        ("evaluate", "config.toml"),
    ),
    Case(
        "another model's checkpoint",
        CONFIGURATION,
        r"the run was started with different values of model\.layers: resume with those of its config\.toml",
        (*RESUME, "--set", "model.layers.0.channels=8"),
    ),
    Case(
        "another optimizer's checkpoint",
        CONFIGURATION,
        r"the run was started with different values of optimizer\.kind: resume with those of its config\.toml",
        (*RESUME, "--set", "optimizer.kind=sgd"),
    ),
    Case(
        "other data than the run's",
        DATA,
        r"different data from other\.h5",
        (*RESUME, "--set", "data.path=other.h5"),
        lambda folder: draw_digits(folder / "other.h5", "--seed", "2"),
    ),
    Case(
        "another batch size than the run's",
        CONFIGURATION,
        r"train\.batch_size",
        (*RESUME, "--set", "train.batch_size=12"),
    ),
    Case(
        "a set of other shapes",
        DATA,
        r"wide\.h5: its examples are 1×28×29, but the model takes 1×28×28",
        ("evaluate", "trained", "--data", "wide.h5"),
        lambda folder: h5py.File(folder / "wide.h5", "w")
        .create_dataset("test/features", data=numpy.zeros((3, 28, 29), numpy.float32))
        .file.close(),
    ),
    Case(
        "bytes without the training set's scale",
        DATA,
        r"unscaled\.h5: /test/features holds bytes that stand for 1 · byte \+ 0, but in the training set",
        ("predict", "trained", "--data", "unscaled.h5", "--output", "p.csv"),
        lambda folder: h5py.File(folder / "unscaled.h5", "w")
        .create_dataset("test/features", data=numpy.zeros((3, 28, 28), numpy.uint8))
        .file.close(),
    ),
    Case(
        "a split that the set has not",
        DATA,
        r"has no examples to test with in 'validation'",
        ("evaluate", "trained", "--split", "validation"),
    ),
]

# Output --------------------------------------------------------------------------------------------------------------

OUTPUTS = [
    Case(
        "a run in the way",
        OTHER,
        r"earlier: already holds a run; .*--resume.*--overwrite.*--output",
        ("train", "config.toml", "--output", "earlier"),
    ),
    Case(
        "a file in the way of the folder",
        OTHER,
        r"config\.toml/run: .*Not a directory",
        ("train", "config.toml", "--output", "config.toml/run"),
    ),
    Case(
        "a folder that may not be made",
        OTHER,
        r"/proc/run: the run folder cannot be created",
        ("train", "config.toml", "--output", "/proc/run"),
    ),
    Case(
        "no room for a set",
        OTHER,
        r"new\.h5",
        ("data", "digits", "--train", "40000", "--output", "new.h5"),
        limited=True,
    ),
    Case(
        "no room to set a text aside",
        OTHER,
        r"new\.h5: a temporary file in its folder cannot be written: File too large",
        ("data", "import", "text", "long.txt", "--output", "new.h5"),
        lambda folder: (folder / "long.txt").write_text("a b " * (os.cpu_count() * (FILE_LIMIT // 8 + 1000))),
        limited=True,
    ),
    Case(
        "no room for a checkpoint",
        OTHER,
        r"new/checkpoints/step-000000010\.h5 could not be written.*earlier checkpoints are intact",
        (*TRAIN_NEW, "--set", "model.layers.0.channels=1200", "--set", "train.divergence=0"),
        limited=True,
    ),
    Case(
        "no room for the checkpoint after",
        OTHER,
        r"trained/checkpoints/step-000000030\.h5 could not be written",
        (*RESUME, "--set", "train.epochs=3"),
        lambda folder: (folder / "trained/checkpoints/step-000000030.h5.tmp/in the way").mkdir(parents=True),
    ),
    Case(
        "no room for predictions",
        OTHER,
        r"out\.csv: the predictions cannot be written: No space left on device",
        ("predict", "trained", "--split", "train", "--output", "out.csv"),
        lambda folder: os.symlink("/dev/full", folder / "out.csv.0.tmp"),
    ),
    Case(
        "predictions of an unknown kind",
        CONFIGURATION,
        r"out\.txt: predictions can be written to FILE\.h5 or FILE\.csv",
        ("predict", "trained", "--output", "out.txt"),
    ),
    Case(
        "predictions in place of the set",
        OTHER,
        r"set\.h5: exists and does not hold predictions",
        ("predict", "trained", "--data", "set.h5", "--output", "set.h5", "--overwrite"),
        lambda folder: shutil.copy(folder / "digits.h5", folder / "set.h5"),
    ),
    Case(
        "predictions in place of a table",
        OTHER,
        r"table\.csv: exists and does not hold predictions",
        ("predict", "trained", "--output", "table.csv", "--overwrite"),
        lambda folder: (folder / "table.csv").write_text(TABLE),
    ),
    Case(
        "predictions in place of a checkpoint",
        OTHER,
        r"step-000000020\.h5: exists and does not hold predictions",
        ("predict", "trained", "--output", "trained/checkpoints/step-000000020.h5", "--overwrite"),
    ),
    Case(
        "predictions in place of a table with a column of that name",
        OTHER,
        r"table\.csv: exists and does not hold predictions",
        ("predict", "trained", "--output", "table.csv", "--overwrite"),
        lambda folder: (folder / "table.csv").write_text("example,label,height\n1,2,3\n"),
    ),
    Case(
        "an export in place of the set",
        OTHER,
        r"set\.h5: exists and is not an exported file, so it is not replaced",
        ("export", "trained", "--format", "npz", "--output", "set.h5", "--overwrite"),
        lambda folder: shutil.copy(folder / "digits.h5", folder / "set.h5"),
    ),
    Case(
        "an export in place of a checkpoint",
        OTHER,
        r"step-000000020\.h5: exists and is not an exported file, so it is not replaced",
        ("export", "trained", "--format", "hdf5", "--output", "trained/checkpoints/step-000000020.h5", "--overwrite"),
    ),
    Case(
        "a set in place of a checkpoint",
        OTHER,
        r"step-000000020\.h5: exists and is not an HDF5 data set, so it is not replaced",
        ("data", "digits", "--train", "20", "--output", "trained/checkpoints/step-000000020.h5", "--overwrite"),
    ),
    Case(
        "a run in place of a config and a log of one's own",
        OTHER,
        r"mine: holds files that a run would replace, but no run; choose another folder",
        ("train", "config.toml", "--output", "mine", "--overwrite"),
        lambda folder: (
            (folder / "mine").mkdir(),
            (folder / "mine/config.toml").write_text("mine"),
            (folder / "mine/log.txt").write_text("mine"),
        ),
    ),
    Case(
        "predictions in no folder",
        OTHER,
        r"none/out\.csv: the predictions cannot be written",
        ("predict", "trained", "--output", "none/out.csv"),
    ),
]

# Launch --------------------------------------------------------------------------------------------------------------


def launched_by(name, pattern, environment):
    return Case(name, COMMUNICATION, pattern, TRAIN_NEW, environment=environment, ranks=(0,))


def two_programs(name, pattern, second, prepare=None):
    """Two ranks that were given different things. `second`: mpirun's options and the settings of rank 1"""
    options, settings = second
    train = (BINARY, *TRAIN_NEW)
    words = (*MPIRUN, "-n", "1", *train, ":", "-n", "1", *options, *train, *settings)
    return Case(name, COMMUNICATION, pattern, words, prepare, ranks=(None,))


def other_folder(folder):
    """Like the first, but with other digits."""
    (folder / "other").mkdir()
    (folder / "other" / "config.toml").write_text(CONFIG)
    draw_digits(folder / "other" / "digits.h5", "--seed", "2")


LAUNCHES = [
    launched_by(
        "an srun that does not speak Open MPI's language",
        r"SLURM_NTASKS.*4.*--mpi=pmix",
        {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"},
    ),
    launched_by("another MPI's mpirun", r"PMI_SIZE", {"PMI_SIZE": "2", "PMI_RANK": "0"}),
    two_programs(
        "different configs",
        r"the config of rank 1 on .* differs from that of rank 0",
        ((), ("--set", "train.epochs=3")),
    ),
    two_programs(
        "different instruction sets",
        r"the CPU's instruction set of rank 1 on .* differs from that of rank 0 .*UNISONO_MAX_ISA=",
        (("-x", "UNISONO_MAX_ISA=portable"), ()),
    ),
    Case(
        "an instruction set that nobody knows",
        CONFIGURATION,
        r"UNISONO_MAX_ISA is 'sse' in the environment; it may be portable, blis, avx2, avx512",
        TRAIN_NEW,
        environment={"UNISONO_MAX_ISA": "sse"},
    ),
    two_programs(
        "different data",
        r"the data set of rank 1 on .* differs from that of rank 0",
        (("-wdir", "other"), ()),
        other_folder,
    ),
    Case(
        "more threads than cores to bench with",
        COMMUNICATION,
        r"may use \d+ cores? but has 999 threads",
        ("bench", "config.toml", "--set", "train.threads=999"),
    ),
]

# Models that are updated in place ------------------------------------------------------------------------------------

SPARSE_CONFIG = """
name = "test"
[data]
path = "sparse.h5"
[strategy]
kind = "hogwild"
threads = 1
[optimizer]
learning_rate = 0.1
kind = "{}"
[model]
{}
"""

SPARSE_MODELS = {
    "linear": 'kind = "linear"',
    "factorization": 'kind = "factorization"\ndimension = 2',
    "word2vec": 'kind = "word2vec"\ndimension = 2',
    "glove": 'kind = "glove"\ndimension = 2',
}


def write_sparse(file, kind):
    if kind == "linear":
        file["train/features/indptr"] = numpy.array([0, 2, 2, 5], "u8")
        file["train/features/indices"] = numpy.array([0, 3, 1, 2, 4], "u4")
        file["train/features/data"] = numpy.array([1, 2, 3, 4, 5], "f4")
        file["train/features"].attrs["columns"] = 5
        file["train/labels"] = numpy.array([0, 1, 1], "i4")
    if kind == "factorization":
        file["train/users"], file["train/items"] = numpy.array([0, 1, 1], "u4"), numpy.array([0, 0, 1], "u4")
        file["train/ratings"] = numpy.array([1, 2, 3], "f4")
        file["dictionary/users"], file["dictionary/items"] = ["a", "b"], ["x", "y"]
    if kind == "word2vec":
        file["train/words"] = numpy.array([0, 1, 2, 0, 1], "i4")
        file["train/sentences"] = numpy.array([0, 3, 5], "u8")
    if kind == "glove":
        file["train/rows"], file["train/columns"] = numpy.array([0, 1], "u4"), numpy.array([1, 2], "u4")
        file["train/counts"] = numpy.array([1, 2], "f4")
    if kind in ("word2vec", "glove"):
        file["dictionary/words"], file["dictionary/counts"] = ["a", "b", "c"], [2, 2, 1]


def without_entries(file):
    for name in ("rows", "columns", "counts"):
        replace(file, f"train/{name}", file[f"train/{name}"][:0])


def sparse(name, message, model, *sets, of=None, change=None, code=None, ranks=(0, 2)):
    """Training a model on a sound set of its own, or of the model `of`; `change` gets the set's file"""

    def make(folder):
        with h5py.File(folder / "sparse.h5", "w") as file:
            write_sparse(file, of or model)
            if change:
                change(file)
        rule = "adagrad" if model == "glove" else "sgd"
        (folder / "config.toml").write_text(SPARSE_CONFIG.format(rule, SPARSE_MODELS[model]))

    words = [word for value in sets for word in ("--set", value)]
    default = DATA if change else CONFIGURATION
    return Case(name, default if code is None else code, message, (*TRAIN, *words), make, ranks=ranks)


IN_PLACE = [
    sparse("ratings for a linear model", r"needs sparse rows or a table.*holds ratings", "linear", of="factorization"),
    sparse("rows for a factorization", r"needs ratings, but the data set holds", "factorization", of="linear"),
    sparse("co-occurrences for word2vec", r"needs text, but the data set holds", "word2vec", of="glove"),
    sparse("text for GloVe", r"needs co-occurrences.*unisono data cooccurrences", "glove", of="word2vec"),
    sparse(
        "sparse rows for a network",
        r"network.*needs a table of features",
        "linear",
        'model={kind="network",loss="softmax_cross_entropy",layers=[{kind="dense",units=2}]}',
    ),
    sparse(
        "Adam for a linear model",
        r"is updated in place, which supports only sgd.*allreduce",
        "linear",
        "optimizer.kind=adam",
    ),
    sparse(
        "Adam for a factorization",
        r"factorization.*supports only sgd or adagrad",
        "factorization",
        "optimizer.kind=adam",
    ),
    sparse(
        "Adagrad for word2vec",
        r"word2vec.*updated in place, which supports only sgd",
        "word2vec",
        "optimizer.kind=adagrad",
    ),
    sparse("SGD for GloVe", r"glove.*updated in place, which supports only adagrad", "glove", "optimizer.kind=sgd"),
    sparse(
        "GloVe at a rate of 0",
        r"optimizer\.learning_rate = 0.*needs at least 1e-18",
        "glove",
        "optimizer.learning_rate=0",
    ),
    sparse("momentum in place", r"optimizer\.momentum.*updated in place", "word2vec", "optimizer.momentum=0.9"),
    sparse("clipping in place", r"optimizer\.clip_norm.*updated in place", "linear", "optimizer.clip_norm=1.0"),
    sparse(
        "weight decay in place",
        r"optimizer\.weight_decay.*updated in place",
        "linear",
        "optimizer.weight_decay=0.1",
    ),
    sparse(
        "allreduce of word vectors",
        r"word2vec.*cannot compute the gradient.*hogwild",
        "word2vec",
        'strategy={kind="allreduce"}',
    ),
    sparse(
        "word vectors in strata",
        r'strategy\.kind = "stratified".*need ratings, but .*sparse\.h5 holds text',
        "word2vec",
        'strategy={kind="stratified"}',
    ),
    sparse(
        "strata of sparse rows",
        r'strategy\.kind = "stratified".*need ratings, but .* holds sparse rows',
        "linear",
        'strategy={kind="stratified"}',
    ),
    sparse(
        "more ranks than the grid has rows",
        r"2 ranks are too many, because the grid of these ratings has 1 rows",
        "factorization",
        'strategy={kind="stratified"}',
        ranks=(2,),
    ),
    sparse(
        "a batch in strata",
        r"train\.batch_size: .*a step is a diagonal of the grid",
        "factorization",
        'strategy={kind="stratified"}',
        "train.batch_size=2",
    ),
    sparse(
        "the file's order for strata",
        r'shuffle = false does not work with strategy\.kind = "stratified"',
        "factorization",
        'strategy={kind="stratified"}',
        "data.shuffle=false",
    ),
    sparse(
        "strata in the file's order",
        r'order = "strata" needs shuffle = true',
        "factorization",
        "data.order=strata",
        "data.shuffle=false",
    ),
    sparse(
        "a rank's strata under another strategy",
        r'data\.partition = "strata" works only with strategy\.kind = "stratified"',
        "factorization",
        "data.partition=strata",
    ),
    sparse(
        "a serial run on two ranks",
        r"strategy\.kind = \"serial\" runs on one rank",
        "linear",
        'strategy={kind="serial"}',
        ranks=(2,),
    ),
    sparse(
        "allreduce epochs in place",
        r"allreduce_epochs.*updated in place",
        "factorization",
        'strategy={kind="averaging",allreduce_epochs=1}',
    ),
    sparse(
        "an averaged model under allreduce",
        r"model\.averaged",
        "linear",
        'strategy={kind="allreduce"}',
        "model.averaged=true",
    ),
    sparse(
        "an averaged model under lock-free threads",
        r"model\.averaged.*lose some; set strategy\.locking",
        "linear",
        'strategy={kind="hogwild",threads=2}',
        "model.averaged=true",
    ),
    sparse(
        "micro-batches of a sparse set",
        r"train\.accumulate.*set it to 1",
        "linear",
        "train.batch_size=2",
        "train.accumulate=2",
    ),
    sparse(
        "a hinge of three classes",
        r"model\.loss = \"hinge\".*two classes, but the data set has 3",
        "linear",
        "model.loss=hinge",
        change=lambda file: file["train/labels"].__setitem__(0, 2),
        code=CONFIGURATION,
    ),
    sparse("streaming a sparse set", r"data\.reader: sparse\.h5", "linear", "data.reader=streaming"),
    sparse(
        "normalising ratings",
        r"data\.normalization: sparse\.h5 holds ratings",
        "factorization",
        "data.normalization=global",
    ),
    sparse("holding text back", r"data\.validation_fraction: sparse\.h5", "word2vec", "data.validation_fraction=0.5"),
    sparse(
        "offsets that fall",
        r"sparse\.h5: /train/features/indptr: value 2 is 1",
        "linear",
        change=lambda file: file["train/features/indptr"].__setitem__(2, 1),
    ),
    sparse(
        "a column given twice",
        r"/train/features/indices: row 2 has column 1 after column 1",
        "linear",
        change=lambda file: file["train/features/indices"].__setitem__(3, 1),
    ),
    sparse(
        "a column beyond the last",
        r"/train/features/indices: value 4 is 9",
        "linear",
        change=lambda file: file["train/features/indices"].__setitem__(4, 9),
    ),
    sparse(
        "rows of no width",
        r"/train/features has no attribute 'columns'",
        "linear",
        change=lambda file: file["train/features"].attrs.__delitem__("columns"),
    ),
    sparse(
        "a rating that is not a number",
        r"/train/ratings: value 1 is not finite",
        "factorization",
        change=lambda file: file["train/ratings"].__setitem__(1, numpy.nan),
    ),
    sparse(
        "a user that nobody knows",
        r"/train/users: value 2 is 7, but must lie in \[0, 2\)",
        "factorization",
        change=lambda file: file["train/users"].__setitem__(2, 7),
    ),
    sparse(
        "a word that is not in the text's dictionary",
        r"/train/words: value 0 is 3",
        "word2vec",
        change=lambda file: file["train/words"].__setitem__(0, 3),
    ),
    sparse(
        "a text that does not count its words",
        r"dictionary/counts",
        "word2vec",
        change=lambda file: file.__delitem__("dictionary/counts"),
    ),
    sparse(
        "fewer counts than words",
        r"/dictionary/counts must hold 3 whole numbers",
        "word2vec",
        change=lambda file: replace(file, "dictionary/counts", [2, 2]),
    ),
    sparse(
        "a count of nothing",
        r"/train/counts: value 1 is 0; counts are positive",
        "glove",
        change=lambda file: file["train/counts"].__setitem__(1, 0),
    ),
    sparse("a set of no examples", r"/train is empty", "glove", change=without_entries),
]

# Trained vectors -----------------------------------------------------------------------------------------------------

MODEL_OF = {
    "words": '[model]\nkind = "word2vec"\ndimension = 4\n[optimizer]\nkind = "sgd"\nlearning_rate = 0.05\n',
    "ratings": '[model]\nkind = "factorization"\ndimension = 4\n[optimizer]\nkind = "sgd"\nlearning_rate = 0.05\n',
}


def train_small(folder, kind):
    """A run of a few words or ratings in `small`."""
    config = (
        f'name = "small"\n[data]\npath = "small.h5"\n{MODEL_OF[kind]}[train]\nepochs = 1\n[strategy]\nkind = "serial"\n'
    )
    (folder / "small.toml").write_text(config)
    with h5py.File(folder / "small.h5", "w") as file:
        if kind == "words":
            file["train/words"], file["train/sentences"] = numpy.arange(12, dtype="i4") % 4, numpy.array(
                [0, 6, 12], "u8"
            )
            file["dictionary/words"], file["dictionary/counts"] = ["king", "queen", "man", "woman"], [3, 3, 3, 3]
        else:
            file["train/users"], file["train/items"] = numpy.array([0, 1, 1], "u4"), numpy.array([0, 1, 2], "u4")
            file["train/ratings"] = numpy.array([1, 2, 3], "f4")
            file["dictionary/users"], file["dictionary/items"] = ["ann", "bob"], ["Toy Story", "Heat", "Alien"]
    words = [BINARY, "train", "small.toml", "--output", "small"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def vectors(name, code, message, arguments, *, kind="words", change=None):
    """A command for a model of words or ratings. `change` gets the folder with it."""

    def prepare(folder):
        train_small(folder, kind)
        if change:
            change(folder)

    return Case(name, code, message, arguments, prepare)


def recommend(name, code, message, *arguments, change=None):
    return vectors(name, code, message, ("predict", "small", *arguments), kind="ratings", change=change)


def word_test(name, message, option, text):
    return vectors(
        name,
        DATA,
        message,
        ("evaluate", "small", option, "test.txt"),
        change=lambda folder: (folder / "test.txt").write_text(text),
    )


def other_names(folder):
    """The run's names are another run's, and its set is gone."""
    with h5py.File(folder / "small/dictionary.h5", "w") as file:
        file["dictionary/words"] = ["man", "woman", "king", "queen"]
    (folder / "small.h5").unlink()


EXPORT = ("export", "small", "--format", "npy", "--output", "v.npy")
NEIGHBORS = ("neighbors", "small", "king")

VECTORS = [
    vectors(
        "a format that is none",
        USAGE,
        r"usage error: .*--format",
        ("export", "small", "--format", "xml", "--output", "v"),
    ),
    vectors(
        "vectors in no folder", OTHER, r"none/v\.npy: cannot be written: No such file", (*EXPORT[:-1], "none/v.npy")
    ),
    vectors(
        "vectors in place of a file",
        OTHER,
        r"v\.npy: already exists; .*--overwrite",
        EXPORT,
        change=lambda folder: (folder / "v.npy").write_text("mine"),
    ),
    vectors(
        "vectors in place of a link",
        OTHER,
        r"v\.npy: is not a regular file, so it is not replaced",
        (*EXPORT, "--overwrite"),
        change=lambda folder: os.symlink("elsewhere", folder / "v.npy"),
    ),
    vectors(
        "no room for vectors",
        OTHER,
        r"v\.npy: cannot be written: No space left on device",
        EXPORT,
        change=lambda folder: os.symlink("/dev/full", folder / "v.npy.tmp"),
    ),
    Case(
        "vectors of a network",
        CONFIGURATION,
        r"a model .*\"network\" has no vectors",
        ("neighbors", "trained", "king"),
    ),
    vectors(
        "names with blanks for word2vec",
        DATA,
        r"the name 'Toy Story' \(number 0\) is empty or contains a space.*npy or csv",
        ("export", "small", "--table", "items", "--format", "word2vec-text", "--output", "v.txt"),
        kind="ratings",
    ),
    vectors(
        "users or items", CONFIGURATION, r"vectors of users and of items; choose with --table", EXPORT, kind="ratings"
    ),
    vectors(
        "a table that the model has not",
        CONFIGURATION,
        r"has vectors of words, but none of items",
        (*NEIGHBORS, "--table", "items"),
    ),
    vectors(
        "a word that there is not",
        DATA,
        r"'quen' is not among the 4 words .*did you mean 'queen'",
        ("neighbors", "small", "quen"),
    ),
    vectors("no neighbors", USAGE, r"usage error: .*--top", (*NEIGHBORS, "--top", "0")),
    vectors(
        "names that nobody has kept",
        DATA,
        r"its run's dictionary\.h5 is missing.*small\.h5: there is no such file.*restore one of them",
        NEIGHBORS,
        change=lambda folder: [(folder / name).unlink() for name in ("small/dictionary.h5", "small.h5")],
    ),
    vectors(
        "names that are damaged",
        DATA,
        r"dictionary\.h5: this is not an HDF5 file",
        NEIGHBORS,
        change=lambda folder: (folder / "small/dictionary.h5").write_text("names"),
    ),
    vectors(
        "names of other words",
        DATA,
        r"its run's dictionary\.h5 is missing.*small\.h5: there is no such file",
        NEIGHBORS,
        change=other_names,
    ),
    vectors(
        "no such analogies",
        DATA,
        r"none\.txt: cannot be read: No such file",
        ("evaluate", "small", "--analogies", "none.txt"),
    ),
    word_test(
        "an analogy of three words",
        r"test\.txt:2: has 3 words; an analogy has four",
        "--analogies",
        ": a\nking queen man\n",
    ),
    word_test("sections without analogies", r"test\.txt: holds no analogies", "--analogies", ": a\n: b\n"),
    word_test(
        "a similarity that is no number", r"test\.txt:1: 'much' is not a number", "--similarity", "king queen much\n"
    ),
    word_test(
        "a similarity of two words",
        r"test\.txt:3: has 2 words; each line must be two",
        "--similarity",
        "# x\nking man 1\nking queen\n",
    ),
    vectors(
        "analogies of a split",
        USAGE,
        r"usage error: .*--split",
        ("evaluate", "small", "--analogies", "x", "--split", "test"),
    ),
    vectors("words without analogies", USAGE, r"usage error: .*--analogies", ("evaluate", "small", "--words", "9")),
    vectors(
        "analogies of items",
        CONFIGURATION,
        r"has vectors of users and of items, but none of words",
        ("evaluate", "small", "--analogies", "small.toml"),
        kind="ratings",
    ),
    vectors(
        "predictions of words",
        CONFIGURATION,
        r"\"word2vec\" makes no predictions for examples",
        ("predict", "small", "--output", "p.csv"),
    ),
    Case(
        "items of digits",
        CONFIGURATION,
        r"--top: trained/.* was trained on .*but only models of ratings can recommend items",
        ("predict", "trained", "--top", "3", "--output", "top.csv"),
    ),
    recommend("items for nobody", USAGE, r"usage error: .*--top", "--top", "0", "--output", "top.csv"),
    recommend(
        "items in an unknown kind of file",
        CONFIGURATION,
        r"top\.txt: predictions can be written to FILE\.h5",
        "--top",
        "2",
        "--output",
        "top.txt",
    ),
    recommend(
        "a user that there is not",
        DATA,
        r"'bobb' is not among the 2 users .*did you mean 'bob'",
        *("--top", "2", "--users", "ann,bobb", "--output", "top.csv"),
    ),
    recommend(
        "no file of users",
        DATA,
        r"none\.txt: cannot be read; it must be a text file with one user per line",
        *("--top", "2", "--users-file", "none.txt", "--output", "top.csv"),
    ),
    recommend("users without items", USAGE, r"usage error: .*--top", "--users", "ann", "--output", "top.csv"),
    recommend(
        "items in place of the set",
        OTHER,
        r"small\.h5: exists and does not hold predictions",
        *("--top", "2", "--output", "small.h5", "--overwrite"),
    ),
    recommend(
        "ratings that are gone",
        DATA,
        r"small\.h5: there is no such file",
        *("--top", "2", "--output", "top.csv"),
        change=lambda folder: (folder / "small.h5").unlink(),
    ),
]

# Servers -------------------------------------------------------------------------------------------------------------


def served(name, message, *keys, sets=(), ranks=(0, 2), code=CONFIGURATION, kind="parameter_server", prepare=None):
    case = config(name, message, sets=[f"strategy.kind={kind}", *(f"strategy.{key}" for key in keys), *sets], code=code)
    return dataclasses.replace(case, ranks=ranks, prepare=prepare or case.prepare)


def served_rows(name, message, key):
    case = sparse(name, message, "word2vec", f'strategy={{kind="parameter_server",{key}}}')
    return dataclasses.replace(case, ranks=(0, 2))


def events(content):
    def make(folder):
        (folder / "earlier").mkdir(exist_ok=True)
        if content is not None:
            (folder / "earlier/events.bin").write_bytes(content)

    return make


def replayed(name, message, content):
    return Case(name, CHECKPOINT, message, ("replay", "earlier"), events(content))


SERVERS = [
    served(
        "a slow rank that serves",
        r"fault\.slow_rank: rank 1 is a server and does not train; choose another rank",
        "servers=1",
        sets=["fault.slow_rank=1", "fault.slow_factor=2"],
        ranks=(2,),
    ),
    served(
        "a slow rank that nothing slows",
        r"slow_rank is set, but not how much slower it is",
        sets=["fault.slow_rank=0"],
    ),
    served(
        "a merge where there are no rows",
        r"strategy\.merge: it applies only to models that are updated in place",
        "merge=sum",
    ),
    served("more servers than ranks", r"strategy\.servers: 2 on [12] ranks? leave no rank to train", "servers=2"),
    served("no servers", r"'servers' in \[strategy\] is 0, but must be at least 1", "servers=0"),
    served(
        "servers of no kind",
        r"'servers' in \[strategy\] is 'all', but must be an integer or 'colocated'",
        "servers=all",
    ),
    served(
        "half a server", r"'servers' in \[strategy\] must be an integer or 'colocated', not a floating", "servers=0.5"
    ),
    served("a consistency of no kind", r"'consistency'.*'eventual'.*one of 'asynchronous'", "consistency=eventual"),
    served(
        "staleness of synchronous workers",
        r"consistency 'synchronous' has no such key, it is a key of 'bounded'",
        "consistency=synchronous",
        "staleness=2",
    ),
    served("staleness without a bound", r"consistency 'asynchronous' has no such key", "staleness=2"),
    served("staleness below zero", r"'staleness'.*must be at least 0", "consistency=bounded", "staleness=-1"),
    served(
        "pushes that come too seldom for the bound",
        r"push_period is larger than staleness \+ 1",
        "consistency=bounded",
        "staleness=1",
        "push_period=3",
    ),
    served(
        "periods of synchronous workers",
        r"workers exchange after every step",
        "consistency=synchronous",
        "pull_period=2",
    ),
    served(
        "stale rates of synchronous workers", r"no gradient is stale", "consistency=synchronous", "stale_rate=divided"
    ),
    served("a record of what needs none", r"synchronous runs need no record", "consistency=synchronous", "record=true"),
    served(
        "clipping by synchronous servers",
        r"clip_norm does not work with synchronous servers",
        "consistency=synchronous",
        sets=["optimizer.clip_norm=1"],
    ),
    served("a pull period of zero", r"'pull_period'.*must be at least 1", "pull_period=0"),
    served("compensation below zero", r"'delay_compensation'.*must be at least 0", "delay_compensation=-1"),
    served("a period of servers", r"kind 'parameter_server' has no such key", "period=4"),
    served("an elasticity above one", r"'elasticity'.*at most 1", "elasticity=1.5", kind="elastic_averaging"),
    served(
        "staleness of elastic workers",
        r"kind 'elastic_averaging' has no such key",
        "staleness=1",
        kind="elastic_averaging",
    ),
    served(
        "parts of a batch that are empty", r"fixed.*make it at least|batch", sets=["train.batch_size=1"], ranks=(2,)
    ),
    served(
        "a slow rank that is not there",
        r"fault\.slow_rank: there is no rank 7",
        sets=["fault.slow_rank=7", "fault.slow_factor=2"],
    ),
    served("slowness of nobody", r"slow_factor and pause_seconds apply to slow_rank", sets=["fault.slow_factor=3"]),
    served(
        "a rank that is faster than it is",
        r"'slow_factor'.*at least 1",
        sets=["fault.slow_rank=0", "fault.slow_factor=0.5"],
    ),
    served_rows("a pull period of rows", r"strategy\.pull_period does not apply to models", "pull_period=2"),
    served_rows("rows that are pulled ahead", r"strategy\.prefetch does not apply to models", "prefetch=true"),
    served_rows(
        "compensation of rows", r"strategy\.delay_compensation does not apply.*not gradients", "delay_compensation=1"
    ),
    replayed(
        "a run without a record", r"events\.bin: there is no such record; runs with strategy\.record = true", None
    ),
    replayed(
        "a record of something else", r"events\.bin: is not a record of events", b"something else, and rather long"
    ),
    replayed("a record that ends at once", r"events\.bin: is truncated", b"unisono-events-1\n\1\0"),
]

TABLES = {
    "configs": CONFIGS,
    "usage": USAGES,
    "data": DATASETS,
    "imports": IMPORTS,
    "checkpoints": CHECKPOINTS,
    "outputs": OUTPUTS,
    "launches": LAUNCHES,
    "in_place": IN_PLACE,
    "vectors": VECTORS,
    "servers": SERVERS,
}


# On two ranks, too: one in so many cases of a table, besides those that need two. Where one rank alone finds the error
# and must tell the other, or print alone, each case; where all ranks read the same text, the first.
EVERY = {"usage": 1, "data": 4, "checkpoints": 2, "outputs": 1, "in_place": 6, "vectors": 4, "servers": 4}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class BadInputs(BinaryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trained = pathlib.Path(cls.shared.name) / "trained"
        (pathlib.Path(cls.shared.name) / "config.toml").write_text(CONFIG)
        subprocess.run(
            [BINARY, "train", "config.toml", "--output", cls.trained],
            cwd=cls.shared.name,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def run_aside(self, case, ranks):
        """The result of a case in a folder of its own, and what the folder held before and after it."""
        with tempfile.TemporaryDirectory(prefix="unisono-test-") as scratch:
            folder = pathlib.Path(scratch)
            os.symlink(self.digits, folder / "digits.h5")
            (folder / "config.toml").write_text(CONFIG)
            (folder / "earlier").mkdir()
            (folder / "earlier" / "summary.json").write_text("{}")
            subprocess.run(["cp", "-r", self.trained, folder / "trained"], check=True)
            if case.prepare:
                case.prepare(folder)
            before = contents(folder)
            result = self.run_case(case, ranks, folder)
            return result, before, contents(folder)

    def check(self, case, result, before, after):
        self.assertEqual(result.code, case.code, result)
        said = messages(result)
        self.assertEqual(len(said), 1, result)
        self.assertRegex(said[0], case.message)
        self.assertNotIn("Segmentation fault", result.err)
        for path, content in before.items():
            if path.name not in ("log.txt", "config.toml", "data.json", "metrics.jsonl") or path.parts[0] != "trained":
                self.assertEqual(content, after.get(path), f"{path} was whole before\n{result}")
        self.assertEqual([path for path in after if path.name.endswith((".tmp", "new.h5"))], [], result)

    def run_case(self, case, ranks, folder):
        words = list(case.arguments) if ranks is None else command(ranks, *case.arguments)

        def limit():
            if case.limited:
                resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))

        return finished(words, folder, TIMEOUT, case.environment, preexec_fn=limit)

    def check_table(self, name):
        every = EVERY.get(name, len(TABLES[name]))
        runs = [
            (case, ranks)
            for i, case in enumerate(TABLES[name])
            for ranks in case.ranks
            if ranks != 2 or 0 not in case.ranks or i % every == 0
        ]
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            outcomes = [pool.submit(self.run_aside, case, ranks) for case, ranks in runs]
            for (case, ranks), outcome in zip(runs, outcomes):
                with self.subTest(case=case.name, ranks=ranks):
                    self.check(case, *outcome.result())

    def test_the_table_is_as_long_as_it_should_be_and_names_each_case_once(self):
        names = [case.name for table in TABLES.values() for case in table]
        self.assertGreaterEqual(len(names), 60)
        self.assertEqual(len(names), len(set(names)))


for _name in TABLES:
    setattr(BadInputs, f"test_{_name}", lambda self, name=_name: self.check_table(name))

if __name__ == "__main__":
    unittest.main()
