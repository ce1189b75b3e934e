"""A game that was asked for on the command line."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Which game, at how many seats, how many of them bots', and its options as typed."""

    game: str
    seats: int
    bots: int
    options: Mapping[str, str]
