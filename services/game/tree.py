"""The order over all games: heads of logs as leaves of a Merkle tree, in the game's database.

A leaf says that a stream's log had come to a version with a chain hash: 16 octets of the stream's
id, 8 of the version (unsigned, big-endian), 32 of the hash. Leaves are numbered from 0 without a
gap. The roots of complete subtrees of 256, 256², … leaves are kept as nodes, so a proof reads a few
hundred rows however large the tree is; all else is computed from the leaves themselves.

Numbers are given by one transaction at a time (`take_turn`). Reading needs no turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Uuid,
    and_,
    func,
    insert,
    or_,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from engines.merkle import leaf_hash
from services.kernel import merkle
from services.kernel.merkle import Growth, Range

metadata = MetaData()
leaves = Table(
    "leaves",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("stream", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
)
nodes = Table(
    "nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)
"""`level` 1 is over 256 leaves, 2 over 256²; `place` counts a level's nodes from the left."""

LEVEL_BITS = 8
TURN = 0x6B6F7A7A
"""The advisory lock under which PostgreSQL gives numbers to one transaction at a time."""
ASKED_AT_ONCE = 500
"""Of how many streams the last leaves are asked in one statement."""


class TreeBroken(Exception):
    """The stored tree is not one that was ever made. The text says where, for operators."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """That a stream's log had come to this version with this chain hash."""

    stream: UUID
    version: int
    head: bytes

    @property
    def hash(self) -> bytes:
        """The leaf's hash in the tree."""
        return leaf_hash(self.stream.bytes + self.version.to_bytes(8) + self.head)


async def take_turn(connection: AsyncConnection) -> None:
    """Wait until no other transaction gives numbers; SQLite's writers take turns anyway."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": TURN})


async def size_of(connection: AsyncConnection) -> int:
    """How many leaves there are."""
    last = (await connection.execute(select(func.max(leaves.c.number)))).scalar_one()
    return 0 if last is None else last + 1


async def last_leaves(connection: AsyncConnection, streams: Sequence[UUID]) -> dict[UUID, Leaf]:
    """The last leaf of each of the streams that has one."""
    found = {}
    last = (
        select(leaves.c.stream, func.max(leaves.c.version).label("version"))
        .group_by(leaves.c.stream)
    )  # fmt: skip
    for start in range(0, len(streams), ASKED_AT_ONCE):
        asked = last.where(leaves.c.stream.in_(streams[start : start + ASKED_AT_ONCE])).subquery()
        same = and_(leaves.c.stream == asked.c.stream, leaves.c.version == asked.c.version)
        query = select(leaves.c.stream, leaves.c.version, leaves.c.head).join(asked, same)
        for row in await connection.execute(query):
            found[row.stream] = Leaf(*row)
    return found


async def leaves_of(connection: AsyncConnection, streams: Sequence[UUID]) -> dict[UUID, list[Leaf]]:
    """All leaves of some streams, by version."""
    query = select(leaves.c.stream, leaves.c.version, leaves.c.head)
    asked = query.where(leaves.c.stream.in_(streams)).order_by(leaves.c.version)
    found: dict[UUID, list[Leaf]] = {stream: [] for stream in streams}
    for row in await connection.execute(asked):
        found[row.stream].append(Leaf(*row))
    return found


async def covering_leaf(
    connection: AsyncConnection, stream: UUID, version: int | None
) -> tuple[int, Leaf] | None:
    """Number and leaf of a stream's first leaf at this version or a later one; None: its last."""
    query = select(leaves).where(leaves.c.stream == stream).limit(1)
    if version is None:
        query = query.order_by(leaves.c.version.desc())
    else:
        query = query.where(leaves.c.version >= version).order_by(leaves.c.version)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else (row.number, Leaf(row.stream, row.version, row.head))


async def grown(connection: AsyncConnection) -> Growth:
    """The tree as it stands, ready to grow."""
    size = await size_of(connection)
    return Growth(size, await complete_roots(connection, merkle.peaks(0, size)))


async def add(connection: AsyncConnection, tree: Growth, new: Sequence[Leaf]) -> None:
    """Append leaves; the caller has the turn, and has taken `tree` since."""
    leaf_rows, node_rows = [], []
    for leaf in new:
        number = tree.size
        row = {"stream": leaf.stream, "version": leaf.version, "head": leaf.head}
        leaf_rows.append({"number": number, **row})
        for (start, stop), root in tree.add(leaf.hash):
            if (kept := kept_at(start, stop)) is not None:
                node_rows.append({"level": kept[0], "place": kept[1], "hash": root})
    if leaf_rows:
        await connection.execute(insert(leaves), leaf_rows)
    if node_rows:
        await connection.execute(insert(nodes), node_rows)


async def roots(connection: AsyncConnection, ranges: Sequence[Range]) -> list[bytes]:
    """The roots of subtrees; raises TreeBroken where the database lacks a leaf or a node."""
    parts = [merkle.peaks(*each) for each in ranges]
    complete = iter(await complete_roots(connection, [one for each in parts for one in each]))
    return [merkle.joined([next(complete) for _ in each]) for each in parts]


async def complete_roots(connection: AsyncConnection, ranges: Sequence[Range]) -> list[bytes]:
    """The roots of complete subtrees, each from at most 128 rows."""
    spans: dict[int, list[Range]] = {}
    for start, stop in ranges:
        level = ((stop - start).bit_length() - 1) // LEVEL_BITS
        bits = level * LEVEL_BITS
        spans.setdefault(level, []).append((start >> bits, stop >> bits))
    known: dict[tuple[int, int], bytes] = {}
    for level, wanted in spans.items():
        if level:
            found = await connection.execute(
                select(nodes.c.place, nodes.c.hash).where(
                    nodes.c.level == level, _within(nodes.c.place, wanted)
                )
            )
            known |= {(level, row.place): row.hash for row in found}
        else:
            found = await connection.execute(select(leaves).where(_within(leaves.c.number, wanted)))
            known |= {(0, r.number): Leaf(r.stream, r.version, r.head).hash for r in found}
    return [_root(known, start, stop) for start, stop in ranges]


def _within(column: Any, spans: Iterable[Range]) -> Any:
    return or_(*(and_(column >= start, column < stop) for start, stop in spans))


def _root(known: dict[tuple[int, int], bytes], start: int, stop: int) -> bytes:
    """The root of a complete subtree from the rows it is kept in."""
    level = ((stop - start).bit_length() - 1) // LEVEL_BITS
    bits = level * LEVEL_BITS
    tree = Growth()
    for place in range(start >> bits, stop >> bits):
        if (level, place) not in known:
            what = f"node {place} of level {level}" if level else f"leaf {place}"
            raise TreeBroken(f"{what} is missing")
        for _ in tree.add(known[level, place]):
            pass
    return tree.root


def kept_at(start: int, stop: int) -> tuple[int, int] | None:
    """Level and place of the node in which a complete subtree's root is kept, if it is."""
    bits = (stop - start).bit_length() - 1
    if not bits or bits % LEVEL_BITS:
        return None
    return bits // LEVEL_BITS, start >> bits
