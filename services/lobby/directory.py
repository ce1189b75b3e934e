"""Every open table, in memory: what lists show, what watchers are told, what quick play looks at.

What this process appends is here at once. What others append is read from the heads that advanced
since the last look (`fresh`), so a look costs what has changed, however many tables there are. An
append is stored a moment after the time it bears, so each look goes back by `OVERLAP_US`; what took
longer still is found by a look at all open heads every `SWEEP_S`.

Everybody who watches is told from one list, in which each table stands once, at its last change: a
watcher who takes long is told less often, and nothing piles up for him.
"""

import asyncio
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from engines.records import changed
from services.kernel.errors import Refused
from services.lobby.commands import Command
from services.lobby.model import Event, Phase, Table, Variant
from services.runtime import log
from services.runtime.database import read
from services.runtime.store.api import Store
from services.runtime.store.schema import heads
from services.runtime.streams import Streams, refusals

OVERLAP_US = 2_000_000
"""How much later than its time an append may be stored and still be found by the next look."""
SWEEP_S = 30.0
INTERVAL_S = 0.5
"""How often others' appends are looked for while anybody watches."""
GAP_S = 0.05
"""The least time between two looks, however much happens."""
TOGETHER = 20
"""So many tables are read and folded at once; calls are answered before the next."""
CLOSED_KEPT = 1_000
"""So many closed tables are remembered, for those who were shown them."""


List: TypeAlias = tuple[Variant | None, bool]
"""Listed tables: those of a game or of all, those with a free seat or all."""


@dataclass(frozen=True, slots=True)
class News:
    """Tables that changed after `since`, in the order of their last changes, and where that leads;
    `whole` is false where some of them are forgotten."""

    tables: tuple[tuple[UUID, Table], ...]
    number: int
    whole: bool


