"""The program `unisono`: where it is, and how it is started."""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

from .errors import UnisonoError, error_of


def binary() -> str:
    """The program's path: the environment variable UNISONO, or else `unisono` on the PATH."""
    path = os.environ.get("UNISONO") or shutil.which("unisono")
    if path is None or not os.access(path, os.X_OK):
        where = f"UNISONO names {path}, which" if path else "the program 'unisono' is not on the PATH and"
        raise UnisonoError(f"{where} cannot be started: install unisono, or set the environment variable UNISONO")
    return path


def command(words: Sequence[str], ranks: int = 1) -> list[str]:
    """The command line of the program. More than one rank is started by `unisono-launch`, where that is installed
    beside the program, or named by UNISONO_LAUNCH; else by mpirun."""
    if ranks < 1:
        raise ValueError(f"ranks = {ranks}: at least one is needed")
    program = binary()
    if ranks == 1:
        return [program, *words]
    beside = pathlib.Path(program).with_name("unisono-launch")
    launcher = os.environ.get("UNISONO_LAUNCH") or (str(beside) if beside.exists() else "mpirun")
    if shutil.which(launcher) is None:
        raise UnisonoError(f"{launcher}: cannot be started, but {ranks} ranks need it; install Open MPI")
    options = ["--oversubscribe"] if launcher == "mpirun" else []  # the launcher finds out by itself what is needed
    if options and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    return [launcher, *options, "-n", str(ranks), program, *words]


def run_program(*words: str | os.PathLike[str], ranks: int = 1) -> str:
    """Runs a command of the program to its end, and returns what it printed. Raises what `errors` has for its exit
    code."""
    done = subprocess.run(
        command([os.fspath(word) for word in words], ranks), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise error_of(done.returncode, done.stderr)
    return done.stdout
