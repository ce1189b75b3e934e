"""A game service that lacks a master key: it does not start, or refuses what it cannot open."""

import base64
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2

from services.kernel.errors import Kind, Refused
from services.runtime.server import CannotStart
from tests.services.game.system import Seat, setup, system


def write(folder: Path, statement: str, *given: object) -> None:
    """Write into the game's database, as somebody who holds it might."""
    with closing(sqlite3.connect(folder / "game.db")) as database:
        assert database.execute(statement, given).rowcount > 0
        database.commit()


async def refused(awaitable: object) -> Refused:
    """How a call is refused."""
    with pytest.raises(Refused) as caught:
        await awaitable  # type: ignore[misc]
    return caught.value


async def listed(caller: Seat) -> set[str]:
    """The ids of the games a caller is shown in a list."""
    reply = await caller.call(caller.games.ListGames, game_pb2.ListGamesRequest())
    return {game.game_id for game in reply.games}


async def test_a_service_without_a_key_in_use_does_not_start_and_names_it(tmp_path: Path) -> None:
    """A key that is gone, and one that only bears the name; with the keys in place it starts."""
    async with system(tmp_path, master_key_id="one"):
        pass
    async with system(tmp_path, master_key_id="one") as house:
        await house.open(setup(people=2, bots=0))
    key = (tmp_path / "keys" / "master.key").read_bytes()
    other = base64.b64encode(b"2" * 32)
    (tmp_path / "keys" / "master.key").write_bytes(other)
    for name in ("two", "one"):
        with pytest.raises(CannotStart, match=r"not in the key folder: one;"):
            async with system(tmp_path, master_key_id=name):
                raise AssertionError
    (tmp_path / "keys" / "master.one.key").write_bytes(key)
    async with system(tmp_path, master_key_id="two") as house:
        await house.open(setup(people=2, bots=0))
    (tmp_path / "keys" / "master.one.key").unlink()
    (tmp_path / "keys" / "master.key").write_bytes(key)
    with pytest.raises(CannotStart, match=r"not in the key folder: one, two;"):
        async with system(tmp_path, master_key_id="three"):
            raise AssertionError


async def test_a_damaged_key_of_one_game_keeps_no_service_from_starting(tmp_path: Path) -> None:
    """The others show that the master key is the right one."""
    async with system(tmp_path) as house:
        games = [(await house.open(setup(people=2, bots=0))).game_id for _ in range(2)]
    statement = "UPDATE stream_keys SET wrapped = zeroblob(60) WHERE stream = ?"
    write(tmp_path, statement, UUID(games[0]).hex)
    async with system(tmp_path) as house:
        assert await listed(house.operator) == set(games)


async def test_a_game_whose_key_went_missing_is_refused_by_name(tmp_path: Path) -> None:
    """LOG_SEALED with the key's id wherever it is read; lists and other games go on."""
    async with system(tmp_path) as house:
        first = await house.open(setup(people=2, bots=0, seed_ms=60_000))
        again = setup(people=2, bots=0, seed_ms=60_000)
        again.seats[0].player_id = first.seats[0].player_id
        sound = (await house.open(again)).game_id
    sealed = first.game_id
    async with system(tmp_path) as house:
        statement = "UPDATE stream_keys SET key_id = 'gone' WHERE stream = ?"
        write(tmp_path, statement, UUID(sealed).hex)
        mine, operator = house.game(first.seats[0].player_id), house.operator
        assert await listed(mine) == await listed(operator) == {sealed, sound}
        commit = game_pb2.CommitSeedRequest(request_id="c", game_id=sealed, hash=bytes(32))
        verify = audit_pb2.VerifyGameRequest(game_id=sealed)
        refusals = [
            await refused(mine.view(sealed)),
            await refused(mine.call(mine.games.CommitSeed, commit)),
            await refused(anext(aiter(mine.watch(sealed)))),
            await refused(operator.call(operator.audits.VerifyGame, verify)),
        ]
        for each in refusals:
            assert (each.kind, each.reason) == (Kind.PRECONDITION, "LOG_SEALED")
            assert each.facts["key"] == "gone"
        commit.game_id = sound
        await mine.call(mine.games.CommitSeed, commit)
        assert (await mine.view(sound)).version == 2
