"""A batch: commands carried out one after another in memory, to be written all at once.

All of it is pure. `wanted` says what a batch must know, a `Batch` is folded from what was found,
and its `Writing` is what the database is to be told. A command that is refused leaves no trace; a
request that was answered before, by the database or earlier in the batch, is answered the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from engines.records import maker
from services.kernel.errors import invalid
from services.wallet.books import (
    Account,
    Books,
    Change,
    Game,
    GameState,
    Posting,
    Reservation,
    Table,
    Transfer,
    evolve,
)
from services.wallet.compensation import Forfeit
from services.wallet.domain import (
    Command,
    Expire,
    Grant,
    OpenAccount,
    Reserve,
    accounts_of,
    decide,
    game_of,
    has_expired,
)
from services.wallet.steps import GameSteps, SeatSteps

SELF = "service:wallet"
"""Who gives expired reservations back."""

NOTHING = Change()
"""What a command does that finds its work done."""
NO_TABLE = Table(None)
"""What is known of a game that is not."""

Respond = Callable[[Books], bytes]
"""Makes the octets of a response from the books after a command."""


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request: who (`role:subject`), the id the caller gave it, SHA-256 of its body."""

    subject: str
    id: str
    body_hash: bytes

    @property
    def key(self) -> tuple[str, str]:
        """What names it: ids are each caller's own."""
        return self.subject, self.id


@dataclass(frozen=True, slots=True)
class Asked:
    """A command with the request for it (None: the wallet itself) and how to answer."""

    command: Command
    request: Request | None
    respond: Respond


