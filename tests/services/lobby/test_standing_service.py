"""Statistics and leaderboards over the wire: what a game adds, who sees it, what operators do."""

import asyncio
from typing import Any

import pytest
from kozyr.game.v1 import game_pb2, variant_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.lobby.v1 import standing_pb2 as pb

from services.kernel.errors import Kind
from services.lobby import standing
from services.lobby.periods import Period
from services.runtime.access import LOBBY
from tests.services.lobby.hall import Guest, Hall, azi, durak, full_table, is_in, report

AZI, DURAK, RAMI = (variant_pb2.VARIANT_AZI, variant_pb2.VARIANT_DURAK, variant_pb2.VARIANT_RAMI)
PLAYING = lobby_pb2.TABLE_STATE_PLAYING
NOWHERE = "00000000-0000-7000-8000-000000000000"


async def played(
    hall: Hall, rules: lobby_pb2.TableRules, guests: list[Guest], *stacks: int, **result: Any
) -> lobby_pb2.ReportGameRequest:
    """A game at a new table that ended like this, and was told so; what was told."""
    table = await full_table(guests[0], rules, *guests[1:])
    table = await guests[0].until(table.table_id, is_in(PLAYING))
    told = report(table, *stacks, **result)
    await hall.staff("game", "game").call(told)
    for guest in guests:
        await guest.call(lobby_pb2.LeaveSeatRequest(table_id=table.table_id))
    return told


async def numbers(guest: Guest, player_id: str = "") -> dict[int, pb.GameStatistics]:
    """What somebody is shown of a player's statistics."""
    reply = await guest.call(pb.GetStatisticsRequest(player_id=player_id))
    return {game.variant: game for game in reply.games}


