"""The game service of a later release: Durak by rules of a new version, the old ones kept.

`python -m tests.services.game.upgraded` runs it. By `durak 2.0.0` nobody throws in once the cards
are being taken, whatever the table chose; everything else is as it was, and shared.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engines import durak
from engines.rulebook import CURRENT, RULEBOOK
from services.game import server

RULES = "durak 2.0.0"


def initial(options: durak.Options, seats: int) -> durak.State:
    """A game before its first deal."""
    return durak.initial(replace(options, throw_in_after_take=False), seats)


@dataclass(frozen=True)
class Version:
    """A version of the rules: what changed, and for the rest the one before."""

    RULES: str
    initial: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(durak, name)


def register() -> None:
    """Put it into the rulebook beside the old one, and open new games with it."""
    new: Any = Version(RULES, initial)
    RULEBOOK[RULES] = new
    CURRENT[durak.NAME] = RULES


if __name__ == "__main__":
    register()
    raise SystemExit(server.main())
