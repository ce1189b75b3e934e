"""Ends of games that wallet or lobby refuse: tried again slowly, logged, and named by audits."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import pytest
from kozyr.game.v1 import audit_pb2
from structlog.testing import capture_logs

from services.game import reactions
from services.game.endings import Endings, end_faults
from services.game.server import FOLDERS
from services.runtime.database import SQLITE, close_engine, open_engine, read
from tests import postgres
from tests.services.game.system import System, new_id, system
from tests.services.game.test_service import settled


async def faults(house: System, game_id: str) -> list[tuple[str, str]]:
    """Kinds and words of what an audit finds."""
    operator = house.operator
    request = audit_pb2.VerifyGameRequest(game_id=game_id)
    verdict = await operator.call(operator.audits.VerifyGame, request)
    return [(fault.kind, fault.detail) for fault in verdict.faults]


async def until_faults(house: System, game_id: str) -> list[tuple[str, str]]:
    """What an audit finds as soon as it finds anything."""
    async with asyncio.timeout(20):
        while not (found := await faults(house, game_id)):
            await asyncio.sleep(0.02)
    return found


def refusals(lines: list[Any]) -> list[tuple[str, str, str, int]]:
    """The logged errors: level, step, reason and attempt."""
    return [
        (line["log_level"], line["task"], line["reason"], line["attempts"])
        for line in lines
        if line["event"] == "end_refused"
    ]


async def test_a_refused_report_is_an_error_and_a_fault_until_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error an attempt with the reason; a fault that goes when the table takes it after all."""
    monkeypatch.setattr(reactions, "REFUSED_END_RETRY_MS", 1)
    with capture_logs() as lines:
        async with system(tmp_path) as house:
            house.table.refusing = grpc.StatusCode.FAILED_PRECONDITION
            game_id = (await house.open(variant="durak", people=0, bots=2)).game_id
            found = await until_faults(house, game_id)
            assert [kind for kind, _ in found] == ["END_REFUSED"]
            assert "report is refused: FAILED_PRECONDITION" in found[0][1]
            async with asyncio.timeout(20):
                while house.table.refused < 2:
                    await asyncio.sleep(0.02)
            house.table.refusing = None
            await settled(house)
            async with asyncio.timeout(20):
                while await faults(house, game_id):
                    await asyncio.sleep(0.02)
    logged = refusals(lines)
    assert logged == [
        ("error", "report", "FAILED_PRECONDITION", n + 1) for n in range(house.table.refused)
    ]


async def test_a_refused_end_waits_minutes_and_outlives_a_restart(tmp_path: Path) -> None:
    """It is not tried every few seconds for ever; another process names it too."""
    async with system(tmp_path) as house:
        house.table.refusing = grpc.StatusCode.FAILED_PRECONDITION
        game_id = (await house.open(variant="durak", people=0, bots=2)).game_id
        found = await until_faults(house, game_id)
        pause_ms = None
        async with asyncio.timeout(20):
            while pause_ms is None or pause_ms < 60_000:
                pause_ms = await next_due_ms(house)
                await asyncio.sleep(0.02)
    async with system(tmp_path) as house:
        assert await faults(house, game_id) == found


async def next_due_ms(house: System) -> int | None:
    """How long until anything is due in the game's database."""
    with closing(sqlite3.connect(house.settings.data_folder / "game.db")) as database:
        (ready_at,) = database.execute("SELECT min(ready_at) FROM work").fetchone()
    return None if ready_at is None else ready_at // 1_000 - time.time_ns() // 1_000_000


async def test_a_neighbour_that_is_away_refuses_nothing(tmp_path: Path) -> None:
    """What passes by itself is neither an error nor a fault."""
    with capture_logs() as lines:
        async with system(tmp_path) as house:
            house.table.refusing = grpc.StatusCode.UNAVAILABLE
            game_id = (await house.open(variant="durak", people=0, bots=2)).game_id
            async with asyncio.timeout(20):
                while not any(line["event"] == "due_refused" for line in lines):
                    await asyncio.sleep(0.02)
            assert await faults(house, game_id) == []
            house.table.refusing = None
            await settled(house)
    assert refusals(lines) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_the_last_refusal_of_an_end_stands_until_it_is_done(
    tmp_path: Path, kind: str
) -> None:
    """On both engines: a later refusal takes the place of the one before."""
    made = postgres.create_database() if kind == "postgresql" else ""
    url = await postgres.migrated(made or f"{SQLITE}:///{tmp_path}/game.db", FOLDERS)
    engine = open_engine(url)
    try:
        endings, game, other = Endings(engine), UUID(new_id()), UUID(new_id())
        await endings.refused(game, "settle", "RESERVATION_MISMATCH", 1)
        await endings.refused(game, "report", "NOT_THE_TABLES_GAME", 2)
        async with read(engine) as connection:
            found = await end_faults(connection, [game, other])
        assert {game: "report is refused: NOT_THE_TABLES_GAME, 2 times"} == {
            stream: fault.detail for stream, fault in found.items()
        }
        await endings.done(other)
        await endings.done(game)
        async with read(engine) as connection:
            assert await end_faults(connection, [game, other]) == {}
    finally:
        await close_engine(engine)
        if made:
            postgres.drop_database(made)
