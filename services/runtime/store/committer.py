"""Group commit: appends that arrive while one transaction runs share the next one.

Few tasks, the lanes, drain the queue and never let time pass to fill a batch: the batch is what has
come in since the last one began, and what the event loop is bringing at this moment. With two lanes
and enough to write, the database works on one batch while we make the next. No two appends of a
stream are under way at once: others of that stream wait until the first is decided and meet the
head it has left. Each append is won or lost by itself.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import structlog

from services.kernel.envelope import Append, Recorded
from services.runtime import metrics
from services.runtime.store.api import Overloaded, StoreUnavailable
from services.runtime.store.chain import GENESIS, SALT_BYTES, link
from services.runtime.store.sealing import NONCE_BYTES, seal

log = structlog.get_logger(__name__)

BATCH_APPENDS = 512
BATCH_OCTETS = 1 << 20
LANE_APPENDS = 8
"""So many appends are worth a lane more: a transaction costs as much as about as many rows."""
GATHERED_APPENDS = 16
"""A batch of so many is sent whatever else comes: its fixed cost is little beside its rows'."""
QUIET_TURNS = 3
"""When so many turns of the event loop in a row bring nothing, a batch is sent. A server takes in
one call after the other, so those that are there are two turns apart."""
QUEUE_APPENDS = 16_384
QUEUE_OCTETS = 32 << 20
"""What may wait; one append more is refused as Overloaded."""
EVENT_OCTETS = 400
"""What an event weighs beside its payload, secret and metadata."""


DUE_KNOWN = 16
"""Of how many due rows of a stream the names are kept in memory."""
REQUESTS_KNOWN = 32_768
"""Of how many request ids of a stream it is kept in memory that they are stored, 8 bytes each; of
longer streams they are read before every append."""


class Verdict(IntEnum):
    """What became of an append: stored, too late by the database's clock, or behind its stream.

    LOST is also a request id that was stored before. STALE (PostgreSQL alone, never the answer to
    a caller) is a proposal to make anew: its time is not the database's.
    """

    WON = 0
    LOST = 1
    LATE = 2
    STALE = 3


OUTCOMES = {
    Verdict.WON: "won", Verdict.LOST: "lost", Verdict.LATE: "late", Verdict.STALE: "lost",
}  # fmt: skip
"""How metrics name them."""


class Locked(StoreUnavailable):
    """A row was locked for too long; other appends of the batch may fare better."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What an append follows: the stream's version, chain hash and last time.

    `due` names (kind, key) all due rows it may have, others too, and `requests` are the marks
    (`request_mark`) of all its request ids; None where they are not known.
    """

    version: int
    hash: bytes
    recorded_at: int
    due: frozenset[tuple[str, str]] | None = None
    requests: bytes | None = None


NOTHING = Mark(0, GENESIS, 0, frozenset(), b"")
"""What the first append of a stream follows."""


def comes_after(append: Append, mark: Mark) -> bool:
    """Whether an append was decided on this end of its stream."""
    return append.expected == mark.version and append.follows in (None, mark.hash)


@dataclass(frozen=True, slots=True)
class Sealing:
    """An append's secrets: the stream's key, its stored form (id, octets) where it was made just
    now, and the sealed octets by version."""

    key: bytes
    wrapped: tuple[str, bytes] | None
    sealed: tuple[tuple[int, bytes], ...]


@dataclass(slots=True, eq=False)
class Pending:
    """An append under way. `salts` has one for each event that hides something, else None.

    `follows` is what its head is believed to be. `rows` are what was proposed last; they are stored
    when the verdict says so.
    """

    append: Append
    salts: tuple[bytes | None, ...]
    sealing: Sealing | None
    follows: Mark
    rows: tuple[Recorded, ...] = ()
    verdict: "asyncio.Future[Verdict] | None" = None
    octets: int = 0
    """About how much of a batch it fills."""


