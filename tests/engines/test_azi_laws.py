"""Azi keeps the laws of every game, at any table and whatever is played."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engines.azi as azi
from engines.api import Act, RuleViolation
from engines.azi.bank import may_bid, minimum_bid, reach
from tests.engines import azi_worlds, laws

AZI: laws.Laws[azi.State, azi.Move, azi.Event] = laws.Laws(
    game=azi,
    start=azi_worlds.table,
    seats=lambda state: len(state.players),
    conceivable=azi_worlds.conceivable,
    covered=lambda _, move: isinstance(move, azi.Bid),
    server_only=lambda state, move: isinstance(move, azi.Fold) and state.high == 0,
    malformed=[
        azi.Bid(0),
        azi.Bid(-1),
        azi.Bid(True),
        azi.Bid(10.0),  # type: ignore[arg-type]
        azi.Bid("10"),  # type: ignore[arg-type]
        azi.Bid(None),  # type: ignore[arg-type]
        azi.PlayCard(azi.PACK[0] - 1),  # type: ignore[arg-type]
        azi.PlayCard(51),  # type: ignore[arg-type]
        azi.PlayCard(-1),  # type: ignore[arg-type]
        azi.PlayCard([azi.PACK[0]]),  # type: ignore[arg-type]
        azi.Drop(None),  # type: ignore[arg-type]
        azi.Drop(tuple(azi.PACK)),  # type: ignore[arg-type]
        azi.Drop("6S"),  # type: ignore[arg-type]
        azi.Bid,
    ],
    pack=lambda _: azi.PACK,
    cards=azi_worlds.cards,
    chips=azi_worlds.chips,
    resample=azi_worlds.resample,
    bound=3000,
)

Law = Callable[[laws.Laws[Any, Any, Any], Random], None]


@pytest.mark.parametrize("law", laws.EVERY, ids=laws.name)
def test_law_over_seeded_games(law: Law) -> None:
    """Each law holds over many random games."""
    for seed in range(laws.games(25)):
        law(AZI, Random(seed))


@pytest.mark.parametrize("law", laws.EVERY, ids=laws.name)
@settings(max_examples=laws.games(8), deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_law_over_searched_games(law: Law, rng: Random) -> None:
    """Each law holds over games that are searched for and shrunk."""
    law(AZI, rng)


def test_a_bid_is_accepted_exactly_within_its_bounds() -> None:
    """AZI-12, AZI-16, AZI-17: what the covering set leaves out follows from three numbers."""
    for seed in range(laws.games(40)):
        for step in laws.walk(AZI, Random(seed)):
            state = step.after
            if state.phase is not azi.Phase.BIDDING:
                continue
            (seat,) = azi.to_act(state)
            player = state.players[seat]
            for move in azi_worlds.conceivable(state, seat):
                if isinstance(move, azi.Bid):
                    within = minimum_bid(state) <= move.amount <= reach(player)
                    outcome = _reason(state, seat, move, step.chance)
                    assert (outcome is None) == (within and may_bid(state, player)), state


def _reason(state: azi.State, seat: int, move: azi.Move, chance: laws.Decks) -> str | None:
    try:
        azi.decide(state, Act(seat, move), chance)
    except RuleViolation as refusal:
        return refusal.reason
    return None
