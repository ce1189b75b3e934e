"""Reading the ledger: accounts, statements, reservations, the trial balance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import database_now, now_us, read, write
from services.wallet.books import (
    Account,
    AccountKind,
    Books,
    Game,
    GameState,
    Posting,
    Reservation,
    ReservationState,
    TransferKind,
    unknown_account,
)
from services.wallet.domain import has_expired
from services.wallet.tables import ACCOUNTS, GAMES, POSTINGS, PULSE, RESERVATIONS, TRANSFERS

HELD = (int(ReservationState.PENDING), int(ReservationState.PINNED))


@dataclass(frozen=True, slots=True)
class Holding:
    """An account with the chips that games' escrows hold for it.

    `has_expired` says that some of them should have gone back by now.
    """

    account: Account
    reserved: int
    has_expired: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class StatementLine:
    """A posting with its transfer; `version` is the account's after it."""

    version: int
    transfer: UUID
    kind: TransferKind
    chips: int
    before: int
    after: int
    game: UUID | None
    reason: str | None
    recorded_at: int


@dataclass(frozen=True, slots=True)
class GameTransfer:
    """A transfer that concerns a game, with its postings by account."""

    id: UUID
    kind: TransferKind
    reason: str | None
    recorded_at: int
    postings: tuple[Posting, ...]


@dataclass(frozen=True, slots=True)
class TrialLine:
    """The accounts of one kind: how many, the sum of their balances, the sum of their postings."""

    kind: AccountKind
    accounts: int
    balance: int
    postings: int


@dataclass(frozen=True, slots=True)
class Trial:
    """The trial balance.

    It is sound when balances are the sums of their postings, every posting continues the one before
    it, every transfer sums to zero, each escrow holds what is reserved, and all of it sums to zero.
    """

    lines: tuple[TrialLine, ...]
    held: int
    sound: bool

    @property
    def total(self) -> int:
        """The sum of all balances."""
        return sum(line.balance for line in self.lines)


async def read_holding(engine: AsyncEngine, account: UUID) -> Holding:
    """An account as it is; raises Refused ACCOUNT_NOT_FOUND."""
    held = RESERVATIONS.c.state.in_(HELD) & (RESERVATIONS.c.account_id == ACCOUNTS.c.id)
    late = (RESERVATIONS.c.state == HELD[0]) & (RESERVATIONS.c.expires_at <= now_us())
    query = sa.select(
        ACCOUNTS,
        _sum_of_held(held).label("reserved"),
        sa.select(RESERVATIONS.c.id).where(held, late).correlate(ACCOUNTS).exists().label("late"),
    ).where(ACCOUNTS.c.id == account)
    async with read(engine) as connection:
        row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise unknown_account(account)
    return Holding(_account(row), int(row.reserved), bool(row.late))


