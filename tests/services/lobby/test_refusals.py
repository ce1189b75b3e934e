"""Every RPC of LobbyService refuses what it must, with one reason, and names the field."""

from typing import Any

import pytest
from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.errors import Kind
from services.runtime.access import LOBBY
from tests.services.lobby.hall import Guest, Hall, azi, durak, full_table, is_in, report

NOWHERE = "00000000-0000-7000-8000-000000000000"
NOBODY = "00000000-0000-7000-8000-00000000000a"
EASY = variant_pb2.BOT_LEVEL_EASY
INVITED = pb.VISIBILITY_INVITED
AT_A_TABLE = {
    "GetTable": pb.GetTableRequest(),
    "TakeSeat": pb.TakeSeatRequest(),
    "LeaveSeat": pb.LeaveSeatRequest(),
    "AddBot": pb.AddBotRequest(level=EASY),
    "RemoveBot": pb.RemoveBotRequest(),
    "SetReady": pb.SetReadyRequest(ready=True),
    "StartGame": pb.StartGameRequest(),
    "Rematch": pb.RematchRequest(),
    "KickPlayer": pb.KickPlayerRequest(player_id=NOBODY, kick_reason=pb.KICK_REASON_OTHER),
    "InvitePlayer": pb.InvitePlayerRequest(player_id=NOBODY),
    "UninvitePlayer": pb.UninvitePlayerRequest(player_id=NOBODY),
    "HandOverHost": pb.HandOverHostRequest(player_id=NOBODY),
    "TopUp": pb.TopUpRequest(chips=1),
    "CloseTable": pb.CloseTableRequest(),
}
ELSEWHERE = {
    "CreateTable": pb.CreateTableRequest(rules=durak()),
    "ListTables": pb.ListTablesRequest(),
    "ListTableEvents": pb.ListTableEventsRequest(),
    "QuickPlay": pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI),
}
REPORT = pb.ReportGameRequest(table_id=NOWHERE, game_id=NOWHERE, stage=view_pb2.STAGE_CANCELLED)
STREAMS, PUBLIC = {"WatchTables"}, {"ListVariants"}


def copy(request: Any, **changes: Any) -> Any:
    """A request of the same kind with other fields."""
    other = type(request)()
    other.CopyFrom(request)
    other.MergeFrom(type(request)(**changes))
    return other


async def expect(guest: Guest, request: Any, field: str) -> None:
    """The request is refused for this field."""
    refused = await guest.refused(request)
    assert refused.kind is Kind.INVALID, (request, refused.reason)
    assert [f.field for f in refused.fields] == [field], request


async def test_who_may_not_call_is_refused_before_anything_else(hall: Hall) -> None:
    """Strangers, and callers of another role; whether the table exists does not matter."""
    stranger, service = hall.caller(None), hall.staff("ai", "ai")
    requests = {**AT_A_TABLE, **ELSEWHERE, "ReportGame": REPORT}
    names = {m.rpartition("/")[2] for m in LOBBY if "LobbyService" in m}
    assert set(requests) | STREAMS | PUBLIC == names
    for request in requests.values():
        missing = await stranger.refused(copy(request))
        assert (missing.kind, missing.reason) == (Kind.UNAUTHENTICATED, "TOKEN_MISSING")
        wrong = await service.refused(copy(request))
        assert (wrong.kind, wrong.reason) == (Kind.DENIED, "ROLE_NOT_ALLOWED")
    nino = await hall.guest()
    assert (await nino.refused(copy(REPORT))).reason == "ROLE_NOT_ALLOWED"
    odd = hall.caller(hall.token("players", "nobody"))
    at_a_table = [copy(request, table_id=NOWHERE) for request in AT_A_TABLE.values()]
    for request in (*at_a_table, *ELSEWHERE.values()):
        assert (await odd.refused(copy(request))).reason == "TOKEN_INVALID"


async def test_a_table_id_must_be_one(hall: Hall) -> None:
    """Missing, malformed, and of no table."""
    nino = await hall.guest()
    for request in AT_A_TABLE.values():
        await expect(nino, copy(request), "table_id")
        await expect(nino, copy(request, table_id="x"), "table_id")
        await expect(nino, copy(request, table_id=NOWHERE.upper().replace("0", "A")), "table_id")
        unknown = await nino.refused(copy(request, table_id=NOWHERE))
        assert (unknown.kind, unknown.reason) == (Kind.NOT_FOUND, "TABLE_NOT_FOUND")
    for table_id, reason in (("x", "INVALID_FIELD"), (NOWHERE, "TABLE_NOT_FOUND")):
        watch = pb.WatchTablesRequest(table_id=table_id)
        with pytest.raises(Exception, match=reason):
            await anext(nino.watch(watch))


async def test_a_change_needs_a_request_id(hall: Hall) -> None:
    """Every RPC that changes something."""
    nino = await hall.guest()
    for request in (*AT_A_TABLE.values(), *ELSEWHERE.values()):
        if "request_id" not in request.DESCRIPTOR.fields_by_name:
            continue
        name = request.DESCRIPTOR.name.removesuffix("Request")
        with pytest.raises(Exception, match="request_id: is required"):
            await nino.client.call(getattr(nino.lobby, name), copy(request))


