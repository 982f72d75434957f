"""GPT-2's training step in unisono and in llm.c's program for CPUs: a part of bench/compare-language-models.

The program is built from a copy of the folder that is passed, with its own makefile and flags. Its main() has batch,
context and the number of steps as constants, and evaluates before the first step; these lines are edited in the copy.
It reads a model and tokens from files, which are written here with random values in its formats.
"""

import array
import pathlib
import random
import re
import shutil
import statistics
import tempfile

import language_cases
import peers

AIM = 2.0  # unisono / llm.c
PADDING = 128  # of which the rows of its tokens' table are a multiple
DRAWN = 65521  # random values, a prime number
TOKENS = pathlib.Path("dev", "data", "tinyshakespeare")


def edits(case, steps):
    """Lines of its main(), and what stands in their place. The first step, which allocates all memory, is not timed; it
    samples after 20 steps only."""
    return {
        "int B = 4;": f"int B = {case.batch};",
        "int T = 64;": f"int T = {case.context};",
        "step <= 40;": f"step <= {steps};",
        "int val_num_batches = 5;": "int val_num_batches = 0;",
    }


def built(source, case, steps):
    """The program, with another batch, context and number of steps."""
    if not (source / "train_gpt2.c").exists():
        peers.fail(f"{source} has no train_gpt2.c: --llm-c takes the folder of llm.c")
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / f"llm.c-{case.batch}x{case.context}-{steps}"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git"))
        text = (copy / "train_gpt2.c").read_text()
        for old, new in edits(case, steps).items():
            if text.count(old) != 1:
                peers.fail(f"{source / 'train_gpt2.c'}: '{old}' is not there once; it is another version")
            text = text.replace(old, new)
        (copy / "train_gpt2.c").write_text(text)
        return peers.built(copy, "train_gpt2", "train_gpt2")


def tensors(case, vocabulary):
    """Of its file, in their order: how many values, and their deviation from 0 or, None, the value 1."""
    units, layers = case.units, case.layers
    outer, inner = 0.02, 0.02 / (2 * layers) ** 0.5
    norm = [(layers * units, None), (layers * units, 0)]
    attention = [(layers * 3 * units**2, outer), (layers * 3 * units, 0), (layers * units**2, inner)]
    attention += [(layers * units, 0)]
    dense = [(layers * 4 * units**2, outer), (layers * 4 * units, 0), (layers * 4 * units**2, inner)]
    dense += [(layers * units, 0)]
    tables = [(vocabulary * units, outer), (case.context * units, outer)]
    return [*tables, *norm, *attention, *norm, *dense, (units, None), (units, 0)]


def values(count, deviation, drawn):
    """So many of the drawn ones, from the first one on again and again: their number divides no row's."""
    block = array.array("f", [1.0] * len(drawn) if deviation is None else [deviation * value for value in drawn])
    for first in range(0, count, len(block)):
        yield block[: count - first]


def write_files(folder, case, steps):
    """A random model and random tokens."""
    source = random.Random(1)
    padded = -(-case.vocabulary // PADDING) * PADDING

    def write(path, head, arrays):
        with open(path, "wb") as file:
            for one in (array.array("i", [*head, *[0] * (256 - len(head))]), *arrays):
                one.tofile(file)

    drawn = [source.gauss(0, 1) for _ in range(DRAWN)]
    parts = (part for count, deviation in tensors(case, padded) for part in values(count, deviation, drawn))
    head = [20240326, 3, case.context, case.vocabulary, case.layers, case.heads, case.units, padded]
    write(folder / "gpt2_124M.bin", head, parts)
    count = (steps + 1) * case.batch * case.context + 1
    (folder / TOKENS).mkdir(parents=True)
    for name in ("train", "val"):
        tokens = array.array("H", source.choices(range(case.vocabulary), k=count))
        write(folder / TOKENS / f"tiny_shakespeare_{name}.bin", [20240520, 1, count], [tokens])


def timed(program, folder, case, threads):
    """Examples a second of the steps after the first one."""
    said = peers.run(peers.pinned(threads, [program]), cwd=folder, environment={"OMP_NUM_THREADS": str(threads)})
    times = [float(one) for one in re.findall(r"step \d+: train loss \S+ \(took ([\d.]+) ms\)", said)]
    if len(times) < 2:
        peers.fail(f"{program} printed no times of steps:\n{said}")
    return 1000 * case.batch / statistics.fmean(times[1:])


def compare(arguments, counts, findings):
    """The table."""
    case = language_cases.CASES["characters"] if arguments.quick else language_cases.GPT_124M
    steps = 1 if arguments.quick else case.steps
    program = built(arguments.llm_c, case, steps)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_files(folder, case, steps)
        for threads in counts:
            rounds = []
            for _ in range(arguments.rounds):
                own = language_cases.unisono(arguments, case, threads, steps)
                rates = {"unisono": own["examples_per_second"], "llm.c": timed(program, folder, case, threads)}
                rounds.append(rates | {"peak": own["peak_gflops_per_second"]})
                said = ", ".join(f"{key} {case.milliseconds(rate)} ms a step" for key, rate in rates.items())
                peers.say(f"{case.title}, {threads} thread(s): {said}")
            rows.append(line(case, threads, rounds, findings))
    header = ["threads", "llm.c: ms a step", "GFLOP/s", "unisono: ms a step", "tokens/s", "GFLOP/s", "of FMA peak"]
    head = f"{peers.machine()}; {case.title}; {own['parameters']:,} parameters; medians of {arguments.rounds} round(s) "
    head += f"of {steps} step(s); ratios are medians of the ratios within a round."
    return "\n".join([head, "", *peers.markdown([*header, "unisono / llm.c"], rows)])


def line(case, threads, rounds, findings):
    rate = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    ratio = peers.median_ratio(rounds, "unisono", "llm.c")
    peer, own = case.gflops(rate["llm.c"]), case.gflops(rate["unisono"])
    cells = [threads, case.milliseconds(rate["llm.c"]), f"{peer:.0f}", case.milliseconds(rate["unisono"])]
    cells += [f"{rate['unisono'] * case.context:,.0f}", f"{own:.0f}", f"{100 * own / rate['peak']:.0f} %"]
    return [*cells, findings.aim(f"{threads} thread(s), unisono / llm.c", ratio, AIM, least=True)]
