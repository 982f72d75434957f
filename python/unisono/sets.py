"""Sets: HDF5 files of examples, as docs/data-format.md describes them."""

import glob
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from .errors import DataError
from .program import run_program
from .tables import csv_of

Path = str | os.PathLike[str]
Array = np.ndarray[Any, Any]
GROUPS = ("train", "validation", "test")


class Group:
    """The examples of a group of a set: `features` [n, …], and `labels` [n], `targets` [n, …] or `weights` [n] where it
    has them. `arrays` has them all by name, with those of columns such as groups and times."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = dict(arrays)

    @property
    def features(self) -> Array:
        return self.arrays["features"]

    @property
    def labels(self) -> Array | None:
        return self.arrays.get("labels")

    @property
    def targets(self) -> Array | None:
        return self.arrays.get("targets")

    @property
    def weights(self) -> Array | None:
        return self.arrays.get("weights")

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return "Group(" + ", ".join(f"{name} {list(array.shape)}" for name, array in self.arrays.items()) + ")"


class Set(Mapping[str, Group]):
    """A table or a set of images, in memory: groups "train", "validation" and "test"."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        class_names: Sequence[str] = (),
        feature_names: Sequence[str] = (),
        label_names: Sequence[str] = (),
    ):
        self._groups = dict(groups)
        self.class_names, self.feature_names = list(class_names), list(feature_names)
        #: where an example may have several labels: the names of the columns of `targets`
        self.label_names = list(label_names)

    def __getitem__(self, name: str) -> Group:
        return self._groups[name]

    def __iter__(self) -> Any:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        return "Set(" + ", ".join(f"{name}: {len(group)} examples" for name, group in self.items()) + ")"


def read_set(path: Path) -> Set:
    """Reads a table or images. Values are scaled as the set says: bytes of images become 0 to 1. The columns of an
    imported table are those of the file, without its preprocessing; the numbers of categories stand for the names in
    its recipe. `path`: a file, or a pattern of several, whose examples follow each other."""
    text = os.fspath(path)
    paths = _files_of(text)
    arrays: dict[str, dict[str, list[Array]]] = {}
    class_names: list[str] = []
    label_names: list[str] = []
    feature_names: list[str] = []
    for one in paths:
        try:
            with h5py.File(one, "r") as file:
                names = [_texts(file.attrs.get(key, [])) for key in ("class_names", "label_names")]
                names.append(_feature_names(file))
                if one != paths[0] and names != [class_names, label_names, feature_names]:
                    raise DataError(f"{one}: has other names of classes, labels or features than {paths[0]}")
                class_names, label_names, feature_names = names
                for name in GROUPS:
                    if name in file:
                        _add_group(arrays.setdefault(name, {}), _arrays_of(file[name], one), f"{one}: /{name}")
        except OSError as error:
            raise DataError(f"{one}: cannot be read: {error}") from error
    if not arrays:
        raise DataError(f"{text}: has none of the groups {', '.join(GROUPS)}")
    groups = {
        name: Group({key: np.concatenate(parts) if len(parts) > 1 else parts[0] for key, parts in group.items()})
        for name, group in arrays.items()
    }
    return Set(groups, class_names, feature_names, label_names)


