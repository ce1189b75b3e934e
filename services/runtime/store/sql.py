"""The event store on SQLAlchemy Core, for SQLite and PostgreSQL alike."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from sqlalchemy import (
    Row,
    and_,
    bindparam,
    delete,
    exc,
    func,
    insert,
    literal,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.envelope import Append, Appended, Claimed, Head, Plan, Recorded
from services.runtime.database import close_engine, database_now, now_us, read, write
from services.runtime.store.api import Conflict, Damaged, Late
from services.runtime.store.chain import GENESIS
from services.runtime.store.keys import StreamKeys
from services.runtime.store.rows import (
    chained,
    claim_key,
    due_row,
    event_row,
    first_outcome,
    recorded,
    require_storable,
    work_key,
)
from services.runtime.store.schema import due, event_secrets, events, heads, pulse, tags
from services.runtime.store.sealing import NONCE_BYTES, MasterKeys, SealBroken, seal, unseal

P = ParamSpec("P")
T = TypeVar("T")

PAGE = 500

_locked = select(heads).where(heads.c.stream == bindparam("stream")).with_for_update().subquery()
_one = select(literal(1).label("one")).subquery()
HEAD_LOCKED = select(
    now_us().label("now"), _locked.c.version, _locked.c.hash, _locked.c.ended, _locked.c.recorded_at
).select_from(_one.outerjoin(_locked, true()))
"""The clock and, if there is one, the head, locked. The clock is read once the lock is there."""

EVENTS = select(events, event_secrets.c.sealed).select_from(
    events.outerjoin(
        event_secrets,
        and_(
            event_secrets.c.stream == events.c.stream, event_secrets.c.version == events.c.version
        ),
    )
)
_first = (
    select(events.c.version)
    .where(events.c.stream == bindparam("stream"), events.c.request_id == bindparam("request_id"))
    .scalar_subquery()
)
_next = events.alias("next")
_following = (
    select(func.min(_next.c.version))
    .where(
        _next.c.stream == bindparam("stream"),
        _next.c.version > _first,
        _next.c.request_id.is_not(None),
    )
    .scalar_subquery()
)
OF_REQUEST = EVENTS.where(
    events.c.stream == bindparam("stream"),
    events.c.version >= _first,
    events.c.version < func.coalesce(_following, 2**62),
).order_by(events.c.version)
"""The rows of the append with a request id, in one statement: the next one may come any moment."""

HEADS = select(heads.c.stream, heads.c.version, heads.c.hash, heads.c.ended)
SAME_WORK = and_(
    due.c.stream == bindparam("at_stream"),
    due.c.kind == bindparam("at_kind"),
    due.c.key == bindparam("at_key"),
)
SAME_CLAIM = and_(
    SAME_WORK, due.c.version == bindparam("at_version"), due.c.attempts == bindparam("at_attempts")
)
"""A claim is over once its row was replaced (another version) or claimed again (more attempts)."""


def to_its_end(
    method: Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, T]]:
    """Has a call go on to its end should its caller be cancelled: cut off in the middle of a
    statement it would take its connection with it."""

    @wraps(method)
    async def run(store: "SqlStore", /, *given: P.args, **named: P.kwargs) -> T:
        return await store._finish(method(store, *given, **named))  # noqa: SLF001 - our own

    return run


class SqlStore:
    """The store of one database; see `api.Store` for what its methods promise.

    `keys` seals and opens secrets; without them secrets stay closed (None) and cannot be stored.
    `clock` (Unix microseconds) stands in for the database's and `random` for the system's, in
    tests. The store closes the engine it was given.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        keys: MasterKeys | None,
        *,
        clock: Callable[[], int] | None = None,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._engine = engine
        self._keys = None if keys is None else StreamKeys(keys, random)
        self._clock = clock
        self._random = random
        self._under_way: set[asyncio.Task[Any]] = set()
        self._upsert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    # ---------------------------------------------------------------------------------- appending

    async def append(self, append: Append) -> Appended:
        """Stores events, secrets, due rows, tags and the new head, or nothing.

        A caller that is cancelled leaves a begun append to finish. Raises ValueError for an
        append that could never be stored.
        """
        require_storable(append)
        return await self._finish(self._append(append))

    async def _append(self, append: Append) -> Appended:
        try:
            async with write(self._engine) as connection:
                return await self._append_locked(connection, append)
        except exc.IntegrityError:
            # Another append of this stream, or this one a first time, was stored in between.
            if earlier := await self.find_request(append.stream, append.request_id):
                return first_outcome(earlier, append)
            head = await self.head(append.stream)
            if (head.version if head else 0) == append.expected:
                raise
            raise Conflict from None

    async def _append_locked(self, connection: AsyncConnection, append: Append) -> Appended:
        found = (await connection.execute(HEAD_LOCKED, {"stream": append.stream})).one()
        now = found.now if self._clock is None else self._clock()
        late = append.not_after is not None and now > append.not_after
        if late or (found.version or 0) != append.expected:
            if earlier := await self._find_request(connection, append.stream, append.request_id):
                return first_outcome(earlier, append)
            raise Late if (found.version or 0) == append.expected else Conflict
        at = max(now, found.recorded_at or 0)
        rows = chained(append, found.hash or GENESIS, at, self._random)
        await self._move_head(connection, append, rows[-1], bool(found.ended))
        await connection.execute(insert(events), [event_row(row) for row in rows])
        await self._seal(connection, append.stream, rows)
        await self._plan(connection, append.stream, append.plan, rows[-1])
        return Appended(rows)

    async def _move_head(
        self, connection: AsyncConnection, append: Append, last: Recorded, ended: bool
    ) -> None:
        values = {
            "version": last.version,
            "hash": last.hash,
            "ended": ended or append.plan.ended,
            "recorded_at": last.recorded_at,
        }
        if append.expected == 0:
            await connection.execute(insert(heads).values(stream=append.stream, **values))
            return
        moved = await connection.execute(
            update(heads)
            .where(heads.c.stream == append.stream, heads.c.version == append.expected)
            .values(values)
        )
        if moved.rowcount != 1:
            raise Conflict

    async def _seal(
        self, connection: AsyncConnection, stream: UUID, rows: Iterable[Recorded]
    ) -> None:
        secret_rows = [row for row in rows if row.secret is not None]
        if not secret_rows:
            return
        if self._keys is None:
            raise ValueError("a store without master keys cannot store secrets")
        key = await self._keys.make(connection, stream)
        sealed = [
            {
                "stream": stream,
                "version": row.version,
                "sealed": seal(
                    key, stream, row.version, row.salt, row.secret, self._random(NONCE_BYTES)
                ),
            }
            for row in secret_rows
            if row.salt is not None and row.secret is not None
        ]
        await connection.execute(insert(event_secrets), sealed)

    async def _plan(
        self, connection: AsyncConnection, stream: UUID, plan: Plan, last: Recorded
    ) -> None:
        if plan.done:
            await connection.execute(
                delete(due).where(SAME_WORK),
                [{"at_stream": stream, "at_kind": kind, "at_key": key} for kind, key in plan.done],
            )
        if plan.due:
            setting = self._upsert(due)
            fresh = {
                name: setting.excluded[name]
                for name in ("version", "due_at", "ready_at", "attempts", "worker")
            }
            await connection.execute(
                setting.on_conflict_do_update(
                    index_elements=[due.c.stream, due.c.kind, due.c.key], set_=fresh
                ),
                [due_row(work, last) for work in plan.due],
            )
        if plan.tags:
            await connection.execute(
                self._upsert(tags).on_conflict_do_nothing(),
                [{"tag": tag, "stream": stream} for tag in plan.tags],
            )

    # ------------------------------------------------------------------------------------ reading

    @to_its_end
    async def read(self, stream: UUID, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """The stream's events with a version above `after`, in order, secrets opened."""
        query = EVENTS.where(events.c.stream == stream, events.c.version > after)
        async with read(self._engine) as connection:
            found = await connection.execute(query.order_by(events.c.version).limit(limit))
            return await self._opened(connection, stream, after + 1, found.all())

    @to_its_end
    async def find_request(self, stream: UUID, request_id: str) -> Appended | None:
        """The outcome of an earlier append with this request id."""
        async with read(self._engine) as connection:
            return await self._find_request(connection, stream, request_id)

    async def _find_request(
        self, connection: AsyncConnection, stream: UUID, request_id: str
    ) -> Appended | None:
        found = (
            await connection.execute(OF_REQUEST, {"stream": stream, "request_id": request_id})
        ).all()
        if not found:
            return None
        rows = await self._opened(connection, stream, found[0].version, found)
        return Appended(tuple(rows), repeated=True)

    async def _opened(
        self, connection: AsyncConnection, stream: UUID, first: int, found: Sequence[Row[Any]]
    ) -> list[Recorded]:
        if self._keys is None or not any(row.sealed is not None for row in found):
            key = None
        else:
            key = await self._keys.find(connection, stream)
        rows = []
        for version, row in enumerate(found, start=first):
            if row.version != version:
                raise Damaged(stream, version, "the event is missing")
            salt = secret = None
            if self._keys is not None and (row.secret_digest is None) != (row.sealed is None):
                raise Damaged(stream, row.version, "the event and its secret do not match")
            if row.sealed is not None and self._keys is not None:
                try:
                    salt, secret = unseal(key or b"", stream, row.version, row.sealed)
                except SealBroken:
                    raise Damaged(stream, row.version, "the secret cannot be opened") from None
            rows.append(recorded(row, salt, secret))
        return rows

    async def head(self, stream: UUID) -> Head | None:
        """The stream's head, or None if it does not exist."""
        return (await self.heads([stream])).get(stream)

    @to_its_end
    async def heads(self, streams: Sequence[UUID]) -> dict[UUID, Head]:
        """Heads of those of the streams that exist."""
        found: dict[UUID, Head] = {}
        async with read(self._engine) as connection:
            for start in range(0, len(streams), PAGE):
                page = streams[start : start + PAGE]
                rows = await connection.execute(HEADS.where(heads.c.stream.in_(page)))
                found.update({row.stream: Head(*row) for row in rows})
        return found

    @to_its_end
    async def tagged(
        self, tag: str, before: UUID | None = None, limit: int = 50, ended: bool | None = None
    ) -> list[Head]:
        """Streams that carry the tag, newest id first, below `before`; by `ended` unless None."""
        query = HEADS.join(tags, tags.c.stream == heads.c.stream).where(tags.c.tag == tag)
        if before is not None:
            query = query.where(tags.c.stream < before)
        if ended is not None:
            query = query.where(heads.c.ended == ended)
        async with read(self._engine) as connection:
            rows = await connection.execute(query.order_by(tags.c.stream.desc()).limit(limit))
            return [Head(*row) for row in rows]

    async def streams(self) -> AsyncIterator[Head]:
        """Every stream, in the order of ids, read page by page."""
        query = HEADS.order_by(heads.c.stream).limit(PAGE)
        after: UUID | None = None
        while True:
            page = query if after is None else query.where(heads.c.stream > after)
            async with read(self._engine) as connection:
                found = [Head(*row) for row in await connection.execute(page)]
            for head in found:
                yield head
            if len(found) < PAGE:
                return
            after = found[-1].stream

    # ----------------------------------------------------------------------------------- due work

    async def claim(self, worker: str, limit: int, lease_ms: int) -> list[Claimed]:
        """Takes due rows whose moment has come, for `lease_ms`; nobody else gets them meanwhile."""
        return await self._finish(self._claim(worker, limit, lease_ms))

    async def _claim(self, worker: str, limit: int, lease_ms: int) -> list[Claimed]:
        async with write(self._engine) as connection:
            now = await self._now(connection)
            found = await connection.execute(
                select(due)
                .where(due.c.ready_at <= now)
                .order_by(due.c.ready_at)
                .limit(limit)
                .with_for_update(skip_locked=True)
            )
            claimed = [
                Claimed(row.stream, row.kind, row.key, row.version, row.due_at, row.attempts + 1)
                for row in found
            ]
            if claimed:
                await connection.execute(
                    update(due)
                    .where(SAME_WORK)
                    .values(
                        ready_at=now + lease_ms * 1_000, attempts=due.c.attempts + 1, worker=worker
                    ),
                    [work_key(row) for row in claimed],
                )
        return claimed

    @to_its_end
    async def postpone(self, claimed: Claimed, after_ms: int) -> None:
        """Gives a row back, to be claimed again after `after_ms`; nothing if the claim is over."""
        async with write(self._engine) as connection:
            ready_at = await self._now(connection) + after_ms * 1_000
            await connection.execute(
                update(due).where(SAME_CLAIM).values(ready_at=ready_at, worker=None),
                claim_key(claimed),
            )

    @to_its_end
    async def drop(self, claimed: Claimed) -> None:
        """Deletes a claimed row without an append; nothing if the claim is over."""
        async with write(self._engine) as connection:
            await connection.execute(delete(due).where(SAME_CLAIM), claim_key(claimed))

    @to_its_end
    async def next_due_ms(self) -> int | None:
        """Milliseconds until the next due row is claimable (0: now), None if there is none."""
        async with read(self._engine) as connection:
            first: int | None = (
                await connection.execute(select(func.min(due.c.ready_at)))
            ).scalar_one()
            if first is None:
                return None
            return max(0, -(-(first - await self._now(connection)) // 1_000))

    # -------------------------------------------------------------------------------------- house

    @to_its_end
    async def now(self) -> int:
        """The database's clock, Unix microseconds."""
        async with read(self._engine) as connection:
            return await self._now(connection)

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()

    @to_its_end
    async def check(self) -> None:
        """Raises StoreUnavailable unless the database answers and a write reaches it."""
        async with write(self._engine) as connection:
            beaten = await connection.execute(update(pulse).values(at=now_us()))
            if not beaten.rowcount:
                await connection.execute(insert(pulse).values(at=now_us()))

    async def rewrap(self, limit: int = PAGE) -> int:
        """Wraps up to `limit` stream keys under the current master key; how many there were."""
        if self._keys is None:
            raise ValueError("a store without master keys cannot wrap keys")
        async with write(self._engine) as connection:
            return await self._keys.rewrap(connection, limit)

    async def close(self) -> None:
        """Finishes the appends under way and closes the engine. May be repeated."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        await close_engine(self._engine)

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits work that goes on to its end should the caller be cancelled."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # seen, so that an abandoned failure is no warning
