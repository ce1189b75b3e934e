"""A process that is killed in the middle of anything loses nothing it acknowledged."""

import asyncio
import random
import signal
import sys

import pytest

from services.runtime.database import open_engine
from services.runtime.migrate import migrate
from services.runtime.store import migrations
from services.runtime.store.audit import verify_stream
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import STREAM
from tests.runtime.conftest import KEYS


async def killed_after(url: str, lines: int, wait_s: float) -> int:
    """Starts a process that appends, kills it after some lines: the last acknowledged version."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.runtime.appending", url, str(STREAM)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    acknowledged = 0
    for _ in range(lines):
        acknowledged = int(await process.stdout.readline())
    await asyncio.sleep(wait_s)
    process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    whole = rest[: rest.rfind(b"\n") + 1].split()
    return int(whole[-1]) if whole else acknowledged


@pytest.mark.parametrize("seed", range(2))
async def test_a_killed_process_loses_nothing(database_url: str, seed: int) -> None:
    """Every acknowledged append is there and the chain is whole, kill after kill."""
    chance = random.Random(seed)
    await migrate(database_url, [migrations.FOLDER])
    version = 0
    for _ in range(2):
        acknowledged = await killed_after(database_url, chance.randint(1, 15), chance.random() / 50)
        store = SqlStore(open_engine(database_url), KEYS)
        try:
            assert acknowledged > version
            version = len(await store.read(STREAM))
            assert version >= acknowledged
            assert await verify_stream(store, STREAM) is None
            assert [row.version for row in await store.claim("w", 10, 1_000)] == [version]
        finally:
            await store.close()
