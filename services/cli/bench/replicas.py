"""Processes to measure: game replicas on one PostgreSQL, and the echo service beside them.

All run with the settings of production but for two: players may call as often as they like, and
`due` work of the games' ends goes to the echo process. Their log lines go to files.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli.bench import postgres
from services.cli.bench.scripts import GameStreams
from services.cli.outcome import Failure
from services.game.games import decider
from services.game.pacing import AT_ONCE
from services.game.server import FOLDERS
from services.kernel.envelope import Append
from services.runtime.connection import open_channel
from services.runtime.database import open_engine
from services.runtime.feed import Feed
from services.runtime.keys import ensure_keys, master_keys
from services.runtime.relay import Relay
from services.runtime.settings import Settings
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from services.runtime.tokens import load_signer

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
UNBOUNDED = "1000000000"
TOKEN_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class Server:
    """A process that serves: its address and process id."""

    address: str
    pid: int


class House:
    """What is measured and what it needs: keys, a database, tokens, channels."""

    def __init__(self, folder: Path, url: str, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.url = url
        self.settings = Settings(data_folder=folder)
        ensure_keys(self.settings.keys())
        self._signer = load_signer(self.settings.keys(), "players")
        self._stack = stack
        self._tokens: dict[str, tuple[tuple[str, str], ...]] = {}
        engine = open_engine(url)
        self.store = SqlStore(engine, master_keys(self.settings))
        self._relay = Relay(engine, Feed(self.store))
        self.streams: GameStreams = Streams(self.store, decider(AT_ONCE), cached=50_000)
        self.echo = Server("", 0)

    async def start_echo(self, name: str = "echo", *arguments: str, **changes: str) -> Server:
        """An echo service; replicas started after it tell it of ended games."""
        typed = [sys.executable, "-m", "services.cli.bench.echo", *arguments]
        self.echo = await self.start(typed, name, **changes)
        return self.echo

    async def start(self, typed: list[str], name: str, **changes: str) -> Server:
        """A process that says when it is ready; `changes` are settings without their prefix."""
        given = {f"KOZYR_{key.upper()}": value for key, value in changes.items()}
        return await self._start(name, typed, given)

    async def start_replica(self, name: str, **changes: str) -> Server:
        """A game replica; `changes` are settings by name, without their prefix."""
        typed = [sys.executable, "-m", "services.cli.main", "serve", "game", "--until-eof"]
        given = {f"KOZYR_{key.upper()}": value for key, value in changes.items()}
        given["KOZYR_GAME_DATABASE_URL"] = self.url
        if self.echo.address:
            given["KOZYR_LOBBY_ADDRESS"] = given["KOZYR_WALLET_ADDRESS"] = self.echo.address
        return await self._start(name, typed, given)

    async def tell_replicas(self) -> None:
        """From now on, what is appended by `append` is news to the replicas."""
        relaying = asyncio.create_task(self._relay.run())
        self._stack.push_async_callback(_cancel, relaying)

    async def append(self, append: Append) -> None:
        """Append what was decided before, and tell the replicas."""
        appended = await self.store.append(append)
        self._relay.tell(append.stream, appended.version)

    def token(self, player: str) -> tuple[tuple[str, str], ...]:
        """The metadata a player's calls carry."""
        known = self._tokens.get(player)
        if known is None:
            token = self._signer.issue(player, TOKEN_MS)
            known = self._tokens[player] = (("authorization", f"Bearer {token}"),)
        return known

    def channel(self, server: Server) -> Any:
        """A connection to a server, closed at the end."""
        opened = open_channel(server.address, self.settings)
        self._stack.push_async_callback(opened.close)
        return opened

    async def _start(self, name: str, typed: list[str], given: Mapping[str, str]) -> Server:
        path = self.folder / f"{name}.log"
        with path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *typed,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**self._environment(), **given},
                start_new_session=True,
            )
        self._stack.push_async_callback(_stop, process)
        try:
            async with asyncio.timeout(READY_SECONDS):
                return await _ready(process)
        except (TimeoutError, EOFError):
            lines = path.read_text("utf-8", "replace").splitlines()[-1:]
            raise Failure(f"{name} did not start: {' '.join(lines)}") from None

    def _environment(self) -> dict[str, str]:
        kept = {key: text for key, text in os.environ.items() if not key.startswith("KOZYR_")}
        roots = [str(Path(path).absolute()) for path in sys.path if path]
        return kept | {
            "PYTHONPATH": os.pathsep.join(roots),
            "KOZYR_DATA_FOLDER": str(self.folder),
            "KOZYR_GAME_LISTEN": "127.0.0.1:0",
            "KOZYR_DRAIN_STREAM_MS": "0",
            "KOZYR_DRAIN_GRACE_MS": "500",
            "KOZYR_RATE_PER_SECOND": UNBOUNDED,
            "KOZYR_RATE_BURST": UNBOUNDED,
            "KOZYR_ADDRESS_RATE_PER_SECOND": UNBOUNDED,
            "KOZYR_ADDRESS_RATE_BURST": UNBOUNDED,
            "KOZYR_PEER_RATE_PER_SECOND": UNBOUNDED,
            "KOZYR_PEER_RATE_BURST": UNBOUNDED,
            "KOZYR_STREAMS_PER_CALLER_MAX": UNBOUNDED,
        }


@asynccontextmanager
async def house(folder: Path, server_url: str) -> AsyncIterator[House]:
    """A new database of the game service and what is started on it; all is stopped at the end."""
    async with postgres.database(server_url, FOLDERS) as url, AsyncExitStack() as stack:
        made = House(folder, url, stack)
        stack.push_async_callback(made.store.close)
        yield made


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


async def _ready(process: asyncio.subprocess.Process) -> Server:
    while process.stdout is not None and (line := await process.stdout.readline()):
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("event") == "ready":
            return Server(str(said["address"]), int(said["pid"]))
    raise EOFError


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a process by closing its input, as its parent's death would."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
