"""The game service over real gRPC: opening, playing, watching, settling, auditing."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2, view_pb2

from services.kernel.envelope import Recorded
from services.kernel.errors import Kind, Refused
from services.runtime.fingerprint import fingerprint
from services.runtime.store.sql import SqlStore
from tests.services.game.stopped import still
from tests.services.game.system import Seat, System, new_id, setup, system


async def play_out(player: Seat, game_id: str, rng: Random) -> list[game_pb2.WatchGameResponse]:
    """Play a seat with random legal moves through its stream, to the end; what came."""
    messages = []
    async for message in player.watch(game_id):
        messages.append(message)
        view = view_of(message)
        if view is None or view.seat not in view.to_act:
            continue
        table = getattr(view, view.WhichOneof("table") or "")
        try:
            await player.move(view, table.legal[rng.randrange(len(table.legal))])
        except Refused as refused:  # several drop a card at a time, and another was faster
            if refused.reason != "STALE_TURN" or len(view.to_act) == 1:
                raise
    return messages


def view_of(message: game_pb2.WatchGameResponse) -> view_pb2.GameView | None:
    """The view a message brings, if any."""
    match message.WhichOneof("event"):
        case "snapshot":
            return message.snapshot.view
        case "step":
            return message.step.view
        case _:
            return None


async def settled(house: System, count: int = 1) -> None:
    """Wait until the table was told of so many games."""
    async with asyncio.timeout(20):
        while len(house.table.reports) < count:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("variant", "bots"), [("azi", 2), ("durak", 3), ("rami", 1)])
async def test_a_person_and_bots_play_a_whole_game(tmp_path: Path, variant: str, bots: int) -> None:
    """Every version reaches the watcher once and in order; the audit and the wallet agree."""
    async with system(tmp_path) as house:
        request = await house.open(variant=variant, people=1, bots=bots)
        if variant == "rami":
            assert request.options.HasField("rami")
        player = house.game(request.seats[0].player_id)
        messages = await play_out(player, request.game_id, Random(3))
        seen = messages[0].snapshot.view.version
        for message in messages[1:]:
            if message.WhichOneof("event") == "step":
                assert message.step.from_version == seen + 1
                seen = message.step.to_version
        view = await player.view(request.game_id)
        assert (view.stage, view.version) == (view_pb2.STAGE_FINISHED, seen)
        await settled(house)
        operator = house.operator
        verify = audit_pb2.VerifyGameRequest(game_id=request.game_id)
        verdict = await operator.call(operator.audits.VerifyGame, verify)
        assert list(verdict.faults) == []
        assert verdict.events == view.version
        if variant == "azi":
            for line in view.result.seats:
                account = await house.account(line.player_id)
                assert account.balance == 10_000 - 100 + line.stack_after
                assert account.reserved == 0


async def test_a_repeated_request_acts_once(tmp_path: Path) -> None:
    """The same request id gives the first outcome; with another body it is refused."""
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        seats = [house.game(seat.player_id) for seat in request.seats]
        view = await dealt(seats[0], request.game_id)
        mover = seats[view.to_act[0]]
        view = await mover.view(request.game_id)
        first = await mover.move(view, view.rami.legal[0], "once")
        again = await mover.move(view, view.rami.legal[0], "once")
        assert still(first.view) == still(again.view)
        with pytest.raises(Refused) as caught:
            await mover.move(view, view.rami.legal[1], "once")
        assert caught.value.reason == "REQUEST_ID_REUSED"
        assert (await mover.view(request.game_id)).version == first.view.version


async def test_a_move_costs_one_append_and_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the game in memory a move reads nothing; a stranger is refused all the same."""
    reads: list[UUID] = []
    read = SqlStore.read

    async def counted(
        store: SqlStore, stream: UUID, after: int = 0, limit: int | None = None
    ) -> list[Recorded]:
        reads.append(stream)
        return await read(store, stream, after, limit)

    monkeypatch.setattr(SqlStore, "read", counted)
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        seats = [house.game(seat.player_id) for seat in request.seats]
        view = await dealt(seats[0], request.game_id)
        mover = seats[view.to_act[0]]
        view = await mover.view(request.game_id)
        reads.clear()
        moved = (await mover.move(view, view.rami.legal[0])).view
        assert moved.version > view.version
        with pytest.raises(Refused) as caught:
            await house.game(new_id()).move(view, view.rami.legal[0])
        assert caught.value.reason == "GAME_NOT_FOUND"
        assert reads == []


