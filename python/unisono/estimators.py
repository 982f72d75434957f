"""Estimators for scikit-learn: models that unisono trains, in pipelines, grid searches and cross-validations."""

import os
import pathlib
import tempfile
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from .configs import Config, merge, read_config
from .launching import start
from .runs import Predictions, Run, predict
from .sets import write_set

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6

    def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        return estimator._validate_data(X, y, **options)


Array = np.ndarray[Any, Any]


def _units_of(hidden_units: Any) -> list[int]:
    units = list(hidden_units) if isinstance(hidden_units, Iterable) else [hidden_units]
    if not all(isinstance(one, Integral) and int(one) >= 1 for one in units):
        raise ValueError(f"hidden_units = {hidden_units!r}: whole numbers of at least 1 are needed")
    return [int(one) for one in units]


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common. Without a config, the model is a network of dense layers with ReLU between them, its
    features are scaled to mean 0 and deviation 1, and Adam trains it."""

    _loss = ""

    def __init__(
        self,
        hidden_units: int | tuple[int, ...] = (64,),
        *,
        config: str | os.PathLike[str] | Config | None = None,
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        random_state: int | None = 0,
        ranks: int = 1,
        threads: int = 1,
        output: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> None:
        """
        hidden_units: units of the layers before the last one; a number for one layer.
        config: a TOML file, or nested dictionaries like it, whose values replace those that follow from the other
            parameters. Units of the last layer are added where they are missing.
        epochs, batch_size, learning_rate, weight_decay: of the training.
        random_state: the seed; None: another one each time.
        ranks, threads: processes that train, and threads of each.
        output: the run's folder, which is replaced; without it, nothing is kept but the model.
        progress: whether to print how far the training is.
        """
        self.hidden_units = hidden_units
        self.config = config
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.ranks = ranks
        self.threads = threads
        self.output = output
        self.progress = progress

    def _settings(self, data: pathlib.Path, examples: int, outputs: int) -> dict[str, Any]:
        layers: list[dict[str, Any]] = []
        for units in _units_of(self.hidden_units):
            layers += [{"kind": "dense", "units": units}, {"kind": "relu"}]
        random = np.random.default_rng() if self.random_state is None else None
        seed = int(random.integers(2**31)) if random is not None else int(self.random_state or 0)
        settings: dict[str, Any] = {
            "name": type(self).__name__,
            "seed": seed,
            "data": {"normalization": "feature"},
            "model": {"kind": "network", "loss": self._loss, "layers": [*layers, {"kind": "dense", "units": outputs}]},
            "optimizer": {"kind": "adam", "learning_rate": self.learning_rate, "weight_decay": self.weight_decay},
            "train": {"epochs": self.epochs, "batch_size": self.batch_size, "threads": self.threads},
            "checkpoint": {"every_epochs": 0},
        }
        if self.config is not None:
            given = read_config(self.config)
            if given.get("model", {}).get("kind", "network") != "network":
                settings["model"] = {}
            if "kind" in given.get("optimizer", {}):
                settings["optimizer"] = {}
                del settings["train"]["batch_size"]  # some optimizers have none
            settings = merge(settings, given)
        if settings["model"].get("layers"):
            last = settings["model"]["layers"][-1]
            if last.get("kind") == "dense" and "units" not in last:
                settings["model"]["layers"][-1] = {**last, "units": outputs}
        settings["data"]["path"] = data
        if "batch_size" in settings["train"]:
            settings["train"]["batch_size"] = min(int(settings["train"]["batch_size"]), examples)
        return settings

    def _train(self, features: Array, answers: Array, weights: Array | None, outputs: int) -> None:
        with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
            data = pathlib.Path(folder) / "set.h5"
            task = "classes" if isinstance(self, ClassifierMixin) else "regression"
            write_set(data, (features, answers, weights), task=task)
            run = start(
                self._settings(data, len(features), outputs),
                ranks=self.ranks,
                output=self.output if self.output is not None else pathlib.Path(folder) / "run",
                overwrite=True,
            ).wait(self.progress)
            #: the trained model, as a checkpoint's bytes: an estimator can be copied and pickled
            self.checkpoint_ = run.checkpoint().path.read_bytes()
            self.summary_ = run.summary
            self.n_iter_ = int(run.summary["epochs"])

    def _predict(self, X: Any) -> Predictions:
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float32)
        with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
            data, model = pathlib.Path(folder) / "set.h5", pathlib.Path(folder) / "model.h5"
            write_set(data, test=features)
            model.write_bytes(self.checkpoint_)
            return predict(model, data, split="test", threads=self.threads)

    @property
    def run_(self) -> Run:
        """The run, where `output` names a folder for it."""
        check_is_fitted(self)
        if self.output is None:
            raise AttributeError("the run was not kept; set output to a folder")
        return Run(self.output)


class UnisonoClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier that unisono trains.

    >>> UnisonoClassifier(ranks=2).fit(X, y).predict_proba(X_new)
    """

    _loss = "softmax_cross_entropy"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "UnisonoClassifier":
        """X: [n, features]. y: [n] classes. sample_weight: [n] weights of the losses, at least 0."""
        X, y = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs two classes, but the data have one class: {self.classes_[0]!r}")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float32)
        if weights is not None and len(np.unique(labels[weights > 0])) < 2:
            raise ValueError("all examples whose weight is above 0 are of one class")
        self._train(X, labels, weights, len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> Array:
        """[n, K] probabilities of the classes, in the order of `classes_`."""
        probabilities = self._predict(X)["predictions"].astype(float)
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """[n] the most probable class."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


class UnisonoRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor that unisono trains. It learns targets that are scaled to mean 0 and deviation 1."""

    _loss = "mean_squared_error"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _more_tags(self) -> dict[str, Any]:  # before scikit-learn 1.6
        return {"multioutput": True}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "UnisonoRegressor":
        """X: [n, features]. y: [n] or [n, T] numbers. sample_weight: [n] weights of the losses, at least 0."""
        X, y = validate_data(self, X, y, dtype=np.float32, multi_output=True, y_numeric=True)
        self._is_flat = np.ndim(y) == 1
        targets = np.asarray(y, dtype=float).reshape(len(X), -1)
        self.target_mean_, deviation = targets.mean(axis=0), targets.std(axis=0)
        self.target_scale_ = np.where(deviation > 0, deviation, 1.0)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float32)
        self._train(X, (targets - self.target_mean_) / self.target_scale_, weights, targets.shape[1])
        return self

    def predict(self, X: Any) -> Array:
        """[n] or [n, T] predicted numbers."""
        values = self._predict(X)["predictions"].astype(float) * self.target_scale_ + self.target_mean_
        return values[:, 0] if self._is_flat else np.asarray(values)
