"""Whatever is done to it, in whatever order, a store does what the model says."""

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from services.kernel.envelope import Append, Claimed, Due, Plan
from services.runtime.database import open_engine
from services.runtime.migrate import migrate_engine
from services.runtime.store import migrations
from services.runtime.store.api import Conflict, Late, RequestReused
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.runtime.appends import body, events, numbered
from tests.runtime.conftest import KEYS, Clock
from tests.runtime.model import Model
from tests.runtime.stored import verify_stream

T = TypeVar("T")

LEASE = 50
STREAMS = [numbered(number) for number in range(3)]
streams = st.sampled_from(STREAMS)
words = st.sampled_from(["a", "b"])
plans = st.builds(
    Plan,
    due=st.lists(st.builds(Due, words, words, st.integers(0, 80)), max_size=2).map(tuple),
    done=st.lists(st.tuples(words, words), max_size=2).map(tuple),
    tags=st.lists(words, max_size=2).map(tuple),
    ended=st.sampled_from([False, False, False, True]),
)


class StoreMachine(RuleBasedStateMachine):
    """A store and the model, taken through the same steps."""

    urls: ClassVar[Iterator[str]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.clock = Clock()
        self.claims: list[Claimed] = []
        self.engine = open_engine(next(self.urls))
        self.run(migrate_engine(self.engine, [migrations.FOLDER]))
        self.store = SqlStore(self.engine, KEYS, clock=self.clock)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the machine's loop."""
        return self.runner.run(work)

    @rule(
        stream=streams,
        behind=st.sampled_from([0, 0, 0, 0, 1, -1]),
        names=st.lists(st.sampled_from(["Dealt", "BidMade"]), min_size=1, max_size=3),
        secret=st.none() | st.binary(max_size=3),
        request=st.none() | st.integers(0, 5),
        said=words,
        plan=plans,
        grace=st.none() | st.sampled_from([-1, 0, 5]),
    )
    def append(
        self,
        stream: UUID,
        behind: int,
        names: list[str],
        secret: bytes | None,
        request: int | None,
        said: str,
        plan: Plan,
        grace: int | None,
    ) -> None:
        """Appends, in order or not, in time or not, once or again."""
        kept = self.model.streams.get(stream)
        version = len(kept.events) if kept else 0
        asked = Append(
            stream=stream,
            expected=max(0, version - behind),
            events=events(*names, secret=secret),
            request_id=f"at {version}" if request is None else f"request {request}",
            body_hash=body(said),
            metadata=said.encode(),
            plan=plan,
            not_after=None if grace is None else self.clock.now + grace,
        )
        try:
            first, last = self.model.append(asked, self.clock.now)
        except (Conflict, Late, RequestReused) as refusal:
            with pytest.raises(type(refusal)):
                self.run(self.store.append(asked))
            return
        outcome = self.run(self.store.append(asked))
        assert [row.version for row in outcome.events] == list(range(first, last + 1))
        assert outcome.repeated == (last <= version)
        assert (
            outcome.events
            == tuple(self.run(self.store.read(stream, first - 1)))[: last - first + 1]
        )

    @rule(ms=st.integers(-5, LEASE + 10))
    def turn(self, ms: int) -> None:
        """Time passes, or the clock is set back a little."""
        self.clock.turn(ms)

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        """Takes what is due, the longest waiting first."""
        ready = self.model.ready(self.clock.now)
        claimed = self.run(self.store.claim("w", limit, LEASE))
        assert len(claimed) == min(limit, len(ready))
        moments = sorted(work.ready_at for work in ready.values())
        taken = []
        for row in claimed:
            work = ready.pop((row.stream, row.kind, row.key))
            taken.append(work.ready_at)
            work.attempts += 1
            work.ready_at = self.clock.now + LEASE * 1_000
            assert (row.version, row.due_at, row.attempts) == (
                *(work.version, work.due_at, work.attempts),
            )
        assert sorted(taken) == moments[: len(taken)]
        self.claims += claimed

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 99), after=st.integers(0, 30))
    def postpone(self, pick: int, after: int) -> None:
        """Gives back a claim, which may be over."""
        claimed = self.claims[pick % len(self.claims)]
        if work := self.model.held(claimed):
            work.ready_at = self.clock.now + after * 1_000
        self.run(self.store.postpone(claimed, after))

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 99))
    def drop(self, pick: int) -> None:
        """Drops a claim, which may be over."""
        claimed = self.claims[pick % len(self.claims)]
        if self.model.held(claimed):
            del self.model.streams[claimed.stream].due[claimed.kind, claimed.key]
        self.run(self.store.drop(claimed))

    @invariant()
    def agrees(self) -> None:
        """Every way to look at the store shows what the model holds, and the chain is whole."""
        self.run(self.compare())

    async def compare(self) -> None:
        """Compares store and model."""
        heads = {head.stream: head async for head in self.store.streams()}
        assert list(heads) == sorted(self.model.streams)
        for stream, kept in self.model.streams.items():
            rows = await self.store.read(stream)
            told = [(row.name, row.payload, row.secret, row.recorded_at) for row in rows]
            assert told == kept.events
            assert (heads[stream].version, heads[stream].ended) == (len(kept.events), kept.ended)
            assert await verify_stream(self.store, stream) is None
        for tag in ("a", "b"):
            tagged = [head.stream for head in await self.store.tagged(tag)]
            has = [stream for stream, kept in self.model.streams.items() if tag in kept.tags]
            assert tagged == sorted(has, reverse=True)
        moments = [w.ready_at for kept in self.model.streams.values() for w in kept.due.values()]
        until = max(0, -(-(min(moments) - self.clock.now) // 1_000)) if moments else None
        soon = await self.store.next_due_ms()
        assert (soon is None) == (until is None)
        assert (soon or 0) <= (until or 0), "never later than the first is due"

    def teardown(self) -> None:
        """Closes the store."""
        self.run(self.store.close())
        self.runner.close()


def check(urls: Iterator[str], examples: int) -> None:
    """Runs the machine, each time on the next database."""
    run_state_machine_as_test(
        type("Machine", (StoreMachine,), {"urls": urls}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_sqlite_does_what_the_model_says() -> None:
    """On SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        check((f"sqlite+aiosqlite:///{folder}/{n}.db" for n in range(100_000)), examples=12)


def test_postgresql_does_what_the_model_says(emptied_postgres: str) -> None:
    """On PostgreSQL."""

    def emptied() -> Iterator[str]:
        while True:
            postgres.execute(
                emptied_postgres.replace("+asyncpg", ""),
                "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
            )
            yield emptied_postgres

    check(emptied(), examples=8)
