"""Tables of people, played by a few processes beside each other: one could not carry them all.

Each process is a worker of a pool, is told its tables, plays until it is over, and gives back what
its people remember.
"""

import asyncio
import random
import resource
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

from services.client.variants import GAMES
from services.runtime.settings import Settings
from tests.drill.drill import finish
from tests.drill.judging import Findings
from tests.drill.playing import Party
from tests.drill.witness import Record, Witness

POLL_SECONDS = 0.1
SIGNING_UP = 8
"""So many sign up at a time in each process."""
FILES_MAX = 16_384
"""So many connections and files a process of players may have open."""
ENDING = 0.7
"""The share of their thinking time that players take once it is over, when all still play."""


@dataclass(frozen=True, slots=True)
class Seats:
    """A table: its game, people and bots."""

    kind: str
    people: int
    bots: int


def tables(count: int) -> list[Seats]:
    """So many tables: two people each, every third with a bot, the games in turn."""
    kinds = islice(cycle(GAMES), count)
    return [Seats(kind, 2, int(number // len(GAMES) % 3 == 0)) for number, kind in enumerate(kinds)]


@dataclass(frozen=True, slots=True)
class Task:
    """What a process plays. Moves are thought about for `think` seconds, tables open one after the
    other within `coming` seconds, games under way at the end may take `end` seconds."""

    settings: Settings
    tables: Sequence[Seats]
    seed: float
    think: tuple[float, float]
    turn_ms: int
    coming: float
    end: float


@dataclass(slots=True)
class Played:
    """What the players of a process remember, and what happened to them.

    `repeated` counts calls sent again and streams taken up anew inside the client, by call and
    reason; `twice` messages of streams that came twice.
    """

    record: Record = field(default_factory=Record)
    findings: Findings = field(default_factory=Findings)
    repeated: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    finished: int = 0
    starts_failed: int = 0

    def add(self, other: "Played") -> None:
        """Take up what another process brought."""
        mine, theirs = self.record, other.record
        mine.moves += theirs.moves
        mine.answered += theirs.answered
        mine.games |= theirs.games
        mine.slept |= theirs.slept
        mine.seen |= {
            game: max(version, mine.seen.get(game, 0)) for game, version in theirs.seen.items()
        }
        mine.streams += theirs.streams
        mine.resumed += theirs.resumed
        mine.steps += theirs.steps
        mine.slowest = max(mine.slowest, theirs.slowest)
        mine.refused += theirs.refused
        mine.wrong += theirs.wrong
        mine.examples += theirs.examples
        self.findings.faults += other.findings.faults
        self.findings.examples += other.findings.examples
        self.repeated += other.repeated
        self.twice += other.twice
        self.finished += other.finished
        self.starts_failed += other.starts_failed


@dataclass(slots=True)
class Signs:
    """What the processes are told and tell: that it is over, how many tables play."""

    over: Event
    playing: "Synchronized[int]"


_SIGNS: list[Signs] = []


def _given(signs: Signs) -> None:
    _SIGNS[:] = [signs]
    # A connection of each player to every replica is more than many systems allow at first.
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = FILES_MAX if allowed == resource.RLIM_INFINITY else min(FILES_MAX, allowed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, allowed))


@dataclass(slots=True)
class Drivers:
    """Processes under way."""

    signs: Signs
    tables: int
    running: Sequence[asyncio.Future[Played]]

    async def all_playing(self, seconds: float) -> None:
        """Wait until every table has a game; raises TimeoutError, or what ended a process."""
        async with asyncio.timeout(seconds):
            while self.signs.playing.value < self.tables:
                for each in self.running:
                    if each.done():
                        each.result()
                await asyncio.sleep(POLL_SECONDS)

    async def end(self) -> Played:
        """Let the games under way end; what all remember."""
        self.signs.over.set()
        together = Played()
        for played in await asyncio.gather(*self.running):
            together.add(played)
        return together


@asynccontextmanager
async def driven(task: Task, processes: int) -> AsyncIterator[Drivers]:
    """Play the tables of a task, dealt out to so many processes."""
    context, rng = get_context("spawn"), random.Random(task.seed)
    signs = Signs(context.Event(), context.Value("i", 0))
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(processes, context, _given, (signs,)) as pool:
        parts = [
            replace(task, tables=task.tables[number::processes], seed=rng.random())
            for number in range(processes)
        ]
        running = [loop.run_in_executor(pool, play, part) for part in parts if part.tables]
        try:
            yield Drivers(signs, len(task.tables), running)
        finally:
            signs.over.set()


def play(task: Task) -> Played:
    """Play until it is over; what the players remember. Runs in a process of its own."""
    return asyncio.run(_play(task, _SIGNS[0]))


async def _play(task: Task, signs: Signs) -> Played:
    played, rng = Played(), random.Random(task.seed)
    async with AsyncExitStack() as closing:
        parties = await _sat_down(task, played.record, rng, closing)
        over = asyncio.Event()
        playing = [
            asyncio.create_task(_come(party, number * task.coming / len(parties), over, signs))
            for number, party in enumerate(parties)
        ]
        while not signs.over.is_set():
            await asyncio.sleep(POLL_SECONDS)
        over.set()
        hurrying = asyncio.create_task(_hurry(parties, task.think))
        played.findings = await finish(playing, task.end)
        hurrying.cancel()
        for party in parties:
            played.finished += party.finished
            played.starts_failed += party.starts_failed
            for person in party.people:
                played.repeated += person.repeated
                played.twice += person.dropped.total()
    return played


async def _come(party: Party, after: float, over: asyncio.Event, signs: Signs) -> None:
    """Play from so many seconds on, and say so when the first game is there."""
    await asyncio.sleep(after)
    playing = asyncio.create_task(party.play(over))
    while not (party.running or playing.done()):
        await asyncio.sleep(POLL_SECONDS)
    with signs.playing.get_lock():
        signs.playing.value += 1
    await playing


async def _hurry(parties: Sequence[Party], think: tuple[float, float]) -> None:
    """The fewer games there are left, the quicker they are played: the load stays as it was."""
    while True:
        share = ENDING * sum(bool(party.running) for party in parties) / len(parties)
        for party in parties:
            party.think = (think[0] * share, think[1] * share)
        await asyncio.sleep(POLL_SECONDS)


async def _sat_down(
    task: Task, record: Record, rng: random.Random, closing: AsyncExitStack
) -> list[Party]:
    free = asyncio.Semaphore(SIGNING_UP)

    async def witness(name: str) -> Witness:
        async with free:
            made = Witness(task.settings, record)
            closing.push_async_callback(made.close)
            await made.sign_up(name)
            return made

    async def party(number: int, seats: Seats) -> Party:
        names = (f"{seats.kind} {number}.{i}" for i in range(seats.people))
        return Party(
            kind=seats.kind,
            people=list(await asyncio.gather(*map(witness, names))),
            guests=[],
            bots=seats.bots,
            turn_ms=task.turn_ms,
            sleeps=False,
            rng=random.Random(f"{task.seed}/{number}"),
            record=record,
            think=task.think,
            twice=False,
        )

    return list(await asyncio.gather(*(party(n, seats) for n, seats in enumerate(task.tables))))
