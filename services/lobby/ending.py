"""The end of a game: counted for its players, then told to its table.

In this order, so that what a player lost is known before he can begin his next game there. A crash
between the two is made good by the game service, which reports an end until it was taken.
"""

import asyncio
import hashlib
from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import Refused
from services.lobby.commands import EndGame
from services.lobby.domain import decide
from services.lobby.evolve import rules_of
from services.lobby.limitbook import LimitBook
from services.lobby.model import Phase, Table
from services.lobby.players import Players
from services.lobby.reports import end_of_game, game_end
from services.lobby.stakes import Begun, Stakes
from services.lobby.standings import Standings
from services.lobby.tables import Tables
from services.runtime import log
from services.runtime.store.api import StoreUnavailable

SWEEP_S = 60.0
SWEPT_AT_ONCE = 50


class Ending:
    """Takes reports of games that have ended."""

    def __init__(
        self,
        tables: Tables,
        players: Players,
        standings: Standings,
        stakes: Stakes,
        book: LimitBook,
    ) -> None:
        self._tables = tables
        self._players = players
        self._standings = standings
        self._stakes = stakes
        self._book = book

    async def report(self, table_id: UUID, report: lobby_pb2.ReportGameRequest) -> EndGame:
        """Take a game's end, once however often it is told; raises Refused."""
        command = end_of_game(report)
        table = await self._tables.load(table_id)
        if running := plays(table, command.game):
            decide(table, command)  # what the table would refuse is not counted
        else:
            await self._tables.report(table_id, command)
        found = await self._players.find(line.player for line in command.lines)
        bots = {each.player for each in found.values() if each.bot}
        variant = rules_of(table).variant
        end = game_end(command.game, table_id, variant, report.result, command.finished, bots)
        await self._standings.record(end)
        if running:
            await self._tables.report(table_id, command)
        for player in await self._book.stopped(seat.player for _, seat in table.people()):
            await self._stand_up(table_id, command.game, player)
        return command

    async def run(self) -> None:
        """For ever: let go of what is at stake in games that are no more, where an older release
        took their end or a start was taken up too late."""
        after: Begun | None = None
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                after = await self.sweep(after)
            except (Refused, StoreUnavailable):
                log.get().warning("stakes_left_for_later")

    async def sweep(self, after: Begun | None) -> Begun | None:
        """Look at some games that began long ago; where to go on, None at the end."""
        found = await self._stakes.stale(after, SWEPT_AT_ONCE)
        for begun in found:
            if not plays(await self._tables.load(begun.table_id), begun.game):
                await self._stakes.release(begun.game)
                log.get().warning("stakes_released", game=begun.game, table=begun.table_id)
        return found[-1] if len(found) == SWEPT_AT_ONCE else None

    async def _stand_up(self, table_id: UUID, game: UUID, player: UUID) -> None:
        """A player who may begin no game any more leaves his seat."""
        key = hashlib.sha256(f"stopped {game} {player}".encode()).hexdigest()
        await self._tables.leave(table_id, player, key)


def plays(table: Table, game: UUID) -> bool:
    """Whether a table plays this game, or is about to."""
    return table.phase in {Phase.STARTING, Phase.PLAYING} and table.game == game
