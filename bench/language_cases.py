"""The language models that bench/compare-language-models times, and how unisono and its kernels are timed on them."""

import dataclasses
import json

import peers


@dataclasses.dataclass(frozen=True)
class Case:
    config: str  # of bench/models
    layers: int
    units: int
    heads: int
    context: int
    batch: int
    vocabulary: int
    steps: int  # of a timing; three timings of PyTorch

    @property
    def flops_per_token(self):
        """Forward and backward: 6 for each weight of a product, and 6 · units · context for each layer's attention with
        its mask."""
        weights = 12 * self.layers * self.units**2 + self.vocabulary * self.units
        return 6 * weights + 6 * self.layers * self.units * self.context

    @property
    def title(self):
        return (
            f"{self.layers} × {self.units}, T = {self.context}, batch {self.batch}, "
            f"{self.vocabulary:,} tokens in the vocabulary"
        )

    def milliseconds(self, rate):
        """Of a step, by its examples a second."""
        return f"{1000 * self.batch / rate:,.0f}"

    def gflops(self, rate):
        return rate * self.context * self.flops_per_token * 1e-9


CASES = {
    "characters": Case("gpt-characters.toml", 4, 128, 4, 64, 12, 65, 20),
    "small-65": Case("gpt-small.toml", 6, 384, 6, 128, 8, 65, 3),
    "small-50257": Case("gpt-small.toml", 6, 384, 6, 128, 8, 50257, 2),
}
GPT_124M = Case("gpt-124m.toml", 12, 768, 12, 256, 4, 50257, 2)


def unisono(arguments, case, threads, steps, ranks=1, settings=()):
    """What `unisono bench` says of so many steps of a case."""
    words = [arguments.unisono, "bench", peers.HERE / "models" / case.config, "--json", "--vocabulary", case.vocabulary]
    words += ["--steps", 1 if arguments.quick else steps, "--set", f"train.threads={threads}"]
    for setting in settings:
        words += ["--set", setting]
    return peers.output_of([*peers.MPIRUN, "-n", ranks, *words] if ranks > 1 else peers.pinned(threads, words))


def kernel(arguments, name, threads):
    """What bench_kernels says of a kernel on so many cores: its "real_time" in ns, and its counters."""
    words = [arguments.kernels, f"--benchmark_filter=^{name}/threads:{threads}(/real_time)?$"]
    words += ["--benchmark_format=json", *(["--benchmark_min_time=0.01"] if arguments.quick else [])]
    said = peers.run(peers.pinned(threads, words))
    if not said.strip():
        peers.fail(f"{arguments.kernels} has no benchmark {name} on {threads} thread(s)")
    return json.loads(said)["benchmarks"][0]
