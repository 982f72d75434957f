"""How near one text's generation comes to the bandwidth of memory: a part of bench/compare-language-models.

A token's pass reads all weights once, and the keys and values of the positions before it. Two lengths are timed, and
the difference is that of the tokens: starting the command and reading the checkpoint cancel. The bandwidth is that of
bench_kernels' loop which reads 512 MiB and does nothing else (bench/kernels/reading.cpp), on the same cores, in the
same round. The model is trained for a step or two, so that there is a checkpoint. The merges of its tokenizer are made
up: the speed does not depend on them.
"""

import dataclasses
import itertools
import json
import pathlib
import random
import statistics
import tempfile
import time

import language_cases
import peers

AIM = 0.8  # of the bandwidth
CONTEXT, SHORT, LONG = 1024, 32, 288
PROMPT = "unisono"


def write_tokenizer(folder, vocabulary):
    """GPT-2's files for so many tokens: the bytes, pairs of them, none of two small letters, and the end of a text."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    symbols = [chr(byte) for byte in printed] + [chr(256 + i) for i in range(len(others))]
    symbols.sort(key=lambda symbol: "a" <= symbol <= "z")  # last, where few pairs are
    pairs = list(itertools.islice(itertools.product(symbols, symbols), vocabulary - 257))
    tokens = [*symbols, *(left + right for left, right in pairs), "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *(f"{left} {right}" for left, right in pairs), ""]))


def trained(arguments, folder, case, context, threads):
    """A run on the shortest text that is allowed, of two windows."""
    write_tokenizer(folder, case.vocabulary)
    letters = random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=2 * context + 1)
    (folder / "text.txt").write_text("".join(letters))
    words = [arguments.unisono, "data", "import", "tokens", folder / "text.txt", "--output", folder / "text.h5"]
    words += ["--tokenizer", "gpt2", "--vocabulary", folder / "vocab.json", "--merges", folder / "merges.txt"]
    peers.run(words)
    settings = {"data.path": folder / "text.h5", "data.context": context, "train.batch_size": 1, "train.epochs": 1}
    settings |= {"optimizer.kind": "sgd", "optimizer.learning_rate": 1e-4, "train.threads": threads}
    return peers.train(arguments.unisono, peers.HERE / "models" / case.config, folder / "run", settings, threads)


def seconds(arguments, run, tokens, threads):
    """Of the whole command."""
    words = [arguments.unisono, "generate", run.folder, "--prompt", PROMPT, "--tokens", tokens, "--temperature", 0]
    start = time.perf_counter()
    text = peers.output_of(peers.pinned(threads, [*words, "--threads", threads, "--json"]))
    taken = time.perf_counter() - start
    if len(text["tokens"]) != tokens:
        peers.fail(f"the text ended after {len(text['tokens'])} of {tokens} tokens")
    return taken


def bytes_of_token(case, parameters, context, short, long):
    """All weights but the other positions' rows; and keys and values of the positions up to its own, on the average of
    the tokens after the first `short` ones. Of GPT-2's tokenizer a letter of the prompt is a token."""
    weights = parameters - (context - 1) * case.units
    positions = len(PROMPT) + (short + long + 1) / 2 - 1
    return 4 * (weights + 2 * case.layers * case.units * positions)


def compare(arguments, counts, findings):
    """The table."""
    case, context, lengths = language_cases.GPT_124M, CONTEXT, (SHORT, LONG)
    if arguments.quick:
        small = language_cases.CASES["characters"]
        case, context, lengths = dataclasses.replace(small, vocabulary=300), small.context, (8, 40)
    with tempfile.TemporaryDirectory() as name:
        run = trained(arguments, pathlib.Path(name), case, context, max(counts))
        parameters = run.summary["parameters"]
        size = bytes_of_token(case, parameters, context, *lengths)
        rows = [row(arguments, run, size, lengths, threads, findings) for threads in counts]
    header = ["threads", "read for a token", "ms a token", "tokens/s", "GB/s", "a loop that reads: GB/s", "of it"]
    head = f"{peers.machine()}; {case.layers} × {case.units}, {case.vocabulary:,} tokens in the vocabulary, "
    head += f"{parameters:,} parameters; tokens {lengths[0] + 1} to {lengths[1]} of one text; medians of "
    head += f"{arguments.rounds} round(s)."
    return "\n".join([head, "", *peers.markdown(header, rows)])


def row(arguments, run, size, lengths, threads, findings):
    rounds = []
    for _ in range(arguments.rounds):
        bandwidth = language_cases.kernel(arguments, "read", threads)["GB/s"]
        short, long = (seconds(arguments, run, tokens, threads) for tokens in lengths)
        token = max(long - short, 1e-9) / (lengths[1] - lengths[0])
        rounds.append({"token": token, "read": size / token * 1e-9, "bandwidth": bandwidth})
        peers.say(f"generation, {threads} thread(s): {short:.2f} and {long:.2f} s, {1000 * token:.2f} ms a token, "
                  f"{rounds[-1]['read']:.1f} of {bandwidth:.1f} GB/s")
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    cells = [threads, f"{size * 1e-6:,.1f} MB", f"{1000 * median['token']:.2f}", f"{1 / median['token']:,.0f}"]
    cells += [f"{median['read']:.1f}", f"{median['bandwidth']:.1f}"]
    share = peers.median_ratio(rounds, "read", "bandwidth")
    return [*cells, findings.aim(f"generation, {threads} thread(s), of the bandwidth", share, AIM, least=True)]
