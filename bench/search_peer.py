"""Grid search and leave-one-out by scikit-learn, in two processes; prints one JSON object.

    search_peer.py grid SET.h5 '{"alpha": [1e-4], "eta0": [0.1]}' --epochs 20
    search_peer.py leave-one-out winequality-red.csv --alpha 1

Runs inside the virtual environment that bench/compare-search makes.
"""

import argparse
import json
import time

import h5py
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score


def grid(arguments):
    with h5py.File(arguments.file) as file:
        matrix = file["train/features"]
        indices, indptr = (matrix[name][:].astype("i4") for name in ("indices", "indptr"))
        values = matrix["data"][:].astype("f8") if "data" in matrix else np.ones(len(indices))
        x = csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, int(matrix.attrs["columns"])))
        y = file["train/labels"][:]
    model = SGDClassifier(
        loss="log_loss", learning_rate="invscaling", power_t=0.25, max_iter=arguments.epochs, tol=None, random_state=1
    )
    search = GridSearchCV(model, json.loads(arguments.space), cv=5, n_jobs=arguments.jobs, refit=False)
    start = time.perf_counter()
    search.fit(x, y)
    return {
        "seconds": time.perf_counter() - start,
        "best": search.best_score_,
        "deviation": search.cv_results_["std_test_score"][search.best_index_],
    }


def leave_one_out(arguments):
    rows = np.genfromtxt(arguments.file, delimiter=";", skip_header=1)
    x, y = rows[:, :-1], rows[:, -1]
    start = time.perf_counter()
    scores = cross_val_score(
        Ridge(arguments.alpha), x, y, cv=LeaveOneOut(), scoring="neg_mean_squared_error", n_jobs=arguments.jobs
    )
    return {"seconds": time.perf_counter() - start, "mse": -scores.mean()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("grid")
    command.add_argument("file")
    command.add_argument("space")
    command.add_argument("--epochs", type=int, required=True)
    command.set_defaults(measure=grid)
    command = commands.add_parser("leave-one-out")
    command.add_argument("file")
    command.add_argument("--alpha", type=float, required=True)
    command.set_defaults(measure=leave_one_out)
    for command in commands.choices.values():
        command.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(arguments.measure(arguments)))


if __name__ == "__main__":
    main()
