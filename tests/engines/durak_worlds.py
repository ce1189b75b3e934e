"""Durak for the laws: random games, every card of a state, and other worlds of one view."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import engines.durak as durak
from engines.api import Act, Command, Leave, Start
from engines.cards import Card, rank
from engines.durak.bout import asked, passes_itself
from engines.durak.model import (
    PACK,
    Attack,
    Beat,
    Event,
    Move,
    Options,
    Pass,
    Phase,
    State,
    Take,
)
from tests.engines.laws import Laws, Viewer

TALON = -1
"""The place of a hidden card that lies in the talon."""


def start(rng: Random) -> State:
    """A game of any size with any options, not dealt yet."""
    options = Options(throw_in_after_take=rng.random() < 0.6, auto_pass=rng.random() < 0.6)
    return durak.initial(options, rng.choice(durak.SEATS))


def conceivable(_state: State, _seat: int) -> Iterator[Move]:
    """Every move there is."""
    yield from (Take(), Pass())
    for card in PACK:
        yield from (Attack(card), Beat(card))


def cards(state: State) -> Iterator[Card]:
    """Every card of a state, wherever it lies."""
    for hand in state.hands:
        yield from hand
    yield from state.talon
    yield from state.discarded
    for pair in state.table:
        yield pair.attack
        if pair.beaten_by is not None:
            yield pair.beaten_by


def resample(state: State, viewer: Viewer, rng: Random) -> State:
    """Another state that the viewer cannot tell from this one, by exchanging hidden cards.

    Hidden are the cards of other hands that nobody has seen, and the talon but for the shown card.
    An exchange keeps to what automatic passes told, and a seat that is asked because it can add
    a card still can.
    """
    slots = [
        (seat, place)
        for seat, hand in enumerate(state.hands)
        for place, card in enumerate(hand)
        if seat != viewer and card not in state.known[seat]
    ] + [(TALON, place) for place in range(len(state.talon) - 1)]
    for _ in range(3 * len(slots)):
        one, two = rng.choice(slots), rng.choice(slots)
        other = _exchanged(state, one, two)
        if _may_hold(state, one[0], _at(state, two)) and _may_hold(state, two[0], _at(state, one)):
            seat = asked(other)
            forced = seat is not None and other.phase is not Phase.DEFENDING and other.table
            if not (forced and seat is not None and passes_itself(other, seat)):
                state = other
    return state


def _at(state: State, slot: tuple[int, int]) -> Card:
    seat, place = slot
    return state.talon[place] if seat == TALON else state.hands[seat][place]


def _may_hold(state: State, seat: int, card: Card) -> bool:
    return seat == TALON or rank(card) not in state.lacking[seat]


def _exchanged(state: State, one: tuple[int, int], two: tuple[int, int]) -> State:
    hands, talon = [list(hand) for hand in state.hands], list(state.talon)
    first, second = _at(state, one), _at(state, two)
    for (seat, place), card in ((one, second), (two, first)):
        (talon if seat == TALON else hands[seat])[place] = card
    return replace(state, hands=tuple(tuple(hand) for hand in hands), talon=tuple(talon))


def asks_hidden_hands(state: State, command: Command[Move], viewer: Viewer) -> bool:
    """Whether the answer to a command shows if another seat can add (an automatic pass does)."""
    if isinstance(command, Leave | Start) or not state.options.auto_pass:
        return False
    seat = command.seat
    move = command.move if isinstance(command, Act) else durak.timeout_move(state, seat)
    if move not in durak.legal(state, seat):
        return False
    event: Event
    match move:
        case Attack(card):
            event = durak.Attacked(seat, card)
        case Beat(card):
            event = durak.Beaten(seat, card, state.table[-1].attack)
        case Take():
            event = durak.Taken(seat)
        case Pass():
            event = durak.Passed(seat, automatic=False)
    after = durak.evolve(state, event)
    if after.phase is Phase.DEFENDING or len(after.table) == after.limit:
        return False
    while (following := asked(after)) is not None:
        if following != viewer and after.hands[following]:
            return True
        after = durak.evolve(after, durak.Passed(following, automatic=False))
    return False


NO_CARDS: tuple[Any, ...] = (-1, 0, 3, 13, 52, None, True, 4.0, "6S", [], PACK)
MALFORMED: tuple[object, ...] = (
    *(Attack(card) for card in NO_CARDS),
    *(Beat(card) for card in NO_CARDS),
    Attack,
    Take,
)

DURAK: Laws[State, Move, Event] = Laws(
    game=durak,
    start=start,
    seats=lambda state: state.seats,
    conceivable=conceivable,
    malformed=MALFORMED,
    pack=lambda _: PACK,
    cards=cards,
    resample=resample,
    tells=asks_hidden_hands,
    bound=40_000,
)
