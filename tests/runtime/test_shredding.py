"""What is left of removed rows in an embedded database's file: nothing, once it is shredded."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import NoneType

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.runtime import shredding
from services.runtime.database import close_engine, open_engine, read, write
from services.runtime.shredding import Shredder, shred
from services.runtime.store.api import StoreUnavailable

MADE = (
    "CREATE TABLE people (id BLOB NOT NULL, name TEXT, more BLOB, CONSTRAINT pk PRIMARY KEY (id))",
    "CREATE INDEX people_name ON people (name)",
    "CREATE TRIGGER people_guard BEFORE UPDATE OF id ON people BEGIN SELECT 1; END",
    "CREATE TABLE tokens (id BLOB REFERENCES people (id))",
)
STRUCTURE = "SELECT type, name, tbl_name, replace(sql, '\"', '') FROM sqlite_master ORDER BY name"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A database with a table of people that others refer to."""
    opened = open_engine(f"sqlite+aiosqlite:///{tmp_path}/people.db")
    async with write(opened) as connection:
        for sql in MADE:
            await connection.execute(text(sql))
    yield opened
    await close_engine(opened)


async def come_and_go(engine: AsyncEngine, seed: int) -> tuple[dict[bytes, str], list[str]]:
    """Thousands of people come, are changed and go: who is there, and the names of who is not."""
    rng, there, gone = Random(seed), dict[bytes, str](), list[str]()
    for hundred in range(30):
        async with write(engine) as connection:
            for number in range(100):
                chance = rng.random()
                key = rng.choice(list(there)) if there and chance > 0.6 else rng.randbytes(16)
                row: dict[str, object] = {"key": key, "more": rng.randbytes(rng.randrange(200))}
                if key not in there:
                    name = f"N{hundred:03}{number:03}{'x' * rng.randrange(600)}"
                    row["name"] = there[key] = name
                    sql = "INSERT INTO people VALUES (:key, :name, :more)"
                elif chance < 0.8:
                    sql = "UPDATE people SET more = :more WHERE id = :key"
                else:
                    gone.append(there.pop(key))
                    sql = "DELETE FROM people WHERE id = :key"
                await connection.execute(text(sql), row)
    return there, gone


def left(folder: Path, names: list[str]) -> int:
    """How many of the names lie in the files."""
    octets = b"".join(file.read_bytes() for file in folder.glob("people.db*"))
    return sum(name[:7].encode() in octets for name in names)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nothing_is_left_of_what_was_removed(
    engine: AsyncEngine, tmp_path: Path, seed: int
) -> None:
    """Neither in the file nor in its log; who stays, stays, and the table is what it was."""
    there, gone = await come_and_go(engine, seed)
    async with read(engine) as connection:
        before = (await connection.execute(text(STRUCTURE))).all()
    assert left(tmp_path, gone)
    await shred(engine, "people")
    assert left(tmp_path, gone) == 0
    async with read(engine) as connection:
        rows = (await connection.execute(text("SELECT id, name FROM people"))).all()
        assert dict(map(tuple, rows)) == there
        assert (await connection.execute(text(STRUCTURE))).all() == before
        assert (await connection.execute(text("PRAGMA integrity_check"))).all() == [("ok",)]
    key = next(iter(there))
    async with write(engine) as connection:
        await connection.execute(text("INSERT INTO tokens VALUES (:key)"), {"key": key})
    with pytest.raises(Exception, match="FOREIGN KEY"):
        async with write(engine) as connection:
            await connection.execute(text("INSERT INTO tokens VALUES (x'00')"))


async def test_who_reads_what_was_is_waited_for(engine: AsyncEngine) -> None:
    """A reader keeps the log from being emptied, and nobody from writing; it may be repeated."""
    await come_and_go(engine, 4)

    async def go_on() -> None:
        async with asyncio.timeout(1), write(engine) as connection:
            await connection.execute(text("DELETE FROM people WHERE id = x'00'"))

    async with read(engine) as connection:
        await connection.execute(text("SELECT count(*) FROM people"))
        shredding = asyncio.ensure_future(shred(engine, "people"))
        for _ in range(5):
            await go_on()
        with pytest.raises(Refused, match="FILE_IN_USE"):
            await shredding
    await shred(engine, "people")


async def test_writers_wait_meanwhile(engine: AsyncEngine) -> None:
    """Writes that come while it shreds come after it."""
    there, _ = await come_and_go(engine, 5)

    async def add(number: int) -> None:
        async with write(engine) as connection:
            row = {"key": number.to_bytes(4)}
            await connection.execute(text("INSERT INTO people VALUES (:key, 'new', NULL)"), row)

    await asyncio.gather(shred(engine, "people"), *(add(number) for number in range(20)))
    async with read(engine) as connection:
        count = (await connection.execute(text("SELECT count(*) FROM people"))).scalar_one()
    assert count == len(there) + 20


@dataclass
class Rounds:
    """Stands in for shredding: counts, waits for the gate, fails while it is told to."""

    begun: int = 0
    failing: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def shred(self, _engine: AsyncEngine, _table: str) -> None:
        """A round."""
        self.begun += 1
        await self.gate.wait()
        if self.failing:
            self.failing = False
            raise StoreUnavailable("once")


async def test_those_who_ask_together_share_a_round(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks while a round is under way is served by the next, and a failed one serves nobody."""
    rounds, shredder = Rounds(), Shredder(engine, "people", pause_s=0)
    monkeypatch.setattr(shredding, "shred", rounds.shred)
    first = [asyncio.ensure_future(shredder.shred()) for _ in range(5)]
    while not rounds.begun:
        await asyncio.sleep(0)
    later = [asyncio.ensure_future(shredder.shred()) for _ in range(5)]
    await asyncio.sleep(0)
    rounds.gate.set()
    await asyncio.gather(*first, *later)
    assert rounds.begun == 2
    rounds.failing = True
    outcomes = await asyncio.gather(*(shredder.shred() for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable, NoneType, NoneType]
    assert rounds.begun == 4
