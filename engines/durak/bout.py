"""A bout: who is asked, what beats what, and what follows when it closes."""

from collections.abc import Iterator
from typing import assert_never

from engines.cards import Card, rank, suit
from engines.durak.model import (
    BOUTS_MAX,
    HAND_SIZE,
    BoutClosed,
    CardsDrawn,
    DealNull,
    DurakNamed,
    Event,
    NullReason,
    Outcome,
    Phase,
    SeatOut,
    State,
)


def beats(state: State, card: Card, attack: Card) -> bool:
    """Whether a card beats an attack card (DURAK-2)."""
    if suit(card) is suit(attack):
        return rank(card) > rank(attack)
    return suit(card) is state.trump


def ranks_on_table(state: State) -> set[int]:
    """The ranks that may be added, of attack and defence cards alike (DURAK-11)."""
    laid = (c for p in state.table for c in (p.attack, p.beaten_by) if c is not None)
    return {rank(c) for c in laid}


def asked(state: State) -> int | None:
    """The seat that decides now (DURAK-13); None before the deal and when all has been asked."""
    match state.phase:
        case Phase.UNDEALT | Phase.OVER:
            return None
        case Phase.DEFENDING:
            return state.defender
        case Phase.ATTACKING if not state.table:
            return state.attacker
        case Phase.ATTACKING | Phase.TAKING:
            return next(adding(state), None)
        case _:
            assert_never(state.phase)


def adding(state: State) -> Iterator[int]:
    """The seats that may add and have not passed, in the order in which they are asked."""
    return (seat for seat in _attackers(state) if seat not in state.passed)


def passes_itself(state: State, seat: int) -> bool:
    """Whether the rules pass a seat that is asked to add (DURAK-14)."""
    hand = state.hands[seat]
    if not state.options.auto_pass:
        return not hand
    ranks = ranks_on_table(state)
    return ranks.isdisjoint(map(rank, hand))


def closing(state: State) -> tuple[Event, ...]:
    """All that follows when the bout is closed: draws, seats out, and the end or the next roles."""
    _, defender = _roles(state)
    outcome = Outcome.TAKEN if state.phase is Phase.TAKING else Outcome.BEATEN
    sizes = [len(hand) for hand in state.hands]
    if outcome is Outcome.TAKEN:
        sizes[defender] += sum(1 if p.beaten_by is None else 2 for p in state.table)
    draws = tuple(_draws(state, sizes))
    finished = [s for s in state.emptied if sizes[s] == 0]
    places = (*state.out, *finished)
    outs = [SeatOut(s, places.index(s) + 1) for s in finished]
    holding = [s for s in state.playing if s not in finished]
    if len(holding) < 2 or state.bout >= BOUTS_MAX:
        closed = BoutClosed(state.bout, outcome, None, None, 0)
        return (closed, *draws, *outs, _end(holding, places))
    following = _next_roles(defender, state.seats, outcome, holding)
    limit = min(HAND_SIZE, sizes[following[1]])
    return (BoutClosed(state.bout, outcome, *following, limit), *draws, *outs)


def _attackers(state: State) -> Iterator[int]:
    """The seats that may add, main attacker first, then clockwise (DURAK-11, DURAK-13)."""
    attacker, defender = _roles(state)
    for step in range(state.seats):
        seat = (attacker + step) % state.seats
        if seat != defender and seat not in state.out:
            yield seat


def _draws(state: State, sizes: list[int]) -> Iterator[CardsDrawn]:
    """Fill up to six, the defender last (DURAK-18); `sizes` grows along."""
    _, defender = _roles(state)
    talon = len(state.talon)
    for seat in (*_attackers(state), defender):
        count = min(HAND_SIZE - sizes[seat], talon)
        if count > 0:
            talon -= count
            sizes[seat] += count
            yield CardsDrawn(seat, count, state.talon[-1] if talon == 0 else None)


def _roles(state: State) -> tuple[int, int]:
    """Attacker and defender of this bout."""
    if state.attacker is None or state.defender is None:
        raise ValueError("no bout is being played")
    return state.attacker, state.defender


def _next_roles(defender: int, seats: int, outcome: Outcome, holding: list[int]) -> tuple[int, int]:
    """Attacker and defender of the next bout (DURAK-7, DURAK-16, DURAK-17, DURAK-21)."""
    attacker = defender
    if outcome is Outcome.TAKEN or defender not in holding:
        attacker = _after(defender, seats, holding)
    return attacker, _after(attacker, seats, holding)


def _after(seat: int, seats: int, holding: list[int]) -> int:
    return min(holding, key=lambda s: (s - seat - 1) % seats)


def _end(holding: list[int], places: tuple[int, ...]) -> DurakNamed | DealNull:
    match holding:
        case [durak]:
            return DurakNamed(durak, (*places, durak))
        case []:
            return DealNull(NullReason.NOBODY_LEFT, places)
        case _:
            return DealNull(NullReason.TOO_MANY_BOUTS, places)
