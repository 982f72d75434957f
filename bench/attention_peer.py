"""Times attention's forward and backward pass in PyTorch, and prints one JSON object.

Runs inside the virtual environment that bench/compare-language-models makes. Queries, keys and values lie as PyTorch's
kernel likes them: [batch][heads][T][width].
"""

import argparse

import torch
from torch.nn import functional

import torch_processes


def train(rank, arguments):
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    shape = (arguments.batch, arguments.heads, arguments.context, arguments.width)
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    dy = torch.randn(shape)

    def step(_):
        y = functional.scaled_dot_product_attention(*inputs, is_causal=True)
        torch.autograd.grad(y, inputs, dy)

    torch_processes.time_steps(step, arguments.batch, rank, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for key in ("batch", "context", "heads", "width"):
        parser.add_argument(f"--{key}", type=int, required=True)
    torch_processes.add_arguments(parser)
    torch_processes.run(train, parser.parse_args())


if __name__ == "__main__":
    main()
