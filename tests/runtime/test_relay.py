"""News between replicas: sent together, heard at once, taken up again after a lost connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine
from services.runtime.feed import Feed
from services.runtime.relay import PAYLOAD_MAX, Relay, payloads, read
from services.runtime.store.sql import SqlStore

STREAM = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
NEVER_MS = 3_600_000


@given(st.dictionaries(st.uuids(), st.integers(1, 2**62), max_size=400))
def test_news_survives_being_written_and_read(news: dict[UUID, int]) -> None:
    """However much there is: every payload is small enough, and nothing is lost or added."""
    written = list(payloads(news))
    assert all(len(payload) <= PAYLOAD_MAX for payload in written)
    assert dict(pair for payload in written for pair in read(payload)) == news


def test_what_is_no_news_is_passed_over() -> None:
    """Others may use the channel, or a newer release speak differently on it."""
    assert list(read("nonsense 12:x :: 01890a5d:7")) == []


@dataclass
class Replica:
    """One process's feed and relay; its feed never polls."""

    engine: AsyncEngine
    feed: Feed
    relay: Relay


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[Replica]:
    """A replica on a database of its own connections."""
    engine = open_engine(url)
    feed = Feed(SqlStore(engine, None), interval_ms=NEVER_MS)
    relay = Relay(engine, feed)
    running = asyncio.create_task(relay.run())
    try:
        await connected(relay)
        yield Replica(engine, feed, relay)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await close_engine(engine)


async def connected(relay: Relay) -> None:
    """Wait until the relay hears."""
    async with asyncio.timeout(20):
        while not relay.connected:
            await asyncio.sleep(0.01)


async def test_a_watcher_of_one_replica_hears_of_anothers_append(postgres_url: str) -> None:
    """Without any polling, and the newest version counts."""
    async with replica(postgres_url) as here, replica(postgres_url) as there:
        waiting = asyncio.create_task(there.feed.wait(STREAM, 3, timeout_s=20))
        await asyncio.sleep(0)
        for version in (4, 6, 5):
            here.relay.tell(STREAM, version)
        assert await waiting == 6


async def test_a_relay_that_lost_its_connection_hears_again(postgres_url: str) -> None:
    """The database ends every connection; a while later news goes both ways again."""
    async with replica(postgres_url) as here, replica(postgres_url) as there:
        other = open_engine(postgres_url)
        async with other.connect() as connection:
            ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
            await connection.execute(
                text(f"{ending}pg_backend_pid() AND datname = current_database()")
            )
        await close_engine(other)
        version = 0
        async with asyncio.timeout(30):
            while await there.feed.wait(STREAM, 0, timeout_s=0.2) == 0:
                version += 1
                here.relay.tell(STREAM, version)
