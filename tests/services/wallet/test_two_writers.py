"""Writers who, unlike in SQLite, stand beside each other on one PostgreSQL database."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine, read, write
from services.runtime.migrate import migrate_engine
from services.wallet.books import ISSUER
from services.wallet.domain import Grant, Reserve
from services.wallet.server import FOLDERS
from services.wallet.tables import REQUESTS
from tests.services.wallet.book_keeping import (
    balance,
    check_books,
    do,
    open_ledger,
    open_players,
)
from tests.services.wallet.conftest import database
from tests.services.wallet.rival import grant_all
from tests.services.wallet.test_guards import Row, move


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A PostgreSQL database."""
    with database("postgresql", tmp_path) as made:
        yield made


@pytest.fixture
async def engine(url: str) -> AsyncIterator[AsyncEngine]:
    """The database, migrated."""
    made = open_engine(url)
    try:
        await migrate_engine(made, FOLDERS)
        yield made
    finally:
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


async def start_rival(url: str, account: UUID, count: int) -> asyncio.subprocess.Process:
    """Another process that makes so many grants, from `shared-0` on."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.services.wallet.rival", url, str(account), "0", str(count)),
        env=environment,
    )


async def test_one_of_two_processes_is_killed(engine: AsyncEngine, url: str) -> None:
    """SIGKILL amid its batches on accounts that both move: what it had not written is asked for
    again here, and acts once."""
    (ann,) = await open_players(open_ledger(engine), 1, 0)
    rival = await start_rival(url, ann, 100_000)
    mine, theirs = 0, 0
    try:
        async with asyncio.timeout(60):
            while theirs < 40:
                await grant_all(url, ann, 1_000_000 + mine, 10)
                mine += 10
                theirs = await balance(engine, ann) - mine
    finally:
        rival.kill()
        await rival.wait()
    await grant_all(url, ann, 0, theirs + 100)
    await check_books(engine)
    grants = sa.select(sa.func.count()).where(REQUESTS.c.request_id.like("shared-%"))
    async with read(engine) as connection:
        answered = (await connection.execute(grants)).scalar_one()
    assert answered >= mine + theirs + 100
    assert await balance(engine, ann) == answered


async def test_two_processes_on_one_hot_account(engine: AsyncEngine, url: str) -> None:
    """Both move the issuer and one account, half of their requests are the same: each acts once."""
    (ann,) = await open_players(open_ledger(engine), 1, 0)
    rival = await start_rival(url, ann, 400)
    first = 200
    while rival.returncode is None:  # there is somebody to collide with as long as it runs
        await grant_all(url, ann, first, 50)
        first += 50
    assert await rival.wait() == 0
    await grant_all(url, ann, 200, 400)
    assert await balance(engine, ann) == max(first, 600)
    await check_books(engine)


async def test_ledgers_beside_each_other_never_overdraw(engine: AsyncEngine) -> None:
    """Three committers take from one account at once: what it can pay for, and nothing more."""
    ledgers = [open_ledger(engine) for _ in range(3)]
    (ann,) = await open_players(ledgers[0], 1, 300)
    game = uuid4()
    wanted = [Reserve(uuid4(), ann, uuid4() if n % 2 else game, 10, 60_000) for n in range(60)]
    tasks = [do(ledgers[n % 3], each) for n, each in enumerate(wanted)]
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(t, bytes) for t in told) == 30
    assert {getattr(t, "reason", None) for t in told} == {None, "INSUFFICIENT_CHIPS"}
    assert await balance(engine, ann) == 0
    await check_books(engine)


async def test_the_first_release_writes_beside_this_one(engine: AsyncEngine) -> None:
    """Row by row in its order, while batches go on: neither is refused, all of it adds up."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 100)
    for _ in range(5):
        async with write(engine) as connection:
            await move(connection, Row(ann, -3), Row(ben, 3))
        await asyncio.gather(*(do(ledger, Grant(ann, 1, "x")) for _ in range(4)))
    assert (await balance(engine, ann), await balance(engine, ben)) == (105, 115)
    await check_books(engine)
