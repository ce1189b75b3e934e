"""What keeps running beside a store is watched, and fairly."""

import asyncio

import pytest

from services.runtime import eventstore
from services.runtime.drain import Drain


async def watched(looks: list[bool], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Watch a part that is healthy as `looks` say, draining after the last; the looks left."""
    monkeypatch.setattr(eventstore, "WATCHED_EVERY_S", 0.0)
    drain, left = Drain(), list(looks)

    def healthy() -> bool:
        found = left.pop(0)
        if not left:
            drain.started.set()
        return found

    async with asyncio.timeout(10):
        await eventstore._until(drain, healthy)
    return left


async def test_a_part_found_dead_twice_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not come back by itself."""
    with pytest.raises(eventstore.Unhealthy):
        await watched([True, False, False, True], monkeypatch)


async def test_a_pause_of_the_whole_process_is_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a machine was frozen, the part has a moment to come round before it is judged."""
    assert await watched([True, False, True, False, True], monkeypatch) == []
