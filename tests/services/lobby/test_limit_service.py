"""Limits over the wire: where they hold, how they are refused, who sets them and who reads them."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.lobby.v1 import limits_pb2 as pb

from services.kernel.errors import Kind, Refused
from services.lobby.limits import CHIPS_MAX, DAY_MS, LimitKind
from services.runtime.access import LOBBY
from tests.services.lobby.hall import (
    Guest,
    Hall,
    azi,
    durak,
    full_table,
    is_in,
    lobby_hall,
    report,
)
from tests.services.lobby.peers import WELCOME

DAY_S = 86_400
WAITING, PLAYING = lobby_pb2.TABLE_STATE_WAITING, lobby_pb2.TABLE_STATE_PLAYING


def limit(kind: LimitKind, amount: int | None) -> pb.SetLimitRequest:
    """A limit to set, or none."""
    return pb.SetLimitRequest(kind=pb.LimitKind.ValueType(kind), amount=amount)


def later(seconds: int) -> Timestamp:
    """A moment from now on."""
    return Timestamp(seconds=int(time.time()) + seconds)


def of(limits: pb.Limits, kind: LimitKind) -> pb.Limit:
    """One limit of all."""
    return next(each for each in limits.limits if each.kind == kind.value)


async def ways_in(nino: Guest, dato: Guest) -> list[Any]:
    """Everything by which a player comes nearer to a game of 200 chips."""
    made = (await dato.call(lobby_pb2.CreateTableRequest(rules=azi()))).table
    mine = (await nino.call(lobby_pb2.CreateTableRequest(rules=azi()))).table
    return [
        lobby_pb2.CreateTableRequest(rules=azi()),
        lobby_pb2.TakeSeatRequest(table_id=made.table_id),
        lobby_pb2.QuickPlayRequest(variant=variant_pb2.VARIANT_AZI),
        lobby_pb2.SetReadyRequest(table_id=mine.table_id, ready=True),
        lobby_pb2.TopUpRequest(table_id=mine.table_id, chips=1),
    ]


@pytest.mark.parametrize("kind", [LimitKind.LOSS_DAY, LimitKind.LOSS_MONTH, LimitKind.STAKE_DAY])
async def test_every_way_into_a_game_is_held_to_the_limit(hall: Hall, kind: LimitKind) -> None:
    """Sitting down, buying in, topping up, quick play, being ready: refused alike, with what is
    left and when that changes. Games without chips, and leaving, stay open."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    asked = await ways_in(nino, dato)
    answer = await nino.call(limit(kind, 9))
    shown = of(answer.limits, kind)
    assert (shown.amount, shown.left, shown.used, shown.at_risk) == (9, 9, 0, 0)
    for request in asked:
        refused = await nino.refused(request)
        assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "LIMIT_REACHED"), request
        assert refused.facts["limit"] == kind.name
        assert (refused.facts["amount"], refused.facts["left"]) == ("9", "9")
        assert int(refused.facts["asked"]) > 9
        renews = shown.renew_time.ToJsonString().partition(".")[0].rstrip("Z") + "Z"
        assert refused.facts["renew_time"] == renews
        seconds = shown.renew_time.seconds - time.time()
        assert refused.retry_after_ms is not None
        assert abs(refused.retry_after_ms / 1_000 - seconds) < 60
    await nino.call(lobby_pb2.CreateTableRequest(rules=durak()))
    mine = asked[-1].table_id
    await nino.call(lobby_pb2.SetReadyRequest(table_id=mine, ready=False))
    await nino.call(lobby_pb2.LeaveSeatRequest(table_id=mine))


async def test_what_was_let_in_before_is_answered_as_before(hall: Hall) -> None:
    """The repetition of a request tells its first outcome, whatever the limit is by now."""
    nino = await hall.guest()
    request = lobby_pb2.CreateTableRequest(request_id="mine", rules=azi())
    made = (await nino.call(request)).table
    await nino.call(limit(LimitKind.STAKE_DAY, 0))
    assert (await nino.call(request)).table == made
    assert (await nino.refused(lobby_pb2.CreateTableRequest(rules=azi()))).facts["left"] == "0"


