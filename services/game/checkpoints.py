"""Checkpoints: the heads of games that advanced take their place in the tree, and it is signed.

Appending a move writes nothing for it. Every replica remembers which games it has appended to, and
every `interval_ms` gives their heads the next numbers in the tree and signs the tree. What a
replica did not live to do, a sweep over all heads finds: a page of it each round, the newest games
first, from the start of the process on.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import BigInteger, Column, LargeBinary, Row, Table, Text, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.game import accesses, tree
from services.game.kept import KeptNote
from services.game.tree import Leaf, TreeBroken, leaves
from services.kernel import merkle
from services.runtime import metrics
from services.runtime.database import database_now, read, write
from services.runtime.drain import Drain
from services.runtime.notes import Checkpoint, sign_note
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.schema import heads

log = structlog.get_logger(__name__)

checkpoints = Table(
    "checkpoints",
    tree.metadata,
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    Column("root", LargeBinary, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
)

HEADS_A_READ = 500
LEAVES_A_TURN = 1_000
"""How many leaves one transaction appends at most: it keeps SQLite's only writer from appends."""
SWEPT_A_ROUND = 2_000
"""How many heads a round looks at that no append of this process has named."""
CATCH_UP_MS = 100
"""The pause after a round whose sweep was full of news: a database of before there was a tree."""

COVERED = (
    select(func.max(leaves.c.version))
    .where(leaves.c.stream == heads.c.stream)
    .scalar_subquery()
    .label("covered")
)
"""Beside a head: the version of its last leaf, NULL for none."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What no checkpoint covers yet, as this process knows it: how many of the games it appended
    to, and the milliseconds since its last round was done."""

    games: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far the tree covers the logs, counted over all of them.

    `oldest_at` is when the longest uncovered of the logs' ends was recorded, Unix microseconds.
    """

    streams: int
    uncovered_streams: int
    uncovered_events: int
    oldest_at: int | None


@dataclass(slots=True)
class Checkpointer:
    """Keeps the tree of one database in step with its logs. `key` is the game service's own;
    `kept` is where an embedded database's last checkpoint is kept beside it."""

    engine: AsyncEngine
    key: Ed25519PrivateKey
    interval_ms: int
    kept: KeptNote | None = None
    _dirty: set[UUID] = field(default_factory=set)
    _swept_to: UUID | None = None
    _far_behind: bool = False
    _done_at: float | None = None
    _signed: Checkpoint | None = None

    def advanced(self, stream: UUID) -> None:
        """This process has appended to a stream."""
        self._dirty.add(stream)

    def tail(self) -> Tail:
        """How much waits for the next checkpoint; cheap, for health and metrics."""
        now = asyncio.get_running_loop().time()
        since = 0 if self._done_at is None else round((now - self._done_at) * 1_000)
        return Tail(len(self._dirty), since)

    def __post_init__(self) -> None:
        if self.kept is not None:
            self._signed = self.kept.read()

    async def run(self, drain: Drain) -> None:
        """A round every interval until the process drains."""
        self._done_at = asyncio.get_running_loop().time()
        while not drain.started.is_set():
            await self.try_round()
            pause_ms = CATCH_UP_MS if self._far_behind else self.interval_ms
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1_000):
                    await drain.started.wait()

    async def try_round(self) -> None:
        """A round; what keeps it from being done is logged, and the next one makes up for it."""
        outcome = "failed"
        try:
            await self.round()
            outcome = "done"
        except StoreUnavailable as error:
            outcome = "store_unavailable"
            log.warning("checkpoint_store_unavailable", problem=str(error))
        except TreeBroken as broken:
            outcome = "tree_broken"
            log.error("checkpoint_tree_broken", problem=str(broken))
        except Exception:
            log.exception("checkpoint_failed")
        metrics.CHECKPOINTS.of(outcome).inc()

    async def round(self) -> Checkpoint | None:
        """Cover what has advanced since the last round; the new checkpoint if there is any news.

        Raises StoreUnavailable, and TreeBroken where the tree is no longer the one that was signed.
        """
        dirty, self._dirty = self._dirty, set()
        swept_to = self._swept_to
        try:
            async with read(self.engine) as connection:
                moved = [*await _heads(connection, sorted(dirty)), *await self._sweep(connection)]
                moved += await accesses.head(connection)
            made = None
            for start in range(0, max(1, len(moved)), LEAVES_A_TURN):
                made = await self._cover(moved[start : start + LEAVES_A_TURN]) or made
        except BaseException:
            self._dirty |= dirty
            self._swept_to, self._far_behind = swept_to, False
            raise
        self._done_at = asyncio.get_running_loop().time()
        return made

    async def _sweep(self, connection: AsyncConnection) -> list[Leaf]:
        """The next page of heads, newest first; those of it that the tree does not have."""
        page = select(heads.c.stream, heads.c.version, heads.c.hash, COVERED)
        if self._swept_to is not None:
            page = page.where(heads.c.stream < self._swept_to)
        page = page.order_by(heads.c.stream.desc()).limit(SWEPT_A_ROUND)
        rows = (await connection.execute(page)).all()
        self._swept_to = rows[-1].stream if len(rows) == SWEPT_A_ROUND else None
        news = [Leaf(r.stream, r.version, r.hash) for r in rows if r.covered != r.version]
        self._far_behind = len(news) > SWEPT_A_ROUND // 2
        return news

    async def _cover(self, moved: Sequence[Leaf]) -> Checkpoint | None:
        """In one turn: append the leaves that are news, and sign."""
        async with write(self.engine) as connection:
            await tree.take_turn(connection)
            growth = await tree.grown(connection)
            last = await last_checkpoint(connection)
            await self._require_signed(connection, growth, last)
            news = await self._news(connection, moved)
            if news:
                await tree.add(connection, growth, news)
            if not growth.size or (last is not None and last.size == growth.size):
                return None
            made = Checkpoint(growth.size, growth.root, await database_now(connection))
            note = sign_note(made, self.key)
            row = {"size": made.size, "root": made.root, "at": made.at, "note": note}
            await connection.execute(insert(checkpoints), row)
        self._signed = made
        if self.kept is not None:
            self.kept.write(note)
        return made

    async def _news(self, connection: AsyncConnection, moved: Sequence[Leaf]) -> list[Leaf]:
        """Those leaves that go beyond the tree's last of their streams, each stream once.

        A head that does not reach that far is no longer what it was, and is said to be so.
        """
        newest = {leaf.stream: leaf for leaf in sorted(moved, key=lambda leaf: leaf.version)}
        known = await tree.last_leaves(connection, list(newest))
        behind = [s for s, leaf in known.items() if newest[s].version < leaf.version]
        for leaf in await _heads(connection, behind):  # another replica may have been faster
            if leaf.version < known[leaf.stream].version:
                log.error("head_behind_checkpoint", stream=str(leaf.stream), version=leaf.version)
        return [
            leaf
            for stream, leaf in sorted(newest.items())
            if stream not in known or known[stream].version < leaf.version
        ]

    async def _require_signed(
        self, connection: AsyncConnection, growth: merkle.Growth, last: Checkpoint | None
    ) -> None:
        """Raise TreeBroken unless the tree continues what was signed last, here or anywhere.

        A key that signed a tree which does not would vouch for a second history.
        """
        for signed in (last, self._signed):
            if signed is None:
                continue
            if signed.size > growth.size:
                raise TreeBroken(f"{signed.size} leaves were signed, {growth.size} are left")
            if signed.size == growth.size:
                root = growth.root
            else:
                (root,) = await tree.roots(connection, [(0, signed.size)])
            if root != signed.root:
                raise TreeBroken(f"the tree of {signed.size} leaves is not the one that was signed")


