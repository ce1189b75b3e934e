"""A process that appends until it is killed, and says what the store acknowledged.

`python -m tests.runtime.appending URL STREAM [TASKS]` has so many tasks append to streams of their
own, the first to STREAM, and prints the place of the stream after it and its version a line, each
only after the append that made it has returned.
"""

import asyncio
import sys
from uuid import UUID

from services.kernel.envelope import Due, Plan
from services.runtime.database import open_engine
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import append
from tests.runtime.conftest import KEYS


async def run(url: str, first: UUID, tasks: int) -> None:
    """Starts the tasks on one store."""
    store = SqlStore(open_engine(url), KEYS)
    await asyncio.gather(*(work(store, first, place) for place in range(tasks)))


async def work(store: SqlStore, first: UUID, place: int) -> None:
    """Appends one to three events at a time, every other time with a secret."""
    stream = UUID(int=first.int + place)
    head = await store.head(stream)
    version = head.version if head else 0
    while True:
        secret = b"hidden" if version % 2 else None
        plan = Plan(due=(Due("turn", "", 0),))
        sent = append(version, *"ABC"[: version % 3 + 1], stream=stream, secret=secret, plan=plan)
        version = (await store.append(sent)).version
        sys.stdout.write(f"{place} {version}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], UUID(sys.argv[2]), int([*sys.argv, "1"][3])))