async def dealt(player: Seat, game_id: str) -> view_pb2.GameView:
    """The game once its first deal has been made."""
    async for message in player.watch(game_id):
        view = view_of(message)
        if view is not None and view.stage == view_pb2.STAGE_PLAYING:
            return view
    raise AssertionError("the game ended before it was dealt")


async def test_a_stream_is_taken_up_after_its_last_message(tmp_path: Path) -> None:
    """A resume token brings the steps that were missed, and no other viewer may use it."""
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0, spectators=True)
        seats = [house.game(seat.player_id) for seat in request.seats]
        view = await dealt(seats[0], request.game_id)
        stream = seats[0].watch(request.game_id)
        token = (await anext(stream)).resume_token
        await stream.aclose()  # type: ignore[attr-defined]
        versions = [view.version]
        for _ in range(3):
            mover = seats[view.to_act[0]]
            mine = await mover.view(request.game_id)
            view = (await mover.move(mine, mine.rami.legal[0])).view
            versions.append(view.version)
        resumed = seats[0].watch(request.game_id, token)
        steps = [(await anext(resumed)).step for _ in range(3)]
        assert [step.to_version for step in steps] == versions[1:]
        assert steps[0].from_version == versions[0] + 1
        with pytest.raises(Refused) as caught:
            await anext(house.game(new_id()).watch(request.game_id, token))
        assert caught.value.reason == "BAD_TOKEN"


async def test_a_stream_taken_up_where_nothing_is_new_says_so_at_once(tmp_path: Path) -> None:
    """A watcher learns without waiting that this replica lives, and how long silence may last."""
    async with system(tmp_path, heartbeat_ms=600_000) as house:
        request = await house.open(people=2, bots=0)
        seats = [house.game(seat.player_id) for seat in request.seats]
        view = await dealt(seats[0], request.game_id)
        stream = seats[0].watch(request.game_id)
        first = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert first.heartbeat_ms == 600_000
        resumed = seats[0].watch(request.game_id, first.resume_token)
        message = await anext(resumed)
        assert message.heartbeat.version == view.version
        assert message.heartbeat_ms == 600_000
        await resumed.aclose()  # type: ignore[attr-defined]


async def test_a_watcher_far_behind_gets_a_snapshot_that_says_what_it_stands_for(
    tmp_path: Path,
) -> None:
    """Beyond 200 versions there are no steps and no error."""
    async with system(tmp_path) as house:
        long = setup(people=2, bots=0)
        long.options.rami.target = 100
        request = await house.open(long)
        seats = [house.game(seat.player_id) for seat in request.seats]
        stream = seats[0].watch(request.game_id)
        token = (await anext(stream)).resume_token
        await stream.aclose()  # type: ignore[attr-defined]
        view = await dealt(seats[0], request.game_id)
        rng = Random(1)
        while view.version < 230:
            mover = seats[view.to_act[0]]
            mine = await mover.view(request.game_id)
            view = (await mover.move(mine, rng.choice(mine.rami.legal))).view
        message = await anext(seats[0].watch(request.game_id, token))
        assert message.snapshot.from_version <= 10
        assert message.snapshot.view.version == view.version


async def test_what_one_may_not_see_is_not_there(tmp_path: Path) -> None:
    """A stranger is answered alike for a game of others and for none at all."""
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        stranger = house.game(new_id())
        answers = []
        for game_id in (request.game_id, new_id()):
            with pytest.raises(Refused) as caught:
                await stranger.view(game_id)
            answers.append((caught.value.kind, caught.value.reason, caught.value.message))
        assert answers[0] == answers[1]
        assert answers[0][:2] == (Kind.NOT_FOUND, "GAME_NOT_FOUND")


async def test_a_deadline_makes_the_rules_move(tmp_path: Path) -> None:
    """A seat that does not move is moved for, by the database's clock, and the log says so."""
    async with system(tmp_path) as house:
        request = await house.open(variant="durak", people=2, bots=0, turn_ms=150)
        player = house.game(request.seats[0].player_id)
        expired = None
        async for message in player.watch(request.game_id):
            for happening in message.step.happenings:
                if happening.durak.HasField("turn_expired"):
                    expired = happening
            if expired is not None:
                break
        assert expired is not None


async def test_a_game_goes_on_while_the_ai_is_down(tmp_path: Path) -> None:
    """A bot that cannot be asked is moved for at its deadline, and asked again afterwards."""
    async with system(tmp_path) as house:
        house.ai.failing = True
        request = await house.open(variant="durak", people=0, bots=2, turn_ms=200)
        async with asyncio.timeout(20):
            while (await house.operator.view(request.game_id)).version < 12:
                await asyncio.sleep(0.05)
            house.ai.failing = False
            before = len(house.ai.asked)
            while len(house.ai.asked) == before:
                await asyncio.sleep(0.05)


