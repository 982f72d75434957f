"""Times implicit's alternating least squares on a set of ratings, and prints one JSON object.

Runs inside the virtual environment that bench/compare-als makes. Values r become confidences 1 + alpha r, as in Hu,
Koren & Volinsky. What is timed is each iteration of fit(), on a matrix in memory. With --model, nothing is trained: the
objective is that of factors that `unisono export --format npz` wrote.
"""

import argparse
import json

import h5py
import numpy as np
from scipy.sparse import csr_matrix


def load(path, alpha):
    """Confidences [users, items]."""
    with h5py.File(path) as file:
        users, items, values = (file[f"train/{name}"][:] for name in ("users", "items", "ratings"))
    return csr_matrix(((1 + alpha * values).astype("f4"), (users.astype("i4"), items.astype("i4"))))


def objective(confidences, users, items, l2):
    """J / ratings: half the squared errors of all pairs, each by its confidence, and half the penalties."""
    p, q = users.astype("f8"), items.astype("f8")
    entries = confidences.tocoo()
    products = np.concatenate([np.einsum("nk,nk->n", p[u], q[i]) for u, i in parts(entries)])
    known = entries.data.astype("f8") * (1 - products) ** 2 - products**2
    everything = ((p.T @ p) * (q.T @ q)).sum()
    return (known.sum() + everything + l2 * ((p**2).sum() + (q**2).sum())) / 2 / entries.nnz


def parts(entries, at_once=1 << 20):
    for first in range(0, entries.nnz, at_once):
        yield entries.row[first : first + at_once], entries.col[first : first + at_once]


def train(confidences, arguments):
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=arguments.factors,
        regularization=arguments.l2,
        use_cg=arguments.solver == "cg",
        iterations=arguments.iterations,
        num_threads=arguments.threads,
        random_state=arguments.seed,
    )
    seconds = []
    model.fit(confidences, show_progress=False, callback=lambda iteration, elapsed, loss: seconds.append(elapsed))
    return model.user_factors, model.item_factors, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set")
    parser.add_argument("--alpha", type=float, required=True)
    parser.add_argument("--l2", type=float, required=True)
    parser.add_argument("--model", help="factors to measure")
    parser.add_argument("--factors", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--solver", choices=("cg", "cholesky"), default="cg")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    confidences = load(arguments.set, arguments.alpha)
    if arguments.model:
        known = np.load(arguments.model)
        users, items, seconds = known["users.factors"], known["items.factors"], []
    else:
        users, items, seconds = train(confidences, arguments)
    result = {"objective": objective(confidences, users, items, arguments.l2)}
    if seconds:
        result["ratings_per_second"] = confidences.nnz * len(seconds) / sum(seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
