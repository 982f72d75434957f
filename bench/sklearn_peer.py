"""Times scikit-learn's SGDClassifier on a sparse set in unisono's layout, and prints one JSON object.

Runs inside the virtual environment that bench/compare-linear makes. What is timed is fit(), on a matrix in memory.
"""

import argparse
import json
import time

import h5py
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score


def load(file, group, dtype):
    matrix = file[f"{group}/features"]
    indices, indptr = (matrix[name][:].astype("i4") for name in ("indices", "indptr"))
    values = matrix["data"][:].astype(dtype) if "data" in matrix else np.ones(len(indices), dtype)
    shape = (len(indptr) - 1, int(matrix.attrs["columns"]))
    return csr_matrix((values, indices, indptr), shape=shape), file[f"{group}/labels"][:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--alpha", type=float, required=True)
    parser.add_argument("--schedule", choices=("optimal", "constant", "invscaling"), default="optimal")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--dtype", choices=("f4", "f8"), default="f8")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with h5py.File(arguments.file) as file:
        x, y = load(file, "train", arguments.dtype)
        test_x, test_y = load(file, "test", arguments.dtype)
    model = SGDClassifier(
        loss="log_loss",
        alpha=arguments.alpha,
        learning_rate=arguments.schedule,
        eta0=arguments.rate,
        power_t=0.25,
        max_iter=arguments.epochs,
        tol=None,
        random_state=arguments.seed,
    )
    start = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - start
    result = {
        "examples_per_second": len(y) * arguments.epochs / seconds,
        "accuracy": model.score(test_x, test_y),
        "auc": roc_auc_score(test_y, model.decision_function(test_x)),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
