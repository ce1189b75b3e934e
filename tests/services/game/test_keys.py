"""Master keys end to end, on both engines: exchanged while games go on, lost, and done without."""

import asyncio
import base64
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, keys_pb2, keys_pb2_grpc, view_pb2
from sqlalchemy import text

from services.game import codec
from services.game.server import FOLDERS
from services.kernel.errors import Refused
from services.runtime.database import close_engine, open_engine, read
from services.runtime.keys import master_keys
from services.runtime.migrate import migrate
from services.runtime.server import CannotStart
from services.runtime.settings import Settings
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.logs import logged
from tests.services.game.system import Seat, System, setup, system
from tests.services.game.test_receipts import asked, checked, receipt
from tests.services.game.test_service import dealt, play_out
from tests.verifier.node import node

NEW = base64.b64encode(b"N" * 32)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The settings of the game's database on each engine."""
    if request.param == "sqlite":
        yield {}
        return
    url = postgres.create_database()
    postgres.in_own_loop(migrate(url, FOLDERS))
    yield {"game_database_url": url}
    postgres.drop_database(url)


def stub(caller: Seat) -> Any:
    """KeyService as somebody calls it."""
    return keys_pb2_grpc.KeyServiceStub(caller.client.channel)


async def keys(house: System) -> dict[str, keys_pb2.MasterKey]:
    """The master keys by id."""
    operator = house.operator
    reply = await operator.call(stub(operator).ListKeys, keys_pb2.ListKeysRequest())
    return {key.key_id: key for key in reply.keys}


async def closed(house: System, key_id: str) -> set[str]:
    """The games that are closed without a key."""
    operator = house.operator
    request = keys_pb2.ListClosedGamesRequest(key_id=key_id)
    pages = operator.client.stream(stub(operator).ListClosedGames, request)
    return {game async for page in pages for game in page.game_ids}


async def wrapped(house: System) -> int:
    """Wrap all keys anew; how many there were."""
    operator = house.operator
    steps = operator.client.stream(stub(operator).WrapKeys, keys_pb2.WrapKeysRequest())
    return sum([step.wrapped async for step in steps][-1:])


async def running(house: System, variant: str = "durak", **given: Any) -> tuple[str, Seat]:
    """A game that has been dealt, and its player."""
    request = await house.open(setup(variant, people=1, bots=1, **given))
    player = house.game(request.seats[0].player_id)
    await dealt(player, request.game_id)
    return request.game_id, player


async def test_a_key_is_exchanged_while_a_game_goes_on(
    tmp_path: Path, engine: dict[str, Any]
) -> None:
    """New key beside the old, made current, all wrapped while moves are made, old key removed."""
    folder = tmp_path / "keys"
    async with system(tmp_path, **engine) as house:
        game, _ = await running(house)
    (folder / "master.2.key").write_bytes(NEW)
    async with system(tmp_path, **engine) as house:
        assert {key_id: key.current for key_id, key in (await keys(house)).items()} == {
            "1": True,
            "2": False,
        }
    (folder / "master.key").rename(folder / "master.1.key")
    (folder / "master.2.key").rename(folder / "master.key")
    async with system(tmp_path, master_key_id="2", **engine) as house:
        assert await closed(house, "1") == {game}
        (seat,) = [house.game(player_id) for player_id in await people(house, game)]
        playing = asyncio.create_task(play_out(seat, game, Random(1)))
        another, _ = await running(house)
        assert await wrapped(house) == 1
        assert await wrapped(house) == 0
        assert (await keys(house))["2"].games == 2
        assert await closed(house, "1") == set()
        await playing
    (folder / "master.1.key").unlink()
    async with system(tmp_path, master_key_id="2", **engine) as house:
        verify = audit_pb2.VerifyGameRequest(game_id=game)
        operator = house.operator
        assert list((await operator.call(operator.audits.VerifyGame, verify)).faults) == []
        assert (await operator.view(another)).stage == view_pb2.STAGE_PLAYING


