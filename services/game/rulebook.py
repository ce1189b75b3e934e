"""Every rules version this service can execute. A game keeps the version it was opened with."""

from typing import Any

from engines import azi, durak, rami
from engines.api import Game
from services.kernel.errors import precondition

RULEBOOK: dict[str, Game[Any, Any, Any]] = {engine.RULES: engine for engine in (azi, durak, rami)}

CURRENT: dict[str, str] = {engine.NAME: engine.RULES for engine in (azi, durak, rami)}
"""The version new games are opened with, by game."""


def engine_for(rules: str) -> Game[Any, Any, Any]:
    """The engine of a rules version; raises Refused UNKNOWN_RULES."""
    try:
        return RULEBOOK[rules]
    except KeyError:
        raise precondition("UNKNOWN_RULES", f"no engine here executes {rules!r}") from None
