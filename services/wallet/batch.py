"""A batch: commands carried out one after another in memory, to be written all at once.

All of it is pure. `wanted` says what a batch must know, a `Batch` is folded from what was found,
and its `Writing` is what the database is to be told. A command that is refused leaves no trace; a
request that was answered before, by the database or earlier in the batch, is answered the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.kernel.errors import invalid
from services.wallet.books import (
    Account,
    Books,
    Change,
    Game,
    GameState,
    Posting,
    Reservation,
    ReservationState,
    Transfer,
    enter,
)
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

SELF = "service:wallet"
"""Who gives expired reservations back."""

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
    them, reservations by id, the chips held for `holders`, answers by subject and request id."""

    accounts: frozenset[UUID]
    games: frozenset[UUID]
    reservations: frozenset[UUID]
    holders: frozenset[UUID]
    requests: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """What is there of what was wanted, at one moment; `reservations` of a game by number."""

    now: int
    accounts: Mapping[UUID, Account]
    games: Mapping[UUID, Game]
    reservations: Sequence[Reservation]
    held: Mapping[UUID, int]
    answers: Mapping[tuple[str, str], Answer]


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


def wanted(asked: Iterable[Asked]) -> Wanted:
    """What commands must know to be decided."""
    accounts: set[UUID] = set()
    games: set[UUID] = set()
    reservations: set[UUID] = set()
    holders: set[UUID] = set()
    requests: set[tuple[str, str]] = set()
    for each in asked:
        command, game = each.command, game_of(each.command)
        accounts |= accounts_of(command, ())
        if game is not None:
            games.add(game)
            accounts.add(game)
        if isinstance(command, Reserve):
            reservations.add(command.id)
        if isinstance(command, OpenAccount | Grant):
            holders.add(command.account)
        if each.request is not None:
            requests.add(each.request.key)
    return Wanted(
        frozenset(accounts),
        frozenset(games),
        frozenset(reservations),
        frozenset(holders),
        frozenset(requests),
    )


