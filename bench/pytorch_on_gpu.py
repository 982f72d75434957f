"""bench/compare-pytorch --device cuda: training steps on one GPU, the same model, batch and precision in both
programs, data in the GPU's memory in both."""

import statistics

import peers

MODES = ("eager", "compile", "graphs")

# What is compared: (model, batch, precision), how many steps are timed, and the aims: over eager, over the best of
# the modes that are named, and of the measured peak; None where there is none.
ANY, COMPILED, GRAPHS = MODES, ("compile", "graphs"), ("graphs",)
CASES = {
    ("mlp-512", 64, "tf32"): (2000, 3, 1.2, GRAPHS, None),
    ("mlp-512", 256, "tf32"): (2000, 3, 1.2, GRAPHS, None),
    ("mlp-512", 1024, "tf32"): (2000, 3, 1.2, GRAPHS, None),
    ("mlp-512", 1024, "bf16"): (2000, 3, 1.2, GRAPHS, None),
    ("mlp-8192", 4096, "bf16"): (60, None, 1.1, COMPILED, 0.75),
    ("resnet20", 128, "bf16"): (400, 3, 1.2, ANY, None),
    ("resnet20", 1024, "bf16"): (200, None, 1.2, ANY, None),
}
OTHERS = (200, None, None, ANY, None)  # of a case that is not in the table


def parse_case(text):
    """ "mlp-512:64:tf32" as a case."""
    words = text.split(":")
    if len(words) != 3 or not words[1].isdecimal() or int(words[1]) < 1 or words[2] not in ("fp32", "tf32", "bf16"):
        peers.fail(f"--cases {text}: each is MODEL:BATCH:PRECISION, as in mlp-512:64:tf32")
    return words[0], int(words[1]), words[2]


def pytorch(python, case, mode, steps):
    model, batch, precision = case
    words = [model, "--device", "cuda", "--precision", precision, "--mode", mode]
    words += ["--batch", batch, "--steps", steps, "--warmup", 20]
    return peers.output_of([python, peers.HERE / "pytorch_peer.py", *words])


def unisono(binary, case, shape, steps):
    model, batch, precision = case
    words = [binary, "bench", peers.HERE / "models" / f"{model}.toml", "--json", "--features", shape, "--classes", "10"]
    words += ["--steps", 3 * steps, "--batch-per-rank", batch]
    return peers.output_of([*words, "--set", "device=cuda", "--set", f"precision={precision}"])


def compare(arguments, python, case, shape):
    """Medians over the rounds, and of the ratios within a round."""
    steps = 2 if arguments.quick else CASES.get(case, OTHERS)[0]
    rounds = []
    for _ in range(arguments.rounds):
        ours = unisono(arguments.unisono, case, shape, steps)
        rates = {mode: pytorch(python, case, mode, steps)["examples_per_second"] for mode in MODES}
        rates |= {"unisono": ours["examples_per_second"], "peak": ours["fraction_of_peak"]}
        rates |= {"device": ours["device"], "bandwidth": ours["bandwidth_gigabytes_per_second"]}
        rates |= {"flops": ours["peak_gflops_per_second"]}
        rounds.append(rates)
        peers.say(f"{case}: " + ", ".join(f"{name} {rates[name]:,.0f}/s" for name in (*MODES, "unisono")))
    return rounds


def with_aim(value, aim):
    return f"{value:.2f}" + (f" (≥ {aim})" if aim else "")


def row(case, rounds):
    _, over_eager, over_best, modes, of_peak = CASES.get(case, OTHERS)
    model, batch, precision = case
    median = lambda key: statistics.median(rates[key] for rates in rounds)
    best = [rates | {"best": max(rates[mode] for mode in modes)} for rates in rounds]
    return [
        f"{model}, {batch:,}, {precision}",
        *(f"{median(mode):,.0f}" for mode in MODES),
        f"{median('unisono'):,.0f}",
        with_aim(peers.median_ratio(rounds, "unisono", "eager"), over_eager),
        f"{with_aim(peers.median_ratio(best, 'unisono', 'best'), over_best)} over {' or '.join(modes)}",
        f"{100 * median('peak'):.0f} %" + (f" (≥ {100 * of_peak:.0f})" if of_peak else ""),
    ]


def table(measured, rounds, version):
    """The text for docs/performance.md."""
    header = ["model, batch, precision", *(f"PyTorch, {mode}" for mode in MODES), "unisono", "over eager"]
    header += ["over the best", "of the measured peak"]
    any_rounds = next(iter(measured.values()))
    peaks = {case[2]: statistics.median(rates["flops"] for rates in found) for case, found in measured.items()}
    device = any_rounds[0]["device"].rsplit(", ", 1)[0]  # without the precision
    bandwidth = statistics.median(rates["bandwidth"] for rates in any_rounds)
    ceilings = ", ".join(f"{flops / 1000:,.0f} TFLOP/s in {precision}" for precision, flops in peaks.items())
    return "\n".join(
        [
            f"{device}; measured there: {ceilings}, {bandwidth:,.0f} GB/s in a copy. PyTorch {version}; "
            f"medians of {rounds} rounds, examples/s; ratios are medians of the ratios within a round, with the aim in "
            "brackets.",
            "",
            *peers.markdown(header, [row(case, found) for case, found in measured.items()]),
        ]
    )


def main(arguments, python, shapes):
    cases = [parse_case(text) for text in arguments.cases.split(",")] if arguments.cases else list(CASES)
    if unknown := {case[0] for case in cases} - set(shapes):
        peers.fail(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(shapes)}")
    measured = {case: compare(arguments, python, case, shapes[case[0]]) for case in cases}
    text = table(measured, arguments.rounds, peers.version_of(python, "torch"))
    peers.write_between_markers(arguments.output, "compare-pytorch on a GPU", text)
