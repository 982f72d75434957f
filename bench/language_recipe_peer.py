"""Trains nanoGPT's recipe for CPUs in PyTorch, and prints the loss on a text as one JSON object.

    language_recipe_peer.py TRAIN.txt VALIDATION.txt [--steps 2000] [--seed 1] [--mode compile] [--threads 2]
    language_recipe_peer.py TRAIN.txt VALIDATION.txt --parameters unisono.npz

Runs inside the virtual environment of bench/compare-language-losses. The model is that of language_peer.py with exact
GELU and norms without biases. A step's windows are drawn at random, with replacement. --parameters only evaluates a
model of bench/models/gpt-recipe.toml, which unisono has exported. The loss is the mean over all characters of the
validation text but the first, in windows one after the other, the last of which may be shorter.
"""

import argparse
import json
import math
import time

import numpy
import torch

from language_peer import LanguageModel, optimizer_of

RATE, FINAL_FACTOR, WARMUP_STEPS, CLIP_NORM, BETA2 = 1e-3, 0.1, 100, 1.0, 0.99


def rate_of(step, steps):
    if step < WARMUP_STEPS:
        return RATE * (step + 1) / (WARMUP_STEPS + 1)
    share = (step - WARMUP_STEPS) / max(1, steps - 1 - WARMUP_STEPS)
    return RATE * (FINAL_FACTOR + (1 - FINAL_FACTOR) * (1 + math.cos(math.pi * share)) / 2)


def drawn(tokens, generator, arguments):
    """Windows of a character more than the context."""
    begins = torch.randint(len(tokens) - arguments.context, (arguments.batch, 1), generator=generator)
    return tokens[begins + torch.arange(arguments.context + 1)]


def train(model, tokens, arguments):
    """The seconds of all steps. What is compiled is compiled before."""
    net = torch.compile(model) if arguments.mode == "compile" else model
    optimizer = optimizer_of(model, BETA2)
    generator = torch.Generator().manual_seed(arguments.seed)

    def gradient_of(windows):
        optimizer.zero_grad(set_to_none=True)
        net(windows[:, :-1], windows[:, 1:]).backward()

    gradient_of(tokens[: arguments.batch * (arguments.context + 1)].view(arguments.batch, -1))
    start = time.perf_counter()
    for step in range(arguments.steps):
        gradient_of(drawn(tokens, generator, arguments))
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, arguments.steps)
        optimizer.step()
    return time.perf_counter() - start


@torch.no_grad()
def evaluate(model, tokens, context):
    total, predicted, windows = 0.0, 0, 0
    count = (len(tokens) - 1) // context * context
    whole = torch.stack([tokens[:count].view(-1, context), tokens[1 : count + 1].view(-1, context)], dim=1)
    rest = torch.stack([tokens[count:-1], tokens[count + 1 :]])[None]
    for part in [*whole.split(256), *([rest] if rest.numel() else [])]:
        following = part[:, 1].contiguous()
        total += model(part[:, 0], following).item() * following.numel()
        predicted += following.numel()
        windows += len(part)
    return {"loss": total / predicted, "predicted": predicted, "windows": windows}


def load(model, path):
    """Parameters in unisono's order."""
    targets = [model.tokens.weight, model.positions.weight]
    for block in model.blocks:
        for norm, layers in ((block.norm1, (block.qkv, block.output)), (block.norm2, (block.wide, block.narrow))):
            targets += [norm.weight, norm.bias, *(layer.weight for layer in layers)]
    targets += [model.norm.weight, model.norm.bias]
    values = list(numpy.load(path).values())
    with torch.no_grad():
        for target, value in zip(targets, values, strict=True):
            target.copy_(torch.from_numpy(value).view(target.shape))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("validation")
    for key, value in {"layers": 4, "units": 128, "heads": 4, "context": 64, "batch": 12, "steps": 2000}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parameters")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    with open(arguments.train) as train_file, open(arguments.validation) as validation_file:
        texts = [train_file.read(), validation_file.read()]
    numbers = {character: number for number, character in enumerate(sorted(set("".join(texts))))}
    tokens = [torch.tensor([numbers[character] for character in text]) for text in texts]
    arguments.vocabulary = len(numbers)
    deviation = 0.02 / math.sqrt(2 * arguments.layers)
    model = LanguageModel(arguments, "none", biased_norms=bool(arguments.parameters), output_deviation=deviation)
    seconds = 0.0
    if arguments.parameters:
        load(model, arguments.parameters)
    else:
        seconds = train(model, tokens[0], arguments)
    print(json.dumps(evaluate(model, tokens[1], arguments.context) | {"seconds": seconds}))


if __name__ == "__main__":
    main()