class Directory:
    """The open tables of one database."""

    def __init__(
        self,
        engine: AsyncEngine,
        store: Store,
        streams: Streams[Table, Command, Event],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._engine = engine
        self._store = store
        self._streams = streams
        self._interval_s = interval_s
        self._known: dict[UUID, Table] = {}
        self._listed: dict[List, list[UUID]] = {
            (variant, free): [] for variant in (None, *Variant) for free in (False, True)
        }
        self._of: dict[UUID, set[UUID]] = {}
        self._closed: OrderedDict[UUID, None] = OrderedDict()
        self._changes: OrderedDict[UUID, int] = OrderedDict()
        self._number = 0
        self._forgotten = 0
        self._changed = asyncio.Event()
        self._woken = asyncio.Event()
        self._watchers = 0
        self._reading = asyncio.Lock()
        self._looked = self._swept = -SWEEP_S
        self._mark = 0

    def published(self, table_id: UUID, table: Table) -> None:
        """A table as it is now, if that is newer than what is known of it."""
        before = self._known.get(table_id)
        if before is not None and before.version >= table.version:
            return
        self._known[table_id] = table
        self._index(table_id, before, table)
        self._number += 1
        self._changes[table_id] = self._number
        self._changes.move_to_end(table_id)
        if table.phase is Phase.CLOSED:
            self._closed[table_id] = None
            self._forget()
        self._changed.set()
        self._changed = asyncio.Event()

    async def fresh(self) -> None:
        """Take in all that was stored when this was called; raises Refused UNAVAILABLE.

        Those who call while somebody looks share the next look.
        """
        clock = asyncio.get_running_loop().time
        asked = clock()
        async with self._reading:
            if self._looked > asked:
                return
            looked = clock()
            with refusals():
                await self._look(sweep=looked - self._swept >= SWEEP_S)
            self._looked = looked

    def find(self, table_id: UUID) -> Table | None:
        """A table as it is known here."""
        return self._known.get(table_id)

    def newest(
        self, before: UUID | None = None, variant: Variant | None = None, *, free: bool = False
    ) -> Iterator[tuple[UUID, Table]]:
        """Listed tables, all or those with a free seat, newest first, below `before`."""
        ids = self._listed[variant, free]
        end = len(ids) if before is None else bisect_left(ids, before)
        for table_id in reversed(ids[:end]):
            yield table_id, self._known[table_id]

    def of(self, player: UUID, before: UUID | None = None) -> Iterator[tuple[UUID, Table]]:
        """Tables where the player sits or is invited, newest first, below `before`."""
        for table_id in sorted(self._of.get(player, ()), reverse=True):
            if before is None or table_id < before:
                yield table_id, self._known[table_id]

    def news(self, since: int) -> News:
        """What happened after a number that `news` gave, or 0."""
        found = []
        for table_id in reversed(self._changes):
            if self._changes[table_id] <= since:
                break
            found.append((table_id, self._known[table_id]))
        return News(tuple(reversed(found)), self._number, since >= self._forgotten)

    @property
    def number(self) -> int:
        """Where the news of this moment ends."""
        return self._number

    def next_change(self) -> asyncio.Event:
        """Set at the next change. To miss none, take it before asking for news."""
        return self._changed

    def enter(self) -> None:
        """Somebody watches."""
        self._watchers += 1
        self._woken.set()

    def leave(self) -> None:
        """Somebody watches no more."""
        self._watchers -= 1

    async def run(self) -> None:
        """For ever: learn of all there is, and while anybody watches look for others' appends."""
        while True:
            self._woken.clear()
            if self._watchers or not self._mark:
                try:
                    await self.fresh()
                except Refused as refused:
                    log.get().warning("tables_wait_for_the_store", reason=refused.reason)
            await asyncio.sleep(GAP_S)
            try:
                async with asyncio.timeout(self._interval_s if self._watchers else None):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _look(self, *, sweep: bool) -> None:
        now = await self._store.now()
        query = select(heads.c.stream, heads.c.version)
        if sweep:
            query = query.where(~heads.c.ended)
        else:
            query = query.where(heads.c.recorded_at > self._mark - OVERLAP_US)
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
        versions = {row.stream: row.version for row in rows}
        if sweep:  # what was open and is not among the open ones has closed
            versions |= await self._closed_since(versions)
        await self._take_in(versions)
        self._mark = now
        if sweep:
            self._swept = asyncio.get_running_loop().time()

    async def _closed_since(self, still_open: Container[UUID]) -> dict[UUID, int]:
        """The versions of tables that are not open any more; those that a database lost when it
        failed over are taken for closed."""
        gone = {
            table_id: table
            for table_id, table in self._known.items()
            if table.phase is not Phase.CLOSED and table_id not in still_open
        }
        found = await self._store.heads(list(gone)) if gone else {}
        for table_id, table in gone.items():
            if table_id not in found:
                lost = changed(table, phase=Phase.CLOSED, version=table.version + 1)
                self.published(table_id, lost)
        return {table_id: head.version for table_id, head in found.items()}

    async def _take_in(self, versions: dict[UUID, int]) -> None:
        newer = []
        for table_id, version in versions.items():
            known = self._known.get(table_id)
            if known is None or known.version < version:
                newer.append(table_id)
        for start in range(0, len(newer), TOGETHER):
            some = newer[start : start + TOGETHER]
            try:
                await self._read(some)
            except Refused as refused:
                if refused.reason != "LOG_DAMAGED":
                    raise
                for table_id in some:
                    await self._read_alone(table_id)

    async def _read(self, tables: Sequence[UUID]) -> None:
        known = {t: self._streams.kept(t) or self._streams.nothing for t in tables}
        for table_id, changes in (await self._streams.since(known)).items():
            loaded = changes[-1].after if changes else known[table_id]
            if loaded.version:
                self.published(table_id, loaded.state)

    async def _read_alone(self, table_id: UUID) -> None:
        """One of several of which one is damaged; that one is not shown."""
        try:
            self.published(table_id, (await self._streams.load(table_id)).state)
        except Refused as refused:
            if refused.reason != "LOG_DAMAGED":
                raise

    def _index(self, table_id: UUID, before: Table | None, after: Table) -> None:
        was, now = _people(before), _people(after)
        for player in was - now:
            self._of[player].discard(table_id)
            if not self._of[player]:
                del self._of[player]
        for player in now - was:
            self._of.setdefault(player, set()).add(table_id)
        for each in _lists(before) - _lists(after):
            ids = self._listed[each]
            del ids[bisect_left(ids, table_id)]
        for each in _lists(after) - _lists(before):
            insort(self._listed[each], table_id)

    def _forget(self) -> None:
        while len(self._closed) > CLOSED_KEPT:
            table_id, _ = self._closed.popitem(last=False)
            self._forgotten = max(self._forgotten, self._changes.pop(table_id))
            del self._known[table_id]


def _people(table: Table | None) -> set[UUID]:
    """Who sits at an open table or may come by invitation."""
    if table is None or table.rules is None or table.phase is Phase.CLOSED:
        return set()
    return {*(seat.player for _, seat in table.people()), *table.rules.invited}


def _lists(table: Table | None) -> set[List]:
    """The lists that an open table stands in."""
    if table is None or table.rules is None or table.phase is Phase.CLOSED:
        return set()
    if not table.rules.listed:
        return set()
    free = (False, True) if table.free() else (False,)
    return {(variant, each) for variant in (None, table.rules.variant) for each in free}
