"""Durak's nouns: options, positions, moves and the events a game is stored as."""

from dataclasses import dataclass
from enum import IntEnum

from engines.api import option
from engines.cards import Card, Suit, pack

PACK = pack("SHDC", "6")
"""The 36 cards from the sixes to the aces, ascending (DURAK-1)."""

HAND_SIZE = 6
"""Cards dealt to a seat, and drawn up to after a bout (DURAK-3, DURAK-18)."""

BOUTS_MAX = 500
"""A deal that is not over after so many bouts is null (DURAK-24)."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a table may choose (DURAK-14, DURAK-15, DURAK-31)."""

    throw_in_after_take: bool = option(
        True, "After the defender takes, the attackers may still add cards, within the limit."
    )
    auto_pass: bool = option(True, "A seat that holds no card it could add is passed by itself.")
    reveal: str = option(
        "full",
        "What is laid open at the end: all cards, or to each player his own and those played.",
        choices=("full", "own"),
    )


class Phase(IntEnum):
    """What the game is waiting for."""

    UNDEALT = 1
    """The deal."""
    ATTACKING = 2
    """An attacker, to open the bout, or to add or pass with every card beaten."""
    DEFENDING = 3
    """The defender, to beat the one open card or take."""
    TAKING = 4
    """An attacker, to add or pass after the defender has taken."""
    OVER = 5
    """Nothing more."""


class Outcome(IntEnum):
    """How a bout ended."""

    BEATEN = 1
    """All cards were beaten and are discarded (DURAK-16)."""
    TAKEN = 2
    """The cards went into the defender's hand (DURAK-17)."""


class NullReason(IntEnum):
    """Why a deal has no durak."""

    NOBODY_LEFT = 1
    """After a bout nobody held a card (DURAK-23)."""
    TOO_MANY_BOUTS = 2
    """The deal was not over after 500 bouts (DURAK-24)."""


class MoveKind(IntEnum):
    """What the server did for a seat whose time was up (DURAK-27)."""

    ATTACK = 1
    """It opened the bout with the seat's lowest card."""
    TAKE = 2
    """It took the cards."""
    PASS = 3
    """It passed."""


# Moves


@dataclass(frozen=True, slots=True)
class Attack:
    """Open the bout with a card, or add it (DURAK-8, DURAK-11)."""

    card: Card


@dataclass(frozen=True, slots=True)
class Beat:
    """Beat the open card (DURAK-9)."""

    card: Card


@dataclass(frozen=True, slots=True)
class Take:
    """Take the cards instead of beating (DURAK-10)."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Add nothing (DURAK-13)."""


Move = Attack | Beat | Take | Pass


# Events


@dataclass(frozen=True, slots=True)
class DealtSecret:
    """What nobody may know before the deal is over."""

    deck: tuple[Card, ...]
    """All 36 cards in dealing order."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """The cards are dealt and the first attacker is found (DURAK-3 to DURAK-6)."""

    deal: int
    """The number of the deal, 1."""
    seats: int
    """How many seats play, 2 … 6."""
    starter: int
    """The seat that attacks first."""
    lowest: Card | None
    """The starter's lowest trump; None if no hand holds a trump and the starter was drawn."""
    trump: Suit
    """The trump suit."""
    shown: Card
    """The card that set the trump suit: the talon's last, with six seats the last card dealt."""
    secret: DealtSecret


@dataclass(frozen=True, slots=True)
class Attacked:
    """A seat laid an attack card (DURAK-8, DURAK-11)."""

    seat: int
    card: Card


@dataclass(frozen=True, slots=True)
class Beaten:
    """The defender beat the open card (DURAK-9)."""

    seat: int
    card: Card
    attack: Card
    """The attack card that is beaten."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The defender takes; the cards stay on the table until the bout is closed (DURAK-10)."""

    seat: int


