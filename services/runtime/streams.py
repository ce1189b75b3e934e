"""The one write path: load, fold, decide, append; and the cache of folded states.

`Streams` joins a store with the decider of one kind of stream. Every process may handle every
stream; the store decides who was first, and whoever was not loads the rest and decides again.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from engines.records import maker
from services.kernel.decider import Decider, fold
from services.kernel.envelope import Append, Appended, Plan, Recorded, appends
from services.kernel.errors import Kind, Refused, invalid, precondition, unavailable
from services.runtime import status, traces
from services.runtime.store.api import (
    Archived,
    Conflict,
    Damaged,
    Late,
    Overloaded,
    RequestReused,
    Store,
    StoreUnavailable,
)
from services.runtime.store.chain import GENESIS, verify

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")

ROWS_AT_ONCE = 50
"""How many rows are folded in one go; others are served before the next."""

log = structlog.get_logger(__name__)

_append = maker(Append)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """A folded state with the version, chain hash and time of the event it ends with.

    Version 0 is a stream that does not exist: the decider's initial state.
    """

    state: S
    version: int
    hash: bytes
    recorded_at: int


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    """What a command led to: its stored events, and the state right after them."""

    state: S
    appended: Appended


@dataclass(frozen=True, slots=True)
class Proposal(Generic[S]):
    """An append to be made, and the state it leads to should it be recorded `at` (microseconds)."""

    before: Loaded[S]
    append: Append
    after: S
    at: int


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """One append: what it follows, its rows, what it led to; its plan (empty where it was read)."""

    before: Loaded[S]
    rows: tuple[Recorded, ...]
    after: Loaded[S]
    plan: Plan

    @property
    def stream(self) -> UUID:
        """Whose append it is."""
        return self.rows[0].stream


def ignore(change: Change[Any]) -> None:
    """Nobody wants to know."""


def wall_clock() -> int:
    """This machine's clock, Unix microseconds."""
    return time.time_ns() // 1_000


