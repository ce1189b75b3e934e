"""Azi's sampled hands: nothing public contradicts them, and the bidding makes them likely."""

from dataclasses import replace
from functools import reduce
from random import Random
from typing import Any

import pytest

from engines import azi
from engines.api import Act, Start
from engines.azi import projection
from engines.azi.core import Core
from engines.azi.masks import BIT, CARD, SUIT
from engines.bits import members
from engines.cards import Card, suit
from services.ai.bots.azi import hands, mixing, reading, tables
from services.ai.bots.azi.worlds import Worlds
from tests.engines import azi_worlds, laws
from tests.engines.laws import Decks
from tests.services.ai.positions import Mover, Position, play

HIDDEN = {"hands", "last", "origin", "asked"}
"""What of a core a view does not tell."""


def staying(seed: object) -> Mover:
    """Moves at random, and seldom folds or raises, so that many deals end in an azi."""
    rng = Random(f"{seed}")

    def move(position: Position) -> azi.Move:
        legal = azi.legal(position.state, position.seat)
        mild = [m for m in legal if not isinstance(m, azi.Fold | azi.Bid)]
        return rng.choice(mild if mild and rng.random() < 0.8 else legal)

    return move


def positions(number: int) -> list[Position]:
    """Positions of random tables, in every phase."""
    found: list[Position] = []
    for seed in range(laws.games(number)):
        rng = Random(f"worlds/{seed}")
        movers = [staying(f"{seed}/{seat}") for seat in range(6)]
        played = play("azi", azi_worlds.table(rng), Decks(seed), movers)
        found.extend(position for position in played if position.view.legal)
    return found


def cards(held: int) -> tuple[Card, ...]:
    """The cards of a mask."""
    return tuple(CARD[bit] for bit in members(held))


def standing(core: Core) -> dict[str, Any]:
    """What a core is made of, what a view does not tell aside."""
    return {name: getattr(core, name) for name in Core.__slots__ if name not in HIDDEN}


def test_the_core_of_a_view_stands_as_that_of_the_state() -> None:
    """But for the cards of the others, and who is asked to buy back after the seat itself."""
    phases = set()
    for position in positions(130):
        seen = reading.core(position.view, position.history)
        real = projection.from_state(position.state)
        real.seat = seen.seat
        assert standing(seen) == standing(real)
        own = position.seat
        if not position.state.players[own].blind:
            assert seen.hands[own] == real.hands[own]
        assert seen.origin == real.origin or position.state.phase is azi.Phase.OVER
        phases.add(position.state.phase)
    assert len(phases) == 4


def test_a_world_that_is_drawn_gives_the_same_view() -> None:
    """`view(determinize(view)) == view`: hands of the right sizes, and no card twice."""
    phases = set()
    for position in positions(20):
        view, state, own = position.view, position.state, position.seat
        if state.players[own].blind:
            continue
        worlds, rng = Worlds(view, mixing.likely(view, position.history)), Random(1)
        for _ in range(3):
            drawn = worlds.drawn(rng)
            assert drawn is not None
            played = [p.card for t in state.tricks for p in t.plays] + [p.card for p in state.trick]
            used = [*view.hand, view.turned, view.dropped, *played]
            players = list(state.players)
            for seat, hand in drawn.items():
                used += cards(hand)
                players[seat] = replace(players[seat], hand=cards(hand))
            known = [card for card in used if card is not None]
            assert len(known) == len(set(known))
            assert set(drawn) == {
                s for s, p in enumerate(players) if p.standing is azi.Standing.LIVE and s != own
            }
            assert azi.view(replace(state, players=tuple(players)), own) == view
        phases.add(state.phase)
    assert len(phases) >= 3


def test_the_bidding_read_backwards_and_forwards_is_the_position() -> None:
    """Every seat's chips and level come out of the history as the view has them."""
    for position in positions(60):
        view = position.view
        if view.phase not in (azi.Phase.BIDDING, azi.Phase.TRICKS):
            continue
        since = reading.this_deal(position.history)
        core = reading.before(view, since)
        for happening in since:
            if isinstance(happening, azi.BidMade | azi.Levelled | azi.WentAllIn):
                reading.put(core, happening)
        real = projection.from_state(position.state)
        for name in ("stacks", "levels", "contributed", "weights", "bids", "bank", "high"):
            assert getattr(core, name) == getattr(real, name), name


def after(state: azi.State, *commands: Any) -> Position:
    """The position after these commands, as the first seat has it."""
    events: list[azi.Event] = []
    for command in (Start(), *commands):
        new = azi.decide(state, command, Decks(3))
        state, events = reduce(azi.evolve, new, state), [*events, *new]
    return Position("azi", state, tuple(events), 0)


@pytest.mark.parametrize("deal_size", [3, 4])
def test_who_raised_high_is_thought_to_hold_more(deal_size: int) -> None:
    """Hands drawn for a seat that raised by the bank are worth more than for one that levelled."""
    options = azi.Options(deal_size=deal_size)
    begun = azi.initial(options, 2, stacks=(50, 50), last_winner=1)
    drops = []
    if deal_size > hands.HAND:
        dealt = reduce(azi.evolve, azi.decide(begun, Start(), Decks(3)), begun)
        drops = [Act(s, azi.Drop(dealt.players[s].hand[0])) for s in (0, 1)]
    raised = after(begun, *drops, Act(0, azi.Bid(1)), Act(1, azi.Bid(6)), Act(0, azi.Level()))
    levelled = after(begun, *drops, Act(0, azi.Bid(1)), Act(1, azi.Level()))
    known = tables.tables()

    def held(position: Position) -> float:
        view = position.view
        worlds = Worlds(view, mixing.likely(view, position.history))
        rng, of = Random(1), hands.kinds(view.turned or azi.PACK[0])
        drawn = [worlds.drawn(rng) or {} for _ in range(300)]
        return sum(known.worth(2, of[hand[1]]) for hand in drawn) / 300

    assert held(raised) > held(levelled) + 0.04


def test_suits_shown_to_be_missing_are_never_drawn() -> None:
    """AZI-27, AZI-28: a plain card on another led suit tells that the trumps are gone as well."""
    told = 0
    for position in positions(40):
        view = position.view
        if view.phase is not azi.Phase.TRICKS or not view.tricks:
            continue
        worlds, rng = Worlds(view, lambda *_: 1.0), Random(2)
        for _ in range(5):
            for seat, hand in (worlds.drawn(rng) or {}).items():
                for trick in view.tricks:
                    for play_ in trick.plays:
                        led = trick.plays[0].card
                        if play_.seat == seat and suit(play_.card) is not suit(led):
                            told += 1
                            assert not hand & SUIT[BIT[led]]
    assert told > 10
