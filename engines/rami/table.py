"""What lies where: how each event moves the cards and the turn.

Nothing here judges: an event that `engines.rami.rules.decide` made is simply carried out.
"""

from typing import assert_never

from engines.cards import Card
from engines.rami.model import (
    CARDS_FOR_MORE,
    CARDS_FOR_TWO,
    CardDrawn,
    Dealt,
    Discarded,
    Event,
    LaidOff,
    MatchWon,
    MeldLaid,
    Phase,
    RoundScored,
    SeatLeft,
    Source,
    State,
    TableMeld,
    TurnExpired,
)
from engines.records import changed


def evolve(state: State, event: Event) -> State:
    """The state after one event; total, judges nothing."""
    match event:
        case Dealt():
            return _dealt(state, event)
        case CardDrawn():
            return _drawn(state, event)
        case MeldLaid(seat, name, kind, cards):
            laid = TableMeld(name, seat, kind, cards)
            return _played(state, seat, cards, (*state.melds, laid))
        case LaidOff(seat, name, cards):
            return _played(state, seat, cards, _extended(state.melds, name, cards))
        case Discarded(seat, card):
            return _discarded(state, seat, card)
        case RoundScored():
            turn = state.turn + 1
            return changed(state, phase=Phase.DEALING, turn=turn, scores=event.totals)
        case MatchWon(winner, totals):
            return changed(state, phase=Phase.OVER, winner=winner, scores=totals)
        case TurnExpired():
            return state
        case SeatLeft(seat):
            return changed(state, left=tuple(sorted((*state.left, seat))))
        case _:
            assert_never(event)


def dealt_hands(deck: tuple[Card, ...], seats: int, starter: int) -> tuple[tuple[Card, ...], ...]:
    """Each seat's hand, in dealt order: one card at a time, clockwise from the starter (RAMI-4)."""
    cards = cards_dealt(seats)
    return tuple(deck[(seat - starter) % seats : cards : seats] for seat in range(seats))


def cards_dealt(seats: int) -> int:
    """How many cards of the deck go to hands; the next one is the upcard (RAMI-4)."""
    return seats * (CARDS_FOR_TWO if seats == 2 else CARDS_FOR_MORE)


def _dealt(state: State, event: Dealt) -> State:
    deck = event.secret.deck
    return changed(
        state,
        phase=Phase.PLAYING,
        round=event.round,
        turn=state.turn + 1,
        dealer=event.dealer,
        actor=event.starter,
        hands=dealt_hands(deck, state.seats, event.starter),
        stock=deck[cards_dealt(state.seats) + 1 :],
        discard=(event.upcard,),
        melds=(),
        drawn=None,
        drawn_card=None,
        known=((),) * state.seats,
        idle=0,
    )


def _drawn(state: State, event: CardDrawn) -> State:
    """Move the top of the stock, or of the discard pile, to the end of the seat's hand."""
    if event.card is None:
        card, stock, discard = state.stock[0], state.stock[1:], state.discard
        seen = state.known[event.seat]
    else:
        card, stock, discard = event.card, state.stock, state.discard[:-1]
        seen = (*state.known[event.seat], card)
    return changed(
        state,
        turn=state.turn + 1,
        hands=_at(state.hands, event.seat, (*state.hands[event.seat], card)),
        stock=stock,
        discard=discard,
        drawn=event.source,
        drawn_card=card,
        known=_at(state.known, event.seat, seen),
    )


def _played(
    state: State, seat: int, cards: tuple[Card, ...], melds: tuple[TableMeld, ...]
) -> State:
    return changed(
        state,
        turn=state.turn + 1,
        hands=_at(state.hands, seat, _without(state.hands[seat], cards)),
        known=_at(state.known, seat, _without(state.known[seat], cards)),
        melds=melds,
    )


def _discarded(state: State, seat: int, card: Card) -> State:
    """Put the card on the pile and pass the turn to the next seat clockwise (RAMI-16)."""
    return changed(
        state,
        turn=state.turn + 1,
        actor=(seat + 1) % state.seats,
        hands=_at(state.hands, seat, _without(state.hands[seat], (card,))),
        known=_at(state.known, seat, _without(state.known[seat], (card,))),
        discard=(*state.discard, card),
        drawn=None,
        drawn_card=None,
        idle=0 if state.drawn is Source.STOCK else state.idle + 1,
    )


def _extended(
    melds: tuple[TableMeld, ...], name: str, cards: tuple[Card, ...]
) -> tuple[TableMeld, ...]:
    return tuple(
        changed(meld, cards=tuple(sorted((*meld.cards, *cards)))) if meld.id == name else meld
        for meld in melds
    )


def _without(cards: tuple[Card, ...], gone: tuple[Card, ...]) -> tuple[Card, ...]:
    return tuple([c for c in cards if c not in gone]) if cards else cards


def _at(
    of: tuple[tuple[Card, ...], ...], seat: int, cards: tuple[Card, ...]
) -> tuple[tuple[Card, ...], ...]:
    """The tuple with the seat's entry replaced."""
    return (*of[:seat], cards, *of[seat + 1 :])
