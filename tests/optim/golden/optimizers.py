#!/usr/bin/env python3
"""Writes golden.hpp: what ten steps of each update rule make of sixteen parameters.

Every rule is written here from its paper, one parameter at a time, in double precision and plain Python, and shares
nothing with the library. Inputs are multiples of 1/64, so that they are exact in float; |g| lies in [1/2, 1].

    tests/optim/golden/optimizers.py > tests/optim/golden/golden.hpp     writes it
    tests/optim/golden/optimizers.py tests/optim/golden/golden.hpp       fails where it would be written differently
"""
import sys
from math import sqrt
from pathlib import Path

STEPS = 10
SHOWN = (1, 2, 10)
BLOCKS = (("weight", 6), ("bias", 3), ("norm", 3), ("weight", 4))  # the last starts at zero: no norm to trust


def numbers(count, seed):
    """Integers in [0, 2**31), a linear congruential generator."""
    for _ in range(count):
        seed = (1103515245 * seed + 12345) % 2**31
        yield seed >> 8


def initial_parameters():
    theta = [(n % 129 - 64) / 64 for n in numbers(12, seed=1)] + [0.0] * 4
    return split(theta)


def gradient(step):
    values = list(numbers(16, seed=100 + step))
    return split([(1 if n & 1 else -1) * (32 + (n >> 1) % 33) / 64 for n in values])


def split(vector):
    parts, at = [], 0
    for _, size in BLOCKS:
        parts.append(vector[at:at + size])
        at += size
    return parts


def norm(values):
    return sqrt(sum(x * x for x in values))


def clipped(g, largest):
    total = norm([x for block in g for x in block])
    scale = largest / total if largest and total > largest else 1.0
    return [[scale * x for x in block] for block in g]


# Each rule: (hyperparameters, rate, decay of this block, is it a weight, t = 1, 2, ..., θ, g, state) -> new θ;
# the state is a dictionary of the block's own that starts empty.


def sgd(h, rate, decay, weight, t, theta, g, state):
    d = [gi + decay * wi for gi, wi in zip(g, theta)]
    mu = h.get("momentum", 0.0)
    if mu:
        old = state.get("v", [0.0] * len(d))
        state["v"] = [mu * vi + di for vi, di in zip(old, d)]
        d = [di + mu * vi for di, vi in zip(d, state["v"])] if h.get("nesterov") else state["v"]
    return [wi - rate * di for wi, di in zip(theta, d)]


def adagrad(h, rate, decay, weight, t, theta, g, state):
    d = [gi + decay * wi for gi, wi in zip(g, theta)]
    state["a"] = [ai + di * di for ai, di in zip(state.get("a", [0.0] * len(d)), d)]
    return [wi - rate * di / (sqrt(ai) + h["epsilon"]) for wi, di, ai in zip(theta, d, state["a"])]


def rmsprop(h, rate, decay, weight, t, theta, g, state):
    d = [gi + decay * wi for gi, wi in zip(g, theta)]
    alpha = h["smoothing"]
    state["s"] = [alpha * si + (1 - alpha) * di * di for si, di in zip(state.get("s", [0.0] * len(d)), d)]
    return [wi - rate * di / (sqrt(si) + h["epsilon"]) for wi, di, si in zip(theta, d, state["s"])]


def adam_direction(h, t, d, state):
    b1, b2 = h["beta1"], h["beta2"]
    state["m"] = [b1 * mi + (1 - b1) * di for mi, di in zip(state.get("m", [0.0] * len(d)), d)]
    state["s"] = [b2 * si + (1 - b2) * di * di for si, di in zip(state.get("s", [0.0] * len(d)), d)]
    return [(mi / (1 - b1**t)) / (sqrt(si / (1 - b2**t)) + h["epsilon"]) for mi, si in zip(state["m"], state["s"])]


def adam(h, rate, decay, weight, t, theta, g, state):
    u = adam_direction(h, t, [gi + decay * wi for gi, wi in zip(g, theta)], state)
    return [wi - rate * ui for wi, ui in zip(theta, u)]


def adamw(h, rate, decay, weight, t, theta, g, state):
    shrunk = [(1 - rate * decay) * wi for wi in theta]
    return [wi - rate * ui for wi, ui in zip(shrunk, adam_direction(h, t, g, state))]


def lars(h, rate, decay, weight, t, theta, g, state):
    local = 1.0
    if weight and norm(theta) > 0 and norm(g) > 0:
        local = h["trust"] * norm(theta) / (norm(g) + decay * norm(theta))
    old = state.get("v", [0.0] * len(g))
    state["v"] = [h["momentum"] * vi + rate * local * (gi + decay * wi) for vi, gi, wi in zip(old, g, theta)]
    return [wi - vi for wi, vi in zip(theta, state["v"])]


