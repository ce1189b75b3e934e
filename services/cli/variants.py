"""The three engines by name, and what a game needs to begin without a lobby."""

import importlib
from types import ModuleType
from typing import Any

GAMES = ("azi", "durak", "rami")
OFFLINE_STACK = 100
"""Chips each seat brings to a game of Azi without a server."""


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
