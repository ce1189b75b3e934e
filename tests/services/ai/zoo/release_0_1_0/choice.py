"""What a bot answers, and how well it may play."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from services.kernel.seats import BotLevel

M = TypeVar("M")


Level = BotLevel
"""How well a bot plays."""


@dataclass(frozen=True, slots=True)
class Choice(Generic[M]):
    """A legal move and why, in one sentence.

    `reason` tells a policy, and of cards only what the move itself lays open.
    """

    move: M
    reason: str