@dataclass(slots=True)
class Batch:
    """The books as commands change them, and what they were when they were read."""

    found: Found
    new_id: Callable[[], UUID]
    accounts: dict[UUID, Account] = field(init=False)
    games: dict[UUID, Game] = field(init=False)
    reservations: dict[UUID, Reservation] = field(init=False)
    seats: dict[UUID, list[UUID]] = field(default_factory=dict)
    held: dict[UUID, int] = field(init=False)
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    transfers: list[Recorded] = field(default_factory=list)
    postings: list[Posting] = field(default_factory=list)
    relied: set[UUID] = field(default_factory=set)
    changed: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.accounts = dict(self.found.accounts)
        self.games = dict(self.found.games)
        self.held = dict(self.found.held)
        in_order = sorted(self.found.reservations, key=lambda r: r.number)
        self.reservations = {r.id: r for r in in_order}
        for reservation in self.reservations.values():
            self.seats.setdefault(reservation.game, []).append(reservation.id)

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
        after, postings = enter(books, change)
        response = asked.respond(after)
        self._enter(change, after, postings, request)
        if request is not None:
            self.answers[request.key] = Answer(request.body_hash, response)
        return response

    def has_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.answers or self.relied or self.changed)

    def writing(self) -> Writing:
        """What is to be written of all that was done."""
        old, games = self.found.games, [g for i, g in self.games.items() if i in self.relied]
        was = {r.id: r.state for r in self.found.reservations}
        made = [r for r in self.reservations.values() if r.id not in was]
        moved = [
            r
            for r in self.reservations.values()
            if r.state is not was.get(r.id, ReservationState.PENDING)
        ]
        seated = {r.game for r in made}
        fresh = [g for g in games if g.id not in old]
        done = {g.id for g in fresh if g.state is GameState.VOIDED and g.id not in seated}
        begun = {g.id: GameState.OPEN for g in fresh} | {i: g.state for i, g in old.items()}
        steps = [g for g in games if g.state is not begun[g.id] and g.id not in done]
        return Writing(
            now=self.found.now,
            games_seen={g.id: old[g.id].state for g in games if g.id in old},
            accounts_seen=self._seen(),
            games_made=[g if g.id in done else Game(g.id) for g in fresh],
            games_pinned=[
                g.id
                for g in steps
                if begun[g.id] is GameState.OPEN and g.state is not GameState.VOIDED
            ],
            games_ended=[g for g in steps if g.state is not GameState.PINNED],
            opened=[a for i, a in self.accounts.items() if i not in self.found.accounts],
            accounts=self._touched(),
            transfers=self.transfers,
            postings=self.postings,
            made=[as_made(r) for r in made],
            pinned=[
                r.id
                for r in moved
                if was.get(r.id, ReservationState.PENDING) is ReservationState.PENDING
                and r.state is not ReservationState.VOIDED
            ],
            ended=[r for r in moved if not r.is_held],
            answers=self.answers,
            changed=frozenset(self.changed),
        )

    def _seen(self) -> dict[UUID, int]:
        """The versions of the accounts that moved, and of the escrows of games that changed: an
        escrow moves whenever its game's reservations do."""
        found = self.found.accounts
        moved = {p.account for p in self.postings}
        return {i: found[i].version for i in moved | self.relied if i in found}

    def _touched(self) -> list[Account]:
        return [self.accounts[i] for i in {p.account: None for p in self.postings}]

    def _answered(self, request: Request) -> bytes | None:
        known = self.answers.get(request.key) or self.found.answers.get(request.key)
        if known is None:
            return None
        if known.body_hash != request.body_hash:
            raise invalid("request_id", "was used before for another request", "REQUEST_ID_REUSED")
        return known.response

    def _books(self, command: Command, game: UUID | None) -> Books:
        seats = [] if game is None else self.seats.get(game, [])
        reservations = [self.reservations[seat] for seat in seats]
        if isinstance(command, Reserve) and command.id not in seats:
            reservations += filter(None, (self.reservations.get(command.id),))
        accounts = self.accounts
        held = 0
        if isinstance(command, OpenAccount | Grant):
            held = self.held.get(command.account, 0)
        return Books(
            self.found.now,
            {i: accounts[i] for i in accounts_of(command, reservations) if i in accounts},
            None if game is None else self.games.get(game),
            tuple(reservations),
            held,
        )

    def _expire(self, game: UUID) -> None:
        """Give back what has expired of a game, as a command of the wallet's own."""
        command = Expire(game)
        books = self._books(command, game)
        change = decide(books, command, self.new_id())
        self._enter(change, *enter(books, change), None)

    def _enter(
        self,
        change: Change,
        after: Books,
        postings: Sequence[Posting],
        request: Request | None,
    ) -> None:
        """Take a change over; nothing here can be refused any more."""
        for account in change.opened:
            self.accounts[account.id] = after.accounts[account.id]
            self.changed.add(account.id)
        for posting in postings:
            self.accounts[posting.account] = after.accounts[posting.account]
            self.changed.add(posting.account)
        self.postings += postings
        if change.transfer is not None:
            who = (SELF, None) if request is None else (request.subject, request.id)
            self.transfers.append(Recorded(change.transfer, *who))
        if change.game is not None:
            self.games[change.game.id] = change.game
            self.relied.add(change.game.id)
        for reservation in change.reservations:
            self._place(reservation)

    def _place(self, reservation: Reservation) -> None:
        """Put a reservation as it has become in its place."""
        before = self.reservations.get(reservation.id)
        if before is None:
            self.seats.setdefault(reservation.game, []).append(reservation.id)
        self.reservations[reservation.id] = reservation
        self.relied.add(reservation.game)
        self.changed.add(reservation.account)
        if reservation.account in self.held:
            was = before.chips if before is not None and before.is_held else 0
            now = reservation.chips if reservation.is_held else 0
            self.held[reservation.account] += now - was


def as_made(reservation: Reservation) -> Reservation:
    """A reservation as it was when it was made."""
    if reservation.state is ReservationState.PENDING:
        return reservation
    return replace(reservation, state=ReservationState.PENDING, paid_in=0, paid_out=0, reason=None)
