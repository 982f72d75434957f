"""Runs, sets and models of unisono, which trains models in parallel on MPI ranks."""

from typing import Any

from .configs import merge, read_config
from .errors import (
    CheckpointError,
    CommunicationError,
    ConfigError,
    DataError,
    DeviceError,
    Interrupted,
    UnisonoError,
)
from .launching import Launched, launch, search, start
from .program import run_program
from .runs import Arrays, Checkpoint, Predictions, Run, Search, predict
from .sets import Group, Set, import_table, read_set, write_set


def __getattr__(name: str) -> Any:
    """The estimators, which need scikit-learn."""
    if name in ("UnisonoClassifier", "UnisonoRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'unisono' has no attribute {name!r}")


__all__ = [
    "Arrays",
    "Checkpoint",
    "CheckpointError",
    "CommunicationError",
    "ConfigError",
    "DataError",
    "DeviceError",
    "Group",
    "Interrupted",
    "Launched",
    "Predictions",
    "Run",
    "Search",
    "Set",
    "UnisonoClassifier",
    "UnisonoError",
    "UnisonoRegressor",
    "import_table",
    "launch",
    "merge",
    "predict",
    "read_config",
    "read_set",
    "run_program",
    "search",
    "start",
    "write_set",
]
