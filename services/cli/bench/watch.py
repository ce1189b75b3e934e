"""`watch`: steps delivered a second to four viewers a game beside bare stream messages.

One replica on PostgreSQL; four viewers watch each game there, its players and spectators, while
the moves are made elsewhere: the driving process appends what it decided before, and tells of it by
NOTIFY, as another replica would. The peer sends messages of the steps' mean size on as many
streams, on the same server stack, as fast as they are taken; the same client process receives
either, as octets that it does not take apart. Beside it, the same with every move submitted to the
watched replica itself. The latency across replicas is taken from the sending of a move to replica A
until a viewer on replica B has its step, with little else going on.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import grpc
from google.rpc.error_details_pb2 import RequestInfo
from kozyr.game.v1 import game_pb2, game_pb2_grpc

from services.cli.bench import echo
from services.cli.bench.measuring import (
    Effort,
    Report,
    Slice,
    cpu_seconds,
    cpu_us,
    drive,
    interleaved,
    percentile,
    rate,
    ratio,
)
from services.cli.bench.moves import CALL_SECONDS, MOVES_A_GAME, Pool, Seat
from services.cli.bench.replicas import House, Server, house
from services.cli.bench.scripts import Script, Writer, dealt, store_commands, submit_request
from services.cli.outcome import Failure

NAME = "watch"
WATCH = "/kozyr.game.v1.GameService/WatchGame"
EVENTS = {
    game_pb2.WatchGameResponse.SNAPSHOT_FIELD_NUMBER: "snapshot",
    game_pb2.WatchGameResponse.STEP_FIELD_NUMBER: "step",
}
"""What a message brings, by the number of its first field."""
SECONDS = 2.0
HALF = 2
"""Half of the games of `moves` are watched: with fewer the replica waits for moves, of which one is
made after the other in each game."""
VIEWERS = 4
AHEAD_MAX = 8
"""A game is played no further than so many moves ahead of what its viewers have been sent."""
LATENCY_GAMES = 8
LATENCY_SECONDS = 5.0
PAUSE_SECONDS = 0.02
"""Between two moves while latency is measured: the machine is otherwise idle."""
OPEN_SECONDS = 60.0
QUIET_SECONDS = 0.1
"""A stream that brings nothing for so long has brought all there was to bring."""


class Viewers:
    """Streams that are read for as long as they are open."""

    def __init__(self) -> None:
        self.count = 0
        self.octets = 0
        self.last = 0.0
        self._readers: list[asyncio.Task[None]] = []
        self._calls: list[Any] = []

    def open(self, call: Any, taken: Callable[[Any], None]) -> None:
        """Read a stream from now on, and say what came."""

        async def read() -> None:
            with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
                async for message in call:
                    taken(message)

        self._calls.append(call)
        self._readers.append(asyncio.create_task(read()))

    def add(self, message: bytes) -> None:
        """Count a message."""
        self.count += 1
        self.octets += len(message)
        self.last = time.perf_counter()

    async def settle(self) -> None:
        """Wait until nothing comes any more."""
        await _until(lambda: time.perf_counter() - self.last >= QUIET_SECONDS)

    async def close(self) -> None:
        """Cancel all."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)


async def measure(effort: Effort, server_url: str, tell: Callable[[str], None]) -> Report:
    """All of the watchers' numbers."""
    report = Report(NAME)
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        async with house(Path(folder), server_url) as found:
            tell("services start")
            beside = await found.start_echo()
            near = await found.start_replica("near")
            await found.tell_replicas()
            await _fan_out(effort, found, near, beside, report, tell)
            far = await found.start_replica("far")
            tell("across replicas")
            await _across(effort, found, near, far, report)
    return report


