"""Watching behind the game, coming back to it, and asking for hints, over gRPC."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kozyr.game.v1 import game_pb2, variant_pb2, view_pb2

from services.kernel.errors import Kind, Refused
from tests.services.game.stopped import still
from tests.services.game.system import Seat, System, new_id, system
from tests.services.game.test_service import play_out, view_of

DELAY = 3


@asynccontextmanager
async def table(folder: Path, **given: Any) -> AsyncIterator[tuple[System, str, list[Seat]]]:
    """Two persons at a game of Durak that is dealt."""
    settings = {name: given.pop(name) for name in ("hints_per_minute",) if name in given}
    async with system(folder, heartbeat_ms=100, **settings) as house:
        request = await house.open(variant="durak", people=2, bots=0, turn_ms=600_000, **given)
        seats = [house.game(seat.player_id) for seat in request.seats]
        async for message in seats[0].watch(request.game_id):
            view = view_of(message)
            if view is not None and view.to_act:
                break
        yield house, request.game_id, seats


async def decide(seats: list[Seat], game: str, rng: Random) -> view_pb2.GameView:
    """One decision; the mover's view after it."""
    view = await seats[0].view(game)
    mover = seats[view.to_act[0]]
    view = await mover.view(game)
    answer = await mover.move(view, rng.choice(list(view.durak.legal)))
    moved: view_pb2.GameView = answer.view
    return moved


async def test_who_has_no_seat_is_kept_behind_by_every_call(tmp_path: Path) -> None:
    """Views, histories, lists and receipts are those of some decisions ago; players see the game
    live, and so does everybody once it has ended."""
    async with table(tmp_path, spectators=True, spectator_delay=DELAY) as (house, game, seats):
        stranger, rng = house.game(new_id()), Random(4)
        first = await seats[0].view(game)
        past = [first.version, *[(await decide(seats, game, rng)).version for _ in range(8)]]
        may = past[-1 - DELAY]
        for viewer in (stranger, house.operator):
            request = game_pb2.GetGameRequest(game_id=game, history=True)
            answer = await viewer.call(viewer.games.GetGame, request)
            assert answer.view.version == may
            assert answer.view.spectator_delay == DELAY
            assert answer.history[-1].version == may
            assert answer.view.clock.now_time == answer.view.recorded_time
            assert (await receipt(viewer, game))["version"] == may
        listed = game_pb2.ListGamesRequest()
        (shown,) = (await house.operator.call(house.operator.games.ListGames, listed)).games
        assert shown.version == may
        (own,) = (await seats[0].call(seats[0].games.ListGames, listed)).games
        assert own.version == past[-1]
        assert (await seats[1].view(game)).version == past[-1]
        while (await seats[0].view(game)).stage == view_pb2.STAGE_PLAYING:
            await decide(seats, game, rng)
        last = await seats[0].view(game)
        assert (await stranger.view(game)).version == last.version
        (shown,) = (await house.operator.call(house.operator.games.ListGames, listed)).games
        assert shown.version == last.version


async def receipt(viewer: Seat, game: str) -> dict[str, Any]:
    """What a receipt says."""
    request = game_pb2.GetReceiptRequest(game_id=game)
    chunks = [each.chunk async for each in viewer.client.stream(viewer.games.GetReceipt, request)]
    said: dict[str, Any] = json.loads(b"".join(chunks))["receipt"]
    return said