async def test_table_rules_are_checked_field_by_field(hall: Hall) -> None:
    """Bounds of the game, of the house, and of the options."""
    nino = await hall.guest()
    fee = durak()
    fee.options.azi.entry_fee = 0
    odd = azi()
    odd.options.azi.deal_size = 5
    for rules, field in (
        (None, "rules"),
        (pb.TableRules(seats=2), "rules.options"),
        (durak(1), "rules.seats"),
        (durak(7), "rules.seats"),
        (durak(0), "rules.seats"),
        (durak(turn_ms=999), "rules.turn_ms"),
        (durak(turn_ms=600_001), "rules.turn_ms"),
        (durak(turn_ms=-1), "rules.turn_ms"),
        (durak(time_bank_ms=-1), "rules.time_bank_ms"),
        (durak(time_bank_ms=600_001), "rules.time_bank_ms"),
        (durak(spectators=True, spectator_delay=-1), "rules.spectator_delay"),
        (durak(spectators=True, spectator_delay=51), "rules.spectator_delay"),
        (durak(spectator_delay=1), "rules.spectator_delay"),
        (durak(absent_policy=variant_pb2.ABSENT_POLICY_BOT, bot_after=-1), "rules.bot_after"),
        (durak(absent_policy=variant_pb2.ABSENT_POLICY_BOT, bot_after=11), "rules.bot_after"),
        (durak(bot_after=1), "rules.bot_after"),
        (durak(buy_in_min=1), "rules.buy_in_min"),
        (durak(no_bots=True, absent_policy=2), "rules.absent_policy"),
        (durak(invited_player_ids=[NOBODY]), "rules.invited_player_ids"),
        (durak(visibility=INVITED, invited_player_ids=["x"]), "rules.invited_player_ids[0]"),
        (
            durak(visibility=INVITED, invited_player_ids=[nino.player_id, NOBODY]),
            "rules.invited_player_ids[1]",
        ),
        (durak(visibility=INVITED, invited_player_ids=[NOBODY] * 33), "rules.invited_player_ids"),
        (durak(buy_in_max=1), "rules.buy_in_max"),
        (azi(buy_in_min=9), "rules.buy_in_min"),
        (azi(buy_in_min=-1), "rules.buy_in_min"),
        (azi(buy_in_min=50, buy_in_max=49), "rules.buy_in_max"),
        (azi(buy_in_max=10**12 + 1), "rules.buy_in_max"),
        (fee, "rules.options.azi.entry_fee"),
        (odd, "rules.options.azi.deal_size"),
    ):
        await expect(nino, pb.CreateTableRequest(rules=rules), field)
    for chips in (-1, 10**12 + 1):
        await expect(nino, pb.CreateTableRequest(rules=azi(), buy_in=chips), "buy_in")
    huge = azi()
    huge.options.azi.entry_fee = 2**63 - 1
    await expect(nino, pb.CreateTableRequest(rules=huge), "rules.buy_in_min")


async def test_other_fields_are_checked(hall: Hall) -> None:
    """By every RPC that has one."""
    nino = await hall.guest()
    table = (await nino.call(pb.CreateTableRequest(rules=azi()))).table.table_id
    for request, field in (
        (pb.TakeSeatRequest(table_id=table, buy_in=-1), "buy_in"),
        (pb.AddBotRequest(table_id=table), "level"),
        (pb.AddBotRequest(table_id=table, level=EASY, seat=9), "seat"),
        (pb.AddBotRequest(table_id=table, level=EASY, buy_in=-1), "buy_in"),
        (pb.KickPlayerRequest(table_id=table, kick_reason=pb.KICK_REASON_OTHER), "player_id"),
        (pb.KickPlayerRequest(table_id=table, player_id=NOBODY), "kick_reason"),
        (pb.InvitePlayerRequest(table_id=table, player_id="x"), "player_id"),
        (pb.InvitePlayerRequest(table_id=table, player_id=NOBODY), "player_id"),
        (pb.UninvitePlayerRequest(table_id=table), "player_id"),
        (pb.HandOverHostRequest(table_id=table), "player_id"),
        (pb.TopUpRequest(table_id=table), "chips"),
        (pb.TopUpRequest(table_id=table, chips=-5), "chips"),
        (pb.TopUpRequest(table_id=table, chips=2**63 - 1), "chips"),
        (pb.QuickPlayRequest(), "variant"),
        (pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI, seats=5), "seats"),
        (pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI, seats=-1), "seats"),
        (pb.ListTablesRequest(page_size=-1), "page_size"),
        (pb.ListTablesRequest(page_token="?"), "page_token"),
    ):
        await expect(nino, request, field)
    await expect(hall.staff(), pb.ListTablesRequest(mine=True), "mine")


async def test_reports_are_checked(hall: Hall) -> None:
    """A report that does not fit the game changes nothing."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    game = hall.staff("game", "game")
    table = await full_table(nino, azi(), dato)
    table = await nino.until(table.table_id, is_in(pb.TABLE_STATE_PLAYING))
    good = report(table, 250, 150, winner=0)
    no_result = copy(good)
    no_result.ClearField("result")
    running = copy(good)
    running.stage = view_pb2.STAGE_PLAYING
    swapped, negative, beyond, short = copy(good), copy(good), copy(good), copy(good)
    swapped.result.seats[0].player_id = dato.player_id
    negative.result.seats[1].stack_after = -1
    beyond.result.winner = 2
    del short.result.seats[1]
    unordered = copy(good)
    unordered.result.seats[0].seat = 1
    for request, field in (
        (no_result, "result"),
        (running, "stage"),
        (swapped, "result.seats"),
        (negative, "result.seats[1].stack_after"),
        (beyond, "result.winner"),
        (short, "result.seats"),
        (unordered, "result.seats[0].seat"),
        (copy(good, left_player_ids=["x"]), "left_player_ids[0]"),
    ):
        await expect(game, request, field)
    other = copy(good)
    other.game_id = NOWHERE
    refused = await game.refused(other)
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "NOT_THE_TABLES_GAME")
    look = pb.GetTableRequest(table_id=table.table_id)
    assert (await nino.call(look)).table == table
    await game.call(good)
