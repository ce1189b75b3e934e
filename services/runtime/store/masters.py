"""Which master keys a database needs: how many streams each wraps, and whether it opens them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import case, false, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.runtime.database import read
from services.runtime.store.schema import heads, stream_keys
from services.runtime.store.sealing import KeyUnknown, MasterKeys, SealBroken, unwrap

KEYS_TRIED = 8
"""So many streams' keys are tried before a master key counts as another than it is named."""
PAGE = 500


@dataclass(frozen=True, slots=True)
class Use:
    """A master key in use: the streams it wraps the keys of, and those of them that have not
    ended."""

    key_id: str
    streams: int
    running: int


async def uses(connection: AsyncConnection) -> list[Use]:
    """Every master key in use, by id."""
    runs = func.sum(case((heads.c.ended == false(), 1), else_=0))
    found = await connection.execute(
        select(stream_keys.c.key_id, func.count(), runs)
        .outerjoin(heads, heads.c.stream == stream_keys.c.stream)
        .group_by(stream_keys.c.key_id)
        .order_by(stream_keys.c.key_id)
    )
    return [Use(key_id, streams, int(running or 0)) for key_id, streams, running in found]


async def opens(connection: AsyncConnection, keys: MasterKeys, key_id: str) -> bool:
    """Whether what is wrapped under this master key can be opened; a damaged row proves nothing."""
    of_key = select(stream_keys).where(stream_keys.c.key_id == key_id).limit(KEYS_TRIED)
    for row in await connection.execute(of_key):
        try:
            unwrap(keys, row.stream, row.key_id, row.wrapped)
        except KeyUnknown:
            return False
        except SealBroken:
            continue
        return True
    return False


async def running_of(connection: AsyncConnection, key_id: str, limit: int) -> list[UUID]:
    """Streams that have not ended and whose key this one wraps, the first of them."""
    found = await connection.execute(
        select(stream_keys.c.stream)
        .join(heads, heads.c.stream == stream_keys.c.stream)
        .where(stream_keys.c.key_id == key_id, heads.c.ended == false())
        .order_by(stream_keys.c.stream)
        .limit(limit)
    )
    return list(found.scalars())


async def streams_of(engine: AsyncEngine, key_id: str) -> AsyncIterator[list[tuple[UUID, bool]]]:
    """The streams whose key this one wraps, and whether each has ended, page by page."""
    query = (
        select(stream_keys.c.stream, func.coalesce(heads.c.ended, false()))
        .outerjoin(heads, heads.c.stream == stream_keys.c.stream)
        .where(stream_keys.c.key_id == key_id)
        .order_by(stream_keys.c.stream)
        .limit(PAGE)
    )
    after: UUID | None = None
    while True:
        page = query if after is None else query.where(stream_keys.c.stream > after)
        async with read(engine) as connection:
            found = [(row[0], bool(row[1])) for row in await connection.execute(page)]
        if found:
            yield found
        if len(found) < PAGE:
            return
        after = found[-1][0]
