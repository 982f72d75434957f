"""The estimators pass scikit-learn's own checks."""

import os
import pathlib
import pickle
import sys
import tempfile
import unittest
import warnings

import numpy
import sklearn
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

sys.path.insert(0, str(pathlib.Path(os.environ["UNISONO_SOURCE"]) / "python"))
import unisono

# Steps on parts of the examples, in an order of their own, depend on how often an example occurs, not only on the sum
# of its weights.
EXPECTED = {
    "check_sample_weights_invariance": "steps are made on batches in a random order",
    "check_sample_weight_equivalence_on_dense_data": "steps are made on batches in a random order",
}


def checks_of(estimator):
    if hasattr(estimator_checks, "estimator_checks_generator"):
        return estimator_checks.estimator_checks_generator(estimator)
    return estimator_checks.check_estimator(estimator, generate_only=True)


class Estimators(unittest.TestCase):
    def check_all(self, kind):
        failed = {}
        for estimator, check in checks_of(kind()):
            name = getattr(check, "func", check).__name__
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    check(estimator)
            except unittest.SkipTest:
                continue
            except Exception as error:  # what failed is told below
                failed[name] = str(error)
        unexpected = {name: why for name, why in failed.items() if name not in EXPECTED}
        self.assertEqual(unexpected, {}, f"scikit-learn {sklearn.__version__}")
        self.assertNotEqual(failed, {}, "EXPECTED names what passes")

    def test_scikit_learns_checks_of_the_classifier(self):
        self.check_all(unisono.UnisonoClassifier)

    def test_scikit_learns_checks_of_the_regressor(self):
        self.check_all(unisono.UnisonoRegressor)

    def test_searches_and_cross_validations(self):
        features, labels = load_iris(return_X_y=True)
        model = unisono.UnisonoClassifier(hidden_units=(16,), epochs=40)
        scores = cross_val_score(model, features, labels, cv=3)
        self.assertGreater(scores.mean(), 0.93)
        search = GridSearchCV(model, {"hidden_units": [(), (16,)], "learning_rate": [0.0001, 0.01]}, cv=2)
        search.fit(features, labels)
        self.assertEqual(search.best_params_["learning_rate"], 0.01)

    def test_a_config_of_ones_own_and_the_run(self):
        features, labels = load_iris(return_X_y=True)
        words = numpy.array(["setosa", "versicolor", "virginica"])[labels]
        config = {
            "model": {"kind": "linear", "loss": "softmax", "l2": 0.001},
            "optimizer": {"kind": "lbfgs"},
            "strategy": {"kind": "batch"},
            "train": {"epochs": 30},
        }
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "run"
            model = unisono.UnisonoClassifier(config=config, ranks=2, output=output).fit(features, words)
            self.assertEqual(model.run_.config["optimizer"]["kind"], "lbfgs")
            self.assertEqual(model.run_.summary["ranks"], 2)
        self.assertGreater(model.score(features, words), 0.95)
        again = pickle.loads(pickle.dumps(model))
        numpy.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))

    def test_linear_models_are_those_of_scikit_learn(self):
        """With the penalties that docs/from-scikit-learn.md gives."""
        features, targets = load_diabetes(return_X_y=True)
        targets = (targets - targets.mean()) / targets.std()
        n = len(targets)
        for theirs, penalty in ((Ridge(alpha=3.0), {"l2": 3.0 / n}), (Lasso(alpha=0.05), {"l1": 0.05})):
            expected = make_pipeline(StandardScaler(), theirs).fit(features, targets).predict(features)
            self.check_linear(unisono.UnisonoRegressor, "squared", penalty, features, targets, expected)
        features, labels = load_breast_cancer(return_X_y=True)
        theirs = LogisticRegression(C=0.1, tol=1e-8)
        expected = make_pipeline(StandardScaler(), theirs).fit(features, labels).predict_proba(features)
        penalty = {"l2": 1 / (0.1 * len(labels))}
        self.check_linear(unisono.UnisonoClassifier, "logistic", penalty, features, labels, expected)

    def check_linear(self, kind, loss, penalty, features, answers, expected):
        config = {
            "model": {"kind": "linear", "loss": loss, **penalty},
            "optimizer": {"kind": "lbfgs"},
            "strategy": {"kind": "batch"},
        }
        model = kind(config=config, epochs=300).fit(features, answers)
        found = model.predict_proba(features) if loss == "logistic" else model.predict(features)
        # A gradient of 1e-5 where the least curvature is 0.009 (Lasso): 0.004 of weights in this direction, in which
        # features deviate by 0.09.
        numpy.testing.assert_allclose(found, expected, atol=1e-3)

    def test_weights_count(self):
        features = numpy.zeros((40, 1), dtype=numpy.float32)
        labels = numpy.arange(40) % 2
        model = unisono.UnisonoClassifier(hidden_units=(), epochs=200, batch_size=40)
        model.fit(features, labels, sample_weight=numpy.where(labels == 1, 3.0, 1.0))
        numpy.testing.assert_allclose(model.predict_proba(features[:1]), [[0.25, 0.75]], atol=0.01)

    def test_one_hidden_layer_may_be_a_plain_number(self):
        features, labels = load_iris(return_X_y=True)
        options = {"epochs": 3, "learning_rate": 0.02}
        models = [unisono.UnisonoClassifier(units, **options).fit(features, labels) for units in (8, (8,), [8])]
        for model in models[1:]:
            numpy.testing.assert_array_equal(model.predict_proba(features), models[0].predict_proba(features))
        for wrong in (8.5, (8, 0), "8", (8, None), -1):
            with self.assertRaisesRegex(ValueError, "hidden_units = .*: whole numbers of at least 1 are needed"):
                unisono.UnisonoClassifier(wrong).fit(features, labels)

    def test_several_targets(self):
        random = numpy.random.default_rng(1)
        features = random.normal(size=(200, 3))
        targets = features @ numpy.array([[1.0, 100.0], [2.0, 0.0], [0.0, -50.0]]) + numpy.array([5.0, 1000.0])
        model = unisono.UnisonoRegressor(hidden_units=()).fit(features, targets)
        numpy.testing.assert_allclose(model.predict(features), targets, rtol=0.02, atol=0.1)


if __name__ == "__main__":
    unittest.main()
