"""`load`: people at tables for minutes on one machine, beside one table that has it to itself.

Every player is a client of his own (`services.client`), with connections of his own: signed up, at
a table of people, his stream open, his seed committed, thinking before each move as long as a
person who knows the game. When a game has ended the table opens another.
"""

import asyncio
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.cli.bench import postgres
from services.cli.bench.measuring import Report, cpu_seconds, percentile, resident_bytes
from services.cli.outcome import USAGE, Failure
from services.cli.stack import Stack
from services.client.player import Player
from services.client.tables import Tables, game_options
from services.client.variants import GAMES
from services.game import server as game_server
from services.kernel.errors import Kind, Refused
from services.lobby import server as lobby_server
from services.runtime.settings import SERVICES, Settings
from services.wallet import server as wallet_server

NAME = "load"
DATABASES = {
    "lobby": lobby_server.FOLDERS,
    "game": game_server.FOLDERS,
    "wallet": wallet_server.FOLDERS,
}
UNBOUNDED = "1000000000"
ENVIRONMENT = {
    "KOZYR_AI_WORKERS": "1",
    "KOZYR_WELCOME_CHIPS": "1000000",
    **{
        f"KOZYR_{name}": UNBOUNDED
        for name in (
            *("PEER_RATE_PER_SECOND", "PEER_RATE_BURST"),
            *("ADDRESS_RATE_PER_SECOND", "ADDRESS_RATE_BURST", "STREAMS_PER_ADDRESS_MAX"),
        )
    },
}
"""As in production, but that all players may call from one address and nobody runs out of chips;
nobody plays with bots."""
SEATS = 4
THINK_SECONDS = (0.5, 2.0)
"""Before each move. At a table of four everybody moves every 2 to 8 seconds."""
IDLE_THINK_SECONDS = (0.05, 0.15)
"""At the table that has the machine to itself: enough moves to find the slowest in a hundred."""
COMING = 0.1
"""The share of the time in which tables come into being, one after the other."""
TURN_MS = 60_000
STACK = 100
SIGNING_UP = 16
"""So many sign up and sit down at a time."""
STRAGGLERS_SECONDS = 10.0
FIRST_MOVE_SECONDS = 60.0
LAG_SECONDS = 0.05
MISSED = (Kind.CONFLICT, Kind.PRECONDITION)
"""A move that came when somebody else had moved: no error, the next view asks again."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many players at how many tables for how long."""

    players: int
    tables: int
    minutes: float

    @property
    def seats(self) -> list[int]:
        """The seats of each table, as even as can be; raises Failure for what makes no game."""
        few, more = divmod(self.players, max(1, self.tables))
        seats = [few + (number < more) for number in range(self.tables)]
        if not seats or min(seats) < 2 or max(seats) > SEATS:
            raise Failure(f"--players, --tables: a table has 2 to {SEATS} players", USAGE)
        return seats


@dataclass(slots=True)
class Seen:
    """What the players of a part of the run saw; times in seconds."""

    moves: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    games: int = 0

    def p(self, of: str, share: float) -> float:
        """A percentile of `moves` or `steps`, milliseconds; raises Failure where there are none."""
        values = getattr(self, of)
        if not values:
            raise Failure(f"no {of} were seen; take more minutes")
        return percentile(values, share) * 1_000


