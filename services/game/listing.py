"""Lists of games: a player's own, or anybody's for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kozyr.game.v1 import game_pb2
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from engines import durak
from services.game import views
from services.game.audit import Fault, replay
from services.game.delays import Delays
from services.game.games import Games
from services.game.model import Stage, State
from services.game.pacing import AT_ONCE
from services.game.work import plan
from services.kernel.envelope import Head, Recorded
from services.kernel.errors import Refused, invalid
from services.kernel.ids import parse_uuid
from services.runtime import validate
from services.runtime.auth import Caller, Role
from services.runtime.database import read
from services.runtime.seal import open_page, seal_page
from services.runtime.status import ARCHIVED
from services.runtime.store.months import kept_version
from services.runtime.store.schema import tags

PAGE_SIZE_DEFAULT = 20
PAGE_SIZE_MAX = 100
UNREADABLE = ("LOG_DAMAGED", "LOG_SEALED", "UNKNOWN_RULES")
"""Why a game may be listed without its contents."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Pages of games, newest first. `key` signs page tokens."""

    games: Games
    delays: Delays
    key: bytes

    async def page(
        self, request: game_pb2.ListGamesRequest, caller: Caller
    ) -> game_pb2.ListGamesResponse:
        """One page; players see the games they sat in, whatever player they name."""
        size = validate.page_size(request.page_size, default=PAGE_SIZE_DEFAULT, high=PAGE_SIZE_MAX)
        tag = self._tag(request, caller)
        running = request.running if request.HasField("running") else None
        bound = (tag, request.table_id, running, request.variant, request.outcome)
        fields = open_page(self.key, "games", bound, request.page_token)
        before = parse_uuid(str(fields[0])) if fields else None
        chosen = bool(request.table_id or request.variant or request.outcome)
        look = PAGE_SIZE_MAX if chosen else size
        heads = await self.games.store.tagged(
            tag, before=before, limit=look + 1, ended=None if running is None else not running
        )
        response, last = game_pb2.ListGamesResponse(), before
        for head in heads[:look]:
            shown = await self._summary(head, tag, caller)
            last = head.stream
            if _wanted(shown, request):
                response.games.append(shown)
                if len(response.games) == size:
                    break
        if heads and last != heads[-1].stream:
            response.next_page_token = seal_page(self.key, "games", bound, (str(last),))
        return response

    async def _summary(self, head: Head, tag: str, caller: Caller) -> game_pb2.GameSummary:
        """A game in a list as far as the caller may see it; one whose record cannot be read keeps
        nobody from the others."""
        try:
            loaded = await self.games.load(head.stream, known=kept_version(head))
            viewer = loaded.state.seat_of(caller.subject)
            loaded = await self.delays.seen(loaded, viewer)
        except Refused as refused:
            if refused.reason == "NOT_SHOWN_YET":
                return game_pb2.GameSummary(game_id=str(head.stream))
            if refused.reason == ARCHIVED:
                shown = game_pb2.GameSummary(game_id=str(head.stream), version=head.version)
                shown.archived_time.FromJsonString(refused.facts["archived_time"])
                return shown
            if refused.reason not in UNREADABLE:
                raise
            return game_pb2.GameSummary(game_id=str(head.stream), version=head.version)
        shown = game_pb2.GameSummary(**views.summary(loaded.state))
        kind, _, player = tag.partition(":")
        if kind == "player":
            shown.outcome = outcome_of(loaded.state, player)
        return shown

    def _tag(self, request: game_pb2.ListGamesRequest, caller: Caller) -> str:
        player = validate.optional_uuid("player_id", request.player_id)
        table = validate.optional_uuid("table_id", request.table_id)
        if caller.role is not Role.OPERATOR:
            return f"player:{caller.subject}"
        if player is not None:
            return f"player:{player}"
        if request.outcome:
            raise invalid("outcome", "an outcome is a player's: name one in player_id")
        return "game" if table is None else f"table:{table}"


def outcome_of(state: State, player: str) -> game_pb2.GameOutcome.ValueType:
    """How a game came out for one of its players; unspecified while it runs."""
    seat, result = state.seat_of(player), state.result
    if state.stage is Stage.CANCELLED:
        return game_pb2.GAME_OUTCOME_CANCELLED
    if result is None or seat is None:
        return game_pb2.GAME_OUTCOME_UNSPECIFIED
    if result.winner == seat:
        return game_pb2.GAME_OUTCOME_WON
    others = result.winner is not None and state.variant != durak.NAME
    if others or result.durak == seat:
        return game_pb2.GAME_OUTCOME_LOST
    return game_pb2.GAME_OUTCOME_EVEN


def _wanted(shown: game_pb2.GameSummary, request: game_pb2.ListGamesRequest) -> bool:
    """Whether a list asks for this game; of one that cannot be read, nothing is known."""
    return (
        request.table_id in ("", shown.table_id)
        and request.variant in (0, shown.variant)
        and request.outcome in (0, shown.outcome)
    )


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
