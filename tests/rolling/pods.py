"""Replicas with an address each, replaced one after the other as a Deployment replaces its pods.

A new replica has an address of its own (loopback has many) at the port of its service, and becomes
one of those that the service's name stands for when its probe says that it is ready. When it has
been ready for long enough an old one is taken from the name and ended: preStop, SIGTERM, grace. The
next new one starts meanwhile.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.cli.addresses import make_settings
from services.cli.stack import own_environment, spawn
from services.runtime.keys import ensure_keys
from services.runtime.settings import SERVICES, Settings
from tests.authority import OPERATORS, Authority, given
from tests.drill.fleet import free_ports
from tests.rolling.pace import Pace
from tests.runtime.names import Names

START_SECONDS = 90.0
ASKED_SECONDS = 1.0
STOP_SECONDS = 25.0
DOMAIN = "kozyr.svc.cluster.local"


@dataclass(slots=True, eq=False)
class Pod:
    """A process of a service: started, serving, asked to end, ended.

    `seconds` is how long it took from SIGTERM to its end, `code` its exit code.
    """

    service: str
    name: str
    host: str
    log: Path
    process: asyncio.subprocess.Process
    asked: bool = False
    killed: bool = False
    seconds: float = 0.0

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self.process.returncode


class Pods:
    """So many replicas of each service, with TLS between all; a context that runs them.

    `settings` leads clients to all ready replicas of each service, by name. `all` holds every
    replica that there ever was.
    """

    def __init__(
        self,
        folder: Path,
        replicas: int,
        paces: Mapping[str, Pace],
        databases: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.all: list[Pod] = []
        self.names = Names()
        self._replicas = replicas
        self._paces = paces
        self._databases = databases
        self._given = environment
        *ports, self._probe_port = free_ports(len(SERVICES) + 1)
        self._ports = dict(zip(SERVICES, ports, strict=True))
        self._numbers = {name: count(1) for name in SERVICES}
        self._addresses: dict[str, str] = {}
        self._certificates: Mapping[str, Mapping[str, str]] = {}
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """How clients find the services."""
        if self._settings is None:
            raise ValueError("not entered")
        return self._settings

    def of(self, service: str) -> Sequence[Pod]:
        """The replicas of a service that run and were not asked to end."""
        return [p for p in self.all if p.service == service and not p.asked and p.code is None]

    async def __aenter__(self) -> Self:
        """Serve names, make keys, start all and wait until each is ready; raises TimeoutError."""
        where = await self.names.serve()
        for name in SERVICES:
            self.names.hosts[f"{name}-headless"] = []
            target = f"dns://{where}/{name}-headless.{DOMAIN}:{self._ports[name]}"
            self._addresses[f"{name}_address"] = target
        self._certificates = Authority().lay_all(self.folder / "tls")
        values: dict[str, Any] = {
            name.removeprefix("KOZYR_").lower(): v for name, v in self._given.items()
        }
        values |= {"data_folder": self.folder, **given(self.folder / "tls" / OPERATORS)}
        self._settings = make_settings(values | self._addresses)
        ensure_keys(self.settings.keys())
        try:
            async with asyncio.TaskGroup() as starting:
                for name in SERVICES:
                    for _ in range(self._replicas):
                        starting.create_task(self._start(name))
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all."""
        await self._stop()

    async def roll(self, service: str) -> None:
        """Replace every replica of a service; raises TimeoutError for one that does not start."""
        pace, ending = self._paces[service], []
        for old in self.of(service):
            await self._start(service)
            await asyncio.sleep(pace.min_ready)
            ending.append(asyncio.create_task(self._end(old, pace)))
        await asyncio.gather(*ending)

    async def _start(self, service: str) -> None:
        """One more replica: when this returns, its name stands for it too."""
        number = next(self._numbers[service])
        # A network of this process's own within 127.0.0.0/8.
        host = f"127.{16 + os.getpid() % 200}.{SERVICES.index(service) + 1}.{number}"
        log_path = self.folder / f"{service}-{number}.log"
        with log_path.open("ab") as log:
            arguments = ("-m", "services.cli.main", "serve", service, "--until-eof")
            process = await spawn(arguments, self._environment(service, host), log)
        pod = Pod(service, f"{service}-{number}", host, log_path, process)
        self.all.append(pod)
        pace = self._paces[service]
        async with asyncio.timeout(START_SECONDS):
            while not await self._ready(pod, pace.service):
                await asyncio.sleep(pace.probe)
        self.names.hosts[f"{service}-headless"].append(host)

    async def _ready(self, pod: Pod, name: str) -> bool:
        """What the readiness probe says."""
        request = health_pb2.HealthCheckRequest(service=name)
        async with grpc.aio.insecure_channel(f"{pod.host}:{self._probe_port}") as channel:
            try:
                health: Any = health_pb2_grpc.HealthStub(channel)
                said = await health.Check(request, timeout=ASKED_SECONDS)
            except grpc.aio.AioRpcError:
                return False
        return bool(said.status == health_pb2.HealthCheckResponse.SERVING)

    async def _end(self, pod: Pod, pace: Pace) -> None:
        """Lead nobody there any more, and end it."""
        pod.asked = True
        self.names.hosts[f"{pod.service}-headless"].remove(pod.host)
        await asyncio.sleep(pace.pre_stop)
        await _terminate(pod, pace.grace - pace.pre_stop)

    async def _stop(self) -> None:
        left = [pod for pod in self.all if pod.code is None]
        for pod in left:
            pod.asked = True
        await asyncio.gather(*(_terminate(pod, STOP_SECONDS) for pod in left))
        self.names.close()

    def _environment(self, service: str, host: str) -> dict[str, str]:
        environment = {**own_environment(), "KOZYR_DATA_FOLDER": str(self.folder)}
        environment[f"KOZYR_{service.upper()}_LISTEN"] = f"{host}:{self._ports[service]}"
        environment["KOZYR_HEALTH_LISTEN"] = f"{host}:{self._probe_port}"
        for name, address in self._addresses.items():
            environment[f"KOZYR_{name.upper()}"] = address
        for name, url in self._databases.items():
            environment[f"KOZYR_{name.upper()}_DATABASE_URL"] = url
        for name, milliseconds in self._paces[service].drain:
            environment[name] = str(milliseconds)
        return {**environment, **self._certificates[service], **self._given}


async def _terminate(pod: Pod, seconds: float) -> None:
    """SIGTERM, and SIGKILL for what has not ended after so long."""
    if pod.code is None:
        pod.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            await pod.process.wait()
    except TimeoutError:
        pod.killed = True
        pod.process.kill()
        await pod.process.wait()
    pod.seconds = time.monotonic() - began
