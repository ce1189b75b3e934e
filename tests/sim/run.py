"""One run: a storm of faults over games in play, then calm until everything has come to rest.

python -m tests.sim.run --seed 7 --runs 100
"""

import argparse
import asyncio
import gc
import logging
import shutil
import sys
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import structlog
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceStub
from sqlalchemy.exc import SAWarning

from services.game.model import Stage
from services.kernel.errors import Refused
from services.lobby.model import Phase
from services.runtime import database
from services.runtime.auth import Caller, Role
from tests.sim.clockwork import Clockwork, Node
from tests.sim.house import FOR_EVER, House, furnish, new_folder, prepared, settings_in
from tests.sim.judge import BEATS_US, Broken, Judge
from tests.sim.machine import bent
from tests.sim.network import Line, Network, Weather
from tests.sim.people import Habits, Person

STORM_S = 18.0
"""The longest a storm lasts."""
REST_S = 300.0
"""How long after the storm everything may take to come to rest."""
LINES = 60
"""How many of the last steps a failure shows."""
REPLICAS = {"lobby": 2, "game": 2, "wallet": 2, "ai": 1}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run: what was broken (None: nothing), a hash of all logs, and counts."""

    seed: int
    problem: str | None
    digest: str
    counts: dict[str, int]
    stored: dict[str, int] = field(repr=False)
    steps: tuple[str, ...] = field(repr=False)

    def report(self) -> str:
        """For whoever has to find out."""
        return "\n".join((*self.steps, f"seed {self.seed}: {self.problem}"))


class Run:
    """Everything of one run."""

    def __init__(
        self, seed: int, folder: Path, clockwork: Clockwork, acts: Sequence[str] = ()
    ) -> None:
        self.seed = seed
        self.acts = acts
        self.random = Random(f"run {seed}")
        self.journal: deque[str] = deque(maxlen=LINES)
        self.clockwork = clockwork
        settings = settings_in(folder)
        self.judge = Judge(folder, settings, self.note)
        self.network = Network(clockwork, Random(f"network {seed}"), self.judge.broken)
        self.network.served.append(self.judge.look_soon)
        self.house = House(
            folder,
            clockwork,
            self.network,
            Random(f"house {seed}"),
            self.judge.broken,
            self.note,
            settings,
        )
        self.calm = asyncio.Event()
        self.people: list[asyncio.Task[None]] = []

    def note(self, line: str) -> None:
        """Write a step into the journal."""
        self.journal.append(f"{self.clockwork.time():9.3f} {line}")

    def heard(self, _logger: object, _level: str, entry: Any) -> Any:
        """A service has logged an error: the simulation has no faults that are its own."""
        failure = sys.exc_info()[1]
        self.judge.broken(f"a service logs {dict(entry)} {failure!r}")
        raise structlog.DropEvent

    async def whole(self) -> None:
        """The run; raises Broken."""
        for service, count in REPLICAS.items():
            for _ in range(self.random.randint(1, count)):
                await self.house.start(service)
        self.clockwork.slow_disk = self.random.choice((0.0, 0.1, 0.5))
        self.network.weather = self._weather()
        self.people = [asyncio.create_task(self._table(n)) for n in range(1)]
        chaos = asyncio.create_task(self._chaos())
        storm = self.clockwork.time() + STORM_S
        while self.clockwork.time() < storm and not all(t.done() for t in self.people):
            await self._second()
        chaos.cancel()
        await asyncio.wait([chaos])
        await self._clear_up()
        until = self.clockwork.time() + REST_S
        while left := self._left():
            if self.clockwork.time() > until:
                raise Broken(f"no rest after the storm: {left}")
            await self._second()
        await self.judge.close_books(self._reservations, self.clockwork.now_us())

    async def _second(self) -> None:
        await asyncio.sleep(1)
        await self.judge.look()
        if self.judge.problem:
            raise Broken(self.judge.problem)
        for task in self.people:
            if task.done() and (error := task.exception()):
                raise Broken(f"a player: {error!r}") from error

    def _left(self) -> str:
        at_table = sum(not task.done() for task in self.people)
        return f"{at_table} tables" if at_table else self.judge.at_rest()

    async def _clear_up(self) -> None:
        self.note("calm")
        self.network.weather = Weather()
        self.clockwork.slow_disk = 0.0
        self.calm.set()
        for node in self.house.alive():
            self.clockwork.thaw(node)
        for service in REPLICAS:
            if not self.house.alive(service):
                await self._begin(service)

    async def _begin(self, service: str) -> None:
        await self.house.start(service)
        if service == "game":
            self._game_is_back()

    # ------------------------------------------------------------------------------------- players

    async def _table(self, number: int) -> None:
        chance = self.random
        variant = chance.choice(("azi", "azi", "durak", "rami"))
        people = chance.choice((1, 2, 2, 3))
        bots = chance.randint(2 - min(people, 2), 2 if people < 3 else 1)
        rules = self._rules(variant, people + bots)
        habits = Habits(leaves=chance.choice((0.0, 0.0, 0.05)), sleeps=chance.choice((0.0, 0.04)))
        persons = [
            Person(
                f"player-{number}-{n}",
                self.network,
                self.judge,
                Random(f"person {self.seed} {number} {n}"),
                habits,
                self.calm,
            )
            for n in range(people)
        ]
        for person in persons:
            await person.sign_up()
        table = await persons[0].host(rules, bots)
        self.note(f"table of {variant}, {people} people, {bots} bots")
        games = 2 if variant == "azi" else 1
        async with asyncio.TaskGroup() as group:
            for person in persons:
                group.create_task(person.sit(table.table_id, games))

    def _rules(self, variant: str, seats: int) -> lobby_pb2.TableRules:
        chance = self.random
        watched, bots = chance.random() < 0.5, chance.random() < 0.5
        rules = lobby_pb2.TableRules(
            seats=seats,
            turn_ms=chance.choice((1_000, 2_000, 5_000)),
            time_bank_ms=chance.choice((0, 1_000, 30_000)),
            spectators=watched,
            spectator_delay=chance.choice((0, 3)) if watched else 0,
            absent_policy=2 if bots else 1,  # type: ignore[arg-type]
            bot_after=chance.choice((0, 1)) if bots else 0,
        )
        match variant:
            case "azi":
                rules.options.azi.entry_fee = chance.choice((1, 10, 10, 100, 400))
                rules.options.azi.deal_size = chance.choice((3, 4))
                rules.options.azi.blind_bets = chance.random() < 0.3
            case "durak":
                rules.options.durak.SetInParent()
            case _:
                rules.options.rami.target = 1
        return rules

    # --------------------------------------------------------------------------------------- chaos

    def _weather(self) -> Weather:
        """Each run has some kinds of faults and not others."""
        chance = self.random

        def some(most: float) -> float:
            return chance.choice((0.0, most * chance.random()))

        return Weather(
            lost=some(0.1),
            unanswered=some(0.2),
            twice=some(0.3),
            slow=some(0.1),
            cut_s=chance.choice((1e9, 5.0, 0.7)),
        )

    async def _chaos(self) -> None:
        chance = self.random
        acts = [
            *(self._kill, self._kill, self._freeze, self._drain, self._grow),
            *(self._away, self._away, self._blackout, self._outage),
        ]
        mine = chance.sample(acts, chance.randint(0, len(acts)))
        if self.acts:
            mine = [act for act in acts if act.__name__.removeprefix("_") in self.acts]
        pause = chance.choice((0.3, 1.0) if self.acts else (0.3, 1.0, 3.0, 8.0))
        while mine:
            await asyncio.sleep(chance.expovariate(1 / pause))
            await chance.choice(mine)()

    async def _kill(self) -> None:
        node = self._any_node()
        if node is not None:
            self.house.kill(node)
            await self._come_back(node.service)

    async def _blackout(self) -> None:
        """Every process of a service dies at once."""
        service = self.random.choice(("game", "game", "lobby", "wallet"))
        for node in self.house.alive(service):
            self.house.kill(node)
        self._gone(service)
        await asyncio.sleep(self.random.random() * 12)
        await self._come_back(service)

    async def _outage(self) -> None:
        """The game service is gone for longer than clocks may run on, or a start is tried."""
        at_start = self.random.random() < 0.5
        while not (self._deciding() or (at_start and self._starting())):
            await asyncio.sleep(0.05)
        await asyncio.sleep(self.random.random() * (0.02 if self._starting() else 1.0))
        for node in self.house.alive("game"):
            self.house.kill(node)
        self._gone("game")
        shortest = self.house.settings.outage_ms / 1_000 + BEATS_US / 1_000_000
        await asyncio.sleep(shortest + self.random.random() * 6)
        await self._begin("game")

    def _starting(self) -> bool:
        """Whether a start is under way, as far as the judge has seen."""
        return any(s.table.phase is Phase.STARTING for s in self.judge.tables.values())

    def _deciding(self) -> bool:
        """Whether a clock runs, as far as the judge has seen."""
        return any(r.state.stage is Stage.PLAYING for r in self.judge.games.values())

    async def _drain(self) -> None:
        node = self._any_node()
        if node is not None:
            await self.house.drain(node)
            await self._come_back(node.service)

    async def _come_back(self, service: str) -> None:
        self._gone(service)
        for _ in range(max(1, REPLICAS[service] - len(self.house.alive(service)))):
            if self.house.alive(service) and self.random.random() < 0.5:
                break
            await asyncio.sleep(self.random.choice((0.0, 0.3, 4.0, 15.0)) * self.random.random())
            await self._begin(service)

    def _gone(self, service: str) -> None:
        spans = self.judge.down.spans
        if service == "game" and not self.house.alive("game") and (not spans or spans[-1][1]):
            spans.append((self.clockwork.now_us(), None))

    def _game_is_back(self) -> None:
        spans = self.judge.down.spans
        if spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], self.clockwork.now_us())

    async def _grow(self) -> None:
        service = self.random.choice(("lobby", "game", "wallet"))
        if len(self.house.alive(service)) <= REPLICAS[service]:
            await self._begin(service)

    async def _freeze(self) -> None:
        node = self._any_node()
        if node is not None and not node.frozen and len(self.house.alive(node.service)) > 1:
            while any(connection.in_transaction for connection in node.open_connections()):
                await asyncio.sleep(0.001)
                if not node.alive:
                    return
            self.house.freeze(node, self.random.choice((1.0, 10.0, 40.0)) * self.random.random())

    async def _away(self) -> None:
        service = self.random.choice(("ai", "wallet", "wallet", "lobby", "game"))
        self.note(f"{service} is not reached")
        self.network.weather.unreached.add(service)
        await asyncio.sleep(self.random.random() * self.random.choice((5, 10, 60)))
        self.note(f"{service} is reached")
        self.network.weather.unreached.discard(service)

    def _any_node(self) -> Node | None:
        alive = [node for node in self.house.alive() if not node.frozen]
        return self.random.choice(alive) if alive else None

    async def _reservations(self, game_id: UUID) -> wallet_pb2.ListReservationsResponse:
        line = Line(self.network, Caller(Role.SERVICE, "game", FOR_EVER))
        request = wallet_pb2.ListReservationsRequest(game_id=str(game_id))
        method = WalletServiceStub(line.channel).ListReservations
        answer: wallet_pb2.ListReservationsResponse = await line.call(method, request)
        return answer


def simulate(seed: int, *acts: str) -> Outcome:
    """One run, with these acts of chaos or those the seed chooses. Only the outcome is left."""
    prepared()
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()
    logging.disable(logging.CRITICAL)  # the pool complains of connections of the dead
    try:
        with warnings.catch_warnings():
            # What a process that was killed has left open is nobody's to close.
            warnings.simplefilter("ignore", SAWarning)
            outcome = _alone(seed, acts)
            gc.collect()
            return outcome
    finally:
        gc.unfreeze()
        logging.disable(logging.NOTSET)
        if collecting:
            gc.enable()


def _alone(seed: int, acts: Sequence[str]) -> Outcome:
    folder = new_folder()
    furnish(folder)
    clockwork = Clockwork(Random(f"disk {seed}"))
    log = structlog.get_config()
    try:
        with bent(clockwork, seed):
            run = Run(seed, folder, clockwork, acts)
            structlog.configure(
                processors=[run.heard],
                wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
                cache_logger_on_first_use=False,
            )
            asyncio.set_event_loop(clockwork)
            return clockwork.run_until_complete(_simulate(run))
    finally:
        structlog.configure(**log)
        asyncio.set_event_loop(None)
        clockwork.close()
        for path in [path for path in database.LOCKS if path.is_relative_to(folder.resolve())]:
            while path in database.LOCKS:
                database.release(path)
        shutil.rmtree(folder)


async def _simulate(run: Run) -> Outcome:
    problem: str | None = None
    try:
        await run.whole()
    except Broken as broken:
        problem = run.judge.problem or str(broken)
        if broken.__cause__ is not None:
            problem += "\n" + "".join(traceback.format_exception(broken.__cause__))
    except Refused as refused:
        problem = f"refused at the end: {refused.reason}"
    digest = "" if problem else run.judge.digest()
    run.house.end()
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    await asyncio.sleep(1)
    await run.judge.close()
    counts = {
        **run.network.counts,
        "looks": run.judge.steps,
        "events": sum(len(record.rows) for record in run.judge.games.values()),
        "games": len(run.judge.games),
        "nodes": run.house.started,
        "seconds": int(run.clockwork.time()),
    }
    return Outcome(run.seed, problem, digest, counts, dict(run.judge.stored), tuple(run.journal))


def main() -> int:
    """Run some seeds; the exit code says whether all promises were kept."""
    parser = argparse.ArgumentParser(description="Simulate the whole system from seeds.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds")
    given = parser.parse_args()
    broken, stored = 0, Counter[str]()
    for seed in range(given.seed, given.seed + given.runs):
        outcome = simulate(seed)
        stored.update(outcome.stored)
        if outcome.problem is not None:
            broken += 1
            sys.stdout.write(outcome.report() + "\n")
        else:
            counts = " ".join(f"{name}={count}" for name, count in outcome.counts.items())
            sys.stdout.write(f"seed {seed}: {outcome.digest[:16]} {counts}\n")
        sys.stdout.flush()
    sys.stdout.write("".join(f"{count:7} {name}\n" for name, count in sorted(stored.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
