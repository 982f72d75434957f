"""Draws the sets of the comparisons, as functions of a seed: ratings, sparse examples of two classes, and images.

    python3 bench/generated.py ratings FOLDER [--users 20000 --items 8000 --per-user 150 --seed 1]
    python3 bench/generated.py stars FOLDER [--seed 1]
    python3 bench/generated.py sparse FILE.h5 [--examples 400000 --features 1250000 --values 50 --stop-words 100]
                                              [--seed 1]
    python3 bench/generated.py images FILE.h5 [--examples 2000 --shape 1x28x28 --seed 1]

Needs numpy, and h5py for `sparse` and `images`.
"""

import argparse
import json
import pathlib

import numpy as np

RANK = 8  # of the true ratings
INFORMATIVE = 0.1  # share of the features that have a true weight
NOISE = 0.5  # standard deviation of a rating about its truth: what no model's RMSE can fall below


def draw_ratings(users=20000, items=8000, per_user=150, seed=1, held_out=0.1):
    """(training, test) ratings, each a triple of arrays: users, items, ratings.

    Every user rates `per_user` different items, which are drawn with probabilities ~ 1/rank (Zipf's law). A rating is
    3.5 + x_u · y_i + noise, where x_u · y_i has the variance 1. A tenth of the ratings, at random, is held out.
    """
    rng = np.random.default_rng(seed)
    log_popularity = -np.log(np.arange(1, items + 1))
    # The largest of log p + Gumbel noise are a sample without replacement.
    chosen = np.concatenate(
        [
            np.argpartition(log_popularity + rng.gumbel(size=(len(part), items)), -per_user, axis=1)[:, -per_user:]
            for part in np.array_split(np.arange(users), max(1, users // 1000))
        ]
    )
    x = rng.normal(size=(users, RANK)) / np.sqrt(RANK)
    y = rng.normal(size=(items, RANK))
    u, i = np.repeat(np.arange(users), per_user), chosen.ravel()
    ratings = 3.5 + np.einsum("nk,nk->n", x[u], y[i]) + NOISE * rng.normal(size=len(u))
    order = rng.permutation(len(u))
    tested = order[: round(held_out * len(u))]
    trained = order[len(tested) :]
    # Popular items must not lie side by side in a program's factors by how we number them.
    u, i = rng.permutation(users)[u], rng.permutation(items)[i]
    return tuple((u[part], i[part], ratings[part].astype("f4")) for part in (trained, tested))


def draw_stars(users=943, items=1682, ratings=95000, seed=1, held_out=0.2):
    """(training, test) ratings from 1 to 5 stars, as many and as noisy as those of MovieLens-100k.

    Users rate as many items as log-normal numbers say, 20 to 700, and items with probabilities ~ 1/(rank + 10)^0.9. A
    rating is 3.53 + b_u + c_i + x_u · y_i + noise, rounded: biases of deviation 0.43 and 0.5, products of 0.45 in 20
    directions that matter less and less, noise of 0.88. A fifth of the ratings, at random, is held out.
    """
    rng = np.random.default_rng(seed)
    wanted = rng.lognormal(0, 1, users)
    wanted = np.clip(wanted / wanted.sum() * ratings, 20, 700).astype("i8")
    log_popularity = -0.9 * np.log(np.arange(items) + 10)
    u = np.repeat(np.arange(users), wanted)
    i = np.concatenate([np.argpartition(log_popularity + rng.gumbel(size=items), -n)[-n:] for n in wanted])
    scale = 1 / np.arange(1, 21) ** 0.8
    scale /= np.sqrt(np.sqrt((scale**4).sum()))  # x · y has the variance 1
    x, y = rng.normal(size=(users, 20)) * scale, rng.normal(size=(items, 20)) * scale
    truth = 3.53 + 0.43 * rng.normal(size=users)[u] + 0.5 * rng.normal(size=items)[i]
    truth += 0.45 * np.einsum("nk,nk->n", x[u], y[i]) + 0.88 * rng.normal(size=len(u))
    stars = np.clip(np.rint(truth), 1, 5).astype("f4")
    order = rng.permutation(len(u))
    tested, trained = np.split(order, [round(held_out * len(u))])
    return tuple((u[part], i[part], stars[part]) for part in (trained, tested))


def write_ratings(path, ratings):
    """Lines of "user item rating"."""
    with open(path, "w") as file:
        file.writelines(f"{u} {i} {r:.5f}\n" for u, i, r in zip(*map(np.ndarray.tolist, ratings)))


def draw_sparse(examples=400000, features=1250000, mean_values=50, stop_words=100, seed=1):
    """(indptr, indices, values, labels): rows of unit length with some `mean_values` features each, and their classes.

    Features are drawn with probabilities ~ 1/(rank + stop_words), as words are once the most frequent ones are taken
    out: of a hundred, the first is in one example of twenty, the last in two of all. A tenth of them has a true weight,
    normal; the class is 1 with the probability σ(4z), z = w · x, standardised.
    """
    rng = np.random.default_rng(seed)
    counts = rng.poisson(mean_values - 1, examples) + 1
    rows = np.repeat(np.arange(examples), counts)
    # The logarithm of 1/(rank + s) is uniform.
    drawn = np.exp(rng.uniform(np.log(stop_words), np.log(stop_words + features), len(rows))) - stop_words
    # Sorted and without repetitions; the numbers of the features say nothing about how frequent they are.
    keys = np.unique(rows * features + rng.permutation(features)[np.minimum(drawn.astype("i8"), features - 1)])
    indices = (keys % features).astype("u4")
    indptr = np.searchsorted(keys // features, np.arange(examples + 1)).astype("u8")
    lengths = np.diff(indptr).astype("i8")
    values = np.repeat(1 / np.sqrt(lengths), lengths).astype("f4")
    weights = rng.normal(size=features) * (rng.random(features) < INFORMATIVE)
    z = np.add.reduceat(weights[indices] * values, indptr[:-1].astype("i8"))
    labels = rng.random(examples) < 1 / (1 + np.exp(-4 * (z - z.mean()) / z.std()))
    return indptr, indices, values, labels.astype("i4")


def write_sparse(path, drawn, features, held_out=0.1):
    """The set in unisono's layout for sparse examples, of which the last tenth is the test group."""
    import h5py

    indptr, indices, values, labels = drawn
    first = round((1 - held_out) * len(labels))
    with h5py.File(path, "w") as file:
        for group, begin, end in (("train", 0, first), ("test", first, len(labels))):
            matrix = file.create_group(f"{group}/features")
            matrix.attrs["columns"] = features
            entries = slice(int(indptr[begin]), int(indptr[end]))
            matrix["indptr"] = indptr[begin : end + 1] - indptr[begin]
            matrix["indices"], matrix["data"] = indices[entries], values[entries]
            file[f"{group}/labels"] = labels[begin:end]


def write_images(path, examples, shape, seed=1):
    """Noise of variance 1 with classes from 0 to 9 at random: 64 training images, and as many test images as asked."""
    import h5py

    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        for group, count in (("train", 64), ("test", examples)):
            file[f"{group}/features"] = rng.standard_normal((count, *shape), dtype="f4")
            file[f"{group}/labels"] = rng.integers(0, 10, count, dtype="i4")
        file.attrs["classes"] = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    ratings = kinds.add_parser("ratings")
    ratings.add_argument("folder", type=pathlib.Path, help="gets train.txt and test.txt")
    ratings.add_argument("--users", type=int, default=20000)
    ratings.add_argument("--items", type=int, default=8000)
    ratings.add_argument("--per-user", type=int, default=150)
    sparse = kinds.add_parser("sparse")
    sparse.add_argument("file", type=pathlib.Path)
    sparse.add_argument("--examples", type=int, default=400000)
    sparse.add_argument("--features", type=int, default=1250000)
    sparse.add_argument("--values", type=int, default=50, help="of an example, on average")
    sparse.add_argument("--stop-words", type=int, default=100, help="most frequent features that were taken out")
    stars = kinds.add_parser("stars")
    stars.add_argument("folder", type=pathlib.Path, help="gets train.txt and test.txt")
    images = kinds.add_parser("images")
    images.add_argument("file", type=pathlib.Path)
    images.add_argument("--examples", type=int, default=2000, help="test images")
    images.add_argument("--shape", default="1x28x28", help="channels x height x width")
    for kind in (ratings, stars, sparse, images):
        kind.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.kind in ("ratings", "stars"):
        if arguments.kind == "stars":
            drawn = draw_stars(seed=arguments.seed)
        else:
            drawn = draw_ratings(arguments.users, arguments.items, arguments.per_user, arguments.seed)
        arguments.folder.mkdir(parents=True, exist_ok=True)
        for name, part in zip(("train", "test"), drawn):
            write_ratings(arguments.folder / f"{name}.txt", part)
        print(json.dumps({"train": len(drawn[0][0]), "test": len(drawn[1][0])}))
    elif arguments.kind == "images":
        shape = [int(length) for length in arguments.shape.split("x")]
        write_images(arguments.file, arguments.examples, shape, arguments.seed)
    else:
        drawn = draw_sparse(
            arguments.examples, arguments.features, arguments.values, arguments.stop_words, arguments.seed
        )
        write_sparse(arguments.file, drawn, arguments.features)
        print(json.dumps({"examples": len(drawn[3]), "entries": len(drawn[1]), "ones": int(drawn[3].sum())}))


if __name__ == "__main__":
    main()
