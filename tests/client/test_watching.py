"""The player's client when replicas fall silent or are contended."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from kozyr.game.v1 import game_pb2, view_pb2

from services.client import watching
from services.client.calls import Caller
from services.client.watching import silence_after, watch
from services.kernel.errors import Kind, Refused
from services.runtime.settings import Settings

BOUND_SECONDS = 10.0


def snapshot(version: int, stage: view_pb2.Stage.ValueType) -> game_pb2.WatchGameResponse:
    """A view with a token to go on from, of a stream that promises a message every 20 ms."""
    view = view_pb2.GameView(version=version, stage=stage)
    shown = game_pb2.Snapshot(from_version=1, view=view)
    token = str(version).encode()
    return game_pb2.WatchGameResponse(snapshot=shown, resume_token=token, heartbeat_ms=20)


class Silent:
    """A caller whose streams bring what was prepared and then hang, until one ends the game."""

    patience_ms = 5_000

    def __init__(self, *streams: list[game_pb2.WatchGameResponse]) -> None:
        self._streams = list(streams)
        self.tokens: list[bytes] = []
        self.dropped: Counter[str] = Counter()

    async def stream(self, service: str, method: Any, request: Any) -> AsyncGenerator[Any, None]:
        """The next stream."""
        self.tokens.append(request.resume_token)
        for message in self._streams.pop(0):
            yield message
        await asyncio.Event().wait()


class Games:
    """A stub."""

    WatchGame = None


async def test_a_stream_that_falls_silent_is_taken_up_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At its start and after messages, and after a time that the stream itself has named."""
    monkeypatch.setattr(watching, "FIRST_SECONDS", 0.02)
    playing, finished = view_pb2.STAGE_PLAYING, view_pb2.STAGE_FINISHED
    caller = Silent([], [snapshot(3, playing)], [], [snapshot(5, finished)])
    async with asyncio.timeout(BOUND_SECONDS):
        seen = [view.version async for _, view in watch(cast(Caller, caller), Games, "g")]
    assert seen == [3, 5]
    assert caller.tokens == [b"", b"", b"3", b"3"]


def step(version: int) -> game_pb2.WatchGameResponse:
    """A step to a version, of a game in play."""
    view = view_pb2.GameView(version=version, stage=view_pb2.STAGE_PLAYING)
    made = game_pb2.Step(from_version=version, to_version=version, view=view)
    return game_pb2.WatchGameResponse(step=made, heartbeat_ms=20)


async def test_what_came_twice_is_passed_on_once_and_counted() -> None:
    """But for the snapshot with which a stream that was taken up anew may begin."""
    playing, finished = view_pb2.STAGE_PLAYING, view_pb2.STAGE_FINISHED
    caller = Silent(
        [snapshot(3, playing), step(4), step(4), snapshot(4, playing)],
        [snapshot(4, playing), step(5)],
        [step(5), step(6), snapshot(7, finished)],
    )
    async with asyncio.timeout(BOUND_SECONDS):
        seen = [view.version async for _, view in watch(cast(Caller, caller), Games, "g")]
    assert seen == [3, 4, 5, 6, 7]
    assert caller.dropped == {"g": 3}


def test_silence_is_judged_by_what_the_stream_promised() -> None:
    """Half as long again; by a fixed time where an older server promises nothing."""
    assert silence_after(2_000) == 3.0
    assert silence_after(0) == watching.SILENCE_SECONDS


async def test_a_contended_call_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing will come that asks the player anew, so the same request goes out until it is done;
    a refusal that says no time for a next try is handed on."""
    caller = Caller(Settings())
    contended = Refused(Kind.CONFLICT, "CONTENDED", "busy", retry_after_ms=1)
    outcomes: list[Any] = [contended, contended, "done", Refused(Kind.CONFLICT, "STALE_TURN", "")]
    sent: list[str] = []

    async def call(method: Any, request: Any) -> Any:
        sent.append(request.request_id)
        outcome = outcomes.pop(0)
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    monkeypatch.setattr(caller._clients["game"], "call", call)
    assert await caller.call("game", None, game_pb2.SubmitMoveRequest()) == "done"
    assert len(sent) == 3
    assert len(set(sent)) == 1
    with pytest.raises(Refused) as caught:
        await caller.call("game", None, game_pb2.SubmitMoveRequest())
    assert caught.value.reason == "STALE_TURN"
    await caller.close()
