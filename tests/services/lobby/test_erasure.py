"""Erasing over the wire: who may, what is refused and why, what others see afterwards."""

import asyncio
from typing import Any

import pytest
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import identity_pb2 as pb
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import Kind, Refused, precondition, unavailable
from services.lobby.players import FORMER
from tests.services.lobby.hall import Guest, Hall, azi, durak, full_table, is_in
from tests.services.lobby.peers import WELCOME

EASY = variant_pb2.BOT_LEVEL_EASY
SHREDDED = pb.ERASURE_STEP_SHREDDED


def wish(name: str = "Nino", *, chips: bool = True, **others: Any) -> pb.ErasePlayerRequest:
    """A request to erase oneself, or the player who is named."""
    return pb.ErasePlayerRequest(confirm_name=name, give_up_chips=chips, **others)


async def refusal(guest: Guest, request: pb.ErasePlayerRequest) -> Refused:
    """How an erasure is refused; the player is there as before."""
    refused = await guest.refused(request)
    player = request.player_id or guest.player_id
    names = await guest.call(pb.ListPlayersRequest(player_ids=[player]))
    assert [p.display_name for p in names.players] == ["Nino"]
    return refused


async def test_a_player_erases_himself(hall: Hall) -> None:
    """Name, secret and tokens are gone; his chips went back; he is known as a former player."""
    nobody, dato = hall.caller(None), await hall.guest("Dato")
    made = await nobody.call(pb.SignUpRequest(display_name="Nino"))
    nino = hall.caller(made.tokens.access_token, made.player.player_id)
    hall.others.hall.texts[nino.player_id] = ["Hm."]
    done = (await nino.call(wish())).erasure
    assert (done.player_id, done.step, done.chips) == (nino.player_id, SHREDDED, WELCOME)
    assert done.asked_by == ""
    assert done.end_time.seconds > done.asked_time.seconds + 900
    assert hall.others.bank.balances[nino.player_id] == hall.others.bank.total() == 0
    assert hall.others.hall.texts == {}
    names = await dato.call(pb.ListPlayersRequest(player_ids=[nino.player_id, dato.player_id]))
    assert [(p.display_name, p.erased) for p in names.players] == [(FORMER, True), ("Dato", False)]
    sign_in = pb.SignInRequest(player_id=nino.player_id, secret=made.secret)
    assert (await nobody.refused(sign_in)).reason == "SIGN_IN_REFUSED"
    refresh = pb.RefreshRequest(refresh_token=made.tokens.refresh_token)
    assert (await nobody.refused(refresh)).reason == "REFRESH_TOKEN_INVALID"
    again = (await nino.call(wish("whoever"))).erasure
    assert again == done
    assert hall.others.bank.calls.count("Forfeit") == 1


async def test_who_still_has_a_token_sits_down_nowhere(hall: Hall) -> None:
    """Neither at a table of others nor at one of his own, nor by quick play."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    table = (await dato.call(lobby_pb2.CreateTableRequest(rules=durak()))).table
    await nino.call(wish())
    for request in (
        lobby_pb2.TakeSeatRequest(table_id=table.table_id),
        lobby_pb2.CreateTableRequest(rules=durak()),
        lobby_pb2.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI),
    ):
        refused = await nino.refused(request)
        assert (refused.kind, refused.reason) == (Kind.DENIED, "BEING_ERASED"), request


async def test_the_name_must_be_given(hall: Hall) -> None:
    """Another one, or none: the field is named, and nothing is done."""
    nino = await hall.guest()
    for name in ("", "nino", "Dato"):
        refused = await refusal(nino, wish(name))
        assert [f.field for f in refused.fields] == ["confirm_name"]
    assert hall.others.bank.balances[nino.player_id] == WELCOME
    decomposed = await hall.guest("Inês")
    assert (await decomposed.call(wish("Ine\u0302s"))).erasure.step == SHREDDED


async def test_who_sits_at_a_table_is_not_erased(hall: Hall) -> None:
    """Waiting or playing; the table is named. Once he has left, he is."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    table = await full_table(nino, azi(), dato)
    await nino.until(table.table_id, is_in(lobby_pb2.TABLE_STATE_PLAYING))
    refused = await refusal(nino, wish())
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "SEATED")
    assert refused.facts["table_id"] == table.table_id
    other = (await dato.call(lobby_pb2.CreateTableRequest(rules=durak()))).table
    tamar = await hall.guest("Nino")
    await tamar.call(lobby_pb2.TakeSeatRequest(table_id=other.table_id))
    assert (await refusal(tamar, wish())).facts["table_id"] == other.table_id
    await tamar.call(lobby_pb2.LeaveSeatRequest(table_id=other.table_id))
    assert (await tamar.call(wish())).erasure.step == SHREDDED


