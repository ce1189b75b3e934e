"""Who may come to a table, who is sent away and who stays, over the wire."""

from pathlib import Path

import pytest
from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.errors import Kind
from tests.services.lobby.hall import Guest, Hall, azi, durak, full_table, is_in, lobby_hall, report

INVITED = pb.VISIBILITY_INVITED
PLAYING, STARTING = pb.TABLE_STATE_PLAYING, pb.TABLE_STATE_STARTING


async def seen(guest: Guest, table_id: str) -> pb.Table:
    """The table as a guest sees it."""
    table: pb.Table = (await guest.call(pb.GetTableRequest(table_id=table_id))).table
    return table


async def test_only_who_is_invited_comes(hall: Hall) -> None:
    """The names are for those who sit there; an invitation is taken back, and the table is gone."""
    nino, dato, ana = [await hall.guest(name) for name in ("Nino", "Dato", "Ana")]
    rules = durak(3, visibility=INVITED, invited_player_ids=[dato.player_id, dato.player_id])
    made = (await nino.call(pb.CreateTableRequest(rules=rules))).table
    assert made.rules.visibility == INVITED
    assert list(made.rules.invited_player_ids) == [dato.player_id]
    assert made.invite_code == ""
    at = {"table_id": made.table_id}
    assert list((await seen(dato, made.table_id)).rules.invited_player_ids) == []
    for request in (pb.GetTableRequest(**at), pb.TakeSeatRequest(**at)):
        assert (await ana.refused(request)).reason == "TABLE_NOT_FOUND"
    await dato.call(pb.TakeSeatRequest(**at))
    await nino.call(pb.InvitePlayerRequest(player_id=ana.player_id, **at))
    assert (await seen(ana, made.table_id)).table_id == made.table_id
    watching = ana.watch(pb.WatchTablesRequest(**at))
    await anext(watching)
    await nino.call(pb.UninvitePlayerRequest(player_id=ana.player_id, **at))
    with pytest.raises(Exception, match="TABLE_NOT_FOUND"):
        await anext(watching)


async def test_a_bot_cannot_be_invited(hall: Hall) -> None:
    """Nor somebody who does not exist; the field is named."""
    nino = await hall.guest("Nino")
    made = (await nino.call(pb.CreateTableRequest(rules=durak(3, visibility=INVITED)))).table
    add = pb.AddBotRequest(table_id=made.table_id, level=variant_pb2.BOT_LEVEL_EASY)
    bot = (await nino.call(add)).table.seats[1].player_id
    refused = await nino.refused(pb.InvitePlayerRequest(table_id=made.table_id, player_id=bot))
    assert (refused.kind, refused.reason) == (Kind.INVALID, "NO_SUCH_PLAYER")


async def test_a_table_without_bots_names_the_rule(hall: Hall) -> None:
    """When somebody wants to add one."""
    nino = await hall.guest("Nino")
    made = (await nino.call(pb.CreateTableRequest(rules=durak(3, no_bots=True)))).table
    assert made.rules.no_bots
    add = pb.AddBotRequest(table_id=made.table_id, level=variant_pb2.BOT_LEVEL_EASY)
    refused = await nino.refused(add)
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "BOTS_NOT_ALLOWED")
    assert [f.field for f in refused.fields] == ["rules.no_bots"]


async def test_who_is_sent_away_is_told_why(hall: Hall) -> None:
    """In his view of a public table, and by a refusal at a private one; only he, and the host."""
    nino, dato, ana = [await hall.guest(name) for name in ("Nino", "Dato", "Ana")]
    reason = pb.KICK_REASON_SEAT_NEEDED
    for visibility in (pb.VISIBILITY_PUBLIC, pb.VISIBILITY_PRIVATE):
        made = (await nino.call(pb.CreateTableRequest(rules=durak(3, visibility=visibility)))).table
        at = {"table_id": made.table_id}
        take = pb.TakeSeatRequest(invite_code=made.invite_code, **at)
        await dato.call(take)
        watching = dato.watch(pb.WatchTablesRequest(**at))
        await anext(watching)
        away = pb.KickPlayerRequest(player_id=dato.player_id, kick_reason=reason, **at)
        after = (await nino.call(away)).table
        assert (await nino.call(away)).table == after
        assert list(after.kicked_player_ids) == [dato.player_id]
        take.request_id = ""
        again = await dato.refused(take)
        assert (again.kind, again.reason) == (Kind.DENIED, "KICKED")
        assert again.facts["kick_reason"] == "SEAT_NEEDED"
        if visibility == pb.VISIBILITY_PUBLIC:
            shown = await anext(watching)
            assert (shown.kicked, list(shown.kicked_player_ids)) == (reason, [])
            assert (await seen(ana, made.table_id)).kicked == pb.KICK_REASON_UNSPECIFIED
        else:
            with pytest.raises(Exception, match="KICKED"):
                await anext(watching)
        back = pb.InvitePlayerRequest(player_id=dato.player_id, **at)
        assert list((await nino.call(back)).table.kicked_player_ids) == []
        take.request_id = ""
        assert (await dato.call(take)).table.seats[1].player_id == dato.player_id


