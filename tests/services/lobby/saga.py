"""A lobby whose calls to others and whose own life can be made to fail at any step."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.envelope import Claimed
from services.kernel.errors import Kind, Refused, unavailable
from services.lobby.accounts import Accounts
from services.lobby.admission import Admission
from services.lobby.choices import Choices
from services.lobby.commands import AddBot, Command, Open, SetReady, TakeSeat
from services.lobby.erasing import Erasing
from services.lobby.erasures import Erasures
from services.lobby.evolve import START
from services.lobby.limitbook import LimitBook
from services.lobby.model import Event, Phase, Rules, Table
from services.lobby.players import Players
from services.lobby.seatings import Seatings
from services.lobby.server import FOLDERS
from services.lobby.stakes import Stakes
from services.lobby.start import Starter
from services.lobby.tables import DECIDER, Tables
from services.lobby.timers import Timers
from services.runtime.clients import Client
from services.runtime.clients import Peers as PeerClients
from services.runtime.database import open_engine
from services.runtime.migrate import migrate_engine
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from services.runtime.tokens import load_signer
from tests.services.lobby.peers import Peers
from tests.services.lobby.tables import bot, player

TABLE = UUID(int=0x7AB1E)
GAME = UUID(int=0x6A3E)
TRIES_MAX = 3
LEASE_MS = 25_000
TOKENS_MS = 900_000
SOON_MS = 300_000
"""What is due later has nothing to do with a start."""


class Fault(Enum):
    """What goes wrong with one call."""

    NONE = "none"
    UNSENT = "the other side is not reached"
    UNANSWERED = "it acts, and the answer is lost"
    TOO_SLOW = "it acts, after the deadline"
    CRASH_BEFORE = "the lobby dies before the call"
    CRASH_AFTER = "the lobby dies after the call, before it has noted the answer"


class Crash(BaseException):
    """The lobby's process dies here."""


CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)

Script = Callable[[str, int], Fault]
"""The fault of the nth call (from 0) of a method."""


class FaultyClient:
    """A client with calls that fail by a script."""

    def __init__(self, client: Client, script: Script, counts: dict[str, int]) -> None:
        self.channel = client.channel
        self._client = client
        self._script = script
        self._counts = counts

    async def call(self, method: Any, request: Any, timeout_ms: int | None = None) -> Any:
        """Call, and let happen what the script says."""
        name = type(request).__name__.removesuffix("Request")
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        fault = self._script(name, number)
        if fault is Fault.CRASH_BEFORE:
            raise Crash
        if fault is Fault.UNSENT:
            raise unavailable("PEER_UNAVAILABLE", "not reached")
        refused, answer = None, None
        try:
            answer = await self._client.call(method, request, timeout_ms)
        except Refused as error:
            refused = error
        match fault:
            case Fault.UNANSWERED:
                raise unavailable("PEER_UNAVAILABLE", "lost")
            case Fault.TOO_SLOW:
                raise Refused(Kind.EXPIRED, "DEADLINE_EXCEEDED", "slow")
            case Fault.CRASH_AFTER:
                raise Crash
            case _ if refused is not None:
                raise refused
            case _:
                return answer


class Mortal:
    """The record of erasures of a lobby that dies before or after the calls the script names."""

    def __init__(self, real: Erasures, script: Script, counts: dict[str, int]) -> None:
        self._real = real
        self._script = script
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        """A method of the record, and a death."""

        async def call(*given: Any, **named: Any) -> Any:
            number = self._counts.get(name, 0)
            self._counts[name] = number + 1
            fault = self._script(name, number)
            if fault is Fault.CRASH_BEFORE:
                raise Crash
            answer = await getattr(self._real, name)(*given, **named)
            if fault is Fault.CRASH_AFTER:
                raise Crash
            return answer

        return call