@pytest.mark.parametrize("reason", ["GAME_RUNNING", "DISPUTE_OPEN", "CLAIM_OPEN"])
async def test_what_the_games_refuse_is_handed_on(hall: Hall, reason: str) -> None:
    """With what it names; he can go on, and be erased when it is over."""
    nino = await hall.guest()
    hall.others.hall.refusing["CheckErasure"] = precondition(reason, "not now", dispute_id="d")
    refused = await refusal(nino, wish())
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, reason)
    assert refused.facts["dispute_id"] == "d"
    assert hall.others.bank.balances[nino.player_id] == WELCOME
    await nino.call(lobby_pb2.CreateTableRequest(rules=durak()))
    del hall.others.hall.refusing["CheckErasure"]
    assert (await refusal(nino, wish())).reason == "SEATED"


async def test_chips_are_given_up_knowingly(hall: Hall) -> None:
    """Without a word about them he is erased only when he has none."""
    nino = await hall.guest()
    refused = await refusal(nino, wish(chips=False))
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "CHIPS_LEFT")
    assert refused.facts["chips"] == str(WELCOME)
    hall.others.bank.balances[nino.player_id] = 0
    hall.others.bank.issued -= WELCOME
    assert (await nino.call(wish(chips=False))).erasure.chips == 0


async def test_a_service_that_is_away_is_waited_for(hall: Hall) -> None:
    """The call may be repeated, and need not be: the erasure is gone on with by itself."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    hall.others.hall.refusing["ErasePlayer"] = unavailable("AWAY", "away")
    refused = await nino.refused(wish())
    assert refused.kind in (Kind.UNAVAILABLE, Kind.CONFLICT)  # the channel asks again by itself
    profile = await nino.call(pb.GetProfileRequest())
    assert profile.erasure.step == pb.ERASURE_STEP_EMPTIED
    del hall.others.hall.refusing["ErasePlayer"]
    async with asyncio.timeout(10):
        asked = pb.ListPlayersRequest(player_ids=[nino.player_id])
        while not (await dato.call(asked)).players[0].erased:
            await asyncio.sleep(0.05)


async def test_operators_erase_on_request(hall: Hall) -> None:
    """By id and name; who asked stands in the list, and only operators read it."""
    nino, olga = await hall.guest(), hall.staff(subject="olga")
    refused = await refusal(olga, wish("Dato", player_id=nino.player_id))
    assert [f.field for f in refused.fields] == ["confirm_name"]
    request = wish(player_id=nino.player_id, leave_claims=True)
    assert (await olga.call(request)).erasure.asked_by == "olga"
    profile = await nino.call(pb.GetProfileRequest())
    assert (profile.player.display_name, profile.erasure.asked_by) == (FORMER, "")
    assert not profile.HasField("created_time")
    listed = (await olga.call(pb.ListErasuresRequest())).erasures
    assert [(e.player_id, e.asked_by) for e in listed] == [(nino.player_id, "olga")]
    nobody = "00000000-0000-7000-8000-000000000000"
    unknown = await olga.refused(wish(player_id=nobody))
    assert (unknown.kind, unknown.reason) == (Kind.NOT_FOUND, "PLAYER_NOT_FOUND")
    assert [f.field for f in (await olga.refused(wish())).fields] == ["player_id"]


async def test_nobody_erases_anybody_else(hall: Hall) -> None:
    """Players themselves alone, services nobody; strangers and players see no list."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    other = wish(player_id=nino.player_id)
    assert (await refusal(dato, other)).reason == "NOT_YOURS"
    assert (
        await dato.refused(pb.GetProfileRequest(player_id=nino.player_id))
    ).reason == "NOT_YOURS"
    events = lobby_pb2.ListTableEventsRequest(player_id=nino.player_id)
    assert (await dato.refused(events)).reason == "NOT_YOURS"
    assert (await refusal(nino, wish(leave_claims=True))).reason == "OPERATORS_ONLY"
    assert (await nino.refused(pb.ListErasuresRequest())).reason == "ROLE_NOT_ALLOWED"
    for caller, reason in (
        (hall.caller(None), "TOKEN_MISSING"),
        (hall.staff("game", "game"), "ROLE_NOT_ALLOWED"),
        (hall.staff("wallet", "wallet"), "ROLE_NOT_ALLOWED"),
    ):
        assert (await caller.refused(other)).reason == reason
        assert (await caller.refused(pb.GetProfileRequest())).reason == reason
        assert (await caller.refused(pb.ListErasuresRequest())).reason == reason