def lamb(h, rate, decay, weight, t, theta, g, state):
    u = [ri + decay * wi for ri, wi in zip(adam_direction(h, t, g, state), theta)]
    ratio = norm(theta) / norm(u) if weight and norm(theta) > 0 and norm(u) > 0 else 1.0
    return [wi - rate * ratio * ui for wi, ui in zip(theta, u)]


BETAS = {"beta1": 0.9, "beta2": 0.999}
CASES = {  # name: (rule, its hyperparameters, rate, weight decay, decay biases and norms, clipping norm)
    "sgd": (sgd, {}, 0.0625, 0.0, False, 0.0),
    "sgd, decay, clipping": (sgd, {}, 0.0625, 0.25, False, 1.5),
    "momentum": (sgd, {"momentum": 0.9}, 0.0625, 0.0, False, 0.0),
    "momentum, decay of all": (sgd, {"momentum": 0.9}, 0.0625, 0.125, True, 0.0),
    "nesterov": (sgd, {"momentum": 0.9, "nesterov": True}, 0.0625, 0.125, False, 1.5),
    "adagrad": (adagrad, {"epsilon": 1e-10}, 0.0625, 0.125, False, 0.0),
    "rmsprop": (rmsprop, {"smoothing": 0.99, "epsilon": 1e-8}, 0.015625, 0.125, False, 0.0),
    "adam": (adam, {**BETAS, "epsilon": 1e-8}, 0.015625, 0.0, False, 0.0),
    "adam, decay, clipping": (adam, {**BETAS, "epsilon": 1e-8}, 0.015625, 0.125, False, 1.5),
    "adamw": (adamw, {**BETAS, "epsilon": 1e-8}, 0.015625, 0.5, False, 0.0),
    "lars": (lars, {"momentum": 0.9, "trust": 0.125}, 0.25, 0.125, False, 0.0),
    "lars, clipping": (lars, {"momentum": 0.9, "trust": 0.125}, 0.25, 0.125, True, 1.5),
    "lamb": (lamb, {**BETAS, "epsilon": 1e-6}, 0.015625, 0.5, False, 0.0),
    "lamb, decay of all": (lamb, {**BETAS, "epsilon": 1e-6}, 0.015625, 0.5, True, 1.5),
}


def run(case):
    """θ after each step, flat; the rate falls by a sixteenth of its first value a step."""
    rule, h, rate, decay, decay_all, clip = case
    theta, states, shown = initial_parameters(), [{} for _ in BLOCKS], []
    for t in range(1, STEPS + 1):
        g = clipped(gradient(t), clip)
        now = rate * (1 - (t - 1) / 16)
        theta = [
            rule(h, now, decay if kind == "weight" or decay_all else 0.0, kind == "weight", t, block, gb, state)
            for (kind, _), block, gb, state in zip(BLOCKS, theta, g, states)
        ]
        shown.append([x for block in theta for x in block])
    return shown


def row(values):
    return "{" + ", ".join(repr(x) for x in values) + "}"


def table(name, rows):
    body = ",\n    ".join(row(values) for values in rows)
    return f"inline const std::vector<std::vector<double>> {name} = {{\n    {body}}};\n"


def header():
    flat = lambda parts: [x for block in parts for x in block]
    yield "// Written by optimizers.py; do not edit.\n#pragma once\n"
    yield "#include <map>\n#include <string>\n#include <vector>\n"
    yield "// clang-format off\nnamespace golden {\n"
    yield f"inline const std::vector<double> parameters = {row(flat(initial_parameters()))};\n"
    yield table("gradients", [flat(gradient(t)) for t in range(1, STEPS + 1)])
    yield f"inline const std::vector<int> shown_steps = {row(SHOWN)};\n"
    yield "/// Parameters after the shown steps."
    yield "inline const std::map<std::string, std::vector<std::vector<double>>> results = {"
    for name, case in CASES.items():
        shown = run(case)
        rows = ",\n      ".join(row(shown[t - 1]) for t in SHOWN)
        yield f'    {{"{name}",\n     {{{rows}}}}},'
    yield "};\n\n}  // namespace golden"


def main():
    text = "\n".join(header()) + "\n"
    if len(sys.argv) == 1:
        print(text, end="")
    elif Path(sys.argv[1]).read_text(encoding="utf-8") != text:
        sys.exit(f"{sys.argv[1]} is not what {__file__} writes; write it anew")


main()
