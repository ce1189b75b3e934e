"""Following the talk of a table: what was said of late, each line after it, a sign of life."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any
from uuid import UUID

from kozyr.lobby.v1 import talk_pb2 as pb

from services.kernel.errors import unavailable
from services.lobby.model import Phase, Table
from services.lobby.mutes import Mutes
from services.lobby.players import Players
from services.lobby.tables import Tables
from services.lobby.talk import BACKLOG, Line, Talk, players_in
from services.lobby.talkers import require_listener
from services.lobby.views import talk_line
from services.runtime.drain import Drain
from services.runtime.feed import Feed
from services.runtime.seal import Sealer, open_token

PURPOSE = "talk"


class Listening:
    """The streams of one process. `of_tables` and `of_talk` bring news of tables and of lines.

    Whoever may not read any more, because he has left or a spectator may no longer look, is told so
    before another line is sent.
    """

    def __init__(
        self,
        tables: Tables,
        talk: Talk,
        mutes: Mutes,
        players: Players,
        of_tables: Feed,
        of_talk: Feed,
        drain: Drain,
        seal_key: bytes,
        heartbeat_ms: int,
    ) -> None:
        self._tables = tables
        self._talk = talk
        self._mutes = mutes
        self._players = players
        self._of_tables = of_tables
        self._of_talk = of_talk
        self._drain = drain
        self._seal_key = seal_key
        self._heartbeat_ms = heartbeat_ms

    def seen(self, table_id: UUID, player: UUID, token: bytes) -> int | None:
        """The line a resume token stands for, None for an empty one; raises Refused."""
        if not token:
            return None
        (number,) = open_token(self._seal_key, PURPOSE, (str(table_id), str(player)), token)
        return int(number or 0)

    async def follow(
        self, table_id: UUID, player: UUID, code: str, seen: int | None
    ) -> AsyncIterator[pb.WatchTalkResponse]:
        """What is said after the line `seen`, or after those of late, until the table closes."""
        sealer = Sealer(self._seal_key, PURPOSE, (str(table_id), str(player)))
        table = await self._listened(table_id, player, code)
        lines, skipped = await self._begin(table_id, seen)
        clock = asyncio.get_running_loop().time
        number, said_at, begun = seen or 0, clock(), False
        while True:
            heard = await self._heard(lines, player)
            if lines:
                number = max(number, lines[-1].number)
            silent_s = self._heartbeat_ms / 1_000 - (clock() - said_at)
            if heard or not begun or silent_s <= 0:
                yield pb.WatchTalkResponse(
                    lines=heard,
                    skipped=skipped,
                    resume_token=sealer.seal((number,)),
                    heartbeat_ms=self._heartbeat_ms,
                )
                said_at, begun, skipped = clock(), True, False
                silent_s = self._heartbeat_ms / 1_000
            if table.phase is Phase.CLOSED:
                return
            spoken, changed = await self._wait(
                self._of_talk.wait(table_id, number, silent_s),
                self._of_tables.wait(table_id, table.version, silent_s),
            )
            table = await self._listened(table_id, player, code)
            if changed is not None and table.version < changed:
                self._of_tables.forget(table_id, changed)
            lines = await self._talk.after(table_id, number)
            if spoken is not None and len(lines) < BACKLOG:
                number = max(number, spoken)  # of a line that was removed there is still news

    async def _begin(self, table_id: UUID, seen: int | None) -> tuple[list[Line], bool]:
        """The lines to begin with, and whether lines before them are left out."""
        if seen is None:
            return await self._talk.recent(table_id), False
        missed = await self._talk.after(table_id, seen)
        if len(missed) < BACKLOG:
            return missed, False
        newest = await self._talk.recent(table_id)
        return newest, newest[:1] != missed[:1]

    async def _listened(self, table_id: UUID, player: UUID, code: str) -> Table:
        table = await self._tables.see(table_id, player, code)
        require_listener(table, player)
        return table

    async def _heard(self, lines: Sequence[Line], player: UUID) -> list[pb.TalkLine]:
        """These lines as a player is sent them: without those of players whom he has muted."""
        if not lines:
            return []
        muted = set(await self._mutes.of(player))
        kept = [line for line in lines if line.player not in muted]
        names = await self._players.find(players_in(kept))
        return [talk_line(line, names) for line in kept]

    async def _wait(self, *news: Coroutine[Any, Any, int]) -> list[int | None]:
        """Wait for any of these, and what they bring, None for what brings nothing yet; raises
        Refused DRAINING when the process is to stop."""
        stop = asyncio.ensure_future(self._drain.started.wait())
        waiting = [asyncio.ensure_future(each) for each in news]
        try:
            await asyncio.wait((stop, *waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (stop, *waiting):
                each.cancel()
        if self._drain.started.is_set():
            raise unavailable("DRAINING", "this process is shutting down; listen again", 500)
        return [each.result() if each.done() and not each.cancelled() else None for each in waiting]
