"""An event loop whose time leaps: nothing waits, nothing runs beside it, the order is always one.

Whatever would take time (a sleep, a disk, a thread) becomes a timer on the loop's own clock. When
nothing is left to do now, the clock leaps to the next timer. Every process of the simulation is a
`Node`; what runs for it carries it in its context, so that a node can be stopped in its tracks.
"""

import asyncio
import heapq
import sqlite3
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

EPOCH_US = 1_800_000_000_000_000
"""The moment at which every simulation begins, Unix microseconds."""
UNIX_JULIAN = 2_440_587.5
DAY_US = 86_400_000_000


@dataclass(eq=False)
class Node:
    """A process of a service: alive until it is killed, and frozen for a while at times."""

    service: str
    number: int
    skew_us: int = 0
    """How far its own clock is ahead of the database's."""
    alive: bool = True
    frozen: bool = False
    held: list[Any] = field(default_factory=list, repr=False)
    """What would have run while it was frozen."""
    tasks: list[asyncio.Task[Any]] = field(default_factory=list, repr=False)
    connections: list[sqlite3.Connection] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """A name for the journal."""
        return f"{self.service}{self.number}"

    def context(self) -> Context:
        """A context whose code runs for this node."""
        context = copy_context()
        context.run(NODE.set, self)
        return context

    def open_connections(self) -> list[sqlite3.Connection]:
        """Its connections that are open."""
        return [connection for connection in self.connections if is_open(connection)]

    def stop(self) -> None:
        """End it at once: what it has not committed is gone, and its tasks do nothing more."""
        self.alive, self.frozen = False, False
        for connection in self.open_connections():
            connection.rollback()
        for task in self.tasks:
            task.cancel()


def is_open(connection: sqlite3.Connection) -> bool:
    """Whether a connection can still be used."""
    try:
        connection.total_changes  # noqa: B018 - raises when it is closed
    except sqlite3.ProgrammingError:
        return False
    return True


NODE: ContextVar[Node | None] = ContextVar("node", default=None)
"""The process that the running code belongs to; None for clients and the world around."""


class Numbered:
    """Has its own number for a hash, so that sets of such things have one order in every run."""

    def __init__(self, *args: Any, loop: "Clockwork", **kwargs: Any) -> None:
        self.number = next(loop.numbers)
        super().__init__(*args, **{**kwargs, "loop": loop})

    def __hash__(self) -> int:
        return hash(self.number)


class OrderedFuture(Numbered, asyncio.Future[Any]):
    """A future of the loop."""


class OrderedTask(Numbered, asyncio.Task[Any]):
    """A task of the loop."""


class Stuck(Exception):
    """Everybody waits and no timer is left."""


class Clockwork(asyncio.BaseEventLoop):
    """The loop. `random` says how long disks take."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.numbers = count()
        self.seconds = 0.0
        self.slow_disk = 0.0
        """How often a statement takes time."""
        self._selector: Any = None
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled: list[Any] = []
        self.set_task_factory(belong)

    def create_future(self) -> asyncio.Future[Any]:
        """A future with a number."""
        return OrderedFuture(loop=self)

    def time(self) -> float:
        """Seconds since the beginning."""
        return self.seconds

    def now_us(self) -> int:
        """The database's clock: whole milliseconds, Unix microseconds."""
        return EPOCH_US + int(self.seconds * 1_000) * 1_000

    def time_ns(self) -> int:
        """The clock of the running node's machine, Unix nanoseconds."""
        node = NODE.get()
        return (EPOCH_US + int(self.seconds * 1e6) + (node.skew_us if node else 0)) * 1_000

    def julian(self, _word: object) -> float:
        """The same moment as SQLite's `julianday('now')` gives it."""
        return UNIX_JULIAN + self.now_us() / DAY_US

    async def disk(self) -> None:
        """A statement's time on the disk; a process that has died gets no further."""
        node = NODE.get()
        if node is None:
            return
        if not node.alive:
            raise asyncio.CancelledError
        if self.slow_disk and self.random.random() < self.slow_disk:
            await asyncio.sleep(self.random.random() * 0.004)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """What a thread would do, done here a little later; it ends though nobody may wait."""
        future: asyncio.Future[Any] = self.create_future()
        node = NODE.get()

        def work() -> None:
            if node is not None and not node.alive:
                return
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        slow = self.slow_disk and self.random.random() < self.slow_disk
        self.call_later(self.random.random() * 0.004 if slow else 0.0, work)
        return future

    def thaw(self, node: Node) -> None:
        """Let a frozen node go on with all that came meanwhile."""
        node.frozen = False
        self._ready.extend(node.held)
        node.held.clear()

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._ready:
            if not self._scheduled:
                raise Stuck
            self.seconds = max(self.seconds, self._scheduled[0]._when)
        while self._scheduled and self._scheduled[0]._when <= self.seconds:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._ready.append(handle)
        for _ in range(len(self._ready)):
            self._run(self._ready.popleft())

    def _run(self, handle: Any) -> None:
        if handle._cancelled:
            return
        node = handle._context.get(NODE)
        if node is not None and node.frozen:
            node.held.append(handle)
        else:
            handle._run()

    def _process_events(self, _events: object) -> None:
        """There are none: no sockets."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in another thread."""


def belong(loop: Any, coro: Any, context: Context | None = None) -> asyncio.Task[Any]:
    """A task that is its node's: it is ended with it."""
    task = OrderedTask(coro, loop=loop, context=context)
    node = (context or copy_context()).get(NODE)
    if node is not None:
        if len(node.tasks) > 200:
            node.tasks = [known for known in node.tasks if not known.done()]
        node.tasks.append(task)
    return task