def made_ready(
    append: Append,
    follows: Mark,
    with_key: tuple[bytes, tuple[str, bytes] | None] | None,
    random: Callable[[int], bytes],
) -> Pending:
    """An append with its secrets sealed; `with_key` is its stream's key and the stored form of one
    made just now, None where nothing is hidden."""
    if with_key is None:
        return Pending(append, (None,) * len(append.events), None, follows)
    key, wrapped = with_key
    salts: list[bytes | None] = []
    sealed = []
    for version, new in enumerate(append.events, start=append.expected + 1):
        if new.secret is None:
            salts.append(None)
            continue
        salt = random(SALT_BYTES)
        salts.append(salt)
        box = seal(key, append.stream, version, salt, new.secret, random(NONCE_BYTES))
        sealed.append((version, box))
    return Pending(append, tuple(salts), Sealing(key, wrapped, tuple(sealed)), follows)


def due_after(pending: Pending) -> frozenset[tuple[str, str]] | None:
    """What `Mark.due` is once an append is stored; given up where it would grow long, as a row
    whose work was done without an append still counts."""
    known, plan = pending.follows.due, pending.append.plan
    if known is None or not (plan.done or plan.due):
        return known
    names = known.difference(plan.done).union([(work.kind, work.key) for work in plan.due])
    return names if len(names) <= DUE_KNOWN else None


def request_mark(request_id: str) -> bytes:
    """8 bytes that stand for a request id in the memory of this process."""
    return hash(request_id).to_bytes(8, "little", signed=True)


def requests_after(pending: Pending) -> bytes | None:
    """What `Mark.requests` is once an append is stored; given up where it would grow long."""
    known = pending.follows.requests
    if known is None or len(known) >= REQUESTS_KNOWN * 8:
        return None
    return known + request_mark(pending.append.request_id)


def requests_seen(known: Mark | None, rows: Sequence[Recorded]) -> bytes | None:
    """What `Mark.requests` is after rows that were read; None unless they follow what is known."""
    if known is None or known.requests is None or rows[0].version != known.version + 1:
        return None
    if link(known.hash, rows[0]) != rows[0].hash:
        return None
    return known.requests + marks(row.request_id for row in rows if row.request_id is not None)


def marks(request_ids: Iterable[str]) -> bytes:
    """The marks of several request ids."""
    return b"".join([request_mark(request_id) for request_id in request_ids])


Write = Callable[[Sequence[Pending]], Awaitable[Sequence[Verdict]]]
"""Stores a batch in one transaction and gives a verdict each; raises when none was stored, or
StoreUnavailable when that is not known."""


def octets(append: Append) -> int:
    """About how much of a batch an append fills."""
    size = len(append.events) * (EVENT_OCTETS + len(append.metadata))
    for event in append.events:
        size += len(event.payload) + (0 if event.secret is None else len(event.secret))
    return size


