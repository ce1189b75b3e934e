"""Opponents of Azi that each do one thing in the bidding, whatever they hold.

What they are not asked about in the bidding they do as the first release's normal bot did.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from engines.azi import AllIn, Bid, Fold, Level, Look, Move, Phase, View
from services.ai.bots import Level as BotLevel
from services.cli.bench.matches import Player
from tests.services.ai.zoo import release_0_1_0


def stays(view: View) -> Move:
    """Levels whatever it costs, and never raises: a calling station."""
    return _first(view, Level(), AllIn()) or _least(view)


def folds(view: View) -> Move:
    """Folds to whatever is bid, and opens as low as it must."""
    return _first(view, Fold()) or _least(view)


def raises(view: View) -> Move:
    """Raises by the least there is as long as it may."""
    return _least(view) if view.bid_minimum else stays(view)


def raises_the_bank(view: View) -> Move:
    """Raises by about the bank as long as it may."""
    wanted = view.high + view.bank + view.level_price
    return Bid(min(wanted, view.bid_maximum)) if view.bid_minimum else stays(view)


def bids_all(view: View) -> Move:
    """Bids everything at once."""
    return Bid(view.bid_maximum) if view.bid_minimum else stays(view)


WAYS: Mapping[str, Callable[[View], Move]] = {
    "stays": stays,
    "folds": folds,
    "raises": raises,
    "raises-the-bank": raises_the_bank,
    "bids-all": bids_all,
}
"""The ways by name."""


def bidder(way: str, game: str, view: View, history: Sequence[Any], rng: Random) -> Any:
    """The move of an opponent that bids in this way, with its eyes open."""
    if view.phase is Phase.BIDDING and Look() not in view.legal:
        return WAYS[way](view)
    return release_0_1_0.choose(game, view, history, BotLevel.NORMAL, rng).move


def blind_bidder(way: str, game: str, view: View, history: Sequence[Any], rng: Random) -> Any:
    """The same, without ever looking at its cards before it has to."""
    if view.phase is Phase.BIDDING:
        return WAYS[way](view)
    return release_0_1_0.choose(game, view, history, BotLevel.NORMAL, rng).move


SIMPLE: Mapping[str, Player] = {
    **{f"azi-{way}": partial(bidder, way) for way in WAYS},
    **{f"azi-blind-{way}": partial(blind_bidder, way) for way in WAYS},
}
"""The opponents by name."""


def _first(view: View, *moves: Move) -> Move | None:
    return next((move for move in moves if move in view.legal), None)


def _least(view: View) -> Move:
    return Bid(view.bid_minimum) if view.bid_minimum else view.legal[0]
