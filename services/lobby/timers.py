"""What follows at a table when a time is over: it closes, a seat is freed, bots sit down.

Each is due work of the table's log, done once whichever replica takes it and however often: its
request id is made of the row, and a table that has moved on meanwhile is left as it is.
"""

import hashlib

from services.kernel.envelope import Claimed
from services.lobby.bots import bot_id
from services.lobby.commands import Bot, CloseIdle, Command, FillSeats, FreeSeat
from services.lobby.conditions import Moot
from services.lobby.evolve import FILL, IDLE, UNREADY
from services.lobby.tables import Request, Tables
from services.runtime import log
from services.runtime.moments import new_id


class Timers:
    """Works off what is due at tables, starts aside."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def handle(self, kind: str, claimed: Claimed) -> None:
        """Do what is due; raises Refused to have it tried again, ValueError for work of no kind."""
        try:
            command = await self._command(kind, claimed)
            name = f"{kind}:{claimed.key}:{claimed.version}"
            request = Request("server", name, hashlib.sha256(name.encode()).digest())
            await self._tables.act(claimed.stream, command, request)
        except Moot:
            log.get().info("work_moot", table=claimed.stream, kind=kind)
            return
        log.get().info("table_time_over", table=claimed.stream, kind=kind)

    async def _command(self, kind: str, claimed: Claimed) -> Command:
        if kind == IDLE:
            return CloseIdle(claimed.version)
        if kind == UNREADY:
            return FreeSeat(int(claimed.key), claimed.version, new_id())
        if kind == FILL:
            return await self._fill(claimed)
        raise ValueError(f"no such work: {kind}")

    async def _fill(self, claimed: Claimed) -> FillSeats:
        """Bots for every free seat; they are given names before they sit down."""
        table = await self._tables.see(claimed.stream, None)
        number = int(claimed.key)
        seat = table.seats[number] if number < len(table.seats) else None
        if seat is None or seat.wish is None:
            raise Moot
        bots = tuple(
            Bot(bot_id(claimed.stream, f"fill {claimed.version}", free), seat.wish.level)
            for free in table.free()
        )
        await self._tables.name_bots(table, list(bots))
        return FillSeats(number, claimed.version, bots, new_id())
