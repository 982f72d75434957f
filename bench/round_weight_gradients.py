"""What it costs to round the weight gradients of convolutions to bfloat16: losses of ResNet-20, as a table.

    python3 bench/round_weight_gradients.py FOLDER [--steps 500] [--batch 32] [--seeds 3] [--threads 1]

FOLDER holds Fashion-MNIST's idx.gz files; the Python needs PyTorch (bench/compare-pytorch makes an environment that has
it). A CPU suffices: what unisono's bf16 stores as bfloat16 (activations, their gradients, the weights that a pass uses)
is rounded to it and then computed with in float32, as tensor cores do, which sum in float32. The trainings differ in
the gradients of convolutions' weights alone:
    float32    as they are summed
    bfloat16   rounded once, as cuDNN's kernels with results of bfloat16 do
    neighbour  as they are summed, from initial weights that differ in their last bits: how far trainings part anyway
"""

import argparse
import gzip
import pathlib
import statistics
import time

import torch
from pytorch_peer import resnet20
from torch import nn

WAYS = ("float32", "bfloat16", "neighbour")
LAST = 100  # steps whose losses are averaged


def rounded(values):
    return values.bfloat16().float()


class Stored(torch.autograd.Function):
    """A tensor that is stored as bfloat16, and its gradient likewise."""

    @staticmethod
    def forward(context, values):
        return rounded(values)

    @staticmethod
    def backward(context, gradient):
        return rounded(gradient)


class RoundedWeights(torch.autograd.Function):
    """The weights of a pass; their gradient is rounded where `rounds` says so."""

    @staticmethod
    def forward(context, weights, rounds):
        context.rounds = rounds
        return rounded(weights)

    @staticmethod
    def backward(context, gradient):
        return (rounded(gradient) if context.rounds else gradient), None


class Convolution(nn.Conv2d):
    rounds = False

    def forward(self, x):
        weights = RoundedWeights.apply(self.weight, self.rounds)
        return Stored.apply(nn.functional.conv2d(x, weights, None, self.stride, self.padding))


class BatchNorm(nn.BatchNorm2d):
    def forward(self, x):
        return Stored.apply(super().forward(x))


def in_bfloat16(model, rounds):
    """The model with the roundings of bf16 in its convolutions and batch norms."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.__class__ = Convolution
            module.rounds = rounds
        elif isinstance(module, nn.BatchNorm2d):
            module.__class__ = BatchNorm
    return model


def read_images(folder, count):
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8).view(-1, 1, 28, 28)[:count].float()
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)[:count].long()
    return rounded((pixels - pixels.mean()) / pixels.std()), labels


def train(way, seed, images, labels, steps, batch):
    """The loss of each step."""
    torch.manual_seed(seed)
    model = resnet20()
    model[0] = nn.Conv2d(1, 16, 3, 1, 1, bias=False)
    in_bfloat16(model, rounds=way == "bfloat16").to(memory_format=torch.channels_last)
    if way == "neighbour":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 2**-23)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    losses = []
    for step in range(steps):
        chosen = order[torch.arange(step * batch, (step + 1) * batch) % len(images)]
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    images, labels = read_images(arguments.folder, 60000)
    start = time.monotonic()
    setting = f"ResNet-20 on Fashion-MNIST, batches of {arguments.batch}"
    print(f"{setting}: mean loss of the last {LAST} of {arguments.steps} steps")
    print("seed  " + "  ".join(f"{way:>9}" for way in WAYS), flush=True)
    columns = {way: [] for way in WAYS}
    for seed in range(1, arguments.seeds + 1):
        for way in WAYS:
            losses = train(way, seed, images, labels, arguments.steps, arguments.batch)
            columns[way].append(statistics.mean(losses[-LAST:]))
        print(f"{seed:4}  " + "  ".join(f"{columns[way][-1]:9.4f}" for way in WAYS), flush=True)
    print("mean  " + "  ".join(f"{statistics.mean(columns[way]):9.4f}" for way in WAYS))
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
