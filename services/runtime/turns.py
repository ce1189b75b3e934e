"""Turns of transactions: what is counted is added to by one at a time, on whichever replica."""

import hashlib
from collections.abc import Iterable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

ADVISORY = text("SELECT pg_advisory_xact_lock(:turn)")


async def take_turns(connection: AsyncConnection, names: Iterable[bytes]) -> None:
    """Wait until no other transaction has one of these turns, and have them until this one ends.

    They are taken in one order, so that nobody waits for each other in a circle; SQLite's writers
    take turns anyway.
    """
    if connection.dialect.name != "postgresql":
        return
    for turn in sorted({_number(name) for name in names}):
        await connection.execute(ADVISORY, {"turn": turn})


def _number(name: bytes) -> int:
    """The advisory lock of a turn, a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)
