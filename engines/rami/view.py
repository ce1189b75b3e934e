"""What a seat or the public may see: an allow-list, built field by field (RAMI-26)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from engines.cards import Card
from engines.rami.melds import hand_points
from engines.rami.model import (
    CardDrawn,
    Dealt,
    Discarded,
    Event,
    LaidOff,
    MatchWon,
    MeldLaid,
    Move,
    Options,
    Phase,
    RoundScored,
    SeatLeft,
    Source,
    State,
    TableMeld,
    TurnExpired,
)
from engines.rami.rules import SEATS, legal, to_act
from engines.rami.table import dealt_hands
from engines.records import changed, maker


@dataclass(frozen=True, slots=True)
class KnownCards:
    """Cards a seat took from the discard pile in front of everybody and still holds, ascending."""

    seat: int
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A match as one seat, or the public, may see it.

    Tuples of numbers have one entry for each seat. Before the first deal and after the last round
    nothing is to be played and `to_act` and `legal` are empty.
    """

    seat: int | None
    """The viewer; None for the public."""
    options: Options
    phase: Phase
    round: int
    turn: int
    dealer: int
    to_act: tuple[int, ...]
    hand: tuple[Card, ...]
    """The viewer's own cards, ascending; empty for the public."""
    hand_points: int
    """What the viewer's own hand would cost now."""
    counts: tuple[int, ...]
    melds: tuple[TableMeld, ...]
    discard: tuple[Card, ...]
    """Bottom first; the last card is the visible one."""
    stock: int
    """How many cards are left to draw."""
    known: tuple[KnownCards, ...]
    """Seats with such cards only, ascending."""
    drawn: Source | None
    """Where the seat to act has drawn from in this turn."""
    taken: Card | None
    """The card it took from the discard pile in this turn."""
    drew: Card | None
    """The card the viewer, and only the viewer, drew from the stock in this turn."""
    idle: int
    """Finished turns in a row without a stock draw; at 200 the round ends (RAMI-22)."""
    scores: tuple[int, ...]
    left: tuple[int, ...]
    """Seats whose player has left, ascending; a bot acts for them."""
    winner: int | None
    """The winner of the match once it is over."""
    legal: tuple[Move, ...]
    """Every move the viewer may make now (RAMI-31)."""


@dataclass(frozen=True, slots=True)
class RoundDealt:
    """A round has begun, with the viewer's own hand, ascending; empty for the public."""

    round: int
    seats: int
    dealer: int
    starter: int
    upcard: Card
    hand: tuple[Card, ...]


Happening = (
    RoundDealt
    | CardDrawn
    | MeldLaid
    | LaidOff
    | Discarded
    | RoundScored
    | MatchWon
    | TurnExpired
    | SeatLeft
)


_view = maker(View)


def view(state: State, viewer: int | None, public: View | None = None) -> View:
    """The match as the viewer may see it, made from what the public sees, if that is known.

    Raises ValueError for a viewer who is no seat.
    """
    _check_viewer(viewer, state.seats)
    shown = _public(state) if public is None else public
    if viewer is None:
        return shown
    hand = tuple(sorted(state.hands[viewer]))
    drew = state.drawn is Source.STOCK and viewer == state.actor
    return changed(
        shown,
        seat=viewer,
        hand=hand,
        hand_points=hand_points(hand, state.options.ace_high),
        drew=state.drawn_card if drew else None,
        legal=legal(state, viewer),
    )


def _public(state: State) -> View:
    return _view(
        seat=None,
        options=state.options,
        phase=state.phase,
        round=state.round,
        turn=state.turn,
        dealer=state.dealer,
        to_act=to_act(state),
        hand=(),
        hand_points=0,
        counts=tuple(len(cards) for cards in state.hands),
        melds=state.melds,
        discard=state.discard,
        stock=len(state.stock),
        known=tuple(
            KnownCards(seat, tuple(sorted(cards)))
            for seat, cards in enumerate(state.known)
            if cards
        ),
        drawn=state.drawn,
        taken=state.drawn_card if state.drawn is Source.DISCARD else None,
        drew=None,
        idle=state.idle,
        scores=state.scores,
        left=state.left,
        winner=state.winner,
        legal=(),
    )


def show(event: Event, viewer: int | None) -> Happening:
    """The event as the viewer may see it: public as it is, a deal with the viewer's hand only.

    Raises ValueError for a viewer who is no seat.
    """
    match event:
        case Dealt(number, seats, dealer, starter, upcard, secret):
            _check_viewer(viewer, seats)
            hand = () if viewer is None else dealt_hands(secret.deck, seats, starter)[viewer]
            return RoundDealt(number, seats, dealer, starter, upcard, tuple(sorted(hand)))
        case (
            CardDrawn()
            | MeldLaid()
            | LaidOff()
            | Discarded()
            | RoundScored()
            | MatchWon()
            | TurnExpired()
            | SeatLeft()
        ):
            _check_viewer(viewer, SEATS[-1])
            return event
        case _:
            assert_never(event)


def history(events: Iterable[Event], viewer: int | None) -> tuple[Happening, ...]:
    """Everything that has happened, in order, as the viewer may see it."""
    return tuple(show(event, viewer) for event in events)


def _check_viewer(viewer: int | None, seats: int) -> None:
    if viewer is not None and viewer not in range(seats):
        raise ValueError(f"no seat {viewer}")
