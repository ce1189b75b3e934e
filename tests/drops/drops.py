"""Whole games through lost connections: every version told once, in order, on another replica.

Two clients sit at each table, each with lines of its own to two replicas of the game service. The
line a client uses is cut or falls silent every few seconds, and only the one to the other replica
is open then. What each was told is compared with what the game's log holds for that seat.
"""

import asyncio
import math
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from kozyr.game.v1 import game_pb2, game_pb2_grpc, variant_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2

from services.cli.stack import last_words, own_environment, ready, spawn
from services.cli.terminal import grid
from services.client.driving import Seen, drive
from services.client.player import Player
from services.client.profile import Profile, new_seed_key
from services.game import server as game_server
from services.runtime.keys import PLAYERS
from services.runtime.migrate import migrate
from services.runtime.server import running
from services.runtime.tokens import load_signer
from tests.drops.lines import Ways, in_trouble, ways_to
from tests.services.game.system import System, setup, system

KINDS = ("azi", "durak", "rami")
TOKEN_MS = 3_600_000
GAME_SECONDS = 900.0
HEARTBEAT_MS = 800
ANSWER_MS = 5_000
"""How long a client waits for an answer at most."""
PATIENT_MS = 60_000
"""How long whoever opens the games does: his lines are never broken."""
EXAMPLES_MAX = 10


@dataclass(frozen=True, slots=True)
class Form:
    """So many games of each kind, so many at a time.

    A client's line breaks after `least` to `most` seconds of use, at most `faults` times, and
    `first` times before he moves. `think` is the longest pause before a move, seconds. With
    `processes` the replicas are processes of their own.
    """

    games: int
    at_once: int
    least: float
    most: float
    faults: float
    first: int
    think: float
    processes: bool


LONG = Form(
    games=100, at_once=12, least=1.0, most=5.0, faults=math.inf, first=2, think=0.1, processes=True
)
SHORT = Form(
    games=1, at_once=3, least=0.1, most=0.5, faults=2, first=1, think=0.02, processes=False
)


@dataclass(slots=True)
class Tally:
    """What the clients of one kind of game were told, and what did not fit."""

    games: int = 0
    clients: int = 0
    versions: int = 0
    snapshots: int = 0
    skipped: int = 0
    moves: int = 0
    streams: int = 0
    resumed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    undisturbed: int = 0
    """Clients whose line held for the whole of their game."""


@dataclass(slots=True)
class Outcome:
    """All kinds, and the violations."""

    seed: int
    tallies: dict[str, Tally]
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def fault(self, kind: str, detail: str) -> None:
        """Something came that must not."""
        self.wrong[kind] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{kind}: {detail}")

    @property
    def held(self) -> bool:
        """Whether everything held, and lines were broken at all."""
        return not self.wrong and sum(tally.resumed for tally in self.tallies.values()) > 0

    def table(self) -> list[str]:
        """A row each kind of game."""
        rows = [
            (
                *(kind, t.games, t.clients, t.versions, t.skipped, t.snapshots, t.moves),
                *(t.faults["cut"], t.faults["frozen"], t.resumed, t.undisturbed),
                f"{statistics.median(t.seconds):.1f}" if t.seconds else "-",
            )
            for kind, t in self.tallies.items()
        ]
        named = (
            *("kind", "games", "clients", "versions", "in snapshots", "snapshots", "moves"),
            *("cuts", "silences", "streams resumed", "undisturbed", "s a game"),
        )
        lines = [*grid(named, rows), ""]
        lines += [f"WRONG {kind}: {count}" for kind, count in sorted(self.wrong.items())]
        lines += [f"  {example}" for example in self.examples]
        return [*lines, "every version once and in order" if self.held else "NOT all held"]


