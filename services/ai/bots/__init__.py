"""Bots: a move for a seat, from what that seat may see and nothing else.

A bot is a function of a seat's view, the history it was shown, a level, a source of random numbers
and a budget; equal arguments give equal moves where the budget is one of worlds. It picks one of
the moves the view lists as legal, or an Azi bid within the bounds the view names.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from engines.azi import Bid
from services.ai.bots import azi, durak, rami
from services.ai.bots.budget import USUAL, Budget
from services.ai.bots.choice import Choice, Level

Bot = Callable[[Any, Sequence[Any], Level, Random, Budget], Choice[Any]]

BOTS: Mapping[str, Bot] = {"azi": azi.choose, "durak": durak.choose, "rami": rami.choose}
"""A bot for every game, by the game's name."""


class NoMove(Exception):
    """The view's seat has nothing to decide."""


class IllegalMove(Exception):
    """The bot chose what the view does not allow."""


def choose(
    game: str,
    view: Any,
    history: Sequence[Any],
    level: Level,
    rng: Random,
    budget: Budget = USUAL,
) -> Choice[Any]:
    """A legal move for the view's seat, and why.

    `view` and `history` are the engine's `View` and `Happening`s of one seat; `budget` is what a
    level that searches may use. Raises KeyError for a game there is not, NoMove when the view lists
    no legal move, IllegalMove instead of a move that is none of these.
    """
    bot = BOTS[game]
    if not view.legal:
        raise NoMove
    if len(view.legal) == 1:
        return Choice(view.legal[0], "This is the only move there is.")
    choice = bot(view, history, level, rng, budget)
    if not _is_legal(view, choice.move):
        raise IllegalMove
    return choice


def _is_legal(view: Any, move: Any) -> bool:
    """A bid is listed with one amount and may have any within the view's bounds (AZI-13)."""
    if isinstance(move, Bid):
        return bool(view.bid_minimum <= move.amount <= view.bid_maximum)
    return move in view.legal


__all__ = ["BOTS", "USUAL", "Bot", "Budget", "Choice", "IllegalMove", "Level", "NoMove", "choose"]