async def test_a_blind_bot_looks_and_then_drops_in_one_decision(tmp_path: Path) -> None:
    """A look leaves the decision open; the bot is asked again at once, not moved for later."""
    async with system(tmp_path) as house:
        house.ai.steady = True
        blind = setup(variant="azi", people=0, bots=3)
        blind.options.azi.deal_size = 4
        blind.options.azi.blind_bets = True
        request = await house.open(blind)
        await settled(house)
        log = audit_pb2.ReadLogRequest(game_id=request.game_id, page_size=1_000)
        operator = house.operator
        rows = (await operator.call(operator.audits.ReadLog, log)).rows
        names = [row.name for row in rows]
        bidding = names.index("azi.BiddingOpened")
        assert names[:bidding].count("azi.BlindLookedAt") == 3
        assert "azi.TurnExpired" not in names


async def test_a_dropped_card_cannot_be_found_by_trying(tmp_path: Path) -> None:
    """The log keeps of a request only what says nothing of the card without the game's secret."""
    async with system(tmp_path) as house:
        four = setup(variant="azi", people=2, bots=0)
        four.options.azi.deal_size = 4
        request = await house.open(four)
        seats = [house.game(seat.player_id) for seat in request.seats]
        await dealt(seats[0], request.game_id)
        view = await seats[0].view(request.game_id)
        await seats[0].move(view, view.azi.legal[0], "drop")
        log = audit_pb2.ReadLogRequest(game_id=request.game_id)
        rows = (await house.operator.call(house.operator.audits.ReadLog, log)).rows
        stored = next(row.body_hash for row in rows if row.request_id == "0/drop")
        tried = []
        for move in view.azi.legal:
            guess = game_pb2.SubmitMoveRequest(
                request_id="drop", game_id=view.game_id, turn=view.turn
            )
            guess.move.azi.CopyFrom(move)
            tried.append(fingerprint(guess))
        assert len(tried) == 4
        assert stored not in tried


def tamper(folder: Path, game_id: str, version: int) -> None:
    """Rewrite a stored event, as somebody who holds the database might."""
    with closing(sqlite3.connect(folder / "game.db")) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (guard,) in found.fetchall():
            database.execute(f"DROP TRIGGER {guard}")
        changed = database.execute(
            "UPDATE events SET payload = substr(payload, 2) WHERE stream = ? AND version = ?",
            (UUID(game_id).hex, version),
        )
        assert changed.rowcount == 1
        database.commit()


async def test_a_damaged_log_is_named_and_leaves_other_games_alone(tmp_path: Path) -> None:
    """The audit says game and version, lists go on, and the other game is played."""
    async with system(tmp_path) as house:
        first = await house.open(people=2, bots=0)
        setups = [first, await house.open(seats_of(first))]
        player = first.seats[0].player_id
        for request in setups:
            await dealt(house.game(player), request.game_id)
    damaged, sound = (request.game_id for request in setups)
    tamper(tmp_path, damaged, 3)
    async with system(tmp_path) as house:
        operator, mine = house.operator, house.game(player)
        for caller in (operator, mine):
            listed = await caller.call(caller.games.ListGames, game_pb2.ListGamesRequest())
            assert {damaged, sound} <= {game.game_id for game in listed.games}
        verify = audit_pb2.VerifyGameRequest(game_id=damaged)
        faults = (await operator.call(operator.audits.VerifyGame, verify)).faults
        assert [(fault.version, fault.kind) for fault in faults] == [(3, "CHAIN_BROKEN")]
        verify.game_id = sound
        assert not (await operator.call(operator.audits.VerifyGame, verify)).faults
        with pytest.raises(Refused) as caught:
            await mine.view(damaged)
        assert caught.value.reason == "LOG_DAMAGED"
        seats = [house.game(seat.player_id) for seat in setups[1].seats]
        mover = seats[(await mine.view(sound)).to_act[0]]
        view = await mover.view(sound)
        await mover.move(view, view.rami.legal[0])


def seats_of(request: game_pb2.CreateGameRequest) -> game_pb2.CreateGameRequest:
    """Another game of the same players."""
    again = setup(people=2, bots=0)
    for seat, taken in zip(again.seats, request.seats, strict=True):
        seat.player_id = taken.player_id
    return again


async def test_bots_are_given_their_own_seats_view(tmp_path: Path) -> None:
    """What the ai is asked with shows the asked seat's hand and nobody else's."""
    async with system(tmp_path) as house:
        request = await house.open(variant="durak", people=0, bots=3)
        await settled(house)
        assert request.game_id
        for question in house.ai.asked:
            assert question.view.seat in question.view.to_act
            assert len(question.view.durak.hand) == question.view.durak.counts[question.view.seat]


