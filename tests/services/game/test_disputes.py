"""Disputes over gRPC, with a wallet: what is ruled, who must agree, what moves, who may see it."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import audit_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.kernel.errors import Refused
from tests.services.game.court import ALONE, Court, Dispute, court
from tests.services.game.databases import ENGINES, templates
from tests.services.game.system import new_id, system
from tests.services.game.test_service import settled

State = audit_pb2.DisputeState
UPHELD, DISMISSED = audit_pb2.RULING_UPHELD, audit_pb2.RULING_DISMISSED
VOID, CORRECTION = audit_pb2.REMEDY_VOID, audit_pb2.REMEDY_CORRECTION


Given = dict[str, Any]


@pytest.fixture(params=ENGINES)
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Given]:
    """The settings of both databases on each engine."""
    if request.param == "sqlite":
        yield {}
        return
    with templates(request.param, tmp_path) as made:
        yield {f"{name}_database_url": url for name, url in made.urls.items()}


async def test_a_correction_moves_named_chips_once(tmp_path: Path, databases: Given) -> None:
    """By one transfer that names the dispute; the same ruling again changes nothing."""
    async with court(tmp_path, **databases) as here:
        before = [await here.balance(player) for player in here.players]
        opened = await here.open(here.players[0])
        assert opened.state == State.DISPUTE_STATE_OPEN
        ruled = await here.rule(opened, CORRECTION, p0=7, p1=-7)
        closed = await here.until(opened, State.DISPUTE_STATE_CLOSED)
        assert closed.transfer_id
        assert (ruled.remedy, closed.ruled_by, closed.approved_by) == (CORRECTION, "olga", "")
        after = [await here.balance(player) for player in here.players]
        assert [b - a for a, b in zip(before, after, strict=True)] == [7, -7, 0]
        request = wallet_pb2.ListGameTransfersRequest(game_id=here.game_id)
        listed = (await here.wallet("operators", "ListGameTransfers", request)).transfers
        assert [t.dispute_id for t in listed if t.dispute_id] == [opened.dispute_id]
        assert listed[-1].transfer_id == closed.transfer_id
        asked = wallet_pb2.ListTransfersRequest(account_id=here.players[0], page_size=1)
        line = (await here.wallet("operators", "ListTransfers", asked)).lines[0]
        assert (line.dispute_id, line.chips, line.reason) == (opened.dispute_id, 7, "")
        assert await here.sound()


async def test_a_void_game_gives_every_stake_back(tmp_path: Path, databases: Given) -> None:
    """What corrections had moved is taken into account: each player is where he began."""
    async with court(tmp_path, welcome_chips=10_000, **databases) as here:
        first = await here.open(here.players[0])
        await here.rule(first, CORRECTION, p0=7, p2=-7)
        await here.until(first, State.DISPUTE_STATE_CLOSED)
        second = await here.open(here.players[1])
        ruled = await here.rule(second, VOID)
        if ruled.state == State.DISPUTE_STATE_AWAITING_APPROVAL:
            await here.ask(here.omar, "ApproveRuling", _approve(second))
        await here.until(second, State.DISPUTE_STATE_CLOSED)
        assert [await here.balance(player) for player in here.players] == [10_000] * 3
        third = await here.open(here.players[1])
        with pytest.raises(Refused) as caught:
            await here.rule(third, VOID)
        assert caught.value.reason == "NOTHING_TO_MOVE"
        assert await here.sound()


async def test_many_chips_need_a_second_operator(tmp_path: Path, databases: Given) -> None:
    """Not the one who ruled; until then nothing moves, nobody sees it, it can be undone."""
    async with court(tmp_path, **databases) as here:
        opened = await here.open(here.players[0])
        before = await here.balance(here.players[0])
        ruled = await here.rule(opened, CORRECTION, p0=ALONE + 1, p1=-ALONE - 1)
        assert ruled.state == State.DISPUTE_STATE_AWAITING_APPROVAL
        assert await here.refused(here.olga, "ApproveRuling", _approve(opened)) == "SAME_OPERATOR"
        theirs = await here.get(opened, here.seat(here.players[0]))
        assert (theirs.state, theirs.ruling, list(theirs.moves)) == (1, 0, [])
        assert theirs.explanation == ""
        withdraw = audit_pb2.WithdrawRulingRequest(
            request_id=new_id(), dispute_id=opened.dispute_id
        )
        await here.ask(here.omar, "WithdrawRuling", withdraw)
        refusal = await here.refused(here.omar, "ApproveRuling", _approve(opened))
        assert refusal == "NOT_AWAITING_APPROVAL"
        assert await here.balance(here.players[0]) == before
        await here.rule(opened, CORRECTION, p0=ALONE + 1, p1=-ALONE - 1)
        await here.ask(here.omar, "ApproveRuling", _approve(opened))
        closed = await here.until(opened, State.DISPUTE_STATE_CLOSED)
        assert closed.approved_by == "omar"
        assert await here.balance(here.players[0]) == before + ALONE + 1
        again = audit_pb2.WithdrawRulingRequest(request_id="x", dispute_id=opened.dispute_id)
        assert await here.refused(here.omar, "WithdrawRuling", again) == "NOT_AWAITING_APPROVAL"


async def test_a_large_ruling_is_not_made_of_small_ones(tmp_path: Path) -> None:
    """What rulings on a game move without a second operator is counted together, whoever opened
    the disputes, and in whichever direction; what was approved is not counted."""
    async with court(tmp_path) as here:
        chips = ALONE // 2
        for player, moves in ((0, {"p0": chips, "p1": -chips}), (1, {"p1": chips, "p2": -chips})):
            opened = await here.open(here.players[player])
            await here.rule(opened, CORRECTION, **moves)
            await here.until(opened, State.DISPUTE_STATE_CLOSED)
        third = await here.open(here.players[0])
        ruled = await here.rule(third, CORRECTION, p0=1, p2=-1)
        assert ruled.state == State.DISPUTE_STATE_AWAITING_APPROVAL
        await here.ask(here.omar, "ApproveRuling", _approve(third))
        await here.until(third, State.DISPUTE_STATE_CLOSED)
        assert await here.sound()


async def test_what_a_player_no_longer_has_comes_from_the_reserve(
    tmp_path: Path, databases: Given
) -> None:
    """The ruling waits until the reserve is funded; the claim stays until it is collected."""
    async with court(tmp_path, due_lease_ms=1_000, **databases) as here:
        rich, poor = here.players[:2]
        left = await here.balance(poor) - 40
        await here.spend(poor, left)
        gained = await here.balance(rich)
        opened = await here.open(rich)
        await here.rule(opened, CORRECTION, p0=100, p1=-100)
        await here.until(opened, State.DISPUTE_STATE_PAYING, "DISPUTE_RESERVE_SHORT")
        assert await here.balance(poor) == 40
        await here.fund(1_000)
        closed = await here.until(opened, State.DISPUTE_STATE_CLOSED)
        assert (await here.balance(rich), await here.balance(poor)) == (gained + 100, 0)
        assert [(c.player_id, c.chips, c.collected) for c in closed.claims] == [(poor, 60, 0)]
        assert list((await here.get(opened, here.seat(rich))).claims) == []
        assert len((await here.get(opened, here.seat(poor))).claims) == 1
        await here.grant(poor, 25)
        await here.collect(opened, poor)
        await here.collected(opened, 25)
        await here.collect(opened, poor)
        await here.collected(opened, 25, "INSUFFICIENT_CHIPS")
        await here.grant(poor, 100)
        await here.collect(opened, poor)
        await here.collected(opened, 60)
        assert await here.balance(poor) == 65
        everything = await here.ask(here.olga, "ListClaims", audit_pb2.ListClaimsRequest(all=True))
        assert [(c.chips, c.collected) for c in everything.claims] == [(60, 60)]
        still = await here.ask(here.olga, "ListClaims", audit_pb2.ListClaimsRequest())
        assert list(still.claims) == []
        more = audit_pb2.CollectClaimRequest(
            request_id="more", dispute_id=opened.dispute_id, player_id=poor
        )
        assert await here.refused(here.olga, "CollectClaim", more) == "CLAIM_NOT_FOUND"
        assert await here.sound()


async def test_of_two_rulings_on_the_same_state_of_a_game_one_moves_chips(
    tmp_path: Path, databases: Given
) -> None:
    """The other dispute is open again, to be ruled on what is now."""
    async with court(tmp_path, **databases) as here:
        first, second = await here.open(here.players[0]), await here.open(here.players[1])
        chips = ALONE + 10
        await here.rule(first, CORRECTION, p0=chips, p1=-chips)
        await here.rule(second, CORRECTION, p0=chips, p2=-chips)
        await here.ask(here.omar, "ApproveRuling", _approve(first))
        await here.until(first, State.DISPUTE_STATE_CLOSED)
        await here.ask(here.omar, "ApproveRuling", _approve(second))
        reopened = await here.until(second, State.DISPUTE_STATE_OPEN)
        assert list(reopened.moves) == []
        await here.rule(second, CORRECTION, p0=-3, p1=3)
        await here.until(second, State.DISPUTE_STATE_CLOSED)
        assert await here.sound()


async def test_everybody_sees_what_he_may(tmp_path: Path) -> None:
    """Players of the game the outcome, only its author and operators the complaint, others none."""
    async with court(tmp_path) as here:
        opened = await here.open(here.players[0], "A private matter.")
        await here.rule(opened, CORRECTION, p0=7, p1=-7)
        await here.until(opened, State.DISPUTE_STATE_CLOSED)
        author = await here.get(opened, here.seat(here.players[0]))
        other = await here.get(opened, here.seat(here.players[1]))
        assert (author.complaint, other.complaint) == ("A private matter.", "")
        for seen in (author, other):
            assert (seen.explanation, seen.ruling, seen.remedy) == ("It was so.", 2, CORRECTION)
            assert (seen.ruled_by, seen.approved_by, seen.refused) == ("", "", "")
        listed = audit_pb2.ListDisputesRequest(game_id=here.game_id)
        page = await here.ask(here.seat(here.players[1]), "ListDisputes", listed)
        assert list(page.disputes) == [other]
        own = await here.ask(
            here.seat(here.players[1]), "ListDisputes", audit_pb2.ListDisputesRequest()
        )
        assert list(own.disputes) == []
        stranger = here.seat(new_id())
        there = audit_pb2.GetDisputeRequest(dispute_id=opened.dispute_id)
        nowhere = audit_pb2.GetDisputeRequest(dispute_id=opened.dispute_id[:-1] + "0")
        answers = {await here.refused(stranger, "GetDispute", r) for r in (there, nowhere)}
        assert answers == {"DISPUTE_NOT_FOUND"}
        assert await here.refused(stranger, "ListDisputes", listed) == "GAME_NOT_FOUND"


async def test_texts_lie_outside_the_log_and_can_be_lost(tmp_path: Path) -> None:
    """The log has their salted digests; a text that is gone or changed is shown as erased."""
    async with court(tmp_path) as here:
        opened = await here.open(here.players[0], "Unmistakable words.")
        await here.rule(opened)
        shown = await here.get(opened)
        assert (shown.complaint, shown.explanation) == ("Unmistakable words.", "It was so.")
        with closing(sqlite3.connect(tmp_path / "game.db")) as database:
            rows = database.execute("SELECT payload, body_hash FROM events").fetchall()
            assert not any(b"Unmistakable" in payload for payload, _ in rows)
            database.execute("UPDATE dispute_texts SET words = 'Other' WHERE words LIKE 'Unm%'")
            database.execute("DELETE FROM dispute_texts WHERE words LIKE 'It%'")
            database.commit()
        shown = await here.get(opened)
        assert (shown.complaint, shown.complaint_erased) == ("", True)
        assert (shown.explanation, shown.explanation_erased) == ("", True)
        assert await here.sound()


async def test_a_repeated_request_keeps_the_first_text(tmp_path: Path) -> None:
    """The same complaint again is the same dispute; another one under its id is refused."""
    async with court(tmp_path) as here:
        request = audit_pb2.OpenDisputeRequest(
            request_id="once", game_id=here.game_id, complaint="First."
        )
        seat = here.seat(here.players[0])
        first = await here.ask(seat, "OpenDispute", request)
        assert await here.ask(seat, "OpenDispute", request) == first
        request.complaint = "Second."
        assert await here.refused(seat, "OpenDispute", request) == "REQUEST_ID_REUSED"
        assert (await here.get(first.dispute)).complaint == "First."
        with closing(sqlite3.connect(tmp_path / "game.db")) as database:
            assert database.execute("SELECT count(*) FROM dispute_texts").fetchone() == (1,)


async def test_rulings_that_cannot_be_are_refused_by_name(tmp_path: Path) -> None:
    """Moves must be between players of a finished game, and balance."""
    async with court(tmp_path) as here:
        opened = await here.open(here.players[0])
        for moves in ({"p0": 5}, {"p0": 5, "p1": -4}, {"p0": 0, "p1": 0}):
            with pytest.raises(Refused) as caught:
                await here.rule(opened, CORRECTION, **moves)
            assert caught.value.fields[0].field.startswith("moves")
        with pytest.raises(Refused) as caught:
            await here.rule(opened, VOID, p0=1, p1=-1)
        assert caught.value.fields[0].field == "moves"
        dismissed = audit_pb2.ResolveDisputeRequest(
            request_id="r",
            dispute_id=opened.dispute_id,
            ruling=DISMISSED,
            explanation="No.",
            remedy=VOID,
        )
        assert await here.refused(here.olga, "ResolveDispute", dismissed) == "INVALID_FIELD"
        running = await here.house.open(variant="azi", people=2, bots=0)
        seat = here.seat(running.seats[0].player_id)
        request = audit_pb2.OpenDisputeRequest(
            request_id="d", game_id=running.game_id, complaint="It is slow."
        )
        early = (await here.ask(seat, "OpenDispute", request)).dispute
        with pytest.raises(Refused) as caught:
            await here.rule(early, VOID)
        assert caught.value.reason == "GAME_RUNNING"
        durak = await here.house.open(variant="durak", people=0, bots=2)
        await settled(here.house, 2)
        seat = here.seat(durak.seats[0].player_id)
        request = audit_pb2.OpenDisputeRequest(
            request_id="d", game_id=durak.game_id, complaint="It was odd."
        )
        chipless = (await here.ask(seat, "OpenDispute", request)).dispute
        with pytest.raises(Refused) as caught:
            await here.rule(chipless, VOID)
        assert caught.value.reason == "NO_CHIPS"
        assert (await here.rule(chipless)).state == State.DISPUTE_STATE_CLOSED


async def test_a_player_opens_a_bounded_number_of_disputes_about_a_game(tmp_path: Path) -> None:
    """Pages of them come through whole."""
    async with court(tmp_path) as here:
        opened = [await here.open(here.players[0], f"Number {n}.") for n in range(10)]
        with pytest.raises(Refused) as caught:
            await here.open(here.players[0])
        assert caught.value.reason == "TOO_MANY_DISPUTES"
        await here.open(here.players[1])
        for by, game, count in (
            (here.olga, "", 11),
            (here.olga, here.game_id, 11),
            (here.seat(here.players[0]), "", 10),
            (here.seat(here.players[0]), here.game_id, 11),
        ):
            request = audit_pb2.ListDisputesRequest(page_size=4, game_id=game)
            found = set()
            while True:
                page = await here.ask(by, "ListDisputes", request)
                assert len(page.disputes) <= 4
                found |= {dispute.dispute_id for dispute in page.disputes}
                if not page.next_page_token:
                    break
                request.page_token = page.next_page_token
            assert len(found) == count
            assert {dispute.dispute_id for dispute in opened} <= found


async def test_disputes_that_are_opened_at_once_are_counted(tmp_path: Path) -> None:
    """The bound holds for calls that overtake each other."""
    async with court(tmp_path) as here:
        opening = (here.open(here.players[0]) for _ in range(25))
        opened = await asyncio.gather(*opening, return_exceptions=True)
        refused = [each for each in opened if isinstance(each, Refused)]
        assert len(opened) - len(refused) == 10
        assert {each.reason for each in refused} == {"TOO_MANY_DISPUTES"}


async def test_the_evidence_is_one_document(tmp_path: Path, databases: Given) -> None:
    """Log, ledger, clock, who acted, who was connected, and who has looked."""
    async with court(tmp_path, checkpoint_ms=100, **databases) as here:
        seat = here.seat(here.players[0])
        stream = seat.watch(here.game_id)
        async for _ in stream:
            pass
        opened = await here.open(here.players[0])
        await here.rule(opened, CORRECTION, p0=7, p1=-7)
        await here.until(opened, State.DISPUTE_STATE_CLOSED)
        document = await here.evidence(opened)
        async with asyncio.timeout(20):
            while not document["connections"] or (
                (document["proof"] or {}).get("version") != document["game"]["version"]
            ):
                await asyncio.sleep(0.1)
                document = await here.evidence(opened)
        game = document["game"]
        versions = [int(event["version"]) for event in game["events"]]
        assert versions == list(range(1, game["version"] + 1))
        assert document["proof"]["version"] == game["version"]
        assert document["proof"]["head"] == game["head"]
        kinds = [transfer["kind"] for transfer in document["ledger"]]
        assert kinds[-2:] == ["TRANSFER_KIND_SETTLE", "TRANSFER_KIND_DISPUTE"]
        assert len(document["reservations"]) == 3
        assert {each["actor"] for each in document["clock"]} == {"server", "bot"}
        assert {each["what"] for each in document["connections"]} == {"opened", "closed"}
        assert {each["seat"] for each in document["connections"]} == {0}
        assert "GetEvidence" in {look["action"] for look in document["looks"]}
        assert document["dispute"]["complaint"] == "That was not right."


async def test_the_evidence_of_a_running_game_holds_no_hand(tmp_path: Path) -> None:
    """No secret and no bot's reason is in it."""
    async with system(tmp_path) as house:
        request = await house.open(variant="azi", people=2, bots=0)
        seat = house.game(request.seats[0].player_id)
        asked = audit_pb2.OpenDisputeRequest(
            request_id="d", game_id=request.game_id, complaint="It is slow."
        )
        dispute = (await seat.call(seat.audits.OpenDispute, asked)).dispute
        operator = house.operator
        court = Court(house, request.game_id, [], {}, operator, operator)
        document = await court.evidence(dispute)
        for event in document["game"]["events"]:
            assert not {"salt", "secret", "metadata"} & event.keys()
        assert all(each["reason"] == "" for each in document["clock"])


async def test_an_audit_finds_a_transfer_that_nobody_ruled(tmp_path: Path) -> None:
    """Whoever can speak as the game service moves chips, and the audit of the game says so."""
    async with court(tmp_path) as here:
        assert await here.sound()
        dispute = await here.open(here.players[0])
        request = wallet_pb2.CompensateRequest(
            request_id="forged",
            dispute_id=dispute.dispute_id,
            game_id=here.game_id,
            moves=[
                wallet_pb2.Compensation(account_id=here.players[0], chips=9),
                wallet_pb2.Compensation(account_id=here.players[1], chips=-9),
            ],
        )
        await here.wallet("game", "Compensate", request)
        assert len(await here.faults()) == 1
        with pytest.raises(Refused) as caught:
            await here.rule(dispute, CORRECTION, p0=1, p1=-1)
        assert caught.value.reason == "RULING_UNDER_WAY"


def _approve(dispute: Dispute) -> audit_pb2.ApproveRulingRequest:
    return audit_pb2.ApproveRulingRequest(request_id=new_id(), dispute_id=dispute.dispute_id)