async def test_a_bot_is_nobody_to_erase(hall: Hall) -> None:
    """Its name is nobody's."""
    nino, olga = await hall.guest(), hall.staff()
    table = (await nino.call(lobby_pb2.CreateTableRequest(rules=durak(3)))).table
    table = (await nino.call(lobby_pb2.AddBotRequest(table_id=table.table_id, level=EASY))).table
    bot = table.seats[1]
    refused = await olga.refused(wish(bot.display_name, player_id=bot.player_id))
    assert refused.reason == "PLAYER_NOT_FOUND"


async def test_erasures_are_listed_page_by_page(hall: Hall) -> None:
    """The newest first, each once; what has not ended alone, if that is asked for."""
    olga, players = hall.staff(), []
    for _ in range(5):
        nino = await hall.guest()
        players.append(nino.player_id)
        await nino.call(wish())
    for unfinished in (False, True):
        found, token = [], ""
        while True:
            request = pb.ListErasuresRequest(page_size=2, page_token=token, open=unfinished)
            page = await olga.call(request)
            found += [erasure.player_id for erasure in page.erasures]
            token = page.next_page_token
            if not token:
                break
        assert found == players[::-1]


async def test_a_profile_tells_of_every_sign_in(hall: Hall) -> None:
    """When he signed up, and which sign-ins can be renewed; spent ones are none."""
    nobody = hall.caller(None)
    made = await nobody.call(pb.SignUpRequest(display_name="Nino"))
    nino = hall.caller(made.tokens.access_token, made.player.player_id)
    sign_in = pb.SignInRequest(player_id=nino.player_id, secret=made.secret)
    signed_in = await nobody.call(sign_in)
    await nobody.call(pb.RefreshRequest(refresh_token=signed_in.tokens.refresh_token))
    profile = await nino.call(pb.GetProfileRequest())
    assert (profile.player, len(profile.sessions)) == (made.player, 2)
    assert profile.created_time.seconds > 0
    assert not profile.HasField("erasure")
    assert [session.current for session in profile.sessions] == [True, False]
    for session in profile.sessions:
        session.current = False
    assert await hall.staff().call(pb.GetProfileRequest(player_id=nino.player_id)) == profile


async def test_table_events_tell_what_a_player_did(hall: Hall) -> None:
    """All he did and all that is about him, of tables he left too, page by page; not of others."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    first = (await nino.call(lobby_pb2.CreateTableRequest(rules=durak(3)))).table
    take = lobby_pb2.TakeSeatRequest(table_id=first.table_id)
    await dato.call(take)
    await dato.call(lobby_pb2.SetReadyRequest(table_id=first.table_id, ready=True))
    await nino.call(lobby_pb2.AddBotRequest(table_id=first.table_id, level=EASY))
    await nino.call(lobby_pb2.LeaveSeatRequest(table_id=first.table_id))
    second = await full_table(dato, durak(), nino)
    await nino.until(second.table_id, is_in(lobby_pb2.TABLE_STATE_PLAYING))

    async def told(guest: Guest, size: int, **whose: str) -> list[tuple[str, str, bool]]:
        found, token = [], ""
        while True:
            request = lobby_pb2.ListTableEventsRequest(page_size=size, page_token=token, **whose)
            page = await guest.call(request)
            found += [(e.table_id, e.name, e.own) for e in page.events]
            token = page.next_page_token
            if not token:
                return found

    expected = [
        (second.table_id, "SeatTaken", True),
        (second.table_id, "ReadySet", True),
        (second.table_id, "StartBegun", True),
        (first.table_id, "TableOpened", True),
        (first.table_id, "SeatTaken", True),
        (first.table_id, "SeatTaken", True),
        (first.table_id, "SeatLeft", True),
        (first.table_id, "HostChanged", True),
    ]
    for size in (0, 1, 2, 3):
        assert await told(nino, size) == expected
    assert await told(hall.staff(), 0, player_id=nino.player_id) == expected
    theirs = await told(dato, 0)
    assert (first.table_id, "HostChanged", False) in theirs
    assert (first.table_id, "SeatLeft", True) not in theirs
