"""Following an account: what it is now, and again whenever it changes."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from services.kernel.errors import unavailable
from services.runtime.drain import Drain
from services.wallet.ledger import Ledger
from services.wallet.statements import Holding, read_holding
from services.wallet.wake import Wake

POLL_S = 2.0
"""How soon a change made by another process is seen."""
HEARTBEAT_S = 15.0
"""An unchanged account is sent again after this long, so that a dead stream is noticed."""
RETRY_MS = 500


class Watch:
    """Followers of accounts in this process."""

    def __init__(
        self,
        ledger: Ledger,
        wake: Wake,
        drain: Drain,
        poll_s: float = POLL_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._ledger = ledger
        self._wake = wake
        self._drain = drain
        self._poll_s = poll_s
        self._heartbeat_s = heartbeat_s

    async def follow(self, account: UUID) -> AsyncIterator[Holding]:
        """The account now, then after changes; several at once may be seen as one.

        Raises Refused ACCOUNT_NOT_FOUND, and UNAVAILABLE `DRAINING` when the process shuts down:
        whoever follows again misses nothing, for the first thing sent is the whole account.
        """
        clock = asyncio.get_running_loop().time
        shown: tuple[Holding, float] | None = None
        with self._wake.watch(account) as changed:
            while not self._drain.started.is_set():
                changed.clear()
                holding = await read_holding(self._ledger.engine, account)
                is_old = shown is None or clock() - shown[1] >= self._heartbeat_s
                if is_old or shown is None or holding != shown[0]:
                    yield holding
                    shown = (holding, clock())
                await self._pause(changed)
        raise unavailable("DRAINING", "this process is shutting down; follow again", RETRY_MS)

    async def _pause(self, changed: asyncio.Event) -> None:
        """Until the account changed here, the process drains, or it is time to look again."""
        waits = [asyncio.ensure_future(e.wait()) for e in (changed, self._drain.started)]
        try:
            await asyncio.wait(waits, timeout=self._poll_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
