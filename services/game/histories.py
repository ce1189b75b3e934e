"""HistoryService: one method for each RPC."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from kozyr.game.v1 import game_pb2, history_pb2, history_pb2_grpc

from services.game import audit, requests, shared, views
from services.game.games import Games
from services.game.model import State
from services.game.shares import Share, Shares, missing
from services.game.viewers import seat_of
from services.kernel.errors import Refused, precondition
from services.runtime import validate
from services.runtime.call import caller, note, player, whose
from services.runtime.moments import timestamp
from services.runtime.slices import each
from services.runtime.status import ARCHIVED

VERSION_MAX = 2**63 - 1
TOKEN_MAX = 64
"""Longest token that is looked up, in characters; ours have 43."""


class HistoryServicer(history_pb2_grpc.HistoryServiceServicer):
    """Games looked back at."""

    def __init__(self, games: Games, shares: Shares) -> None:
        self._games = games
        self._shares = shares

    async def ReplayOwnGame(
        self, request: history_pb2.ReplayOwnGameRequest, context: Any
    ) -> AsyncIterator[history_pb2.ReplayOwnGameResponse]:
        """The steps of the caller's own game, each as his stream brought it."""
        state = await self._find(request.game_id)
        seat = seat_of(state, caller())
        first = validate.number("from_version", request.from_version, low=0, high=VERSION_MAX)
        last = validate.number("to_version", request.to_version, low=0, high=VERSION_MAX)
        rows = await self._games.rows(state.game_id, limit=state.version)
        async for append in each(audit.replay(rows)):
            if append.rows[0].version > (last or VERSION_MAX):
                return
            if append.rows[-1].version >= first:
                yield history_pb2.ReplayOwnGameResponse(step=own_step(append, seat))

    async def ShareGame(
        self, request: history_pb2.ShareGameRequest, context: Any
    ) -> history_pb2.ShareGameResponse:
        """Make a link to an ended game of the caller's."""
        state = await self._find(request.game_id)
        seat_of(state, caller())
        if not state.ended:
            raise precondition("GAME_RUNNING", "a game can be shared once it has ended")
        subject = str(player())
        made, token = await self._shares.make(state.game_id, subject, request.request_id)
        return history_pb2.ShareGameResponse(share=_shown(made), token=token)

    async def ListShares(
        self, request: history_pb2.ListSharesRequest, context: Any
    ) -> history_pb2.ListSharesResponse:
        """A player's links."""
        found = await self._shares.of(str(whose(request.player_id)))
        return history_pb2.ListSharesResponse(shares=map(_shown, found))

    async def RevokeShare(
        self, request: history_pb2.RevokeShareRequest, context: Any
    ) -> history_pb2.RevokeShareResponse:
        """End a link."""
        share_id = validate.uuid("share_id", request.share_id)
        await self._shares.revoke(share_id, str(player()))
        return history_pb2.RevokeShareResponse()

    async def GetSharedGame(
        self, request: history_pb2.GetSharedGameRequest, context: Any
    ) -> history_pb2.GetSharedGameResponse:
        """What a link leads to."""
        share, state = await self._open(request.token)
        response = shared.summary(state)
        response.expire_time.CopyFrom(timestamp(share.ends_at))
        return response

    async def ReplaySharedGame(
        self, request: history_pb2.ReplaySharedGameRequest, context: Any
    ) -> AsyncIterator[history_pb2.ReplaySharedGameResponse]:
        """The steps of the game a link leads to."""
        _, state = await self._open(request.token)
        with _dateless():
            rows = await self._games.rows(state.game_id, limit=state.version)
        async for step in each(shared.steps(audit.replay(rows))):
            yield step

    async def _open(self, token: str) -> tuple[Share, State]:
        share = await self._shares.opened(validate.text("token", token, high=TOKEN_MAX))
        with _dateless():
            state = (await self._games.load(share.game, known=0)).state
            if not state.ended:
                state = (await self._games.load(share.game)).state
        if not state.ended:  # a database that lost the game's end
            raise missing()
        return share, state

    async def _find(self, game_id: str) -> State:
        parsed = requests.game_id("game_id", game_id)
        note(game=game_id)
        return (await self._games.load(parsed)).state


@contextmanager
def _dateless() -> Iterator[None]:
    """A link tells no dates, so neither does the refusal of one to a game that was archived."""
    try:
        yield
    except Refused as refused:
        raise (missing() if refused.reason == ARCHIVED else refused) from None


def own_step(append: audit.Append, seat: int) -> game_pb2.Step:
    """An append as this seat's stream brought it."""
    state, rows = append.after, append.rows
    pairs = list(zip(rows, append.events, strict=True))
    return game_pb2.Step(
        from_version=rows[0].version,
        to_version=rows[-1].version,
        happenings=views.happenings(state.rules, pairs, seat),
        view=views.game_view(state, seat, rows[-1].hash),
    )


def _shown(share: Share) -> history_pb2.Share:
    return history_pb2.Share(
        share_id=str(share.share),
        game_id=str(share.game),
        made_time=timestamp(share.made_at),
        expire_time=timestamp(share.ends_at),
    )
