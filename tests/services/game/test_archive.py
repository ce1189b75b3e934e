"""A month that has passed leaves as files, and what it was can still be shown and proven."""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2, history_pb2, history_pb2_grpc
from kozyr.game.v1.view_pb2 import STAGE_FINISHED
from pydantic import SecretStr
from sqlalchemy import delete, insert
from sqlalchemy.exc import DBAPIError

from services.cli.archiving import removing
from services.cli.archiving.removing import TABLES
from services.cli.dossier import Dossier
from services.cli.main import INTERRUPTED
from services.game.checking import Held, check_game
from services.game.server import FOLDERS
from services.game.tree_audit import verify_tree
from services.kernel.errors import Kind, Refused
from services.runtime.database import SQLITE, close_engine, open_engine, write
from services.runtime.migrate import again_while_busy
from services.runtime.signing import archive_octets
from services.runtime.store.months import month_of
from services.runtime.store.schema import archived_months
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.runtime.appends import numbered
from tests.services.game.past import (
    Past,
    Terminal,
    id_of,
    make_partitions,
    months_ago,
    shape,
)
from tests.services.game.system import new_id, setup, system
from tests.services.game.test_checkpoints import KEY, Place, disarm
from tests.services.game.test_proving import Asker, covered
from tests.services.game.test_receipts import receipt
from tests.services.game.test_service import settled

MONTH = months_ago(4)
DETACHED = f"events_{MONTH.suffix}", f"event_secrets_{MONTH.suffix}"
GUIDE = Path(__file__).parents[3] / "deploy" / "README.md"


def documented(wanted: Callable[[str], bool]) -> set[tuple[str, str]]:
    """The commands of the operators' guide with such answers, without what differs."""
    section = GUIDE.read_text("utf-8").partition("\n## Retention and archive\n")[2]
    shown = re.findall(r"^    \$ (kozyr .*)\n((?:    .+\n)+)", section, re.MULTILINE)
    found = {(shape(command), shape(answer)) for command, answer in shown if wanted(answer)}
    assert found
    return found


@asynccontextmanager
async def past(folder: Path, url: str | None = None) -> AsyncIterator[tuple[Past, Terminal]]:
    """A house in which games of a month that has passed were played."""
    given: dict[str, Any] = {"checkpoint_ms": 100, "audit_workers": 1}
    if url is not None:
        service = await postgres.migrated(url, FOLDERS)
        await make_partitions(url, MONTH)
        given["game_database_url"] = SecretStr(service)
    async with system(folder / "data", **given) as house:
        terminal = Terminal(folder / "data")
        terminal.lead_to(house)
        yield Past(house, MONTH), terminal


async def told(terminal: Terminal, game: str, folder: Path) -> tuple[str, ...]:
    """Everything that is told of a game out of an archive."""
    return (
        await terminal.said("replay", game, "--json", "--archive", folder),
        await terminal.said("export", game, "--archive", folder),
    )


async def test_an_archived_game_is_told_as_before(tmp_path: Path) -> None:
    """Octet by octet, out of files that a running service's database was read for; equal logs make
    equal files; and files that were there are kept."""
    folder, again = tmp_path / "archive", tmp_path / "again"
    async with past(tmp_path) as (scene, terminal):
        await scene.play("azi", "durak", "rami")
        before = {game: await scene.told(game) for game in [*scene.games, scene.left]}
        said = await terminal.write(MONTH, folder)
        assert f"{MONTH}, 5 games, 1 disputes" in said
        await terminal.said("archive", "write", "--month", MONTH, again)
    for file in folder.iterdir():
        assert (again / file.name).read_bytes() == file.read_bytes()
    kept = {file.name: file.stat().st_mtime_ns for file in folder.glob("logs*")}
    await terminal.said("archive", "write", "--month", MONTH, folder)
    assert {file.name: file.stat().st_mtime_ns for file in folder.glob("logs*")} == kept
    assert (await terminal.said("archive", "verify", folder)).startswith(f"ok {folder}: {MONTH}, ")
    first, *_ = gzip.decompress((folder / "logs-00001.jsonl.gz").read_bytes()).splitlines()
    (tmp_path / "receipt.json").write_bytes(first)
    assert (await terminal.said("verify", tmp_path / "receipt.json")).startswith("ok ")
    for game, was in before.items():
        assert await told(terminal, game, folder) == was
        assert await terminal.said("verify", game, "--archive", folder)
        log = json.loads(await terminal.said("export", game, "--log", "--archive", folder))
        rows = json.loads(was[1])["receipt"]["rows"]
        assert [b64decode(each["hash"]).hex() for each in log["events"]] == [
            r["hash"] for r in rows
        ]
        assert log["events"][0]["secret"] is None
    code, text = await terminal.run("replay", scene.tombstone, "--archive", folder)
    assert (code, "it has no receipt" in text) == (1, True)
    code, text = await terminal.run("export", new_id(), "--archive", folder)
    assert (code, "there is no" in text) == (1, True)


