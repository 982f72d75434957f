"""Times training steps of a language model in PyTorch, and prints one JSON object.

Runs inside the virtual environment that bench/compare-language-models makes. The model is nanoGPT's: layer norms before
attention and before two dense layers with GELU, learned positions, no biases, the last layer tied to the tokens' table.
A step is what a training loop does: take the next batch of random tokens, forward, cross-entropy, backward, AdamW. With
--processes 2 each process trains on half of the batch, through DistributedDataParallel over gloo.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional

import torch_processes


class Block(nn.Module):
    def __init__(self, units, heads, gelu, biased_norms):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.norm1, self.norm2 = (nn.LayerNorm(units, bias=biased_norms) for _ in range(2))
        self.qkv = nn.Linear(units, 3 * units, bias=False)
        self.output = nn.Linear(units, units, bias=False)
        self.wide = nn.Linear(units, 4 * units, bias=False)
        self.narrow = nn.Linear(4 * units, units, bias=False)

    def attention(self, x):
        batch, rows, units = x.shape
        by_head = (batch, rows, self.heads, units // self.heads)
        q, k, v = (part.view(by_head).transpose(1, 2) for part in self.qkv(x).split(units, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, rows, units))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate=self.gelu))


class LanguageModel(nn.Module):
    """\param gelu "tanh" or "none": exact
    \param output_deviation of the initial weights of the layers whose outputs are added to a block's inputs"""

    def __init__(self, arguments, gelu="tanh", biased_norms=True, output_deviation=0.02):
        super().__init__()
        units = arguments.units
        self.tokens = nn.Embedding(arguments.vocabulary, units)
        self.positions = nn.Embedding(arguments.context, units)
        blocks = (Block(units, arguments.heads, gelu, biased_norms) for _ in range(arguments.layers))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(units, bias=biased_norms)
        self.head = nn.Linear(units, arguments.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=0.02)
        for block in self.blocks:
            for layer in (block.output, block.narrow):
                nn.init.normal_(layer.weight, std=output_deviation)

    def forward(self, tokens, following):
        positions = self.positions.weight[: tokens.shape[1]]
        logits = self.head(self.norm(self.blocks(self.tokens(tokens) + positions)))
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def optimizer_of(model, beta2=0.999):
    """AdamW that decays what has two axes, as nanoGPT does."""
    parameters = list(model.parameters())
    groups = [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": 0.1},
        {"params": [one for one in parameters if one.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, beta2), fused=True)


def train(rank, arguments):
    """Examples per second of all processes together, printed by rank 0."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = LanguageModel(arguments)
    optimizer = optimizer_of(model)
    model = torch_processes.join(model, rank, arguments)
    net = torch.compile(model) if arguments.mode == "compile" else model
    own = arguments.batch // arguments.processes
    batches = torch.randint(arguments.vocabulary, (8, own, arguments.context + 1))

    def step(i):
        windows = batches[i % len(batches)]
        optimizer.zero_grad(set_to_none=True)
        net(windows[:, :-1], windows[:, 1:]).backward()
        optimizer.step()

    torch_processes.time_steps(step, own, rank, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for key in ("layers", "units", "heads", "context", "batch", "vocabulary"):
        parser.add_argument(f"--{key}", type=int, required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    torch_processes.add_arguments(parser)
    torch_processes.run(train, parser.parse_args())


if __name__ == "__main__":
    main()
