"""Configs: TOML files, and nested dictionaries like them."""

import json
import os
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from .errors import ConfigError

Config = Mapping[str, Any]


def read_config(config: str | os.PathLike[str] | Config) -> dict[str, Any]:
    """A config as nested dictionaries. `config`: the path of a TOML file, or such dictionaries."""
    if isinstance(config, Mapping):
        return _copy(config)
    if not isinstance(config, (str, os.PathLike)):
        raise TypeError(f"a config is the path of a TOML file, or nested dictionaries, not {type(config).__name__}")
    with pathlib.Path(config).open("rb") as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"config error: {os.fspath(config)}: {error}") from error


def merge(config: Config, changes: Config) -> dict[str, Any]:
    """A config with the values of another one, whose tables it merges: merge(config, {"train": {"epochs": 3}})."""
    merged = _copy(config)
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), dict):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = _copy(value) if isinstance(value, Mapping) else value
    return merged


def to_toml(config: Config) -> str:
    """A config as TOML, with its tables inline."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in config.items())


def _copy(config: Config) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in config.items()}


def _key(key: str) -> str:
    plain = key.replace("_", "").replace("-", "")
    return key if plain.isascii() and plain.isalnum() else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"a config has no values of the type {type(value).__name__}: {value!r}")