async def test_a_start_that_a_limit_forbids_is_undone(hall: Hall) -> None:
    """The player was ready when he set it: his seat is no longer, nobody's chips are held, and
    nobody but himself learns why; the others can play on without him."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    table = (await nino.call(lobby_pb2.CreateTableRequest(rules=azi()))).table
    await nino.call(lobby_pb2.SetReadyRequest(table_id=table.table_id, ready=True))
    await nino.call(limit(LimitKind.LOSS_WEEK, 100))
    await dato.call(lobby_pb2.TakeSeatRequest(table_id=table.table_id))
    await dato.call(lobby_pb2.SetReadyRequest(table_id=table.table_id, ready=True))
    failed = await dato.until(
        table.table_id, lambda t: t.state == WAITING and bool(t.start_failure)
    )
    assert failed.start_failure == "PLAYER_HELD_BACK"
    assert [(seat.ready, seat.problem) for seat in failed.seats] == [
        *((False, "PLAYER_HELD_BACK"), (True, ""))
    ]
    assert hall.others.bank.balances[nino.player_id] == WELCOME
    assert hall.others.bank.balances[dato.player_id] == WELCOME
    assert "Reserve" not in hall.others.bank.calls
    limits = (await nino.call(pb.GetLimitsRequest())).limits
    assert of(limits, LimitKind.LOSS_WEEK).at_risk == 0
    ready = lobby_pb2.SetReadyRequest(table_id=table.table_id, ready=True)
    assert (await nino.refused(ready)).facts["limit"] == "LOSS_WEEK"


async def test_who_plays_as_many_games_as_he_may_begins_no_other(tmp_path: Path) -> None:
    """He may sit down, and is not ready; where he was ready already, his seat is no longer when
    that game would begin. What was let in before is answered as before; an end makes room."""
    async with lobby_hall(tmp_path, games_per_player_max=1) as hall:
        nino, dato, keti = [await hall.guest(name) for name in ("Nino", "Dato", "Keti")]
        second = (await nino.call(lobby_pb2.CreateTableRequest(rules=durak()))).table.table_id
        await keti.call(lobby_pb2.TakeSeatRequest(table_id=second))
        ready = lobby_pb2.SetReadyRequest(request_id="ready", table_id=second, ready=True)
        first = await nino.call(ready)
        table = await full_table(dato, durak(), nino)
        await nino.until(table.table_id, is_in(PLAYING))
        assert await nino.call(ready) == first
        again = lobby_pb2.SetReadyRequest(table_id=second, ready=True)
        await keti.call(again)
        failed = await keti.until(second, lambda t: t.state == WAITING and bool(t.start_failure))
        assert failed.start_failure == "PLAYER_HELD_BACK"
        assert [seat.ready for seat in failed.seats] == [False, True]
        quick = lobby_pb2.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI)
        for request in (again, quick):
            refused = await nino.refused(request)
            assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "TOO_MANY_GAMES")
            assert (refused.facts["limit"], refused.facts["most"]) == ("games", "1")
        table = (await nino.call(lobby_pb2.GetTableRequest(table_id=table.table_id))).table
        await hall.staff("game", "game").call(report(table, 0, 0))
        await nino.call(again)
        await nino.until(second, is_in(PLAYING))


async def test_stacks_on_tables_are_at_risk_until_their_game_has_ended(hall: Hall) -> None:
    """Two tables at once: the second is let begin only if both stacks could be lost; afterwards
    what was lost counts, and what was won does not raise the limit."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    await nino.call(limit(LimitKind.LOSS_DAY, 300))
    table = await full_table(nino, azi(), dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    shown = of((await nino.call(pb.GetLimitsRequest())).limits, LimitKind.LOSS_DAY)
    assert (shown.used, shown.at_risk, shown.left) == (0, 200, 100)
    refused = await nino.refused(lobby_pb2.CreateTableRequest(rules=azi()))
    assert refused.facts["left"] == "100"
    await hall.staff("game", "game").call(report(table, 80, 320, winner=1))
    shown = of((await nino.call(pb.GetLimitsRequest())).limits, LimitKind.LOSS_DAY)
    assert (shown.used, shown.at_risk, shown.left) == (120, 0, 180)
    ready = lobby_pb2.SetReadyRequest(table_id=table.table_id, ready=True)
    await nino.call(ready)  # the 80 that are left there
    await dato.call(ready)
    table = await nino.until(table.table_id, is_in(PLAYING))
    await hall.staff("game", "game").call(report(table, 400, 0, winner=0))
    shown = of((await nino.call(pb.GetLimitsRequest())).limits, LimitKind.LOSS_DAY)
    assert (shown.used, shown.left) == (0, 300)


async def test_chips_that_were_played_with_are_not_brought_again(hall: Hall) -> None:
    """A stack counts with its first game, a top-up with the next one."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    await nino.call(limit(LimitKind.STAKE_DAY, 250))
    table = await full_table(nino, azi(), dato)
    for number, left in enumerate((50, 50, 20)):
        table = await nino.until(table.table_id, is_in(PLAYING))
        shown = of((await nino.call(pb.GetLimitsRequest())).limits, LimitKind.STAKE_DAY)
        assert shown.left == left
        await hall.staff("game", "game").call(report(table, 220, 180, winner=0))
        at = table.table_id
        if number == 1:
            over = await nino.refused(lobby_pb2.TopUpRequest(table_id=at, chips=51))
            assert over.facts["asked"] == "51"
            await nino.call(lobby_pb2.TopUpRequest(table_id=at, chips=30))
        for guest in (nino, dato):
            await guest.call(lobby_pb2.SetReadyRequest(table_id=at, ready=True))
    over = await nino.refused(lobby_pb2.CreateTableRequest(rules=azi()))
    assert over.facts["left"] == "20"


async def test_a_game_is_played_to_its_end_and_no_other_begun(hall: Hall) -> None:
    """Who has used up his time or excluded himself in mid-game loses his seat after it, and only
    he; he comes in nowhere, not even without chips."""
    nino, dato, service = await hall.guest(), await hall.guest("Dato"), hall.staff("game", "game")
    for stop in (limit(LimitKind.TIME_DAY, 0), pb.ExcludeMyselfRequest(end_time=later(DAY_S))):
        guest = nino if isinstance(stop, pb.SetLimitRequest) else dato
        other = dato if guest is nino else await hall.guest("Eka")
        table = await full_table(other, durak(), guest)
        table = await other.until(table.table_id, is_in(PLAYING))
        await guest.call(stop)
        now = (await other.call(lobby_pb2.GetTableRequest(table_id=table.table_id))).table
        assert (now.state, now.version) == (PLAYING, table.version)
        told = report(table, 0, 0, winner=0, durak=1)
        for _ in range(2):
            await service.call(told)
        after = (await other.call(lobby_pb2.GetTableRequest(table_id=table.table_id))).table
        assert [seat.player_id for seat in after.seats] == [other.player_id, ""]
        for request in (
            lobby_pb2.TakeSeatRequest(table_id=table.table_id),
            lobby_pb2.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI),
        ):
            refused = await guest.refused(request)
            assert refused.reason == ("LIMIT_REACHED" if guest is nino else "EXCLUDED")
            assert refused.retry_after_ms
        await other.call(lobby_pb2.LeaveSeatRequest(table_id=table.table_id))


async def test_who_excludes_himself_leaves_the_tables_that_wait(hall: Hall) -> None:
    """At once, at all of them; nothing takes it back or makes it shorter."""
    nino, dato = await hall.guest(), await hall.guest("Dato")
    tables = [
        (await dato.call(lobby_pb2.CreateTableRequest(rules=rules))).table.table_id
        for rules in (azi(), durak())
    ]
    for table in tables:
        await nino.call(lobby_pb2.TakeSeatRequest(table_id=table))
    out = (await nino.call(pb.ExcludeMyselfRequest(end_time=later(DAY_S)))).limits.exclusions
    assert [(each.for_good, each.by_house) for each in out] == [(False, False)]
    for table in tables:
        found = (await dato.call(lobby_pb2.GetTableRequest(table_id=table))).table
        assert nino.player_id not in {seat.player_id for seat in found.seats}
    sooner = await nino.refused(pb.ExcludeMyselfRequest(end_time=later(DAY_S - 60)))
    assert (sooner.kind, sooner.reason) == (Kind.PRECONDITION, "EXCLUSION_STANDS")
    lifted = pb.ExcludePlayerRequest(player_id=nino.player_id, reason="He asked for it.")
    limits = (await hall.staff().call(lifted)).limits
    assert [each.by_house for each in limits.exclusions] == [False]
    good = (await nino.call(pb.ExcludeMyselfRequest(for_good=True))).limits.exclusions
    assert [each.for_good for each in good] == [True]
    assert not good[0].HasField("end_time")
    refused = await nino.refused(lobby_pb2.CreateTableRequest(rules=durak()))
    assert (refused.reason, refused.retry_after_ms) == ("EXCLUDED", None)
    later_than = await nino.refused(pb.ExcludeMyselfRequest(end_time=later(99 * 365 * DAY_S)))
    assert later_than.reason == "EXCLUSION_STANDS"


async def test_a_limit_is_loosened_after_a_day_and_until_then_not(hall: Hall) -> None:
    """What it becomes and when is shown, and can be taken back."""
    nino = await hall.guest()
    await nino.call(limit(LimitKind.LOSS_MONTH, 100))
    for amount in (None, 500):
        shown = of(
            (await nino.call(limit(LimitKind.LOSS_MONTH, amount))).limits, LimitKind.LOSS_MONTH
        )
        assert (shown.amount, shown.left) == (100, 100)
        assert shown.change.HasField("amount") is (amount is not None)
        assert abs(shown.change.effect_time.seconds - time.time() - DAY_S) < 60
    withdraw = pb.WithdrawLimitChangeRequest(kind=pb.LIMIT_KIND_LOSS_MONTH)
    shown = of((await nino.call(withdraw)).limits, LimitKind.LOSS_MONTH)
    assert not shown.HasField("change")
    assert (await nino.refused(pb.WithdrawLimitChangeRequest(kind=shown.kind))).reason == (
        "NO_CHANGE_PENDING"
    )


async def test_the_house_limits_beside_the_player(hall: Hall) -> None:
    """With a reason the player reads; who it was is for operators. It loosens nothing of his."""
    nino, olga = await hall.guest(), hall.staff(subject="olga")
    await nino.call(limit(LimitKind.TIME_DAY, 3_600_000))
    asked = pb.SetHouseLimitRequest(
        player_id=nino.player_id, kind=pb.LIMIT_KIND_TIME_DAY, amount=DAY_MS, reason="A call."
    )
    shown = of((await olga.call(asked)).limits, LimitKind.TIME_DAY)
    assert (shown.amount, shown.house_amount, shown.left) == (3_600_000, DAY_MS, 3_600_000)
    tight = pb.SetHouseLimitRequest(
        player_id=nino.player_id, kind=pb.LIMIT_KIND_LOSS_DAY, amount=5, reason="His brother."
    )
    await olga.call(tight)
    assert (await nino.refused(lobby_pb2.CreateTableRequest(rules=azi()))).facts["left"] == "5"
    loosened = await nino.call(limit(LimitKind.LOSS_DAY, None))
    assert of(loosened.limits, LimitKind.LOSS_DAY).house_amount == 5
    for guest, name in ((nino, ""), (olga, "olga")):
        changes = await guest.call(pb.ListLimitChangesRequest(player_id=nino.player_id))
        assert [(each.number, each.operator, each.reason) for each in changes.changes] == [
            *((4, "", ""), (3, name, "His brother."), (2, name, "A call."), (1, "", "")),
        ]
    page = await nino.call(pb.ListLimitChangesRequest(page_size=3))
    rest = await nino.call(pb.ListLimitChangesRequest(page_token=page.next_page_token))
    assert [each.number for each in rest.changes] == [1]
    tight.ClearField("request_id")
    tight.ClearField("amount")
    assert not of((await olga.call(tight)).limits, LimitKind.LOSS_DAY).HasField("left")


async def test_many_who_set_the_same_limit_at_once_set_it_once(hall: Hall) -> None:
    """One request repeated; another one of the same name is refused."""
    nino = await hall.guest()
    request = limit(LimitKind.LOSS_DAY, 7)
    request.request_id = "once"
    answers = await asyncio.gather(*(nino.call(request) for _ in range(8)))
    assert {of(each.limits, LimitKind.LOSS_DAY).amount for each in answers} == {7}
    assert len((await nino.call(pb.ListLimitChangesRequest())).changes) == 1
    other = limit(LimitKind.LOSS_DAY, 8)
    other.request_id = "once"
    assert (await nino.refused(other)).reason == "REQUEST_ID_REUSED"
    assert (await (await hall.guest("Dato")).call(other)).limits.limits[0].amount == 8


async def test_limits_are_nobody_elses_business(hall: Hall) -> None:
    """Players read their own, operators any; only operators act for the house."""
    nino, dato, stranger = await hall.guest(), await hall.guest("Dato"), hall.caller(None)
    service = hall.staff("game", "game")
    own: list[Any] = [
        *(pb.GetLimitsRequest(), pb.ListLimitChangesRequest()),
        *(limit(LimitKind.LOSS_DAY, 1), pb.ExcludeMyselfRequest(for_good=True)),
        pb.WithdrawLimitChangeRequest(kind=pb.LIMIT_KIND_LOSS_DAY),
    ]
    house: list[Any] = [
        pb.SetHouseLimitRequest(player_id=nino.player_id, kind=pb.LIMIT_KIND_LOSS_DAY, reason="x"),
        pb.ExcludePlayerRequest(player_id=nino.player_id, reason="x"),
    ]
    names = {m.rpartition("/")[2] for m in LOBBY if "LimitService" in m}
    assert {r.DESCRIPTOR.name.removesuffix("Request") for r in own + house} == names
    for request in own + house:
        assert (await stranger.refused(request)).reason == "TOKEN_MISSING"
        assert (await service.refused(request)).reason == "ROLE_NOT_ALLOWED"
    for request in house:
        assert (await nino.refused(request)).reason == "ROLE_NOT_ALLOWED"
    for request in own[:2]:
        request.player_id = nino.player_id
        refused = await dato.refused(request)
        assert (refused.kind, refused.reason) == (Kind.DENIED, "NOT_YOURS")
        await hall.staff().call(request)
    for request in own[2:]:
        assert (await hall.staff().refused(request)).reason == "ROLE_NOT_ALLOWED"
    nowhere = "00000000-0000-7000-8000-000000000000"
    for request in house:
        request.player_id = nowhere
        assert (await hall.staff().refused(request)).reason == "PLAYER_NOT_FOUND"
    shown = (await hall.staff().call(pb.GetLimitsRequest(player_id=nowhere))).limits
    assert not any(each.HasField("left") for each in shown.limits)


async def test_each_field_that_is_wrong_is_named(hall: Hall) -> None:
    """Kinds, amounts, moments, reasons, players."""
    nino, olga = await hall.guest(), hall.staff()
    loss = pb.LIMIT_KIND_LOSS_DAY
    cases: list[tuple[Guest, Any, str]] = [
        (nino, pb.SetLimitRequest(amount=1), "kind"),
        (nino, pb.WithdrawLimitChangeRequest(), "kind"),
        (nino, limit(LimitKind.LOSS_DAY, -1), "amount"),
        (nino, limit(LimitKind.LOSS_DAY, CHIPS_MAX + 1), "amount"),
        (nino, limit(LimitKind.TIME_DAY, DAY_MS + 1), "amount"),
        (nino, pb.ExcludeMyselfRequest(), "end_time"),
        (nino, pb.ExcludeMyselfRequest(end_time=later(-1)), "end_time"),
        (nino, pb.ExcludeMyselfRequest(end_time=later(101 * 365 * DAY_S)), "end_time"),
        (nino, pb.ExcludeMyselfRequest(end_time=later(9), for_good=True), "end_time"),
        (nino, pb.ExcludeMyselfRequest(end_time=Timestamp(seconds=2**62)), "end_time"),
        (nino, pb.ExcludeMyselfRequest(end_time=Timestamp(seconds=9, nanos=-5)), "end_time"),
        (nino, pb.ListLimitChangesRequest(page_size=-1), "page_size"),
        (nino, pb.ListLimitChangesRequest(page_token="x"), "page_token"),
        (olga, pb.GetLimitsRequest(), "player_id"),
        (olga, pb.SetHouseLimitRequest(kind=loss, reason="x"), "player_id"),
        (olga, pb.SetHouseLimitRequest(player_id=nino.player_id, kind=loss), "reason"),
        (olga, pb.SetHouseLimitRequest(player_id=nino.player_id, kind=loss, amount=-1), "amount"),
        (olga, pb.SetHouseLimitRequest(player_id=nino.player_id, reason="x"), "kind"),
        (olga, pb.ExcludePlayerRequest(player_id=nino.player_id, reason="x" * 201), "reason"),
        (olga, pb.ExcludePlayerRequest(player_id="x", reason="x"), "player_id"),
    ]
    for guest, request, field in cases:
        refused = await guest.refused(request)
        assert refused.kind is Kind.INVALID, request
        assert [each.field for each in refused.fields] == [field], request
    assert (await nino.call(pb.ListLimitChangesRequest())).changes == []


async def test_who_is_being_erased_sets_no_limit(hall: Hall) -> None:
    """All of his are gone with him."""
    nino = await hall.guest()
    await nino.call(limit(LimitKind.LOSS_DAY, 1))
    await nino.call(identity_pb2.ErasePlayerRequest(confirm_name="Nino", give_up_chips=True))
    refused: Refused = await nino.refused(limit(LimitKind.LOSS_DAY, 1))
    assert (refused.kind, refused.reason) == (Kind.DENIED, "BEING_ERASED")
    limits = (await nino.call(pb.GetLimitsRequest())).limits
    assert not any(each.HasField("amount") for each in limits.limits)
    assert (await nino.call(pb.ListLimitChangesRequest())).changes == []
