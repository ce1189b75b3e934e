"""Durak obeys the laws of every game, and its own, whatever is played."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engines.durak as durak
from engines.api import Act, Command, Game, RuleViolation, Start, Timeout
from engines.cards import Card, rank, suit
from engines.durak.model import HAND_SIZE, PACK, Dealt, Event, Move, Options, Phase, State
from tests.engines import laws
from tests.engines.durak_worlds import DURAK, conceivable

ENGINE: Game[State, Move, Event] = durak
"""The module has the common face; the type checker holds it to that."""

TABLES = [
    (n, after, auto) for n in durak.SEATS for after in (True, False) for auto in (True, False)
]


@pytest.mark.parametrize("law", laws.EVERY, ids=laws.name)
def test_law(law: Callable[[laws.Laws[State, Move, Event], Random], None]) -> None:
    """The law holds in seeded random games of every size and with every option."""
    for seed in range(laws.games(12)):
        law(DURAK, Random(seed))


@pytest.mark.parametrize(
    "law",
    [laws.legal_moves_are_accepted, laws.cards_are_a_permutation_of_the_pack],
    ids=laws.name,
)
@given(rng=st.randoms(use_true_random=False))
@settings(max_examples=laws.games(8), deadline=None, suppress_health_check=list(HealthCheck))
def test_law_holds_in_searched_games(
    law: Callable[[laws.Laws[State, Move, Event], Random], None], rng: Random
) -> None:
    """The law holds in games that are searched for one that breaks it."""
    law(DURAK, rng)


def game(seats: int, options: Options, seed: int) -> list[laws.Step[State, Move, Event]]:
    """A whole random game, timeouts and leaves included."""
    table = replace(DURAK, start=lambda _: durak.initial(options, seats))
    return list(laws.walk(table, Random(seed)))


@pytest.mark.parametrize(("seats", "after_take", "auto_pass"), TABLES)
def test_every_table_plays_to_a_ruling(seats: int, after_take: bool, auto_pass: bool) -> None:
    """Every seat count with every choice of options has a durak, or is null (DURAK-22, DURAK-23).

    At the end all seats but the durak are out, in the order of the places, and without cards.
    """
    for seed in range(laws.games(4)):
        *_, last = game(seats, Options(after_take, auto_pass), seed)
        state, ruling = last.after, last.events[-1]
        match ruling:
            case durak.DurakNamed(loser, places):
                assert places == (*state.out, loser)
                assert state.hands[loser]
            case durak.DealNull(durak.NullReason.NOBODY_LEFT, places):
                assert places == state.out
            case _:
                raise AssertionError(f"ended with {ruling}")
        assert sorted(places) == list(range(seats))
        assert not any(state.hands[s] for s in state.out)
        assert not state.talon


def check_bouts(steps: Sequence[laws.Step[State, Move, Event]]) -> None:
    """What the rules promise of each bout, from the events alone."""
    laid: list[Card] = []
    ranks: set[int] = set()
    held = most = HAND_SIZE
    for step in steps:
        state = step.before
        for event in step.events:
            after = durak.evolve(state, event)
            match event:
                case durak.Attacked(seat, card):
                    assert not ranks or rank(card) in ranks
                    assert seat != state.defender
                    laid.append(card)
                    ranks.add(rank(card))
                case durak.Beaten(card=card, attack=attack):
                    assert (suit(card), rank(card)) > (suit(card), rank(attack)) or (
                        suit(card) is state.trump and suit(attack) is not state.trump
                    )
                    ranks.add(rank(card))
                case durak.Passed(seat, automatic=True):
                    assert not ranks & {rank(c) for c in state.hands[seat]}
                case durak.BoutClosed(limit=limit):
                    assert 1 <= len(laid) <= min(held, most)
                    most, laid, ranks = limit, [], set()
                case _:
                    pass
            state = after
        if not laid and state.defender is not None:
            held = len(state.hands[state.defender])
            assert most == min(HAND_SIZE, held)
            assert all(len(state.hands[s]) >= HAND_SIZE for s in state.playing) or not state.talon
            assert all(state.hands[s] for s in state.playing)
            assert state.attacker is not None
            seats = [(state.attacker + i) % state.seats for i in range(1, state.seats)]
            assert all(s in state.out for s in seats[: seats.index(state.defender)])


@pytest.mark.parametrize("seats", durak.SEATS)
def test_every_bout_keeps_to_its_limit_and_ranks(seats: int) -> None:
    """Roles, limit, ranks, beating and drawing hold (DURAK-7, DURAK-2, DURAK-12, DURAK-18)."""
    for seed in range(laws.games(5)):
        check_bouts(game(seats, Options(auto_pass=seed % 2 == 0), seed))


class Stacked:
    """A `Chance` with one deck and one starter."""

    def __init__(self, deck: tuple[Card, ...], starter: int = 0) -> None:
        self._deck, self._starter = deck, starter

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The deck."""
        return self._deck

    def seat(self, deal: int, label: str, bound: int) -> int:
        """The starter."""
        return self._starter


