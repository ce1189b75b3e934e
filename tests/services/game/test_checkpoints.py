"""Checkpoints: every head that advanced gets its place in the tree, whoever appended and died."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import exc, func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from engines.merkle import leaf_hash
from services.game import checkpoints, tree
from services.game.checkpoints import Checkpointer, coverage, last_checkpoint
from services.game.server import FOLDERS
from services.game.tree import Leaf, TreeBroken, leaves, nodes
from services.game.tree_audit import verify_tree
from services.kernel import merkle
from services.runtime.database import SQLITE, open_engine, read, write
from services.runtime.drain import Drain
from services.runtime.notes import open_note
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.kernel.trees import defined
from tests.runtime.appends import append, numbered
from tests.runtime.owner import as_owner

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@dataclass(frozen=True)
class Place:
    """A game's database: its store, and a checkpointer as each replica has one."""

    engine: AsyncEngine
    store: SqlStore

    def checkpointer(self) -> Checkpointer:
        """A new replica's."""
        return Checkpointer(self.engine, KEY, 1_000)

    async def play(self, game: int, *versions: int) -> None:
        """Appends to a game after each of these versions."""
        for version in versions:
            await self.store.append(append(version, stream=numbered(game)))

    async def tree(self) -> list[Leaf]:
        """All leaves in their order, which has no gap."""
        async with read(self.engine) as connection:
            found = await connection.execute(select(leaves).order_by(leaves.c.number))
            rows = found.all()
        assert [row.number for row in rows] == list(range(len(rows)))
        return [Leaf(row.stream, row.version, row.head) for row in rows]

    async def run(self, *statements: str) -> None:
        """Runs statements as the owner of the tables might."""
        async with as_owner(self.store) as connection:
            for statement in statements:
                await connection.execute(text(statement))


