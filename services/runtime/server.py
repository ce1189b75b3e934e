"""A service's process: from settings to a listening server, and down again without losing a call.

A service's `main` is `run("wallet", compose)`; `compose` opens what the service needs and says what
it serves. Tests and embedders use `running`.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import orjson
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health as grpc_health
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from pydantic import ValidationError

from services.runtime import log, metrics, traces
from services.runtime.access import ACCESS
from services.runtime.auth import Access
from services.runtime.certificates import Certificates
from services.runtime.clients import Peers
from services.runtime.database import DatabaseInUse
from services.runtime.drain import Drain
from services.runtime.exposition import Exposition, Reading
from services.runtime.health import Health, Probe
from services.runtime.interceptors import Gate
from services.runtime.keyring import Keyring
from services.runtime.keys import PLAYERS, read_secret
from services.runtime.release import release
from services.runtime.settings import EventLoop, Settings
from services.runtime.tokens import RingSigner, Verifier

if TYPE_CHECKING:
    from services.runtime.spans import Tracing

METADATA_MAX_BYTES = 8_192
ISSUES_FOR_PLAYERS = "lobby"
COLLECTED_AFTER = (10_000, 10, 10)
"""How many objects more than were freed are made before the collector looks for cycles: the
default of 700 looks several times a call, and finds nothing."""


@dataclass(frozen=True, slots=True)
class Process:
    """What every service is given: settings, shutdown, its sealing key, the other services, the
    keys that sign and verify, and what traces it, if it is traced."""

    name: str
    settings: Settings
    drain: Drain
    seal_key: bytes
    peers: Peers
    keyring: Keyring
    tracing: "Tracing | None" = None


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Service:
    """What a service serves.

    `add` puts its servicers on the server; `files` are the descriptors that declare them
    (`wallet_pb2.DESCRIPTOR`); `checks` decide its health; `tasks` run beside it for as long as it
    serves, and when one ends or raises the process ends with an error; `close` is the last
    step; `readings` bring gauges up to date when metrics are asked for.
    """

    add: Callable[[grpc.aio.Server], None]
    files: tuple[FileDescriptor, ...]
    checks: Mapping[str, Probe] = field(default_factory=dict)
    tasks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    close: Callable[[], Awaitable[None]] = _nothing
    readings: tuple[Reading, ...] = ()


Compose = Callable[[Process], Awaitable[Service]]


class CannotStart(Exception):
    """Something outside is not as a service needs it. The text is for operators and is logged."""


class TaskDied(Exception):
    """A background task of the service ended although it should run."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts calls at `address` (`host:port`), and shows its metrics at a port of
    its own where that is asked for. `died` fails when a task dies."""

    address: str
    port: int
    drain: Drain
    died: asyncio.Future[None]
    metrics_port: int | None = None


@asynccontextmanager
async def running(
    name: str, settings: Settings, compose: Compose, access: Mapping[str, Access] = ACCESS
) -> AsyncIterator[Running]:
    """Serve while the context is open, then drain and close.

    Raises CannotStart when keys are missing or bad, or the address is taken.
    """
    drain = Drain()
    ring, seal_key = _keys(name, settings)
    certificates = _certificates(settings)
    verifier = Verifier(ring, settings.clock_skew_ms)
    peers = Peers(settings, RingSigner(name, ring))
    tracing = traces.start(name, settings)
    service = await compose(Process(name, settings, drain, seal_key, peers, ring, tracing))
    try:
        names = [s.full_name for file in service.files for s in file.services_by_name.values()]
        health = Health(names, service.checks)
        gate = Gate(settings, verifier, access, drain, tracing)
        server = grpc.aio.server(interceptors=[gate], options=_options(settings))
        service.add(server)
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
        shown = [*names, grpc_health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(shown, server)
        host, port = _listen(server, settings.listen(name), certificates)
        probed = _probed(settings, gate, health)
        metrics.BUILD.of(release(), name).set(1)
        exposition = Exposition((*service.readings, *_ends(name, certificates)))
        metrics_port = await _expose(exposition, settings)
        await health.refresh()
        await server.start()
        if probed is not None:
            await probed.start()
        died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks = [
            asyncio.create_task(_supervise(task, run_task, drain, died), name=task)
            for task, run_task in service.tasks.items()
        ]
        polling = asyncio.create_task(health.poll(settings.health_interval_ms))
        reading = asyncio.create_task(ring.run(settings.key_reread_ms))
        try:
            yield Running(f"{host}:{port}", port, drain, died, metrics_port)
        finally:
            await _drain(server, health, drain, settings)
            await _end([*tasks, polling, reading])
            if probed is not None:
                await probed.stop(None)
            await exposition.stop()
            if not died.cancel():
                died.exception()
    finally:
        await service.close()
        await peers.close()
        if tracing is not None:
            await tracing.close()


async def serve(
    name: str, settings: Settings, compose: Compose, access: Mapping[str, Access] = ACCESS
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once.

    Prints one JSON line with the address on standard output when ready. Raises TaskDied.
    """
    stop = _stop_on_signals()
    async with running(name, settings, compose, access) as server:
        ready = {
            "event": "ready", "service": name, "address": server.address, "pid": os.getpid()
        }  # fmt: skip
        gc.collect()
        gc.freeze()  # what is there by now stays: no collection need walk through it again
        gc.set_threshold(*COLLECTED_AFTER)
        sys.stdout.write(orjson.dumps(ready).decode() + "\n")
        sys.stdout.flush()
        log.get().info("serving", address=server.address, pid=os.getpid())
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait((asked, server.died), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        failed = server.died.exception() if server.died.done() else None
    if failed is not None:
        raise failed
    log.get().info("stopped")


def run(
    name: str,
    compose: Compose,
    settings: Settings | None = None,
    access: Mapping[str, Access] = ACCESS,
) -> int:
    """The whole process of a service; returns its exit code.

    0 after a signal, 1 when it failed, 2 when its settings are wrong.
    """
    try:
        settings = settings or Settings()
    except ValidationError as error:
        sys.stderr.write("\n".join(setting_problems(error)) + "\n")
        return 2
    log.configure(name, settings.log_level, settings.log_format)
    try:
        with asyncio.Runner(loop_factory=loop_factory(settings.event_loop)) as runner:
            runner.run(serve(name, settings, compose, access))
    except Exception as error:  # noqa: BLE001 - the last resort of a process
        hint = str(error) if isinstance(error, CannotStart | TaskDied | DatabaseInUse) else None
        log.get().error("failed", hint=hint, **log.failure(error))
        return 1
    return 0


def setting_problems(error: ValidationError) -> list[str]:
    """What is wrong with the settings, a line each, without their values."""
    lines = []
    for problem in error.errors(include_input=False, include_context=False, include_url=False):
        where = "_".join(str(part) for part in problem["loc"]).upper()
        lines.append(f"KOZYR_{where}: {problem['msg']}" if where else problem["msg"])
    return lines


def _keys(name: str, settings: Settings) -> tuple[Keyring, bytes]:
    folder = settings.keys()
    issuers = (name, PLAYERS) if name == ISSUES_FOR_PLAYERS else (name,)
    try:
        ring = Keyring(folder, issuers, settings.key_announce_ms)
        return ring, read_secret(folder / f"{name}.seal")
    except (OSError, ValueError) as error:
        raise CannotStart(f"keys of {name} in {folder}: {error}") from error


def _certificates(settings: Settings) -> Certificates | None:
    """What the service shows and whom it believes, where it speaks TLS."""
    if settings.tls_ca_file is None:
        return None
    if settings.tls_cert_file is None:
        raise CannotStart(
            "KOZYR_TLS_CERT_FILE is missing: a service needs a certificate of its own"
        )
    try:
        return Certificates(settings)
    except (OSError, ValueError) as error:
        raise CannotStart(f"certificate: {error}") from error


def _ends(name: str, certificates: Certificates | None) -> tuple[Reading, ...]:
    """Says how long the service's own certificate is good for, where it has one."""
    if certificates is None:
        return ()

    async def read() -> None:
        left = certificates.current().ends_at - time.time()
        metrics.CERTIFICATE_LEFT.of(name).set(left)

    return (read,)


def _listen(
    server: grpc.aio.Server, address: str, certificates: Certificates | None = None
) -> tuple[str, int]:
    host, _, _ = address.rpartition(":")
    try:
        if certificates is not None:
            return host, server.add_secure_port(address, certificates.for_server())
        return host, server.add_insecure_port(address)
    except RuntimeError as error:
        raise CannotStart(f"cannot listen on {address}; is it taken?") from error


def _probed(settings: Settings, gate: Gate, health: Health) -> grpc.aio.Server | None:
    """A server of health alone, where one is asked for."""
    if settings.health_listen is None:
        return None
    server = grpc.aio.server(interceptors=[gate], options=_options(settings))
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    _listen(server, settings.health_listen)
    return server


async def _expose(exposition: Exposition, settings: Settings) -> int | None:
    """Show metrics, where that is asked for; the port."""
    address = settings.metrics_listen
    if address is None:
        return None
    try:
        return await exposition.start(address)
    except OSError as error:
        raise CannotStart(f"cannot listen on {address}; is it taken?") from error


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", settings.keepalive_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", settings.keepalive_ms // 2),
        ("grpc.max_connection_age_ms", settings.connection_age_max_ms),
        ("grpc.max_connection_age_grace_ms", settings.connection_age_grace_ms),
        ("grpc.max_receive_message_length", settings.message_max_bytes),
        ("grpc.max_send_message_length", settings.message_max_bytes),
        ("grpc.max_concurrent_streams", settings.streams_per_connection_max),
        ("grpc.max_metadata_size", METADATA_MAX_BYTES),
    ]


