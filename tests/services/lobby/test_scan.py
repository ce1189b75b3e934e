"""Looking through many tables, some of which cannot be read."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from services.kernel.envelope import Head
from services.kernel.errors import precondition
from services.lobby.model import Table
from services.lobby.tables import SCAN_MAX, Tables
from services.runtime.streams import Loaded

COUNT = SCAN_MAX + 60
DAMAGED = {UUID(int=COUNT - 3), UUID(int=COUNT - 70)}


class Store:
    """Holds the heads of so many open tables."""

    async def tagged(
        self, tag: str, before: UUID | None, limit: int, ended: bool | None
    ) -> Sequence[Head]:
        """A page of them, newest first."""
        newest = COUNT if before is None else before.int - 1
        return [Head(UUID(int=n), 1, b"", False) for n in range(newest, 0, -1)][:limit]


class Streams:
    """Tables without rules, two of them damaged."""

    async def load(self, stream: UUID, known: int) -> Loaded[Table]:
        """A table."""
        if stream in DAMAGED:
            raise precondition("LOG_DAMAGED", "damaged")
        return Loaded(Table(version=known), known, b"", 0)


NONE = (cast(Any, None),) * 5
TABLES = Tables(cast(Any, Streams()), cast(Any, Store()), *NONE)


async def test_damaged_tables_do_not_shorten_a_look() -> None:
    """As many tables are seen as without them."""
    assert len([found async for found in TABLES.scan("public")]) == SCAN_MAX
