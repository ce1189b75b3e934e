"""Which table a request chose: kept as long as it may be asked for again, on both databases."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby.choices import Choices
from services.lobby.schema import choices as rows
from services.runtime.database import write
from tests.services.lobby.books import DATABASES, Clock, library

KEEP_MS = 60_000
HERE, THERE = UUID(int=1), UUID(int=2)


@pytest.fixture(params=DATABASES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A lobby's database, as its service reaches it."""
    async with library(tmp_path, request.param) as opened:
        yield opened.books.engine


async def test_a_choice_stands_until_nobody_asks_again(engine: AsyncEngine) -> None:
    """From when it was made last; one by a release that noted no moment from when it is seen."""
    clock = Clock()
    choices = Choices(engine, KEEP_MS, clock)
    for request in ("first", "moved", "old"):
        assert await choices.choose(request, HERE) == HERE
    async with write(engine) as connection:
        await connection.execute(update(rows).values(chosen_at=None))
    await choices.sweep()
    clock.now += KEEP_MS * 500
    assert await choices.choose("moved", THERE, instead_of=HERE) == THERE
    clock.now += KEEP_MS * 500 - 1
    await choices.sweep()
    assert [await choices.find(each) for each in ("first", "moved", "old")] == [HERE, THERE, HERE]
    clock.now += 1
    await choices.sweep()
    assert [await choices.find(each) for each in ("first", "moved", "old")] == [None, THERE, None]
    clock.now += KEEP_MS * 500
    await choices.sweep()
    assert await choices.find("moved") is None
