"""Small models with every kind of layer, and what they are applied to: export_test.py computes their ONNX files with
NumPy, scripts/check-exports with onnxruntime, and their modules with PyTorch."""

import json
import pathlib
import random
import re

import h5py
import numpy

CONTEXT = 20
EXAMPLES = 100  # of the test part, to which the models are applied
TOLERANCE = 1e-5  # of an example's largest output

CONFIG = """
name = "exported"
seed = 3
[data]
path = "set.h5"
{data}
[model]
{model}
[optimizer]
kind = "{optimizer}"
learning_rate = {rate}
[train]
epochs = 1
batch_size = 20
threads = 1
"""


def config(model, data="", optimizer="adam", rate=0.02):
    return CONFIG.format(model=model, data=data, optimizer=optimizer, rate=rate)


def network(*layers, loss="softmax_cross_entropy", **options):
    listed = ",\n  ".join(f"{{ {layer} }}" for layer in layers)
    return config(f'loss = "{loss}"\nlayers = [\n  {listed} ]', **options)


def write_set(path, features, stored=None, **columns):
    """The same kind of examples for training and testing. stored: the scale and offset of what is stored. columns:
    labels or targets, of all examples."""
    if features.dtype == numpy.uint8:
        stored = {"scale": 1 / 128, "offset": -1}
    with h5py.File(path, "w") as file:
        for split, part in (("train", slice(EXAMPLES, None)), ("test", slice(EXAMPLES))):
            for name, values in {"features": features, **columns}.items():
                file[f"{split}/{name}"] = values[part]
            file[f"{split}/features"].attrs.update(stored or {})


def images(folder):
    draw = numpy.random.default_rng(1)
    pictures = draw.integers(0, 256, (2 * EXAMPLES, 3, 12, 12), dtype=numpy.uint8)
    write_set(folder / "set.h5", pictures, labels=draw.integers(0, 4, 2 * EXAMPLES))


def pictures_of(folder, shape, classes=10):
    draw = numpy.random.default_rng(9)
    labels = numpy.arange(2 * EXAMPLES) % classes
    write_set(folder / "set.h5", draw.integers(0, 256, (2 * EXAMPLES, *shape), dtype=numpy.uint8), labels=labels)


def drawn_rows():
    draw = numpy.random.default_rng(2)
    return draw, draw.normal(3, 2, (2 * EXAMPLES, 6)).astype(numpy.float32)


def rows(folder):
    draw, values = drawn_rows()
    sums = values @ draw.normal(0, 1, (6, 3)).astype(numpy.float32)
    write_set(folder / "set.h5", values, labels=(sums - sums.mean(0)).argmax(1))


def stored_rows(folder):
    _, values = drawn_rows()
    write_set(folder / "set.h5", values, {"scale": 0.5, "offset": 3}, labels=(values[:, 0] > 3).astype(numpy.int64))


def two_classes(folder):
    _, values = drawn_rows()
    write_set(folder / "set.h5", values, labels=(values[:, 0] > 3).astype(numpy.int64))


def numbers(folder):
    draw, values = drawn_rows()
    write_set(folder / "set.h5", values, targets=values[:, :2] * 3 + draw.normal(0, 1, (2 * EXAMPLES, 2)))


def answers(folder):
    _, values = drawn_rows()
    write_set(folder / "set.h5", values, targets=(values[:, :3] > 3).astype(numpy.float32))


TOKENS = ("--tokenizer", "characters", "--output", "set.h5")
WORDS = ("sea", "wave", "sail", "tree", "field", "barn", "cloud", "star")


def text(folder):
    draw = random.Random(3)
    (folder / "text.txt").write_text(" ".join(draw.choice(WORDS) for _ in range(1200)) + "\n")
    return ("tokens", "text.txt", "--validation-fraction", "0.2", *TOKENS)