class Committer:
    """The one writer of a store in this process, with so many batches under way at most."""

    def __init__(self, write: Write, lanes: int = 1) -> None:
        self._write = write
        self._lanes = lanes
        self._ready: deque[Pending] = deque()
        self._behind: dict[int, deque[Pending] | None] = {}
        """By the number of a stream of which an append is ready or under way: those behind it."""
        self._appends = 0
        self._octets = 0
        self._running: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broken: BaseException | None = None

    def commit(self, pending: Pending) -> "asyncio.Future[Verdict]":
        """Queues an append and gives what to await; one that is given up is stored all the same.

        Raises Overloaded, and StoreUnavailable for good once a lane has failed.
        """
        self.require_alive()
        size = pending.octets = octets(pending.append)
        if self._appends >= QUEUE_APPENDS or self._octets + size > QUEUE_OCTETS:
            raise Overloaded
        if self._loop is None or not self._running:
            self._loop = asyncio.get_running_loop()  # which asks the system each time
        verdict: asyncio.Future[Verdict] = self._loop.create_future()
        pending.verdict = verdict
        stream = pending.append.stream.int
        if stream not in self._behind:
            self._behind[stream] = None
            self._ready.append(pending)
        elif (queue := self._behind[stream]) is not None:
            queue.append(pending)
        else:
            self._behind[stream] = deque((pending,))
        self._appends += 1
        self._octets += size
        if not self._running or (self._under_way and len(self._ready) == LANE_APPENDS):
            self._open_lane()
        return verdict

    def require_alive(self) -> None:
        """Raises StoreUnavailable once a lane has failed: nothing will be stored any more."""
        if self._broken is not None:
            raise StoreUnavailable("the committer of this process has failed")

    @property
    def waiting(self) -> int:
        """How many appends are queued."""
        return self._appends

    async def finish(self) -> None:
        """Waits until nothing is queued."""
        while self._running:
            await asyncio.wait(self._running)

    def _open_lane(self) -> None:
        if self._loop and len(self._running) < self._lanes and self._broken is None:
            self._running.add(self._loop.create_task(self._run(), name="committer"))

    async def _run(self) -> None:
        batch: Sequence[Pending] = ()
        alone = 1  # whoever comes by himself goes at once
        try:
            while self._ready and self._broken is None:
                await self._gather(alone)
                if not (batch := self._take()):
                    continue  # another lane took them
                if len(self._ready) >= LANE_APPENDS:
                    self._open_lane()
                self._under_way += 1
                try:
                    await self._commit(batch)
                finally:
                    self._under_way -= 1
                self._follow(batch)
                batch, alone = (), 0  # whoever was answered may have more to write
        except Exception as error:
            log.exception("committer_failed")
            self._broken = error
            self._fail(batch)
        except asyncio.CancelledError:  # the loop ends
            self._fail(batch)
            raise
        finally:
            if task := asyncio.current_task(self._loop):
                self._running.discard(task)

    async def _gather(self, alone: int) -> None:
        """Leaves a batch open while the loop is bringing more, if it holds more than `alone`. No
        time is waited for: a loop that has nothing else to do comes round at once."""
        come, quiet = len(self._ready), 0
        while come > alone and quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = 0 if len(self._ready) > come else quiet + 1
            come = len(self._ready)
            if come >= GATHERED_APPENDS:
                return

    def _take(self) -> list[Pending]:
        """Those who came first, as many as a batch may hold; idle lanes are left their share."""
        idle = self._lanes - self._under_way
        most = min(BATCH_APPENDS, max(LANE_APPENDS, -(-len(self._ready) // idle)))
        batch: list[Pending] = []
        size = 0
        while self._ready and len(batch) < most and size < BATCH_OCTETS:
            pending = self._ready.popleft()
            batch.append(pending)
            size += pending.octets
        self._appends -= len(batch)
        self._octets -= size
        return batch

    def _follow(self, batch: Sequence[Pending]) -> None:
        """The next of each stream of a batch that is decided are ready."""
        for pending in batch:
            stream = pending.append.stream.int
            if queue := self._behind.pop(stream, None):
                self._ready.append(queue.popleft())
                self._behind[stream] = queue

    async def _commit(self, batch: Sequence[Pending]) -> None:
        """Stores a batch; where it fails as a whole, each append by itself, so that one that
        cannot be stored fails alone."""
        try:
            verdicts = await self._write(batch)
        except Exception as error:  # noqa: BLE001 - it goes to whoever waits
            if len(batch) > 1 and (
                isinstance(error, Locked) or not isinstance(error, StoreUnavailable)
            ):
                for pending in batch:
                    await self._commit([pending])
                return
            metrics.APPENDS.of("failed").inc(len(batch))
            for pending in batch:
                if pending.verdict is not None and not pending.verdict.done():
                    pending.verdict.set_exception(error)
            return
        metrics.BATCHES.of().observe(len(batch))
        for verdict, count in Counter(verdicts).items():
            metrics.APPENDS.of(OUTCOMES[verdict]).inc(count)
        for pending, verdict in zip(batch, verdicts, strict=True):
            if pending.verdict is not None and not pending.verdict.done():
                pending.verdict.set_result(verdict)

    def _fail(self, batch: Sequence[Pending]) -> None:
        """Leaves nobody waiting for an answer that will not come."""
        waiting = (one for queue in self._behind.values() for one in queue or ())
        left = [*batch, *self._ready, *waiting]
        self._ready.clear()
        self._behind.clear()
        for pending in left:
            if pending.verdict is not None and not pending.verdict.done():
                pending.verdict.set_exception(StoreUnavailable("the committer has failed"))
