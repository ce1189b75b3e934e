"""Every rules version this service can execute. A game keeps the version it was opened with."""

from typing import Any

from engines.api import Game
from engines.rulebook import CURRENT, RULEBOOK
from services.kernel.errors import Refused, unavailable

__all__ = ["CURRENT", "RULEBOOK", "UNKNOWN_RULES", "engine_for", "unknown"]

UNKNOWN_RULES = "UNKNOWN_RULES"
ELSEWHERE_MS = 200
"""After so long a caller may try again, and come to a replica of a later release."""


def engine_for(rules: str) -> Game[Any, Any, Any]:
    """The engine of a rules version; raises Refused UNKNOWN_RULES."""
    try:
        return RULEBOOK[rules]
    except KeyError:
        raise unknown(rules) from None


def unknown(rules: str) -> Refused:
    """What a caller is told of a game that a later release opened, at a replica of an older one."""
    return unavailable(
        UNKNOWN_RULES, f"no engine at this replica executes {rules[:40]!r}", ELSEWHERE_MS
    )