async def test_a_host_hands_over_and_may_be_sent_away_himself(hall: Hall) -> None:
    """What was asked twice acts once."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = (await nino.call(pb.CreateTableRequest(rules=durak(3)))).table
    at = {"table_id": table.table_id}
    await dato.call(pb.TakeSeatRequest(**at))
    over = pb.HandOverHostRequest(player_id=dato.player_id, **at)
    handed = (await nino.call(over)).table
    assert handed.host_id == dato.player_id
    assert (await nino.call(over)).table == handed
    reason = pb.KICK_REASON_ABSENT
    await dato.call(pb.KickPlayerRequest(player_id=nino.player_id, kick_reason=reason, **at))
    assert (await seen(nino, table.table_id)).kicked == reason


async def test_a_rematch_over_the_wire(tmp_path: Path) -> None:
    """Everybody comes back to a lobby that was restarted in between, and plays on with one call."""
    async with lobby_hall(tmp_path) as hall:
        nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
        table = await full_table(nino, azi(2), dato)
        table = await nino.until(table.table_id, is_in(PLAYING))
        ids = [guest.player_id for guest in (nino, dato)]
    async with lobby_hall(tmp_path) as hall:
        nino, dato = (hall.caller(hall.token("players", each), each) for each in ids)
        await hall.staff("game", "game").call(report(table, 395, 5, winner=0))
        again = pb.RematchRequest(table_id=table.table_id)
        poor = await dato.refused(again)
        assert poor.reason == "STACK_BELOW_ENTRY_FEE"
        await dato.call(pb.TopUpRequest(table_id=table.table_id, chips=200))
        assert [s.rematch for s in (await nino.call(again)).table.seats] == [True, False]
    async with lobby_hall(tmp_path) as hall:
        nino, dato = (hall.caller(hall.token("players", each), each) for each in ids)
        again.request_id = ""
        assert (await dato.call(again)).table.state == STARTING
        other = await nino.until(table.table_id, is_in(PLAYING))
        assert other.game_id != table.game_id
        assert [s.stack for s in other.seats] == [395, 205]


async def test_what_is_told_of_tables_one_was_invited_to(hall: Hall) -> None:
    """That one was; who else was is the others' own."""
    nino, dato, ana = [await hall.guest(name) for name in ("Nino", "Dato", "Ana")]
    named = [dato.player_id, ana.player_id]
    rules = durak(3, visibility=INVITED, invited_player_ids=named)
    table = (await nino.call(pb.CreateTableRequest(rules=rules))).table.table_id
    await nino.call(pb.UninvitePlayerRequest(table_id=table, player_id=dato.player_id))
    await nino.call(pb.InvitePlayerRequest(table_id=table, player_id=dato.player_id))
    await dato.call(pb.TakeSeatRequest(table_id=table))
    events = (await dato.call(pb.ListTableEventsRequest())).events
    names = ["TableOpened", "PlayerUninvited", "PlayerInvited", "SeatTaken"]
    assert [event.name for event in events] == names
    assert [event.own for event in events] == [False, False, False, True]
    assert ana.player_id not in "".join(event.content for event in events)
    (only,) = (await ana.call(pb.ListTableEventsRequest())).events
    assert (only.name, dato.player_id in only.content) == ("TableOpened", False)
    (first, *_) = (await nino.call(pb.ListTableEventsRequest())).events
    assert ana.player_id in first.content


async def test_a_cancelled_game_can_be_played_again(hall: Hall) -> None:
    """It was the last one all the same."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = await full_table(nino, durak(2), dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    ended = pb.ReportGameRequest(
        table_id=table.table_id, game_id=table.game_id, stage=view_pb2.STAGE_CANCELLED
    )
    await hall.staff("game", "game").call(ended)
    for guest in (nino, dato):
        table = (await guest.call(pb.RematchRequest(table_id=table.table_id))).table
    assert table.state == STARTING