@dataclass(frozen=True, slots=True)
class Answer:
    """The octets a request was answered with, and the hash of its body."""

    body_hash: bytes
    response: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a batch must know: accounts, games with their reservations and those who have chips in
    them, reservations by id, the chips held for `holders`, answers by subject and request id.

    `begun` are the games that must be there already for a command to be of use.
    """

    accounts: frozenset[UUID] = frozenset()
    games: frozenset[UUID] = frozenset()
    begun: frozenset[UUID] = frozenset()
    reservations: Sequence[UUID] = ()
    holders: frozenset[UUID] = frozenset()
    requests: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What is there of what was wanted, at one moment; `named` are the reservations wanted by their
    ids, of whatever game.

    What `is_remembered` was not read: it may have changed, and there may be answers.
    """

    now: int
    accounts: Mapping[UUID, Account]
    tables: Mapping[UUID, Table]
    named: Mapping[UUID, Reservation]
    held: Mapping[UUID, int]
    answers: Mapping[tuple[str, str], Answer]
    is_remembered: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A transfer with who asked for it and by which request (None: the wallet itself)."""

    transfer: Transfer
    subject: str
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Writing:
    """What a batch leaves to be written.

    `games_seen` and `accounts_seen` are the states and versions it was decided on: if they are not
    so any more, nothing may be written. Games and reservations are given in the steps they take
    (made, pinned, ended), for the database holds them to their course.
    """

    now: int
    games_seen: Mapping[UUID, GameState]
    accounts_seen: Mapping[UUID, int]
    games_made: Sequence[Game]
    games_pinned: Sequence[UUID]
    games_ended: Sequence[Game]
    opened: Sequence[Account]
    accounts: Sequence[Account]
    transfers: Sequence[Recorded]
    postings: Sequence[Posting]
    made: Sequence[Reservation]
    pinned: Sequence[UUID]
    ended: Sequence[Reservation]
    answers: Mapping[tuple[str, str], Answer]
    changed: frozenset[UUID]
    """Accounts whose chips, spendable or held, are not what they were."""
    standing: tuple[Mapping[UUID, Account], Mapping[UUID, Table]]
    """All accounts and games that were known, as they are after the batch."""


_books, _table = maker(Books), maker(Table)
_answer, _recorded = maker(Answer), maker(Recorded)


def wanted(asked: Iterable[Asked]) -> Wanted:
    """What commands must know to be decided."""
    accounts: set[UUID] = set()
    games: set[UUID] = set()
    begun: set[UUID] = set()
    reservations: list[UUID] = []
    holders: set[UUID] = set()
    requests: list[tuple[str, str]] = []
    for each in asked:
        command, game = each.command, game_of(each.command)
        accounts.update(accounts_of(command, ()))
        if isinstance(command, Reserve):
            games.add(command.game)
            reservations.append(command.id)
        elif game is not None:
            games.add(game)
            begun.add(game)
            accounts.add(game)
        elif isinstance(command, OpenAccount | Grant | Forfeit):
            holders.add(command.account)
        if each.request is not None:
            requests.append(each.request.key)
    return Wanted(
        frozenset(accounts),
        frozenset(games),
        frozenset(begun),
        reservations,
        frozenset(holders),
        requests,
    )


@dataclass(slots=True)
class Batch:
    """The books as commands change them, and what they were when they were read.

    `is_idle`: one of the commands found its work done.
    """

    found: Found
    new_id: Callable[[], UUID]
    accounts: dict[UUID, Account] = field(init=False)
    tables: dict[UUID, Table] = field(init=False)
    named: dict[UUID, Reservation] = field(init=False)
    held: dict[UUID, int] = field(init=False)
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    transfers: list[Recorded] = field(default_factory=list)
    postings: list[Posting] = field(default_factory=list)
    is_idle: bool = False

    def __post_init__(self) -> None:
        self.accounts = dict(self.found.accounts)
        self.tables = dict(self.found.tables)
        self.named = dict(self.found.named)
        self.held = dict(self.found.held)

    def carry_out(self, asked: Asked) -> bytes:
        """Do a command after what has expired of its game, and answer it; raises Refused."""
        request, command = asked.request, asked.command
        if request is not None and (known := self._answered(request)) is not None:
            return known
        game = game_of(command)
        books = self._books(command, game)
        if game is not None and not isinstance(command, Expire) and has_expired(books, game):
            self._expire(game)
            books = self._books(command, game)
        change = decide(books, command, self.new_id())
        after = evolve(books, change)
        response = asked.respond(after)
        self.is_idle |= change == NOTHING
        self._enter(change, game, after, request)
        if request is not None:
            self.answers[request.key] = _answer(request.body_hash, response)
        return response

    def has_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.answers or self.transfers)

    def writing(self) -> Writing:
        """What is to be written of all that was done."""
        games, seats = GameSteps(), SeatSteps()
        for key, table in self.tables.items():
            before = self.found.tables.get(key)
            if table is not before:
                games.step(before or Table(None), table)
                seats.step(() if before is None else before.seats, table.seats)
        seen: dict[UUID, int] = {}
        opened: list[Account] = []
        moved: list[Account] = []
        for key, account in self.accounts.items():
            known = self.found.accounts.get(key)
            if known is None:
                opened.append(account)
            elif known is not account or key in games.changed:
                seen[key] = known.version
            if account.version > (0 if known is None else known.version):
                moved.append(account)
        touched = (a.id for accounts in (opened, moved) for a in accounts)
        return Writing(
            now=self.found.now,
            games_seen=games.seen,
            accounts_seen=seen,
            games_made=games.made,
            games_pinned=games.pinned,
            games_ended=games.ended,
            opened=opened,
            accounts=moved,
            transfers=self.transfers,
            postings=self.postings,
            made=seats.made,
            pinned=seats.pinned,
            ended=seats.ended,
            answers=self.answers,
            changed=frozenset((*touched, *seats.holders)),
            standing=(self.accounts, self.tables),
        )

    def _answered(self, request: Request) -> bytes | None:
        known = self.answers.get(request.key) or self.found.answers.get(request.key)
        if known is None:
            return None
        if known.body_hash != request.body_hash:
            raise invalid("request_id", "was used before for another request", "REQUEST_ID_REUSED")
        return known.response

    def _books(self, command: Command, game: UUID | None) -> Books:
        table = NO_TABLE if game is None else self.tables.get(game, NO_TABLE)
        reservations = table.seats
        held = 0
        if isinstance(command, Reserve):
            named = self.named.get(command.id)
            if named is not None and named.game != game:
                reservations = (*reservations, named)
        elif isinstance(command, OpenAccount | Grant | Forfeit):
            held = self.held.get(command.account, 0)
        known = [self.accounts.get(i) for i in accounts_of(command, table.seats)]
        return _books(
            self.found.now,
            {account.id: account for account in known if account is not None},
            table.game,
            reservations,
            held,
            None,
        )

    def _expire(self, game: UUID) -> None:
        """Give back what has expired of a game, as a command of the wallet's own."""
        command = Expire(game)
        books = self._books(command, game)
        change = decide(books, command, self.new_id())
        self._enter(change, game, evolve(books, change), None)

    def _enter(
        self, change: Change, game: UUID | None, after: Books, request: Request | None
    ) -> None:
        """Take a change over; nothing here can be refused any more."""
        for account in (*change.opened, *change.moved):
            self.accounts[account.id] = account
        self.postings += change.postings
        if change.transfer is not None:
            who = (SELF, None) if request is None else (request.subject, request.id)
            self.transfers.append(_recorded(change.transfer, *who))
        if game is None or (change.game is None and not change.reservations):
            return
        before = self.tables.get(game, NO_TABLE).seats
        self.tables[game] = _table(after.game, after.reservations)
        for reservation in change.reservations:
            made = reservation.number > len(before)
            if made:
                self.named[reservation.id] = reservation
            if reservation.account in self.held:
                was = 0 if made else held_in(before[reservation.number - 1])
                self.held[reservation.account] += held_in(reservation) - was


def held_in(reservation: Reservation) -> int:
    """The chips of a reservation that are in its game's escrow."""
    return reservation.chips if reservation.is_held else 0


def tables_of(games: Mapping[UUID, Game], reservations: Iterable[Reservation]) -> dict[UUID, Table]:
    """Whole games with their reservations in the order of their numbers."""
    seats: dict[UUID, list[Reservation]] = {}
    for reservation in sorted(reservations, key=lambda r: r.number):
        seats.setdefault(reservation.game, []).append(reservation)
    return {key: Table(game, tuple(seats.get(key, ()))) for key, game in games.items()}
