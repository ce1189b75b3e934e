"""StandingService: one method an RPC."""

from typing import Any
from uuid import UUID

import grpc
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import standing_pb2 as pb
from kozyr.lobby.v1.standing_pb2_grpc import StandingServiceServicer

from services.kernel.errors import invalid, not_found
from services.lobby.model import Variant
from services.lobby.periods import Period
from services.lobby.players import Players
from services.lobby.reports import listed_end
from services.lobby.standing import Numbers, PlayerGame, games_min
from services.lobby.standings import Leader, Standings, Statistics
from services.runtime import call, validate
from services.runtime.auth import Role
from services.runtime.moments import timestamp
from services.runtime.seal import Field, open_page, seal_page

LEADERS_DEFAULT = 20
LEADERS_MAX = 100
GAMES_MAX = 100
"""The most games whose lines one call asks for."""

Context = grpc.aio.ServicerContext[Any, Any]


class Standing(StandingServiceServicer):
    """One method an RPC; who may call it is decided before, by the access table."""

    def __init__(self, standings: Standings, players: Players, seal_key: bytes) -> None:
        self._standings = standings
        self._players = players
        self._seal_key = seal_key

    async def GetStatistics(
        self, request: pb.GetStatisticsRequest, context: Context
    ) -> pb.GetStatisticsResponse:
        """A player's numbers: all of them, or what others may see."""
        player = validate.optional_uuid("player_id", request.player_id)
        if player is None or call.caller().role is not Role.PLAYER:
            player = call.whose(request.player_id)
        whole = call.caller().role is not Role.PLAYER or player == call.player()
        found = await self._standings.statistics(player)
        return pb.GetStatisticsResponse(
            games=[_statistics(each, whole=whole) for each in found if whole or each.listed],
        )

    async def ListPlayerGames(
        self, request: pb.ListPlayerGamesRequest, context: Context
    ) -> pb.ListPlayerGamesResponse:
        """A page of the games a player's numbers are counted from."""
        player, size = call.whose(request.player_id), validate.page_size(request.page_size)
        variant = Variant(request.variant) if request.variant else None
        bound = (str(player), int(request.variant))
        fields = open_page(self._seal_key, "player games", bound, request.page_token)
        before = (int(fields[0] or 0), UUID(str(fields[1]))) if fields else None
        found = await self._standings.games(player, variant, before, size + 1)
        page = pb.ListPlayerGamesResponse(games=[_player_game(line) for line in found[:size]])
        if len(found) > size:
            last = (found[size - 1].ended_at, str(found[size - 1].game))
            page.next_page_token = seal_page(self._seal_key, "player games", bound, last)
        return page

    async def ListLeaders(
        self, request: pb.ListLeadersRequest, context: Context
    ) -> pb.ListLeadersResponse:
        """A page of a leaderboard. Its token carries the last one's place, so that no page costs
        more than the first."""
        variant = Variant(validate.choice("variant", request.variant, tuple(Variant)))
        period = Period(request.period or Period.ALL)
        size = validate.page_size(request.page_size, default=LEADERS_DEFAULT, high=LEADERS_MAX)
        bound = (variant.value, period.value)
        fields = open_page(self._seal_key, "leaders", bound, request.page_token)
        after, rank, place = _place(fields) if fields else (None, 0, 0)
        since, found = await self._standings.leaders(variant, period, after, size + 1)
        names = await self._players.find(leader.player for leader in found[:size])
        page = pb.ListLeadersResponse(games_min=games_min(variant, period))
        if since:
            page.period_begin_time.CopyFrom(timestamp(since))
        last = after
        for leader in found[:size]:
            place += 1
            rank = rank if last is not None and leader.measures == last.measures else place
            last = leader
            known = names.get(leader.player)
            page.leaders.add(
                rank=rank,
                player_id=str(leader.player),
                display_name=known.name if known else "",
                numbers=_numbers(leader.numbers),
            )
        if len(found) > size and last is not None:
            marks: tuple[Field, ...] = (*last.measures, str(last.player), rank, place)
            page.next_page_token = seal_page(self._seal_key, "leaders", bound, marks)
        return page

    async def SetListed(
        self, request: pb.SetListedRequest, context: Context
    ) -> pb.SetListedResponse:
        """Be on a leaderboard or not."""
        variant = Variant(validate.choice("variant", request.variant, tuple(Variant)))
        player = call.player()
        await self._standings.set_listed(player, variant, listed=request.listed)
        return pb.SetListedResponse()

    async def VerifyStandings(
        self, request: pb.VerifyStandingsRequest, context: Context
    ) -> pb.VerifyStandingsResponse:
        """Look at a page of players, and count anew what differs if that is asked for."""
        size = validate.page_size(request.page_size)
        fields = open_page(self._seal_key, "standings", (), request.page_token)
        after = UUID(str(fields[0])) if fields else None
        players = await self._standings.counted_players(after, size)
        reply = pb.VerifyStandingsResponse(players=len(players))
        for player in players:
            if not await self._standings.verify(player, repair=request.repair):
                reply.differing_player_ids.append(str(player))
        if len(players) == size:
            last = (str(players[-1]),)
            reply.next_page_token = seal_page(self._seal_key, "standings", (), last)
        return reply

    async def ListGameLines(
        self, request: pb.ListGameLinesRequest, context: Context
    ) -> pb.ListGameLinesResponse:
        """The lines of games."""
        if not 1 <= len(request.game_ids) <= GAMES_MAX:
            raise invalid("game_ids", f"1 to {GAMES_MAX} of them")
        games = [validate.uuid(f"game_ids[{n}]", each) for n, each in enumerate(request.game_ids)]
        lines = await self._standings.lines(games)
        return pb.ListGameLinesResponse(lines=[_player_game(line) for line in lines])

    async def RecordGame(
        self, request: pb.RecordGameRequest, context: Context
    ) -> pb.RecordGameResponse:
        """Count a game an older release did not."""
        validate.present(request, "game")
        end = listed_end(request.game)
        await self._standings.record(end)
        call.note(game=end.game, table=end.table_id)
        return pb.RecordGameResponse()

    async def StrikeGame(
        self, request: pb.StrikeGameRequest, context: Context
    ) -> pb.StrikeGameResponse:
        """Let a game count for nobody, or again."""
        game = validate.uuid("game_id", request.game_id)
        if not await self._standings.lines([game]):
            raise not_found("GAME_NOT_COUNTED", "no game of this id was counted")
        lines = await self._standings.strike(game, struck=request.struck)
        call.note(game=game)
        return pb.StrikeGameResponse(lines=lines)


