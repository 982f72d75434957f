"""Runs: what a training left in its folder, and its model at work."""

import contextlib
import functools
import html
import json
import os
import pathlib
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from .errors import CheckpointError, DataError
from .program import run_program
from .tables import csv_of

if TYPE_CHECKING:
    import pandas as pd

Path = str | os.PathLike[str]
Array = np.ndarray[Any, Any]


class Arrays(Mapping[str, Array]):
    """The arrays of a group in an HDF5 file, by name. Each is read when it is asked for."""

    def __init__(self, path: Path, group: str) -> None:
        self._path, self._group = pathlib.Path(path), group
        with h5py.File(self._path, "r") as file:
            self._names: list[str] = []
            if group in file:
                file[group].visititems(self._note)

    def _note(self, name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            self._names.append(name)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(f"{name!r}; there are {', '.join(self._names) or 'none'}")
        with h5py.File(self._path, "r") as file:
            return np.asarray(file[f"{self._group}/{name}"][()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Checkpoint:
    """A checkpoint file: parameters, running statistics and the optimizer's state as arrays."""

    def __init__(self, path: Path) -> None:
        self.path = pathlib.Path(path)
        try:
            with h5py.File(self.path, "r") as file:
                #: step, epoch, seed and more
                self.header: dict[str, Any] = json.loads(bytes(file["header"][()]))
                #: the config that it was trained with
                self.config: dict[str, Any] = tomllib.loads(bytes(file["config"][()]).decode())
        except (OSError, KeyError, ValueError) as error:
            raise CheckpointError(f"{self.path}: is no checkpoint, or damaged: {error}") from error
        #: float32 arrays by their layers' names: "dense1.weight"
        self.parameters = Arrays(self.path, "parameters")
        #: running statistics of batch normalisation
        self.statistics = Arrays(self.path, "statistics")
        self.optimizer = Arrays(self.path, "optimizer")

    @property
    def step(self) -> int:
        return int(self.header["step"])

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, step {self.step}, {len(self.parameters)} arrays)"


class Predictions(Mapping[str, Array]):
    """Predictions of a split's examples, in its order: `predictions` [n, K], and where they are known `labels`,
    `classes`, `targets`."""

    def __init__(self, path: Path) -> None:
        with h5py.File(path, "r") as file:
            names = ("class_names", "label_names")
            self._arrays = {name: np.asarray(file[name][()]) for name in file if name not in names}
            #: what `predictions` holds: "probabilities", "margins" or "values"
            self.outputs = _text(file["predictions"].attrs.get("outputs", b""))
            #: the names of the classes, if they have any
            self.class_names = [_text(name) for name in file["class_names"][()]] if "class_names" in file else []
            #: the names of the labels, where an example may have several: column k is the probability of label k
            self.label_names = [_text(name) for name in file["label_names"][()]] if "label_names" in file else []

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Run:
    """A run's folder.

    >>> run = unisono.Run("runs/lenet")
    >>> run.summary["test"]["accuracy"], run.metrics("evaluation"), run.checkpoint().parameters["dense1.weight"]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = pathlib.Path(folder)
        if not (self.folder / "config.toml").is_file():
            raise DataError(f"{self.folder}: is no run: it has no config.toml")

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The config, with all defaults."""
        with (self.folder / "config.toml").open("rb") as file:
            return tomllib.load(file)

    @property
    def summary(self) -> dict[str, Any]:
        """What summary.json says; empty as long as the run goes on."""
        path = self.folder / "summary.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl. `event`: only these, "train" or "evaluation"."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found: list[dict[str, Any]] = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last line of a run that goes on may be half there
                found.append(json.loads(line))
        return [line for line in found if event is None or line.get("event") == event]

    def columns(self, event: str | None = None) -> dict[str, Array]:
        """The same as arrays by name, such as "loss" or "seconds.compute". What a line does not have is NaN or None."""
        return _columns([_flat(line) for line in self.events(event)])

    def metrics(self, event: str | None = None) -> "pd.DataFrame":
        """The same as a data frame of pandas."""
        import pandas as pd

        return pd.DataFrame(self.columns(event))

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints, oldest first."""
        return [Checkpoint(path) for path in sorted((self.folder / "checkpoints").glob("step-*.h5"))]

    def checkpoint(self, which: int | str = "last") -> Checkpoint:
        """A checkpoint: "last", "best", or that of a step."""
        folder = self.folder / "checkpoints"
        paths = sorted(folder.glob("step-*.h5"))
        if which == "best":
            path = folder / "best.h5"
        elif which == "last":
            path = paths[-1] if paths else folder / "step-….h5"
        elif isinstance(which, Integral) and not isinstance(which, bool):
            path = folder / f"step-{int(which):09}.h5"
        else:
            raise ValueError(f'which = {which!r}: "last", "best" or the number of a step is wanted')
        if not path.exists():
            there = ", ".join(one.stem for one in paths) or "none"
            raise CheckpointError(f"{self.folder}: there is no checkpoint {which!r}; there are {there}")
        return Checkpoint(path)

    def evaluate(self, data: Path | None = None, split: str | None = None, ranks: int = 1) -> dict[str, Any]:
        """Metrics of the newest checkpoint on a split of a set: of the one that it was trained on, or of `data`."""
        words: list[Path] = ["evaluate", self.folder, "--json", *_options({"--data": data, "--split": split})]
        return dict(json.loads(run_program(*words, ranks=ranks)))

    def predict(
        self, data: Path | None = None, *, input: Any = None, split: str | None = None, ranks: int = 1
    ) -> Predictions:
        """Predictions of the newest checkpoint. `data`: a set; without it, the one that the model was trained on.
        `input`: raw data instead: a data frame, an Arrow table, a Parquet or CSV file, or pictures."""
        return predict(self.folder, data, input=input, split=split, ranks=ranks)

    def report(self, output: Path | None = None) -> str:
        """The report's page, as HTML. `output`: a file for it."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(output) if output is not None else pathlib.Path(folder) / "report.html"
            run_program("report", self.folder, "--output", path)
            return path.read_text()

    def _repr_html_(self) -> str:
        """In a notebook, a run is shown as its report."""
        page = html.escape(self.report(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 1px solid #ccc"></iframe>'

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.summary.get('status', 'not complete')})"


class Search:
    """A search's folder: its trials, and the best of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = pathlib.Path(folder)
        path = self.folder / "search.json"
        if not path.is_file():
            raise DataError(f"{self.folder}: is no search: it has no search.json")
        #: what search.json says
        self.result: dict[str, Any] = json.loads(path.read_text())

    @property
    def trials(self) -> dict[str, Array]:
        """The trials as arrays by name: "trial", "status", "value", their settings, such as
        "optimizer.learning_rate", and metrics, such as "validation.loss"."""
        lines = []
        for trial in self.result["trials"]:
            settings = {key: _number(value) for key, value in trial["settings"].items()}
            plain = {key: value for key, value in trial.items() if key not in ("settings", "metrics")}
            lines.append({**plain, **settings, **trial.get("metrics", {})})
        return _columns(lines)

    @property
    def best(self) -> Run:
        """The run of the best trial, where it was kept."""
        return Run(self.folder / "trials" / f"{self.result['best']:04}")

    def __repr__(self) -> str:
        return f"Search({str(self.folder)!r}, {len(self.result['trials'])} trials by {self.result['metric']})"


def predict(
    model: Path,
    data: Path | None = None,
    *,
    input: Any = None,
    split: str | None = None,
    ranks: int = 1,
    threads: int | None = None,
) -> Predictions:
    """Predictions of a model: a run's folder or a checkpoint file. See `Run.predict`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "predictions.h5"
        if input is not None:
            input = csv_of(input, folder)
        options = {"--data": data, "--input": input, "--split": split}
        words = [*_options(options), *_options({"--threads": None if threads is None else str(threads)})]
        run_program("predict", model, "--output", path, *words, ranks=ranks)
        return Predictions(path)


def _options(options: Mapping[str, Path | None]) -> list[Path]:
    return [word for name, value in options.items() if value is not None for word in (name, value)]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _number(text: Any) -> Any:
    """A setting's value, which is written as TOML."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _columns(lines: list[dict[str, Any]]) -> dict[str, Array]:
    names = list(dict.fromkeys(name for line in lines for name in line))
    return {name: _array([line.get(name) for line in lines]) for name in names}


def _flat(line: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{key}."))
        else:
            flat[before + key] = value
    return flat


def _array(values: list[Any]) -> Array:
    if all(isinstance(value, (int, float)) or value is None for value in values):
        if any(value is None or isinstance(value, float) for value in values):
            return np.array([np.nan if value is None else value for value in values], dtype=float)
        return np.array(values)
    return np.array(values, dtype=object)
