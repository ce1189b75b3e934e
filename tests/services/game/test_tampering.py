"""Kinds of edits to a game's record, by how much of it the editor made anew, and what finds them.

The table of `docs/audits.md` is what came out; with `KOZYR_WRITE_TABLE=1` it is written there.
"""

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import insert, select

from services.cli.bench.scripts import Script, store_commands, whole
from services.game import domain, tree
from services.game.checking import Held, check_game, logs_after
from services.game.checkpoints import coverage
from services.game.games import decider
from services.game.model import Stage
from services.game.pacing import AT_ONCE
from services.game.rulebook import engine_for
from services.game.server import FOLDERS
from services.game.tree import Leaf
from services.game.tree_audit import verify_tree
from services.kernel import merkle
from services.kernel.envelope import Recorded
from services.runtime.database import SQLITE, open_engine, read, write
from services.runtime.migrate import migrate_engine
from services.runtime.notes import Checkpoint, sign_note
from services.runtime.store import chain
from services.runtime.store.schema import metadata as store_tables
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from tests.services.game.logs import GAME_ID, Log, opening
from tests.services.game.test_checkpoints import KEY, Place, disarm

DOCUMENT = Path(__file__).parents[3] / "docs" / "audits.md"
BEGIN, END = "<!-- edits -->\n", "<!-- end of edits -->\n"
MASTERS = MasterKeys("1", {"1": bytes(32)})
TABLES = [*store_tables.sorted_tables, *tree.metadata.sorted_tables]
Rows = dict[str, list[dict[str, Any]]]
"""A whole database: rows by table."""

LEVELS = ("rows alone", "and its chain", "and tree and signatures")
"""How much the editor makes anew, so that it fits again."""
EXPORTED, SIGNED, BARE = (
    "covered by an exported checkpoint",
    "covered by one that nobody exported",
    "covered by none yet",
)
"""Where in a log the edit is made."""


@dataclass
class Record:
    """The database at one moment, to be edited in memory; `game` is the one that is edited."""

    rows: Rows
    game: UUID

    def log(self) -> list[dict[str, Any]]:
        """The game's events."""
        found = [row for row in self.rows["events"] if row["stream"] == self.game]
        return sorted(found, key=lambda row: int(row["version"]))

    def put(self, log: list[dict[str, Any]], *, renumber: bool = True) -> None:
        """Set the game's events, numbered one after the other."""
        self.rows["events"] = [r for r in self.rows["events"] if r["stream"] != self.game]
        self.rows["events"] += [
            {**row, "version": number if renumber else row["version"]}
            for number, row in enumerate(log, start=1)
        ]

    def drop(self, *tables: str) -> None:
        """Remove the game's rows from tables."""
        for table in tables:
            self.rows[table] = [r for r in self.rows[table] if r["stream"] != self.game]

    def rechain(self) -> None:
        """Compute the game's hashes again and set its head."""
        log, previous = self.log(), chain.GENESIS
        for row in log:
            previous = chain.link(previous, recorded(row))
            row["hash"] = previous
        self.put(log)
        for head in self.rows["heads"]:
            if head["stream"] == self.game:
                head["version"], head["hash"] = len(log), previous

    def replant(self) -> None:
        """Make the tree over what there is now, and sign it as it was signed."""
        hashes = {(row["stream"], row["version"]): row["hash"] for row in self.rows["events"]}
        grown, kept, signed = merkle.Growth(), [], {}
        old = sorted(self.rows["leaves"], key=lambda row: int(row["number"]))
        moments = {row["size"]: row["at"] for row in self.rows["checkpoints"]}
        self.rows["leaves"] = []
        for row in old:
            head = hashes.get((row["stream"], row["version"]))
            if head is not None:
                leaf = Leaf(row["stream"], row["version"], head)
                self.rows["leaves"].append({**row, "number": grown.size, "head": head})
                for part, root in grown.add(leaf.hash):
                    if (place := tree.kept_at(*part)) is not None:
                        kept.append({"level": place[0], "place": place[1], "hash": root})
            if (at := moments.get(row["number"] + 1)) is not None and grown.size:
                signed[grown.size] = Checkpoint(grown.size, grown.root, at)
        self.rows["nodes"] = kept
        self.rows["checkpoints"] = [
            {"size": one.size, "root": one.root, "at": one.at, "note": sign_note(one, KEY)}
            for one in signed.values()
        ]


def recorded(row: dict[str, Any]) -> Recorded:
    """A row as the chain takes it."""
    return Recorded(**row, salt=None, secret=None)