async def test_what_is_not_finished_keeps_its_month(tmp_path: Path) -> None:
    """A running game, an open dispute, a month that is not over: each is named, nothing is
    written."""
    folder = tmp_path / "archive"
    async with past(tmp_path) as (scene, terminal):
        request = setup("durak", 2, 0)
        request.game_id = scene.left = id_of(MONTH)
        scene.players = [seat.player_id for seat in request.seats]
        await scene.house.open(request)
        writing = ("archive", "write", "--month", MONTH, folder)
        code, text = await terminal.run(*writing)
        assert code == 1
        assert f"GAME_RUNNING {scene.left}" in text
        await scene.end()
        await scene.complain(ruled=False)
        code, text = await terminal.run(*writing)
        assert code == 1
        assert f"DISPUTE_OPEN {scene.dispute}" in text
        operator = scene.house.operator
        await operator.call(operator.audits.ResolveDispute, scene.ruling())
        await covered(scene.house, scene.left)
        for month, reason in ((months_ago(0), "MONTH_NOT_OVER"), (months_ago(2), "there is no")):
            code, text = await terminal.run("archive", "write", "--month", month, folder)
            assert (code, reason in text) == (1, True)
        assert not folder.exists()
        assert documented(lambda answer: "WRONG" in answer) <= terminal.shapes(folder)
        code, text = await terminal.run("archive", "write", "--month", "2026-13", folder)
        assert code == 2


