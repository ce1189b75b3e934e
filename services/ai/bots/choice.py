"""What a bot answers, and how well it may play."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

M = TypeVar("M")


class Level(IntEnum):
    """How well a bot plays; the numbers are those of `kozyr.game.v1.BotLevel`."""

    EASY = 1
    """A beginner: looks at its own hand and the table."""
    NORMAL = 2
    """A fair player: counts what lies face up."""
    HARD = 3
    """A strong player: remembers all that was public, and looks ahead."""


@dataclass(frozen=True, slots=True)
class Choice(Generic[M]):
    """A legal move and why, in one sentence.

    `reason` tells a policy, and of cards only what the move itself lays open.
    """

    move: M
    reason: str
