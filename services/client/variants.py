"""The three engines by name, their views and moves, and options as a person types them."""

import importlib
from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

import engines.azi
import engines.durak
import engines.rami
from engines.api import InvalidOption, read_options

GAMES = ("azi", "durak", "rami")
View = engines.azi.View | engines.durak.View | engines.rami.View
Move = engines.azi.Move | engines.durak.Move | engines.rami.Move


def engine(name: str) -> Any:
    """The engine of `azi`, `durak` or `rami`: a module with the face of `engines.api.Game`."""
    if name not in GAMES:
        raise ValueError(f"no game {name}")
    module: ModuleType = importlib.import_module(f"engines.{name}")
    return module


def read_values(options: Any, given: Mapping[str, str]) -> Any:
    """An `Options` dataclass from names and typed text; raises InvalidOption."""
    defaults = {field.name: field.default for field in fields(options)}
    for name in given:
        if name not in defaults:
            raise InvalidOption(name, f"no such option; there are {', '.join(sorted(defaults))}")
    return read_options(options, {n: _value(n, text, defaults.get(n)) for n, text in given.items()})


def _value(name: str, text: str, default: object) -> object:
    match default:
        case bool():
            if text.lower() not in ("true", "false", "yes", "no", "on", "off"):
                raise InvalidOption(name, "must be true or false")
            return text.lower() in ("true", "yes", "on")
        case int():
            try:
                return int(text)
            except ValueError:
                raise InvalidOption(name, "must be a whole number") from None
        case _:
            return text
