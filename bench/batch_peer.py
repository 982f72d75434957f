"""Minimises the loss of a linear model with scipy, scikit-learn or Vowpal Wabbit, and prints one JSON object.

    python3 bench/batch_peer.py passes SET.h5 --l2 L --optimum F --method L-BFGS-B|CG
    python3 bench/batch_peer.py fit SET.h5 --l2 L --solver lbfgs --tolerance T [--iterations N] [--dtype f4|f8]
    python3 bench/batch_peer.py vw SET.h5 --l2 L --passes N --folder FOLDER
    python3 bench/batch_peer.py objective SET.h5 --l2 L --model WEIGHTS.npz
    python3 bench/batch_peer.py dense SET.h5 --examples N --features N
    python3 bench/batch_peer.py bandwidth --bytes B --threads T

Runs inside the virtual environment that bench/compare-batch makes. The objective is always the mean loss + l2/2 ‖w‖²
with a free bias, in double. What is timed is fit(), or the program itself, on data in memory; Vowpal Wabbit reads its
binary cache, which was written before.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np

TOLERANCES = (1e-3, 1e-4, 1e-6)
VW_BITS = 21


def load(path, dtype="f8"):
    """(features, labels) of the training examples."""
    import h5py
    from scipy.sparse import csr_matrix

    with h5py.File(path) as file:
        features, labels = file["train/features"], file["train/labels"][:]
        if isinstance(features, h5py.Dataset):
            x = features[:].reshape(len(labels), -1).astype(dtype)
            return x / 255 if features.dtype == np.uint8 else x, labels
        indices = features["indices"][:].astype("i4")
        values = features["data"][:] if "data" in features else np.ones(len(indices))  # all of them are 1
        parts = (values.astype(dtype), indices, features["indptr"][:].astype("i8"))
        return csr_matrix(parts, shape=(len(labels), int(features.attrs["columns"]))), labels


def objective(x, labels, weights, bias, l2):
    """weights: [features] and a number, or [features, classes] and [classes]."""
    z = x @ weights + bias
    if weights.ndim == 1:
        losses = np.logaddexp(0, np.where(labels > 0, -z, z))
    else:
        losses = np.logaddexp.reduce(z, axis=1) - z[np.arange(len(z)), labels]
    return float(losses.mean() + l2 / 2 * (np.asarray(weights, "f8") ** 2).sum())


def passes(arguments):
    """How many evaluations of loss and gradient a method of scipy has made when an iterate is close enough to f*."""
    from scipy.optimize import minimize

    x, labels = load(arguments.set)
    signs = np.where(labels > 0, 1.0, -1.0)
    evaluations, found = 0, {}

    def loss_and_gradient(theta):
        nonlocal evaluations
        evaluations += 1
        w, yz = theta[:-1], signs * (x @ theta[:-1] + theta[-1])
        slopes = -signs / (1 + np.exp(yz)) / len(signs)
        value = np.logaddexp(0, -yz).mean() + arguments.l2 / 2 * w @ w
        return value, np.append(x.T @ slopes + arguments.l2 * w, slopes.sum())

    def arrive(intermediate_result):
        gap = intermediate_result.fun / arguments.optimum - 1
        for tolerance in TOLERANCES:
            if gap <= tolerance:
                found.setdefault(f"{tolerance:g}", evaluations)

    options = {"maxiter": 5000, "gtol": 1e-9}
    if arguments.method == "L-BFGS-B":
        options |= {"maxcor": 10, "ftol": 0, "maxfun": 10000}
    start = np.zeros(x.shape[1] + 1)
    minimize(loss_and_gradient, start, jac=True, method=arguments.method, callback=arrive, options=options)
    return {"passes": found}


def fit(arguments):
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")  # that it has not converged where iterations are few
    x, labels = load(arguments.set, arguments.dtype)
    model = LogisticRegression(
        C=1 / (len(labels) * arguments.l2),
        solver=arguments.solver,
        tol=arguments.tolerance,
        max_iter=arguments.iterations,
    )
    start = time.perf_counter()
    model.fit(x, labels)
    seconds = time.perf_counter() - start
    x = x.astype("f8")
    two = len(model.classes_) == 2
    weights, bias = (model.coef_[0], model.intercept_[0]) if two else (model.coef_.T, model.intercept_)
    return {
        "seconds": seconds,
        "iterations": int(np.max(model.n_iter_)),
        "objective": objective(x, labels, weights, bias, arguments.l2),
    }


def write_vw(path, x, labels):
    with open(path, "w") as file:
        for row, label in enumerate(labels):
            values = slice(x.indptr[row], x.indptr[row + 1])
            words = " ".join(f"{i}:{v:.7g}" for i, v in zip(x.indices[values].tolist(), x.data[values].tolist()))
            file.write(f"{1 if label > 0 else -1} | {words}\n")


def vw(arguments):
    """The constant shares its weight with one of the features, as Vowpal Wabbit numbers them."""
    x, labels = load(arguments.set)
    lines, cache = arguments.folder / "vw.txt", arguments.folder / "vw.cache"
    written = arguments.folder / "vw.weights"
    command = [sys.executable, "-m", "vowpalwabbit", "-d", lines, "--cache_file", cache, "-b", VW_BITS, "--quiet"]
    if not cache.exists():
        write_vw(lines, x, labels)
        run([*command, "--passes", 1, "--kill_cache"])
    method = ["--bfgs", "--mem", 10, "--loss_function", "logistic", "--l2", arguments.l2 * len(labels)]
    method += ["--no_bias_regularization", "--holdout_off", "--termination", 1e-12, "--predict_only_model"]
    method += ["--passes", arguments.passes]
    start = time.perf_counter()
    run([*command, *method, "--readable_model", written])
    seconds = time.perf_counter() - start
    weights, constant = np.zeros(1 << VW_BITS), 11650396 % (1 << VW_BITS)
    for line in written.read_text().splitlines():
        number, _, value = line.partition(":")
        if number.isdigit():
            weights[int(number)] = float(value.split()[0])
    bias = weights[constant]
    value = objective(x, labels, weights[: x.shape[1]], bias, arguments.l2) - arguments.l2 / 2 * bias**2
    return {"seconds": seconds, "objective": value}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def objective_of_model(arguments):
    x, labels = load(arguments.set)
    known = np.load(arguments.model)
    weights, bias = known["linear.weight"].astype("f8"), known["linear.bias"].astype("f8")
    return {"objective": objective(x, labels, weights.squeeze(), bias, arguments.l2)}


def dense(arguments):
    """Writes a table of normal features whose classes a linear model knows, up to noise."""
    import h5py

    rng = np.random.default_rng(1)
    truth = rng.normal(size=arguments.features, scale=2 / np.sqrt(arguments.features))
    with h5py.File(arguments.set, "w") as file:
        for group, count in (("train", arguments.examples), ("test", 1000)):
            x = rng.standard_normal((count, arguments.features), dtype="f4")
            file[f"{group}/features"] = x
            file[f"{group}/labels"] = (x @ truth + rng.logistic(size=count) > 0).astype("i4")
        file.attrs["classes"] = 2
    return {}


def bandwidth(arguments):
    """Bytes a second that dot products in so many threads read: the best of some."""
    size = arguments.bytes // 4
    a = np.ones(size, "f4")
    parts = np.array_split(a, arguments.threads)
    halves = [part[: len(part) // 2 * 2].reshape(2, -1) for part in parts]
    best = float("inf")
    with concurrent.futures.ThreadPoolExecutor(arguments.threads) as pool:
        for _ in range(15):
            start = time.perf_counter()
            list(pool.map(lambda half: half[0].dot(half[1]), halves))
            best = min(best, time.perf_counter() - start)
    return {"bytes_per_second": sum(half.nbytes for half in halves) / best}


ACTIONS = {
    "passes": passes,
    "fit": fit,
    "vw": vw,
    "objective": objective_of_model,
    "dense": dense,
    "bandwidth": bandwidth,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("set", nargs="?")
    parser.add_argument("--l2", type=float)
    parser.add_argument("--optimum", type=float)
    parser.add_argument("--method", choices=("L-BFGS-B", "CG"))
    parser.add_argument("--solver", choices=("lbfgs", "newton-cg", "newton-cholesky"))
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--dtype", choices=("f4", "f8"), default="f8")
    parser.add_argument("--passes", type=int)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--model")
    parser.add_argument("--examples", type=int)
    parser.add_argument("--features", type=int)
    parser.add_argument("--bytes", type=int)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(ACTIONS[arguments.action](arguments)))


if __name__ == "__main__":
    main()