def _place(fields: tuple[Field, ...]) -> tuple[Leader, int, int]:
    """The last leader of the page before, his rank, and how many there were up to him."""
    first, second, third, player, rank, place = fields
    measures = (int(first or 0), int(second or 0), int(third or 0))
    return Leader(UUID(str(player)), measures, Numbers()), int(rank or 0), int(place or 0)


def _statistics(found: Statistics, *, whole: bool) -> pb.GameStatistics:
    return pb.GameStatistics(
        variant=variant_pb2.Variant.ValueType(found.variant),
        listed=found.listed,
        people=_numbers(found.people),
        with_bots=_numbers(found.with_bots) if whole else None,
    )


def _numbers(numbers: Numbers) -> pb.Numbers:
    return pb.Numbers(
        games=numbers.games,
        firsts=numbers.firsts,
        duraks=numbers.duraks,
        nulls=numbers.nulls,
        points=numbers.points,
        chips_in=numbers.chips_in,
        chips_out=numbers.chips_out,
    )


def _player_game(line: PlayerGame) -> pb.PlayerGame:
    return pb.PlayerGame(
        player_id=str(line.player),
        game_id=str(line.game),
        table_id=str(line.table_id),
        variant=variant_pb2.Variant.ValueType(line.variant),
        begin_time=timestamp(line.begun_at),
        end_time=timestamp(line.ended_at),
        counts=line.counts,
        finished=line.finished,
        struck=line.struck,
        people=line.people,
        place=line.place,
        points=line.points,
        first=line.first,
        durak=line.durak,
        null=line.nulled,
        chips_in=line.chips_in,
        chips_out=line.chips_out,
    )