def retold(
    start: State, commands: Sequence[Command[Move]], deck: tuple[Card, ...], starter: int
) -> list[tuple[State, tuple[Event, ...]]] | None:
    """The same commands over another deck; None if one is refused."""
    state, told, chance = start, [], Stacked(deck, starter)
    for command in commands:
        try:
            events = durak.decide(state, command, chance)
        except RuleViolation:
            return None
        for event in events:
            state = durak.evolve(state, event)
        told.append((state, events))
    return told


def public(events: Sequence[Event]) -> tuple[object, ...]:
    """What is in the log for all to read, written out apart from `show`."""
    return tuple(
        (e.starter, e.lowest, e.trump, e.shown) if isinstance(e, Dealt) else e for e in events
    )


@pytest.mark.parametrize("seats", durak.SEATS)
def test_a_viewer_cannot_tell_two_decks_with_one_public_history(seats: int) -> None:
    """A whole game is played again from a deck that differs where the viewer has not looked.

    If the log reads the same, so does everything the viewer is shown at every step, refusals
    included (DURAK-26).
    """
    rng, worlds = Random(seats), 0
    for seed in range(laws.games(4)):
        steps = game(seats, Options(auto_pass=seed % 2 == 0), seed)
        steps = steps[: rng.randint(2, len(steps) // 2)]
        dealt = steps[0].events[0]
        assert isinstance(dealt, Dealt)
        start, last = steps[0].before, steps[-1].after
        commands = [step.command for step in steps]
        for viewer in (None, rng.randrange(seats)):
            hidden = [
                *(c for c in last.talon[:-1]),
                *(
                    c
                    for s in range(seats)
                    for c in last.hands[s]
                    if s != viewer and c not in last.known[s]
                ),
            ]
            deck = dealt.secret.deck
            for _ in range(12 if len(hidden) > 1 else 0):
                one, two = rng.sample(hidden, 2)
                swapped = {one: two, two: one}
                other = tuple(swapped.get(c, c) for c in deck)
                told = retold(start, commands, other, dealt.starter)
                if told is None or any(
                    public(e) != public(s.events) for (_, e), s in zip(told, steps, strict=True)
                ):
                    continue
                worlds += 1
                for (state, events), step in zip(told, steps, strict=True):
                    assert durak.view(state, viewer) == durak.view(step.after, viewer)
                    assert durak.history(events, viewer) == durak.history(step.events, viewer)
                    if viewer is not None:
                        move = rng.choice(tuple(conceivable(state, viewer)))
                        assert refusal(state, viewer, move) == refusal(step.after, viewer, move)
    assert worlds > 5


def refusal(state: State, seat: int, move: Move) -> object:
    """How a move is refused, or None if it is accepted."""
    try:
        durak.decide(state, Act(seat, move), Stacked(PACK))
    except RuleViolation as violation:
        return violation.args
    return None


def test_players_who_always_take_end_in_null_after_500_bouts() -> None:
    """Three seats hand the same cards round; the guard ends it and the log says why (DURAK-24)."""
    deck = laws.Decks(1)
    state = durak.initial(Options(), 3)
    for event in durak.decide(state, Start(), deck):
        state = durak.evolve(state, event)
    hands = tuple(tuple(PACK[i] for i in pair) for pair in ((0, 7), (10, 17), (20, 24)))
    rest = tuple(c for c in PACK if not any(c in hand for hand in hands))
    state = replace(
        state,
        hands=hands,
        talon=(),
        discarded=rest,
        trump=suit(PACK[-1]),
        limit=2,
        known=((),) * 3,
        attacker=0,
        defender=1,
    )
    told: list[Event] = []
    while not durak.is_over(state):
        events = durak.decide(state, Timeout(durak.to_act(state)[0]), deck)
        for event in events:
            state = durak.evolve(state, event)
        told += events
    closed = [e for e in told if isinstance(e, durak.BoutClosed)]
    assert len(closed) == 500
    assert closed[-1] == durak.BoutClosed(500, durak.Outcome.TAKEN, None, None, 0)
    assert told[-1] == durak.DealNull(durak.NullReason.TOO_MANY_BOUTS, ())
    assert (state.null, state.durak, state.phase) == (True, None, Phase.OVER)
    assert sum(len(hand) for hand in state.hands) == 6
