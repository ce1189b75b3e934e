"""A player's statistics at the command line, and the games they are counted from."""

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import standing_pb2 as pb
from kozyr.lobby.v1.standing_pb2_grpc import StandingServiceStub

from services.cli.terminal import emit, grid, show
from services.client.calls import Caller

GAMES = {
    "azi": variant_pb2.VARIANT_AZI,
    "durak": variant_pb2.VARIANT_DURAK,
    "rami": variant_pb2.VARIANT_RAMI,
}
NAMES = {variant: name for name, variant in GAMES.items()}


async def statistics(caller: Caller, player: str) -> pb.GetStatisticsResponse:
    """A player's numbers, the caller's own for an empty id; raises Refused."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    reply: pb.GetStatisticsResponse = await caller.call(
        "lobby", stub.GetStatistics, pb.GetStatisticsRequest(player_id=player)
    )
    return reply


async def games(caller: Caller, player: str) -> AsyncIterator[pb.PlayerGame]:
    """The games a player's numbers are counted from, the latest first; raises Refused."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    request = pb.ListPlayerGamesRequest(player_id=player, page_size=200)
    while True:
        page = await caller.call("lobby", stub.ListPlayerGames, request)
        for game in page.games:
            yield game
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def set_listed(caller: Caller, game: str, *, listed: bool) -> None:
    """Be on a game's leaderboard or not; raises Refused."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    request = pb.SetListedRequest(variant=GAMES[game], listed=listed)
    await caller.call("lobby", stub.SetListed, request)


def tell(found: pb.GetStatisticsResponse, *, as_json: bool) -> None:
    """Statistics for people, or as JSON."""
    if as_json:
        emit(MessageToDict(found, preserving_proto_field_name=True))
        return
    rows = []
    for game in found.games:
        rows.append((NAMES[game.variant], "people", *cells(game.variant, game.people)))
        if game.HasField("with_bots"):
            rows.append((NAMES[game.variant], "with bots", *cells(game.variant, game.with_bots)))
    show(grid(("game", "played", "games", "firsts", "duraks", "points", "chips"), rows))
    listed = [NAMES[game.variant] for game in found.games if game.listed]
    show([f"on the leaderboards of: {', '.join(listed) or 'no game'}"])


def cells(variant: int, numbers: pb.Numbers) -> tuple[str, ...]:
    """A player's numbers in a game: games, firsts, duraks, points, chips won or lost."""
    durak, rami, azi = (variant == GAMES[name] for name in ("durak", "rami", "azi"))
    return (
        str(numbers.games),
        str(numbers.firsts),
        str(numbers.duraks) if durak else "-",
        str(numbers.points) if rami else "-",
        f"{numbers.chips_out - numbers.chips_in:+}" if azi else "-",
    )
