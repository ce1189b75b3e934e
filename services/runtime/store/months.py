"""Months of streams: what begins in one lies in one partition, and can leave the database with it.

A stream's id is a UUIDv7, whose first 48 bits are the milliseconds of its making; so a month is a
range of ids. What has left stands in `archived_months`, which only the tables' owner writes.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.kernel.envelope import Head
from services.runtime.store.schema import archived_months

YOUNG_MS = 27 * 86_400_000
"""A month leaves once another has passed after it: no stream as young as this is archived, by any
clock that is nearly right."""
YEARS = (1970, 9998)
"""The first and the last year whose months are named."""
TIME_BITS = 80
"""What stands behind the milliseconds of an id."""


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A month of UTC: the year, and the number from 1."""

    year: int
    number: int

    def __str__(self) -> str:
        return f"{self.year}-{self.number:02}"

    @property
    def suffix(self) -> str:
        """What its partitions' names end in."""
        return f"{self.year}_{self.number:02}"

    @property
    def next(self) -> "Month":
        """The month after it."""
        return self.later(1)

    def later(self, months: int) -> "Month":
        """The month so many months after it, before it where the number is negative."""
        year, number = divmod(self.year * 12 + self.number - 1 + months, 12)
        return Month(year, number + 1)

    @property
    def first(self) -> UUID:
        """The first id that a stream of this month may have; those of the next begin at its own."""
        begins = datetime(self.year, self.number, 1, tzinfo=UTC)
        return UUID(int=int(begins.timestamp()) * 1_000 << TIME_BITS)


@dataclass(frozen=True, slots=True)
class ArchivedMonth:
    """A month that has left the database: when (Unix microseconds, database time), the digest of
    its manifest, and the game service's signature under both month and digest."""

    month: Month
    archived_at: int
    manifest: bytes
    signature: bytes


def parse_month(text: str) -> Month | None:
    """Read `2026-09`, or None."""
    try:
        at = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return None
    month = Month(at.year, at.month)
    return month if str(month) == text and YEARS[0] <= month.year <= YEARS[1] else None


def month_of(stream: UUID) -> Month:
    """The month a stream began in."""
    return month_at(stream.int >> TIME_BITS)


def month_at(ms: int) -> Month:
    """The month of a moment, Unix milliseconds; those after the year 9999 count as its last."""
    at = datetime.fromtimestamp(min(ms // 1_000, 253_402_300_799), UTC)
    return Month(at.year, at.month)


def is_young(stream: UUID) -> bool:
    """Whether a stream began too lately to be archived."""
    return stream.int >> TIME_BITS > time.time_ns() // 1_000_000 - YOUNG_MS


def kept_version(head: Head) -> int | None:
    """The version at which a stream may be taken from memory; None for one that may have left."""
    return head.version if is_young(head.stream) else None


async def archived(connection: AsyncConnection) -> dict[Month, ArchivedMonth]:
    """Every month that has left the database."""
    found = {}
    for row in await connection.execute(select(archived_months)):
        month = parse_month(row.month)
        if month is not None:
            found[month] = ArchivedMonth(month, row.archived_at, row.manifest, row.signature)
    return found