async def _fan_out(
    effort: Effort,
    house: House,
    replica: Server,
    beside: Server,
    report: Report,
    tell: Callable[[str], None],
) -> None:
    seconds = effort.slice(SECONDS)
    games = max(1, effort.many // HALF)
    writer = Writer(2)
    pool = Pool(house, writer)
    stub = game_pb2_grpc.GameServiceStub(house.channel(replica))
    watched = house.channel(replica).unary_stream(
        WATCH, game_pb2.WatchGameRequest.SerializeToString
    )
    stream = house.channel(beside).unary_stream(echo.STREAM, RequestInfo.SerializeToString)
    mean = 0.0
    driving: dict[str, list[float]] = {"elsewhere": [], "here": [], "bare": []}

    async def deliver(name: str, hands: "Sequence[Seat] | Sequence[Elsewhere]") -> Slice:
        nonlocal mean
        async with watching(house, watched, hands, writer.players) as (viewers, opened):
            await opened()
            tell(f"{games} games, {VIEWERS} viewers each, moves made {name}")
            before, octets, began = viewers.count, viewers.octets, time.perf_counter()
            cpu, own = cpu_seconds(replica.pid), time.process_time()
            done = await drive([hand.step for hand in hands], seconds)
            await _until(lambda: viewers.count > before)
            await viewers.settle()
            steps = viewers.count - before
            driving[name].append((time.process_time() - own) / steps * 1e6)
            # what was still under way is counted, and so is the time it took
            taken = Slice(
                steps, max(done.seconds, viewers.last - began), cpu_seconds(replica.pid) - cpu
            )
            mean = (viewers.octets - octets) / steps
        for hand in hands:
            if hand.script is not None:
                pool.give(hand.script)
        pool.pace = max(pool.pace, done.rate)
        return taken

    async def elsewhere() -> Slice:
        tell(f"{games} games, preparing")
        await pool.fill(games, seconds)
        return await deliver("elsewhere", [Elsewhere(house, pool) for _ in range(games)])

    async def here() -> Slice:
        tell(f"{games} games, preparing")
        await pool.fill(games, seconds)
        return await deliver("here", [Seat(house, pool, stub.SubmitMove) for _ in range(games)])

    async def bare() -> Slice:
        tell("bare messages")
        viewers = Viewers()
        request = RequestInfo(request_id="stream", serving_data=str(round(mean or 1_500)))
        for player in islice(cycle(writer.players), games * VIEWERS):
            viewers.open(stream(request, metadata=house.token(player)), viewers.add)
        await _until(lambda: viewers.count > 0)
        count, cpu, began = viewers.count, cpu_seconds(beside.pid), time.perf_counter()
        own = time.process_time()
        await asyncio.sleep(seconds)
        await _until(lambda: viewers.count > count)
        sent = viewers.count - count
        done = Slice(sent, time.perf_counter() - began, cpu_seconds(beside.pid) - cpu)
        driving["bare"].append((time.process_time() - own) / sent * 1e6)
        await viewers.close()
        return done

    await elsewhere()
    sides = {"elsewhere": elsewhere, "bare": bare, "here": here}
    found = await interleaved(sides, effort.rounds)
    report.ratios["watch.fanout_vs_echo_stream"] = ratio(found["elsewhere"], found["bare"])
    report.absolute["watch.steps_per_s"] = rate(found["elsewhere"])
    report.absolute["watch.submitted_steps_per_s"] = rate(found["here"])
    report.absolute["watch.echo_messages_per_s"] = rate(found["bare"])
    report.absolute["watch.step_bytes"] = mean
    report.absolute["watch.step_cpu_us"] = cpu_us(found["elsewhere"])
    report.absolute["watch.submitted_step_cpu_us"] = cpu_us(found["here"])
    report.absolute["watch.echo_message_cpu_us"] = cpu_us(found["bare"])
    report.absolute["watch.driver_cpu_us"] = statistics.median(driving["elsewhere"])
    report.absolute["watch.echo_driver_cpu_us"] = statistics.median(driving["bare"])


class Elsewhere:
    """One game after the other, its moves made by this process and told to the replicas."""

    def __init__(self, house: House, pool: Pool) -> None:
        self._house = house
        self._pool = pool
        self._changed = asyncio.Event()
        self.script: Script | None = None
        self.taken: Callable[[Script], None] = lambda _script: None
        self._opened = self._made = self._told = 0

    def take(self) -> Script | None:
        """The game whose next move is to be made, a new one after the last; `taken` is told."""
        if self.script is None or not self.script.left:
            self.script = self._pool.take()
            if self.script is not None:
                self._opened = self._made = self._told = 0
                self.taken(self.script)
        return self.script

    def heard(self, what: str) -> None:
        """A viewer of the present game was sent something."""
        self._opened += what == "snapshot"
        self._told += what == "step"
        self._changed.set()

    async def step(self) -> int:
        """Make a move, once the viewers are there and not too far behind."""
        script = self.take()
        if script is None:
            return -1
        while self._opened < VIEWERS or self._made * VIEWERS - self._told >= AHEAD_MAX * VIEWERS:
            self._changed.clear()
            await self._changed.wait()
        append = script.appends[script.done]
        script.done += 1
        await self._house.append(append)
        self._made += 1
        return 1


@asynccontextmanager
async def watching(
    house: House,
    watch: Any,
    hands: "Sequence[Seat] | Sequence[Elsewhere]",
    others: Sequence[str],
) -> AsyncIterator[tuple[Viewers, Callable[[], Awaitable[None]]]]:
    """Four viewers of whatever game each hand plays, from its taking on; closed at the end.

    The games are taken here, and a hand keeps its game for the slice or as long as it has moves.
    """
    viewers = Viewers()
    waiting = 0

    def arrived(hand: Seat | Elsewhere, script: Script, message: bytes) -> None:
        nonlocal waiting
        what = EVENTS.get(message[0] >> 3, "")
        if what == "step":
            viewers.add(message)
        elif what == "snapshot":
            waiting -= 1
        if hand.script is script:
            hand.heard(what)

    def follow(hand: Seat | Elsewhere, script: Script) -> None:
        nonlocal waiting
        spectators = (p for p in others if p not in script.players)
        for player in (*script.players, *spectators)[:VIEWERS]:
            waiting += 1
            request = game_pb2.WatchGameRequest(game_id=str(script.game_id))
            call = watch(request, metadata=house.token(player))
            viewers.open(call, partial(arrived, hand, script))

    for hand in hands:
        hand.taken = partial(follow, hand)
        hand.take()

    async def opened() -> None:
        await _until(lambda: waiting <= 0)

    try:
        yield viewers, opened
    finally:
        await viewers.close()


async def _across(effort: Effort, house: House, near: Server, far: Server, report: Report) -> None:
    seconds = LATENCY_SECONDS if effort.seconds is None else effort.seconds * 2
    writer = Writer(3)
    scripts = [writer.write("rami", MOVES_A_GAME * 4) for _ in range(LATENCY_GAMES)]
    await store_commands(house.streams, scripts, dealt)
    stub = game_pb2_grpc.GameServiceStub(house.channel(near))
    late: dict[str, list[float]] = {"cross_replica": [], "same_replica": []}
    sent: dict[tuple[str, int], float] = {}
    viewers, seen = Viewers(), {"cross_replica": 0, "same_replica": 0}

    def follow(script: Script, name: str, where: Any) -> None:
        game_id = str(script.game_id)

        def arrived(message: game_pb2.WatchGameResponse) -> None:
            if message.HasField("snapshot"):
                seen[name] += 1
            elif message.HasField("step"):
                began = sent.get((game_id, message.step.from_version))
                if began is not None:
                    late[name].append((time.perf_counter() - began) * 1_000)

        request = game_pb2.WatchGameRequest(game_id=game_id)
        viewers.open(where(request, metadata=house.token(script.players[0])), arrived)

    for name, server in (("cross_replica", far), ("same_replica", near)):
        watch = game_pb2_grpc.GameServiceStub(house.channel(server)).WatchGame
        for script in scripts:
            follow(script, name, watch)
    await _until(lambda: min(seen.values()) == len(scripts))
    versions = {s.game_id: (await house.streams.load(s.game_id)).version for s in scripts}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for script in scripts:
            if not script.left:
                continue
            player, request = submit_request(script)
            sent[str(script.game_id), versions[script.game_id] + 1] = time.perf_counter()
            answer = await stub.SubmitMove(
                request, metadata=house.token(player), timeout=CALL_SECONDS
            )
            versions[script.game_id] = answer.view.version
            await asyncio.sleep(PAUSE_SECONDS)
    await _settled(late, len(sent))
    await viewers.close()
    for name, found in late.items():
        if not found:
            raise Failure(f"no viewer of {name} saw a move")
        report.absolute[f"watch.{name}_ms_p50"] = percentile(found, 0.5)
        report.absolute[f"watch.{name}_ms_p99"] = percentile(found, 0.99)


async def _settled(late: dict[str, list[float]], moves: int) -> None:
    """Wait until every viewer has every step; raises Failure if some do not come."""
    await _until(lambda: min(len(found) for found in late.values()) >= moves)


async def _until(holds: Callable[[], bool]) -> None:
    end = time.perf_counter() + OPEN_SECONDS
    while not holds():
        if time.perf_counter() > end:
            raise Failure("streams did not bring what they should")
        await asyncio.sleep(0.005)
