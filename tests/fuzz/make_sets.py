"""Writes the sets of corpus/sets that no importer makes: as users write them with h5py.

python3 tests/fuzz/make_sets.py FOLDER
"""

import pathlib
import sys

import h5py
import numpy as np

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(1)
words = ["to", "be", "or", "not", "the", "question", "Größe"]
users, items = [f"user {i}" for i in range(6)], [f"item {i}" for i in range(8)]


def fixed(texts):
    return np.array([text.encode() for text in texts])


def write_text(file, names, **options):
    file["train/words"] = rng.integers(0, len(words), 60).astype("i4")
    file["train/sentences"] = np.arange(0, 61, 5).astype("u8")
    file.create_dataset("dictionary/words", data=names, **options)
    file["dictionary/counts"] = np.arange(20, 20 - len(words), -1)


with h5py.File(folder / "h5py-text.h5", "w") as file:
    write_text(file, words)
with h5py.File(folder / "h5py-text-fixed.h5", "w") as file:
    write_text(file, fixed(words))
with h5py.File(folder / "h5py-text-packed.h5", "w") as file:
    write_text(file, words, chunks=(4,), compression="gzip", shuffle=True, dtype=h5py.string_dtype())
with h5py.File(folder / "h5py-latest.h5", "w", libver="latest") as file:
    write_text(file, words)
with h5py.File(folder / "h5py-ratings.h5", "w") as file:
    for group, n in ("train", 60), ("test", 10):
        file[f"{group}/users"] = rng.integers(0, len(users), n)
        file[f"{group}/items"] = rng.integers(0, len(items), n)
        file[f"{group}/ratings"] = rng.random(n).astype("f4")
    file["dictionary/users"], file["dictionary/items"] = users, fixed(items)
with h5py.File(folder / "h5py-table.h5", "w") as file:
    for group, n in ("train", 40), ("validation", 8):
        file.create_dataset(f"{group}/features", data=rng.integers(0, 256, (n, 2, 3, 3), "u1"), chunks=(8, 2, 3, 3))
        file[f"{group}/features"].attrs["scale"] = 1 / 255
        file[f"{group}/labels"] = rng.integers(0, 3, n)
    file.attrs["class_names"] = ["one", "two", "three"]
with h5py.File(folder / "h5py-half.h5", "w") as file:
    file["train/features"] = rng.random((30, 4)).astype("f2")
    file.create_dataset("train/targets", data=rng.random((30, 2)), compression="gzip", fletcher32=True)
    file["train/features"].attrs["feature_names"] = ["a", "b", "c", "d"]
    file.attrs["class_names"] = fixed(["one", "two"])
with h5py.File(folder / "h5py-sparse.h5", "w") as file:
    full = rng.random((30, 12)) < 0.3
    file["train/features/indptr"] = np.append(0, full.sum(1).cumsum()).astype("u8")
    file["train/features/indices"] = full.nonzero()[1].astype("u4")
    file["train/features"].attrs["columns"], file["train/labels"] = 12, rng.integers(0, 2, 30)
    file.attrs["class_names"] = ["no", "yes"]
with h5py.File(folder / "foreign-arrays.h5", "w") as file:  # what `data import hdf5` is for
    file.create_dataset("X", data=rng.random((20, 2, 3)).astype(">f8"), chunks=(6, 2, 3), compression="gzip")
    file["y"] = rng.integers(0, 3, 20).astype(">i8")
with h5py.File(folder / "foreign-integers.h5", "w", libver="latest") as file:
    file.create_dataset("X", data=rng.integers(-9, 9, (20, 4)).astype("i2"), maxshape=(None, 4), shuffle=True)
    file.create_dataset("y", data=rng.integers(0, 2, (20, 1)).astype("u4"), fletcher32=True)
with h5py.File(folder / "h5py-tokens.h5", "w") as file:
    for group, n in ("train", 90), ("validation", 20):
        file[f"{group}/tokens"] = rng.integers(0, 50, n).astype("u2")
    file["train/documents"] = np.array([0, 30, 31, 90], "u8")
    file.attrs["vocabulary"] = 50
with h5py.File(folder / "h5py-texts.h5", "w") as file:
    for group, n in ("train", 90), ("validation", 20):
        file[f"{group}/tokens"] = np.arange(n, dtype="u2") % 50
        file[f"{group}/documents"] = np.array([0, n // 3, n // 2, n], "u8")
        file[f"{group}/labels"] = np.array([1, 0, 1])
    file.attrs["vocabulary"], file.attrs["class_names"] = 50, ["no", "yes"]
with h5py.File(folder / "h5py-tokens-packed.h5", "w") as file:
    file.create_dataset("train/tokens", data=rng.integers(0, 257, 90), chunks=(16,), compression="gzip")
    file.create_group("tokenizer").attrs["kind"] = "bytes"
    file["tokenizer"].attrs["end_of_text"] = 1
with h5py.File(folder / "h5py-user-block.h5", "w", userblock_size=1024) as file:  # addresses count from its end
    write_text(file, words)
