"""What a game needs to begin without a lobby."""

from typing import Any

from services.client.variants import engine

OFFLINE_STACK = 100
"""Chips each seat brings to a game of Azi without a server."""
SEATS = {"azi": 3, "durak": 4, "rami": 2}
"""How many seats a game has if nobody says."""


def opening(name: str, seats: int, options: Any = None) -> Any:
    """The state before the first deal, each seat of Azi with a stack of 100."""
    game = engine(name)
    options = game.Options() if options is None else options
    if name == "azi":
        return game.initial(options, seats, stacks=(OFFLINE_STACK,) * seats, last_winner=None)
    return game.initial(options, seats)