async def test_a_month_leaves_the_database_and_comes_back(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the service runs: every question about a game of the month is answered with the month,
    no audit finds anything wrong, and the files tell what the service told."""
    folder = tmp_path / "archive"
    monkeypatch.setenv("KOZYR_GAME_DATABASE_URL", postgres_url)
    async with past(tmp_path, postgres_url) as (scene, terminal):
        await scene.play("azi", "durak")
        game, link = scene.games[1], await shared(scene)
        before = await scene.told(game)
        detach = ("archive", "detach", "--month", MONTH, folder)
        await not_yet(scene, terminal, detach, postgres_url, monkeypatch)
        await terminal.said("archive", "verify", folder)
        await broken_off(terminal, detach, monkeypatch)
        assert await scene.told(game) == before
        present = await scene.house.open(people=0, bots=2)  # goes on meanwhile
        assert f"{MONTH}: detached" in await terminal.said(*detach)
        assert "detached already" in await terminal.said(*detach)
        await settled(scene.house, len(scene.games) + 3)
        assert (await scene.house.operator.view(present.game_id)).stage == STAGE_FINISHED
        await answered_with_the_month(scene)
        assert await opened(scene, link) == "SHARE_NOT_FOUND"  # and no date
        assert f"{len(scene.all) + 1} of them are archived" in await terminal.said("audit", "--all")
        assert (await terminal.said("audit", game)).startswith(f"archived {game}")
        checked = await terminal.said("verify", game, "--archive", folder)
        assert checked.startswith(f"ok {game}: durak")
        assert await told(terminal, game, folder) == before
        attach = ("archive", "attach", "--month", MONTH)
        assert "attached again" in await terminal.said(*attach)
        assert "is here" in await terminal.said(*attach)
        assert await scene.told(game) == before
        assert await opened(scene, link) == ""
        assert "archived" not in await terminal.said("audit", "--all")
        await terminal.said(*detach)
        drop = ("archive", "drop", "--month", MONTH, folder)
        assert "has just attached it" in await meanwhile(terminal, drop, attach, monkeypatch)
        assert await scene.told(game) == before
        await terminal.said(*detach)
        await dropped_and_restored(scene, terminal, folder, postgres_url, monkeypatch)
        assert await scene.told(game) == before
        assert documented(lambda answer: "WRONG" not in answer) <= terminal.shapes(folder)
        later = await scene.house.open(people=0, bots=2)
        assert (await scene.house.operator.view(later.game_id)).game_id == later.game_id


async def not_yet(
    scene: Past,
    terminal: Terminal,
    detach: tuple[Any, ...],
    owner: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without an archive, by a service's role, too early, or with another log since, nothing is
    taken out; then there is an archive of all."""
    code, text = await terminal.run(*detach)
    assert (code, "No such file" in text) == (1, True)  # there is no archive yet
    assert not detach[-1].exists()
    monkeypatch.setenv("KOZYR_GAME_DATABASE_URL", postgres.as_service(owner))
    await terminal.write(MONTH, detach[-1])
    code, text = await terminal.run(*detach)
    assert (code, "only the role that owns the tables may" in text) == (1, True)
    monkeypatch.setenv("KOZYR_GAME_DATABASE_URL", owner)
    code, text = await terminal.run(*detach, "--keep", "9")
    assert (code, "is to be kept" in text) == (1, True)
    code, text = await terminal.run("archive", "detach", "--month", months_ago(9), detach[-1])
    assert (code, "has no partition of its own" in text) == (1, True)
    extra = await scene.bots("durak", 2)
    code, text = await terminal.run(*detach)
    assert (code, f"{extra}: is not in the archive" in text) == (1, True)
    await terminal.write(MONTH, detach[-1])


async def meanwhile(
    terminal: Terminal,
    first: tuple[Any, ...],
    second: tuple[Any, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Why a command ends badly when another operator's is carried out in between: after it has
    looked at everything, before it acts."""
    with monkeypatch.context() as patched:

        async def late(attempt: Callable[[], Awaitable[None]]) -> None:
            patched.undo()
            await terminal.said(*second)
            await again_while_busy(attempt)

        patched.setattr(removing, "again_while_busy", late)
        code, text = await terminal.run(*first)
    assert code == 1, text
    return text


async def dropped_and_restored(
    scene: Past, terminal: Terminal, folder: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not in the archive is not dropped. Gone for good there are the files alone, which are
    not written anew; rows out of a dump are taken back if they are all there, and guarded again."""
    game, (event, secret) = scene.games[1], DETACHED
    before = await told(terminal, game, folder)
    drop, attach = ("archive", "drop", "--month", MONTH, folder), ("archive", "attach")
    await run_as(owner, *(f"CREATE TABLE kept_{table} AS TABLE {table}" for table in DETACHED))
    one = f"CREATE TABLE one AS SELECT * FROM {event} LIMIT 1"  # noqa: S608
    await run_as(owner, one, "UPDATE one SET version = 900", f"INSERT INTO {event} TABLE one")
    code, text = await terminal.run(*drop)
    assert (code, f"{event} has " in text) == (1, True)
    await run_as(owner, f"ALTER TABLE {event} DISABLE TRIGGER archived_no_change")
    await run_as(owner, f"DELETE FROM {event} WHERE version = 900")  # noqa: S608
    back = (*attach, "--month", MONTH)
    assert "restore it from a dump" in await meanwhile(terminal, back, drop, monkeypatch)
    assert "are dropped" in await terminal.said(*drop)
    code, text = await terminal.run("archive", "write", "--month", MONTH, folder)
    assert (code, "MONTH_ARCHIVED" in text) == (1, True)
    code, text = await terminal.run(*attach, "--month", MONTH)
    assert (code, "from a dump first" in text) == (1, True)
    await answered_with_the_month(scene)
    assert await told(terminal, game, folder) == before
    for table in DETACHED:
        like = f"CREATE TABLE {table} (LIKE {table[:-8]} INCLUDING ALL)"
        await run_as(owner, like, f"INSERT INTO {table} TABLE kept_{table}")
    await run_as(owner, f"DELETE FROM {event} WHERE version = 2")  # noqa: S608
    code, text = await terminal.run(*attach, "--month", MONTH)
    assert (code, f"{event} is not what the heads say" in text) == (1, True)
    await run_as(owner, f"TRUNCATE {event}", f"INSERT INTO {event} TABLE kept_{event}")
    await run_as(owner, f"TRUNCATE {secret}")
    code, text = await terminal.run(*attach, "--month", MONTH)
    assert (code, f"{secret} lacks a secret of " in text) == (1, True)
    await run_as(owner, f"INSERT INTO {secret} TABLE kept_{secret}")
    assert "attached again" in await terminal.said(*attach, "--month", MONTH)
    for change in (f"DELETE FROM {event}", f"TRUNCATE {secret}"):  # noqa: S608
        with pytest.raises(DBAPIError, match="never changed or removed"):
            await run_as(owner, change)


async def run_as(url: str, *statements: str) -> None:
    """Run statements as the tables' owner."""
    engine = open_engine(url)
    try:
        async with write(engine) as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement)
    finally:
        await close_engine(engine)


async def broken_off(
    terminal: Terminal, detach: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A detaching that dies before its last table leaves everything as it was."""
    whole = removing.Place._detach

    async def dies(place: removing.Place, connection: Any, table: str) -> None:
        if table == TABLES[-1]:
            raise KeyboardInterrupt
        await whole(place, connection, table)

    with monkeypatch.context() as broken:
        broken.setattr(removing.Place, "_detach", dies)
        assert (await terminal.run(*detach))[0] == INTERRUPTED


async def shared(scene: Past) -> str:
    """The token of a link to the game that two people left."""
    player = scene.house.game(scene.players[0])
    stub = history_pb2_grpc.HistoryServiceStub(player.client.channel)
    request = history_pb2.ShareGameRequest(request_id=new_id(), game_id=scene.left)
    token: str = (await player.call(stub.ShareGame, request)).token
    return token


async def opened(scene: Past, token: str) -> str:
    """Why a link does not open, or nothing."""
    stub = history_pb2_grpc.HistoryServiceStub(scene.house.operator.client.channel)
    replay = history_pb2.ReplaySharedGameRequest(token=token)
    try:
        steps = [s async for s in scene.house.operator.client.stream(stub.ReplaySharedGame, replay)]
    except Refused as refused:
        return refused.reason if "month" not in refused.facts else "with a date"
    return "" if steps else "nothing"


async def answered_with_the_month(scene: Past) -> None:
    """What players and operators are told of games that left, and of one that never was."""
    house, never = scene.house, id_of(MONTH)
    player, operator, lobby = house.game(scene.players[0]), house.operator, house.lobby
    request = setup("durak", 0, 2)
    request.game_id = never
    dispute = audit_pb2.GetDisputeRequest(dispute_id=scene.dispute)
    asked: list[Callable[[], Awaitable[Any]]] = [
        partial(lobby.call, lobby.games.CreateGame, request),
        partial(operator.call, operator.audits.GetDispute, dispute),
    ]
    for game in (scene.games[0], scene.left, never):
        complaint = audit_pb2.OpenDisputeRequest(
            request_id=new_id(), game_id=game, complaint="Too late."
        )
        asked += [
            partial(receipt, operator, game),
            partial(receipt, player, game),
            partial(scene.told, game),
            partial(player.call, player.audits.OpenDispute, complaint),
        ]
    for ask in asked:
        with pytest.raises(Refused) as refused:
            await ask()
        found = refused.value
        assert (found.kind, found.reason) == (Kind.NOT_FOUND, "GAME_ARCHIVED"), ask
        assert found.facts["month"] == str(MONTH)
    listed = await player.call(player.games.ListGames, game_pb2.ListGamesRequest())
    assert [game.game_id for game in listed.games] == [scene.left]
    assert listed.games[0].HasField("archived_time")
    dossier = Dossier(cast(Any, Asker(player)), scene.players[0], own=True)
    held = [game async for game in dossier._games(lambda _: None)]
    assert [game["receipt"] for game in held] == [{"refused": "GAME_ARCHIVED"}]
    disputes = await operator.call(operator.audits.ListDisputes, audit_pb2.ListDisputesRequest())
    assert not disputes.disputes
    assert str((await covered(scene.house, scene.left)).game_id) == scene.left


async def test_who_says_that_a_month_left_must_have_signed_it(tmp_path: Path) -> None:
    """A month that somebody wrote down as archived is a fault of the tree; and of a log that has
    left, the head must be that of its last leaf, and so must what others kept of it."""
    engine = open_engine(await postgres.migrated(f"{SQLITE}:///{tmp_path}/game.db", FOLDERS))
    place = Place(engine, SqlStore(engine, None))
    await place.play(1, 0, 1)
    await place.checkpointer().round()
    game = numbered(1)
    month = str(month_of(game))

    async def left(signature: bytes) -> list[str]:
        row = {"month": month, "archived_at": 1, "manifest": bytes(32), "signature": signature}
        async with write(engine) as connection:
            await connection.execute(delete(archived_months))
            await connection.execute(insert(archived_months), row)
        keys = [KEY.public_key()]
        return [fault async for step in verify_tree(engine, keys) for fault in step.faults]

    assert await left(KEY.sign(archive_octets(month, bytes(32)))) == []
    for false in (bytes(64), KEY.sign(archive_octets("2023-10", bytes(32)))):
        (fault,) = await left(false)
        assert f"the month {month} is said to be archived" in fault
    await disarm(place)
    await place.run("DELETE FROM events")
    checked = await check_game(engine, place.store, game)
    assert checked is not None
    assert (checked.archived, checked.faults, checked.version) == (True, (), 2)
    for version, octets, kinds in ((2, bytes(32), ["NOT_AS_HELD"]), (1, bytes(32), [])):
        held = await check_game(engine, place.store, game, [Held(version, octets)])
        assert held is not None
        assert [fault.kind for fault in held.faults] == kinds
    await place.run("UPDATE heads SET version = 1")
    checked = await check_game(engine, place.store, game)
    assert checked is not None
    assert [fault.kind for fault in checked.faults] == ["NOT_AS_CHECKPOINTED"]
    await place.store.close()
