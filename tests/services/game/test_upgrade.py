"""Replicas of two releases side by side: each game is played to its end by the rules it began with.

The older one does not know the rules of the newer one's games and leaves those alone.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from kozyr.ai.v1 import ai_pb2_grpc
from kozyr.game.v1 import audit_pb2, game_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2_grpc

from engines.rulebook import RULEBOOK
from services.game import audit, server
from services.kernel.errors import Kind, Refused
from services.runtime.database import open_engine
from services.runtime.keys import ensure_keys, master_keys
from services.runtime.migrate import migrate
from services.runtime.settings import Settings
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.services.game import upgraded
from tests.services.game.system import RandomAi, Seat, System, Table, game_uuid, setup

ROOT = Path(__file__).parents[3]
OLD, NEW = "services.game.server", "tests.services.game.upgraded"


@dataclass
class Replica:
    """A process of the game service, and what it has logged."""

    house: System
    process: asyncio.subprocess.Process
    log: Path

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The lines of its log, of one event or of all."""
        written = self.log.read_text("utf-8").splitlines()  # gRPC writes lines of its own
        said = [json.loads(line) for line in written if line.startswith("{")]
        return [line for line in said if event in ("", line["event"])]

    async def stop(self) -> None:
        """Have it drain and end."""
        self.process.terminate()
        assert await self.process.wait() == 0


@pytest.fixture
def database() -> Iterator[str]:
    """The database that both releases serve."""
    url = postgres.create_database()
    postgres.in_own_loop(migrate(url, server.FOLDERS))
    yield url
    postgres.drop_database(url)


@asynccontextmanager
async def replica(folder: Path, module: str, **settings: str) -> AsyncIterator[Replica]:
    """A replica of the release whose main this is."""
    log = folder / f"{module}.log"
    named = {f"KOZYR_{name.upper()}": value for name, value in settings.items()}
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module),
            env={**os.environ, **named, "PYTHONPATH": f"{ROOT}:{ROOT}/proto/gen"},
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
        )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            ready = json.loads(await process.stdout.readline())
        where = Settings(data_folder=folder, game_address=ready["address"])
        made = Replica(System(where, RandomAi(), Table()), process, log)  # type: ignore[abstract]
        yield made
        for client in made.house.clients:
            await client.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def neighbours() -> AsyncIterator[str]:
    """An ai and a lobby for all of them, at this address."""
    served = grpc.aio.server()
    ai_pb2_grpc.add_AiServiceServicer_to_server(RandomAi(), served)  # type: ignore[abstract]
    lobby_pb2_grpc.add_LobbyServiceServicer_to_server(Table(), served)  # type: ignore[abstract]
    address = f"127.0.0.1:{served.add_insecure_port('127.0.0.1:0')}"
    await served.start()
    yield address
    await served.stop(None)


async def play_at(seats: list[Seat], game: str, moves: int, rng: Random) -> bool:
    """So many moves of the game's person, each at any of these replicas; whether it is over."""
    async with asyncio.timeout(60):
        while moves:
            seat = rng.choice(seats)
            view = await seat.view(game)
            if view.stage == view_pb2.STAGE_FINISHED:
                return True
            if view.seat not in view.to_act:
                await asyncio.sleep(0.01)
                continue
            legal = view.durak.legal
            try:
                await seat.move(view, legal[rng.randrange(len(legal))])
                moves -= 1
            except Refused as refused:  # another seat was faster
                if refused.kind not in (Kind.CONFLICT, Kind.PRECONDITION):
                    raise
    return False


async def test_games_end_by_the_rules_they_began_with(tmp_path: Path, database: str) -> None:
    """The old game at either release, the new one at the newer; the older one makes no noise."""
    ensure_keys(tmp_path / "keys")
    rng = Random(5)
    async with neighbours() as address:
        settings = {
            "data_folder": str(tmp_path),
            "game_listen": "127.0.0.1:0",
            "game_database_url": database,
            "ai_address": address,
            "lobby_address": address,
            "wallet_address": address,
            "bot_delay_ms": "0",
            "rate_per_second": "10000",
        }
        async with replica(tmp_path, OLD, **settings) as old:
            first = await old.house.open(setup("durak", people=1, bots=2))
            player = first.seats[0].player_id
            await play_at([old.house.game(player)], first.game_id, 3, rng)
            async with replica(tmp_path, NEW, **settings) as new:
                second = setup("durak", people=1, bots=2)
                second.seats[0].player_id = player
                await new.house.open(second)
                at_new, at_old = new.house.game(player), old.house.game(player)
                both = play_at([at_old, at_new], first.game_id, 3, rng)
                await asyncio.gather(both, play_at([at_new], second.game_id, 10**6, rng))
                with pytest.raises(Refused, match="UNKNOWN_RULES") as caught:
                    await at_old.view(second.game_id)
                assert caught.value.kind is Kind.UNAVAILABLE
                listed = await at_old.call(at_old.games.ListGames, game_pb2.ListGamesRequest())
                assert {g.game_id for g in listed.games} == {first.game_id, second.game_id}
                await old.stop()
                assert [line for line in old.lines() if line["level"] in ("error", "warning")] == []
                # one line for each row taken before the stream was left alone, not one a look
                assert len(old.lines("due_left_to_others")) < 10
                await play_at([at_new], first.game_id, 10**6, rng)
                for game, rules in ((first, "durak 1.0.0"), (second, upgraded.RULES)):
                    verify = audit_pb2.VerifyGameRequest(game_id=game.game_id)
                    operator = new.house.operator
                    reply = await operator.call(operator.audits.VerifyGame, verify)
                    assert [f for f in reply.faults if f.kind != "WALLET_DIFFERS"] == []
                    assert (await operator.view(game.game_id)).rules == rules
                assert [line for line in new.lines() if line["level"] == "error"] == []
    where = Settings(data_folder=tmp_path, game_database_url=database)  # type: ignore[arg-type]
    store = SqlStore(open_engine(database), master_keys(where))
    head, rows = await store.whole(game_uuid(second))
    await store.close()
    assert upgraded.RULES not in RULEBOOK
    (fault,) = audit.verify_log(game_uuid(second), rows, head)
    assert (fault.version, fault.kind) == (1, "UNKNOWN_RULES")