@dataclass(frozen=True, slots=True)
class Passed:
    """A seat adds nothing (DURAK-13)."""

    seat: int
    automatic: bool
    """The rules passed it: it holds no card of the ranks on the table (DURAK-14)."""


@dataclass(frozen=True, slots=True)
class BoutClosed:
    """A bout ended; what follows up to the next decision is told by its own events."""

    bout: int
    """The number of the bout that ended, from 1."""
    outcome: Outcome
    attacker: int | None
    """Who attacks next; None if the deal ends here (DURAK-16, DURAK-17, DURAK-21)."""
    defender: int | None
    """Who defends next."""
    limit: int
    """How many attack cards the next bout may hold; 0 if there is none (DURAK-12)."""


@dataclass(frozen=True, slots=True)
class CardsDrawn:
    """A seat took the top cards of the talon (DURAK-18)."""

    seat: int
    count: int
    shown: Card | None
    """The shown trump card, if it was among them (DURAK-19)."""


@dataclass(frozen=True, slots=True)
class SeatOut:
    """A seat has no cards and the talon is empty: it has finished (DURAK-20)."""

    seat: int
    place: int
    """Its place, from 1."""


@dataclass(frozen=True, slots=True)
class DurakNamed:
    """The deal is over: one seat still holds cards (DURAK-22)."""

    durak: int
    places: tuple[int, ...]
    """All seats, from the first out to the durak."""


@dataclass(frozen=True, slots=True)
class DealNull:
    """The deal is over without a durak (DURAK-23, DURAK-24)."""

    reason: NullReason
    places: tuple[int, ...]
    """The seats that are out, in order."""


@dataclass(frozen=True, slots=True)
class TurnExpired:
    """A seat's time was up; the move that follows is the server's (DURAK-27)."""

    seat: int
    move: MoveKind


@dataclass(frozen=True, slots=True)
class SeatLeft:
    """A player left for good; a bot keeps the seat (DURAK-28)."""

    seat: int


Event = (
    Dealt
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


# Position


@dataclass(frozen=True, slots=True)
class Pair:
    """An attack card on the table and what beat it."""

    seat: int
    """Who laid the attack card."""
    attack: Card
    beaten_by: Card | None


@dataclass(frozen=True, slots=True)
class State:
    """Everything about a game of one deal; seats are 0-based and clockwise."""

    options: Options
    seats: int
    turn: int
    """The number of the decision being asked; it grows with every new one."""
    deal: int
    """The number of the deal, 1."""
    phase: Phase
    hands: tuple[tuple[Card, ...], ...]
    """Each seat's cards, in the order they came."""
    talon: tuple[Card, ...]
    """Top first; the shown trump card is the last."""
    trump: Suit | None
    """None until dealt."""
    shown: Card | None
    """The card that set the trump suit, wherever it is now."""
    discarded: tuple[Card, ...]
    """Beaten cards, oldest first."""
    table: tuple[Pair, ...]
    attacker: int | None
    """The main attacker of this bout; None until dealt and when over."""
    defender: int | None
    limit: int
    """How many attack cards this bout may hold in all (DURAK-12)."""
    bout: int
    """The number of this bout, from 1."""
    passed: tuple[int, ...]
    """Seats that passed since the last attack card, in order."""
    emptied: tuple[int, ...]
    """Seats whose hand became empty in this bout, in order (DURAK-20)."""
    known: tuple[tuple[Card, ...], ...]
    """By seat, cards that everyone knows to be in its hand (DURAK-26)."""
    lacking: tuple[tuple[int, ...], ...]
    """By seat, ranks that everyone knows none of its other cards to have (DURAK-14)."""
    out: tuple[int, ...]
    """Seats that have finished, in order."""
    left: tuple[int, ...]
    """Seats whose player has left, in order."""
    durak: int | None
    null: bool
    """The deal is over without a durak."""

    @property
    def playing(self) -> tuple[int, ...]:
        """The seats that are not out, ascending."""
        return tuple(s for s in range(self.seats) if s not in self.out)