async def _heads(connection: AsyncConnection, streams: Sequence[UUID]) -> list[Leaf]:
    query = select(heads.c.stream, heads.c.version, heads.c.hash)
    found = []
    for start in range(0, len(streams), HEADS_A_READ):
        asked = query.where(heads.c.stream.in_(streams[start : start + HEADS_A_READ]))
        found += [Leaf(*row) for row in await connection.execute(asked)]
    return found


async def newest_row(connection: AsyncConnection) -> Row[Any] | None:
    """The newest row of `checkpoints`, None before the first."""
    newest = select(checkpoints).order_by(checkpoints.c.size.desc()).limit(1)
    return (await connection.execute(newest)).one_or_none()


async def last_checkpoint(connection: AsyncConnection) -> Checkpoint | None:
    """The newest checkpoint, None before the first."""
    row = await newest_row(connection)
    return None if row is None else Checkpoint(row.size, row.root, row.at)


async def coverage(engine: AsyncEngine) -> Coverage:
    """How far the tree covers the logs: reads every head, page by page."""
    streams = uncovered = events = 0
    oldest: int | None = None
    after: UUID | None = None
    while True:
        page = select(heads.c.stream, heads.c.version, heads.c.recorded_at, COVERED)
        if after is not None:
            page = page.where(heads.c.stream > after)
        async with read(engine) as connection:
            rows = (
                await connection.execute(page.order_by(heads.c.stream).limit(SWEPT_A_ROUND))
            ).all()
        streams += len(rows)
        for row in rows:
            missing = row.version - (row.covered or 0)
            if missing > 0:
                uncovered += 1
                events += missing
                oldest = row.recorded_at if oldest is None else min(oldest, row.recorded_at)
        if len(rows) < SWEPT_A_ROUND:
            return Coverage(streams, uncovered, events, oldest)
        after = rows[-1].stream
