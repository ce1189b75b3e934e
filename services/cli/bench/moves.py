"""`moves`: SubmitMove a second through gRPC beside a bare echo on the same server stack.

One game replica on PostgreSQL, games of all three kinds in play, each with one move under way. One
client process drives both sides with the same number of calls at once and the same players' tokens;
its moves were worked out before. The servers' CPU time a call is told for both.
"""

import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from google.rpc.error_details_pb2 import RequestInfo
from kozyr.game.v1 import game_pb2_grpc

from services.cli.bench import echo
from services.cli.bench.measuring import (
    Effort,
    Report,
    Slice,
    Step,
    cpu_us,
    drive,
    interleaved,
    rate,
    ratio,
)
from services.cli.bench.replicas import House, Server, house
from services.cli.bench.scripts import Script, Writer, dealt, store_commands, submit_request

NAME = "moves"
SECONDS = 1.0
MOVES_A_GAME = 120
SHORT_GAME = 20
"""Moves of a short game: Azi played at random."""
FIRST_GUESS = 400.0
"""Moves a second to prepare for before any were measured."""
SPARE = 1.5
CALL_SECONDS = 30.0


class Pool:
    """Games in play, dealt and stored, with enough moves for the next slice."""

    def __init__(self, house: House, writer: Writer) -> None:
        self._house = house
        self._writer = writer
        self._games: deque[Script] = deque()
        self.pace = FIRST_GUESS

    async def fill(self, games: int, seconds: float) -> None:
        """Make sure of so many games and of moves for so long."""
        moves = self.pace * seconds * SPARE + games
        needed = games + moves / SHORT_GAME  # so many may end meanwhile and want another
        new: list[Script] = []
        left = sum(script.left for script in self._games)
        while len(self._games) + len(new) < needed or left < moves:
            script = self._writer.write(moves_max=MOVES_A_GAME)
            left += script.left - dealt(script)
            new.append(script)
        await store_commands(self._house.streams, new, dealt)
        self._games.extend(new)

    def take(self) -> Script | None:
        """A game with a move to make; None when there is none."""
        while self._games:
            script = self._games.popleft()
            if script.left:
                return script
        return None

    def give(self, script: Script) -> None:
        """A game back."""
        self._games.appendleft(script)


class Seat:
    """One game after the other, a move at a time."""

    def __init__(self, house: House, pool: Pool, submit: Any) -> None:
        self._house = house
        self._pool = pool
        self._submit = submit
        self.script: Script | None = None
        self.taken: Callable[[Script], None] = lambda _script: None

    def take(self) -> Script | None:
        """The game whose next move is to be made, a new one after the last; `taken` is told."""
        if self.script is None or not self.script.left:
            self.script = self._pool.take()
            if self.script is not None:
                self.taken(self.script)
        return self.script

    def heard(self, what: str) -> None:
        """A viewer of the game was sent something."""

    async def step(self) -> int:
        """Make a move and have its view back."""
        script = self.take()
        if script is None:
            return -1
        player, request = submit_request(script)
        await self._submit(request, metadata=self._house.token(player), timeout=CALL_SECONDS)
        return 1


async def measure(effort: Effort, server_url: str, tell: Callable[[str], None]) -> Report:
    """All of the moves' numbers."""
    report = Report(NAME)
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        async with house(Path(folder), server_url) as found:
            tell("services start")
            beside = await found.start_echo()
            replica = await found.start_replica("game")
            await _measure(effort, found, replica, beside, report, tell)
    return report


async def _measure(
    effort: Effort,
    house: House,
    replica: Server,
    beside: Server,
    report: Report,
    tell: Callable[[str], None],
) -> None:
    seconds, many = effort.slice(SECONDS), effort.many
    writer = Writer(1)
    pool = Pool(house, writer)
    stub = game_pb2_grpc.GameServiceStub(house.channel(replica))
    call = house.channel(beside).unary_unary(
        echo.ECHO, RequestInfo.SerializeToString, RequestInfo.FromString
    )
    curve = sorted({many, *effort.curve})

    async def ours(games: int) -> Slice:
        tell(f"{games} games, preparing")
        await pool.fill(games, seconds)
        tell(f"{games} games")
        seats = [Seat(house, pool, stub.SubmitMove) for _ in range(games)]
        done = await drive([seat.step for seat in seats], seconds, replica.pid)
        for seat in seats:
            if seat.script is not None:
                pool.give(seat.script)
        pool.pace = max(FIRST_GUESS, done.rate)
        return done

    async def theirs(games: int) -> Slice:
        tell(f"echo, {games} at once")
        steps = [echoing(house, call, player) for player in players_of(writer, games)]
        return await drive(steps, seconds, beside.pid)

    await ours(many)
    await theirs(many)
    sides = {f"moves {n}": partial(ours, n) for n in curve}
    sides |= {f"echo {n}": partial(theirs, n) for n in curve}
    sides = dict(sorted(sides.items(), key=lambda side: int(side[0].split()[1])))
    found = await interleaved(sides, effort.rounds)
    report.ratios["moves.submit_vs_echo"] = ratio(found[f"moves {many}"], found[f"echo {many}"])
    for games in curve:
        report.absolute[f"moves.submit_per_s_{games}"] = rate(found[f"moves {games}"])
        report.absolute[f"moves.echo_per_s_{games}"] = rate(found[f"echo {games}"])
    report.absolute["moves.submit_cpu_us"] = cpu_us(found[f"moves {many}"])
    report.absolute["moves.echo_cpu_us"] = cpu_us(found[f"echo {many}"])


def players_of(writer: Writer, count: int) -> Sequence[str]:
    """So many callers out of the players there are."""
    return [writer.players[n % len(writer.players)] for n in range(count)]


def echoing(house: House, call: Any, player: str) -> Step:
    """A step of the echo's."""
    metadata = house.token(player)

    async def step() -> int:
        request = RequestInfo(request_id=secrets.token_hex(12))
        await call(request, metadata=metadata, timeout=CALL_SECONDS)
        return 1

    return step
