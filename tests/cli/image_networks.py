"""Three steps of the networks of configs/ on small images: what image_networks_test.py and
scripts/check-against-torchvision have in common.

The networks have SiLU and means in place of ReLU and maxima. These have kinks, where a rounding decides which way a
gradient goes: with them PyTorch's own float32 is up to 0.05 (ResNet-18) and 0.4 (ResNet-50) off float64 after three
steps, and without them less than 1e-6 and 6e-6. ConvNeXt's blocks begin with a scale that lets them matter.
"""

import pathlib
import zlib

import h5py
import numpy

NETWORKS = {"resnet18": 1e-2, "resnet50": 1e-4, "convnext": 1e-2}  # and their learning rates
SIZE, BATCH, STEPS, CLASSES = 64, 8, 3, 10
MOMENTUM, DECAY, SCALE = 0.9, 1e-4, 0.5
EXPECTED = pathlib.Path(__file__).with_name("image_networks.json")
CONFIG = f"""
name = "check"
seed = 1
[data]
path = "images.h5"
shuffle = false
[model]
loss = "softmax_cross_entropy"
LAYERS
[optimizer]
kind = "sgd"
learning_rate = RATE
momentum = {MOMENTUM}
weight_decay = {DECAY}
[schedule]
kind = "constant"
[train]
epochs = 1
batch_size = {BATCH}
"""


def images():
    """Noise of two scales, and labels."""
    random = numpy.random.RandomState(1)
    count = BATCH * STEPS
    coarse = random.rand(count, 3, SIZE // 8, SIZE // 8).repeat(8, axis=2).repeat(8, axis=3)
    fine = random.rand(count, 3, SIZE, SIZE)
    return (coarse + 0.3 * fine - 0.65).astype("f4"), random.randint(0, CLASSES, count)


def write_inputs(folder, name):
    """The set and the config of a network of configs/, with what is fixed here in place of its other settings."""
    features, labels = images()
    with h5py.File(folder / "images.h5", "w") as file:
        file["train/features"] = features
        file["train/labels"] = labels.astype("u1")
        file.attrs["class_names"] = [str(i) for i in range(CLASSES)]
    text = (pathlib.Path(__file__).parents[2] / "configs" / f"{name}.toml").read_text()
    layers = text[text.index("layers = [") : text.index("\n]\n") + 2]
    for old, new in (('"relu"', '"silu"'), ('"max_pool"', '"average_pool"'), ("initial = 1e-6", f"initial = {SCALE}")):
        layers = layers.replace(old, new)
    (folder / "config.toml").write_text(CONFIG.replace("LAYERS", layers).replace("RATE", str(NETWORKS[name])))


def size_of(name, arrays):
    """What errors of a tensor are measured by: its largest value, or that of the weights or deviations that belong to
    it, since biases and means begin with 0."""
    layer, block = name.rsplit(".", 1)
    others = {"bias": "weight", "beta": "gamma", "mean": "variance"}
    sizes = [numpy.abs(arrays[name]).max()]
    if block in others:
        other = numpy.abs(arrays[f"{layer}.{others[block]}"]).max()
        sizes.append(other**0.5 if block == "mean" else other)
    return float(max(sizes))


def projection(name, values):
    """The sum of a tensor's values with signs that depend on its name, over the root of their number: it shows any
    difference, and errors do not grow with the tensor."""
    signs = numpy.random.RandomState(zlib.crc32(name.encode())).randint(0, 2, values.size) * 2 - 1
    return float((signs * values.astype("f8").ravel()).sum() / numpy.sqrt(values.size))
