"""Azi's options, state and moves.

Chips are integers below 2**63, seats are numbered from 0 clockwise, cards are `engines.cards`
numbers. Levels are what a seat has bid to in this deal; for a seat betting blind they are twice
its chips (AZI-42). The rules are numbered in RULES.md.
"""

from dataclasses import dataclass
from enum import IntEnum

from engines.api import CHIPS_MAX, InvalidOption, option
from engines.cards import Card, pack

PACK = pack("SHD", "6")
"""The 27 cards of the game (AZI-1)."""
SEATS = range(2, 7)
BIDS_MAX = 3
TRICKS_TO_WIN = 2
TRICKS_IN_A_DEAL = 3


@dataclass(frozen=True, slots=True)
class Options:
    """What a table may choose (AZI-55, AZI-56).

    Raises InvalidOption where the stakes are beyond what chips can count.
    """

    entry_fee: int = option(
        1, "Chips each dealt-in seat pays into the bank before a deal.", low=1, high=CHIPS_MAX
    )
    deal_size: int = option(
        3, "Cards dealt to a seat; of four, one is dropped unseen by the others.", choices=(3, 4)
    )
    min_bet: int = option(
        0, "The least opening bid in chips; 0 means the entry fee.", low=0, high=CHIPS_MAX
    )
    azi_entry: str = option(
        "survivors",
        "Who plays on after an azi: the seats still in, or also folded ones for half the bank.",
        choices=("survivors", "half_bank"),
    )
    azi_entry_fee: bool = option(True, "Whether the entry fee is charged again after an azi.")
    blind_bets: bool = option(False, "Whether hands stay closed until looked at, chips doubling.")
    reveal: str = option(
        "full",
        "What is laid open at the end: all cards, or to each player his own and those played.",
        choices=("full", "own"),
    )

    def __post_init__(self) -> None:
        if self.min_bet == 0:
            object.__setattr__(self, "min_bet", self.entry_fee)
        if self.entry_fee < 1:
            raise InvalidOption("entry_fee", "must be at least 1")


class Phase(IntEnum):
    """What is being decided."""

    WAITING = 1
    """Not begun."""
    DROPPING = 2
    """Every seat of a four-card deal drops a card, in any order."""
    BIDDING = 3
    """One seat at a time bids, levels, folds or goes all in."""
    TRICKS = 4
    """One seat at a time plays a card."""
    BUYING_BACK = 5
    """After an azi folded seats are asked, one at a time, whether they buy back in."""
    OVER = 6
    """The bank is paid."""


class Standing(IntEnum):
    """How a seat takes part."""

    ABSENT = 1
    """Not in this game: it could not pay the fee."""
    LIVE = 2
    """In the deal, able to win."""
    FOLDED = 3
    """Gave up its cards."""
    LEFT = 4
    """Left the game for good."""


class PayoutKind(IntEnum):
    """Why chips come out of the bank."""

    WINNER = 1
    RETURNED = 2


class ServerMove(IntEnum):
    """What the server did for a seat whose time was up (AZI-46)."""

    DROP_LAST = 1
    FOLD = 2
    DECLINE = 3
    PLAY_LOWEST = 4


@dataclass(frozen=True, slots=True)
class Play:
    """A card on the table and who played it."""

    seat: int
    card: Card


@dataclass(frozen=True, slots=True)
class Trick:
    """A finished trick: its plays in order and who took it."""

    plays: tuple[Play, ...]
    winner: int


@dataclass(frozen=True, slots=True)
class Payout:
    """Chips paid out of the bank to a seat."""

    seat: int
    chips: int
    kind: PayoutKind


@dataclass(frozen=True, slots=True)
class Player:
    """A seat's chips and cards.

    `level` and `bids` count for this deal; `contributed` (chips), `weight` (fees and credited
    levels), `bought_back` (chips) and `short` for the whole game. `hand` is in dealt order.
    """

    stack: int
    standing: Standing
    short: bool = False
    blind: bool = False
    level: int = 0
    bids: int = 0
    contributed: int = 0
    weight: int = 0
    bought_back: int = 0
    tricks: int = 0
    hand: tuple[Card, ...] = ()
    dropped: Card | None = None
    dropped_unseen: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """A whole game of Azi, hidden cards included: one bank from its first deal until it is paid.

    `turn` numbers the decision being asked, `deal` counts from 1 (0 before the first), `azis`
    counts the deals that ended in azi. `origin` is the seat from which the opener is looked for,
    `cursor` the seat from which the next to be asked is. `high` is the highest bid (0: none), and
    `high_seat` made it. `leader` leads the current trick. `asked` are the folded seats still to be
    asked whether they buy back, in order, for `price` each. `stock` are the undealt cards.
    """

    options: Options
    players: tuple[Player, ...]
    last_winner: int | None
    origin: int
    phase: Phase = Phase.WAITING
    turn: int = 0
    deal: int = 0
    azis: int = 0
    bank: int = 0
    turned: Card | None = None
    stock: tuple[Card, ...] = ()
    cursor: int = 0
    high: int = 0
    high_seat: int | None = None
    leader: int | None = None
    trick: tuple[Play, ...] = ()
    tricks: tuple[Trick, ...] = ()
    asked: tuple[int, ...] = ()
    price: int = 0
    winner: int | None = None
    payouts: tuple[Payout, ...] = ()


@dataclass(frozen=True, slots=True)
class Bid:
    """Bid to `amount`: open, or raise the highest bid."""

    amount: int


@dataclass(frozen=True, slots=True)
class Level:
    """Come up to the highest bid."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Give up the cards."""


@dataclass(frozen=True, slots=True)
class AllIn:
    """Put in everything, being too short to level or to open."""


@dataclass(frozen=True, slots=True)
class Look:
    """Stop betting blind and see the own hand."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop this card of four."""

    card: Card


@dataclass(frozen=True, slots=True)
class DropLast:
    """Drop the last-dealt card unseen, being blind."""


@dataclass(frozen=True, slots=True)
class BuyBack:
    """Come back in after an azi for half the bank."""


@dataclass(frozen=True, slots=True)
class Decline:
    """Do not buy back."""


@dataclass(frozen=True, slots=True)
class PlayCard:
    """Play this card to the trick."""

    card: Card


Move = Bid | Level | Fold | AllIn | Look | Drop | DropLast | BuyBack | Decline | PlayCard
