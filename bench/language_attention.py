"""Attention alone, forward and backward, in unisono and in PyTorch: a part of bench/compare-language-models.

unisono's kernels are timed by bench_kernels (bench/kernels/sequences.cpp), which also says how much memory they take
beside inputs and results.
"""

import statistics

import language_cases
import peers

# Batch, T, heads, values of a head: the aim for unisono / PyTorch, where there is one.
SHAPES = {(1, 1024, 6, 64): 1.65, (1, 4096, 6, 64): None}
PRODUCTS = 7  # two forward, five backward


def flops_of(shape):
    """2 for each value of a head, score that the mask leaves, and product."""
    batch, rows, heads, width = shape
    return 2 * PRODUCTS * batch * heads * rows * (rows + 1) / 2 * width


def pytorch(arguments, python, shape, threads):
    """Milliseconds of a pass forward and backward."""
    words = [python, peers.HERE / "attention_peer.py", "--threads", threads]
    for key, value in zip(("batch", "context", "heads", "width"), shape):
        words += [f"--{key}", value]
    words += ["--steps", 1 if arguments.quick else max(1, 20 * 1024**2 // shape[1] ** 2)]
    said = peers.output_of(peers.pinned(threads, words), OMP_NUM_THREADS=str(threads))
    return 1000 * shape[0] / said["examples_per_second"]


def measure(arguments, python, shape, counts):
    """The rounds. Each has the milliseconds of both programs and the floats of scratch memory, by the threads."""
    name, rounds = "attention/" + "x".join(map(str, shape)), []
    for _ in range(arguments.rounds):
        times = {}
        for threads in counts:
            own = language_cases.kernel(arguments, name, threads)
            times["unisono", threads] = own["real_time"] * 1e-6
            if python:
                times["torch", threads] = pytorch(arguments, python, shape, threads)
            times["scratch", threads] = own["scratch_floats"]
        rounds.append(times)
        shown = [f"{key} {threads} thread(s) {value:.4g}" for (key, threads), value in times.items()]
        peers.say(f"{name}: " + ", ".join(shown))
    return rounds


def line(shape, threads, rounds, first, findings):
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    batch, rows, heads, width = shape
    peer = ["—", "—"]
    if ("torch", threads) in median:
        ratio = peers.median_ratio(rounds, ("torch", threads), ("unisono", threads))
        what = f"attention, T = {rows}, {threads} thread(s), unisono / PyTorch"
        aim = SHAPES[shape]
        shown = findings.aim(what, ratio, aim, least=True) if aim else f"{ratio:.2f}"
        peer = [f"{median['torch', threads]:.1f}", shown]
    speed_up = peers.median_ratio(rounds, ("unisono", first), ("unisono", threads))
    own, gflops = median["unisono", threads], flops_of(shape) / median["unisono", threads] * 1e-6
    cells = [f"T = {rows}, {heads} heads of {width}, batch {batch}", threads, peer[0], f"{own:.1f}", f"{gflops:.0f}"]
    cells += [peer[1], f"{speed_up:.2f}" if threads != first else ""]
    return [*cells, f"{median['scratch', threads]:,.0f}", f"{batch * heads * rows**2:,}"]


def compare(arguments, python, version, counts, findings):
    """The table."""
    lines = []
    for shape in list(SHAPES)[: 1 if arguments.quick else None]:
        rounds = measure(arguments, python, shape, counts)
        lines += [line(shape, threads, rounds, counts[0], findings) for threads in counts]
    header = ["causal, fp32", "threads", "PyTorch: ms", "unisono: ms", "GFLOP/s", "unisono / PyTorch"]
    header += [f"over {counts[0]} thread(s)", "workspace, floats", "all scores, floats"]
    head = f"{peers.machine()}; {version}; forward and backward; medians of {arguments.rounds} round(s); "
    head += "ratios are medians of the ratios within a round."
    return "\n".join([head, "", *peers.markdown(header, lines)])