class Streams(Generic[S, C, E]):
    """The streams of one kind in one store, with up to `cached` folded states in memory.

    `published` is told of every append made here. `attempts` bounds how often one command is
    decided. `clock` (Unix microseconds) only serves the estimate of the database's clock that
    events are folded with before their true time is known.
    """

    def __init__(
        self,
        store: Store,
        decider: Decider[S, C, E],
        *,
        published: Callable[[Change[S]], None] = ignore,
        cached: int = 1_000,
        attempts: int = 16,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._store = store
        self._decider = decider
        self._published = published
        self._cached = cached
        self._attempts = attempts
        self._clock = clock
        self._database_ahead = 0
        self._states: OrderedDict[UUID, Loaded[S]] = OrderedDict()
        self._committing: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    async def load(self, stream: UUID, known: int | None = None) -> Loaded[S]:
        """The stream's state: as the database has it now, or any not older than `known`.

        Raises Refused: UNAVAILABLE when the database is gone or knows less than the caller,
        LOG_DAMAGED when the stored events are not what was stored.
        """
        if known is not None and (kept := self.kept(stream, known)):
            return kept
        with refusals():
            loaded = await self._catch_up(stream, self._states.get(stream))
            if known is not None and loaded.version < known:
                loaded = await self._as_promised(stream, loaded)
            if known is not None and loaded.version < known:
                raise unavailable("STATE_BEHIND", "The database does not know that version yet.")
            return loaded

    def kept(self, stream: UUID, known: int = 0) -> Loaded[S] | None:
        """The stream's state at a version not below `known`, if it is in memory."""
        kept = self._states.get(stream)
        if kept is None or kept.version < known:
            return None
        self._states.move_to_end(stream)
        return kept

    async def transact(
        self,
        stream: UUID,
        command: C,
        *,
        request_id: str,
        body_hash: bytes,
        metadata: bytes = b"",
        deadline: Callable[[S], int | None] | None = None,
    ) -> Outcome[S]:
        """Carries out a command once, however often it is sent.

        The same request id returns the first outcome without deciding again; a refused command
        leaves no record. `deadline(state)` is the database time (microseconds) after which the
        command is late. Raises what `decide` refuses, and Refused: REQUEST_ID_REUSED (other body),
        DEADLINE_PASSED, CONTENDED (others were faster every time), UNAVAILABLE (the outcome is
        unknown until the same request is sent again), LOG_DAMAGED.
        """
        async with self._turn(stream):
            with refusals():
                loaded = self._states.get(stream)
                fresh = loaded is None
                if loaded is None:
                    loaded = await self._catch_up(stream, None)
                for _ in range(self._attempts):
                    try:
                        with traces.step("decide"):
                            proposal = self._decide(
                                stream, loaded, command, request_id, body_hash, metadata, deadline
                            )
                    except Refused:
                        newer = loaded if fresh else await self._catch_up(stream, loaded)
                        fresh = True
                        if newer.version > loaded.version:
                            loaded = newer
                            continue
                        earlier = await self._store.find_request(stream, request_id)
                        if earlier is None:
                            raise
                        return await self._first(loaded, earlier, body_hash)
                    try:
                        with traces.step("append"):
                            appended = await self._commit(proposal)
                    except Conflict:
                        loaded, fresh = await self._overtaken(stream, loaded), True
                        continue
                    if isinstance(appended, Outcome):
                        return appended
                    return await self._first(loaded, appended, body_hash)
        raise Refused(
            Kind.CONFLICT,
            "CONTENDED",
            "Others changed this at the same time, again and again.",
            retry_after_ms=100,
        )

    def _decide(
        self,
        stream: UUID,
        loaded: Loaded[S],
        command: C,
        request_id: str,
        body_hash: bytes,
        metadata: bytes,
        deadline: Callable[[S], int | None] | None,
    ) -> Proposal[S]:
        decider = self._decider
        new = decider.decide(loaded.state, command)
        state = loaded.state
        # later than any moment in the state: so the true one can take its place
        at = max(loaded.recorded_at + 1, self._clock() + self._database_ahead)
        for event in new:
            state = decider.evolve(state, event, at)
        append: Append = _append(
            stream,
            loaded.version,
            tuple([decider.encode(event) for event in new]),
            request_id,
            body_hash,
            metadata,
            decider.plan(loaded.state, state),
            None if deadline is None else deadline(loaded.state),
            loaded.hash,
        )
        return Proposal(loaded, append, state, at)

    async def _commit(self, proposal: Proposal[S]) -> Outcome[S] | Appended:
        """Appends and tells whom it concerns; events alone where the request had been stored.

        A caller that goes away meanwhile leaves a begun append to be stored; the same append again
        finds it, and tells.
        """
        try:
            appended = await self._append(proposal.append)
        except asyncio.CancelledError:
            self._begin(self._tell(proposal))
            raise
        if appended.repeated:
            return appended
        return Outcome(self._appended(proposal, appended), appended)

    async def _tell(self, proposal: Proposal[S]) -> None:
        appended = await self._append(proposal.append)
        if appended.events[0].version == proposal.before.version + 1:
            self._appended(proposal, appended)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._committing.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._committing.discard(task)
        if not task.cancelled():
            task.exception()  # seen, so that an abandoned failure is no warning

    async def _append(self, append: Append) -> Appended:
        """Appends; where the outcome is unknown, the same append again finds it out."""
        try:
            return await self._store.append(append)
        except StoreUnavailable:
            return await self._store.append(append)

    def _appended(self, proposal: Proposal[S], appended: Appended) -> S:
        """The state after an append made here, as a replay of what is stored would give it."""
        last = appended.events[-1]
        self._database_ahead = last.recorded_at - self._clock()
        restamp = self._decider.restamp
        if restamp is None:
            state = fold(self._decider, proposal.before.state, appended.events)
        else:
            before = proposal.before.state
            state = restamp(before, proposal.after, proposal.at, last.recorded_at)
        after = Loaded(state, last.version, last.hash, last.recorded_at)
        self._keep(last.stream, after)
        self._published(Change(proposal.before, appended.events, after, proposal.append.plan))
        return state

    async def _first(self, loaded: Loaded[S], first: Appended, body_hash: bytes) -> Outcome[S]:
        """The outcome of an earlier request: its events and the state as it was after them.

        An append that follows what was known here until now, because its answer was lost, is told
        as one made here is.
        """
        if first.events[0].body_hash != body_hash:
            raise RequestReused
        stream = first.events[0].stream
        if verify(first.events, previous=loaded.hash, after=loaded.version) is None:
            after = self._after(loaded, first.events)
            self._keep(stream, after)
            self._published(Change(loaded, first.events, after, Plan()))
            return Outcome(after.state, first)
        kept = self._states.get(stream)
        if kept is not None and kept.version == first.version:
            return Outcome(kept.state, first)
        rows = await self._store.read(stream, limit=first.version)
        return Outcome(fold(self._decider, self._decider.initial, rows), first)

    async def _overtaken(self, stream: UUID, loaded: Loaded[S]) -> Loaded[S]:
        """The state after others' appends; raises Damaged if there are none after all."""
        newer = await self._catch_up(stream, loaded)
        if newer.version == loaded.version:
            self._states.pop(stream, None)
            newer = await self._catch_up(stream, None)
            if newer.version == loaded.version and newer.hash == loaded.hash:
                raise Damaged(stream, loaded.version, "the head is not that of the last event")
        return newer

    async def _as_promised(self, stream: UUID, loaded: Loaded[S]) -> Loaded[S]:
        """The state with all that the head says there is; raises Damaged where events lack.

        The head is read before the events, so an append in between is not taken for a lack.
        """
        head = await self._store.head(stream)
        newer = await self._catch_up(stream, loaded if loaded.version else None)
        if head is not None and newer.version < head.version:
            raise Damaged(stream, newer.version + 1, "the event is missing")
        return newer

    async def since(self, known: Mapping[UUID, Loaded[S]]) -> dict[UUID, list[Change[S]]]:
        """The appends made to streams after what is known of them until now, by whomever.

        Raises Refused as `load` does, for all where one is at fault.
        """
        found = {}
        with refusals():
            rows = await self._store.read_each({s: loaded.version for s, loaded in known.items()})
            for stream, loaded in known.items():
                changes = self.changes(loaded, chained(stream, loaded, rows[stream]))
                if changes:
                    self._keep(stream, changes[-1].after)
                found[stream] = changes
        return found

    def changes(self, known: Loaded[S], rows: Sequence[Recorded]) -> list[Change[S]]:
        """The appends whose rows, all of them, follow `known`."""
        changes: list[Change[S]] = []
        for group in appends(rows):
            before = changes[-1].after if changes else known
            changes.append(Change(before, group, self._after(before, group), Plan()))
        return changes

    @property
    def nothing(self) -> Loaded[S]:
        """A stream that does not exist."""
        return Loaded(self._decider.initial, 0, GENESIS, 0)

    async def _catch_up(self, stream: UUID, loaded: Loaded[S] | None) -> Loaded[S]:
        """The state with all that is stored by now."""
        known = loaded or self.nothing
        try:
            rows = await self._store.read(stream, after=known.version)
            for start in range(0, len(rows), ROWS_AT_ONCE):
                if start:
                    await asyncio.sleep(0)
                some = chained(stream, known, rows[start : start + ROWS_AT_ONCE])
                known = self._after(known, some)
        except Damaged:
            if loaded is None or not loaded.version:
                raise
            # what is remembered may be what a database lost when it failed over
            self._states.pop(stream, None)
            return await self._catch_up(stream, None)
        if known.version:
            self._keep(stream, known)
        return known

    def _after(self, known: Loaded[S], rows: Sequence[Recorded]) -> Loaded[S]:
        last = rows[-1]
        state = fold(self._decider, known.state, rows)
        return Loaded(state, last.version, last.hash, last.recorded_at)

    def _keep(self, stream: UUID, loaded: Loaded[S]) -> None:
        kept = self._states.get(stream)
        if kept is None or kept.version < loaded.version:
            self._states[stream] = loaded
        self._states.move_to_end(stream)
        if len(self._states) > self._cached:
            self._states.popitem(last=False)

    def _turn(self, stream: UUID) -> asyncio.Lock:
        """One command of a stream at a time in this process: others would only conflict."""
        turn = self._turns.get(stream)
        if turn is None:
            turn = self._turns[stream] = asyncio.Lock()
        return turn


def chained(stream: UUID, known: Loaded[Any], rows: list[Recorded]) -> list[Recorded]:
    """The rows, which follow `known`; raises Damaged where their chain does not."""
    if fault := verify(rows, previous=known.hash, after=known.version):
        raise Damaged(stream, fault.version, fault.problem)
    return rows


class refusals:  # noqa: N801 - reads as what it does
    """Turns what the store raises into what a caller is told."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and (refused := _refused(error)):
            raise refused from error


def _refused(error: Exception) -> Refused | None:
    """What a caller is told of an error of the store; None where it is none."""
    match error:
        case Archived():
            return status.archived(error)
        case StoreUnavailable():
            log.warning("store_unavailable", problem=str(error))
            return unavailable("STORE_UNAVAILABLE", "The database does not answer.")
        case Overloaded():
            return Refused(
                Kind.EXHAUSTED,
                "OVERLOADED",
                "More is being written than the database takes in.",
                retry_after_ms=200,
            )
        case RequestReused():
            return invalid("request_id", "was used before for another request", "REQUEST_ID_REUSED")
        case Late():
            return precondition("DEADLINE_PASSED", "The time for this is over.")
        case Damaged():
            log.error(
                "log_damaged",
                stream=str(error.stream),
                version=error.version,
                problem=error.problem,
                exc_info=error,
            )
            return status.damaged(error)
        case _:
            return None