def write_set(
    path: Path,
    train: Any = None,
    *,
    validation: Any = None,
    test: Any = None,
    class_names: Sequence[str] = (),
    label_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    task: str = "auto",
    scale: float | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes a set of numbers.

    Each group is (X, y), (X, y, weights), X alone, or a map-style torch Dataset of such pairs. X: [n, features],
    [n, height, width] or [n, channels, height, width], of NumPy, pandas, Arrow or torch. y: integers, booleans or words are
    classes, other numbers are targets; `task`, "classes" or "regression", decides where that is not clear. Examples
    with several labels have y [n, K] of 0 and 1, and `label_names` names its columns.
    scale: what a stored value of 1 stands for; for images of bytes without it, 1/255. For tables with text, missing
    values or categories, see `import_table`.
    """
    path = pathlib.Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another name, or set overwrite = True")
    groups: dict[str, tuple[Array, Array | None, Array | None]] = {}
    for name, given in zip(GROUPS, (train, validation, test), strict=True):
        if given is not None:
            features, answers, weights, names = _parts_of(given, has_labels=bool(label_names))
            groups[name] = (features, answers, weights)
            feature_names = feature_names or names
    if not groups:
        raise ValueError("a set needs examples: give train, validation or test")
    kinds = _answers_of({name: answers for name, (_, answers, _) in groups.items()}, task, list(class_names))
    if label_names:
        _check_labels({name: arrays.get("targets") for name, arrays in kinds.arrays.items()}, list(label_names))
    _check_names(list(class_names), list(label_names), list(feature_names), groups)
    if path.is_dir() or not path.name:
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    aside = path.with_name(path.name + ".tmp")
    try:
        _write(aside, groups, kinds, list(label_names), list(feature_names), scale)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def _write(
    path: pathlib.Path,
    groups: Mapping[str, tuple[Array, Array | None, Array | None]],
    kinds: "_Answers",
    label_names: list[str],
    feature_names: list[str],
    scale: float | None,
) -> None:
    with h5py.File(path, "w") as file:
        for name, (features, _, weights) in groups.items():
            stored = file.create_dataset(f"{name}/features", data=_storable(features))
            is_bytes = stored.dtype == np.uint8 and stored.ndim > 2
            if scale is not None or is_bytes:
                stored.attrs["scale"] = scale if scale is not None else 1 / 255
            if feature_names:
                stored.attrs["feature_names"] = [str(one) for one in feature_names]
            if weights is not None:
                file[f"{name}/weights"] = np.asarray(weights, dtype=np.float32)
            for key, array in kinds.arrays[name].items():
                file[f"{name}/{key}"] = array
        if kinds.classes:
            file.attrs["classes"] = kinds.classes
        if kinds.class_names:
            file.attrs["class_names"] = kinds.class_names
        if label_names:
            file.attrs["label_names"] = label_names


def _check_names(
    class_names: list[str],
    label_names: list[str],
    feature_names: list[str],
    groups: Mapping[str, tuple[Array, Array | None, Array | None]],
) -> None:
    for what, names in (("class", class_names), ("label", label_names), ("feature", feature_names)):
        for name in map(str, names):
            if names.count(name) > 1:
                raise ValueError(f"two {what} names are {name!r}")
            if "\0" in name or (what == "label" and (not name or ";" in name or "\n" in name)):
                raise ValueError(f"{name!r} cannot be the name of a {what}")
    for group, (features, _, _) in groups.items():
        size = int(np.prod(features.shape[1:]))
        if feature_names and len(feature_names) != size:
            raise ValueError(f"{group}: X has {size} features, but {len(feature_names)} names")


def import_table(table: Any, path: Path, *, label: str | None = None, target: str | None = None, **options: Any) -> str:
    """Makes a set of a table with numbers, texts, categories and missing values, as `unisono data import csv` does: the
    run fits its preprocessing on the training rows.

    table: a data frame, an Arrow table, or the path of a Parquet or CSV file. label, target: the column of the classes,
    or of the numbers to predict. options: those of the command, such as test_fraction=0.2, exclude=["id"],
    overwrite=True. Returns what the command says.
    """
    words: list[Path] = ["--output", path]
    for name, value in {"label": label, "target": target, **options}.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
        elif value is not None and value is not False:
            words += [option, str(value)]
    with tempfile.TemporaryDirectory() as folder:
        return run_program("data", "import", "csv", csv_of(table, folder), *words)


def _check_labels(targets: Mapping[str, Array | None], label_names: list[str]) -> None:
    for name, array in targets.items():
        if array is None or array.ndim != 2 or array.shape[1] != len(label_names):
            raise ValueError(f"{name}: label_names names {len(label_names)} labels; y has a column of 0 and 1 for each")
        if not np.isin(array, (0, 1)).all():
            raise ValueError(f"{name}: y must be 0 or 1 where label_names names labels")


class _Answers:
    """What the groups are to predict, as arrays `labels` or `targets` of each."""

    def __init__(self, arrays: dict[str, dict[str, Array]], classes: int = 0, class_names: Sequence[str] = ()) -> None:
        self.arrays, self.classes, self.class_names = arrays, classes, list(class_names)


def _answers_of(answers: Mapping[str, Array | None], task: str, class_names: list[str]) -> _Answers:
    if task not in ("auto", "classes", "regression"):
        raise ValueError(f"task = {task!r}: choose from 'auto', 'classes' and 'regression'")
    known = {name: array for name, array in answers.items() if array is not None}
    if not known:
        return _Answers({name: {} for name in answers})
    are_words = any(array.dtype.kind in "OUS" for array in known.values())
    are_whole = all(array.dtype.kind in "biu" and array.ndim == 1 for array in known.values())
    if task == "regression" or (task == "auto" and not are_words and not are_whole):
        if are_words:
            raise ValueError("targets must be numbers; these are words")
        targets = {name: {"targets": array.astype(np.float32)} for name, array in known.items()}
        return _Answers({name: targets.get(name, {}) for name in answers})
    if are_words or task == "classes" and not are_whole:
        _check_words(known)
        different = np.unique(np.concatenate([array.astype(str) for array in known.values()]))
        class_names = class_names or [str(one) for one in different]
        numbers = {one: i for i, one in enumerate(class_names)}
        unknown = sorted(set(map(str, different)) - set(class_names))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of the classes {', '.join(class_names)}")
        known = {name: np.array([numbers[str(one)] for one in array]) for name, array in known.items()}
    if any(array.ndim != 1 for array in known.values()):
        raise ValueError("y is one class for each example; label_names is for several of them")
    least = min(int(array.min(initial=0)) for array in known.values())
    if least < 0:
        raise ValueError(f"a label is {least}: classes are numbers from 0")
    if max(int(array.max(initial=0)) for array in known.values()) >= 2**31:
        raise ValueError("a label is 2**31 or more: classes are numbers from 0, as few as there are")
    classes = max(len(class_names), 1 + max(int(array.max(initial=0)) for array in known.values()))
    if class_names and classes > len(class_names):
        raise ValueError(f"a label is {classes - 1}, but there are {len(class_names)} class names")
    labels = {name: {"labels": array.astype(np.int32)} for name, array in known.items()}
    return _Answers({name: labels.get(name, {}) for name in answers}, classes, class_names)


def _check_words(known: Mapping[str, Array]) -> None:
    for name, array in known.items():
        if array.ndim != 1:
            raise ValueError(f"{name}: y is one class for each example")
        kinds = {str if isinstance(one, (str, np.str_)) else type(one) for one in array.tolist()}
        if array.dtype.kind == "O" and (len(kinds) > 1 or type(None) in kinds or bytes in kinds):
            raise ValueError(f"{name}: y must be words, or numbers, for all examples")
    if len({array.dtype.kind in "OU" for array in known.values()}) > 1:
        raise ValueError("y must be words in all groups, or numbers in all")


def _parts_of(given: Any, has_labels: bool) -> tuple[Array, Array | None, Array | None, list[str]]:
    """Features, answers, weights and names of the features."""
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and type(given).__module__.startswith("torch.utils"):
        pairs = [given[i] for i in range(len(given))]
        given = tuple(np.stack([np.asarray(pair[k]) for pair in pairs]) for k in range(2))
    parts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"a group is (X, y) or (X, y, weights), not {len(parts)} things")
    names = [str(name) for name in getattr(parts[0], "columns", [])] if _is_frame(parts[0]) else []
    if hasattr(parts[0], "column_names"):
        names = [str(name) for name in parts[0].column_names]
    features = _array_of(parts[0])
    if features.dtype.kind not in "biuf":
        raise ValueError("features must be numbers; import_table makes sets of tables with texts and categories")
    if np.ma.is_masked(parts[0]):
        raise ValueError("X is masked; import_table fills in missing values")
    if features.ndim < 1 or len(features) == 0 or features.size == 0:
        raise ValueError(f"X has the shape {list(features.shape)}: a group needs examples with features")
    _require_finite("values of X", features, "; import_table fills in missing ones")
    answers = _array_of(parts[1]) if len(parts) > 1 and parts[1] is not None else None
    if answers is not None and answers.ndim == 2 and answers.shape[1] == 1 and not has_labels:
        answers = answers[:, 0]
    weights = _array_of(parts[2]) if len(parts) > 2 and parts[2] is not None else None
    if answers is not None and answers.dtype.kind in "fc":
        _require_finite("values of y", answers, "")
    if answers is not None and answers.dtype.kind in "mM":
        raise ValueError("y holds dates or times; make numbers of them")
    if weights is not None:
        _require_finite("weights", np.asarray(weights, dtype=float), "")
        if weights.ndim != 1 or weights.min(initial=0) < 0:
            raise ValueError("weights are one number for each example, at least 0")
    for what, array in (("y", answers), ("weights", weights)):
        if array is not None and (array.ndim == 0 or len(array) != len(features)):
            size = 0 if array.ndim == 0 else len(array)
            raise ValueError(f"X has {len(features)} examples, {what} has {size}")
    return features, answers, weights, names


def _require_finite(what: str, array: Array, advice: str) -> None:
    with np.errstate(over="ignore"):
        if array.dtype.kind == "f" and not np.isfinite(array.astype(np.float32)).all():
            raise ValueError(f"{what} are not finite, or too large for float32{advice}")


def _files_of(path: str) -> list[str]:
    """The files that the program takes for a path: those that fit a pattern, in the order of their names' bytes."""
    if not glob.has_magic(path) or os.path.exists(path):
        return [path]
    # Python writes [!0] for what the shell also writes [^0].
    paths = sorted(glob.glob(path.replace("[^", "[!")), key=os.fsencode)
    if not paths:
        raise DataError(f"{path}: no file has a name like this")
    return paths


def _add_group(joined: dict[str, list[Array]], arrays: Mapping[str, Array], where: str) -> None:
    """Adds a file's part of a group to those before."""
    for key, array in arrays.items():
        if len(array) != len(arrays["features"]):
            raise DataError(f"{where}/{key} has {len(array)} rows, but there are {len(arrays['features'])} examples")
    if joined and joined.keys() != arrays.keys():
        raise DataError(f"{where} holds {', '.join(arrays)} and not {', '.join(joined)} as the files before")
    for key, array in arrays.items():
        before = joined.setdefault(key, [])
        if before and before[0].shape[1:] != array.shape[1:]:
            raise DataError(f"{where}/{key} has the shape {list(array.shape)}, unlike the files before")
        before.append(array)


def _is_frame(given: Any) -> bool:
    return hasattr(given, "to_numpy") and hasattr(given, "columns")


def _array_of(given: Any) -> Array:
    if hasattr(given, "detach"):  # a tensor of torch
        given = given.detach().cpu().numpy()
    if hasattr(given, "column_names"):  # a table of Arrow
        given = given.to_pandas()
    if hasattr(given, "to_numpy"):
        given = given.to_numpy()
    return np.asarray(given)


def _storable(features: Array) -> Array:
    if features.dtype == np.uint8 or features.dtype == np.float16:
        return features
    return features.astype(np.float32)


def _texts(values: Any) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


def _feature_names(file: Any) -> list[str]:
    if "recipe" in file:
        columns = json.loads(bytes(file["recipe"][()])).get("columns", [])
        return [column["name"] for column in columns]
    for name in GROUPS:
        if f"{name}/features" in file:
            return _texts(file[f"{name}/features"].attrs.get("feature_names", []))
    return []


def _arrays_of(group: Any, path: str) -> dict[str, Array]:
    if "features" not in group or not isinstance(group["features"], h5py.Dataset):
        raise DataError(f"{path}: {group.name} holds no table and no images, which alone are read here")
    arrays = {}
    for name, item in group.items():
        if not isinstance(item, h5py.Dataset):
            continue
        array = item[()]
        scale, offset = item.attrs.get("scale", 1), item.attrs.get("offset", 0)
        if (scale, offset) != (1, 0):
            array = (array * scale + offset).astype(np.float32)
        arrays[name] = np.array(_texts(array)) if array.dtype.kind in "OS" else np.asarray(array)
    return arrays