class Client(Player):
    """A player who counts his streams."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.streams = self.resumed = 0

    def stream(self, service: str, method: Any, request: Any, *more: Any) -> Any:
        """Begin a stream."""
        self.streams += 1
        self.resumed += bool(request.resume_token)
        return super().stream(service, method, request, *more)


async def drops(folder: Path, url: str, seed: int, form: Form, tell: Any) -> Outcome:
    """Play it all; `url` names an empty PostgreSQL database."""
    outcome = Outcome(seed, {kind: Tally() for kind in KINDS})
    free = asyncio.Semaphore(form.at_once)
    async with replicas(folder, url, form) as (house, addresses):
        tell(f"two replicas at {', '.join(addresses)}")

        async def one(kind: str, number: int) -> None:
            async with free:
                began = time.monotonic()
                game = Table(house, addresses, kind, Random(f"{seed}/{kind}/{number}"), outcome)
                try:
                    async with asyncio.timeout(GAME_SECONDS):
                        await game.play(form)
                except TimeoutError:
                    outcome.fault("not ended in time", game.where())
                    return
                outcome.tallies[kind].seconds.append(time.monotonic() - began)
                done = sum(tally.games for tally in outcome.tallies.values())
                if not done % 25:
                    tell(f"{done} games played")

        async with asyncio.TaskGroup() as all_games:
            for number in range(form.games):
                for kind in KINDS:
                    all_games.create_task(one(kind, number))
    return outcome


@asynccontextmanager
async def replicas(
    folder: Path, url: str, form: Form
) -> AsyncIterator[tuple[System, tuple[str, str]]]:
    """Two replicas of the game service on one database, and what they need."""
    await migrate(url, game_server.FOLDERS)
    given = {"game_database_url": url, "heartbeat_ms": HEARTBEAT_MS, "outage_ms": 60_000}
    given["peer_timeout_ms"] = PATIENT_MS
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(system(folder, **given))
        here = house.settings.game_address or ""
        if not form.processes:
            other = await stack.enter_async_context(
                running("game", house.settings, game_server.compose)
            )
            yield house, (here, other.address)
            return
        first, second = [await _process(house, stack, folder, n) for n in (1, 2)]
        yield house, (first, second)


async def _process(house: System, stack: AsyncExitStack, folder: Path, number: int) -> str:
    """A replica as a process of its own: its address."""
    settings, address = house.settings, f"127.0.0.1:{_free_port()}"
    environment = {
        **own_environment(),
        "KOZYR_DATA_FOLDER": str(settings.data_folder),
        "KOZYR_GAME_LISTEN": address,
        "KOZYR_GAME_DATABASE_URL": settings.database_url("game"),
    }
    for name in ("rate_per_second", "rate_burst", "heartbeat_ms", "bot_delay_ms", "outage_ms"):
        environment[f"KOZYR_{name.upper()}"] = str(getattr(settings, name))
    for name in ("wallet", "ai", "lobby"):
        environment[f"KOZYR_{name.upper()}_ADDRESS"] = settings.address(name)
    typed = ("-m", "services.cli.main", "serve", "game", "--until-eof")
    path = folder / f"replica-{number}.log"
    log = stack.enter_context(path.open("ab"))
    process = await spawn(typed, environment, log)

    async def end() -> None:
        process.terminate()
        await process.wait()

    stack.push_async_callback(end)
    if not await ready(process):
        raise RuntimeError(f"replica {number} did not start: {last_words(path, 0)}")
    return address


def _free_port() -> int:
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class Table:
    """One game of two clients, a bot between them where the game is better with three."""

    def __init__(
        self, house: System, addresses: Sequence[str], kind: str, rng: Random, outcome: Outcome
    ) -> None:
        self._house = house
        self._addresses = addresses
        self._kind = kind
        self._rng = rng
        self._outcome = outcome
        self._last: dict[str, view_pb2.GameView] = {}

    def where(self) -> str:
        """How far each client has seen the game, and who is asked."""
        return f"{self._kind} " + "; ".join(
            f"{player[-6:]} game {view.game_id} version {view.version} turn {view.turn} "
            f"seat {view.seat} asked {list(view.to_act)}"
            for player, view in self._last.items()
        )

    async def play(self, form: Form) -> None:
        """Open the game, play it through trouble, compare what was told with the log."""
        request = await self._house.open(
            setup(self._kind, people=2, bots=0 if self._kind == "rami" else 1, seed_ms=400)
        )
        players = [seat.player_id for seat in request.seats if not seat.bot_level]
        async with asyncio.TaskGroup() as together:
            for player in players:
                together.create_task(self._client(player, request.game_id, form))
        self._outcome.tallies[self._kind].games += 1

    async def _client(self, player_id: str, game_id: str, form: Form) -> None:
        rng = Random(self._rng.random())
        async with ways_to(self._addresses, rng) as ways:
            settings = self._house.settings.model_copy(
                update={"game_address": ways.address, "peer_timeout_ms": ANSWER_MS}
            )
            client = Client(settings)
            token = load_signer(settings.keys(), PLAYERS).issue(player_id, TOKEN_MS)
            profile = Profile(player_id, "Ann", "", new_seed_key())
            client.be(profile, identity_pb2.Tokens(access_token=token))
            try:
                async with in_trouble(ways, form.least, form.most, form.faults):
                    thinks = pause(ways, rng, form)

                    async def look(view: view_pb2.GameView) -> None:
                        self._last[player_id] = view
                        await thinks(view)

                    seen = await drive(client, game_id, choice(rng), look)
                self._count(client, ways, seen)
                what = f"{self._kind} {game_id} seat {seen.last.seat}"
                twice, log = client.dropped[game_id], await history(client, game_id)
                judge(self._outcome, what, seen, twice, log)
            finally:
                await client.close()

    def _count(self, client: Client, ways: Ways, seen: Seen) -> None:
        tally = self._outcome.tallies[self._kind]
        tally.clients += 1
        tally.versions += seen.last.version
        tally.skipped += seen.skipped
        tally.snapshots += seen.snapshots
        tally.moves += seen.moves
        tally.streams += client.streams
        tally.resumed += client.resumed
        tally.faults += ways.faults
        tally.undisturbed += not ways.faults


def judge(outcome: Outcome, what: str, seen: Seen, twice: int, log: Sequence[Any]) -> None:
    """Every version once and in order, and what happened as the log has it for this seat.

    `twice` counts messages that the services sent twice, `log` is all that happened. Where more
    than the first snapshot came, what happened is compared from the last one on.
    """
    for version in seen.gaps:
        outcome.fault("version twice, out of order or left out", f"{what}: {version}")
    if twice:
        outcome.fault("sent twice", f"{what}: {twice}")
    if seen.last.stage != view_pb2.STAGE_FINISHED:
        outcome.fault("not finished", f"{what}: {seen.last.stage}")
    told = list(seen.happenings)
    if not told or told != list(log)[len(log) - len(told) :]:
        outcome.fault("told otherwise than it was", what)


def choice(rng: Random) -> Any:
    """Any legal move, but for folding, which would soon end a game of Azi."""

    def chosen(view: view_pb2.GameView) -> variant_pb2.Move:
        which = view.WhichOneof("table") or ""
        move = variant_pb2.Move()
        legal = list(getattr(view, which).legal)
        stays = [made for made in legal if made.WhichOneof("move") != "fold"]
        getattr(move, which).CopyFrom(rng.choice(stays or legal))
        return move

    return chosen


def pause(ways: Ways, rng: Random, form: Form) -> Any:
    """Think before a move of one's own, and wait for the trouble that is to come before it."""

    async def look(view: view_pb2.GameView) -> None:
        if view.seat not in view.to_act:
            return
        while ways.faults.total() < form.first:
            await asyncio.sleep(0.02)
        await asyncio.sleep(rng.random() * form.think)

    return look


async def history(client: Client, game_id: str) -> Sequence[view_pb2.Happening]:
    """All that happened, as the player may know it."""
    games: Any = client.stub("game", game_pb2_grpc.GameServiceStub)
    request = game_pb2.GetGameRequest(game_id=game_id, history=True)
    reply: game_pb2.GetGameResponse = await client.call("game", games.GetGame, request)
    return reply.history
