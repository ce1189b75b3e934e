"""What is kept about a player beside the logs, and its removal when he is erased.

The logs themselves stay: they name him by his id alone. Texts of the disputes he opened go, their
digests stay in the log; so do the moments at which his streams opened and closed, and his links.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game.arbitration import Disputes
from services.game.connections import Connections
from services.game.disputes import CLAIM_TAG
from services.game.games import Games
from services.game.shares import Shares
from services.game.texts import Texts
from services.kernel.envelope import Head
from services.kernel.errors import Refused, precondition
from services.runtime.database import read
from services.runtime.shredding import Shredder
from services.runtime.status import ARCHIVED
from services.runtime.store.months import kept_version
from services.runtime.store.schema import events, tags
from services.runtime.streams import refusals

SCAN = 200
NEVER_ENDS = ("LOG_DAMAGED", "LOG_SEALED")
"""Why a running game may keep nobody: nobody can play it on."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Decides whether a player may be erased, and removes what may be removed."""

    engine: AsyncEngine
    games: Games
    disputes: Disputes
    texts: Texts
    connections: Connections
    shares: Shares
    remains: Shredder
    """Of texts in an embedded database's file."""

    async def check(self, player: str, *, leave_claims: bool) -> None:
        """Raise Refused GAME_RUNNING, DISPUTE_OPEN, CLAIM_OPEN unless he may be erased.

        Disputes are those about games he sat in, whoever opened them. With `leave_claims` claims on
        him may stay open.
        """
        async for head in self._tagged(f"player:{player}", ended=False):
            if await self._runs(head):
                raise precondition(
                    "GAME_RUNNING", "a game of the player's is running", game_id=str(head.stream)
                )
        await self._check_disputes(player)
        if not leave_claims:
            await self._check_claims(player)

    async def erase(self, player: str) -> tuple[int, int]:
        """Remove his texts, connections and links; how many there were of the first two. May be
        repeated.

        What other replicas have not written down yet is found by the next call. Raises Refused.
        """
        texts = await self.texts.erase(player)
        await self.shares.erase(player)
        removed = 0
        with refusals():
            await self.connections.flush()
            async for seats in self._seats(player):
                removed += await self.connections.erase(seats)
            await self.remains.shred()
        return texts, removed

    async def _runs(self, head: Head) -> bool:
        try:
            return not (await self.games.load(head.stream, known=head.version)).state.ended
        except Refused as refused:
            if refused.reason in NEVER_ENDS:
                return False
            raise

    async def _check_disputes(self, player: str) -> None:
        async for found in self.disputes.unsettled():
            sat = select(tags.c.stream).where(
                tags.c.tag == f"player:{player}", tags.c.stream == UUID(found.game_id)
            )
            with refusals():
                async with read(self.engine) as connection:
                    concerned = (await connection.execute(sat)).one_or_none() is not None
            if concerned:
                raise precondition(
                    "DISPUTE_OPEN",
                    "a dispute about a game of the player's is open",
                    dispute_id=str(found.id),
                    game_id=found.game_id,
                )

    async def _check_claims(self, player: str) -> None:
        async for head in self._tagged(f"{CLAIM_TAG}:{player}"):
            try:
                loaded = await self.disputes.streams.load(head.stream, known=kept_version(head))
            except Refused as refused:
                if refused.reason == ARCHIVED:
                    continue
                raise
            if chips := loaded.state.outstanding(player):
                raise precondition(
                    "CLAIM_OPEN",
                    "a claim on the player is open",
                    dispute_id=str(head.stream),
                    chips=str(chips),
                )

    async def _seats(self, player: str) -> AsyncIterator[dict[UUID, int]]:
        """The seats he had, by game, some games at a time; read from how the games opened."""
        page: list[UUID] = []
        async for head in self._tagged(f"player:{player}"):
            page.append(head.stream)
            if len(page) == SCAN:
                yield await self._seats_in(player, page)
                page = []
        yield await self._seats_in(player, page)

    async def _seats_in(self, player: str, games: list[UUID]) -> dict[UUID, int]:
        opened = select(events.c.stream, events.c.payload).where(
            events.c.stream.in_(games), events.c.version == 1
        )
        async with read(self.engine) as connection:
            rows = (await connection.execute(opened)).all()
        return {
            row.stream: number
            for row in rows
            for number, seat in enumerate(stored.GameOpened.FromString(row.payload).seats)
            if seat.player_id == player
        }

    async def _tagged(self, tag: str, ended: bool | None = None) -> AsyncIterator[Head]:
        before = None
        while True:
            with refusals():
                heads = await self.games.store.tagged(tag, before=before, limit=SCAN, ended=ended)
            for head in heads:
                yield head
            if len(heads) < SCAN:
                return
            before = heads[-1].stream
