"""`memory`: what one game replica holds in RAM with all its games live and watched.

Games of all three kinds, some moves into play, are all folded in the replica's cache; then players
open streams. Told are the resident size before, with the games, and with the streams, and how busy
the replica is when nothing is played.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from kozyr.game.v1 import game_pb2, game_pb2_grpc

from services.cli.bench.measuring import Effort, Report, cpu_seconds, drive, resident_bytes
from services.cli.bench.moves import CALL_SECONDS
from services.cli.bench.replicas import House, Server, house
from services.cli.bench.scripts import Script, Writer, store_commands, whole

NAME = "memory"
MOVES = (0, 0, 0, 4, 8)
"""How many moves each game in turn is into play."""
CALLS_AT_ONCE = 32
STREAMS_A_CONNECTION = 500
IDLE_SECONDS = 5.0
MIB = 2**20
LIMIT_MIB = 1_024
"""What the replica may take: `memory` among the ratios is the share of it."""


async def measure(effort: Effort, server_url: str, tell: Callable[[str], None]) -> Report:
    """All of the memory's numbers."""
    report = Report(NAME)
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        async with house(Path(folder), server_url) as found:
            tell("games are dealt")
            scripts = write(effort.games)
            await store_commands(found.streams, scripts, whole)
            replica = await found.start_replica("game", games_cached=str(effort.games))
            report.absolute["memory.empty_mib"] = resident_bytes(replica.pid) / MIB
            tell("games are taken up")
            await visit(found, replica, scripts)
            report.absolute["memory.games_mib"] = resident_bytes(replica.pid) / MIB
            tell("streams are opened")
            readers = await watch(found, replica, scripts, effort.streams)
            idle = IDLE_SECONDS if effort.seconds is None else effort.seconds
            cpu = cpu_seconds(replica.pid)
            await asyncio.sleep(idle)
            busy = (cpu_seconds(replica.pid) - cpu) / idle
            resident = resident_bytes(replica.pid) / MIB
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
    report.ratios["memory"] = resident / LIMIT_MIB
    report.absolute["memory"] = resident
    report.absolute["memory.games"] = len(scripts)
    report.absolute["memory.streams"] = len(readers)
    report.absolute["memory.idle_cpu_share"] = busy
    return report


def write(games: int) -> Sequence[Script]:
    """So many games, each with players of its own."""
    scripts: list[Script] = []
    for number in range(games):
        writer = Writer(number, players=4)
        kind = ("azi", "durak", "rami")[number % 3]
        scripts.append(writer.write(kind, MOVES[number % len(MOVES)]))
    return scripts


async def visit(house: House, replica: Server, scripts: Sequence[Script]) -> None:
    """Have the replica take up every game."""
    stub = game_pb2_grpc.GameServiceStub(house.channel(replica))
    waiting = iter(scripts)

    async def step() -> int:
        script = next(waiting, None)
        if script is None:
            return -1
        await stub.GetGame(
            game_pb2.GetGameRequest(game_id=str(script.game_id)),
            metadata=house.token(script.players[0]),
            timeout=CALL_SECONDS,
        )
        return 1

    await drive([step] * CALLS_AT_ONCE, 3_600.0)


async def watch(
    house: House, replica: Server, scripts: Sequence[Script], streams: int
) -> "list[asyncio.Task[None]]":
    """Open streams, a game and a player each, until all have had their snapshot."""
    readers: list[asyncio.Task[None]] = []
    shown = asyncio.Semaphore(0)
    stub: Any = None

    async def read(call: Any) -> None:
        with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            async for message in call:
                if message.HasField("snapshot"):
                    shown.release()

    for number in range(streams):
        if number % STREAMS_A_CONNECTION == 0:
            stub = game_pb2_grpc.GameServiceStub(house.channel(replica))
        script = scripts[number % len(scripts)]
        request = game_pb2.WatchGameRequest(game_id=str(script.game_id))
        call = stub.WatchGame(request, metadata=house.token(script.players[-1]))
        readers.append(asyncio.create_task(read(call)))
        if number >= CALLS_AT_ONCE:
            async with asyncio.timeout(CALL_SECONDS):
                await shown.acquire()
    for _ in range(min(streams, CALLS_AT_ONCE)):
        async with asyncio.timeout(CALL_SECONDS):
            await shown.acquire()
    return readers
