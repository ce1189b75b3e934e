"""Audits of many games: by other processes, in order, of all there is a trace of; and the record of
who looked at what."""

import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2
from pydantic import SecretStr

from services.game import auditors
from services.game.disputes import DISPUTE_VERSION
from services.game.server import FOLDERS
from services.game.tree_audit import verify_tree
from services.kernel.errors import Kind, Refused
from services.runtime.database import close_engine, open_engine
from services.runtime.keys import public_keys
from services.runtime.settings import Settings
from tests import postgres
from tests.services.game.system import Seat, System, new_id, system
from tests.services.game.test_auditing import cancelled, finished, logs, write
from tests.services.game.test_proving import covered
from tests.services.game.test_service import settled


async def verdicts(operator: Seat, size: int) -> list[audit_pb2.Verdict]:
    """What is found in every log, page by page."""
    found: list[audit_pb2.Verdict] = []
    while True:
        after = found[-1].game_id if found else ""
        request = audit_pb2.VerifyGamesRequest(after_game_id=after, page_size=size)
        stream = operator.client.stream(operator.audits.VerifyGames, request)
        page = [verdict async for message in stream for verdict in message.verdicts]
        assert len(page) <= size
        if not page:
            return found
        found += page


def disarm(folder: Path) -> None:
    """Takes the guards of a file away."""
    with closing(sqlite3.connect(folder / "game.db", timeout=60)) as database, database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (trigger,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {trigger}")


async def with_chips(house: System) -> str:
    """A finished game of Azi, paid out."""
    before = len(house.table.reports)
    game_id = (await house.open(variant="azi", people=0, bots=2)).game_id
    await settled(house, before + 1)
    return game_id


def kinds(found: list[audit_pb2.Verdict]) -> dict[str, list[str]]:
    """The kinds of faults by game, of games that have any."""
    return {v.game_id: [fault.kind for fault in v.faults] for v in found if v.faults}


async def test_all_there_is_a_trace_of_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each log once, in the order of ids, whatever the page: games with chips and without,
    tombstones, disputes; a game whose head is gone; one of which nothing is left but its place in
    the tree; one whose secrets do not open, whatever is read with it."""
    monkeypatch.setattr(auditors, "GAMES_AT_ONCE", 2)
    async with system(tmp_path, checkpoint_ms=100, audit_workers=1) as house:
        headless, gone, *others = [await finished(house) for _ in range(4)]
        others += [await with_chips(house), await cancelled(house)]
        request = await house.open(people=2, bots=0)
        player = house.game(request.seats[0].player_id)
        complaint = audit_pb2.OpenDisputeRequest(
            request_id=new_id(), game_id=request.game_id, complaint="Too slow."
        )
        opened = await player.call(player.audits.OpenDispute, complaint)
        dispute = opened.dispute.dispute_id
        games = [headless, gone, *others, request.game_id]
        for game in games:
            await covered(house, game)
        for size in (3, 1_000):
            found = await verdicts(house.operator, size)
            assert sorted(v.game_id for v in found) == sorted([*games, dispute])
            assert [v.game_id for v in found] == sorted(v.game_id for v in found)
            assert kinds(found) == {}
            assert all(v.events == v.version > 0 for v in found)
            assert UUID(dispute).version == DISPUTE_VERSION
        for most in (1, 3):
            page = audit_pb2.ListLogsRequest(after_game_id=headless, page_size=most)
            stream = house.operator.client.stream(house.operator.audits.ListLogs, page)
            listed = [head.game_id async for part in stream for head in part.heads]
            assert listed == sorted(games)[1 : most + 1]
        assert [head.game_id for head in await logs(house.operator)] == sorted(games)
    disarm(tmp_path)
    write(tmp_path, "DELETE FROM heads WHERE stream = ?", headless)
    write(tmp_path, "UPDATE event_secrets SET sealed = zeroblob(80) WHERE stream = ?", others[0])
    for table in ("heads", "events", "event_secrets", "stream_keys", "tags"):
        write(tmp_path, f"DELETE FROM {table} WHERE stream = ?", gone)  # noqa: S608
    async with system(tmp_path, audit_workers=2) as house:
        found = await verdicts(house.operator, 4)
        assert sorted(v.game_id for v in found) == sorted([*games, dispute])
        assert kinds(found) == {
            headless: ["HEAD_MISSING"],
            gone: ["GAME_MISSING"],
            others[0]: ["DAMAGED"],
        }


async def test_it_is_the_same_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    """The processes read PostgreSQL as they read a file; covered, proven, recorded."""
    url = await postgres.migrated(postgres_url, FOLDERS)
    given: dict[str, Any] = {"game_database_url": SecretStr(url), "checkpoint_ms": 100}
    async with system(tmp_path, audit_workers=1, **given) as house:
        games = [await finished(house), await with_chips(house), await cancelled(house)]
        for game in games:
            await covered(house, game)
        found = await verdicts(house.operator, 2)
        assert sorted(v.game_id for v in found) == sorted(games)
        assert kinds(found) == {}
        assert all(v.events == v.version >= v.covered_version > 0 for v in found)
        looks = [(each.number, each.action) for each in await accesses(house.operator)]
        assert [number for number, _ in looks] == list(range(len(looks), 0, -1))
        assert {action for _, action in looks} == {"VerifyGames", "GetInclusionProof"}
    assert await tree_faults(house.settings) == []


async def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    """What was asked of it is refused as unavailable, what is asked next comes through."""
    async with system(tmp_path) as house:
        games = [UUID(await finished(house)) for _ in range(2)]
        before = alive()
        checking = auditors.Auditors(house.settings.model_copy(update={"audit_workers": 1}))

        async def ids() -> list[UUID]:
            return [game async for answers in checking.check(games) for game, _ in answers]

        assert await ids() == games
        (process,) = set(alive()) - set(before)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with pytest.raises(Refused) as caught:
            await ids()
        assert (caught.value.kind, caught.value.reason) == (Kind.UNAVAILABLE, "AUDITORS_DIED")
        assert await ids() == games
        checking.close()


def alive() -> list[Any]:
    """The processes this one has started and that live."""
    return multiprocessing.active_children()


async def accesses(operator: Seat, game: str = "", size: int = 0) -> list[audit_pb2.Access]:
    """The record, newest first."""
    request = audit_pb2.ListAccessesRequest(game_id=game, page_size=size)
    found: list[audit_pb2.Access] = []
    while True:
        page = await operator.call(operator.audits.ListAccesses, request)
        found += page.accesses
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_every_look_of_an_operator_is_recorded(tmp_path: Path) -> None:
    """Who, by which RPC, at which game, numbered without a gap and listed in pages; a game that is
    not there too; what players do and lists are not. What somebody changes in it or removes from
    it later is found, in itself or by what the tree has of it."""
    async with system(tmp_path, checkpoint_ms=100) as house:
        game, other = await finished(house), await finished(house)
        operator = house.operator
        audits, missing = operator.audits, new_id()
        await operator.view(game)
        async for _ in operator.watch(game):
            pass
        await operator.call(audits.ReadLog, audit_pb2.ReadLogRequest(game_id=game))
        replay = audit_pb2.ReplayGameRequest(game_id=other)
        assert [step async for step in operator.client.stream(audits.ReplayGame, replay)]
        export = audit_pb2.ExportGameRequest(game_id=game)
        assert [step async for step in operator.client.stream(audits.ExportGame, export)]
        await operator.call(audits.VerifyGame, audit_pb2.VerifyGameRequest(game_id=game))
        with pytest.raises(Refused):
            await operator.call(audits.VerifyGame, audit_pb2.VerifyGameRequest(game_id=missing))
        await operator.call(operator.games.ListGames, game_pb2.ListGamesRequest())
        request = await house.open(people=2, bots=0)
        player = house.game(request.seats[0].player_id)
        await player.view(request.game_id)
        found = await accesses(operator, size=3)
        assert [(each.number, each.action, each.game_id) for each in reversed(found)] == [
            (1, "GetGame", game),
            (2, "WatchGame", game),
            (3, "ReadLog", game),
            (4, "ReplayGame", other),
            (5, "ExportGame", game),
            (6, "VerifyGame", game),
            (7, "VerifyGame", missing),
        ]
        assert {each.operator for each in found} == {"olga"}
        times = [each.access_time.ToMicroseconds() for each in reversed(found)]
        assert times == sorted(times)
        assert [each.number for each in await accesses(operator, other)] == [4]
        with pytest.raises(Refused) as caught:
            await accesses(player)
        assert caught.value.kind is Kind.DENIED
    settings = house.settings
    assert await tree_faults(settings) == []
    disarm(tmp_path)
    for statement, fault in (
        ("UPDATE accesses SET operator = 'nobody' WHERE number = 3", "access 3 is not what was"),
        ("UPDATE accesses SET game = NULL WHERE number = 7", "access 7 is not what was"),
        ("DELETE FROM accesses WHERE number = 2", "access 2 is not what was"),
        ("DELETE FROM accesses WHERE number > 5", "access 6 is missing"),
    ):
        with closing(sqlite3.connect(tmp_path / "game.db", timeout=60)) as database, database:
            before = database.execute("SELECT * FROM accesses").fetchall()
            assert database.execute(statement).rowcount
        (found_fault,) = await tree_faults(settings)
        assert found_fault.startswith(fault)
        with closing(sqlite3.connect(tmp_path / "game.db", timeout=60)) as database, database:
            database.execute("DELETE FROM accesses")
            marks = ", ".join("?" * len(before[0]))
            database.executemany(f"INSERT INTO accesses VALUES ({marks})", before)  # noqa: S608
    assert await tree_faults(settings) == []


async def tree_faults(settings: Settings) -> list[str]:
    """What the tree's own audit finds in a database that nobody serves."""
    engine = open_engine(settings.database_url("game"))
    keys = public_keys(settings.keys(), "game")
    found = [fault async for step in verify_tree(engine, keys) for fault in step.faults]
    await close_engine(engine)
    return found
