"""A request that was answered is answered the same again, whatever has become of things since."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import game_pb2, variant_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2, standing_pb2
from kozyr.lobby.v1 import limits_pb2 as limits
from kozyr.lobby.v1 import talk_pb2 as talk

from services.client.devices import new_device_key, public_key
from services.lobby.limits import LimitKind
from tests.rpcs import rpcs
from tests.services.lobby.hall import Guest, Hall, azi, is_in, lobby_hall, report, request_id

AT_TABLES = {
    *("CreateTable", "TakeSeat", "LeaveSeat", "AddBot", "RemoveBot", "SetReady", "StartGame"),
    *("Rematch", "KickPlayer", "InvitePlayer", "UninvitePlayer", "HandOverHost", "TopUp"),
    *("QuickPlay", "CloseTable", "ReportGame", "SendEmote", "SendMessage"),
}
"""What acts once, and is answered by what it led to then."""
STATES = {
    *("Mute", "Unmute", "SetListed", "SetLimit", "WithdrawLimitChange", "ExcludeMyself"),
    *("SetHouseLimit", "ExcludePlayer", "AddDevice", "RemoveDevice", "SignOut", "StrikeGame"),
    *("SignOutEverywhere", "ErasePlayer", "RecordGame", "VerifyStandings"),
}
"""What asks for a state, or shows one: it is answered by how things are."""
ONCE = {"SignUp", "SetPassword", "RenewSecret", "LinkExternal"}
"""What gives or takes secrets, which are shown once: `test_players.py`, `test_logins.py`,
`test_external.py`."""
PLAYING, WAITING = lobby_pb2.TABLE_STATE_PLAYING, lobby_pb2.TABLE_STATE_WAITING


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    """A lobby of its own."""
    async with lobby_hall(tmp_path) as opened:
        yield opened


class Memory:
    """Calls that were answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[Guest, Any, Any]] = []

    async def ask(self, guest: Guest, request: Any) -> Any:
        """Call, and remember."""
        request.request_id = request_id()
        answer = await guest.call(request)
        self.answers.append((guest, request, answer))
        return answer

    @property
    def names(self) -> set[str]:
        """The RPCs that were called."""
        return {type(request).__name__.removesuffix("Request") for _, request, _ in self.answers}


def test_every_call_that_names_its_request_is_looked_at() -> None:
    """None of the lobby's is forgotten here."""
    named = {
        m.name
        for service, m in rpcs()
        if "request_id" in m.input_type.fields_by_name and service == "lobby"
    }
    assert named == AT_TABLES | STATES | ONCE


async def test_what_was_done_at_a_table_is_answered_the_same_for_ever(hall: Hall) -> None:
    """An evening at a table by invitation, with every kind of call: afterwards one was sent away,
    one is erased, all others have left and the table is closed. Nobody may know of it any more, and
    each is told what he was told."""
    nino, dato, keti, lia = [await hall.guest(n) for n in ("Nino", "Dato", "Keti", "Lia")]
    told, game = Memory(), hall.staff("game", "game")
    rules = azi(4, visibility=lobby_pb2.VISIBILITY_INVITED)
    rules.invited_player_ids.extend([dato.player_id, lia.player_id])
    table = (await told.ask(nino, lobby_pb2.CreateTableRequest(rules=rules))).table
    at: dict[str, Any] = {"table_id": table.table_id}
    await told.ask(nino, lobby_pb2.InvitePlayerRequest(**at, player_id=keti.player_id))
    await told.ask(nino, lobby_pb2.UninvitePlayerRequest(**at, player_id=lia.player_id))
    await told.ask(nino, lobby_pb2.InvitePlayerRequest(**at, player_id=lia.player_id))
    for who in (dato, keti):
        await told.ask(who, lobby_pb2.TakeSeatRequest(**at))
    easy = variant_pb2.BOT_LEVEL_EASY
    await told.ask(nino, lobby_pb2.AddBotRequest(**at, level=easy, seat=3))
    await told.ask(nino, lobby_pb2.RemoveBotRequest(**at, seat=3))
    await told.ask(dato, lobby_pb2.TopUpRequest(**at, chips=5))
    for who in (dato, keti):
        await told.ask(who, talk.SendMessageRequest(**at, text="Good evening"))
        await told.ask(who, talk.SendEmoteRequest(**at, emote=talk.EMOTE_HELLO))
    for who in (nino, dato, keti):
        await told.ask(who, lobby_pb2.SetReadyRequest(**at, ready=True))
    await told.ask(nino, lobby_pb2.StartGameRequest(**at))
    table = await nino.until(table.table_id, is_in(PLAYING))
    await told.ask(game, report(table, 200, 205, 200))
    await told.ask(dato, lobby_pb2.RematchRequest(**at))
    await told.ask(nino, lobby_pb2.HandOverHostRequest(**at, player_id=dato.player_id))
    reason = lobby_pb2.KICK_REASON_OTHER
    kick = lobby_pb2.KickPlayerRequest(**at, player_id=keti.player_id, kick_reason=reason)
    await told.ask(dato, kick)
    await told.ask(nino, lobby_pb2.LeaveSeatRequest(**at))
    quick = lobby_pb2.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI)
    waits = (await told.ask(keti, quick)).table.table_id
    await keti.call(lobby_pb2.LeaveSeatRequest(table_id=waits))
    await lia.call(identity_pb2.ErasePlayerRequest(confirm_name="Lia", give_up_chips=True))
    await told.ask(dato, lobby_pb2.CloseTableRequest(**at))
    assert told.names == AT_TABLES
    for guest, request, answer in told.answers:
        assert await guest.call(request) == answer, request
    # and what was asked by nobody is refused as ever
    fresh = talk.SendMessageRequest(**at, text="Good evening")
    assert (await keti.refused(fresh)).reason == "KICKED"
    assert (await nino.refused(lobby_pb2.TakeSeatRequest(**at))).reason == "TABLE_NOT_FOUND"