async def _supervise(
    name: str,
    task: Callable[[], Awaitable[None]],
    drain: Drain,
    died: asyncio.Future[None],
) -> None:
    cause: Exception | None = None
    try:
        await task()
    except Exception as error:  # noqa: BLE001 - told to whoever waits for the process
        cause = error
        log.get().error("task_died", task=name, **log.failure(error))
    if (cause is not None or not drain.started.is_set()) and not died.done():
        failure = TaskDied(name)
        failure.__cause__ = cause
        died.set_exception(failure)


async def _drain(server: grpc.aio.Server, health: Health, drain: Drain, settings: Settings) -> None:
    """Say NOT_SERVING, let streams end, refuse new calls, finish running ones."""
    await health.stop()
    drain.started.set()
    if settings.drain_notice_ms:
        await asyncio.sleep(settings.drain_notice_ms / 1000)
    await drain.wait_streams(settings.drain_stream_ms)
    drain.end_streams()
    await server.stop(settings.drain_grace_ms / 1000)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _stop_on_signals() -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    both = (signal.SIGTERM, signal.SIGINT)

    def asked(number: int) -> None:
        log.get().info("stopping", signal=signal.Signals(number).name)
        stop.set()
        for each in both:
            loop.remove_signal_handler(each)

    for number in both:
        loop.add_signal_handler(number, asked, number)
    return stop


def loop_factory(kind: EventLoop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop; None for that of asyncio."""
    if kind is EventLoop.ASYNCIO:
        return None
    try:
        import uvloop
    except ImportError:
        if kind is EventLoop.UVLOOP:
            raise
        return None
    return uvloop.new_event_loop
