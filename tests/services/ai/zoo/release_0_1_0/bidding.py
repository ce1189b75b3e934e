"""Azi's bidding: what a chance of winning is worth paying for, and how to say so.

Chances are between 0 and 1, prices and pots in chips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from engines.azi import (
    AllIn,
    Bid,
    BidMade,
    DealtShown,
    Fold,
    Folded,
    Happening,
    Level,
    Levelled,
    Move,
    Standing,
    View,
)
from engines.cards import ACE, rank, suit
from tests.services.ai.zoo.release_0_1_0.choice import Choice

RAISER_SHADE = 0.12
"""Each seat that raised lowers the chance by this part: it holds more than a random hand."""
LEVELLER_SHADE = 0.04
EDGE = 0.12
"""So much more than an equal part a hand must win to be raised by a hard bot."""
STRONG = 0.62
"""A chance worth raising by two steps."""
BLUFF_PLAYERS = 3
BLUFF_BELOW = 0.6
"""A bluff is made with hands whose chance is less than this part of an equal one."""
VALUE_TO_WEAK = 1.25
"""How many hands are raised for their worth to each that could bluff."""
LEVEL_PRIOR = (2, 4)
"""Levelled and asked before anything is known of a table."""
BLIND_BANK = {2: 2, 3: 4}
"""By players: betting blind pays when the bank is so many times the blind price."""


@dataclass(frozen=True, slots=True)
class Bids:
    """What the others did in this deal, and how readily this table levels."""

    raisers: int
    levellers: int
    levels: int
    folds: int


def stay(view: View, chance: float) -> Choice[Move]:
    """Level or go all in if the chance is worth the price, else fold; open where that is due."""
    if Level() in view.legal:
        if chance * (view.bank + view.level_price) >= view.level_price:
            return Choice(Level(), "The bank is worth the price of levelling.")
        return Choice(Fold(), "Levelling costs more than the hand can hope for.")
    if AllIn() in view.legal:
        won, price = _part_for_all(view)
        if chance * won >= price:
            return Choice(AllIn(), "Everything I have is worth the part it can win.")
        return Choice(Fold(), "The part I could win is not worth my last chips.")
    least = next((move for move in view.legal if isinstance(move, Bid)), view.legal[0])
    return Choice(least, "The opener has to bid; the least will do.")


def raised(view: View, steps: int) -> Choice[Move] | None:
    """A bid of so many steps above the highest, within the view's bounds; None if none may be."""
    if not view.bid_minimum:
        return None
    step = max(view.options.min_bet, 1)
    wanted = view.high + steps * step if view.high else steps * step
    amount = min(max(wanted, view.bid_minimum), view.bid_maximum)
    return Choice(Bid(amount), f"Bid to {amount} for the lead and a larger bank.")


def bid(view: View, history: Sequence[Happening], chance: float, rng: Random) -> Choice[Move]:
    """A hard bot's bid: shaded by who bid before, sized by strength, with bluffs mixed in."""
    bids = read(view, history)
    players = players_left(view)
    shaded = chance * max(1 - RAISER_SHADE * bids.raisers - LEVELLER_SHADE * bids.levellers, 0.1)
    mixed = rng.random()
    steps = 2 if shaded > STRONG else int(shaded > 1 / players + EDGE)
    if not steps and mixed < _bluff_rate(view, bids, chance):
        steps = 1
    raising = raised(view, steps) if steps else None
    return raising or stay(view, shaded)


def blind(view: View, history: Sequence[Happening]) -> Choice[Move] | None:
    """The move of a seat that rather stays blind than looks (AZI-42); None if it should look."""
    price = view.level_price or max((view.options.min_bet + 1) // 2, 1)
    times = BLIND_BANK.get(players_left(view))
    if times is None or view.bank < times * price or read(view, history).raisers:
        return None
    if Level() in view.legal:
        return Choice(Level(), "Blind chips count double, and the bank is worth them.")
    least = next((move for move in view.legal if isinstance(move, Bid)), None)
    if least is None or view.high:
        return None
    return Choice(least, "Blind chips count double, so open without looking.")


def read(view: View, history: Sequence[Happening]) -> Bids:
    """What the history tells of the others' bids."""
    raisers: set[int] = set()
    levellers: set[int] = set()
    levels, folds, opened = LEVEL_PRIOR[0], LEVEL_PRIOR[1] - LEVEL_PRIOR[0], False
    for happening in history:
        match happening:
            case DealtShown():
                raisers, levellers, opened = set(), set(), False
            case BidMade(seat=seat, level=level):
                if opened or level > view.options.min_bet:
                    raisers.add(seat)
                opened = True
            case Levelled(seat=seat):
                levellers.add(seat)
                levels += 1
            case Folded():
                folds += 1
            case _:
                pass
    others = {s.seat for s in view.seats if s.standing is Standing.LIVE and s.seat != view.seat}
    return Bids(
        raisers=len(raisers & others),
        levellers=len((levellers - raisers) & others),
        levels=levels,
        folds=folds,
    )


def _bluff_rate(view: View, bids: Bids, chance: float) -> float:
    """How often a weak hand should be raised, so that levelling gains the others nothing."""
    players = players_left(view)
    if bids.raisers or players > BLUFF_PLAYERS or chance > BLUFF_BELOW / players:
        return 0.0
    if view.turned is None or not any(
        suit(card) is suit(view.turned) or rank(card) == ACE for card in view.hand
    ):
        return 0.0
    price = max(view.level_price, 1)
    bluffs = price / (view.bank + 2 * price)
    readiness = bids.levels / (bids.levels + bids.folds)
    return bluffs / (1 - bluffs) * VALUE_TO_WEAK * (1 - readiness)


def _part_for_all(view: View) -> tuple[float, int]:
    """Chips won by a short winner who goes all in now (AZI-31), and what it costs."""
    own = view.seats[view.seat or 0]
    price = own.stack
    weight = own.weight + (2 * price if own.blind else price)
    greatest = max(weight, *(seat.weight for seat in view.seats))
    mine = own.contributed + own.bought_back
    part = weight / greatest if greatest else 0.0
    return mine + price + (view.bank - mine) * part, price


def players_left(view: View) -> int:
    """How many players the bank can still go to, at least 1."""
    return max(sum(seat.standing is Standing.LIVE for seat in view.seats), 1)
