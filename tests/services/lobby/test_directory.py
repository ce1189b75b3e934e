"""What lists and watchers are told of tables, against what the tables' own logs say."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.ids import uuid7
from services.lobby.commands import Close, Open, TakeSeat
from services.lobby.directory import OVERLAP_US, SWEEP_S, Directory
from services.lobby.filters import Wanted, fits
from services.lobby.listing import list_tables
from services.lobby.model import Phase, Table, Variant
from services.lobby.tables import DECIDER
from services.lobby.watch import FOLLOWED_MAX, SHOWN_MAX, Told
from services.runtime.store.sql import SqlStore
from tests.services.lobby.replicas import Replica, replicas
from tests.services.lobby.tables import durak_rules, game, player
from tests.services.lobby.test_table_laws import PLAYERS, any_command, any_rules

ADDED = lobby_pb2.TABLE_CHANGE_ADDED
REMOVED = lobby_pb2.TABLE_CHANGE_REMOVED


def any_wish(chance: random.Random, viewer: UUID | None) -> Wanted:
    """What somebody might want to be shown."""
    low = chance.choice([0, 0, 10])
    return Wanted(
        viewer=viewer,
        variant=chance.choice([None, *Variant]),
        mine=viewer is not None and chance.random() < 0.3,
        invited=viewer is not None and chance.random() < 0.3,
        free_seats=chance.choice([0, 0, 1, 2]),
        fee_min=low,
        fee_max=max(low, chance.choice([10**12, 10, 0])),
        chips=chance.choice([None, None, 199, 200]),
    )


async def folded(store: SqlStore) -> dict[UUID, Table]:
    """Every table, from its log alone."""
    tables = {}
    async for head in store.streams():
        table = Table()
        for row in await store.read(head.stream):
            table = DECIDER.evolve(table, DECIDER.decode(row), row.recorded_at)
        tables[head.stream] = table
    return tables


def shown(tables: dict[UUID, Table], asked: Wanted) -> list[tuple[UUID, int]]:
    """The tables that fit, newest first, with their versions."""
    order = sorted(tables.items(), reverse=True)
    return [(table_id, table.version) for table_id, table in order if fits(table, asked)]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_lists_and_watchers_are_told_what_the_logs_say(tmp_path: Path, database: str) -> None:
    """Of all filters and both replicas, whoever of them did what; page by page, and change by
    change for watchers who look now and then."""
    chance = random.Random(7)
    ids = [uuid7(1_700_000_000_000 + n, bytes(10)) for n in range(12)]
    async with replicas(tmp_path, database) as both:
        for number, table_id in enumerate(ids):
            rules = any_rules(chance, number)
            opening = Open(player(number % PLAYERS), rules, 0, game(number))
            await both[number % 2].do(table_id, opening, number)
        viewers = [None, *(player(n) for n in range(PLAYERS))]
        watchers = []
        for each in (*both, *both):
            await each.directory.fresh()
            told = Told(each.directory, any_wish(chance, chance.choice(viewers)))
            watchers.append((told, dict(_seen(told.all()))))
        for number in range(100, 240):
            table_id, actor = chance.choice(ids), chance.choice(both)
            table = (await actor.streams.load(table_id)).state
            await actor.do(table_id, any_command(chance, table, number), number)
            if number % 20:
                continue
            tables = await folded(actor.store)
            for each in both:
                await each.directory.fresh()
            for each in both:
                asked = any_wish(chance, chance.choice(viewers))
                assert await _listed(each, asked) == shown(tables, asked)
            for told, known in watchers:
                _told(told, known)
                assert sorted(known.items(), reverse=True) == shown(tables, told._asked)


def _seen(told: Any) -> Iterator[tuple[UUID, int]]:
    for change, table_id, table in told:
        assert change == ADDED
        yield table_id, table.version


def _told(told: Told, known: dict[UUID, int]) -> None:
    """Take news in as a client does, who holds the server to what each change means."""
    for change, table_id, table in told.news():
        if change == REMOVED:
            del known[table_id]
        else:
            assert (table_id in known) == (change != ADDED)
            assert table is not None
            known[table_id] = table.version


async def _listed(each: Replica, asked: Wanted) -> list[tuple[UUID, int]]:
    request = lobby_pb2.ListTablesRequest(
        variant=int(asked.variant or 0),  # type: ignore[arg-type]
        mine=asked.mine,
        invited=asked.invited,
        free_seats=asked.free_seats,
        entry_fee_min=asked.fee_min,
        entry_fee_max=asked.fee_max,
        chips=asked.chips or 0,
        page_size=2,
    )
    found = []
    while True:
        page = await list_tables(
            cast(Any, Showing()),
            each.directory,
            bytes(32),
            request,
            asked.viewer,
        )
        found += [(UUID(table.table_id), table.version) for table in page.tables]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


class Showing:
    """Shows no more of a table than which it is."""

    async def show(self, table_id: UUID, table: Table, viewer: UUID | None) -> lobby_pb2.Table:
        """Its id and version."""
        return lobby_pb2.Table(table_id=str(table_id), version=table.version)


async def test_a_look_reads_what_has_changed(tmp_path: Path) -> None:
    """Of a hundred tables another replica changed one: one is read, and none when none was."""
    ids = [uuid7(1_700_000_000_000 + n, bytes(10)) for n in range(100)]
    async with replicas(tmp_path, "sqlite") as (one, two):
        for number, table_id in enumerate(ids):
            await one.do(table_id, Open(player(0), durak_rules(3), 0, game(0)), number)
        await two.directory.fresh()
        assert sum(two.reads) == 100
        two.reads.clear()
        await two.directory.fresh()
        assert two.reads == []
        await one.do(ids[5], TakeSeat(player(1), None, 0, "", game(1)), 500)
        await one.directory.fresh()
        assert one.reads == []
        await two.directory.fresh()
        assert two.reads == [1]


async def test_what_was_stored_long_after_its_time_is_found_by_a_sweep(tmp_path: Path) -> None:
    """A table that a look by time passes over, and one that closed unnoticed."""
    late, closing = (uuid7(1_700_000_000_000 + n, bytes(10)) for n in range(2))
    async with replicas(tmp_path, "sqlite") as (one, two):
        await one.do(closing, Open(player(0), durak_rules(3), 0, game(0)), 1)
        await two.directory.fresh()
        two.directory._mark += 3_600_000_000 + OVERLAP_US
        await one.do(late, Open(player(1), durak_rules(3), 0, game(0)), 2)
        await one.do(closing, Close(None), 3)
        await two.directory.fresh()
        assert [t for t, _ in two.directory.newest()] == [closing]
        two.directory._swept -= SWEEP_S
        await two.directory.fresh()
        assert [t for t, _ in two.directory.newest()] == [late]


async def test_a_table_that_the_database_lost_is_shown_no_more(tmp_path: Path) -> None:
    """After it failed over to a copy of a moment before."""
    lost = uuid7(1_700_000_000_000, bytes(10))
    async with replicas(tmp_path, "sqlite") as (one, _):
        one.directory.published(lost, _table(3))
        assert [t for t, _ in one.directory.newest()] == [lost]
        await one.directory.fresh()
        assert [t for t, _ in one.directory.newest()] == []


def test_a_stream_of_many_follows_so_many_and_no_more() -> None:
    """It begins with the newest, and lets the oldest go, saying so."""
    directory = Directory(None, None, None)  # type: ignore[arg-type]
    ids = [uuid7(1_700_000_000_000 + n, bytes(10)) for n in range(FOLLOWED_MAX + 50)]
    tables = {table_id: _table(1) for table_id in ids}
    for table_id in ids[:300]:
        directory.published(table_id, tables[table_id])
    told = Told(directory, Wanted(None, None, False, False, 0, 0, 10**12, None))
    known = dict(_seen(told.all()))
    assert list(known) == ids[299 : 299 - SHOWN_MAX : -1]
    for table_id in ids[300:]:
        directory.published(table_id, tables[table_id])
    for table_id in ids[:100]:
        directory.published(table_id, _table(2))
    _told(told, known)
    assert sorted(known) == ids[-FOLLOWED_MAX:]


def test_who_was_away_for_long_is_told_what_closed() -> None:
    """Also when that is not remembered any more."""
    directory = Directory(None, None, None)  # type: ignore[arg-type]
    ids = [uuid7(1_700_000_000_000 + n, bytes(10)) for n in range(1_100)]
    for table_id in ids[:20]:
        directory.published(table_id, _table(1))
    told = Told(directory, Wanted(None, None, False, False, 0, 0, 10**12, None))
    known = dict(_seen(told.all()))
    for table_id in ids[:10]:
        directory.published(table_id, _table(2, Phase.CLOSED))
    for table_id in ids[20:]:
        directory.published(table_id, _table(1))
        directory.published(table_id, _table(2, Phase.CLOSED))
    assert directory.find(ids[0]) is None
    _told(told, known)
    assert sorted(known) == ids[10:20]


@cache
def _table(version: int, phase: Phase = Phase.WAITING) -> Table:
    return Table(phase=phase, rules=durak_rules(3), seats=(None,) * 3, version=version)
