"""Azi's bots.

Easy counts its trumps. Normal weighs the price of a bid against the hand's chance of winning. Hard
mixes its bids so that they give nothing away, reads what the others' bids tell of their hands, and
plays every card out exactly on many deals that would fit.
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
    Standing,
    View,
    projection,
    strength,
)
from engines.azi.codes import ALL_IN, FOLD, LEVEL, LOOK
from engines.azi.core import Core
from engines.azi.masks import BIT, mask
from engines.cards import JACK, Card, rank, suit, text
from services.ai.bots.azi import bidding, hands, mixing, playing, reading, tables, tricks
from services.ai.bots.budget import Budget
from services.ai.bots.choice import Choice, Level

LIGHT_PRICE = 5
"""An easy bot buys back in when the price is at most its stack divided by this."""

REASONS = {
    FOLD: "Staying costs more than the hand can hope for.",
    LEVEL: "The bank is worth the price of levelling.",
    ALL_IN: "Everything I have is worth the part it can win.",
    LOOK: "Betting without seeing the cards is too dear here.",
}


def choose(
    view: View, history: Sequence[Happening], level: Level, rng: Random, budget: Budget
) -> Choice[Move]:
    """A legal move for the seat whose view this is."""
    match view.phase:
        case Phase.DROPPING:
            return _drop(view, level)
        case Phase.BIDDING:
            return _bid(view, history, level, rng)
        case Phase.BUYING_BACK:
            return _buy_back(view, history, level)
        case Phase.TRICKS:
            return _play(view, history, level, rng, budget)
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
    of, held, known = hands.kinds(turned), mask(view.hand), tables.tables()
    players = sum(seat.standing is Standing.LIVE for seat in view.seats)
    players = max(players, tables.PLAYERS.start)

    def rest(move: Drop) -> tuple[float, int]:
        kind = of.get(held ^ BIT[move.card])
        worth = known.worth(players, kind) if kind is not None else 0.0
        return worth, -strength(move.card, turned)

    return Choice(max(drops, key=rest), "Drop the card whose loss hurts least.")


def _bid(view: View, history: Sequence[Happening], level: Level, rng: Random) -> Choice[Move]:
    """Open, raise, level, go all in or fold (AZI-11 … AZI-24)."""
    core = reading.core(view, history)
    if level is Level.HARD and (code := mixing.bid(view, core, rng)) is not None:
        return _said(view, core, code)
    if Look() in view.legal:
        return Choice(Look(), REASONS[LOOK])
    if level is Level.EASY:
        trumps = sum(suit(card) is suit(_turned(view)) for card in view.hand)
        high_card = any(rank(card) > JACK for card in view.hand)
        return _said(view, core, bidding.by_trumps(core, core.seat, trumps, high_card))
    return _said(view, core, bidding.by_odds(core, core.seat, _worth(view, core)))


def _worth(view: View, core: Core) -> float:
    """The part of the bank the own hand wins on average among the seats left."""
    kind = hands.kinds(_turned(view))[mask(view.hand)]
    players = max(core.live.bit_count(), tables.PLAYERS.start)
    return tables.tables().worth(players, kind)


def _said(view: View, core: Core, code: int) -> Choice[Move]:
    """The core's move as the view has it: in a view that contradicts itself it may be another."""
    move = projection.move(core, code)
    if isinstance(move, Bid) and view.bid_minimum:
        amount = min(max(move.amount, view.bid_minimum), view.bid_maximum)
        return Choice(Bid(amount), f"Bid to {amount} for the lead and a larger bank.")
    if move not in view.legal:
        move = view.legal[0]
    return Choice(move, REASONS.get(code, "There is nothing better here."))


def _buy_back(view: View, history: Sequence[Happening], level: Level) -> Choice[Move]:
    """Half the bank for one part in three or less of it is a bad bargain (AZI-39)."""
    own = view.seat or 0
    if level is Level.EASY and view.buy_back_price <= view.seats[own].stack // LIGHT_PRICE:
        return Choice(BuyBack(), "The bank is worth another try.")
    if level is Level.HARD and bidding.buys_back(reading.core(view, history), own):
        return Choice(BuyBack(), "My part of the bank is worth more than it costs.")
    return Choice(Decline(), "Half the bank is more than one seat's part of it.")


def _play(
    view: View, history: Sequence[Happening], level: Level, rng: Random, budget: Budget
) -> Choice[Move]:
    cards = [move.card for move in view.legal if isinstance(move, PlayCard)]
    turned = _turned(view)
    if level is Level.HARD:
        likely = mixing.likely(view, history)
        card = playing.best_card(view, history, likely, rng, budget)
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
