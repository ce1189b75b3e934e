"""Replicas of the four services on PostgreSQL, as processes that may be killed, frozen, drained."""

import asyncio
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from services.cli.addresses import make_settings
from services.cli.stack import HOST, last_words, own_environment, ready, spawn
from services.runtime.keys import ensure_keys
from services.runtime.settings import SERVICES, Settings
from tests.drill.stepped import VARIABLE, set_offset

RESTART_SECONDS = 0.5
"""How long whoever keeps the services running waits before it starts one again."""
STOP_SECONDS = 25.0


@dataclass(slots=True, eq=False)
class Replica:
    """One process of a service, and the one after it when that has ended."""

    service: str
    number: int
    port: int
    log: Path
    clock: Path
    process: asyncio.subprocess.Process | None = None
    wanted: bool = True
    frozen: bool = False
    up: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """Service and number: `game-2`."""
        return f"{self.service}-{self.number}"


@dataclass(slots=True)
class Ended:
    """A replica that ended though nobody had asked it to."""

    name: str
    code: int
    words: str


class Fleet:
    """So many replicas of each service; a context that runs them and keeps them running.

    What ends by itself is started again, as Kubernetes would, and noted in `ended`. `settings`
    leads clients to all replicas of each service.
    """

    def __init__(
        self,
        folder: Path,
        replicas: Mapping[str, int],
        databases: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.ended: list[Ended] = []
        self._databases = databases
        self._given = environment
        self._keeping: list[asyncio.Task[None]] = []
        ports = iter(free_ports(sum(replicas.values())))
        self.replicas = [
            Replica(name, i, next(ports), folder / f"{name}-{i}.log", folder / f"{name}-{i}.clock")
            for name in SERVICES
            for i in range(1, replicas[name] + 1)
        ]
        addresses = {f"{name}_address": self._target(name) for name in SERVICES}
        given = {name.removeprefix("KOZYR_").lower(): value for name, value in environment.items()}
        self.settings: Settings = make_settings({"data_folder": folder, **given, **addresses})

    def of(self, service: str) -> list[Replica]:
        """The replicas of a service."""
        return [replica for replica in self.replicas if replica.service == service]

    async def __aenter__(self) -> Self:
        """Make keys, start all, and wait until each has been ready; raises TimeoutError."""
        ensure_keys(self.settings.keys())
        for replica in self.replicas:
            set_offset(replica.clock, 0)
            self._keeping.append(asyncio.create_task(self._keep(replica), name=replica.name))
        try:
            await self.all_up(90.0)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all."""
        await self._stop()

    async def all_up(self, seconds: float) -> None:
        """Wait until every replica has said that it is ready; raises TimeoutError."""
        async with asyncio.timeout(seconds):
            for replica in self.replicas:
                await replica.up.wait()

    async def end(self, replica: Replica, number: signal.Signals, away_seconds: float) -> None:
        """End a replica with a signal; it comes back after so long, when this returns."""
        replica.wanted = False
        self._signal(replica, number)
        if replica.process is not None:
            await replica.process.wait()
        replica.up.clear()
        await asyncio.sleep(away_seconds)
        replica.wanted = True

    def freeze(self, replica: Replica) -> None:
        """Stop a replica where it stands."""
        replica.frozen = True
        self._signal(replica, signal.SIGSTOP)

    def thaw(self, replica: Replica) -> None:
        """Let it go on."""
        self._signal(replica, signal.SIGCONT)
        replica.frozen = False

    def alive(self, service: str) -> bool:
        """Whether any replica of the service can work."""
        return any(r.up.is_set() and not r.frozen for r in self.of(service))

    def _signal(self, replica: Replica, number: signal.Signals) -> None:
        if replica.process is not None and replica.process.returncode is None:
            replica.process.send_signal(number)

    async def _keep(self, replica: Replica) -> None:
        """Run the replica for ever."""
        arguments = ("-m", "tests.drill.stepped", "serve", replica.service, "--until-eof")
        while True:
            with replica.log.open("ab") as log:
                began = log.tell()
                replica.process = await spawn(arguments, self._environment(replica), log)
            if await ready(replica.process):
                replica.up.set()
            code = await replica.process.wait()
            replica.up.clear()
            if replica.wanted:
                words = last_words(replica.log, began)
                self.ended.append(Ended(replica.name, code, words))
                await asyncio.sleep(RESTART_SECONDS)
            while not replica.wanted:
                await asyncio.sleep(0.02)

    async def _stop(self) -> None:
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        waits = []
        for replica in self.replicas:
            self.thaw(replica)
            self._signal(replica, signal.SIGTERM)
            if replica.process is not None:
                waits.append(asyncio.ensure_future(replica.process.wait()))
        if waits:
            await asyncio.wait(waits, timeout=STOP_SECONDS)
        for replica in self.replicas:
            self._signal(replica, signal.SIGKILL)
        await asyncio.gather(*waits)

    def _target(self, service: str) -> str:
        return "ipv4:" + ",".join(f"{HOST}:{replica.port}" for replica in self.of(service))

    def _environment(self, replica: Replica) -> dict[str, str]:
        environment = {**own_environment(), "KOZYR_DATA_FOLDER": str(self.folder)}
        environment[f"KOZYR_{replica.service.upper()}_LISTEN"] = f"{HOST}:{replica.port}"
        environment[VARIABLE] = str(replica.clock)
        for name in SERVICES:
            environment[f"KOZYR_{name.upper()}_ADDRESS"] = self._target(name)
        for name, url in self._databases.items():
            environment[f"KOZYR_{name.upper()}_DATABASE_URL"] = url
        return environment | dict(self._given)


def free_ports(count: int) -> Sequence[int]:
    """So many ports of the loopback that nobody uses at present."""
    with _sockets(count) as held:
        return [each.getsockname()[1] for each in held]


@contextmanager
def _sockets(count: int) -> Iterator[list[socket.socket]]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind((HOST, 0))
        yield held
    finally:
        for each in held:
            each.close()