@dataclass(slots=True)
class Rig:
    """A lobby without its server: what it keeps on disk survives `reopen`, nothing else does."""

    peers: Peers
    script: Script
    clock: int = 1_700_000_000_000_000
    counts: dict[str, int] = field(default_factory=dict)
    lives: int = 0
    engine: AsyncEngine = field(init=False)
    store: SqlStore = field(init=False)
    streams: Streams[Table, Command, Event] = field(init=False)
    stakes: Stakes = field(init=False)
    book: LimitBook = field(init=False)
    starter: Starter = field(init=False)
    players: Players = field(init=False)
    tables: Tables = field(init=False)
    erasures: Erasures = field(init=False)
    erasing: Erasing = field(init=False)
    clients: PeerClients = field(init=False)

    async def open(self) -> None:
        """Begin a life."""
        engine = self.engine = open_engine(self.peers.settings.database_url("lobby"))
        await migrate_engine(engine, FOLDERS)
        self.store = SqlStore(engine, None, clock=lambda: self.clock)
        self.streams = Streams(self.store, DECIDER, clock=lambda: self.clock)
        settings = self.peers.settings
        self.clients = PeerClients(settings, load_signer(settings.keys(), "lobby"))
        wallet: Any = FaultyClient(self.clients.client("wallet"), self.script, self.counts)
        game: Any = FaultyClient(self.clients.client("game"), self.script, self.counts)
        self.players = Players(engine, lambda: self.clock)
        accounts = Accounts(self.players, wallet)
        self.stakes = Stakes(engine, lambda: self.clock)
        self.book = LimitBook(engine, lambda: self.clock)
        self.starter = Starter(self.streams, accounts, wallet, game, self.stakes, TRIES_MAX)
        admission = Admission(self.streams, self.store, self.book, self.stakes)
        self.tables = Tables(
            *(self.streams, self.store, self.players, Choices(engine), accounts),
            *(admission, Seatings(engine)),
        )
        self.erasures = Erasures(engine, LEASE_MS, lambda: self.clock)
        noted: Any = Mortal(self.erasures, self.script, self.counts)
        self.erasing = Erasing(
            *(engine, noted, self.players, self.tables, accounts, wallet, game, TOKENS_MS)
        )
        self.lives += 1

    async def close(self) -> None:
        """End a life."""
        await self.clients.close()
        await self.store.close()

    async def do(self, command: Command, number: int) -> Table:
        """Carry a command out at the table."""
        outcome = await self.streams.transact(
            TABLE, command, request_id=f"test:{number}", body_hash=bytes(32)
        )
        return outcome.state

    async def table(self) -> Table:
        """The table as it is stored."""
        return (await self.streams.load(TABLE)).state

    async def is_idle(self) -> bool:
        """Whether nothing is due but what comes of waiting long."""
        next_ms = await self.store.next_due_ms()
        return next_ms is None or next_ms > SOON_MS

    async def handle(self, claimed: Claimed) -> None:
        """Do what is due."""
        worker = self.starter if claimed.kind == START else Timers(self.tables)
        await worker.handle(claimed.kind, claimed)

    async def work(self, rounds: int = 60) -> int:
        """Work off what is due, dying and living again as the script says; how many rounds."""
        for number in range(rounds):
            claimed = await self.store.claim("test", 1, 1_000)
            if not claimed:
                if await self.is_idle():
                    return number
                self.clock += 2_000_000
                continue
            try:
                await self.handle(claimed[0])
                await self.store.drop(claimed[0])
            except Refused:
                await self.store.postpone(claimed[0], 500)
            except Crash:
                await self.close()
                await self.open()
        raise AssertionError("the start never came to an end")


@asynccontextmanager
async def rig(peers: Peers, script: Script) -> AsyncIterator[Rig]:
    """A lobby that is closed at the end."""
    lobby = Rig(peers, script)
    await lobby.open()
    try:
        yield lobby
    finally:
        await lobby.close()


async def begin(lobby: Rig, rules: Rules, persons: int, bots: int, stack: int = 0) -> Table:
    """A full table, all ready: its game is about to start."""
    await lobby.do(Open(player(0), rules, stack, GAME), 0)
    for number in range(1, persons):
        await lobby.do(TakeSeat(player(number), None, 0, "", GAME), number)
    for number in range(bots):
        await lobby.do(AddBot(player(0), bot(number), None, 0, GAME), 100 + number)
    table = await lobby.table()
    for number in range(persons):
        table = await lobby.do(SetReady(player(number), True, GAME), 200 + number)
    assert table.phase is Phase.STARTING
    return table
