"""The four services as they are composed in earnest, several processes of each, on one clock.

A process can be killed between any two steps, frozen, drained, and started again on its database.
"""

import asyncio
import atexit
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from services.ai.minds import Minds
from services.ai.servicer import AiServicer
from services.ai.workers import WorkerDied
from services.game import server as game_server
from services.lobby import server as lobby_server
from services.runtime.auth import Caller, Role
from services.runtime.drain import Drain
from services.runtime.keyring import Keyring
from services.runtime.keys import PLAYERS, ensure_keys, read_secret
from services.runtime.migrate import migrate
from services.runtime.server import Compose, Process, Service
from services.runtime.settings import Settings
from services.wallet import server as wallet_server
from tests.sim.clockwork import Clockwork, Node
from tests.sim.network import Handlers, Lines, Network

FOLDERS = {
    "lobby": lobby_server.FOLDERS,
    "game": game_server.FOLDERS,
    "wallet": wallet_server.FOLDERS,
}
FOR_EVER = 2**40
"""When the callers' tokens expire, Unix seconds."""


class NoWorkers:
    """Stands for worker processes that have just died: a bot that searches plays a level lower."""

    count = 1

    async def think(self, _question: Any, _budget_s: float) -> Any:
        """Nobody answers."""
        raise WorkerDied


async def compose_ai(_process: Process) -> Service:
    """The bots, thinking in the loop."""
    workers: Any = NoWorkers()
    servicer = AiServicer(Minds(workers))

    def add(server: Any) -> None:
        from kozyr.ai.v1.ai_pb2_grpc import add_AiServiceServicer_to_server

        add_AiServiceServicer_to_server(servicer, server)

    return Service(add=add, files=())


PACE = lobby_server.Pace(retry_max_ms=2_000, tries_max=3)
"""A lobby that gives a start up within seconds, so that a storm outlasts some."""
COMPOSE: Mapping[str, Compose] = {
    "lobby": partial(lobby_server.compose, pace=PACE),
    "game": game_server.compose,
    "ai": compose_ai,
    "wallet": wallet_server.compose,
}


MEMORY = Path("/dev/shm")


def new_folder() -> Path:
    """A new folder, in memory where the machine has such a place."""
    return Path(mkdtemp(prefix="kozyr-sim-", dir=MEMORY if MEMORY.is_dir() else None))


@cache
def prepared() -> Path:
    """A folder with keys and migrated databases, made once a process, to be copied."""
    folder = new_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ensure_keys(folder / "keys")
    for service, folders in FOLDERS.items():
        asyncio.run(migrate(f"sqlite+aiosqlite:///{folder}/{service}.db", folders))
    return folder


@dataclass
class House:
    """The processes. `broken(text)` is told when a part of one ends that should run."""

    folder: Path
    clockwork: Clockwork
    network: Network
    random: Random
    broken: Callable[[str], None]
    note: Callable[[str], None]
    settings: Settings
    started: int = 0
    services: dict[Node, Service] = field(default_factory=dict)
    drains: dict[Node, Drain] = field(default_factory=dict)

    def alive(self, service: str | None = None) -> list[Node]:
        """The processes that serve, of one service or of all."""
        return [
            node
            for name, nodes in self.network.nodes.items()
            for node in nodes
            if node.alive and service in (None, name)
        ]

    async def start(self, service: str) -> None:
        """One more process of a service; until it is there, nobody reaches it."""
        self.started += 1
        skew_us = self.random.choice((0, 0, 300_000, -300_000, 5_000_000, -5_000_000))
        node = Node(service, self.started, skew_us)
        self.note(f"start {node.name}")
        await self.clockwork.create_task(self._begin(node), context=node.context())

    async def _begin(self, node: Node) -> None:
        key = read_secret(self.settings.keys() / f"{node.service}.seal")
        peers: Any = Lines(self.network, Caller(Role.SERVICE, node.service, FOR_EVER))
        self.drains[node] = Drain()
        ring = Keyring(self.settings.keys(), (PLAYERS,))
        process = Process(node.service, self.settings, self.drains[node], key, peers, ring)
        composed = await COMPOSE[node.service](process)
        handlers: Any = Handlers()
        composed.add(handlers)
        self.services[node] = composed
        self.network.nodes[node.service][node] = handlers
        for name, task in composed.tasks.items():
            self.clockwork.create_task(self._supervise(node, name, task()))

    async def _supervise(self, node: Node, name: str, work: Any) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever ends it
            self.broken(f"{name} of {node.name} ended: {error!r}")

    def kill(self, node: Node) -> None:
        """End a process where it stands."""
        self.note(f"kill {node.name}")
        self._forget(node)
        self._stop(node)

    def _stop(self, node: Node) -> None:
        self.clockwork.thaw(node)
        node.stop()

    async def drain(self, node: Node) -> None:
        """End a process in order: streams end, calls finish, then the store is closed."""
        self.note(f"drain {node.name}")
        service, drain = self.services[node], self.drains[node]
        self._forget(node)
        work = self._close(service, drain)
        task = self.clockwork.create_task(work, context=node.context())
        await asyncio.wait([task])
        self._stop(node)
        if task.done() and not task.cancelled() and (error := task.exception()):
            self.broken(f"closing {node.name} failed: {error!r}")

    async def _close(self, service: Service, drain: Drain) -> None:
        drain.started.set()
        await asyncio.sleep(1)
        await service.close()

    def freeze(self, node: Node, seconds: float) -> None:
        """Stop a process for a while; it goes on as if no time had passed."""
        self.note(f"freeze {node.name} for {seconds:.1f} s")
        node.frozen = True
        self.clockwork.call_later(seconds, self.clockwork.thaw, node)

    def end(self) -> None:
        """End all that is alive."""
        for node in self.alive():
            self._forget(node)
            self._stop(node)

    def _forget(self, node: Node) -> None:
        self.network.nodes[node.service].pop(node, None)
        self.services.pop(node, None)
        self.drains.pop(node, None)


def settings_in(folder: Path) -> Settings:
    """Settings of quick games in a folder of their own."""
    return Settings(
        data_folder=folder,
        key_folder=prepared() / "keys",
        bot_delay_ms=50,
        turn_time_min_ms=500,
        feed_interval_ms=2_000,
        outage_ms=6_000,
        welcome_chips=10_000,
    )


def furnish(folder: Path) -> None:
    """Put the migrated databases there."""
    for service in FOLDERS:
        shutil.copy(prepared() / f"{service}.db", folder / f"{service}.db")
