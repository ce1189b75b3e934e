"""Azi's events: what happened, as it is stored. The names are the storage format.

Only `Dealt.secret` and `CardDropped.secret` hold cards that nobody may know yet.
"""

from dataclasses import dataclass

from engines.azi.model import Payout, ServerMove
from engines.cards import Card


@dataclass(frozen=True, slots=True)
class FeePaid:
    """A seat paid the entry fee, or what it had of it, into the bank."""

    seat: int
    chips: int


@dataclass(frozen=True, slots=True)
class BecameShort:
    """A live seat without chips is short from now on and will not be asked for chips (AZI-24)."""

    seat: int


@dataclass(frozen=True, slots=True)
class OpenerDrawn:
    """No seat has won at this table yet: this one, drawn at random, is the deal's opener."""

    deal: int
    seat: int


@dataclass(frozen=True, slots=True)
class DealtSecret:
    """The whole pack in dealing order."""

    deck: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Dealt:
    """The next deal: `cards` to each of `seats` in this order, then one card turned up.

    `blind`: the hands are withheld until looked at.
    """

    deal: int
    seats: tuple[int, ...]
    cards: int
    turned: Card
    blind: bool
    secret: DealtSecret


@dataclass(frozen=True, slots=True)
class CardDroppedSecret:
    """The card that was dropped."""

    card: Card


@dataclass(frozen=True, slots=True)
class CardDropped:
    """A seat dropped one of its four cards; `unseen`: its last-dealt one, being blind."""

    seat: int
    unseen: bool
    secret: CardDroppedSecret


@dataclass(frozen=True, slots=True)
class BiddingOpened:
    """The bidding begins; `opener` is the first seat with the duty to open."""

    opener: int


@dataclass(frozen=True, slots=True)
class BlindLookedAt:
    """A blind seat looked at its hand; its chips count single from now on."""

    seat: int


@dataclass(frozen=True, slots=True)
class BidMade:
    """A seat set a new highest bid `level`, putting `chips` in."""

    seat: int
    level: int
    chips: int


@dataclass(frozen=True, slots=True)
class Levelled:
    """A seat came up to the highest bid `level`, putting `chips` in."""

    seat: int
    level: int
    chips: int


@dataclass(frozen=True, slots=True)
class WentAllIn:
    """A short seat put all its `chips` in and is credited with `level`."""

    seat: int
    level: int
    chips: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A seat gave up its cards."""

    seat: int


@dataclass(frozen=True, slots=True)
class BiddingClosed:
    """The bidding is over, every live seat sees its hand, and `leader` leads the first trick."""

    leader: int


@dataclass(frozen=True, slots=True)
class CardPlayed:
    """A seat played a card to the trick."""

    seat: int
    card: Card


@dataclass(frozen=True, slots=True)
class TrickTaken:
    """The trick went to `seat`; `leader` leads the next (another seat if the taker left)."""

    seat: int
    leader: int


@dataclass(frozen=True, slots=True)
class AziDeclared:
    """Deal `deal` ended without a winner and `bank` is carried on.

    `asked` are the folded seats that may buy back in for `price` chips each, in the order in which
    they are asked; none and 0 when nobody is.
    """

    deal: int
    bank: int
    price: int
    asked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoughtBack:
    """A folded seat came back in and put `chips` into the bank."""

    seat: int
    chips: int


@dataclass(frozen=True, slots=True)
class Declined:
    """A folded seat did not buy back."""

    seat: int


@dataclass(frozen=True, slots=True)
class BankPaid:
    """The game is over: the bank is paid and each seat's stack is final.

    `short`: the winner was short and got only its part. `stacks` holds every seat's chips.
    """

    winner: int
    short: bool
    payouts: tuple[Payout, ...]
    stacks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnExpired:
    """A seat's time was up: the server makes this move, which follows."""

    seat: int
    move: ServerMove


@dataclass(frozen=True, slots=True)
class SeatLeft:
    """A seat left the game for good; what it put in stays in the bank."""

    seat: int


Event = (
    FeePaid
    | BecameShort
    | OpenerDrawn
    | Dealt
    | CardDropped
    | BiddingOpened
    | BlindLookedAt
    | BidMade
    | Levelled
    | WentAllIn
    | Folded
    | BiddingClosed
    | CardPlayed
    | TrickTaken
    | AziDeclared
    | BoughtBack
    | Declined
    | BankPaid
    | TurnExpired
    | SeatLeft
)


def dealt_hands(event: Dealt) -> dict[int, tuple[Card, ...]]:
    """Each dealt-in seat's hand in dealt order: the deck in blocks, in the order of the seats."""
    deck, size = event.secret.deck, event.cards
    return {seat: deck[i * size : (i + 1) * size] for i, seat in enumerate(event.seats)}