async def people(house: System, game: str) -> list[str]:
    """The players of a game who are no bots."""
    view = await house.operator.view(game)
    return [seat.player_id for seat in view.seats if not seat.bot_level]


async def test_a_lost_key_is_said_with_the_games_it_closes(
    tmp_path: Path, engine: dict[str, Any]
) -> None:
    """At start, in the log, to operators and players; others go on, ended ones stay readable."""
    folder = tmp_path / "keys"
    async with system(tmp_path, **engine) as house:
        game, _ = await running(house, turn_ms=600_000)
        over, other = await running(house)
        await play_out(other, over, Random(2))
    (folder / "master.key").write_bytes(NEW)
    with pytest.raises(CannotStart, match=rf"key folder: 1; .*closed are 1 running games: {game}$"):
        async with system(tmp_path, master_key_id="2", **engine):
            raise AssertionError
    lost = {"master_key_id": "2", "master_keys_lost": "1", **engine}
    with pytest.raises(CannotStart, match="key folder: 1"):  # another key under the lost one's name
        async with system(tmp_path, **{**lost, "master_key_id": "1"}):
            raise AssertionError
    with logged(io.StringIO()) as written:
        await _without_the_key(tmp_path, lost, game, over)
    said = [json.loads(line) for line in written.getvalue().splitlines()]
    assert {"game_closed"} & {line["event"] for line in said if line.get("game") == game}
    assert not [line for line in said if line["event"] in ("due_failed", "call_failed")]


async def _without_the_key(folder: Path, lost: dict[str, Any], game: str, over: str) -> None:
    """The game is closed, the ended one is not, and others go on."""
    async with system(folder, **lost) as house:
        assert await closed(house, "1") == {game}
        assert not (await keys(house))["1"].present
        mine = house.game((await people(house, over))[0])
        for call in (house.operator.view(game), receipt(house.operator, game)):
            with pytest.raises(Refused, match="LOG_SEALED"):
                await call
        assert (await mine.view(over)).stage == view_pb2.STAGE_FINISHED
        fresh, seat = await running(house)
        await play_out(seat, fresh, Random(3))


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
async def test_an_ended_game_needs_no_key(
    tmp_path: Path, variant: str, engine: dict[str, Any]
) -> None:
    """Views, replay, audit, export and the receipt, by which both verifiers execute it again."""
    async with system(tmp_path, **engine) as house:
        request = asked(variant, "full", 1, 2)
        if variant == "azi":
            request.options.azi.deal_size = 4
        request = await house.open(request)
        player = house.game(request.seats[0].player_id)
        await play_out(player, request.game_id, Random(5))
        game = request.game_id
        before = json.loads(await receipt(player, game))["receipt"]
    (tmp_path / "keys" / "master.key").write_bytes(NEW)
    async with system(tmp_path, master_key_id="2", **engine) as house:
        operator, player = house.operator, house.game(request.seats[0].player_id)
        verify = audit_pb2.VerifyGameRequest(game_id=game)
        faults = (await operator.call(operator.audits.VerifyGame, verify)).faults
        assert [fault for fault in faults if fault.kind != "WALLET_DIFFERS"] == []
        replay = audit_pb2.ReplayGameRequest(game_id=game)
        steps = [s async for s in player.client.stream(player.audits.ReplayGame, replay)]
        assert steps[-1].to_version == before["version"]
        export = audit_pb2.ExportGameRequest(game_id=game)
        assert [s async for s in player.client.stream(player.audits.ExportGame, export)]
        document = await receipt(player, game)
        assert checked(house, document).receipt.kind == "full"
        (tmp_path / "receipt.json").write_bytes(document)
        code, said = node(tmp_path / "receipt.json")
        assert code == 0, said
        now = json.loads(document)["receipt"]
        for row, was in zip(now["rows"], before["rows"], strict=True):
            assert row == {**was, "salt": None}, "the published secrets are those that were sealed"


