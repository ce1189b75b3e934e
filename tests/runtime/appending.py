"""A process that appends until it is killed, and says what the store acknowledged.

`python -m tests.runtime.appending URL STREAM` prints a version a line, each only after the append
that made it has returned.
"""

import asyncio
import sys
from uuid import UUID

from services.kernel.envelope import Due, Plan
from services.runtime.database import open_engine
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import append
from tests.runtime.conftest import KEYS


async def run(url: str, stream: UUID) -> None:
    """Appends one to three events at a time, every other time with a secret."""
    store = SqlStore(open_engine(url), KEYS)
    head = await store.head(stream)
    version = head.version if head else 0
    while True:
        secret = b"hidden" if version % 2 else None
        plan = Plan(due=(Due("turn", "", 0),))
        sent = append(version, *"ABC"[: version % 3 + 1], stream=stream, secret=secret, plan=plan)
        version = (await store.append(sent)).version
        sys.stdout.write(f"{version}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], UUID(sys.argv[2])))
