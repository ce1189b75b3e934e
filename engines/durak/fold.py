"""What each event changes."""

from typing import TypeVar, assert_never

from engines.cards import Card
from engines.durak.bout import ranks_on_table
from engines.durak.deal import dealt_hands, dealt_talon
from engines.durak.model import (
    HAND_SIZE,
    Attacked,
    Beaten,
    BoutClosed,
    CardsDrawn,
    DealNull,
    Dealt,
    DurakNamed,
    Event,
    Outcome,
    Pair,
    Passed,
    Phase,
    SeatLeft,
    SeatOut,
    State,
    Taken,
    TurnExpired,
)
from engines.records import changed

T = TypeVar("T")


def evolve(state: State, event: Event) -> State:
    """The state after one event; judges nothing."""
    match event:
        case Dealt():
            return _after_deal(state, event)
        case Attacked(seat, card):
            pairs = (*state.table, Pair(seat, card, None))
            phase = Phase.TAKING if state.phase is Phase.TAKING else Phase.DEFENDING
            return _after_card(state, seat, card, pairs, phase, passed=())
        case Beaten(seat, card, attack):
            pairs = (*state.table[:-1], Pair(state.table[-1].seat, attack, card))
            return _after_card(state, seat, card, pairs, Phase.ATTACKING, state.passed)
        case Taken():
            return changed(state, turn=state.turn + 1, phase=Phase.TAKING)
        case Passed(seat, automatic):
            passed = (*state.passed, seat)
            lacking = _lacking_table(state, seat) if automatic else state.lacking
            return changed(state, turn=state.turn + 1, passed=passed, lacking=lacking)
        case BoutClosed():
            return _after_bout(state, event)
        case CardsDrawn():
            return _after_draw(state, event)
        case SeatOut(seat):
            return changed(state, out=(*state.out, seat))
        case DurakNamed(durak):
            return changed(state, turn=state.turn + 1, phase=Phase.OVER, durak=durak)
        case DealNull():
            return changed(state, turn=state.turn + 1, phase=Phase.OVER, null=True)
        case TurnExpired():
            return state
        case SeatLeft(seat):
            return changed(state, left=(*state.left, seat))
        case _:
            assert_never(event)


def _after_deal(state: State, event: Dealt) -> State:
    hands = dealt_hands(event.secret.deck, event.seats)
    told = {event.shown, event.lowest}
    return changed(
        state,
        turn=state.turn + 1,
        phase=Phase.ATTACKING,
        hands=hands,
        talon=dealt_talon(event.secret.deck, event.seats),
        trump=event.trump,
        shown=event.shown,
        attacker=event.starter,
        defender=(event.starter + 1) % event.seats,
        limit=HAND_SIZE,
        bout=1,
        known=tuple(tuple(c for c in hand if c in told) for hand in hands),
    )


def _after_bout(state: State, event: BoutClosed) -> State:
    laid = tuple(c for p in state.table for c in (p.attack, p.beaten_by) if c is not None)
    hands, known, discarded = state.hands, state.known, state.discarded
    if event.outcome is Outcome.TAKEN and state.defender is not None:
        hands = _put(hands, state.defender, laid)
        known = _put(known, state.defender, laid)
    else:
        discarded = (*discarded, *laid)
    return changed(
        state,
        turn=state.turn + 1,
        phase=Phase.ATTACKING,
        hands=hands,
        known=known,
        discarded=discarded,
        table=(),
        attacker=event.attacker,
        defender=event.defender,
        limit=event.limit,
        bout=event.bout + 1,
        passed=(),
        emptied=(),
    )


def _after_draw(state: State, event: CardsDrawn) -> State:
    drawn, talon = state.talon[: event.count], state.talon[event.count :]
    told = () if event.shown is None else (event.shown,)
    lacking = state.lacking
    if event.count > len(told):
        lacking = _set(lacking, event.seat, ())
    return changed(
        state,
        hands=_put(state.hands, event.seat, drawn),
        talon=talon,
        known=_put(state.known, event.seat, told),
        lacking=lacking,
    )


def _after_card(
    state: State,
    seat: int,
    card: Card,
    table: tuple[Pair, ...],
    phase: Phase,
    passed: tuple[int, ...],
) -> State:
    """A card has left a hand for the table."""
    hand, told = _without(state.hands[seat], card), _without(state.known[seat], card)
    return changed(
        state,
        turn=state.turn + 1,
        phase=phase,
        hands=_set(state.hands, seat, hand),
        table=table,
        passed=passed,
        emptied=state.emptied if hand else (*state.emptied, seat),
        known=_set(state.known, seat, told),
    )


def _lacking_table(state: State, seat: int) -> tuple[tuple[int, ...], ...]:
    """An automatic pass tells that none of the seat's cards has a rank of the table (DURAK-26)."""
    ranks = ranks_on_table(state).union(state.lacking[seat])
    return _set(state.lacking, seat, tuple(sorted(ranks)))


def _without(cards: tuple[Card, ...], card: Card) -> tuple[Card, ...]:
    return tuple([c for c in cards if c != card])


def _put(
    by_seat: tuple[tuple[Card, ...], ...], seat: int, cards: tuple[Card, ...]
) -> tuple[tuple[Card, ...], ...]:
    return _set(by_seat, seat, (*by_seat[seat], *cards))


def _set(
    by_seat: tuple[tuple[T, ...], ...], seat: int, item: tuple[T, ...]
) -> tuple[tuple[T, ...], ...]:
    return (*by_seat[:seat], item, *by_seat[seat + 1 :])
