"""Whoever waits for a stream is woken by every append, near or far, and by nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from services.kernel.envelope import Head
from services.runtime.feed import Feed
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import OTHER, STREAM, append

LONG = 30.0
"""Seconds no test waits for unless it has failed."""


@pytest.fixture
async def feed(store: SqlStore) -> AsyncIterator[Feed]:
    """A feed that polls often."""
    feed = Feed(store, interval_ms=5)
    feed.start()
    yield feed
    await feed.stop()


async def waiting(feed: Feed, stream: UUID, after: int) -> asyncio.Task[int]:
    """A task that has begun to wait."""
    task = asyncio.create_task(feed.wait(stream, after, LONG))
    await asyncio.sleep(0)
    return task


async def test_a_published_version_wakes_every_waiter_of_the_stream(store: SqlStore) -> None:
    """At once, without any polling; waiters of other streams and later versions sleep on."""
    feed = Feed(store)
    woken = [await waiting(feed, STREAM, after) for after in (0, 1)]
    asleep = [await waiting(feed, STREAM, 2), await waiting(feed, OTHER, 0)]
    feed.published(STREAM, 2)
    assert await asyncio.gather(*woken) == [2, 2]
    assert not any(task.done() for task in asleep)
    feed.published(STREAM, 3)
    assert await asleep[0] == 3
    await feed.stop()
    assert await asleep[1] == 0
    assert feed.watched == 0


async def test_what_was_published_before_the_wait_is_not_missed(store: SqlStore) -> None:
    """A wait that begins just after the append returns at once."""
    feed = Feed(store)
    feed.published(STREAM, 5)
    assert await feed.wait(STREAM, 4, LONG) == 5
    assert await feed.wait(STREAM, 5, 0.001) == 5
    assert feed.watched == 0


async def test_old_news_wakes_nobody(store: SqlStore) -> None:
    """A version that is known already, or an older one, is no news."""
    feed = Feed(store)
    feed.published(STREAM, 5)
    task = await waiting(feed, STREAM, 5)
    feed.published(STREAM, 4)
    feed.published(STREAM, 5)
    await asyncio.sleep(0)
    assert not task.done()
    feed.published(STREAM, 6)
    assert await task == 6


async def test_a_version_that_a_database_lost_is_waited_for_anew(store: SqlStore) -> None:
    """Once it is forgotten, who waits above what there is waits; a newer version is kept."""
    feed = Feed(store)
    feed.published(STREAM, 5)
    feed.forget(STREAM, 4)
    assert await feed.wait(STREAM, 3, LONG) == 5
    feed.forget(STREAM, 5)
    task = await waiting(feed, STREAM, 3)
    assert not task.done()
    feed.published(STREAM, 4)
    assert await task == 4


async def test_who_follows_a_stream_hears_all_of_its_news_until_he_leaves(store: SqlStore) -> None:
    """Once a newer version, however many follow it; an older one is none; and of the feed's end."""
    feed = Feed(store)
    heard: list[tuple[str, UUID, int]] = []

    def first(stream: UUID) -> None:
        heard.append(("first", stream, feed.known(stream)))

    def second(stream: UUID) -> None:
        heard.append(("second", stream, feed.known(stream)))

    feed.follow(STREAM, first)
    feed.follow(STREAM, second)
    feed.follow(OTHER, first)
    assert feed.watched == 2
    feed.published(STREAM, 3)
    feed.published(STREAM, 2)
    assert heard == [("first", STREAM, 3), ("second", STREAM, 3)]
    feed.leave(STREAM, first)
    feed.leave(OTHER, first)
    feed.published(OTHER, 1)
    feed.published(STREAM, 4)
    assert heard[2:] == [("second", STREAM, 4)]
    assert feed.watched == 1
    await feed.stop()
    assert feed.stopped
    assert heard[3:] == [("second", STREAM, 4)]
    feed.leave(STREAM, second)
    assert feed.watched == 0


async def test_polling_finds_news_of_streams_that_are_followed(feed: Feed, store: SqlStore) -> None:
    """Nobody waits, nothing is published here, and who follows hears of it."""
    news = asyncio.Event()
    feed.follow(STREAM, lambda _stream: news.set())
    await store.append(append(0, "A"))
    async with asyncio.timeout(LONG):
        await news.wait()
    assert feed.known(STREAM) == 1


async def test_an_append_of_another_process_is_found_by_polling(
    feed: Feed, store: SqlStore
) -> None:
    """Nothing is published here, and still the waiter wakes."""
    task = await waiting(feed, STREAM, 0)
    await store.append(append(0, "A", "B"))
    assert await task == 2


async def test_a_waiter_that_goes_away_leaves_nothing(feed: Feed) -> None:
    """A cancelled or timed-out wait is forgotten, so nothing is polled for it."""
    task = await waiting(feed, STREAM, 0)
    assert feed.watched == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await feed.wait(STREAM, 0, 0.001) == 0
    assert feed.watched == 0


async def test_polling_outlives_a_database_that_is_gone(store: SqlStore) -> None:
    """Failures are waited out, of the database and of anything else; the feed stays healthy."""
    troubles: list[Exception] = [StoreUnavailable("gone"), RuntimeError("odd")]

    class Troubled(SqlStore):
        async def heads(self, streams: Sequence[UUID]) -> dict[UUID, Head]:
            if troubles:
                raise troubles.pop()
            return await super().heads(streams)

    feed = Feed(Troubled(store._engine, None), interval_ms=5)
    health = [feed.healthy]
    feed.start()
    await store.append(append(0))
    assert await feed.wait(STREAM, 0, LONG) == 1
    assert troubles == []
    health.append(feed.healthy)
    await feed.stop()
    health.append(feed.healthy)
    assert health == [False, True, False]
