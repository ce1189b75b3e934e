"""The four services as processes of this machine: started, watched, killed, stopped.

Everything embedded: SQLite and keys in one data folder. The child processes end with the one that
started them, however it ends, because each watches the pipe that is its standard input.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from services.cli.addresses import make_settings, remove_addresses, write_addresses
from services.cli.outcome import Failure
from services.runtime.keys import ensure_keys
from services.runtime.settings import SERVICES, Settings

PORT_BASE = 7001
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
PIPES_SECONDS = 1.0
HOST = "127.0.0.1"
TLS = ("tls_cert_file", "tls_key_file", "tls_ca_file")
"""On this machine's loopback no certificates are needed; who has some has them for elsewhere."""


def ports_from(base: int) -> dict[str, int]:
    """Four neighbouring ports, lobby's first."""
    return {name: base + i for i, name in enumerate(SERVICES)}


def free_ports() -> dict[str, int]:
    """Four ports of the loopback that nobody uses at present."""
    held = [socket.socket() for _ in SERVICES]
    try:
        for each in held:
            each.bind((HOST, 0))
        return {name: s.getsockname()[1] for name, s in zip(SERVICES, held, strict=True)}
    finally:
        for each in held:
            each.close()


class Stack:
    """The four services on loopback ports with one data folder; a context that runs them.

    `environment` is added to each service's own, and after it what `apart` has under its name.
    `settings` leads clients to the services.
    """

    def __init__(
        self,
        data: Path,
        ports: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        apart: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.data = data.absolute()
        self.ports = dict(free_ports() if ports is None else ports)
        self.logs = self.data / "logs"
        self._given = dict(environment or {})
        self._apart = apart or {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._stopping: set[str] = set()
        self._log_began: dict[str, int] = {}
        addresses = {f"{name}_address": self.address(name) for name in SERVICES}
        self.settings: Settings = make_settings(
            {"data_folder": self.data, **addresses, **dict.fromkeys(TLS)}
        )

    def address(self, name: str) -> str:
        """Where a service listens."""
        return f"{HOST}:{self.ports[name]}"

    async def __aenter__(self) -> Self:
        """Make keys, start all four, and wait until each is ready; raises Failure."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{self.logs}: {error.strerror}") from None
        ensure_keys(self.settings.keys())
        starts = [asyncio.ensure_future(self.start(name)) for name in SERVICES]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for each in starts:
                each.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await self.stop()
            raise
        write_addresses(self.data, {name: self.address(name) for name in SERVICES})
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all."""
        remove_addresses(self.data)
        await self.stop()

    async def start(self, name: str) -> None:
        """Start one service and wait for its ready line; raises Failure if it does not come."""
        began = time.monotonic()
        self._stopping.discard(name)
        with (self.logs / f"{name}.log").open("ab") as log:
            self._log_began[name] = log.tell()
            arguments = ("-m", "services.cli.main", "serve", name, "--until-eof")
            process = await spawn(arguments, self._environment(name), log)
        self._processes[name] = process
        if not await ready(process):
            spent = time.monotonic() - began
            raise Failure(f"{name} did not start ({spent:.0f} s): {self.last_words(name)}")

    def pid(self, name: str) -> int:
        """The process of a service."""
        return self._processes[name].pid

    async def kill(self, name: str) -> None:
        """End one service with SIGKILL, as a crash would."""
        self._stopping.add(name)
        process = self._processes[name]
        process.kill()
        await process.wait()
        await _close_pipes(process)

    async def stop(self) -> None:
        """End all with SIGTERM, lobby first; what does not end in time is killed."""
        running = [n for n in SERVICES if n in self._processes and not self._has_ended(n)]
        self._stopping.update(SERVICES)
        for name in running:
            self._processes[name].send_signal(signal.SIGTERM)
        waits = [asyncio.ensure_future(self._processes[name].wait()) for name in running]
        if waits:
            await asyncio.wait(waits, timeout=STOP_SECONDS)
        for name in running:
            if not self._has_ended(name):
                self._processes[name].kill()
        await asyncio.gather(*waits)
        await asyncio.gather(*(_close_pipes(self._processes[name]) for name in running))

    async def died(self) -> tuple[str, int]:
        """Wait until a service ends that nobody stopped: its name and exit code."""
        while True:
            for name, process in self._processes.items():
                if process.returncode is not None and name not in self._stopping:
                    return name, process.returncode
            await asyncio.sleep(0.2)

    def last_words(self, name: str) -> str:
        """What a service wrote last about its failure since it was started, and where."""
        return last_words(self.logs / f"{name}.log", self._log_began.get(name, 0))

    def _has_ended(self, name: str) -> bool:
        return self._processes[name].returncode is not None

    def _environment(self, service: str) -> dict[str, str]:
        environment = own_environment()
        for name in TLS:
            environment.pop(f"KOZYR_{name.upper()}", None)
        environment["KOZYR_DATA_FOLDER"] = str(self.data)
        for name in SERVICES:
            environment[f"KOZYR_{name.upper()}_LISTEN"] = self.address(name)
            environment[f"KOZYR_{name.upper()}_ADDRESS"] = self.address(name)
        return {**environment, **self._given, **self._apart.get(service, {})}


def own_environment() -> dict[str, str]:
    """The environment of a child that imports what this process imports, installed or not."""
    roots = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": roots}


async def spawn(
    arguments: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> asyncio.subprocess.Process:
    """Start Python with these arguments; its errors go to `log`."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


async def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close what an ended process was spoken to by; a loop that ends before that complains."""
    if process.stdin is not None:
        process.stdin.close()
    if process.stdout is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PIPES_SECONDS):
                await process.stdout.read()
    await asyncio.sleep(0)


async def ready(process: asyncio.subprocess.Process) -> bool:
    """Wait for a service's ready line; whether it came in time."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await _ready(process)
    except (TimeoutError, EOFError):
        return False
    return True


def last_words(path: Path, began: int) -> str:
    """What a log says last about a failure, from this octet on, and where it is."""
    try:
        with path.open("rb") as log:
            log.seek(began)
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        lines = []
    said = next((words for line in reversed(lines) if (words := _failure_in(line))), "")
    return f"{said} (log: {path})" if said else f"its log is {path}"


def _failure_in(line: str) -> str:
    """The failure a log line tells of, in words; empty for none."""
    try:
        told = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(told, dict) or told.get("level") not in ("error", "critical"):
        return ""
    return str(told.get("hint") or told.get("error") or told.get("event") or "")


async def _ready(process: asyncio.subprocess.Process) -> None:
    """Wait for the line that says `ready`; raises EOFError if the process ends before."""
    if process.stdout is None:
        raise EOFError
    while line := await process.stdout.readline():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("event") == "ready":
            return
    raise EOFError
