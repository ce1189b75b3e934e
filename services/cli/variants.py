"""The three engines by name, and what a game needs to begin without a lobby."""

import importlib
from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

from engines.api import InvalidOption, read_options

GAMES = ("azi", "durak", "rami")
OFFLINE_STACK = 100
"""Chips each seat brings to a game of Azi without a server."""
SEATS = {"azi": 3, "durak": 4, "rami": 2}
"""How many seats a game has if nobody says."""


def engine(name: str) -> Any:
    """The engine of `azi`, `durak` or `rami`: a module with the face of `engines.api.Game`."""
    if name not in GAMES:
        raise ValueError(f"no game {name}")
    module: ModuleType = importlib.import_module(f"engines.{name}")
    return module


def opening(name: str, seats: int, options: Any = None) -> Any:
    """The state before the first deal, each seat of Azi with a stack of 100."""
    game = engine(name)
    options = game.Options() if options is None else options
    if name == "azi":
        return game.initial(options, seats, stacks=(OFFLINE_STACK,) * seats, last_winner=None)
    return game.initial(options, seats)


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
