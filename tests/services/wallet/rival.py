"""Another process on the same PostgreSQL database: as many grants as told, at once.

Run as `python -m tests.services.wallet.rival URL ACCOUNT FIRST COUNT`.
"""

import asyncio
import sys
from uuid import UUID

from services.runtime.database import close_engine, open_engine
from services.wallet.domain import Grant
from tests.services.wallet.book_keeping import do, open_ledger

AT_ONCE = 8


async def grant_all(url: str, account: UUID, first: int, count: int) -> None:
    """Grants of one chip with the request ids `shared-N`, eight at a time."""
    engine = open_engine(url)
    ledger = open_ledger(engine)
    numbers = iter(range(first, first + count))

    async def client() -> None:
        for number in numbers:
            await do(ledger, Grant(account, 1, "x"), f"shared-{number}")

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    await close_engine(engine)


if __name__ == "__main__":
    asyncio.run(grant_all(sys.argv[1], UUID(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
