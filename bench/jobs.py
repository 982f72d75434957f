"""What the comparisons of strategies train: a model of every kind, and the set that it learns."""

import dataclasses
import gzip
import pathlib
import struct
import tempfile
import typing

import peers

IMAGES = 12000
TEXT_BYTES = 10_000_000


def import_a9a(arguments, path):
    files = [arguments.a9a / "a9a", "--test-file", arguments.a9a / "a9a.t"]
    peers.run([arguments.unisono, "data", "import", "libsvm", *files, "--output", path])


def draw_sparse(arguments, path):
    python = peers.ensure_venv(arguments.venv, "numpy", "h5py")
    peers.run([python, peers.HERE / "generated.py", "sparse", path, "--examples", 60000])


def draw_ratings(arguments, path):
    folder = arguments.folder / "ratings"
    size = ["--users", 5000, "--items", 2000, "--per-user", 111]
    python = peers.ensure_venv(arguments.venv, "numpy", "h5py")
    peers.run([python, peers.HERE / "generated.py", "ratings", folder, *size])
    files = [folder / "train.txt", "--test-file", folder / "test.txt", "--split", "none"]
    peers.run([arguments.unisono, "data", "import", "ratings", *files, "--output", path])


def import_text(arguments, path):
    lines = arguments.folder / "text.txt"
    with (gzip.open if arguments.text.suffix == ".gz" else open)(arguments.text, "rb") as file:
        lines.write_bytes(file.read(TEXT_BYTES).rsplit(b" ", 1)[0])
    words = ["--test-fraction", 0.05, "--output", path]
    peers.run([arguments.unisono, "data", "import", "text", lines, *words])


def count_pairs(arguments, path):
    text = arguments.folder / "text.h5"
    import_text(arguments, text)
    peers.run([arguments.unisono, "data", "cooccurrences", text, "--window", 5, "--output", path])


def first_of_idx(source, target, count):
    """At most so many first examples of an IDX file: 2 bytes 0, type, number of axes, their lengths (big-endian), the
    bytes."""
    data = gzip.decompress(source.read_bytes())
    lengths = struct.unpack_from(f">{data[3]}I", data, 4)
    count, start = min(count, lengths[0]), 4 + 4 * len(lengths)
    size = (len(data) - start) // lengths[0] * count
    target.write_bytes(data[:4] + struct.pack(">I", count) + data[8:start] + data[start : start + size])


def import_images(arguments, path, count=IMAGES):
    """The first training images and all test images."""
    with tempfile.TemporaryDirectory() as folder:
        for group, images in (("train", count), ("t10k", 10000)):
            for name in (f"{group}-images-idx3-ubyte", f"{group}-labels-idx1-ubyte"):
                first_of_idx(arguments.images / f"{name}.gz", pathlib.Path(folder) / name, images)
        peers.run([arguments.unisono, "data", "import", "idx", folder, "--output", path])


@dataclasses.dataclass
class Job:
    title: str
    config: pathlib.Path
    settings: dict
    metric: str | None  # on the test examples
    make_data: typing.Callable  # (arguments, path)
    given: str | None = None  # the option that the data is made from


NETWORK = {"train.epochs": 3, "train.threads": 1, "train.report_every_steps": 10}
JOBS = {
    "linear": Job(
        "Logistic regression on a9a",
        peers.ROOT / "configs" / "logistic-regression.toml",
        {"train.epochs": 8, "train.report_every_steps": 3},
        "accuracy",
        import_a9a,
        "a9a",
    ),
    "sparse": Job(
        "Logistic regression on 1,250,000 features",
        peers.HERE / "models" / "sparse-logistic.toml",
        {"train.epochs": 4, "train.batch_size": 2000, "train.report_every_steps": 4},
        "accuracy",
        draw_sparse,
    ),
    "factorization": Job(
        "Factorization of 500,000 ratings",
        peers.HERE / "models" / "factorization.toml",
        {"train.epochs": 12, "train.report_every_steps": 4},
        "rmse",
        draw_ratings,
    ),
    "skip-gram": Job(
        "Skip-gram on 1.6 million words",
        peers.ROOT / "configs" / "word2vec.toml",
        {"train.epochs": 2, "train.report_every_steps": 2},
        "loss",
        import_text,
        "text",
    ),
    "glove": Job(
        "GloVe on the same text",
        peers.ROOT / "configs" / "glove.toml",
        {"train.epochs": 4, "train.report_every_steps": 10},
        None,
        count_pairs,
        "text",
    ),
    "mlp": Job(
        f"MLP on {IMAGES:,} images of Fashion-MNIST",
        peers.ROOT / "configs" / "fashion-mlp.toml",
        NETWORK,
        "accuracy",
        import_images,
        "images",
    ),
    "lenet": Job(
        f"LeNet on {IMAGES:,} images of Fashion-MNIST",
        peers.ROOT / "configs" / "fashion-lenet.toml",
        {**NETWORK, "train.epochs": 2},
        "accuracy",
        import_images,
        "images",
    ),
}


def add_data_arguments(parser):
    parser.add_argument("--a9a", type=pathlib.Path, help="folder with LIBSVM's a9a and a9a.t")
    parser.add_argument("--text", type=pathlib.Path, help="a text, gzipped or not")
    parser.add_argument("--images", type=pathlib.Path, help="folder with Fashion-MNIST's idx.gz files")


def chosen(names):
    """The names between commas, all of which must be known."""
    names = names.split(",")
    if unknown := set(names) - set(JOBS):
        peers.fail(f"unknown model {', '.join(unknown)}; there are {', '.join(JOBS)}")
    return names


def is_given(arguments, name):
    """Whether the arguments name the files that the model's set is made from; says so where not."""
    job = JOBS[name]
    if job.given is None or getattr(arguments, job.given) is not None:
        return True
    peers.say(f"{name}: not given; name its data with --{job.given}")
    return False
