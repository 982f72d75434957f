"""Writes the files of corpus/weights: exports of a small network, and what users of NumPy and PyTorch write.

UNISONO=build/release/bin/unisono python3 tests/fuzz/make_weights.py FOLDER
"""

import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile

import h5py
import numpy

CONFIG = """
name = "small"
[data]
path = "set.h5"
normalization = "feature"
[model]
layers = [{ kind = "dense", units = 3 }, { kind = "batch_norm" }, { kind = "relu" }, { kind = "dense", units = 2 }]
[train]
epochs = 1
batch_size = 4
threads = 1
[optimizer]
kind = "sgd"
learning_rate = 0.1
"""
folder = pathlib.Path(sys.argv[1])
binary = os.path.abspath(os.environ["UNISONO"])
random = numpy.random.default_rng(1)


def write_exports():
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        with h5py.File(place / "set.h5", "w") as file:
            file["train/features"] = random.normal(size=(8, 4)).astype("f4")
            file["train/labels"] = (numpy.arange(8) % 2).astype("u1")
        (place / "config.toml").write_text(CONFIG)

        def run(*words):
            subprocess.run([binary, *words], cwd=place, check=True, stdout=subprocess.DEVNULL)

        run("train", "config.toml", "--output", "run")
        for kind, ending in (("npz", "npz"), ("hdf5", "h5"), ("safetensors", "safetensors")):
            names = ("--names", "unisono") if kind == "safetensors" else ()
            run("export", "run", "--format", kind, "--output", f"export.{ending}", *names)
            (folder / f"export.{ending}").write_bytes((place / f"export.{ending}").read_bytes())


def write_arrays():
    arrays = {
        "conv1.weight": random.normal(size=(2, 1, 3, 3)).astype("f4"),
        "conv1.bias": random.normal(size=2),
        "norm.weight": numpy.asfortranarray(random.normal(size=(3, 4)).astype(">f4")),
        "half": random.normal(size=5).astype("f2"),
        "norm.num_batches_tracked": numpy.int64(3),
        "names": numpy.array(["a", "bc"]),
    }
    numpy.savez(folder / "stored.npz", **arrays)
    numpy.savez_compressed(folder / "deflated.npz", **arrays)


def write_types():
    """Tensors of several types of floats."""
    header, data = {}, b""
    for name, kind, values in (
        ("a", "F64", random.normal(size=(2, 3)).tobytes()),
        ("b", "BF16", (random.normal(size=4).astype("f4").view("u4") >> 16).astype("u2").tobytes()),
        ("c", "F16", random.normal(size=4).astype("f2").tobytes()),
        ("d", "F32", random.normal(size=(4, 1)).astype("f4").tobytes()),
        ("n", "I64", bytes(8)),
    ):
        shape = {"a": [2, 3], "d": [4, 1], "n": []}.get(name, [4])
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "types.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_pickles():
    """Built as torch.save builds them, without PyTorch."""
    state = pickle.dumps({"conv1.weight": ("storage", "0", (2, 3)), "conv1.bias": ("storage", "1", (2,))}, 2)
    with zipfile.ZipFile(folder / "archive.pt", "w") as file:
        file.writestr("model/data.pkl", state)
        file.writestr("model/byteorder", "little")
        file.writestr("model/data/0", random.normal(size=6).astype("f4").tobytes())
        file.writestr("model/data/1", random.normal(size=2).astype("f4").tobytes())
        file.writestr("model/version", "3\n")
    first = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)
    (folder / "legacy.bin").write_bytes(first + state + pickle.dumps(["0", "1"], 2) + bytes(32))


folder.mkdir(parents=True, exist_ok=True)
write_exports()
write_arrays()
write_types()
write_pickles()
