"""A process that is killed in the middle of anything loses nothing it acknowledged."""

import asyncio
import random
import signal
import sys
from uuid import UUID

import pytest

from services.runtime.database import open_engine
from services.runtime.migrate import migrate
from services.runtime.store import migrations
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import STREAM, numbered
from tests.runtime.conftest import KEYS
from tests.runtime.stored import verify_stream


async def killed_after(url: str, tasks: int, lines: int, wait_s: float) -> dict[UUID, int]:
    """Starts a process that appends, kills it after some lines: the last acknowledged versions."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.runtime.appending", url, str(STREAM), str(tasks)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said = b""
    for _ in range(lines):
        said += await process.stdout.readline()
    await asyncio.sleep(wait_s)
    process.send_signal(signal.SIGKILL)
    said += await process.stdout.read()
    await process.wait()
    acknowledged: dict[UUID, int] = {}
    for line in said[: said.rfind(b"\n") + 1].splitlines():
        place, version = map(int, line.split())
        acknowledged[numbered(place)] = version
    return acknowledged


@pytest.mark.parametrize(("seed", "tasks"), [(0, 1), (1, 40)])
async def test_a_killed_process_loses_nothing(database_url: str, seed: int, tasks: int) -> None:
    """Every acknowledged append is there whole and the chain too, kill after kill, whether the
    process was alone with each append or had many share a transaction."""
    chance = random.Random(seed)
    await migrate(database_url, [migrations.FOLDER])
    versions = {numbered(place): 0 for place in range(tasks)}
    for _ in range(2):
        lines = chance.randint(tasks, 15 * tasks)
        acknowledged = await killed_after(database_url, tasks, lines, chance.random() / 50)
        store = SqlStore(open_engine(database_url), KEYS)
        try:
            assert all(version > versions[stream] for stream, version in acknowledged.items())
            assert acknowledged
            for stream, version in acknowledged.items():
                versions[stream] = len(await store.read(stream))
                assert versions[stream] >= version
                assert await verify_stream(store, stream) is None
            due = {row.stream: row.version for row in await store.claim("w", tasks, 0)}
            for stream in acknowledged:
                # what was under way with the kill may be stored a moment later
                stored = len(await store.read(stream))
                assert versions[stream] <= due[stream] <= stored
                versions[stream] = stored
        finally:
            await store.close()
