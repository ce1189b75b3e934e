"""Rami against the laws of all games, over random play and over play that goes out."""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import rami
from engines.api import Act, Command, Game, RuleViolation, Timeout
from engines.cards import PACK_SIZE, Card
from tests.engines import laws
from tests.engines.rami_play import keen_match
from tests.engines.rami_worlds import resample

FACE: Game[rami.State, rami.Move, rami.Event] = rami
ALL = tuple(Card(c) for c in range(PACK_SIZE))
OPTIONS = tuple(
    rami.Options(ace_high, discard_to_win, forbid_same_discard, target)
    for ace_high in (False, True)
    for discard_to_win in (False, True)
    for forbid_same_discard in (True, False)
    for target in (1, 40)
)


def start(rng: Random) -> rami.State:
    """A match of any seat count and options; mostly of one round."""
    return rami.initial(rng.choice(OPTIONS), rng.choice(rami.SEATS))


def cards(state: rami.State) -> Iterator[Card]:
    """Every card of a state, wherever it lies."""
    for pile in (*state.hands, state.stock, state.discard, *(m.cards for m in state.melds)):
        yield from pile


def conceivable(state: rami.State, seat: int) -> Iterator[rami.Move]:
    """Draws, all discards, and melds and lay-offs of own and foreign cards, ascending.

    A seat that may meld tries three and four cards of its hand in every way, every longer
    stretch of it, and the same for each meld on the table with one card more or less.
    """
    yield from (rami.DrawStock(), rami.DrawDiscard())
    yield from (rami.Discard(c) for c in ALL)
    hand = sorted(state.hands[seat])
    active = rami.to_act(state) == (seat,) and state.drawn is not None
    widest = 4 if active else 1
    sets = [cs for size in range(1, widest + 1) for cs in combinations(hand, size)]
    sets += [
        tuple(hand[a:b]) for a in range(len(hand)) for b in range(a + widest + 1, len(hand) + 1)
    ]
    top = (state.discard[-1],) if state.discard else ()
    for cs in (*sets, top, (ALL[0], ALL[13], ALL[26])):
        if cs:
            yield rami.Meld(cs)
            yield from (rami.LayOff(cs, name) for name in (*(m.id for m in state.melds), "", "m9"))


def tells(state: rami.State, command: Command[rami.Move], viewer: int | None) -> bool:
    """A timeout turns the top of the stock over; the end of a round tells what hands were worth."""
    if isinstance(command, Timeout) and state.drawn is None:
        return True
    try:
        events = rami.decide(state, command, laws.Decks(0))
    except RuleViolation:
        return False
    return any(isinstance(event, rami.RoundScored) for event in events)


RAMI: laws.Laws[rami.State, rami.Move, rami.Event] = laws.Laws(
    game=FACE,
    start=start,
    seats=lambda state: state.seats,
    conceivable=conceivable,
    malformed=(
        rami.Discard(Card(-1)),
        rami.Discard(Card(52)),
        rami.Discard(Card(True)),
        rami.Meld(()),
        rami.Meld(ALL + ALL[:8]),
        rami.Meld((ALL[0], ALL[1], Card(52))),
        rami.LayOff((), "m1"),
    ),
    pack=lambda _: rami.PACK,
    cards=cards,
    resample=resample,
    tells=tells,
    server_only=lambda _, move: isinstance(move, rami.DrawStock),
    bound=20_000,
)


@pytest.mark.parametrize("law", laws.EVERY, ids=laws.name)
def test_law(law: Callable[[laws.Laws[Any, Any, Any], Random], None]) -> None:
    """Every law of all games holds in Rami, from seeds that any run repeats."""
    for seed in range(laws.games(10)):
        law(RAMI, Random(f"rami/{seed}"))


def test_a_timeout_is_a_draw_and_its_discard() -> None:
    """RAMI-27: before the draw the server makes two moves, and just as the seat would make them."""
    for seed in range(laws.games(10)):
        for step in laws.walk(RAMI, Random(f"late/{seed}")):
            state = step.after
            for seat in rami.to_act(state):
                expired, *made = rami.decide(state, Timeout(seat), step.chance)
                assert isinstance(expired, rami.TurnExpired)
                assert expired.draws == (state.drawn is None)
                expected: list[rami.Event] = []
                while state.turn == step.after.turn or state.drawn is not None:
                    move = Act(seat, rami.timeout_move(state, seat))
                    expected += rami.decide(state, move, step.chance)
                    state = reduce(rami.evolve, expected, step.after)
                assert made == expected


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_the_replay_law_on_sought_games(rng: Random) -> None:
    """The same, with games that hypothesis chooses and makes small."""
    laws.replay_gives_the_live_state(RAMI, rng)


@pytest.mark.parametrize("seats", rami.SEATS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_keen_play_keeps_the_cards_and_the_score(options: rami.Options, seats: int) -> None:
    """With melds on the table too: cards stay the pack, melds valid, legal exact, points right."""
    for seed in range(laws.games(1)):
        for _, events, after in keen_match(options, seats, seed):
            assert sorted(cards(after)) == list(ALL)
            assert all(rami.kind_of(meld.cards) is meld.kind for meld in after.melds)
            for event in events:
                if isinstance(event, rami.RoundScored):
                    gain = sum(event.points) - event.points[event.winner]
                    assert gain >= 1
                    assert event.gains == tuple(gain * (s == event.winner) for s in range(seats))
                if isinstance(event, rami.MatchWon):
                    assert event.totals[event.winner] >= options.target
                    assert max(event.totals) == event.totals[event.winner]
        assert rami.is_over(after)


def test_keen_play_reaches_every_kind_of_event_but_two() -> None:
    """The games above are no idle play: melds, lay-offs, both draws, both common endings."""
    seen: set[object] = set()
    for options in OPTIONS:
        for _, events, _ in keen_match(options, 3, 1):
            seen |= {type(e) for e in events}
            seen |= {e.ending for e in events if isinstance(e, rami.RoundScored)}
            seen |= {e.source for e in events if isinstance(e, rami.CardDrawn)}
    assert seen >= {rami.MeldLaid, rami.LaidOff, rami.MatchWon, *rami.Source}
    assert seen >= {rami.Ending.WENT_OUT, rami.Ending.EXHAUSTED}
    assert seen.isdisjoint({rami.TurnExpired, rami.SeatLeft, rami.Ending.GUARD})


def test_in_keen_play_legal_is_exact() -> None:
    """Every conceivable move is accepted exactly when it is listed, with melds on the table."""
    for seed in range(laws.games(2)):
        for _, _, state in keen_match(OPTIONS[seed % len(OPTIONS)], 2 + seed % 3, seed):
            if rami.is_over(state) or state.drawn is None or not state.melds:
                continue
            listed = set(rami.legal(state, state.actor))
            accepted = set()
            for move in (*conceivable(state, state.actor), *listed):
                try:
                    rami.decide(state, Act(state.actor, move), laws.Decks(seed))
                except RuleViolation:
                    continue
                accepted.add(move)
            assert accepted == listed


def test_other_worlds_stay_apart_in_keen_play() -> None:
    """With taken and laid cards about, equal knowledge still gives equal views."""
    rng = Random(7)
    for seed in range(laws.games(2)):
        differed = 0
        for _, _, state in keen_match(rami.Options(), 3, seed):
            for viewer in (None, 0, 1, 2):
                other = resample(state, viewer, rng)
                assert sorted(cards(other)) == list(ALL)
                assert rami.view(other, viewer) == rami.view(state, viewer)
                differed += other != state
        assert differed
