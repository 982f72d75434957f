"""The program `unisono`: where it is, and how it is started."""

import os
import pathlib
import shutil
import signal
import subprocess
from numbers import Integral
from collections.abc import Sequence

from .errors import UnisonoError, error_of


def binary() -> str:
    """The program's path: the environment variable UNISONO, or else `unisono` on the PATH."""
    path = os.environ.get("UNISONO") or shutil.which("unisono")
    if path is None or not os.access(path, os.X_OK):
        where = f"UNISONO names {path}, which" if path else "the program 'unisono' is not on the PATH and"
        raise UnisonoError(f"{where} cannot be started: install unisono, or set the environment variable UNISONO")
    return path


def launcher() -> str:
    """What starts several ranks: UNISONO_LAUNCH, or `unisono-launch` beside the program, or mpirun."""
    beside = pathlib.Path(binary()).with_name("unisono-launch")
    return os.environ.get("UNISONO_LAUNCH") or (str(beside) if beside.exists() else "mpirun")


def command(words: Sequence[str], ranks: int = 1) -> list[str]:
    """The command line of the program, on so many ranks."""
    if not isinstance(ranks, Integral) or isinstance(ranks, bool) or ranks < 1:
        raise ValueError(f"ranks = {ranks!r}: a whole number of at least 1 is needed")
    program = binary()
    if ranks == 1:
        return [program, *words]
    if shutil.which(launcher()) is None:
        raise UnisonoError(f"{launcher()}: cannot be started, but {ranks} ranks need it; install Open MPI")
    options = ["--oversubscribe"] if launcher() == "mpirun" else []  # unisono-launch finds out what is needed
    if options and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    return [launcher(), *options, "-n", str(ranks), program, *words]


def stop_signal(ranks: int) -> signal.Signals:
    """The signal after which a training ends with a checkpoint. At SIGTERM mpirun kills the ranks."""
    return signal.SIGUSR1 if ranks > 1 and launcher() == "mpirun" else signal.SIGTERM


def run_program(*words: str | os.PathLike[str], ranks: int = 1) -> str:
    """Runs a command of the program to its end, and returns what it printed. Raises what `errors` has for its exit
    code."""
    done = subprocess.run(
        command([os.fspath(word) for word in words], ranks), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise error_of(done.returncode, done.stderr)
    return done.stdout
