"""What goes wrong in a drill: each kind in turn, then at random, all drawn from one seed."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.drill.database import Database
from tests.drill.fleet import Fleet, Replica
from tests.drill.stepped import set_offset

DISK_FULL = "disk full"
Tell = Callable[[str], None]
POLL_SECONDS = 0.05
STEP_MS = 4_500
"""A clock is put off by up to so much: what machines' clocks may differ by (`clock_skew_ms`)."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long things last, in seconds: (shortest, longest)."""

    pause: tuple[float, float]
    away: tuple[float, float]
    database: tuple[float, float]
    disk: tuple[float, float]
    ai: float
    frozen: float


@dataclass(frozen=True, slots=True)
class Outage:
    """A time, Unix microseconds, in which no game could go on, and why."""

    began_at: int
    ended_at: int
    why: str


@dataclass(slots=True)
class Faults:
    """Breaks a fleet and its database, one fault after another; long ones go on beside others."""

    fleet: Fleet
    database: Database
    lengths: Lengths
    rng: random.Random
    tell: Tell
    done: Counter[str] = field(default_factory=Counter)
    lasted: Counter[str] = field(default_factory=Counter)
    outages: list[Outage] = field(default_factory=list)
    _beside: set[asyncio.Task[None]] = field(default_factory=set)
    _busy: set[Replica] = field(default_factory=set)

    async def run(self, over: asyncio.Event) -> None:
        """Break things until `over`; all is whole again when this returns."""
        watching = asyncio.create_task(self._notice_dead_games())
        kinds = self._kinds()
        for kind in self._order(list(kinds)):
            if over.is_set():
                break
            await self._one(kind, kinds[kind])
            await asyncio.sleep(self.rng.uniform(*self.lengths.pause))
        await asyncio.gather(*self._beside)
        for replica in self.fleet.replicas:
            set_offset(replica.clock, 0)
        await self.fleet.all_up(60.0)
        watching.cancel()
        await asyncio.wait([watching])

    def _kinds(self) -> dict[str, Callable[[], Awaitable[str]]]:
        kinds: dict[str, Callable[[], Awaitable[str]]] = {
            "kill game": lambda: self._end("game", signal.SIGKILL),
            "kill wallet": lambda: self._end("wallet", signal.SIGKILL),
            "kill lobby": lambda: self._end("lobby", signal.SIGKILL),
            "kill ai": lambda: self._end("ai", signal.SIGKILL),
            "drain game": lambda: self._end("game", signal.SIGTERM),
            "drain wallet": lambda: self._end("wallet", signal.SIGTERM),
            "drain lobby": lambda: self._end("lobby", signal.SIGTERM),
            "kill all game": lambda: self._end_all("game"),
            "stop postgres": self._stop_database,
            "cut connections": self._cut,
            "step a clock": self._step,
            "freeze game": self._freeze,
            "ai gone": self._ai_gone,
        }
        if self.database.can_be_full:
            kinds["disk full"] = lambda: self._fill(log=False)
            kinds["disk full, log too"] = lambda: self._fill(log=True)
        return kinds

    def _order(self, kinds: list[str]) -> Iterator[str]:
        self.rng.shuffle(kinds)
        yield from kinds
        while True:
            yield self.rng.choice(kinds)

    async def _one(self, kind: str, fault: Callable[[], Awaitable[str]]) -> None:
        began = time.monotonic()
        detail = await fault()
        spent = time.monotonic() - began
        if detail:
            self.done[kind] += 1
            self.lasted[kind] += round(spent * 1000)
            self.tell(f"{kind}: {detail}, {spent:.1f} s")

    def _free(self, service: str) -> list[Replica]:
        return [r for r in self.fleet.of(service) if r not in self._busy and r.up.is_set()]

    @contextmanager
    def _holding(self, *replicas: Replica) -> Iterator[None]:
        self._busy.update(replicas)
        try:
            yield
        finally:
            self._busy.difference_update(replicas)

    async def _end(self, service: str, number: signal.Signals) -> str:
        free = self._free(service)
        if not free:
            return ""
        replica = self.rng.choice(free)
        with self._holding(replica):
            await self.fleet.end(replica, number, self.rng.uniform(*self.lengths.away))
            await replica.up.wait()
        return f"{replica.name} {number.name}"

    async def _end_all(self, service: str) -> str:
        """Every replica that is not frozen, at once."""
        free = self._free(service)
        away = self.rng.uniform(*self.lengths.away)
        with self._holding(*free):
            await asyncio.gather(*(self.fleet.end(r, signal.SIGKILL, away) for r in free))
            await asyncio.gather(*(r.up.wait() for r in free))
        return ", ".join(r.name for r in free)

    async def _stop_database(self) -> str:
        with self._outage("postgres stopped"):
            await self.database.stop_hard()
            away = self.rng.uniform(*self.lengths.database)
            await asyncio.sleep(away)
            await self.database.start()
        return f"away {away:.1f} s"

    async def _cut(self) -> str:
        return f"{await self.database.cut()} connections"

    async def _fill(self, *, log: bool) -> str:
        with ExitStack() as until_whole:
            async with self.database.full(log=log):
                why = "postgres ended" if log else DISK_FULL
                until_whole.enter_context(self._outage(why))
                await asyncio.sleep(self.rng.uniform(*self.lengths.disk))
        return "postgres ended itself" if log else "nothing new fits"

    async def _step(self) -> str:
        replica = self.rng.choice(self.fleet.of("game") + self.fleet.of("lobby"))
        step = self.rng.choice((-STEP_MS, STEP_MS))
        set_offset(replica.clock, step)
        return f"{replica.name} by {step} ms"

    async def _freeze(self) -> str:
        return self._go_on_beside("game", self._frozen)

    async def _frozen(self, replica: Replica) -> None:
        self.fleet.freeze(replica)
        await asyncio.sleep(self.lengths.frozen)
        self.fleet.thaw(replica)
        self.tell(f"{replica.name} woken after {self.lengths.frozen:.0f} s")

    async def _ai_gone(self) -> str:
        return self._go_on_beside("ai", self._gone)

    async def _gone(self, replica: Replica) -> None:
        await self.fleet.end(replica, signal.SIGKILL, self.lengths.ai)
        await replica.up.wait()
        self.tell(f"{replica.name} back after {self.lengths.ai:.0f} s")

    def _go_on_beside(self, service: str, fault: Callable[[Replica], Awaitable[None]]) -> str:
        """Begin a fault that lasts while others come; one of a kind at a time."""
        free = self._free(service)
        if len(free) < len(self.fleet.of(service)):
            return ""
        replica = self.rng.choice(free)

        async def hold() -> None:
            with self._holding(replica):
                await fault(replica)

        task = asyncio.create_task(hold())
        self._beside.add(task)
        return replica.name

    @contextmanager
    def _outage(self, why: str) -> Iterator[None]:
        began = time.time_ns() // 1_000
        try:
            yield
        finally:
            self.outages.append(Outage(began, time.time_ns() // 1_000, why))

    async def _notice_dead_games(self) -> None:
        """Write down the times in which no game replica could work."""
        dead_since = 0
        while True:
            alive = self.fleet.alive("game")
            now = time.time_ns() // 1_000
            if alive and dead_since:
                self.outages.append(Outage(dead_since, now, "no game replica"))
            dead_since = 0 if alive else dead_since or now
            await asyncio.sleep(POLL_SECONDS)