async def board(guest: Guest, variant: Any, **asked: Any) -> list[tuple[int, str]]:
    """Ranks and names on a leaderboard, read page by page."""
    request, found = pb.ListLeadersRequest(variant=variant, page_size=2, **asked), []
    while True:
        page = await guest.call(request)
        found += [(leader.rank, leader.display_name) for leader in page.leaders]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_a_game_adds_to_its_players_numbers_once(hall: Hall) -> None:
    """Told five times at once, and again later."""
    nino, dato, service = await hall.guest(), await hall.guest("Dato"), hall.staff("game", "game")
    table = await full_table(nino, azi(), dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    told = report(table, 350, 50, winner=0)
    await asyncio.gather(*(service.call(told) for _ in range(5)))
    await service.call(told)
    mine = (await numbers(nino))[AZI]
    assert mine.people == pb.Numbers(games=1, firsts=1, chips_in=200, chips_out=350)
    assert mine.with_bots == pb.Numbers()
    lines = (await nino.call(pb.ListPlayerGamesRequest())).games
    (line,) = lines
    assert (line.player_id, line.game_id, line.table_id) == (
        *(nino.player_id, table.game_id, table.table_id),
    )
    assert (line.variant, line.counts, line.people, line.first, line.place) == (
        *(AZI, True, True, True, 0),
    )
    assert (line.chips_in, line.chips_out) == (200, 350)
    assert line.begin_time.ToMicroseconds() <= line.end_time.ToMicroseconds()
    assert (await numbers(dato))[AZI].people.chips_out == 50


async def test_durak_and_rami_count_what_they_are_about(hall: Hall) -> None:
    """Firsts and duraks, null deals apart; matches and points."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    pair = [nino, dato]
    await played(hall, durak(), pair, 0, 0, winner=0, durak=1)
    await played(hall, durak(), pair, 0, 0, winner=1, durak=0)
    await played(hall, durak(), pair, 0, 0, null=True)
    rami = lobby_pb2.TableRules(seats=2)
    rami.options.rami.SetInParent()
    table = await full_table(nino, rami, dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    told = report(table, 0, 0, winner=1)
    told.result.seats[0].points, told.result.seats[1].points = 40, 103
    await hall.staff("game", "game").call(told)
    mine, his = await numbers(nino), await numbers(dato)
    assert mine[DURAK].people == pb.Numbers(games=2, firsts=1, duraks=1, nulls=1)
    assert mine[RAMI].people == pb.Numbers(games=1, points=40)
    assert his[RAMI].people == pb.Numbers(games=1, firsts=1, points=103)


async def test_games_with_bots_are_told_apart_and_on_no_leaderboard(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody climbs by beating bots; bots themselves have no numbers."""
    monkeypatch.setattr(standing, "DURAK_GAMES_MIN", dict.fromkeys(Period, 1))
    nino, service = await hall.guest(), hall.staff("game", "game")
    table = (await nino.call(lobby_pb2.CreateTableRequest(rules=durak()))).table
    bot = lobby_pb2.AddBotRequest(table_id=table.table_id, level=variant_pb2.BOT_LEVEL_EASY)
    await nino.call(bot)
    await nino.call(lobby_pb2.SetReadyRequest(table_id=table.table_id, ready=True))
    table = await nino.until(table.table_id, is_in(PLAYING))
    await service.call(report(table, 0, 0, winner=0, durak=1))
    mine = (await numbers(nino))[DURAK]
    assert (mine.people, mine.with_bots) == (pb.Numbers(), pb.Numbers(games=1, firsts=1))
    assert await board(nino, DURAK) == []
    asked = pb.ListGameLinesRequest(game_ids=[table.game_id])
    lines = (await hall.staff().call(asked)).lines
    assert [line.player_id for line in lines] == [nino.player_id]


async def test_a_cancelled_game_counts_for_nobody(hall: Hall) -> None:
    """It stands among one's games as what it is."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    table = await full_table(nino, azi(), dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    cancelled = lobby_pb2.ReportGameRequest(
        table_id=table.table_id, game_id=table.game_id, stage=view_pb2.STAGE_CANCELLED
    )
    await hall.staff("game", "game").call(cancelled)
    (line,) = (await dato.call(pb.ListPlayerGamesRequest())).games
    assert (line.finished, line.counts, line.chips_in) == (False, False, 0)
    assert (await numbers(dato))[AZI].people == pb.Numbers()


async def test_a_report_the_table_refuses_counts_for_nobody(hall: Hall) -> None:
    """Seats of others, or another game than the table plays."""
    nino, dato, service = await hall.guest(), await hall.guest("Dato"), hall.staff("game", "game")
    table = await full_table(nino, durak(), dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    odd = report(table, 0, 0, winner=0)
    odd.result.seats[1].player_id = NOWHERE
    assert (await service.refused(odd)).kind is Kind.INVALID
    other = report(table, 0, 0, winner=0)
    other.game_id = NOWHERE
    assert (await service.refused(other)).reason == "NOT_THE_TABLES_GAME"
    for guest in (nino, dato):
        assert (await guest.call(pb.ListPlayerGamesRequest())).games == []


async def test_others_see_what_one_lets_be_seen(hall: Hall) -> None:
    """Durak and Rami unless he says no, chips only if he says yes; games with bots never. Operators
    see all."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    await played(hall, azi(), [nino, dato], 350, 50, winner=0)
    shown = await numbers(dato, nino.player_id)
    assert set(shown) == {DURAK, RAMI}
    assert not any(game.HasField("with_bots") for game in shown.values())
    assert await board(dato, AZI) == []
    for listed in (True, False):
        for variant in (AZI, DURAK):
            await nino.call(pb.SetListedRequest(variant=variant, listed=listed))
        shown = await numbers(dato, nino.player_id)
        assert set(shown) == ({AZI, DURAK, RAMI} if listed else {RAMI})
        assert await board(dato, AZI) == ([(1, "Nino")] if listed else [])
    mine = await numbers(nino, nino.player_id)
    assert [game.listed for game in mine.values()] == [False, False, True]
    assert mine[AZI].people.chips_out == 350
    assert await numbers(hall.staff(), nino.player_id) == mine
    eka = await hall.guest("Eka")
    assert await numbers(dato, NOWHERE) == await numbers(dato, eka.player_id)


async def test_equals_share_a_rank_over_pages(hall: Hall) -> None:
    """Three won as much in as many games, one less: 1, 1, 1, 4, two a page."""
    people = [await hall.guest(name) for name in ("Ana", "Bela", "Dato", "Eka", "Gia")]
    for guest in people:
        await guest.call(pb.SetListedRequest(variant=AZI, listed=True))
    for guest, won in zip(people[:4], (30, 30, 30, 10), strict=True):
        await played(hall, azi(), [guest, people[4]], 200 + won, 200 - won, winner=0)
    found = await board(people[0], AZI)
    assert [rank for rank, _ in found] == [1, 1, 1, 4, 5]
    assert {name for _, name in found[:3]} == {"Ana", "Bela", "Dato"}
    assert [name for _, name in found[3:]] == ["Eka", "Gia"]
    for period in (pb.PERIOD_MONTH, pb.PERIOD_WEEK):
        assert await board(people[0], AZI, period=period) == found
    page = await people[0].call(pb.ListLeadersRequest(variant=AZI, page_size=2))
    wrong = pb.ListLeadersRequest(variant=RAMI, page_token=page.next_page_token)
    assert (await people[0].refused(wrong)).reason == "BAD_TOKEN"
    durak_page = await people[0].call(pb.ListLeadersRequest(variant=DURAK, period=pb.PERIOD_WEEK))
    assert durak_page.games_min == 5
    assert durak_page.period_begin_time.seconds % 86_400 == 0
    assert not page.HasField("period_begin_time")


async def test_an_operator_lets_a_game_not_count(hall: Hall) -> None:
    """For nobody, and again; a game nobody knows is refused."""
    nino, dato, olga = await hall.guest(), await hall.guest("Dato"), hall.staff()
    told = await played(hall, durak(), [nino, dato], 0, 0, winner=0, durak=1)
    strike = pb.StrikeGameRequest(game_id=told.game_id, struck=True)
    assert (await olga.call(strike)).lines == 2
    assert (await numbers(nino))[DURAK].people == pb.Numbers()
    (line,) = (await dato.call(pb.ListPlayerGamesRequest(variant=DURAK))).games
    assert (line.struck, line.counts) == (True, False)
    await olga.call(pb.StrikeGameRequest(game_id=told.game_id))
    assert (await numbers(nino))[DURAK].people.games == 1
    unknown = pb.StrikeGameRequest(game_id=NOWHERE, struck=True)
    assert (await olga.refused(unknown)).reason == "GAME_NOT_COUNTED"


async def test_an_end_an_older_release_took_is_counted_from_the_games_list(hall: Hall) -> None:
    """Once, with its own times; a game that was counted stays as it is."""
    nino, dato, olga = await hall.guest(), await hall.guest("Dato"), hall.staff()
    told = await played(hall, azi(), [nino, dato], 350, 50, winner=0)
    game = game_pb2.GameSummary(
        game_id="01a22cc6-26e5-7e98-9ebd-ab6750566489",
        table_id=told.table_id,
        variant=AZI,
        stage=view_pb2.STAGE_FINISHED,
        seats=[view_pb2.GameSeat(player_id=guest.player_id) for guest in (nino, dato)],
        result=told.result,
    )
    game.opened_time.FromSeconds(1_700_000_000)
    game.ended_time.FromSeconds(1_700_000_060)
    for _ in range(2):
        await olga.call(pb.RecordGameRequest(game=game))
    game.game_id = told.game_id
    await olga.call(pb.RecordGameRequest(game=game))
    assert (await numbers(nino))[AZI].people == pb.Numbers(
        games=2, firsts=2, chips_in=400, chips_out=700
    )
    old = (await nino.call(pb.ListPlayerGamesRequest(page_size=1))).next_page_token
    (line,) = (await nino.call(pb.ListPlayerGamesRequest(page_token=old))).games
    assert (line.begin_time.seconds, line.end_time.seconds) == (1_700_000_000, 1_700_000_060)
    reply = await olga.call(pb.VerifyStandingsRequest(page_size=1))
    rest = await olga.call(pb.VerifyStandingsRequest(page_token=reply.next_page_token))
    assert (reply.players, rest.players) == (1, 1)
    assert [*reply.differing_player_ids, *rest.differing_player_ids] == []


async def test_an_erased_player_is_on_no_board(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """His opponents' numbers stay as they are."""
    monkeypatch.setattr(standing, "DURAK_GAMES_MIN", dict.fromkeys(Period, 1))
    nino, dato = await hall.guest(), await hall.guest("Dato")
    await played(hall, durak(), [nino, dato], 0, 0, winner=0, durak=1)
    assert await board(dato, DURAK) == [(1, "Nino"), (2, "Dato")]
    await nino.call(identity_pb2.ErasePlayerRequest(confirm_name="Nino", give_up_chips=True))
    assert await board(dato, DURAK) == [(1, "Dato")]
    assert (await numbers(dato))[DURAK].people.games == 1
    refused = await nino.refused(pb.SetListedRequest(variant=AZI, listed=True))
    assert refused.reason == "BEING_ERASED"
    assert (await nino.call(pb.ListPlayerGamesRequest())).games == []


async def test_who_may_call_what(hall: Hall) -> None:
    """Strangers and services nothing; players no more than is theirs."""
    nino, dato, stranger = await hall.guest(), await hall.guest("Dato"), hall.caller(None)
    everybody: list[Any] = [pb.GetStatisticsRequest(), pb.ListLeadersRequest(variant=RAMI)]
    own: list[Any] = [pb.ListPlayerGamesRequest(), pb.SetListedRequest(variant=RAMI)]
    operators: list[Any] = [
        *(pb.VerifyStandingsRequest(), pb.ListGameLinesRequest(game_ids=[NOWHERE])),
        *(pb.RecordGameRequest(), pb.StrikeGameRequest(game_id=NOWHERE)),
    ]
    names = {m.rpartition("/")[2] for m in LOBBY if "StandingService" in m}
    requests = everybody + own + operators
    assert {r.DESCRIPTOR.name.removesuffix("Request") for r in requests} == names
    for request in requests:
        assert (await stranger.refused(request)).reason == "TOKEN_MISSING"
        assert (await hall.staff("game", "game").refused(request)).reason == "ROLE_NOT_ALLOWED"
    for request in operators:
        assert (await nino.refused(request)).reason == "ROLE_NOT_ALLOWED"
    refused = await dato.refused(pb.ListPlayerGamesRequest(player_id=nino.player_id))
    assert (refused.kind, refused.reason) == (Kind.DENIED, "NOT_YOURS")
    assert (await hall.staff().refused(own[1])).reason == "ROLE_NOT_ALLOWED"


async def test_each_field_that_is_wrong_is_named(hall: Hall) -> None:
    """Players, games, kinds, pages."""
    nino, olga = await hall.guest(), hall.staff()
    game = game_pb2.GameSummary(
        game_id=NOWHERE, table_id=NOWHERE, variant=AZI, stage=view_pb2.STAGE_CANCELLED
    )
    cases: list[tuple[Guest, Any, str]] = [
        (nino, pb.GetStatisticsRequest(player_id="x"), "player_id"),
        (olga, pb.GetStatisticsRequest(), "player_id"),
        (olga, pb.ListPlayerGamesRequest(), "player_id"),
        (nino, pb.ListPlayerGamesRequest(page_size=-1), "page_size"),
        (nino, pb.ListPlayerGamesRequest(page_token="x"), "page_token"),
        (nino, pb.ListLeadersRequest(), "variant"),
        (nino, pb.ListLeadersRequest(variant=AZI, page_size=-1), "page_size"),
        (nino, pb.ListLeadersRequest(variant=AZI, page_token="x"), "page_token"),
        (nino, pb.SetListedRequest(), "variant"),
        (olga, pb.VerifyStandingsRequest(page_size=-1), "page_size"),
        (olga, pb.VerifyStandingsRequest(page_token="x"), "page_token"),
        (olga, pb.ListGameLinesRequest(), "game_ids"),
        (olga, pb.ListGameLinesRequest(game_ids=[NOWHERE] * 101), "game_ids"),
        (olga, pb.ListGameLinesRequest(game_ids=[NOWHERE, "x"]), "game_ids[1]"),
        (olga, pb.StrikeGameRequest(), "game_id"),
        (olga, pb.RecordGameRequest(), "game"),
        (olga, pb.RecordGameRequest(game=game), "game.opened_time"),
        (olga, recorded(game, stage=view_pb2.STAGE_PLAYING), "game.stage"),
        (olga, recorded(game, stage=view_pb2.STAGE_FINISHED), "game.result"),
        (olga, recorded(game, variant=0), "game.variant"),
        (olga, recorded(game, game_id="x"), "game.game_id"),
        (olga, recorded(game, table_id=""), "game.table_id"),
        (olga, with_a_nobody(game), "game.result.seats[0].player_id"),
    ]
    for guest, request, field in cases:
        refused = await guest.refused(request)
        assert refused.kind is Kind.INVALID, request
        assert [each.field for each in refused.fields] == [field], request


def with_a_nobody(game: game_pb2.GameSummary) -> pb.RecordGameRequest:
    """A finished game to be counted whose result names nobody."""
    request = recorded(game, stage=view_pb2.STAGE_FINISHED)
    request.game.result.seats.add(player_id="x")
    return request


def recorded(game: game_pb2.GameSummary, **changes: Any) -> pb.RecordGameRequest:
    """A game to be counted, with other fields."""
    request = pb.RecordGameRequest(game=game)
    for name, value in changes.items():
        setattr(request.game, name, value)
    return request
