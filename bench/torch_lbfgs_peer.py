"""Trains one of the benchmark networks with torch.optim.LBFGS on a whole set, and prints one JSON object: the loss and
the seconds after some numbers of passes.

    python3 bench/torch_lbfgs_peer.py mlp-512|lenet SET.h5 --parameters EXPORTED.npz --passes 50,100,200 --threads T

Runs inside the virtual environment that bench/compare-batch makes. A pass is one call of the closure: forward and
backward on all training examples, in batches. It starts from the parameters that unisono starts from.
The layout is PyTorch's own: LBFGS refuses gradients in channels_last. The loss after n
passes is the least one that a call of the closure has seen until then.
"""

import argparse
import json
import time

import h5py
import numpy as np
import torch
from pytorch_peer import MODELS
from torch import nn


def load(path):
    with h5py.File(path) as file:
        features, labels = file["train/features"][:], file["train/labels"][:]
    x = torch.from_numpy(features.astype("f4") / (255 if features.dtype == np.uint8 else 1))
    return x.reshape(len(labels), 1, 28, 28), torch.from_numpy(labels.astype("i8"))


def take_parameters(model, path):
    """Layers in their order, each a weight and a bias."""
    known = np.load(path)
    names = [name.removesuffix(".weight") for name in known.files if name.endswith(".weight")]
    layers = [layer for layer in model if isinstance(layer, (nn.Linear, nn.Conv2d))]
    convolutions = sorted(name for name in names if name.startswith("convolution"))
    for layer, name in zip(layers, convolutions + sorted(set(names) - set(convolutions)), strict=True):
        for block, parameter in layer.named_parameters():
            parameter.data.copy_(torch.from_numpy(known[f"{name}.{block}"]).reshape(parameter.shape))


def train(model, x, y, marks, batch):
    """{passes: (loss, seconds)}"""
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=10 * marks[-1],
        max_eval=marks[-1] + 25,
        history_size=10,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )
    loss_function = nn.CrossEntropyLoss(reduction="sum")
    passes, least, found = 0, float("inf"), {}
    start = time.perf_counter()

    def closure():
        nonlocal passes, least
        optimizer.zero_grad()
        total = 0.0
        for first in range(0, len(y), batch):
            loss = loss_function(model(x[first : first + batch]), y[first : first + batch]) / len(y)
            loss.backward()
            total += loss.item()
        passes += 1
        least = min(least, total)
        if passes in marks:
            found[passes] = (least, time.perf_counter() - start)
        return torch.tensor(total)

    optimizer.step(closure)
    for mark in marks:
        found.setdefault(mark, (least, time.perf_counter() - start))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("mlp-512", "lenet"))
    parser.add_argument("set")
    parser.add_argument("--parameters", required=True)
    parser.add_argument("--passes", type=lambda text: [int(word) for word in text.split(",")], default=[50, 100, 200])
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    x, y = load(arguments.set)
    model = MODELS[arguments.model][0]()
    take_parameters(model, arguments.parameters)
    found = train(model, x, y, arguments.passes, arguments.batch)
    losses = {str(passes): {"loss": loss, "seconds": seconds} for passes, (loss, seconds) in found.items()}
    print(json.dumps({"torch": torch.__version__, "after": losses}))


if __name__ == "__main__":
    main()
