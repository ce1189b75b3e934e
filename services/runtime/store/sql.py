"""The event store on SQLAlchemy Core, for SQLite and PostgreSQL alike."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from engines.records import maker
from services.kernel.envelope import Append, Appended, Claimed, Head, Recorded
from services.runtime.database import close_engine, now_us, read, write
from services.runtime.store import months
from services.runtime.store.api import (
    Archived,
    Conflict,
    Late,
    Log,
    StoreUnavailable,
    Unstorable,
)
from services.runtime.store.claims import Claims
from services.runtime.store.committer import (
    NOTHING,
    Committer,
    Mark,
    Pending,
    Verdict,
    comes_after,
    due_after,
    made_ready,
    marks,
    request_mark,
    requests_after,
    requests_seen,
)
from services.runtime.store.keys import Rewrapped, StreamKeys
from services.runtime.store.postgres import PostgresWriter
from services.runtime.store.queries import HEADS, MARK, MARK_AND_REQUESTS
from services.runtime.store.reading import Published, Reader
from services.runtime.store.rows import (
    first_outcome,
    hides,
    require_storable,
)
from services.runtime.store.schema import heads, pulse, tags
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sqlite import SqliteWriter

P = ParamSpec("P")
T = TypeVar("T")

_mark = maker(Mark)
_appended = maker(Appended)

PAGE = 500

MARKS_KEPT = 16_384
"""Of how many streams the end is kept in memory, so that an append needs no read before it; none of
those that have ended, whose request ids would lie there for nothing."""
STALE_TRIES = 3


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
    tests. `published` finds secrets where a master key is missing (`reading.Published`). The store
    closes the engine it was given.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        keys: MasterKeys | None,
        *,
        clock: Callable[[], int] | None = None,
        random: Callable[[int], bytes] = secrets.token_bytes,
        published: Published | None = None,
    ) -> None:
        self._engine = engine
        self._keys = None if keys is None else StreamKeys(keys, random)
        self._reader = Reader(engine, self._keys, published)
        self._clock = clock
        self._claims = Claims(engine, clock)
        self._random = random
        self._under_way: set[asyncio.Task[Any]] = set()
        self._marks: OrderedDict[int, Mark] = OrderedDict()
        """By the number of a stream: a UUID is hashed in Python, six times as slowly."""
        self._chains_ahead = engine.dialect.name == "postgresql"
        self._writer = (PostgresWriter if self._chains_ahead else SqliteWriter)(engine, clock)
        self._committer = Committer(self._writer.write, self._writer.LANES)

    # ---------------------------------------------------------------------------------- appending

    async def append(self, append: Append) -> Appended:
        """Stores events, secrets, due rows, tags and the new head, or nothing.

        A caller that is cancelled leaves a begun append to finish. Raises ValueError for an
        append that could never be stored, Unstorable for one the database refuses.
        """
        require_storable(append)
        pending = self._at_once(append)
        if pending is None:
            return await self._finish(self._append(append))
        verdict = await self._commit(pending)
        if verdict is Verdict.WON:
            return self._won(pending)
        return await self._finish(self._append(append, pending, verdict))

    async def _append(
        self, append: Append, pending: Pending | None = None, verdict: Verdict = Verdict.STALE
    ) -> Appended:
        """As `append`, with reads before it, or after a first try that was not won."""
        for _ in range(STALE_TRIES):
            if verdict is not Verdict.STALE:
                break
            pending = await self._looked_up(append)
            if pending is None:
                verdict = Verdict.LOST
                break
            verdict = await self._commit(pending)
        if verdict is Verdict.WON and pending is not None:
            return self._won(pending)
        self._marks.pop(append.stream.int, None)
        if verdict is Verdict.STALE:
            raise StoreUnavailable("the database's clock or a head keeps changing")
        if earlier := await self.find_request(append.stream, append.request_id):
            outcome = first_outcome(earlier, append)
            ours = pending is not None and outcome.events == pending.rows
            return replace(outcome, repeated=False) if ours else outcome
        raise Late if verdict is Verdict.LATE else Conflict

    async def _commit(self, pending: Pending) -> Verdict:
        try:
            return await self._committer.commit(pending)
        except Unstorable:
            # Perhaps another append of this stream, or this one a first time, came between.
            append = pending.append
            await self._require_here(append.stream)
            if not await self.find_request(append.stream, append.request_id):
                head = await self.head(append.stream)
                if (head.version if head else 0) == append.expected:
                    raise
            return Verdict.LOST

    def _at_once(self, append: Append) -> Pending | None:
        """The append ready to be committed, None if something has to be read before."""
        mark = self._marks.get(append.stream.int, NOTHING)
        if self._chains_ahead and (
            not comes_after(append, mark)
            or mark.requests is None
            or request_mark(append.request_id) in mark.requests
        ):
            return None
        sealing = None
        if hides(append):
            keys = self._required_keys()
            key = keys.known(append.stream)
            if key is None and append.expected:
                return None
            sealing = (key, None) if key is not None else keys.make(append.stream)
        return made_ready(append, mark, sealing, self._random)

    async def _looked_up(self, append: Append) -> Pending | None:
        """The append ready to be committed, None if its stream has another version by now or has
        its request id."""
        async with read(self._engine) as connection:
            mark = NOTHING
            query = MARK_AND_REQUESTS if self._chains_ahead else MARK
            found = (await connection.execute(query, {"stream": append.stream})).one_or_none()
            if found is not None:
                version, octets, recorded_at, *stored = found
                requests = marks(stored[0]) if stored else None
                mark = Mark(version, octets, recorded_at, None, requests)
                if stored and append.request_id in stored[0]:
                    return None
            if not comes_after(append, mark):
                return None
            sealing = None
            if hides(append):
                keys = self._required_keys()
                key = await keys.find(connection, append.stream)
                sealing = (key, None) if key is not None else keys.make(append.stream)
        return made_ready(append, mark, sealing, self._random)

    def _required_keys(self) -> StreamKeys:
        if self._keys is None:
            raise ValueError("a store without master keys cannot store secrets")
        return self._keys

    def _won(self, pending: Pending) -> Appended:
        rows = pending.rows
        if pending.append.plan.ended:
            self._marks.pop(pending.append.stream.int, None)
        else:
            self._mark(rows[-1], due_after(pending), requests_after(pending))
        if pending.sealing is not None and self._keys is not None:
            self._keys.keep(pending.append.stream, pending.sealing.key)
        return _appended(rows, False)

    def _mark(
        self, last: Recorded, names: frozenset[tuple[str, str]] | None, requests: bytes | None
    ) -> None:
        """Remembers the end of a stream, for the append that follows it."""
        stream = last.stream.int
        self._marks[stream] = _mark(last.version, last.hash, last.recorded_at, names, requests)
        self._marks.move_to_end(stream)
        if len(self._marks) > MARKS_KEPT:
            self._marks.popitem(last=False)

    def _saw(self, rows: Sequence[Recorded]) -> None:
        """Remembers the end of rows that were read, unless it is the end that is known."""
        if rows:
            known = self._marks.get(rows[-1].stream.int)
            if known is None or known.hash != rows[-1].hash:
                self._mark(rows[-1], None, requests_seen(known, rows))

    # ------------------------------------------------------------------------------------ reading

    @to_its_end
    async def read(self, stream: UUID, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """The stream's events with a version above `after`, in order, secrets opened."""
        rows = await self._reader.events(stream, after, limit)
        if not rows:
            await self._require_here(stream)
        if limit is None:  # else there may be more, and what is known of the end stays
            self._saw(rows)
        return rows

    async def _require_here(self, stream: UUID) -> None:
        """Raises Archived where a stream that is not here began in a month that has left."""
        if months.is_young(stream):
            return
        async with read(self._engine) as connection:
            left = (await months.archived(connection)).get(months.month_of(stream))
        if left is not None:
            raise Archived(str(left.month), left.archived_at)

    @to_its_end
    async def read_each(self, after: Mapping[UUID, int]) -> dict[UUID, list[Recorded]]:
        """The same of several streams, each above a version of its own."""
        found = await self._reader.events_of_each(after)
        for rows in found.values():
            self._saw(rows)
        return found

    @to_its_end
    async def whole(self, stream: UUID) -> Log:
        """The stream's head and all of its events, as of one moment, secrets opened."""
        return await self._reader.whole(stream)

    @to_its_end
    async def wholes(self, streams: Sequence[UUID]) -> dict[UUID, Log]:
        """The same of several streams, of those that have events."""
        return await self._reader.wholes(streams)

    @to_its_end
    async def find_request(self, stream: UUID, request_id: str) -> Appended | None:
        """The outcome of an earlier append with this request id."""
        rows = await self._reader.of_request(stream, request_id)
        return Appended(tuple(rows), repeated=True) if rows else None

    @to_its_end
    async def head(self, stream: UUID) -> Head | None:
        """The stream's head, or None if it does not exist."""
        return await self._reader.head(stream)

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

    async def streams(self, after: UUID | None = None) -> AsyncIterator[Head]:
        """Every stream, in the order of ids, above `after`, read page by page."""
        query = HEADS.order_by(heads.c.stream).limit(PAGE)
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

    @to_its_end
    async def claim(
        self, worker: str, limit: int, lease_ms: int, but: Collection[UUID] = ()
    ) -> list[Claimed]:
        """Takes due rows whose moment has come, for `lease_ms`; nobody else gets them meanwhile."""
        return await self._claims.claim(worker, limit, lease_ms, but)

    @to_its_end
    async def postpone(self, claimed: Claimed, after_ms: int) -> None:
        """Gives a row back, to be claimed again after `after_ms`; nothing if the claim is over."""
        await self._claims.postpone(claimed, after_ms)

    @to_its_end
    async def drop(self, claimed: Claimed) -> None:
        """Deletes a claimed row without an append; nothing if the claim is over."""
        await self._claims.drop(claimed)

    @to_its_end
    async def next_due_ms(self, but: Collection[UUID] = ()) -> int | None:
        """Milliseconds until a due row may be claimable (0: now), never later than one is; None if
        there is none. Those of the streams `but` do not count."""
        return await self._claims.next_due_ms(but)

    async def lag_ms(self) -> int:
        """How long the due row that has waited longest has been claimable, milliseconds."""
        return await self._claims.lag_ms()

    # -------------------------------------------------------------------------------------- house

    @property
    def waiting(self) -> int:
        """How many appends wait for a transaction."""
        return self._committer.waiting

    @to_its_end
    async def now(self) -> int:
        """The database's clock, Unix microseconds."""
        async with read(self._engine) as connection:
            return await self._claims.now(connection)

    @to_its_end
    async def check(self) -> None:
        """Raises StoreUnavailable unless the database answers and a write reaches it."""
        self._committer.require_alive()
        async with write(self._engine) as connection:
            beaten = await connection.execute(update(pulse).values(at=now_us()))
            if not beaten.rowcount:
                await connection.execute(insert(pulse).values(at=now_us()))

    @property
    def master_keys(self) -> tuple[str, frozenset[str]]:
        """The id of the master key that seals new streams, and the ids of all that are here."""
        keys = self._required_keys()
        return keys.current, keys.present

    async def rewrap(self, after: UUID | None = None, limit: int = PAGE) -> Rewrapped:
        """Wraps up to `limit` stream keys, of streams after this one, under the current master key.

        Those of master keys that this process was not given are left as they are.
        """
        async with write(self._engine) as connection:
            return await self._required_keys().rewrap(connection, after, limit)

    async def close(self) -> None:
        """Finishes the appends under way and closes the engine. May be repeated."""
        await self._committer.finish()
        while self._under_way:
            await asyncio.wait(self._under_way)
        await self._committer.finish()
        await self._writer.close()
        await close_engine(self._engine)

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits work that goes on to its end should the caller be cancelled."""
        return await asyncio.shield(self._begin(work))

    def _begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Starts work that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # seen, so that an abandoned failure is no warning
