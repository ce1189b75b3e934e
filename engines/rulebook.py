"""Every version of the rules there is, by its name: a game keeps the one it was opened with.

A version is a module with the face of `engines.api.Game`. How one is kept beside its successor is
written in engines/README.md.
"""

from typing import Any

from engines import azi, durak, rami
from engines.api import Game

PRESENT: tuple[Any, ...] = (azi, durak, rami)
"""By which new games are opened, one a game."""
KEPT: tuple[Any, ...] = ()
"""Earlier ones, for the games that were opened with them."""

RULEBOOK: dict[str, Game[Any, Any, Any]] = {engine.RULES: engine for engine in (*KEPT, *PRESENT)}
CURRENT: dict[str, str] = {engine.NAME: engine.RULES for engine in PRESENT}
"""The version of new games, by the game's name."""
