"""Every deadline comes once, not before its time, whoever asks for it, works on it or dies of it.

Replicas on one database set deadlines, set them anew and do away with them; they take what is due,
and carry it out or are gone before. What each remembers of the due rows it has set (`Mark.due`) may
be older than what another has done since.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from services.kernel.envelope import Appended, Claimed, Due, Plan
from services.runtime.database import SQLITE, close_engine, open_engine
from services.runtime.store.api import Conflict
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.runtime.appends import append, numbered
from tests.runtime.conftest import EMPTYING, KEYS, Clock, empty

T = TypeVar("T")

LEASE_MS = 50
LONG_MS = 10_000
streams = st.integers(0, 2).map(numbered)
replicas = st.sampled_from([0, 0, 0, 0, 0, 1])
"""Mostly the same, so that it knows its streams well when another comes between."""
names = st.tuples(st.sampled_from(["turn", "bot"]), st.sampled_from(["", "1"]))
plans = st.builds(
    Plan,
    due=st.dictionaries(names, st.integers(0, 80), max_size=2).map(
        lambda asked: tuple(Due(kind, key, ms) for (kind, key), ms in asked.items())
    ),
    done=st.lists(names, max_size=2).map(tuple),
)
Deadline = tuple[UUID, str, str, int]
"""Stream, kind, key, and the version that asked for it."""


class DueMachine(RuleBasedStateMachine):
    """Replicas of a store, the deadlines that stand, and those that have come."""

    urls: ClassVar[Iterator[str]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.url = next(self.urls)
        self.stores = [self.opened(), self.opened()]
        self.versions: dict[UUID, int] = {}
        self.standing: dict[tuple[UUID, str, str], tuple[int, int]] = {}
        """The version that asked and the moment, by what names a due row."""
        self.came: list[Deadline] = []
        self.held: list[Claimed] = []

    def opened(self) -> SqlStore:
        """A replica that has just begun."""
        return SqlStore(open_engine(self.url), KEYS, clock=self.clock)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the machine's loop."""
        return self.runner.run(work)

    @rule(by=replicas, stream=streams, plans=st.lists(plans, min_size=1, max_size=4))
    def ask(self, by: int, stream: UUID, plans: list[Plan]) -> None:
        """Appends set deadlines and do away with others."""
        for plan in plans:
            version = self.versions.get(stream, 0)
            asked = append(version, stream=stream, request=f"{version}", plan=plan)
            self.note(stream, plan, self.run(self.stores[by].append(asked)))

    @precondition(lambda self: self.versions)
    @rule(by=replicas, pick=st.integers(0, 99), plan=plans)
    def ask_too_late(self, by: int, pick: int, plan: Plan) -> None:
        """An append that follows an older version does neither."""
        stream = [*self.versions][pick % len(self.versions)]
        asked = append(self.versions[stream] - 1, stream=stream, request="late", plan=plan)
        with pytest.raises(Conflict):
            self.run(self.stores[by].append(asked))

    @rule(by=replicas, plans=st.dictionaries(streams, plans, min_size=2))
    def ask_at_once(self, by: int, plans: dict[UUID, Plan]) -> None:
        """Appends of several streams, which share a batch."""

        async def together() -> list[Appended]:
            asked = (
                append(version, stream=stream, request=f"{version}", plan=plan)
                for stream, plan in plans.items()
                for version in [self.versions.get(stream, 0)]
            )
            return await asyncio.gather(*map(self.stores[by].append, asked))

        for (stream, plan), stored in zip(plans.items(), self.run(together()), strict=True):
            self.note(stream, plan, stored)

    def note(self, stream: UUID, plan: Plan, stored: Appended) -> None:
        """What stands after an append."""
        self.versions[stream] = stored.version
        for name in plan.done:
            self.standing.pop((stream, *name), None)
        for work in plan.due:
            moment = self.clock.now + work.after_ms * 1_000
            self.standing[stream, work.kind, work.key] = (stored.version, moment)

    @rule(ms=st.integers(0, LEASE_MS + 10))
    def turn(self, ms: int) -> None:
        """Time passes."""
        self.clock.turn(ms)

    @rule(by=replicas, limit=st.integers(1, 4))
    def take(self, by: int, limit: int) -> None:
        """A replica takes what is due."""
        claimed = self.run(self.stores[by].claim(f"replica {by}", limit, LEASE_MS))
        for row in claimed:
            asked = self.standing[row.stream, row.kind, row.key]
            assert asked == (row.version, row.due_at), "what is gone or set anew is not due"
            assert row.due_at <= self.clock.now, "not before its time"
        self.held += claimed

    @precondition(lambda self: self.held)
    @rule(by=replicas, pick=st.integers(0, 99), then=plans)
    def carry_out(self, by: int, pick: int, then: Plan) -> None:
        """What was taken is carried out, by whoever it came to; perhaps it has been, or its lease
        is long over. With its outcome it goes, and new deadlines are set."""
        row = self.held.pop(pick % len(self.held))
        name = (row.stream, row.kind, row.key)
        store = self.stores[by]
        if self.standing.get(name, (0, 0))[0] != row.version:
            self.run(store.drop(row))
            return
        plan = Plan(due=then.due, done=(*then.done, (row.kind, row.key)))
        stored = self.run(
            store.append(
                append(
                    self.versions[row.stream],
                    stream=row.stream,
                    request=f"{row.kind} {row.key} {row.version}",
                    plan=plan,
                )
            )
        )
        assert not stored.repeated
        self.note(row.stream, plan, stored)
        self.came.append((*name, row.version))

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), after_ms=st.integers(0, 30))
    def give_back(self, pick: int, after_ms: int) -> None:
        """What could not be done now is put off; nothing happens if it is another's by now."""
        row = self.held.pop(pick % len(self.held))
        self.run(self.stores[0].postpone(row, after_ms))

    @rule(by=st.sampled_from([0, 1, None, None, None, None]))
    def die(self, by: int | None) -> None:
        """A replica is gone with all it knew; one that knows nothing takes its place."""
        if by is None:
            return
        self.run(close_engine(self.stores[by]._engine))
        self.stores[by] = self.opened()

    def teardown(self) -> None:
        """In the end whatever still stands comes, and nothing else."""
        try:
            self.run(self.come_to_its_end())
        finally:
            for store in self.stores:
                self.run(store.close())
            self.runner.close()

    async def come_to_its_end(self) -> None:
        """Takes all that is left and looks at what has come."""
        left = {(*name, version) for name, (version, _) in self.standing.items()}
        self.clock.turn(LONG_MS)
        while claimed := await self.stores[0].claim("the last", 100, LEASE_MS):
            for row in claimed:
                self.came.append((row.stream, row.kind, row.key, row.version))
                await self.stores[0].drop(row)
        assert await self.stores[0].next_due_ms() is None
        assert len({*self.came}) == len(self.came), "none comes twice"
        assert {*self.came[len(self.came) - len(left) :]} == left, "none is lost"


def check(urls: Iterator[str], examples: int) -> None:
    """Runs the machine, each time on the next database."""
    run_state_machine_as_test(
        type("Machine", (DueMachine,), {"urls": urls}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_deadlines_come_once_on_sqlite(migrated_file: Path) -> None:
    """On SQLite."""
    with tempfile.TemporaryDirectory() as folder:

        def copies() -> Iterator[str]:
            number = 0
            while True:
                file = shutil.copy(migrated_file, f"{folder}/{number}.db")
                yield f"{SQLITE}:///{file}"
                number += 1

        check(copies(), examples=15)


def test_deadlines_come_once_on_postgresql(migrated_postgres: str) -> None:
    """On PostgreSQL."""

    def emptied() -> Iterator[str]:
        while True:
            empty(migrated_postgres, EMPTYING)
            yield postgres.as_service(migrated_postgres)

    check(emptied(), examples=15)