async def test_what_asks_for_a_state_may_be_asked_for_again(hall: Hall) -> None:
    """Whatever stands against asking for it anew: who is silenced has left, the limit is tighter by
    now, the game is counted and struck, the session has ended, the player is gone."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    told, olga = Memory(), hall.staff()
    player: dict[str, Any] = {"player_id": dato.player_id}
    rules = azi(2, spectators=True)
    table = (await nino.call(lobby_pb2.CreateTableRequest(rules=rules))).table
    at: dict[str, Any] = {"table_id": table.table_id}
    await dato.call(lobby_pb2.TakeSeatRequest(**at))
    await told.ask(nino, talk.MuteRequest(**at, **player))
    await told.ask(nino, talk.UnmuteRequest(**player))
    for who in (nino, dato):
        await who.call(lobby_pb2.SetReadyRequest(**at, ready=True))
    table = await nino.until(table.table_id, is_in(PLAYING))
    await hall.staff("game", "game").call(report(table, 200, 200))
    struck = standing_pb2.StrikeGameRequest(game_id=table.game_id, struck=True)
    await told.ask(olga, struck)
    await told.ask(olga, standing_pb2.VerifyStandingsRequest())
    listed = standing_pb2.SetListedRequest(variant=variant_pb2.VARIANT_AZI, listed=True)
    await told.ask(dato, listed)
    kind = limits.LimitKind.ValueType(LimitKind.LOSS_DAY)
    await dato.call(limits.SetLimitRequest(kind=kind, amount=100))
    await told.ask(dato, limits.SetLimitRequest(kind=kind, amount=200))
    await told.ask(dato, limits.WithdrawLimitChangeRequest(kind=kind))
    await told.ask(olga, limits.SetHouseLimitRequest(**player, kind=kind, amount=5, reason="Why."))
    await told.ask(olga, limits.ExcludePlayerRequest(**player, for_good=True, reason="Why."))
    await told.ask(dato, limits.ExcludeMyselfRequest(for_good=True))
    await told.ask(olga, standing_pb2.RecordGameRequest(game=summary(table, nino, dato)))
    phone = identity_pb2.AddDeviceRequest(
        device_name="Phone", public_key=public_key(new_device_key())
    )
    device = (await told.ask(dato, phone)).device
    await told.ask(dato, identity_pb2.RemoveDeviceRequest(device_id=device.device_id))
    for guest, request, _ in told.answers:
        await guest.call(request)
    lia = await hall.guest("Lia")
    for end in (identity_pb2.SignOutRequest(), identity_pb2.SignOutEverywhereRequest()):
        await told.ask(lia, end)
    await told.ask(lia, identity_pb2.ErasePlayerRequest(confirm_name="Lia", give_up_chips=True))
    assert told.names == STATES
    for guest, request, _ in told.answers[-3:]:
        await guest.call(request)


def summary(table: lobby_pb2.Table, *players: Guest) -> game_pb2.GameSummary:
    """The table's game, as an operator finds it in the game service's list."""
    game = game_pb2.GameSummary(
        game_id=table.game_id,
        table_id=table.table_id,
        variant=variant_pb2.VARIANT_AZI,
        stage=view_pb2.STAGE_CANCELLED,
        seats=[view_pb2.GameSeat(player_id=player.player_id) for player in players],
    )
    game.opened_time.FromSeconds(1_700_000_000)
    game.ended_time.FromSeconds(1_700_000_060)
    return game
