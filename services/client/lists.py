"""Lists that come in pages, whole: games, and the names of players."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

from kozyr.game.v1 import game_pb2, game_pb2_grpc
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.client.calls import Caller

NAMES_MAX = 100
PAGE = 100


async def games(
    caller: Caller, request: game_pb2.ListGamesRequest, most: int | None = None
) -> AsyncIterator[game_pb2.GameSummary]:
    """Games, newest first, page by page; at most so many."""
    stub: Any = caller.stub("game", game_pb2_grpc.GameServiceStub)
    asked = game_pb2.ListGamesRequest()
    asked.CopyFrom(request)
    left = most
    while True:
        asked.page_size = asked.page_size or (PAGE if left is None else min(PAGE, left))
        page: game_pb2.ListGamesResponse = await caller.call("game", stub.ListGames, asked)
        for game in page.games:
            if left is not None:
                if left == 0:
                    return
                left -= 1
            yield game
        if not page.next_page_token:
            return
        asked.page_token = page.next_page_token


async def names_of(caller: Caller, ids: Iterable[str]) -> dict[str, str]:
    """Display names by player id, as far as the lobby knows them."""
    stub: Any = caller.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
    wanted = sorted({each for each in ids if each})
    found: dict[str, str] = {}
    for start in range(0, len(wanted), NAMES_MAX):
        request = identity_pb2.ListPlayersRequest(player_ids=wanted[start : start + NAMES_MAX])
        reply: identity_pb2.ListPlayersResponse = await caller.call(
            "lobby", stub.ListPlayers, request
        )
        found |= {player.player_id: player.display_name for player in reply.players}
    return found
