"""IdentityService over the wire: tokens that work, and sign-ups while the wallet is away."""

import asyncio
from pathlib import Path

from kozyr.lobby.v1 import identity_pb2 as pb
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import Kind, unavailable
from tests.services.lobby.hall import Hall, lobby_hall, request_id
from tests.services.lobby.peers import WELCOME


async def test_a_guest_signs_up_in_and_goes_on(hall: Hall) -> None:
    """Every token given works; the wallet has the account with its welcome."""
    nobody = hall.caller(None)
    made = await nobody.call(pb.SignUpRequest(display_name="Nino"))
    player_id = made.player.player_id
    signed_in = await nobody.call(pb.SignInRequest(player_id=player_id, secret=made.secret))
    refreshed = await nobody.call(pb.RefreshRequest(refresh_token=signed_in.tokens.refresh_token))
    for tokens in (made.tokens, signed_in.tokens, refreshed.tokens):
        me = hall.caller(tokens.access_token)
        assert (await me.call(lobby_pb2.ListTablesRequest(mine=True))).tables == []
        assert tokens.refresh_expire_time.seconds > tokens.access_expire_time.seconds
    assert (made.player.display_name, made.player.bot) == ("Nino", False)
    assert hall.others.bank.balances == {player_id: WELCOME}


async def test_a_spent_refresh_token_over_the_wire(hall: Hall) -> None:
    """UNAUTHENTICATED, and the family is gone."""
    nobody = hall.caller(None)
    made = await nobody.call(pb.SignUpRequest(display_name="Nino"))
    spent = pb.RefreshRequest(refresh_token=made.tokens.refresh_token)
    newer = await nobody.call(spent)
    again = await nobody.refused(spent)
    assert (again.kind, again.reason) == (Kind.UNAUTHENTICATED, "REFRESH_TOKEN_REUSED")
    gone = pb.RefreshRequest(refresh_token=newer.tokens.refresh_token)
    assert (await nobody.refused(gone)).reason == "REFRESH_TOKEN_INVALID"


async def test_a_wallet_that_is_away_does_not_lose_the_welcome(tmp_path: Path) -> None:
    """The guest can play on; the account is opened when the wallet is back, after a restart too."""
    async with lobby_hall(tmp_path) as hall:
        hall.others.bank.refusing["OpenAccount"] = unavailable("AWAY", "away")
        made = await hall.caller(None).call(pb.SignUpRequest(display_name="Nino"))
        assert hall.others.bank.balances == {}
    async with lobby_hall(tmp_path) as hall, asyncio.timeout(10):
        await hall.others.bank.opened.wait()
        assert hall.others.bank.balances == {made.player.player_id: WELCOME}


async def test_players_are_listed_in_the_order_asked_for(hall: Hall) -> None:
    """Unknown ones are left out, repeated ones repeated."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    unknown = "00000000-0000-7000-8000-000000000000"
    asked = [dato.player_id, unknown, nino.player_id, dato.player_id]
    answer = await nino.call(pb.ListPlayersRequest(player_ids=asked))
    assert [p.display_name for p in answer.players] == ["Dato", "Nino", "Dato"]


async def test_identity_refuses_bad_fields_by_name(hall: Hall) -> None:
    """Each with INVALID_ARGUMENT and the field."""
    nobody, nino = hall.caller(None), await hall.guest()
    for caller, request, field in (
        (nobody, pb.SignUpRequest(display_name=""), "display_name"),
        (nobody, pb.SignUpRequest(display_name="<>"), "display_name"),
        (nobody, pb.SignUpRequest(display_name="Nino", request_id="short"), "request_id"),
        (nobody, pb.SignInRequest(secret="x"), "player_id"),
        (nobody, pb.SignInRequest(player_id="x", secret="x"), "player_id"),
        (nobody, pb.SignInRequest(player_id=nino.player_id), "secret"),
        (nobody, pb.RefreshRequest(), "refresh_token"),
        (nobody, pb.RefreshRequest(refresh_token="x" * 65), "refresh_token"),
        (nino, pb.ListPlayersRequest(), "player_ids"),
        (nino, pb.ListPlayersRequest(player_ids=[nino.player_id] * 101), "player_ids"),
        (nino, pb.ListPlayersRequest(player_ids=[nino.player_id, "x"]), "player_ids[1]"),
    ):
        refused = await caller.refused(request)
        assert (refused.kind, refused.fields[0].field) == (Kind.INVALID, field), request


async def test_identity_refuses_strangers(hall: Hall) -> None:
    """Names need a token; a wrong secret and an unknown token are UNAUTHENTICATED."""
    nobody, nino = hall.caller(None), await hall.guest()
    names = pb.ListPlayersRequest(player_ids=[nino.player_id])
    assert (await nobody.refused(names)).reason == "TOKEN_MISSING"
    wrong = pb.SignInRequest(player_id=nino.player_id, secret="x")
    assert (await nobody.refused(wrong)).reason == "SIGN_IN_REFUSED"
    unknown = pb.RefreshRequest(refresh_token="x" * 43)
    assert (await nobody.refused(unknown)).reason == "REFRESH_TOKEN_INVALID"
    made = pb.SignUpRequest(display_name="Dato", request_id=request_id())
    await nobody.call(made)
    other = pb.SignUpRequest(display_name="Data", request_id=made.request_id)
    assert (await nobody.refused(other)).reason == "REQUEST_ID_REUSED"
