"""What the comparisons with other programs share: a virtual environment, building, running, timing, writing tables."""

import json
import math
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PERFORMANCE = ROOT / "docs" / "performance.md"
MPIRUN = ["mpirun", "--allow-run-as-root", "-q"]


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


def say(message):
    print(message, flush=True)


def cache():
    """The user's folder for what is made anew where it is missing: virtual environments, builds, generated sets."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "unisono-bench"


def add_common_arguments(parser, venv, rounds=None):
    parser.add_argument("--unisono", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "unisono")
    parser.add_argument(
        "--venv", type=pathlib.Path, default=cache() / venv, help="virtual environment, made if missing"
    )
    if rounds:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--output", type=pathlib.Path, default=PERFORMANCE)


def add_host_arguments(parser):
    """Those of comparisons on several hosts, whose tables have lines of other hosts, too."""
    parser.add_argument("--hosts", type=lambda text: text.split(","))
    parser.add_argument("--link", default="", help="what the table says of the link between the hosts")
    parser.add_argument("--mpirun", default=" ".join(MPIRUN), help="starts mpirun on the hosts")
    parser.add_argument("--folder", type=pathlib.Path, help="for what is made meanwhile; all hosts must see it")
    parser.add_argument("--add", action="store_true", help="keep the table's lines")


def started(hosts, mpirun, ranks):
    """What starts a program on the ranks: one on each host or, without hosts, all on this machine."""
    if hosts:
        return [*shlex.split(mpirun), "--host", ",".join(f"{host}:1" for host in hosts), "-n", ranks]
    return [*MPIRUN, "--bind-to", "none", "-n", ranks] if ranks > 1 else []


def old_lines(path, name):
    """The lines of a table between markers."""
    text = path.read_text(encoding="utf-8") if path else ""
    table = text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


def with_new_lines(old, new, cells):
    """Lines of a table: old ones, but for those of a case that new ones have, too. A case is a line's first cells."""

    def case(line):
        return tuple(line.split("|")[1 : 1 + cells])

    measured = {case(line) for line in new}
    return [line for line in old if case(line) not in measured] + new


def checked(arguments):
    """The arguments, with paths that hold in any folder; ends the script where there is no binary."""
    for key, value in vars(arguments).items():
        if isinstance(value, pathlib.Path):
            setattr(arguments, key, value.expanduser().absolute())
    if getattr(arguments, "rounds", 1) < 1:
        fail(f"--rounds {arguments.rounds}: one at least")
    if getattr(arguments, "quick", False) and arguments.output == PERFORMANCE:
        arguments.output = None
    if not arguments.unisono.exists():
        fail(f"{arguments.unisono} does not exist: build it, or name it with --unisono")
    return arguments


