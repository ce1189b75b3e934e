"""What PostgreSQL refuses when writers, unlike in SQLite, stand beside each other."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine, write
from services.runtime.migrate import migrate_engine
from services.wallet.books import ISSUER
from services.wallet.server import FOLDERS
from tests.services.wallet.book_keeping import check_books, open_ledger, open_players
from tests.services.wallet.conftest import database
from tests.services.wallet.test_guards import Row, move


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A migrated PostgreSQL database."""
    with database("postgresql", tmp_path) as url:
        made = open_engine(url)
        await migrate_engine(made, FOLDERS)
        yield made
        await close_engine(made)


async def write_both(engine: AsyncEngine, transfer: UUID, ann: UUID, ben: UUID) -> None:
    """Two transactions at once with postings of the same transfer; the inner one closes it."""
    async with write(engine) as slow:
        await move(slow, Row(ann, 5), close=False, transfer=transfer)
        async with write(engine) as quick:
            await move(quick, Row(ben, 5), Row(ISSUER, -5), transfer=transfer)


async def test_two_writers_cannot_add_to_one_transfer(engine: AsyncEngine) -> None:
    """Neither sees the other's postings; the sum is checked again when each commits."""
    ann, ben = await open_players(open_ledger(engine), 2, 10)
    with pytest.raises(IntegrityError, match="sum to zero"):
        await write_both(engine, uuid4(), ann, ben)
    assert (await check_books(engine)).total == 0