class Party:
    """Players who play one kind of game after the other at tables of their own."""

    def __init__(self, players: Sequence[Player], kind: str, think: tuple[float, float]) -> None:
        self.players = players
        self.kind = kind
        self.think = think
        self.seen = Seen()
        self._sent: dict[tuple[str, int], float] = {}
        self._came: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    async def play(self, after_seconds: float) -> None:
        """Play until cancelled; what must not come is noted, not raised."""
        await asyncio.sleep(after_seconds)
        while True:
            try:
                table, game_id = await self._start()
                async with asyncio.TaskGroup() as together:
                    for player in self.players:
                        together.create_task(self._seat(player, game_id))
                await Tables(self.players[0]).settled(table, 1)
                for player in self.players:
                    await Tables(player).leave(table)
            except* Refused as several:
                for refused in _leaves(several):
                    self.seen.wrong[refused.reason] += 1
                await asyncio.sleep(1.0)
            else:
                self.seen.games += 1

    async def _start(self) -> tuple[str, str]:
        """Open a table, sit down, start: the ids of table and game."""
        host, *others = self.players
        rules = lobby_pb2.TableRules(
            options=game_options(self.kind, {}),
            seats=len(self.players),
            turn_ms=TURN_MS,
            absent_policy=variant_pb2.ABSENT_POLICY_EXPIRE,
        )
        stack = STACK if self.kind == "azi" else 0
        table = (await Tables(host).create(rules, stack)).table_id
        for player in others:
            await Tables(player).sit(table, buy_in=stack)
        for player in self.players:
            await Tables(player).ready(table)
        return table, await Tables(host).started(table)

    async def _seat(self, player: Player, game_id: str) -> None:
        expected, answered = 1, 0
        async for update in player.follow(game_id):
            if update.first != expected:
                self.seen.wrong["version twice or left out"] += 1
            expected = update.last + 1
            if not update.skipped:
                self._came[game_id, update.last].append(time.perf_counter())
            if update.mine and update.last >= answered:
                answered = await self._move(player, update.view) or answered

    async def _move(self, player: Player, view: view_pb2.GameView) -> int:
        """Think and move; the version it led to, 0 where another was faster."""
        chance = random.SystemRandom()
        await asyncio.sleep(chance.uniform(*self.think))
        which = view.WhichOneof("table") or ""
        move = variant_pb2.Move()
        getattr(move, which).CopyFrom(chance.choice(getattr(view, which).legal))
        began = time.perf_counter()
        try:
            after = await player.submit(view, move)
        except Refused as refused:
            if refused.kind not in MISSED:
                raise
            self.seen.refused[refused.reason] += 1
            return 0
        self.seen.moves.append(time.perf_counter() - began)
        self._sent[view.game_id, after.version] = began
        return after.version

    @property
    def moved(self) -> bool:
        """Whether a move of theirs has been seen."""
        return any(move in self._came for move in self._sent)

    def settle(self) -> None:
        """Bring together when moves were sent and when their steps came, and what was repeated."""
        for move, began in self._sent.items():
            self.seen.steps += [came - began for came in self._came[move]]
        for player in self.players:
            self.seen.repeated += player.repeated
            self.seen.wrong["sent twice"] += player.dropped.total()


def _leaves(group: BaseExceptionGroup[Refused]) -> list[Refused]:
    found: list[Refused] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


async def measure(load: Load, server_url: str | None, tell: Callable[[str], None]) -> Report:
    """One table alone for a tenth of the time, then all of them; `server_url` where PostgreSQL."""
    seats, report = load.seats, Report(NAME)
    seconds = load.minutes * 60
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        async with stack(Path(folder), server_url) as services, AsyncExitStack() as closing:
            tell("one table alone")
            alone = await _sat_down(services.settings, [SEATS], IDLE_THINK_SECONDS, closing)
            idle, _ = await _played(alone, seconds / 10)
            parties = await _sat_down(services.settings, seats, THINK_SECONDS, closing, tell)
            tell(f"{load.players} players at {load.tables} tables")
            pids = {name: services.pid(name) for name in SERVICES}
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            own, began = time.process_time(), time.perf_counter()
            loaded, lags = await _played(parties, seconds)
            spent = time.perf_counter() - began
            for name, pid in pids.items():
                report.absolute[f"load.{name}_cores"] = (cpu_seconds(pid) - before[name]) / spent
                report.absolute[f"load.{name}_mib"] = resident_bytes(pid) / 2**20
            report.absolute["load.driver_cores"] = (time.process_time() - own) / spent
            report.absolute["load.driver_lag_ms_p99"] = percentile(lags, 0.99) * 1_000
            _told(report, idle, loaded, spent)
    return report


