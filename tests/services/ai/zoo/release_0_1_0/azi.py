"""Azi's bots.

Easy counts its trumps. Normal weighs the price of a bid against the hand's chance of winning. Hard
also reads who bid, bluffs now and then, bets blind where that is cheap, and tries its cards out on
hands the others may hold.
"""

from collections.abc import Sequence
from random import Random
from typing import assert_never

from engines.azi import (
    Bid,
    BuyBack,
    Decline,
    Drop,
    Happening,
    Look,
    Move,
    Phase,
    PlayCard,
    View,
    strength,
)
from engines.cards import JACK, Card, rank, suit, text
from tests.services.ai.zoo.release_0_1_0 import bidding, tricks
from tests.services.ai.zoo.release_0_1_0.choice import Choice, Level
from tests.services.ai.zoo.release_0_1_0.equity import equity

EDGE = 0.22
"""So much more than its equal part a normal bot's hand must win to raise."""
LIGHT_PRICE = 5
"""An easy bot buys back in when the price is at most its stack divided by this."""


def choose(view: View, history: Sequence[Happening], level: Level, rng: Random) -> Choice[Move]:
    """A legal move for the seat whose view this is."""
    match view.phase:
        case Phase.DROPPING:
            return _drop(view, level)
        case Phase.BIDDING:
            return _bid(view, history, level, rng)
        case Phase.BUYING_BACK:
            return _buy_back(view, level)
        case Phase.TRICKS:
            return _play(view, level, rng)
        case Phase.WAITING | Phase.OVER:
            return Choice(view.legal[0], "There is nothing to decide.")
        case _:
            assert_never(view.phase)


def _drop(view: View, level: Level) -> Choice[Move]:
    """Which of four cards goes; the reason does not say, nobody else sees it (AZI-7)."""
    if Look() in view.legal:
        return Choice(Look(), "See the cards before one is dropped.")
    drops = [move for move in view.legal if isinstance(move, Drop)]
    turned = _turned(view)
    if level is Level.EASY:
        lowest = min(drops, key=lambda m: (strength(m.card, turned), m.card))
        return Choice(lowest, "Drop the lowest card.")

    def rest(move: Drop) -> tuple[float, int]:
        kept = [card for card in view.hand if card != move.card]
        return equity(kept, turned, bidding.players_left(view)), -strength(move.card, turned)

    return Choice(max(drops, key=rest), "Drop the card whose loss hurts least.")


def _bid(view: View, history: Sequence[Happening], level: Level, rng: Random) -> Choice[Move]:
    """Open, raise, level, go all in or fold (AZI-11 … AZI-24)."""
    if Look() in view.legal:
        if level is Level.HARD and (blind := bidding.blind(view, history)) is not None:
            return blind
        return Choice(Look(), "Betting without seeing the cards is too dear here.")
    if level is Level.EASY:
        return _bid_by_trumps(view)
    chance = equity(view.hand, _turned(view), bidding.players_left(view))
    if level is Level.HARD:
        return bidding.bid(view, history, chance, rng)
    raises = bidding.raised(view, 1) if chance > 1 / bidding.players_left(view) + EDGE else None
    return raises or bidding.stay(view, chance)


def _bid_by_trumps(view: View) -> Choice[Move]:
    trumps = sum(suit(card) is suit(_turned(view)) for card in view.hand)
    high_card = any(rank(card) > JACK for card in view.hand)
    first_time = not view.seats[view.seat or 0].level
    if trumps > 1 and view.bid_minimum:
        return Choice(Bid(view.bid_minimum), "Raise by the least there is.")
    if trumps or (high_card and first_time):
        return bidding.stay(view, 1.0)
    return bidding.stay(view, 0.0)


def _buy_back(view: View, level: Level) -> Choice[Move]:
    """Half the bank for one part in three or less of it is a bad bargain (AZI-39)."""
    stack = view.seats[view.seat or 0].stack
    if level is Level.EASY and view.buy_back_price <= stack // LIGHT_PRICE:
        return Choice(BuyBack(), "The bank is worth another try.")
    return Choice(Decline(), "Half the bank is more than one seat's part of it.")


def _play(view: View, level: Level, rng: Random) -> Choice[Move]:
    cards = [move.card for move in view.legal if isinstance(move, PlayCard)]
    turned = _turned(view)
    if level is Level.HARD:
        card = tricks.tried_out(view, cards, rng)
        return Choice(PlayCard(card), f"{text(card)} does best against what the others may hold.")
    if not view.trick:
        card = tricks.strongest(cards, turned)
        return Choice(PlayCard(card), f"Lead the strongest card, {text(card)}.")
    if level is Level.EASY:
        card = tricks.weakest(cards, turned)
        return Choice(PlayCard(card), f"{text(card)} is the lowest card that may be played.")
    card = tricks.follow(cards, [play.card for play in view.trick], turned)
    return Choice(PlayCard(card), f"{text(card)} is the cheapest card that does what can be done.")


def _turned(view: View) -> Card:
    if view.turned is None:
        raise ValueError("a deal without a turned card")
    return view.turned
