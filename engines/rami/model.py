"""Rami's data: options, state, moves and events.

Seats are 0-based and numbered clockwise, rounds count from 1, points and totals are plain
integers, and no move is worth chips. Event names and fields are the storage format.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from engines.api import option
from engines.cards import Card
from engines.rami.melds import MeldKind

TARGET_MAX = 10_000
"""The highest `target` (RAMI-34)."""
GUARD_TURNS = 200
"""Turns in a row without a stock draw that end the round (RAMI-22)."""
CARDS_FOR_TWO = 7
CARDS_FOR_MORE = 10


@dataclass(frozen=True, slots=True)
class Options:
    """How this table plays (RAMI-34, RAMI-35)."""

    ace_high: bool = option(False, "An ace left in a hand counts 11 points instead of 1.")
    discard_to_win: bool = option(False, "The last card must leave the hand as a discard.")
    forbid_same_discard: bool = option(
        True,
        "A card taken from the discard pile may not be discarded in the same turn, unless it is "
        "the only card left.",
    )
    target: int = option(100, "The total that wins the match.", low=1, high=TARGET_MAX)
    reveal: str = option(
        "full",
        "What is laid open at the end: all cards, or to each player his own and those played.",
        choices=("full", "own"),
    )


class Phase(IntEnum):
    """Where the match stands; a match at rest is PLAYING or OVER once it has begun."""

    DEALING = 1
    """No hands: before the start, and between a scored round and the next deal."""
    PLAYING = 2
    OVER = 3


class Source(IntEnum):
    """Where a card was drawn from."""

    STOCK = 1
    DISCARD = 2


class Ending(IntEnum):
    """Why a round ended."""

    WENT_OUT = 1
    """A seat has no card left (RAMI-18)."""
    EXHAUSTED = 2
    """A seat asked for a card from the empty stock (RAMI-20)."""
    GUARD = 3
    """Too many turns passed without a stock draw (RAMI-22)."""


@dataclass(frozen=True, slots=True)
class TableMeld:
    """A combination on the table: its name, the seat that laid it, its cards ascending."""

    id: str
    owner: int
    kind: MeldKind
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class State:
    """Everything about a match at one moment; the fold of its events."""

    options: Options
    seats: int
    phase: Phase = Phase.DEALING
    round: int = 0
    """The current round, from 1; 0 before the first deal."""
    turn: int = 0
    """The number of the current decision (RAMI-30)."""
    dealer: int = 0
    actor: int = 0
    """The seat whose turn it is while PLAYING."""
    hands: tuple[tuple[Card, ...], ...] = ()
    """Each seat's cards, in dealt and drawn order."""
    stock: tuple[Card, ...] = ()
    """Top first."""
    discard: tuple[Card, ...] = ()
    """Bottom first; the last card is the visible one."""
    melds: tuple[TableMeld, ...] = ()
    drawn: Source | None = None
    """Where the seat to act has drawn from in this turn."""
    drawn_card: Card | None = None
    """The card drawn in this turn."""
    known: tuple[tuple[Card, ...], ...] = ()
    """Each seat's cards that everybody has seen it take from the discard pile and that it holds."""
    idle: int = 0
    """Finished turns in a row without a stock draw (RAMI-22)."""
    scores: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    """Seats whose player has left, ascending; a bot acts for them."""
    winner: int | None = None
    """The winner of the match once it is OVER."""


@dataclass(frozen=True, slots=True)
class DrawStock:
    """Take the top card of the stock; ends the round when the stock is empty."""


@dataclass(frozen=True, slots=True)
class DrawDiscard:
    """Take the visible card of the discard pile."""


@dataclass(frozen=True, slots=True)
class Meld:
    """Lay a new run or group from the hand, its cards in any order."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class LayOff:
    """Add cards from the hand to the meld of that name; an empty name is refused."""

    cards: tuple[Card, ...]
    meld: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Put a card on the discard pile and end the turn."""

    card: Card


Move = DrawStock | DrawDiscard | Meld | LayOff | Discard


@dataclass(frozen=True, slots=True)
class DealtSecret:
    """What nobody may know of a deal: the whole pack in dealing order."""

    deck: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Dealt:
    """A round has begun; hands, upcard and stock come from the deck (RAMI-4)."""

    round: int
    seats: int
    dealer: int
    starter: int
    upcard: Card
    secret: DealtSecret = field(repr=False)


@dataclass(frozen=True, slots=True)
class CardDrawn:
    """The seat took the top card of the stock (then `card` is None) or the visible discard."""

    seat: int
    source: Source
    card: Card | None


@dataclass(frozen=True, slots=True)
class MeldLaid:
    """The seat laid a new meld; cards ascending."""

    seat: int
    meld: str
    kind: MeldKind
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class LaidOff:
    """The seat added cards, ascending, to a meld on the table."""

    seat: int
    meld: str
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Discarded:
    """The seat put a card on the discard pile; its turn is over."""

    seat: int
    card: Card


@dataclass(frozen=True, slots=True)
class RoundScored:
    """The round is over; `points`, `gains` and `totals` have one number for each seat.

    `seat` is whose action ended the round: who went out, who asked the empty stock, or who
    finished the turn at which the guard stopped the round.
    """

    round: int
    seat: int
    ending: Ending
    winner: int
    points: tuple[int, ...]
    gains: tuple[int, ...]
    totals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MatchWon:
    """The match is over: the round's winner has reached the target."""

    winner: int
    totals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnExpired:
    """The seat's time was up; the events that follow are the server's moves for it (RAMI-27).

    `draws`: the server draws from the stock first; `discards`: then it discards, unless the
    stock was empty. Which cards these are, the events that follow say.
    """

    seat: int
    draws: bool
    discards: bool


@dataclass(frozen=True, slots=True)
class SeatLeft:
    """The seat's player has left for good; a bot acts for the seat from now on (RAMI-28)."""

    seat: int


Event = (
    Dealt
    | CardDrawn
    | MeldLaid
    | LaidOff
    | Discarded
    | RoundScored
    | MatchWon
    | TurnExpired
    | SeatLeft
)
