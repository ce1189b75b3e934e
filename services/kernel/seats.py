"""What may sit on a seat besides a person, and what happens when nobody is there to move."""

from enum import IntEnum


class BotLevel(IntEnum):
    """How well a bot plays; the numbers are those of `kozyr.game.v1.BotLevel`."""

    EASY = 1
    """A beginner: looks at its own hand and the table."""
    NORMAL = 2
    """A fair player: counts what lies face up."""
    HARD = 3
    """A strong player: remembers all that was public, and looks ahead."""


class AbsentPolicy(IntEnum):
    """What happens when a seat does not move in time; as `kozyr.game.v1.AbsentPolicy`."""

    EXPIRE = 1
    BOT = 2


BOT_AFTER_USUAL = 2
"""Turns missed in a row after which a bot takes over, where a table names no number."""
BOT_AFTER_MAX = 10
"""The most turns that a table may wait before a bot takes over."""
SPECTATOR_DELAY_MAX = 50
"""The most decisions that a table may keep its spectators behind."""