@dataclass
class Scene:
    """A database with games, what it was at some moments, and what others kept of it."""

    place: Place
    game: UUID
    now: Rows = field(default_factory=dict)
    older: Rows = field(default_factory=dict)
    exported: Checkpoint | None = None
    held: Held = field(default_factory=lambda: Held(0, b""))
    ends: dict[str, int] = field(default_factory=dict)
    """The last version of the game at each of the places of an edit."""

    async def dump(self) -> Rows:
        """Everything there is."""
        async with read(self.place.engine) as connection:
            return {
                table.name: [dict(r._mapping) for r in await connection.execute(select(table))]
                for table in TABLES
            }

    async def load(self, rows: Rows) -> None:
        """Make the database hold exactly this; its guards are off."""
        async with write(self.place.engine) as connection:
            for table in TABLES:
                await connection.execute(table.delete())
                if rows[table.name]:
                    await connection.execute(insert(table), rows[table.name])

    async def found_by(self) -> list[str]:
        """Which of the four ways of looking find that something is wrong."""
        engine, store = self.place.engine, SqlStore(self.place.engine, MASTERS)
        kinds: set[str] = set()
        for log in await logs_after(engine, None, 1_000):
            checked = await check_game(engine, store, log)
            kinds |= {fault.kind for fault in checked.faults} if checked else set()
        in_tree = {"NOT_AS_CHECKPOINTED", "GAME_MISSING"}
        faults = [f async for step in verify_tree(engine, [KEY.public_key()]) for f in step.faults]
        kept = await check_game(engine, store, self.game, [self.held])
        by = {
            "log": bool(kinds - in_tree),
            "tree": bool(kinds & in_tree or faults),
            "export": not await self.continues_export(),
            "held head": kept is None or "NOT_AS_HELD" in {fault.kind for fault in kept.faults},
        }
        return [name for name, found in by.items() if found]

    async def continues_export(self) -> bool:
        """Whether the tree continues the checkpoint that was exported."""
        assert self.exported is not None
        old = self.exported
        async with read(self.place.engine) as connection:
            growth = await tree.grown(connection)
            if growth.size < old.size:
                return False
            proof = await tree.roots(connection, merkle.consistency_ranges(old.size, growth.size))
        return merkle.is_consistent(old.size, old.root, growth.size, growth.root, proof)


def written(variant: str, moves_max: int = 10_000) -> Script:
    """A game whose seeds and moves are the same each time."""
    game = UUID(int=GAME_ID.int + len(variant))
    command = opening(variant, 2, game_id=game, turn_ms=600_000)
    script = Script(game, variant, tuple(seat.player_id for seat in command.seats), [command])
    rng, log = Random(5), Log()
    log.when(command)
    while not log.state.ended and len(script.commands) < moves_max:
        state = log.state
        if state.stage is Stage.PLAYING:
            engine = engine_for(state.rules)
            seat = engine.to_act(state.engine)[0]
            move = rng.choice(engine.legal(state.engine, seat))
            script.commands.append(domain.Play(seat, state.turn, move))
        else:
            script.commands.append(domain.CloseSeeds(state.stage))
        log.when(script.commands[-1])
    return script