@pytest.fixture(params=["sqlite", "postgresql"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A migrated database on each engine in turn."""
    if request.param == "sqlite":
        url = f"{SQLITE}:///{tmp_path}/game.db"
    else:
        url = request.getfixturevalue("postgres_url")
    engine = open_engine(await postgres.migrated(url, FOLDERS))
    store = SqlStore(engine, None)
    yield Place(engine, store)
    await store.close()


def described(rows: list[Leaf]) -> list[tuple[int, int]]:
    """Leaves in short: game and version."""
    return [(row.stream.int - numbered(0).int, row.version) for row in rows]


async def test_a_round_covers_what_advanced(place: Place) -> None:
    """Once each, at the version its log has come to, under a signature; without news, nothing."""
    replica = place.checkpointer()
    assert await replica.round() is None
    await place.play(1, 0, 1, 2)
    await place.play(2, 0)
    first = await replica.round()
    assert described(await place.tree()) == [(1, 3), (2, 1)]
    await place.play(1, 3)
    replica.advanced(numbered(1))
    second = await replica.round()
    assert await replica.round() is None
    found = await place.tree()
    assert described(found) == [(1, 3), (2, 1), (1, 4)]
    assert first is not None
    assert second is not None
    assert (first.size, second.size) == (2, 3)
    assert first.at <= second.at
    for made in (first, second):
        assert made.root == defined(leaf.hash for leaf in found[: made.size])
    heads = await place.store.heads([numbered(1), numbered(2)])
    assert found[1].head == heads[numbered(2)].hash
    assert found[2].head == heads[numbered(1)].hash
    async with read(place.engine) as connection:
        rows = (await connection.execute(select(checkpoints.checkpoints))).all()
    assert [open_note(row.note, [KEY.public_key()]) for row in rows] == [first, second]


async def test_a_sweep_finds_what_no_replica_lived_to_cover(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest games first, a page a round, and round again; what is dirty meanwhile comes at
    once."""
    monkeypatch.setattr(checkpoints, "SWEPT_A_ROUND", 2)
    for game in range(1, 6):
        await place.play(game, 0)
    replica = place.checkpointer()
    replica.advanced(numbered(1))
    for _ in range(3):
        await replica.round()
    assert described(await place.tree()) == [(1, 1), (4, 1), (5, 1), (2, 1), (3, 1)]
    await place.play(4, 1)
    for _ in range(3):
        await replica.round()
    assert described(await place.tree())[5:] == [(4, 2)]


async def test_a_round_that_fails_is_made_up_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one finds what it had found, what a sweep had come by too; and it does not hurry."""
    monkeypatch.setattr(checkpoints, "SWEPT_A_ROUND", 2)
    for game in range(1, 6):
        await place.play(game, 0)
    replica = place.checkpointer()
    with monkeypatch.context() as patch:

        async def refuse(*_: Any) -> None:
            raise TreeBroken("no")

        patch.setattr(tree, "take_turn", refuse)
        for _ in range(3):
            with pytest.raises(TreeBroken):
                await replica.round()
            assert not replica._far_behind
    await replica.round()
    assert described(await place.tree()) == [(4, 1), (5, 1)]
    assert replica._far_behind


async def test_a_database_from_before_is_covered_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a sweep finds nothing but news, the next page does not wait for the interval."""
    monkeypatch.setattr(checkpoints, "SWEPT_A_ROUND", 2)
    monkeypatch.setattr(checkpoints, "CATCH_UP_MS", 1)
    for game in range(1, 8):
        await place.play(game, 0)
    drain = Drain()
    running = asyncio.create_task(Checkpointer(place.engine, KEY, 600_000).run(drain))
    async with asyncio.timeout(20):
        while len(await place.tree()) < 7:
            await asyncio.sleep(0.01)
    drain.started.set()
    await running


async def test_replicas_take_turns(place: Place) -> None:
    """However many cover the same games at the same time, the order has no gap and each version
    comes once."""
    replicas = [place.checkpointer() for _ in range(4)]
    for turn in range(5):
        for game in range(1, 8):
            await place.play(game, turn)
        await asyncio.gather(*(replica.round() for replica in replicas))
    found = await place.tree()
    assert sorted(described(found)) == [(g, v) for g in range(1, 8) for v in range(1, 6)]
    async with read(place.engine) as connection:
        last = await last_checkpoint(connection)
    assert last is not None
    assert last.size == len(found)
    assert last.root == defined(leaf.hash for leaf in found)


async def test_what_waits_is_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tail that no checkpoint covers: games, events and since when, exactly; a round that fails
    forgets nothing."""
    monkeypatch.setattr(checkpoints, "SWEPT_A_ROUND", 3)
    replica = place.checkpointer()
    assert replica.tail().games == 0
    for game in range(1, 9):
        await place.play(game, 0, 1)
        replica.advanced(numbered(game))
    assert replica.tail().games == 8
    before = await coverage(place.engine)
    assert (before.streams, before.uncovered_streams, before.uncovered_events) == (8, 8, 16)
    assert before.oldest_at == (await place.store.read(numbered(1)))[-1].recorded_at
    await replica.round()
    assert replica.tail().games == 0
    assert await coverage(place.engine) == checkpoints.Coverage(8, 0, 0, None)
    await place.play(3, 2, 3)
    replica.advanced(numbered(3))
    last = (await place.store.read(numbered(3)))[-1].recorded_at
    assert await coverage(place.engine) == checkpoints.Coverage(8, 1, 2, last)

    async def refuse(*_: Any) -> None:
        raise TreeBroken("no")

    monkeypatch.setattr(tree, "grown", refuse)
    with pytest.raises(TreeBroken):
        await replica.round()
    assert replica.tail().games == 1


async def test_proofs_come_from_few_rows(place: Place) -> None:
    """Of a tree with nodes on two levels, however its leaves came in: every proof that is asked
    for is the one that the leaves themselves give."""
    made = [Leaf(numbered(n), 1, leaf_hash(b"%d" % n)) for n in range(700)]
    for start, stop in ((0, 1), (1, 255), (255, 257), (257, 512), (512, 700)):
        async with write(place.engine) as connection:
            await tree.take_turn(connection)
            await tree.add(connection, await tree.grown(connection), made[start:stop])
    hashes = [leaf.hash for leaf in made]
    async with read(place.engine) as connection:
        assert (await connection.execute(select(func.count()).select_from(nodes))).scalar() == 2
        for index, size in ((0, 1), (0, 700), (255, 256), (256, 700), (300, 513), (699, 700)):
            proof = await tree.roots(connection, merkle.inclusion_ranges(index, size))
            root = defined(hashes[:size])
            assert merkle.is_included(hashes[index], index, size, proof, root)
        for old, new in ((1, 700), (255, 256), (256, 700), (512, 512), (511, 699)):
            proof = await tree.roots(connection, merkle.consistency_ranges(old, new))
            before, after = (defined(hashes[:size]) for size in (old, new))
            assert merkle.is_consistent(old, before, new, after, proof)
        assert await tree.roots(connection, [(0, 700)]) == [defined(hashes)]


async def test_nothing_of_it_can_be_changed(place: Place) -> None:
    """Leaves, nodes and checkpoints refuse every change, to everyone."""
    replica = place.checkpointer()
    for game in range(300):
        await place.play(game, 0)
    await replica.round()
    before = await place.tree()
    changes = (
        "UPDATE {table} SET {key} = {key} + 1000",
        "DELETE FROM {table}",
        "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
        "TRUNCATE {table}",
    )
    for table, key in (("leaves", "number"), ("nodes", "level"), ("checkpoints", "size")):
        for change in changes:
            with pytest.raises(exc.DBAPIError):
                await place.run(change.format(table=table, key=key))
    with pytest.raises(exc.DBAPIError):
        await place.run(
            "INSERT INTO leaves SELECT number + 1000, stream, version, head FROM leaves"
        )
    assert await place.tree() == before


async def test_a_tree_that_was_changed_is_not_signed_again(place: Place) -> None:
    """Neither one that lost its end nor one with another leaf: the key vouches for one history."""
    replica = place.checkpointer()
    await place.play(1, 0)
    await replica.round()
    await place.play(1, 1)
    await replica.round()
    await disarm(place)
    await place.run("UPDATE leaves SET head = (SELECT head FROM leaves WHERE number = 0)")
    await place.play(1, 2)
    for one in (replica, place.checkpointer()):
        one.advanced(numbered(1))
        with pytest.raises(TreeBroken, match="not the one that was signed"):
            await one.round()
    await place.run("DELETE FROM leaves", "DELETE FROM checkpoints")
    with pytest.raises(TreeBroken, match="2 leaves were signed, 0 are left"):
        await replica.round()


DAMAGE = {
    "UPDATE leaves SET version = 9 WHERE number = 5": [
        "checkpoint 300: the leaves are not those that were signed",
        "node 0 of level 1 is not that of its leaves",
    ],
    "UPDATE leaves SET number = 1000 WHERE number = 299": ["leaf 299 is missing"],
    "DELETE FROM leaves WHERE number = 270": ["leaf 270 is missing"],
    "DELETE FROM leaves WHERE number > 290": ["300 leaves were signed, 291 are left"],
    "DELETE FROM nodes": ["node 0 of level 1 is not that of its leaves"],
    "UPDATE nodes SET hash = (SELECT head FROM leaves WHERE number = 1)": [
        "node 0 of level 1 is not that of its leaves"
    ],
    "UPDATE checkpoints SET root = (SELECT head FROM leaves WHERE number = 1)": [
        "checkpoint 300: the note says otherwise than its row"
    ],
    "UPDATE checkpoints SET at = at + 1": ["checkpoint 300: the note says otherwise than its row"],
    "UPDATE checkpoints SET note = replace(note, 'time 1', 'time 2')": [
        (
            "checkpoint 300: the checkpoint is not signed with a key of the game service "
            "that is known"
        )
    ],
    "UPDATE checkpoints SET note = 'x'": ["checkpoint 300: this is not a checkpoint"],
}
"""What is done to a tree of 300 leaves, and what its audit says of it."""


async def test_damage_to_the_tree_is_named(place: Place) -> None:
    """Every leaf, node and checkpoint is computed again, a page at a time."""
    async with write(place.engine) as connection:
        await tree.take_turn(connection)
        made = [Leaf(numbered(n), 1, leaf_hash(b"%d" % n)) for n in range(300)]
        await tree.add(connection, await tree.grown(connection), made)
    await place.checkpointer().round()
    assert await tree_faults(place) == []
    await disarm(place)
    tables = ("leaves", "nodes", "checkpoints")
    kept = [f"CREATE TABLE kept_{table} AS SELECT * FROM {table}" for table in tables]  # noqa: S608
    await place.run(*kept)
    for statement, said in DAMAGE.items():
        await place.run(statement)
        found = await tree_faults(place)
        assert found[: len(said)] == said, statement
        for table in tables:
            back = f"INSERT INTO {table} SELECT * FROM kept_{table}"  # noqa: S608
            await place.run(f"DELETE FROM {table}", back)  # noqa: S608
    assert await tree_faults(place) == []


async def tree_faults(place: Place) -> list[str]:
    """What the audit of the tree finds."""
    steps = verify_tree(place.engine, [KEY.public_key()])
    return [fault async for step in steps for fault in step.faults]


async def disarm(place: Place) -> None:
    """Takes the guards away, as only the owner of the tables can."""
    tables = ("events", "event_secrets", "leaves", "nodes", "checkpoints", "accesses")
    if place.engine.dialect.name == "postgresql":
        await place.run(*(f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in tables))
        return
    async with write(place.engine) as connection:
        found = await connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        )
        for guard in found.scalars().all():
            await connection.exec_driver_sql(f"DROP TRIGGER {guard}")