async def test_a_cancelled_game_never_opens_and_its_chips_go_back(tmp_path: Path) -> None:
    """The tombstone comes first; then even pinned reservations are released by the game's end."""
    async with system(tmp_path) as house:
        request = setup(variant="azi", people=2, bots=0)
        await house.reserve(request)
        lobby = house.lobby
        cancel = game_pb2.CancelGameRequest(request_id=new_id(), game_id=request.game_id)
        assert not (await lobby.call(lobby.games.CancelGame, cancel)).opened
        with pytest.raises(Refused) as caught:
            await lobby.call(lobby.games.CreateGame, request)
        assert caught.value.reason in ("GAME_CANCELLED", "GAME_VOIDED")
        async with asyncio.timeout(10):
            for seat in request.seats:
                while (await house.account(seat.player_id)).reserved:
                    await asyncio.sleep(0.02)


async def test_operators_see_a_running_game_as_spectators_do(tmp_path: Path) -> None:
    """No hand, no secret and no replay before the end."""
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        await dealt(house.game(request.seats[0].player_id), request.game_id)
        operator = house.operator
        view = await operator.view(request.game_id)
        assert not view.HasField("seat")
        assert not view.rami.hand
        rows = (
            await operator.call(
                operator.audits.ReadLog, audit_pb2.ReadLogRequest(game_id=request.game_id)
            )
        ).rows
        assert rows
        assert not any(row.secret or row.salt for row in rows)
        replay = audit_pb2.ReplayGameRequest(game_id=request.game_id)
        with pytest.raises(Refused) as caught:
            await anext(operator.client.stream(operator.audits.ReplayGame, replay))
        assert caught.value.reason == "GAME_RUNNING"


async def test_time_lost_by_an_outage_is_given_back_before_anybody_is_expired(
    tmp_path: Path,
) -> None:
    """A service that was gone longer than a turn credits the clock; the audit agrees."""
    request = setup(variant="durak", people=2, bots=0, turn_ms=700)
    async with system(tmp_path, outage_ms=200) as house:
        await house.open(request)
        view = await dealt(house.game(request.seats[0].player_id), request.game_id)
    await asyncio.sleep(1)
    async with system(tmp_path, outage_ms=200) as house:
        mover = house.game(request.seats[view.to_act[0]].player_id)
        mine = await mover.view(request.game_id)
        assert mine.turn == view.turn
        await mover.move(mine, mine.durak.legal[0])
        history = await mover.call(
            mover.games.GetGame, game_pb2.GetGameRequest(game_id=request.game_id, history=True)
        )
        what = [h.WhichOneof("happening") for h in history.history]
        assert "clock_credited" in what
        assert not any(h.durak.HasField("turn_expired") for h in history.history)
        verify = audit_pb2.VerifyGameRequest(game_id=request.game_id)
        verdict = await house.operator.call(house.operator.audits.VerifyGame, verify)
        assert not verdict.faults


async def test_disputes_are_opened_once_and_ruled_once(tmp_path: Path) -> None:
    """A player of the game may dispute it; an operator rules; both see the outcome.

    Each may use the request id that the other has used.
    """
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        player, operator = house.game(request.seats[0].player_id), house.operator
        complaint = audit_pb2.OpenDisputeRequest(
            request_id="d1", game_id=request.game_id, complaint="That was not my move."
        )
        first = await player.call(player.audits.OpenDispute, complaint)
        assert first == await player.call(player.audits.OpenDispute, complaint)
        listed = await operator.call(
            operator.audits.ListDisputes, audit_pb2.ListDisputesRequest(open=True)
        )
        assert [d.dispute_id for d in listed.disputes] == [first.dispute.dispute_id]
        ruling: Any = audit_pb2.ResolveDisputeRequest(
            request_id=complaint.request_id,
            dispute_id=first.dispute.dispute_id,
            ruling=audit_pb2.RULING_DISMISSED,
            explanation="It was.",
        )
        await operator.call(operator.audits.ResolveDispute, ruling)
        again = await operator.call(operator.audits.ResolveDispute, ruling)
        assert again.dispute.explanation == "It was."
        ruling.request_id = "r2"
        with pytest.raises(Refused) as caught:
            await operator.call(operator.audits.ResolveDispute, ruling)
        assert caught.value.reason == "DISPUTE_RULED"
        mine = await player.call(player.audits.ListDisputes, audit_pb2.ListDisputesRequest())
        assert mine.disputes[0].explanation == "It was."