@pytest.fixture(params=["sqlite", "postgresql"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """Games of each kind, and one of Durak of which a part is covered by an exported checkpoint, a
    part by later ones, and the end by none; a player has kept its last head."""
    if request.param == "sqlite":
        url = f"{SQLITE}:///{tmp_path}/game.db"
    else:
        url = request.getfixturevalue("postgres_url")
    engine = open_engine(url)
    await migrate_engine(engine, FOLDERS)
    store = SqlStore(engine, MASTERS)
    streams: Any = Streams(store, decider(AT_ONCE))
    others = [written(variant, moves_max=20) for variant in ("azi", "rami")]
    script = written("durak", moves_max=40)
    made = Scene(Place(engine, store), script.game_id)
    replica = made.place.checkpointer()
    await store_commands(streams, others, whole)

    async def play(share: float) -> int:
        def upto(one: Script) -> int:
            return round(len(one.commands) * share)

        await store_commands(streams, [script], upto)
        head = await store.head(script.game_id)
        assert head is not None
        return head.version

    await play(0.2)
    await replica.round()
    made.older = await made.dump()
    made.ends[EXPORTED] = await play(0.5)
    made.exported = await replica_covers(replica, script.game_id)
    made.ends[SIGNED] = await play(0.8)
    await replica_covers(replica, script.game_id)
    made.ends[BARE] = await play(1.0)
    head = await store.head(script.game_id)
    assert head is not None
    made.held = Held(head.version, head.hash)
    made.now = await made.dump()
    await disarm(made.place)
    yield made
    await store.close()


async def replica_covers(replica: Any, game: UUID) -> Checkpoint:
    """A round after the game has advanced."""
    replica.advanced(game)
    made: Checkpoint = await replica.round()
    assert made is not None
    return made


# ----------------------------------------------------------------------------------------- edits


def change(record: Record, at: int) -> None:
    """The payload of another event of its kind: the next one back that has two kinds of payload."""
    log = record.log()
    for row in reversed(log[:at]):
        alike = (each["payload"] for each in log if each["name"] == row["name"])
        if (other := next((each for each in alike if each != row["payload"]), None)) is not None:
            row["payload"] = other
            break
    record.put(log)


def change_time(record: Record, at: int) -> None:
    """A moment that is a microsecond later, in all events of the append: no rule minds it."""
    log = record.log()
    moment = log[at - 1]["recorded_at"]
    for row in log:
        row["recorded_at"] += row["recorded_at"] == moment
    record.put(log)


def delete(record: Record, at: int) -> None:
    """An event less."""
    log = record.log()
    record.put([*log[: at - 1], *log[at:]])


def put_in(record: Record, at: int) -> None:
    """An event more."""
    log = record.log()
    second = {**log[at - 1], "request_id": None, "body_hash": None}
    record.put([*log[:at], second, *log[at:]])


def reorder(record: Record, at: int) -> None:
    """Two events in the other order."""
    log = record.log()
    record.put([*log[: at - 2], log[at - 1], log[at - 2], *log[at:]])


def truncate(record: Record, at: int) -> None:
    """The last events less, from an append on; the head is set back and the game runs again."""
    log = record.log()
    while log[at]["request_id"] is None:
        at -= 1
    record.put(log[:at])
    for head in record.rows["heads"]:
        if head["stream"] == record.game:
            head |= {"version": at, "hash": log[at - 1]["hash"], "ended": False}


def behead(record: Record, _at: int) -> None:
    """The row of the head less."""
    record.drop("heads")


def remove(record: Record, _at: int) -> None:
    """All that is stored under the game's id but its place in the tree."""
    record.drop("events", "heads", "event_secrets", "stream_keys", "work", "tags")


EDITS: dict[str, Callable[[Record, int], None]] = {
    "an event is changed": change,
    "an event's time is changed": change_time,
    "an event is deleted": delete,
    "an event is put in": put_in,
    "two events are exchanged": reorder,
    "the end is cut off": truncate,
    "the head's row is deleted": behead,
    "the whole game is deleted": remove,
}
OLDER = "an older copy of the database is put back"


async def outcomes(scene: Scene) -> dict[tuple[str, str, str], list[str]]:
    """What finds each edit, by edit, place and level."""
    found = {}
    for where, end in scene.ends.items():
        for edit, make in EDITS.items():
            if make in (behead, remove) and where != EXPORTED:
                continue
            for level in LEVELS:
                if (level == LEVELS[2] and where == BARE) or (
                    make is behead and level != LEVELS[0]
                ):
                    continue
                rows = {name: [{**row} for row in each] for name, each in scene.now.items()}
                record = Record(rows, scene.game)
                make(record, end - 3)
                if level != LEVELS[0]:
                    record.rechain()
                if level == LEVELS[2]:
                    record.replant()
                await scene.load(record.rows)
                found[edit, where, level] = await scene.found_by()
    await scene.load(scene.older)
    found[OLDER, EXPORTED, LEVELS[0]] = await scene.found_by()
    await scene.load(scene.now)
    assert await scene.found_by() == []
    return found


def table(found: dict[tuple[str, str, str], list[str]]) -> str:
    """The outcomes as a table."""
    lines = [
        f"| edit | in a part that is | {' | '.join(LEVELS)} |",
        "|---|---|---|---|---|",
    ]
    for edit in (*EDITS, OLDER):
        for where in (EXPORTED, SIGNED, BARE):
            cells = [found.get((edit, where, level)) for level in LEVELS]
            if any(cell is not None for cell in cells):
                said = ("·" if c is None else ", ".join(c) or "**nothing**" for c in cells)
                lines.append(f"| {edit} | {where} | {' | '.join(said)} |")
    return "\n".join(lines) + "\n"


async def test_every_edit_is_found_by_what_the_document_says(scene: Scene) -> None:
    """The table of docs/audits.md, to the cell. What an exported checkpoint covers is found
    whatever was made anew; what none covers yet is found by a head that a player kept."""
    found = await outcomes(scene)
    made = table(found)
    document = DOCUMENT.read_text("utf-8")
    before, _, rest = document.partition(BEGIN)
    said, _, after = rest.partition(END)
    if os.environ.get("KOZYR_WRITE_TABLE"):
        DOCUMENT.write_text(f"{before}{BEGIN}{made}{END}{after}", "utf-8")
    else:
        assert said == made
    for (edit, where, level), by in found.items():
        assert by, (edit, where, level)
        if where == EXPORTED and level == LEVELS[2]:
            assert "export" in by, edit
        if level == LEVELS[1]:
            assert "held head" in by, (edit, where)


async def test_the_tail_is_a_limit_that_is_counted(scene: Scene) -> None:
    """Whoever cuts off what no checkpoint covers, before anybody kept a later head, is not found;
    how much that is, is known to the event."""
    counted = await coverage(scene.place.engine)
    tail = scene.ends[BARE] - scene.ends[SIGNED]
    assert (counted.uncovered_streams, counted.uncovered_events) == (1, tail)
    rows = {name: [{**row} for row in each] for name, each in scene.now.items()}
    record = Record(rows, scene.game)
    truncate(record, scene.ends[BARE] - 3)
    await scene.load(record.rows)
    kept = next(row for row in record.log() if row["version"] == scene.ends[SIGNED])
    scene.held = Held(scene.ends[SIGNED], kept["hash"])
    assert await scene.found_by() == []