def texts(folder):
    draw = random.Random(4)
    lines = ["text,class"]
    for _ in range(2 * EXAMPLES):
        lines.append(" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 4))) + f",{draw.choice('ab')}")
    (folder / "texts.csv").write_text("\n".join(lines) + "\n")
    columns = ("--text-column", "text", "--label-column", "class")
    return ("tokens", "texts.csv", *columns, "--test-fraction", "0.5", *TOKENS)


def table_lines(count, seed, levels=("red", "green", "blue", "")):
    """Numbers of the column `logits` are large beside their deviation."""
    draw = random.Random(seed)
    for _ in range(count):
        age = "" if draw.random() < 0.1 else f"{draw.gauss(40, 12):.1f}"
        large = f"{draw.gauss(100000, 3):.2f}"
        yield f"{age},{draw.choice(levels)},{draw.random():.3f},{large},{draw.choice(('yes', 'no'))}"


def table(folder):
    header = "age,colour,width of it,logits,answer"
    lines = [header, *table_lines(2 * EXAMPLES, 5), "33,rare,0.5,100000,yes"]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    new = [header, *table_lines(EXAMPLES, 6, ("red", "green", "blue", "never seen", ""))]
    (folder / "new.csv").write_text("\n".join(new) + "\n")
    words = ("--label", "answer", "--missing", "median", "--unknown", "other", "--minimum-frequency", "3")
    return ("csv", "table.csv", *words, "--test-fraction", "0.3", "--output", "set.h5")


def scaled_sparse(folder):
    return (*sparse(folder), "--scale", "standard")


def sparse(folder):
    draw = random.Random(7)
    for name, count in (("train.svm", 2 * EXAMPLES), ("test.svm", EXAMPLES)):
        lines = []
        for _ in range(count):
            columns = sorted(draw.sample(range(1, 31), 8))
            values = [round(draw.gauss(0, 1), 3) for _ in columns]
            label = 1 if sum(values[:4]) > 0 else -1
            lines.append(f"{label} " + " ".join(f"{c}:{v}" for c, v in zip(columns, values)))
        (folder / name).write_text("\n".join(lines) + "\n")
    return ("libsvm", "train.svm", "--test-file", "test.svm", "--columns", "30", "--output", "set.h5")


PIXELS = 'normalization = "channel"'
EACH = 'normalization = "feature"'

# Each model: what makes its set, and its config. A set is written, or imported by the words that are returned.
MODELS = {
    "convolutions": (
        images,
        network(
            'kind = "convolution", channels = 8, kernel = 3, padding = 1, bias = false, name = "first-one"',
            'kind = "batch_norm", epsilon = 1e-3, momentum = 0.2',
            'kind = "relu"',
            'kind = "max_pool", size = 3, stride = 2, padding = 1',
            'kind = "convolution", channels = 16, kernel = [3, 1], stride = [1, 2], dilation = [2, 1], groups = 2',
            'kind = "leaky_relu", slope = 0.1',
            'kind = "average_pool", size = 2, stride = 1, padding = 1',
            'kind = "scale", initial = 0.7',
            'kind = "flatten"',
            'kind = "dropout", rate = 0.2',
            'kind = "dense", units = 4',
            data=PIXELS,
        ),
    ),
    "residuals": (
        images,
        network(
            'kind = "convolution", channels = 6, kernel = 3, padding = 1',
            'kind = "layer_norm", over = "channels", epsilon = 1e-6',
            'kind = "residual", shortcut = [{ kind = "convolution", channels = 12, kernel = 1, stride = 2 }], '
            'layers = [{ kind = "convolution", channels = 12, kernel = 3, stride = 2, padding = 1 }, '
            '{ kind = "batch_norm" }]',
            'kind = "silu"',
            'kind = "repeat", times = 2, layers = [{ kind = "residual", layers = ['
            '{ kind = "convolution", channels = 12, kernel = 3, padding = 1, groups = 12 }, { kind = "gelu" }, '
            '{ kind = "channel_gate", layers = [{ kind = "global_average_pool" }, { kind = "dense", units = 4 }, '
            '{ kind = "relu" }, { kind = "dense", units = 12 }, { kind = "sigmoid" }] }, '
            '{ kind = "scale", initial = 0.5 }] }]',
            'kind = "layer_norm"',
            'kind = "global_average_pool", size = [4, 5]',
            'kind = "rms_norm"',
            'kind = "convolution", channels = 4, kernel = [4, 5]',
            'kind = "residual", layers = [{ kind = "dense", units = 4 }, { kind = "tanh" }]',
            'kind = "global_average_pool"',
        ),
    ),
    "rows": (
        rows,
        network(
            'kind = "dense", units = 12, bias = false',
            'kind = "batch_norm"',
            'kind = "elu", alpha = 0.7',
            'kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "dense", units = 12 }, '
            '{ kind = "softplus" }]',
            'kind = "rms_norm", epsilon = 1e-6',
            'kind = "scale"',
            'kind = "gelu_tanh"',
            'kind = "dense", units = 3',
            data=EACH,
        ),
    ),
    "names": (
        images,
        network(
            'kind = "convolution", channels = 4, kernel = 3, name = "bytes"',
            'kind = "relu", name = "flat_dense1"',
            'kind = "residual", layers = [{ kind = "convolution", channels = 4, kernel = 1, name = "shortcut" }, '
            '{ kind = "tanh", name = "forward" }]',
            'kind = "relu", name = "append"',
            'kind = "dense", units = 4',
        ),
    ),
    "stored": (stored_rows, network('kind = "dense", units = 2', data=EACH)),
    "one-output": (two_classes, network('kind = "dense", units = 1', loss="sigmoid_cross_entropy", data=EACH)),
    "several-labels": (answers, network('kind = "dense", units = 3', loss="sigmoid_cross_entropy", data=EACH)),
    "scores": (rows, network('kind = "dense", units = 3', loss="multiclass_hinge", data=EACH)),
    "values": (
        numbers,
        network(
            'kind = "dense", units = 5',
            'kind = "tanh"',
            'kind = "swiglu", units = 4',
            'kind = "dense", units = 2',
            loss="mean_squared_error",
        ),
    ),
    "table": (table, network('kind = "dense", units = 8', 'kind = "relu"', 'kind = "dense", units = 2')),
    "gpt": (
        text,
        network(
            'kind = "embedding", units = 16',
            'kind = "repeat", times = 2, layers = [{ kind = "residual", layers = [{ kind = "layer_norm" }, '
            '{ kind = "attention", heads = 2, dropout = 0.1 }, { kind = "dropout", rate = 0.1 }] }, '
            '{ kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "dense", units = 32 }, '
            '{ kind = "gelu_tanh" }, { kind = "dense", units = 16 }] }]',
            'kind = "layer_norm"',
            'kind = "unembedding", tied = true',
            data="context = 20",
        ),
    ),
    "llama": (
        text,
        network(
            'kind = "embedding", units = 16, positions = "none"',
            'kind = "residual", layers = [{ kind = "rms_norm" }, '
            '{ kind = "attention", heads = 4, key_heads = 2, rotary = true, bias = false, theta = 500 }]',
            'kind = "residual", layers = [{ kind = "rms_norm" }, { kind = "swiglu", units = 24 }, '
            '{ kind = "dense", units = 16, bias = false }]',
            'kind = "rms_norm"',
            'kind = "unembedding"',
            data="context = 20",
        ),
    ),
    "texts": (
        texts,
        network(
            'kind = "embedding", units = 12, positions = "sinusoidal"',
            'kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 2, head_units = 4 }]',
            'kind = "sequence_pool"',
            'kind = "dense", units = 2',
            data="context = 20",
        ),
    ),
    "last-tokens": (
        texts,
        network(
            'kind = "embedding", units = 12',
            'kind = "residual", layers = [{ kind = "rms_norm" }, { kind = "attention", heads = 3 }]',
            'kind = "sequence_pool", pool = "last"',
            'kind = "dense", units = 2',
            data="context = 20",
        ),
    ),
    "logistic": (sparse, config('kind = "linear"', optimizer="sgd", rate=0.1)),
    "scaled-sparse": (scaled_sparse, config('kind = "linear"', optimizer="sgd", rate=0.1)),
    "margins": (two_classes, config('kind = "linear"\nloss = "hinge"', data=EACH, optimizer="sgd", rate=0.1)),
    "softmax": (images, config('kind = "linear"', data=PIXELS, optimizer="sgd", rate=0.01)),
    "least-squares": (
        lambda folder: write_set(
            folder / "set.h5",
            (values := numpy.random.default_rng(8).normal(3, 2, (2 * EXAMPLES, 6)).astype(numpy.float32)),
            targets=values.sum(1, keepdims=True),
        ),
        config('kind = "linear"\nbias = false', data=EACH, optimizer="sgd", rate=0.001),
    ),
}
LANGUAGE_MODELS = ("gpt", "llama")


def configured(name):
    """A config of configs/, for a small set and a short training."""
    text_of_config = (pathlib.Path(__file__).parents[2] / f"configs/{name}.toml").read_text()
    for key, value in (("path", '"set.h5"'), ("epochs", "1"), ("batch_size", "20"), ("warmup_epochs", "0")):
        text_of_config = re.sub(rf"^{key} = .*$", f"{key} = {value}", text_of_config, flags=re.MULTILINE)
    return text_of_config


# Networks of configs/, which take longer: for scripts/check-exports.
LARGE_MODELS = {
    "lenet": (lambda folder: pictures_of(folder, (28, 28)), configured("lenet")),
    "resnet20": (lambda folder: pictures_of(folder, (3, 32, 32)), configured("resnet20")),
    "convnext": (lambda folder: pictures_of(folder, (3, 64, 64)), configured("convnext")),
}
def inputs_of(folder, name):
    """What a model is applied to, in batches, by the names of its ONNX file's inputs; of language models with the
    tokens that come "next"."""
    with h5py.File(folder / "set.h5") as file:
        if name in LANGUAGE_MODELS:
            return windows_of(file["validation/tokens"][:].astype(numpy.int64), CONTEXT)
        if name in ("texts", "last-tokens"):
            return [{"tokens": padded(file["test"], CONTEXT)}]
        if name in ("logistic", "scaled-sparse"):
            return [{"features": dense_rows(file["test/features"], 30)}]
        if name == "table":
            return [columns_of(folder / "new.csv")]
        features = file["test/features"][:]
    if name in LARGE_MODELS and features.ndim == 3:
        features = features[:, None]
    return [{"images" if features.ndim == 4 else "features": features}]


def windows_of(tokens, context):
    """The windows of an evaluation with the next tokens, of which the last one may be shorter: a batch of its own."""
    whole = (len(tokens) - 1) // context * context
    batches = [{"tokens": tokens[:whole].reshape(-1, context), "next": tokens[1 : whole + 1].reshape(-1, context)}]
    if whole + 1 < len(tokens):
        batches.append({"tokens": tokens[None, whole:-1], "next": tokens[None, whole + 1 :]})
    return batches


def padded(group, context):
    tokens, begins = group["tokens"][:].astype(numpy.int64), group["documents"][:]
    lines = numpy.full((len(begins) - 1, context), -1, numpy.int64)
    for line, begin, end in zip(lines, begins, begins[1:]):
        count = min(context, int(end - begin))
        line[:count] = tokens[int(begin) : int(begin) + count]
    return lines


def dense_rows(group, columns):
    starts, places, values = (group[name][:] for name in ("indptr", "indices", "data"))
    dense = numpy.zeros((len(starts) - 1, columns), numpy.float32)
    for row, first, last in zip(dense, map(int, starts), map(int, starts[1:])):
        row[places[first:last]] = values[first:last]
    return dense


def columns_of(path):
    header, *lines = path.read_text().splitlines()
    columns = list(zip(*(line.split(",") for line in lines)))
    table_of = dict(zip(header.split(","), columns))
    numbers_of = lambda column: numpy.array([float(value or "nan") for value in column], numpy.float32)[:, None]
    return {
        "age": numbers_of(table_of["age"]),
        "colour": numpy.array(table_of["colour"], dtype=object)[:, None],
        "width of it": numbers_of(table_of["width of it"]),
        "logits": numbers_of(table_of["logits"]),
    }


def prepare(folder, name, unisono):
    """Makes the set, trains, and exports. unisono(*words) runs the program in the folder."""
    write, text_of_config = {**MODELS, **LARGE_MODELS}[name]
    words = write(folder)
    if words:
        unisono("data", "import", *words)
    (folder / "config.toml").write_text(text_of_config)
    unisono("train", "config.toml", "--output", "run")
    unisono("export", "run", "--output", "model.onnx")
    if name not in LANGUAGE_MODELS:
        what = ("--input", "new.csv") if name == "table" else ()
        unisono("predict", "run", *what, "--output", "predictions.h5")


def largest_difference(found, expected):
    """In parts of each example's largest output; or of the median of these, where an example's outputs happen to be
    near zero, as sums of larger terms, whose rounding errors they have."""
    found, expected = (values.reshape(len(values), -1).astype(numpy.float64) for values in (found, expected))
    largest = abs(expected).max(1)
    return float((abs(found - expected).max(1) / numpy.maximum(largest, numpy.median(largest))).max())


def cross_entropies(logits, labels):
    """Of each token."""
    logits = logits.astype(numpy.float64)
    logits -= logits.max(-1, keepdims=True)
    sums = numpy.log(numpy.exp(logits).sum(-1))
    return (sums - numpy.take_along_axis(logits, labels[..., None], -1)[..., 0]).flatten()


def difference(folder, name, outputs_of, output):
    """How far a model in another program is from unisono, in parts of the tolerance's unit. outputs_of(**inputs) gives
    what the program computes, output is the name of what `predict` gives in it."""
    batches = inputs_of(folder, name)
    if name in LANGUAGE_MODELS:
        losses = [cross_entropies(outputs_of(tokens=one["tokens"])["logits"], one["next"]) for one in batches]
        summary = json.loads((folder / "run/summary.json").read_text())
        return abs(float(numpy.concatenate(losses).mean()) / summary["validation"]["loss"] - 1)
    with h5py.File(folder / "predictions.h5") as file:
        expected = file["predictions"][:]
    assert len(expected) == EXAMPLES and numpy.ptp(expected) > 0
    return largest_difference(outputs_of(**batches[0])[output], expected)