def _sum_of_held(held: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    chips = sa.func.coalesce(sa.func.sum(RESERVATIONS.c.chips), 0)
    return sa.select(chips).where(held).correlate(ACCOUNTS).scalar_subquery()


async def read_statement(
    engine: AsyncEngine, account: UUID, game: UUID | None, below: int | None, limit: int
) -> list[StatementLine]:
    """Lines of an account, newest first, of versions under `below`; of one game if given.

    Raises Refused ACCOUNT_NOT_FOUND.
    """
    lines = (
        sa.select(POSTINGS, TRANSFERS)
        .join(TRANSFERS, TRANSFERS.c.id == POSTINGS.c.transfer_id)
        .where(POSTINGS.c.account_id == account)
        .order_by(POSTINGS.c.version.desc())
        .limit(limit)
    )
    if below is not None:
        lines = lines.where(POSTINGS.c.version < below)
    if game is not None:
        lines = lines.where(TRANSFERS.c.game_id == game)
    async with read(engine) as connection:
        found = sa.select(ACCOUNTS.c.id).where(ACCOUNTS.c.id == account)
        if (await connection.execute(found)).one_or_none() is None:
            raise unknown_account(account)
        rows = (await connection.execute(lines)).all()
    return [
        StatementLine(
            version=row.version,
            transfer=row.transfer_id,
            kind=TransferKind(row.kind),
            chips=row.chips,
            before=row.balance_before,
            after=row.balance_after,
            game=row.game_id,
            reason=row.reason,
            recorded_at=row.recorded_at,
        )
        for row in rows
    ]


async def read_transfers(
    engine: AsyncEngine, game: UUID, after: tuple[int, UUID] | None, limit: int
) -> list[GameTransfer]:
    """Transfers of a game, oldest first, after one named by its time and id."""
    chosen = (
        sa.select(TRANSFERS)
        .where(TRANSFERS.c.game_id == game)
        .order_by(TRANSFERS.c.recorded_at, TRANSFERS.c.id)
        .limit(limit)
    )
    if after is not None:
        at, last = after
        later = sa.and_(TRANSFERS.c.recorded_at == at, TRANSFERS.c.id > last)
        chosen = chosen.where(sa.or_(TRANSFERS.c.recorded_at > at, later))
    async with read(engine) as connection:
        rows = (await connection.execute(chosen)).all()
        named = POSTINGS.c.transfer_id.in_([row.id for row in rows])
        of = sa.select(POSTINGS).where(named).order_by(POSTINGS.c.account_id)
        postings: dict[UUID, list[Posting]] = {}
        for p in await connection.execute(of):
            posting = Posting(
                p.transfer_id, p.account_id, p.version, p.chips, p.balance_before, p.balance_after
            )
            postings.setdefault(p.transfer_id, []).append(posting)
    return [
        GameTransfer(
            row.id, TransferKind(row.kind), row.reason, row.recorded_at, tuple(postings[row.id])
        )
        for row in rows
    ]


async def read_reservations(
    engine: AsyncEngine, account: UUID, below: UUID | None, limit: int
) -> list[Reservation]:
    """Reservations that hold chips of an account, the highest id first, ids under `below`."""
    chosen = (
        sa.select(RESERVATIONS)
        .where(RESERVATIONS.c.account_id == account, RESERVATIONS.c.state.in_(HELD))
        .order_by(RESERVATIONS.c.id.desc())
        .limit(limit)
    )
    if below is not None:
        chosen = chosen.where(RESERVATIONS.c.id < below)
    async with read(engine) as connection:
        return [_reservation(row) for row in await connection.execute(chosen)]


async def read_game(
    engine: AsyncEngine, game: UUID
) -> tuple[Game | None, tuple[Reservation, ...], bool]:
    """What is known of a game, its reservations in the order of their making, and whether some of
    them should have gone back by now."""
    seats = (
        sa.select(RESERVATIONS)
        .where(RESERVATIONS.c.game_id == game)
        .order_by(RESERVATIONS.c.number)
    )
    async with read(engine) as connection:
        row = (await connection.execute(sa.select(GAMES).where(GAMES.c.id == game))).one_or_none()
        reservations = tuple(_reservation(row) for row in await connection.execute(seats))
        now = await database_now(connection)
    known = None if row is None else _game(row)
    return known, reservations, has_expired(Books(now, {}, known, reservations), game)


def _account(row: sa.Row[Any]) -> Account:
    return Account(row.id, AccountKind(row.kind), row.balance, row.version)


def _game(row: sa.Row[Any]) -> Game:
    return Game(row.id, GameState(row.state), row.transfer_id, row.head, row.reason)


def _reservation(row: sa.Row[Any]) -> Reservation:
    return Reservation(
        id=row.id,
        game=row.game_id,
        number=row.number,
        account=row.account_id,
        chips=row.chips,
        expires_at=row.expires_at,
        state=ReservationState(row.state),
        paid_in=row.paid_in,
        paid_out=row.paid_out,
        reason=row.reason,
    )


async def read_trial(engine: AsyncEngine) -> Trial:
    """The trial balance, recomputed from every posting there is."""
    posted = (
        sa.select(
            POSTINGS.c.account_id,
            sa.func.count().label("count"),
            sa.func.sum(POSTINGS.c.chips).label("chips"),
        )
        .group_by(POSTINGS.c.account_id)
        .subquery()
    )
    sums = sa.func.coalesce(posted.c.chips, 0)
    wrong = (ACCOUNTS.c.balance != sums) | (
        ACCOUNTS.c.version != sa.func.coalesce(posted.c.count, 0)
    )
    query = (
        sa.select(
            ACCOUNTS.c.kind,
            sa.func.count().label("accounts"),
            sa.func.sum(ACCOUNTS.c.balance).label("balance"),
            sa.func.sum(sums).label("postings"),
            sa.func.sum(sa.case((wrong, 1), else_=0)).label("wrong"),
        )
        .select_from(ACCOUNTS.outerjoin(posted, posted.c.account_id == ACCOUNTS.c.id))
        .group_by(ACCOUNTS.c.kind)
        .order_by(ACCOUNTS.c.kind)
    )
    async with read(engine) as connection:
        rows = (await connection.execute(query)).all()
        faults = [int((await connection.execute(q)).scalar_one()) for q in _faults()]
        held = sa.select(sa.func.count()).where(RESERVATIONS.c.state.in_(HELD))
        open_reservations = (await connection.execute(held)).scalar_one()
    lines = tuple(
        TrialLine(AccountKind(r.kind), r.accounts, int(r.balance), int(r.postings)) for r in rows
    )
    agree = all(line.balance == line.postings for line in lines) and not any(r.wrong for r in rows)
    sound = agree and not any(faults) and not sum(line.balance for line in lines)
    return Trial(lines, open_reservations, sound)


def _faults() -> Sequence[sa.Select[int]]:
    """Counts of what must not be, each of one consistent moment."""
    unbalanced = (
        sa.select(POSTINGS.c.transfer_id)
        .group_by(POSTINGS.c.transfer_id)
        .having(sa.func.sum(POSTINGS.c.chips) != 0)
        .subquery()
    )
    empty = ~sa.select(POSTINGS.c.version).where(POSTINGS.c.transfer_id == TRANSFERS.c.id).exists()
    unclosed = ~sa.select(TRANSFERS.c.id).where(TRANSFERS.c.id == POSTINGS.c.transfer_id).exists()
    last = sa.func.lag(POSTINGS.c.balance_after, 1, 0).over(
        partition_by=POSTINGS.c.account_id, order_by=POSTINGS.c.version
    )
    chain = sa.select(POSTINGS.c.balance_before, last.label("last")).subquery()
    reserved = (
        sa.select(RESERVATIONS.c.game_id, sa.func.sum(RESERVATIONS.c.chips).label("chips"))
        .where(RESERVATIONS.c.state.in_(HELD))
        .group_by(RESERVATIONS.c.game_id)
        .subquery()
    )
    escrows = ACCOUNTS.outerjoin(reserved, reserved.c.game_id == ACCOUNTS.c.id)
    is_wrong = ACCOUNTS.c.balance != sa.func.coalesce(reserved.c.chips, 0)
    is_escrow = ACCOUNTS.c.kind == int(AccountKind.ESCROW)
    count = sa.func.count()
    return (
        sa.select(count).select_from(unbalanced),
        sa.select(count).select_from(TRANSFERS).where(empty),
        sa.select(count).select_from(POSTINGS).where(unclosed),
        sa.select(count).select_from(chain).where(chain.c.balance_before != chain.c.last),
        sa.select(count).select_from(escrows).where(is_escrow, is_wrong),
    )


async def check_writable(engine: AsyncEngine) -> None:
    """Raise StoreUnavailable unless a write reaches the database."""
    async with write(engine) as connection:
        beaten = await connection.execute(sa.update(PULSE).values(at=now_us()))
        if not beaten.rowcount:
            await connection.execute(sa.insert(PULSE).values(at=now_us()))


async def sums_of_balances(engine: AsyncEngine) -> Mapping[AccountKind, int]:
    """The cheap form of the trial balance: what all accounts of each kind hold. Together that is
    zero, or chips appeared or vanished."""
    async with read(engine) as connection:
        query = sa.select(ACCOUNTS.c.kind, sa.func.sum(ACCOUNTS.c.balance))
        rows = await connection.execute(query.group_by(ACCOUNTS.c.kind))
        return {AccountKind(kind): int(chips) for kind, chips in rows}