async def test_a_stream_that_is_kept_behind_tells_everything_as_late(tmp_path: Path) -> None:
    """Each version once and in order, each after as many decisions, heartbeats and tokens with the
    version that was shown; at the end the rest at once."""
    async with table(tmp_path, spectators=True, spectator_delay=DELAY) as (house, game, seats):
        stranger, rng = house.game(new_id()), Random(4)
        live = {(await seats[0].view(game)).version: await seats[0].view(game)}
        stream: Any = stranger.watch(game)
        token, seen = b"", 0
        while True:
            message = await anext(stream)
            token = message.resume_token
            match message.WhichOneof("event"):
                case "heartbeat":
                    assert message.heartbeat.version == seen
                    view = await seats[0].view(game)
                    if view.stage == view_pb2.STAGE_PLAYING:
                        view = await decide(seats, game, rng)
                        live[view.version] = view
                        if rng.random() < 0.3:
                            await stream.aclose()
                            stream = stranger.watch(game, token)
                    continue
                case "snapshot":
                    assert seen == 0
                    seen = message.snapshot.view.version
                case _:
                    assert message.step.from_version == seen + 1
                    seen = message.step.to_version
            later = [version for version in live if version > seen]
            over = (await seats[0].view(game)).stage != view_pb2.STAGE_PLAYING
            assert over or len(later) >= min(DELAY, len(live) - 1)
            if over and not later:
                break
        assert [each async for each in stream] == []


async def test_a_game_of_bots_is_shown_when_it_is_old_enough(tmp_path: Path) -> None:
    """Until then whoever asks is told so; a stream of it is refused alike."""
    async with system(tmp_path) as house:
        house.ai.failing = True
        request = await house.open(
            variant="durak",
            people=0,
            bots=2,
            turn_ms=600_000,
            spectators=True,
            spectator_delay=DELAY,
        )
        stranger = house.game(new_id())
        for call in (stranger.view(request.game_id), anext(stranger.watch(request.game_id))):
            with pytest.raises(Refused) as caught:
                await call
            assert (caught.value.kind, caught.value.reason) == (Kind.PRECONDITION, "NOT_SHOWN_YET")
        listed = game_pb2.ListGamesRequest()
        (shown,) = (await house.operator.call(house.operator.games.ListGames, listed)).games
        assert shown == game_pb2.GameSummary(game_id=request.game_id)


async def test_several_devices_of_one_player_see_the_same(tmp_path: Path) -> None:
    """Each stream has every step, whichever of them moves."""
    async with table(tmp_path) as (house, game, seats):
        subject = (await seats[0].view(game)).seats[0].player_id
        devices = [house.game(subject) for _ in range(3)]
        streams = [device.watch(game) for device in devices]
        first = [(await anext(stream)).snapshot.view for stream in streams]
        assert [still(view) for view in first] == [still(first[0])] * 3
        rng = Random(1)
        for number in range(6):
            view = await decide([devices[number % 3], seats[1]], game, rng)
            for stream in streams:
                message = await anext(stream)
                while message.HasField("heartbeat"):
                    message = await anext(stream)
                assert message.step.to_version == view.version


async def test_a_player_says_that_he_is_back(tmp_path: Path) -> None:
    """Whoever was not away is told so, a stranger nothing; the answer is his view."""
    async with system(tmp_path) as house:
        house.ai.failing = True
        request = await house.open(
            variant="rami", people=2, bots=0, turn_ms=400, absent_policy=2, bot_after=1
        )
        seats = [house.game(seat.player_id) for seat in request.seats]
        async for message in seats[0].watch(request.game_id):
            view = view_of(message)
            if view is not None and view.seats[0].bot_plays:
                break
        back = game_pb2.ReturnToSeatRequest(request_id="back", game_id=request.game_id)
        answer = await seats[0].call(seats[0].games.ReturnToSeat, back)
        assert not answer.view.seats[0].bot_plays
        assert answer.view.seats[0].missed_turns == 0
        assert answer.view.bot_after == 1
        again = await seats[0].call(seats[0].games.ReturnToSeat, back)
        assert again.view.version == answer.view.version
        with pytest.raises(Refused, match="GAME_NOT_FOUND"):
            await house.game(new_id()).call(seats[0].games.ReturnToSeat, back)


async def hint(seat: Seat, view: view_pb2.GameView, **changes: Any) -> Any:
    """Advice in the decision of a view."""
    request = game_pb2.GetHintRequest(game_id=view.game_id, turn=view.turn, **changes)
    return await seat.call(seat.games.GetHint, request)


