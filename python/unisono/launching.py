"""Training from Python: `launch` starts the program, and shows how far it is."""

import contextlib
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from .configs import Config, merge, read_config, to_toml
from .errors import error_of
from .program import command, stop_signal
from .runs import Run, Search

_PAUSE = 0.2  # seconds between two looks at the run
_CONFIG, _OUTPUT = "config.toml", "output.txt"


class Launched:
    """A training that goes on in the background."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        folder: pathlib.Path,
        scratch: "tempfile.TemporaryDirectory[str]",
        ranks: int,
    ) -> None:
        self.process, self.folder, self.ranks = process, folder, ranks
        self._scratch = scratch  # holds the config and what the program prints, until it has ended
        self._whole_output: str | None = None  # when it has ended

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def run(self) -> Run:
        """The run, as far as it is."""
        return Run(self.folder)

    @property
    def output(self) -> str:
        """What the program has printed so far."""
        if self._whole_output is not None:
            return self._whole_output
        scratch = pathlib.Path(self._scratch.name)
        return (scratch / _OUTPUT).read_text(errors="replace").replace(str(scratch / _CONFIG), "config")

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """The metrics so far, as `Run.events`; empty before the run has a folder."""
        return self.run.events(event) if (self.folder / "config.toml").exists() else []

    def stop(self) -> None:
        """Asks the training to end after its step, with a checkpoint. `wait` then raises `Interrupted`."""
        if self.is_running:
            self.process.send_signal(stop_signal(self.ranks))

    def wait(self, progress: bool = True) -> Run:
        """Waits for the end. `progress`: whether to print how far the training is. Raises what `errors` has for the
        program's exit code. Ctrl-C, and a notebook's interrupt, stop the training after its step."""
        self._wait(_Progress() if progress else None)
        return self.run

    def _wait(self, show: "_Progress | None" = None) -> None:
        try:
            while self.is_running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(_PAUSE)
                if show is not None:
                    show.update(self.folder)
        except KeyboardInterrupt:
            self.stop()
            self.process.wait()
            raise
        finally:
            if show is not None:
                show.end()
        self._whole_output = self.output
        self._scratch.cleanup()
        if self.process.returncode != 0:
            raise error_of(self.process.returncode, self.output)


def start(
    config: str | os.PathLike[str] | Config,
    *,
    ranks: int = 1,
    output: str | os.PathLike[str] | None = None,
    changes: Config | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Launched:
    """Starts a training in the background. The parameters are those of `launch`."""
    return _start("train", config, ranks, output, changes or {}, resume, overwrite)


def _start(
    what: str,
    config: str | os.PathLike[str] | Config,
    ranks: int,
    output: str | os.PathLike[str] | None,
    changes: Config,
    resume: bool,
    overwrite: bool,
) -> Launched:
    with contextlib.ExitStack() as undo:
        scratch = tempfile.TemporaryDirectory(prefix="unisono-")
        undo.callback(scratch.cleanup)
        if resume:
            if output is None:
                raise ValueError("resume = True goes on with the run in the folder `output`, which is missing")
            run = pathlib.Path(output)
            words = [what, "--resume", str(run)]
            for key, value in _keys(changes):
                words += ["--change", f"{key}={value}"]
        else:
            settings = merge(read_config(config), changes)
            name = settings.get("name", "run") + ("" if what == "train" else f"-{what}")
            run = pathlib.Path(output or settings.get("output") or f"runs/{name}")
            path = pathlib.Path(scratch.name) / _CONFIG
            path.write_text(to_toml(settings))
            words = [what, str(path), "--output", str(run)] + (["--overwrite"] if overwrite else [])
        words = command(words, ranks)
        with (pathlib.Path(scratch.name) / _OUTPUT).open("wb") as file:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        undo.pop_all()  # the folder goes with what is returned
        return Launched(process, run, scratch, ranks)


def launch(
    config: str | os.PathLike[str] | Config,
    *,
    ranks: int = 1,
    output: str | os.PathLike[str] | None = None,
    changes: Config | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Run:
    """Trains a model, and returns the run.

    >>> run = unisono.launch("configs/mlp.toml", ranks=2, changes={"train": {"epochs": 3}})

    config: the path of a TOML file, or nested dictionaries like it. Paths in it count from the working directory.
    ranks: how many processes train. output: the run's folder; without it, what the config says. changes: values that
    replace those of the config. resume: go on with the run in `output`. overwrite: replace an earlier run there.
    progress: whether to print how far the training is.
    """
    return start(
        config, ranks=ranks, output=output, changes=changes, resume=resume, overwrite=overwrite
    ).wait(progress)


def search(
    config: str | os.PathLike[str] | Config,
    *,
    ranks: int = 1,
    output: str | os.PathLike[str] | None = None,
    changes: Config | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Search:
    """Trains the trials of a config's [search] side by side, and returns them.

    >>> found = unisono.search("configs/search.toml", ranks=4)
    >>> found.best.summary, found.trials["optimizer.learning_rate"]

    The parameters are those of `launch`.
    """
    begun = _start("search", config, ranks, output, changes or {}, resume, overwrite)
    begun._wait()
    return Search(begun.folder)


def _keys(config: Config, before: str = "") -> Iterator[tuple[str, str]]:
    """The values of a config by their whole keys, as TOML."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{before}{key}.")
        else:
            yield before + key, to_toml({"value": value}).removeprefix("value = ").strip()


class _Progress:
    """One line that says how far a training is: in a notebook it is replaced, in a terminal overwritten."""

    def __init__(self) -> None:
        self._last = ""
        self._display: Any = None
        with contextlib.suppress(ImportError):
            shell: Any = importlib.import_module("IPython").get_ipython()
            if shell is not None and "IPKernelApp" in shell.config:
                show: Any = importlib.import_module("IPython.display").display
                self._display = show({"text/plain": "starting"}, raw=True, display_id=True)

    def update(self, folder: pathlib.Path) -> None:
        text = _progress_text(folder)
        if not text or text == self._last:
            return
        if self._display is not None:
            self._display.update({"text/plain": text}, raw=True)
        elif sys.stdout.isatty():
            print("\r" + text.ljust(len(self._last)), end="", flush=True)
        else:
            print(text, flush=True)
        self._last = text

    def end(self) -> None:
        if self._display is None and self._last and sys.stdout.isatty():
            print()


def _progress_text(folder: pathlib.Path) -> str:
    if not (folder / "config.toml").exists():
        return ""
    run = Run(folder)
    trained, evaluated = run.events("train"), run.events("evaluation")
    if not trained:
        return ""
    last = trained[-1]
    text = f"epoch {last['epoch']}, step {last['step']}: loss {last['loss']:.4g}"
    if evaluated:
        figures = {key: evaluated[-1][key] for key in ("loss", "accuracy") if key in evaluated[-1]}
        text += f"; {evaluated[-1]['split']} " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
    return text
