"""Months of streams, and what is told of one that has left the database."""

import time
from datetime import UTC, datetime
from random import Random

import asyncpg
import pytest
from sqlalchemy import insert

from services.kernel.errors import Kind, Refused
from services.kernel.ids import uuid7
from services.runtime.store import migrations
from services.runtime.store.api import Archived
from services.runtime.store.months import (
    YOUNG_MS,
    ArchivedMonth,
    Month,
    archived,
    is_young,
    month_at,
    month_of,
    parse_month,
)
from services.runtime.store.schema import archived_months
from services.runtime.store.sql import SqlStore
from services.runtime.streams import refusals
from tests import postgres
from tests.runtime.appends import append, numbered
from tests.runtime.owner import as_owner

LEFT = ArchivedMonth(month_of(numbered(0)), 1_700_000_000_000_000, bytes(32), bytes(64))


def test_a_month_is_a_range_of_ids() -> None:
    """Every moment lies in the month whose range has the ids of that moment, and in no other."""
    rng = Random(3)
    for _ in range(500):
        ms = rng.randrange(0, 4_102_444_800_000)
        stream = uuid7(ms, rng.randbytes(10))
        month, at = month_of(stream), datetime.fromtimestamp(ms / 1_000, UTC)
        assert (month.year, month.number) == (at.year, at.month)
        assert month.first <= stream < month.next.first
        assert month == month_at(ms)
        assert parse_month(str(month)) == month
        assert month.later(rng.randrange(1, 40)) > month > month.later(-rng.randrange(1, 40))
    for text in ("2026-13", "2026-9", "202609", "", "9999-12", "1969-12", "2026-09-01"):
        assert parse_month(text) is None


async def test_months_are_those_of_the_partitions(postgres_url: str) -> None:
    """The database counts them by a function of its own."""
    await postgres.migrated(postgres_url, [migrations.FOLDER])
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    for month in (Month(1970, 1), Month(2024, 2), Month(2026, 12), Month(9998, 12)):
        moment = datetime(month.year, month.number, 1)  # noqa: DTZ001 - UTC by agreement
        assert await connection.fetchval("SELECT streams_from($1)", moment) == month.first
    await connection.close()


def test_a_stream_is_young_for_less_than_any_month() -> None:
    """So long nobody looks whether its month has left."""
    now = time.time_ns() // 1_000_000
    assert is_young(uuid7(now, bytes(10)))
    assert is_young(uuid7(now - YOUNG_MS + 60_000, bytes(10)))
    assert not is_young(uuid7(now - YOUNG_MS - 1, bytes(10)))


async def test_a_month_that_left_is_named(store: SqlStore) -> None:
    """To whoever reads a stream of it that is not here, and to nobody else: not of another month,
    nor of a stream that is here."""
    await store.append(append(0, stream=numbered(1)))
    gone, kept, other = numbered(2), numbered(1), uuid7(1_000, bytes(10))
    assert await store.read(gone) == []
    async with as_owner(store) as connection:
        row = {
            "month": str(LEFT.month),
            "archived_at": LEFT.archived_at,
            "manifest": LEFT.manifest,
            "signature": LEFT.signature,
        }
        await connection.execute(insert(archived_months), row)
        assert await archived(connection) == {LEFT.month: LEFT}
    with pytest.raises(Archived) as caught:
        await store.read(gone)
    assert (caught.value.month, caught.value.archived_at) == (str(LEFT.month), LEFT.archived_at)
    assert len(await store.read(kept)) == 1
    assert await store.read(other) == []
    with pytest.raises(Refused) as refused, refusals():
        await store.read(gone)
    assert (refused.value.kind, refused.value.reason) == (Kind.NOT_FOUND, "GAME_ARCHIVED")
    assert refused.value.facts == {
        "month": str(LEFT.month),
        "archived_time": "2023-11-14T22:13:20Z",
    }
