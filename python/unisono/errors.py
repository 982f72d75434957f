"""What the program reports, as exceptions: one for each of its exit codes."""

import signal


class UnisonoError(Exception):
    """Training, prediction or an import failed. The message is the program's own."""

    exit_code = 1


class ConfigError(UnisonoError):
    """The command line or the config is wrong."""

    exit_code = 2


class DataError(UnisonoError):
    """The data are wrong, or do not fit the model."""

    exit_code = 3


class CheckpointError(UnisonoError):
    """A checkpoint is damaged, or does not fit."""

    exit_code = 4


class CommunicationError(UnisonoError):
    """Ranks could not be started, or lost each other."""

    exit_code = 5


class DeviceError(UnisonoError):
    """A device, memory or threads could not be had."""

    exit_code = 6


class Interrupted(UnisonoError):
    """A signal ended the training after a checkpoint; `launch(..., resume=True)` goes on."""

    exit_code = 75


_BY_CODE = {
    kind.exit_code: kind
    for kind in (ConfigError, DataError, CheckpointError, CommunicationError, DeviceError, Interrupted)
}


def error_of(exit_code: int, text: str) -> UnisonoError:
    """The exception for an exit code. `text`: what the program wrote, whose last message counts."""
    messages = [line.removeprefix("unisono: ") for line in text.splitlines() if line.startswith("unisono: ")]
    if exit_code in (Interrupted.exit_code, -signal.SIGTERM, -signal.SIGINT, -signal.SIGUSR1):
        return Interrupted("the training was stopped by a signal; launch(..., resume=True) goes on")
    others = " ".join(line.strip() for line in text.splitlines() if any(letter.isalnum() for letter in line))
    message = messages[-1] if messages else others or f"the program ended with exit code {exit_code}"
    return _BY_CODE.get(exit_code, UnisonoError)(message)