async def test_a_hint_is_a_bots_move_for_the_one_who_is_asked(tmp_path: Path) -> None:
    """From his own view, named as a hint, and in no log; nobody else gets one."""
    async with table(tmp_path) as (house, game, seats):
        view = await seats[0].view(game)
        mover, other = view.to_act[0], 1 - view.to_act[0]
        own = await seats[mover].view(game)
        given = await hint(seats[mover], own, level=variant_pb2.BOT_LEVEL_EASY)
        assert given.move.durak in own.durak.legal
        assert (given.turn, given.level) == (own.turn, variant_pb2.BOT_LEVEL_EASY)
        assert given.reason
        asked = house.ai.asked[-1]
        assert asked.hint_for == own.seats[mover].player_id
        assert still(asked.view) == still(own)
        assert (await hint(seats[mover], own)).level == variant_pb2.BOT_LEVEL_HARD
        assert (await seats[0].view(game)).version == view.version
        odd: Any = 9
        for seat, asking, reason in (
            (seats[other], game_pb2.GetHintRequest(turn=own.turn), "NOT_YOUR_TURN"),
            (seats[mover], game_pb2.GetHintRequest(turn=own.turn + 1), "STALE_TURN"),
            (seats[mover], game_pb2.GetHintRequest(turn=own.turn, level=odd), "level: is not"),
            (house.game(new_id()), game_pb2.GetHintRequest(turn=own.turn), "GAME_NOT_FOUND"),
        ):
            asking.game_id = game
            with pytest.raises(Refused, match=reason):
                await seat.call(seat.games.GetHint, asking)


async def test_hints_are_so_many_in_a_minute(tmp_path: Path) -> None:
    """The refusal names the limit and when to ask again; a refused wish costs nothing."""
    async with table(tmp_path, hints_per_minute=2) as (_, game, seats):
        view = await seats[0].view(game)
        mover = seats[view.to_act[0]]
        for _ in range(4):
            with pytest.raises(Refused, match="NOT_YOUR_TURN"):
                await hint(seats[1 - view.to_act[0]], view)
        for _ in range(2):
            await hint(mover, view)
        with pytest.raises(Refused) as caught:
            await hint(mover, view)
        assert caught.value.reason == "RATE_LIMITED"
        assert caught.value.facts["limit"] == "hints"
        assert 0 < (caught.value.retry_after_ms or 0) <= 30_001


async def test_a_table_may_have_no_hints(tmp_path: Path) -> None:
    """It says so in its views."""
    async with table(tmp_path, no_hints=True) as (_, game, seats):
        view = await seats[0].view(game)
        assert view.no_hints
        with pytest.raises(Refused, match="NO_HINTS"):
            await hint(seats[view.to_act[0]], view)


async def test_a_late_move_is_answered_at_once_with_its_reason(tmp_path: Path) -> None:
    """As one out of turn, one to another decision and one of a game that is over are."""
    async with table(tmp_path) as (_, game, seats):
        view = await seats[0].view(game)
        mover, other = seats[view.to_act[0]], seats[1 - view.to_act[0]]
        own = await mover.view(game)
        with pytest.raises(Refused) as caught:
            await other.move(own, own.durak.legal[0])
        assert (caught.value.kind, caught.value.reason) == (Kind.PRECONDITION, "NOT_YOUR_TURN")
        await mover.move(own, own.durak.legal[0])
        with pytest.raises(Refused) as caught:
            await mover.move(own, own.durak.legal[0])
        assert (caught.value.kind, caught.value.reason) == (Kind.CONFLICT, "STALE_TURN")
        async with asyncio.timeout(60):
            await asyncio.gather(*(play_out(seat, game, Random(n)) for n, seat in enumerate(seats)))
        with pytest.raises(Refused) as caught:
            await mover.move(own, own.durak.legal[0])
        assert (caught.value.kind, caught.value.reason) == (Kind.PRECONDITION, "GAME_OVER")
