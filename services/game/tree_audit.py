"""Proof that the tree is what was signed: computed again from its leaves, to the last hash."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Row, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.game import accesses, tree
from services.game.accesses import ACCESSES
from services.game.checkpoints import checkpoints, newest_row
from services.game.tree import Leaf, leaves, nodes
from services.kernel.merkle import Growth
from services.runtime.database import read
from services.runtime.notes import Checkpoint, FalseNote, open_note
from services.runtime.signing import archive_octets, is_signed
from services.runtime.store.chain import GENESIS
from services.runtime.store.months import archived

LEAVES_A_STEP = 1_000
"""So many leaves are computed before anything else has its turn."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far it has come, and what has been found wrong since the step before."""

    leaves: int
    of: int
    checkpoints: int
    faults: tuple[str, ...]


async def verify_tree(engine: AsyncEngine, keys: Sequence[Ed25519PublicKey]) -> AsyncIterator[Step]:
    """Compute the tree again; the first fault is the cause of those that follow.

    What is appended meanwhile is left to the next time. Raises StoreUnavailable.
    """
    async with read(engine) as connection:
        of = await tree.size_of(connection)
    audit = _TreeAudit(keys)
    whole = True
    while whole and audit.growth.size < of:
        async with read(engine) as connection:
            whole = await audit.step(connection, min(of, audit.growth.size + LEAVES_A_STEP))
        yield audit.told(of)
    async with read(engine) as connection:
        await audit.end(connection)
    audit.faults += await _accesses_faults(engine, audit.accesses)
    audit.faults += await _archive_faults(engine, keys)
    yield audit.told(of)


@dataclass(slots=True)
class _TreeAudit:
    """A tree on the way to its end: what it has come to, and what was wrong since it was told."""

    keys: Sequence[Ed25519PublicKey]
    growth: Growth = field(default_factory=Growth)
    signed: int = 0
    faults: list[str] = field(default_factory=list)
    accesses: dict[int, bytes] = field(default_factory=dict)

    def told(self, of: int) -> Step:
        """The step that was made."""
        faults, self.faults = tuple(self.faults), []
        return Step(self.growth.size, of, self.signed, faults)

    async def step(self, connection: AsyncConnection, stop: int) -> bool:
        """Go on to a size; whether all leaves up to it are there."""
        start = self.growth.size
        after = and_(checkpoints.c.size > start, checkpoints.c.size <= stop)
        found = await connection.execute(select(checkpoints).where(after))
        signed = {row.size: row for row in found}
        rows = await connection.execute(
            select(leaves)
            .where(leaves.c.number >= start, leaves.c.number < stop)
            .order_by(leaves.c.number)
        )
        kept: dict[tuple[int, int], bytes] = {}
        for row in rows:
            if row.number != self.growth.size:
                break
            leaf = Leaf(row.stream, row.version, row.head)
            if leaf.stream == ACCESSES:
                self.accesses[leaf.version] = leaf.head
            for part, root in self.growth.add(leaf.hash):
                if (place := tree.kept_at(*part)) is not None:
                    kept[place] = root
            if self.growth.size in signed:
                self._checkpoint(signed[self.growth.size])
        await self._nodes(connection, kept)
        if self.growth.size < stop:
            self.faults.append(f"leaf {self.growth.size} is missing")
        return self.growth.size == stop

    def _checkpoint(self, row: Row[Any]) -> None:
        """Compare a stored checkpoint with the tree it was made of."""
        self.signed += 1
        try:
            noted = open_note(row.note, self.keys)
        except FalseNote as false:
            self.faults.append(f"checkpoint {row.size}: {false}")
            return
        if noted != Checkpoint(row.size, row.root, row.at):
            self.faults.append(f"checkpoint {row.size}: the note says otherwise than its row")
        if noted.root != self.growth.root:
            self.faults.append(f"checkpoint {row.size}: the leaves are not those that were signed")

    async def _nodes(self, connection: AsyncConnection, kept: dict[tuple[int, int], bytes]) -> None:
        if not kept:
            return
        each = (and_(nodes.c.level == level, nodes.c.place == place) for level, place in kept)
        rows = await connection.execute(select(nodes).where(or_(*each)))
        stored = {(row.level, row.place): row.hash for row in rows}
        for (level, place), root in kept.items():
            if stored.get((level, place)) != root:
                self.faults.append(f"node {place} of level {level} is not that of its leaves")

    async def end(self, connection: AsyncConnection) -> None:
        """Whether anything was signed that is no longer there."""
        newest = await newest_row(connection)
        size = await tree.size_of(connection)
        if newest is not None and newest.size > size:
            self.faults.append(f"{newest.size} leaves were signed, {size} are left")


async def _accesses_faults(engine: AsyncEngine, ends: dict[int, bytes]) -> list[str]:
    """What is wrong with the record of accesses, whose ends the tree has at some numbers."""
    previous, number = GENESIS, 0
    while True:
        async with read(engine) as connection:
            rows = await accesses.read_after(connection, number, LEAVES_A_STEP)
        wrong = accesses.first_wrong(rows, previous, number)
        if wrong is not None:
            return [f"access {wrong} is not what was written, or missing"]
        for row in rows:
            if ends.pop(row.number, row.hash) != row.hash:
                return [f"access {row.number} is not the one that was signed"]
        if not rows:
            return [f"access {number + 1} is missing"] if ends else []
        previous, number = rows[-1].hash, rows[-1].number


async def _archive_faults(engine: AsyncEngine, keys: Sequence[Ed25519PublicKey]) -> list[str]:
    """The months that are said to be archived without the game service's signature."""
    async with read(engine) as connection:
        left = await archived(connection)
    return [
        f"the month {month} is said to be archived, and no key of the game service signed it"
        for month, each in sorted(left.items())
        if not is_signed(each.signature, archive_octets(str(month), each.manifest), keys)
    ]