def ensure_venv(venv, *packages):
    """The interpreter of a virtual environment that has the packages, installed from PyPI where they are missing."""
    python = venv / "bin" / "python"
    if not python.exists():
        say(f"making a virtual environment in {venv}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    modules = {"scikit-learn": "sklearn", "pillow": "PIL"}
    names = [modules.get(name, name.replace("-", "_")) for name in packages]
    found = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in {names}))"
    if subprocess.run([python, "-c", found]).returncode != 0:
        say(f"installing {', '.join(packages)} into {venv}")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def version_of(python, package):
    command = [python, "-c", f"import importlib.metadata as m; print(m.version('{package}'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def built(source, target, *words):
    """A copy of a program's folder under the cache in which `make WORDS` was run: the path of `target` in it."""
    if not source.is_dir():
        fail(f"{source} is no folder")
    folder = cache() / "built" / re.sub(r"\W+", "-", " ".join([source.name, *words]))
    if not (folder / target).exists():
        say(f"building {source.name}: make {' '.join(words)}")
        shutil.copytree(source, folder, dirs_exist_ok=True)
        # What was compiled elsewhere with other flags is no part of it.
        subprocess.run(["make", "clean"], cwd=folder, capture_output=True)
        done = subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0 or not (folder / target).exists():
            fail(f"make {' '.join(words)} in {folder} failed:\n{done.stdout}{done.stderr}")
    return folder / target


def pinned(threads, command, first=0):
    """The command on as many cores as it has threads, from this one on, or on all that there are."""
    cores = sorted(os.sched_getaffinity(0))[first : first + threads]
    return ["taskset", "-c", ",".join(map(str, cores)), *command]


def run(command, cwd=None, environment=None, stdin=None, stdout=None):
    """Runs to the end; the output as text, and both outputs as a message where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        fail(f"{' '.join(words)} failed:\n{done.stdout or ''}{done.stderr}")
    return done.stdout or ""


def output_of(command, **environment):
    """The command's last line, which is JSON; its other output only where it fails."""
    return json.loads(run(command, environment=environment).strip().splitlines()[-1])


def stamped_lines(command, cwd=None):
    """(seconds, line) of all that a command prints, each stamped when it came. A carriage return ends a line, too, and
    so does a pause: progress comes as "\\rprogress", without an end."""
    words = [str(word) for word in command]
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines, rest = [], ""
    while piece := os.read(process.stdout.fileno(), 1 << 16):
        now = time.perf_counter()
        known = rest
        *whole, rest = re.split(r"[\r\n]", rest + piece.decode(errors="replace"))
        lines += [(now, line) for line in [*whole, rest] if line.strip() and line != known]
    if process.wait() != 0:
        fail(f"{' '.join(words)} failed:\n" + "\n".join(line for _, line in lines[-20:]))
    return lines


class Run:
    """A finished training of unisono: its summary, its lines of metrics, and what it is in seconds and rates."""

    def __init__(self, folder):
        self.folder = folder
        self.summary = json.loads((folder / "summary.json").read_text())
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.reports = [line for line in lines if line["event"] == "train"]
        self.evaluations = [line for line in lines if line["event"] == "evaluation"]

    @property
    def rate(self):
        return self.summary["examples_per_second"]


def set_words(settings):
    """{"train.epochs": 3} as words of a command."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def train(unisono, config, folder, settings, threads=1, ranks=1, mpirun=MPIRUN, first_core=0):
    """A training of unisono on as many cores as it has threads. Settings: {"train.epochs": 3}."""
    words = [unisono, "train", config, "--output", folder, "--overwrite", "--progress", "none"]
    words += set_words(settings)
    run([*mpirun, "-n", ranks, *words] if ranks > 1 else pinned(threads, words, first_core))
    return Run(folder)


def measured(unisono, command, config, shape, settings, ranks=1):
    """What `unisono bench` or `info` says of a model on examples of a shape, as JSON; on any number of cores."""
    words = [unisono, command, config, "--json", *shape, *set_words(settings)]
    launcher = [*MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", ranks] if ranks > 1 else []
    return output_of([*launcher, *words])


def refusal(unisono, config, settings):
    """What is wrong with a config with these settings, by `unisono config check`; empty where nothing is."""
    words = [unisono, "config", "check", config]
    words += set_words(settings)
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode != 0 else ""


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def machine():
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores"


class Findings:
    """Aims and checks, with what was measured."""

    def __init__(self):
        self.missed, self.wrong = [], []

    def aim(self, what, measured, bound, least=False):
        """Whether an aim is met: at most the bound, or at least; "1.2 (≤ 1.05)" for a table."""
        met = measured >= bound if least else measured <= bound
        if not met:
            self.missed.append(f"{what}: {measured:.3g}, the aim is {'≥' if least else '≤'} {bound:.3g}")
        shown = f"{measured:.2f}" if measured < 100 else f"{measured:,.0f}"
        return f"{shown} ({'≥' if least else '≤'} {bound:.3g})"

    def check(self, what, holds):
        if not holds:
            self.wrong.append(what)

    def report(self):
        """Says what is missed and wrong. Returns the script's exit code: 1 where something is wrong"""
        for title, lines in (("aims that are missed", self.missed), ("WRONG", self.wrong)):
            if lines:
                say(f"{title}:\n" + "\n".join(f"  {line}" for line in lines))
        return 1 if self.wrong else 0


def median_ratio(rounds, one, other):
    """The median, over the rounds, of the ratios within a round: the machine's noise cancels there."""
    return statistics.median(rates[one] / rates[other] for rates in rounds)


def spread(values, digits=3):
    """The mean of a few figures, and the smallest and largest of them where there are several."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f} … {max(values):.{digits}f})"


def mean_and_deviation(values, digits=4):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.{digits}f} ± {deviation:.{digits}f}"


def millions(rate):
    """1.23 M, with three digits."""
    value = rate / 1e6
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f} M"


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def write_between_markers(path, name, text):
    """Puts the text between the lines "<!-- name: begin -->" and "<!-- name: end -->" of a file; None: prints it."""
    if path is None:
        print(text)
        return
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = path.read_text() if path.exists() else f"# Performance\n\n{begin}\n{end}\n"
    if begin not in old or end not in old:
        fail(f"{path} lacks the lines '{begin}' and '{end}' that the table goes between")
    head, rest = old.split(begin, 1)
    path.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}")
    say(f"wrote {path}")
