"""Lists of games: a player's own, or anybody's for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kozyr.game.v1 import game_pb2
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game import views
from services.game.audit import Fault, replay
from services.game.games import Games
from services.game.pacing import AT_ONCE
from services.game.work import plan
from services.kernel.envelope import Head, Recorded
from services.kernel.errors import Refused
from services.kernel.ids import parse_uuid
from services.runtime import validate
from services.runtime.auth import Caller, Role
from services.runtime.database import read
from services.runtime.seal import open_page, seal_page
from services.runtime.store.schema import tags

PAGE_SIZE_DEFAULT = 20
PAGE_SIZE_MAX = 100
UNREADABLE = ("LOG_DAMAGED", "LOG_SEALED", "UNKNOWN_RULES")
"""Why a game may be listed without its contents."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Pages of games, newest first. `key` signs page tokens."""

    games: Games
    key: bytes

    async def page(
        self, request: game_pb2.ListGamesRequest, caller: Caller
    ) -> game_pb2.ListGamesResponse:
        """One page; players see the games they sat in, whatever player they name."""
        size = validate.page_size(request.page_size, default=PAGE_SIZE_DEFAULT, high=PAGE_SIZE_MAX)
        tag = self._tag(request, caller)
        running = request.running if request.HasField("running") else None
        bound = (tag, request.table_id, running)
        fields = open_page(self.key, "games", bound, request.page_token)
        before = parse_uuid(str(fields[0])) if fields else None
        heads = await self.games.store.tagged(
            tag, before=before, limit=size + 1, ended=None if running is None else not running
        )
        response = game_pb2.ListGamesResponse()
        for head in heads[:size]:
            shown = await self._summary(head)
            if request.table_id in ("", shown.table_id) or tag == f"table:{request.table_id}":
                response.games.append(shown)
        if len(heads) > size:
            last = str(heads[size - 1].stream)
            response.next_page_token = seal_page(self.key, "games", bound, (last,))
        return response

    async def _summary(self, head: Head) -> game_pb2.GameSummary:
        """A game in a list; one whose record cannot be read keeps nobody from the others."""
        try:
            loaded = await self.games.load(head.stream, known=head.version)
        except Refused as refused:
            if refused.reason not in UNREADABLE:
                raise
            return game_pb2.GameSummary(game_id=str(head.stream), version=head.version)
        return game_pb2.GameSummary(**views.summary(loaded.state))

    def _tag(self, request: game_pb2.ListGamesRequest, caller: Caller) -> str:
        player = validate.optional_uuid("player_id", request.player_id)
        table = validate.optional_uuid("table_id", request.table_id)
        if caller.role is not Role.OPERATOR:
            return f"player:{caller.subject}"
        if player is not None:
            return f"player:{player}"
        return "game" if table is None else f"table:{table}"


async def listing_faults(
    engine: AsyncEngine, game_id: UUID, rows: Sequence[Recorded]
) -> list[Fault]:
    """A fault for a game that is missing in a list it belongs to, found by what its log says."""
    opened = next(replay(rows), None)
    if opened is None:
        return []
    asked = plan(opened.before, opened.after, AT_ONCE).tags
    carried = select(tags.c.tag).where(tags.c.stream == game_id, tags.c.tag.in_(asked))
    async with read(engine) as connection:
        found = set((await connection.execute(carried)).scalars())
    for tag in asked:
        if tag not in found:
            kind = tag.partition(":")[0]
            return [Fault(0, "NOT_LISTED", f"the game is missing in a list by {kind}")]
    return []
