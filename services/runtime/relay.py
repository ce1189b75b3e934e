"""News between replicas on PostgreSQL: what one appends, the others' watchers hear of at once.

After an append the stream and its version are told in a NOTIFY on a connection of its own, never
in the transaction of the append, whose commits a NOTIFY would queue behind one another. The first
news goes out at once; what comes soon after it gathers and is sent together. Whatever a lost
connection swallows, polling finds (`feed.py`).
"""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.runtime import log, metrics
from services.runtime.database import DATABASE_ERRORS
from services.runtime.feed import Feed
from services.runtime.moments import quick_uuid

CHANNEL = "kozyr_news"
PAYLOAD_MAX = 7_900
"""PostgreSQL takes a payload below 8000 octets."""
APART_S = 0.02
"""After news was sent, more of it gathers for so long."""
RETRY_S = 1.0
PROBE_S = 10.0
"""A silent connection is tried this often."""


class Relay:
    """Sends this replica's news and hears the others'. `tell` is called after every append; a feed
    of other streams of the same database has a channel of its own."""

    def __init__(self, engine: AsyncEngine, feed: Feed, channel: str = CHANNEL) -> None:
        self._engine = engine
        self._feed = feed
        self._channel = channel
        self._news: dict[UUID, int] = {}
        self._woken = asyncio.Event()
        self._told(connected=False)

    def tell(self, stream: UUID, version: int) -> None:
        """Say that a stream has reached a version."""
        self._news[stream] = max(version, self._news.get(stream, 0))
        self._woken.set()

    async def run(self) -> None:
        """Send and hear for ever; a lost connection is made again."""
        while True:
            try:
                async with self._engine.connect() as connection:
                    try:
                        await self._serve(await self._listen(connection))
                    finally:
                        await connection.invalidate()  # a listener is nothing for the pool
            except DATABASE_ERRORS as error:
                if self.connected:
                    log.get().warning("relay_lost", **log.failure(error))
                self._told(connected=False)
            await asyncio.sleep(RETRY_S)

    def _told(self, *, connected: bool) -> None:
        self.connected = connected
        metrics.RELAY_CONNECTED.of(self._channel).set(connected)

    async def _listen(self, connection: AsyncConnection) -> Any:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        # news of what is on disk already need not be on disk: appends shall not wait behind it
        await driver.execute("SET synchronous_commit = off")
        await driver.add_listener(self._channel, self._heard)
        self._told(connected=True)
        return driver

    async def _serve(self, driver: Any) -> None:
        while True:
            try:
                async with asyncio.timeout(PROBE_S):
                    await self._woken.wait()
            except TimeoutError:
                await driver.execute("SELECT 1")
                continue
            self._woken.clear()
            news, self._news = self._news, {}
            metrics.RELAY_NEWS.of("sent").inc(len(news))
            for payload in payloads(news):
                await driver.execute("SELECT pg_notify($1, $2)", self._channel, payload)
            await asyncio.sleep(APART_S)

    def _heard(self, connection: Any, pid: int, _channel: str, payload: object) -> None:
        if pid == connection.get_server_pid():
            return  # our own news
        for stream, version in read(str(payload)):
            metrics.RELAY_NEWS.of("heard").inc()
            self._feed.published(stream, version)


def payloads(news: dict[UUID, int]) -> Iterator[str]:
    """News as `hex:version` words, in as few payloads as hold it."""
    payload = ""
    for stream, version in news.items():
        word = f"{stream.hex}:{version}"
        if payload and len(payload) + 1 + len(word) > PAYLOAD_MAX:
            yield payload
            payload = ""
        payload = f"{payload} {word}" if payload else word
    if payload:
        yield payload


def read(payload: str) -> Iterator[tuple[UUID, int]]:
    """The news of a payload; words that are none are passed over."""
    for word in payload.split():
        stream, _, version = word.partition(":")
        try:
            yield quick_uuid(stream), int(version)
        except ValueError:
            continue
