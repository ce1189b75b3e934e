"""What a seat, or the public, may see: built from what is allowed, never by leaving out.

Players, spectators and bots get these types and nothing else (DURAK-26, DURAK-30).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from engines.cards import Card, Suit
from engines.durak.deal import dealt_hands
from engines.durak.model import (
    Attacked,
    Beaten,
    BoutClosed,
    CardsDrawn,
    DealNull,
    Dealt,
    DurakNamed,
    Event,
    Move,
    Options,
    Pair,
    Passed,
    Phase,
    SeatLeft,
    SeatOut,
    State,
    Taken,
    TurnExpired,
)
from engines.durak.rules import legal, to_act
from engines.records import changed, maker


@dataclass(frozen=True, slots=True)
class Hand:
    """Cards that everyone knows to be in a seat's hand."""

    seat: int
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Lack:
    """Ranks that none of a seat's cards has, those in `View.known` aside."""

    seat: int
    ranks: tuple[int, ...]
    """Ranks as in `engines.cards`: 4 (six) … 12 (ace), ascending."""


@dataclass(frozen=True, slots=True)
class View:
    """A position as one seat, or the public, may see it."""

    seat: int | None
    """The viewer; None for the public."""
    options: Options
    turn: int
    deal: int
    bout: int
    """The number of this bout, from 1; 0 before the deal."""
    phase: Phase
    to_act: tuple[int, ...]
    legal: tuple[Move, ...]
    """The viewer's legal moves."""
    hand: tuple[Card, ...]
    """The viewer's cards, ascending."""
    counts: tuple[int, ...]
    """The number of cards in each seat's hand."""
    attacker: int | None
    """The main attacker."""
    defender: int | None
    table: tuple[Pair, ...]
    passed: tuple[int, ...]
    """Seats that passed since the last attack card, in order."""
    limit_left: int
    """How many attack cards may still be laid in this bout."""
    talon: int
    """The number of cards in the talon, the shown trump card included."""
    trump: Suit | None
    shown: Card | None
    """The card that set the trump suit, wherever it is now."""
    discarded: tuple[Card, ...]
    """The discard pile, oldest first."""
    known: tuple[Hand, ...]
    """Cards publicly known to be in a hand, by seat; seats without any are left out."""
    lacking: tuple[Lack, ...]
    """What automatic passes tell, by seat; seats without any are left out."""
    out: tuple[int, ...]
    """Seats that have finished, in order."""
    left: tuple[int, ...]
    """Seats whose player has left and that a bot keeps, in order."""
    durak: int | None
    null: bool
    """The deal is over without a durak."""


@dataclass(frozen=True, slots=True)
class HandsDealt:
    """The deal, with the viewer's own cards only."""

    deal: int
    seats: int
    starter: int
    """The seat that attacks first."""
    lowest: Card | None
    """The starter's lowest trump; None if nobody holds a trump and the starter was drawn."""
    trump: Suit
    shown: Card
    """The card that set the trump suit."""
    hand: tuple[Card, ...]
    """The viewer's cards, ascending; none for the public."""


Happening = (
    HandsDealt
    | Attacked
    | Beaten
    | Taken
    | Passed
    | BoutClosed
    | CardsDrawn
    | SeatOut
    | DurakNamed
    | DealNull
    | TurnExpired
    | SeatLeft
)


_view = maker(View)


def view(state: State, viewer: int | None, public: View | None = None) -> View:
    """The position for a seat, or for the public (DURAK-26); `public` is the latter, if known."""
    shown = _public(state) if public is None else public
    if viewer is None:
        return shown
    hand = tuple(sorted(state.hands[viewer]))
    return changed(shown, seat=viewer, legal=legal(state, viewer), hand=hand)


def _public(state: State) -> View:
    return _view(
        seat=None,
        options=state.options,
        turn=state.turn,
        deal=state.deal,
        bout=state.bout,
        phase=state.phase,
        to_act=to_act(state),
        legal=(),
        hand=(),
        counts=tuple(len(hand) for hand in state.hands),
        attacker=state.attacker,
        defender=state.defender,
        table=state.table,
        passed=state.passed,
        limit_left=state.limit - len(state.table),
        talon=len(state.talon),
        trump=state.trump,
        shown=state.shown,
        discarded=state.discarded,
        known=tuple(Hand(s, cards) for s, cards in enumerate(state.known) if cards),
        lacking=tuple(Lack(s, ranks) for s, ranks in enumerate(state.lacking) if ranks),
        out=state.out,
        left=state.left,
        durak=state.durak,
        null=state.null,
    )


def show(event: Event, viewer: int | None) -> Happening:
    """The event as a seat, or the public, may see it; every event of durak shows something."""
    match event:
        case Dealt(deal, seats, starter, lowest, trump, shown, secret):
            hands = dealt_hands(secret.deck, seats)
            hand = () if viewer is None else tuple(sorted(hands[viewer]))
            return HandsDealt(deal, seats, starter, lowest, trump, shown, hand)
        case (
            Attacked()
            | Beaten()
            | Taken()
            | Passed()
            | BoutClosed()
            | CardsDrawn()
            | SeatOut()
            | DurakNamed()
            | DealNull()
            | TurnExpired()
            | SeatLeft()
        ):
            return event
        case _:
            assert_never(event)


def history(events: Sequence[Event], viewer: int | None) -> tuple[Happening, ...]:
    """All that a seat, or the public, has been shown of a game (DURAK-26)."""
    return tuple(show(event, viewer) for event in events)