async def test_cards_opened_singly_stay_closed_without_their_key(
    tmp_path: Path, engine: dict[str, Any]
) -> None:
    """Nothing published them; the game is among those that the key's loss closes."""
    async with system(tmp_path, **engine) as house:
        request = await house.open(asked("durak", "own", 1, 2))
        await play_out(house.game(request.seats[0].player_id), request.game_id, Random(5))
        assert await closed(house, "1") == {request.game_id}
    (tmp_path / "keys" / "master.key").write_bytes(NEW)
    async with system(tmp_path, master_key_id="2", **engine) as house:
        assert await closed(house, "1") == {request.game_id}
        with pytest.raises(Refused, match="LOG_SEALED"):
            await house.operator.view(request.game_id)


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
async def test_a_dump_of_the_database_shows_no_live_hand(
    tmp_path: Path, variant: str, engine: dict[str, Any]
) -> None:
    """No run of six cards of a hidden deck, no seed, no salt, in any spelling a dump might have."""
    async with system(tmp_path, **engine) as house:
        request = setup(variant, people=2, bots=0, turn_ms=600_000)
        if variant == "azi":
            request.options.azi.deal_size = 4
        await house.open(request)
        seats = [house.game(seat.player_id) for seat in request.seats]
        for _ in range(5):
            await a_move(seats, request.game_id)
        url = engine.get("game_database_url")
        dump = files_of(tmp_path) if url is None else await rows_of(url)
        secrets = await sealed_secrets(house.settings, UUID(request.game_id))
    assert request.game_id.encode() in dump
    assert len(secrets) > 4
    for secret in secrets:
        for form in (secret, secret.hex().encode(), base64.b64encode(secret)[:-4]):
            assert form not in dump


async def a_move(seats: list[Seat], game: str) -> None:
    """Somebody who is to act makes his first legal move but to fold, when cards are dealt."""
    async with asyncio.timeout(20):
        while True:
            for seat in seats:
                view = await seat.view(game)
                if view.seat in view.to_act:
                    table = getattr(view, view.WhichOneof("table") or "")
                    staying = (m for m in table.legal if m.WhichOneof("move") != "fold")
                    await seat.move(view, next(staying))
                    return
            await asyncio.sleep(0.02)


def files_of(folder: Path) -> bytes:
    """The octets of the database's files, its write-ahead log included."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("game.db*")))


async def rows_of(url: str) -> bytes:
    """Every row of every table, bytea in hexadecimal, as pg_dump writes it."""
    database = open_engine(url)
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    found: list[str] = []
    async with read(database) as connection:
        for name in (await connection.execute(text(tables))).scalars().all():
            rows = await connection.execute(text(f'SELECT t::text FROM "{name}" t'))  # noqa: S608
            found += rows.scalars()
    await close_engine(database)
    return "\n".join(found).encode()


async def sealed_secrets(settings: Settings, game: UUID) -> list[bytes]:
    """What is sealed of a game: salts, seeds, runs of six of each deck, whole other secrets."""
    found: list[bytes] = []
    for row in await read_log(settings, game):
        if row.secret is None or row.salt is None:
            continue
        found.append(row.salt)
        event: Any = codec.decode(row)
        if row.name == "game.GameOpened":
            found += [event.secret.server_seed, event.secret.bot_seed]
        elif row.name.endswith(".Dealt"):
            found += [row.secret[n : n + 6] for n in range(2, len(row.secret) - 6)]
    return found


async def read_log(settings: Settings, game: UUID) -> Any:
    """The rows of a game with their secrets, read beside the service."""
    url = settings.database_url("game")
    if url.startswith("sqlite"):
        url = f"sqlite+aiosqlite:///{beside(settings.data_folder)}"
    store = SqlStore(open_engine(url), master_keys(settings))
    rows = await store.read(game)
    await store.close()
    return rows


def beside(folder: Path) -> Path:
    """A copy of the game's database, its write-ahead log included."""
    copied = folder / "beside"
    copied.mkdir()
    for file in folder.glob("game.db*"):
        shutil.copy(file, copied / file.name)
    return copied / "game.db"
