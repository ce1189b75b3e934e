"""The books: accounts, reservations and games as values, and double entry over them.

`post` is the one place where chips move. Chips are whole numbers within int64, times are Unix
microseconds of the database's clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from uuid import UUID

from engines.records import maker
from services.kernel.errors import Refused, invalid, not_found, precondition

ISSUER = UUID(int=1)
"""The one account that issues chips: what all others hold, it is below zero by."""
DISPUTE_RESERVE = UUID(int=2)
"""The one account that pays what a ruling takes from a player who no longer has it."""
CHIPS_MAX = 2**63 - 1


class AccountKind(IntEnum):
    """What an account is for; stored by number."""

    ISSUER = 1
    PLAYER = 2
    BOT = 3
    ESCROW = 4
    DISPUTE_RESERVE = 5


class TransferKind(IntEnum):
    """Why a transfer was made; stored by number."""

    WELCOME = 1
    GRANT = 2
    RESERVE = 3
    SETTLE = 4
    VOID = 5
    RESERVE_FUNDED = 6
    DISPUTE = 7
    CLAIM = 8
    FORFEIT = 9


class ReservationState(IntEnum):
    """What became of a reservation; stored by number."""

    PENDING = 1
    PINNED = 2
    POSTED = 3
    VOIDED = 4


class GameState(IntEnum):
    """What the wallet knows of a game; stored by number. The last two are final."""

    OPEN = 1
    PINNED = 2
    SETTLED = 3
    VOIDED = 4


@dataclass(frozen=True, slots=True)
class Account:
    """An account. `version` grows by one with each posting."""

    id: UUID
    kind: AccountKind
    balance: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Chips held for a seat of a game; `number` counts the game's reservations from 1.

    `paid_in` and `paid_out` are what the seat gave to and got from banks, known once it is posted.
    `reason` says why it was voided.
    """

    id: UUID
    game: UUID
    number: int
    account: UUID
    chips: int
    expires_at: int
    state: ReservationState = ReservationState.PENDING
    paid_in: int = 0
    paid_out: int = 0
    reason: str | None = None

    @property
    def final(self) -> int:
        """What the seat ends the game with."""
        return self.chips - self.paid_in + self.paid_out

    @property
    def is_held(self) -> bool:
        """Whether its chips are in the game's escrow."""
        return self.state in (ReservationState.PENDING, ReservationState.PINNED)


@dataclass(frozen=True, slots=True)
class Game:
    """A game as the wallet knows it. A voided one takes no reservation any more.

    `transfer` and `head` (the game log's chain hash) are set by its settlement, `reason` by a void.
    """

    id: UUID
    state: GameState = GameState.OPEN
    transfer: UUID | None = None
    head: bytes | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A game, if the wallet knows it, with its reservations by number from 1."""

    game: Game | None
    seats: tuple[Reservation, ...] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    """Chips that come to an account (positive) or leave it (negative)."""

    account: UUID
    chips: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Chips that move at once between two or more accounts; its legs sum to zero.

    The reason of a DISPUTE and of a CLAIM is the dispute's id.
    """

    id: UUID
    kind: TransferKind
    legs: tuple[Leg, ...]
    game: UUID | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Posting:
    """A leg as it stands in the books: the account's version after it, balance before and after."""

    transfer: UUID
    account: UUID
    version: int
    chips: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Books:
    """What a command needs to know.

    `accounts` are those of its accounts that exist; `reservations` are the game's by number, and
    the one that a Reserve names, should it belong to another game. `held` are the chips that games'
    escrows hold for the account of an OpenAccount, a Grant or a Forfeit. `transfer` is what the
    command before made, if anything.
    """

    now: int
    accounts: Mapping[UUID, Account]
    game: Game | None = None
    reservations: tuple[Reservation, ...] = ()
    held: int = 0
    transfer: Transfer | None = None

    def made(self) -> Transfer:
        """The transfer of a command that cannot have gone without one."""
        if self.transfer is None:
            raise ValueError("no transfer was made")
        return self.transfer