def _told(report: Report, idle: Seen, loaded: Seen, seconds: float) -> None:
    for what, of in (("submit", "moves"), ("watch", "steps")):
        report.ratios[f"load.{what}_p99_vs_idle"] = loaded.p(of, 0.99) / idle.p(of, 0.99)
        for share in (0.5, 0.99):
            name = f"{what}_ms_p{share * 100:.0f}"
            report.absolute[f"load.{name}"] = loaded.p(of, share)
            report.absolute[f"load.idle_{name}"] = idle.p(of, share)
    report.absolute["load.moves"] = len(loaded.moves)
    report.absolute["load.moves_per_s"] = len(loaded.moves) / seconds
    report.absolute["load.steps"] = len(loaded.steps)
    report.absolute["load.games"] = loaded.games
    report.absolute["load.moves_missed"] = loaded.refused.total()
    wrong = idle.wrong + loaded.wrong
    report.absolute["load.errors"] = wrong.total()
    report.absolute["load.repeated"] = loaded.repeated.total()
    for what, count in sorted(loaded.repeated.items()):
        report.absolute[f"load.repeated {what}"] = count
    report.failed += [f"{reason}: {count}" for reason, count in sorted(wrong.items())]


async def _sat_down(
    settings: Settings,
    seats: Sequence[int],
    think: tuple[float, float],
    closing: AsyncExitStack,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Party]:
    """So many players signed up, in parties of so many, the kinds of games in turn."""
    free = asyncio.Semaphore(SIGNING_UP)
    done = 0

    async def one(number: int) -> Player:
        nonlocal done
        async with free:
            player = Player(settings)
            closing.push_async_callback(player.close)
            await player.sign_up(f"Player {number}")
            done += 1
            tell(f"{done} of {sum(seats)} players signed up")
            return player

    players = iter(await asyncio.gather(*(one(number) for number in range(sum(seats)))))
    return [
        Party([next(players) for _ in range(count)], kind, think)
        for count, kind in zip(seats, cycle(GAMES), strict=False)
    ]


async def _played(parties: Sequence[Party], seconds: float) -> tuple[Seen, list[float]]:
    """Let them play; what they saw, and how late this process's own timers were.

    It lasts longer where nobody has moved yet, but not for ever.
    """
    lags: list[float] = []
    coming = seconds * COMING / len(parties)
    playing = [
        asyncio.create_task(party.play(number * coming)) for number, party in enumerate(parties)
    ]
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end or (
        now < end + FIRST_MOVE_SECONDS and not all(party.moved for party in parties)
    ):
        await asyncio.sleep(LAG_SECONDS)
        lags.append(time.perf_counter() - now - LAG_SECONDS)
        for task in playing:
            if task.done():
                await task
    for task in playing:
        task.cancel()
    await asyncio.wait(playing, timeout=STRAGGLERS_SECONDS)
    seen = Seen()
    for party in parties:
        party.settle()
        seen.moves += party.seen.moves
        seen.steps += party.seen.steps
        seen.refused += party.seen.refused
        seen.wrong += party.seen.wrong
        seen.repeated += party.seen.repeated
        seen.games += party.seen.games
    return seen, lags


@asynccontextmanager
async def stack(folder: Path, server_url: str | None) -> AsyncIterator[Stack]:
    """The four services, on databases of their own at the server or on SQLite."""
    async with AsyncExitStack() as databases:
        environment = dict(ENVIRONMENT)
        if server_url is not None:
            for name, folders in DATABASES.items():
                url = await databases.enter_async_context(postgres.database(server_url, folders))
                environment[f"KOZYR_{name.upper()}_DATABASE_URL"] = url
        async with Stack(folder / "data", environment=environment) as services:
            yield services