@dataclass(frozen=True, slots=True)
class Change:
    """What a command does: accounts to open, a transfer, the game and reservations as they become.

    `postings` are the transfer's, `moved` its accounts after them. Empty when everything is already
    as the command asks.
    """

    opened: tuple[Account, ...] = ()
    transfer: Transfer | None = None
    game: Game | None = None
    reservations: tuple[Reservation, ...] = ()
    postings: tuple[Posting, ...] = ()
    moved: tuple[Account, ...] = ()


_account_number = attrgetter("account.int")
_account, _posting, _books, _change = maker(Account), maker(Posting), maker(Books), maker(Change)


def post(
    accounts: Mapping[UUID, Account], transfer: Transfer
) -> tuple[tuple[Posting, ...], tuple[Account, ...]]:
    """The postings of a transfer, and the accounts it moves as they are after it.

    Raises Refused UNBALANCED, ACCOUNT_NOT_FOUND, INSUFFICIENT_CHIPS, CHIPS_OVERFLOW.
    """
    postings: list[Posting] = []
    moved: list[Account] = []
    for leg in _in_order(transfer.legs):
        before = accounts.get(leg.account)
        if before is None:
            raise unknown_account(leg.account)
        version, balance = before.version + 1, _balance(before, leg.chips)
        moved.append(_account(before.id, before.kind, balance, version))
        postings.append(
            _posting(transfer.id, before.id, version, leg.chips, before.balance, balance)
        )
    return tuple(postings), tuple(moved)


def posted(
    books: Books,
    transfer: Transfer,
    opened: tuple[Account, ...] = (),
    game: Game | None = None,
    reservations: tuple[Reservation, ...] = (),
) -> Change:
    """The change that a transfer makes; raises Refused as `post`."""
    accounts = books.accounts
    if opened:
        accounts = {**accounts, **{account.id: account for account in opened}}
    postings, moved = post(accounts, transfer)
    return _change(opened, transfer, game, reservations, postings, moved)


def check_chips(field: str, chips: int) -> None:
    """Raise Refused INVALID_FIELD unless these are chips that can be moved."""
    if not 1 <= chips <= CHIPS_MAX:
        raise invalid(field, f"must be 1 to {CHIPS_MAX}")


def evolve(books: Books, change: Change) -> Books:
    """The books after a change."""
    accounts, reservations = books.accounts, books.reservations
    if change.opened or change.moved:
        accounts = {**accounts, **{a.id: a for a in (*change.opened, *change.moved)}}
    if change.reservations:
        seats = list(reservations)
        for reservation in change.reservations:
            seats[reservation.number - 1 : reservation.number] = [reservation]
        reservations = tuple(seats)
    return _books(
        books.now,
        accounts,
        change.game or books.game,
        reservations,
        books.held,
        change.transfer,
    )


def _in_order(legs: Sequence[Leg]) -> list[Leg]:
    """Legs by their accounts, the order in which all transfers post."""
    chips = [leg.chips for leg in legs]
    if len(legs) < 2 or len({leg.account for leg in legs}) < len(legs):
        raise precondition("UNBALANCED", "a transfer has two or more legs of different accounts")
    if sum(chips) or 0 in chips:
        raise precondition("UNBALANCED", "the legs of a transfer sum to zero, and none is zero")
    return sorted(legs, key=_account_number)


def _balance(account: Account, chips: int) -> int:
    """The balance after chips came or went."""
    balance = account.balance + chips
    if balance < 0 and account.kind is not AccountKind.ISSUER:
        raise precondition(
            "INSUFFICIENT_CHIPS",
            f"the account has {account.balance} chips",
            account_id=str(account.id),
            balance=str(account.balance),
        )
    if not -CHIPS_MAX <= balance <= CHIPS_MAX:
        raise precondition("CHIPS_OVERFLOW", "no account can hold so many chips")
    return balance


def unknown_account(account: UUID) -> Refused:
    """The refusal for an account that is not there, or is nobody's."""
    refused = not_found("ACCOUNT_NOT_FOUND", "there is no player's or bot's account with this id")
    refused.facts["account_id"] = str(account)
    return refused
