"""The player's client when replicas fall silent, leave versions out or are contended."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from kozyr.game.v1 import game_pb2, view_pb2

from services.client import watching
from services.client.calls import SILENCE_SECONDS, Backoff, Caller, Silence
from services.client.watching import Update, follow, promised
from services.kernel.errors import Kind, Refused
from services.runtime.settings import Settings

BOUND_SECONDS = 10.0
PLAYING, FINISHED = view_pb2.STAGE_PLAYING, view_pb2.STAGE_FINISHED
Message = game_pb2.WatchGameResponse


def snapshot(
    version: int, stage: view_pb2.Stage.ValueType = PLAYING, first: int = 1
) -> game_pb2.WatchGameResponse:
    """A view with a token to go on from, of a stream that promises a message every 20 ms."""
    view = view_pb2.GameView(version=version, stage=stage)
    shown = game_pb2.Snapshot(from_version=first, view=view)
    return Message(snapshot=shown, resume_token=str(version).encode(), heartbeat_ms=20)


def step(
    first: int, last: int | None = None, stage: view_pb2.Stage.ValueType = PLAYING
) -> game_pb2.WatchGameResponse:
    """A step of these versions."""
    last = first if last is None else last
    view = view_pb2.GameView(version=last, stage=stage)
    made = game_pb2.Step(from_version=first, to_version=last, view=view)
    return Message(step=made, resume_token=str(last).encode(), heartbeat_ms=20)


def heartbeat(version: int) -> game_pb2.WatchGameResponse:
    """A sign of life."""
    beat = game_pb2.Heartbeat(version=version)
    return Message(heartbeat=beat, resume_token=f"h{version}".encode(), heartbeat_ms=20)


class Broken:
    """A caller whose streams bring what was prepared and then break, until one ends the game."""

    patience_ms = 5_000

    def __init__(self, *streams: list[game_pb2.WatchGameResponse]) -> None:
        self._streams = list(streams)
        self.tokens: list[bytes] = []
        self.dropped: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()

    def stub(self, *_: Any) -> Any:
        """A stub."""
        return self

    WatchGame = None

    async def stream(self, _s: str, _m: Any, request: Any, _q: Any) -> AsyncGenerator[Any, None]:
        """The next stream."""
        self.tokens.append(request.resume_token)
        for message in self._streams.pop(0):
            yield message
        raise Refused(Kind.EXPIRED, "STREAM_SILENT", "the stream fell silent")


async def followed(caller: Broken) -> list[Update]:
    """Everything that is told of the game."""
    async with asyncio.timeout(BOUND_SECONDS):
        return [update async for update in follow(cast(Caller, caller), "g")]


async def test_a_stream_that_breaks_is_taken_up_with_its_last_token() -> None:
    """Of a heartbeat as well as of a step; what a snapshot stands for is what was not seen."""
    caller = Broken([], [snapshot(3)], [heartbeat(3)], [step(4)], [snapshot(7, FINISHED)])
    seen = await followed(caller)
    assert [(update.first, update.last, update.skipped) for update in seen] == [
        (1, 3, True),
        (4, 4, False),
        (5, 7, True),
    ]
    assert caller.tokens == [b"", b"", b"3", b"h3", b"4"]
    assert caller.repeated == {"WatchGame STREAM_SILENT": 4}
    assert [update.over for update in seen] == [False, False, True]


async def test_what_came_twice_is_passed_on_once_and_counted() -> None:
    """But for the snapshot with which a stream that was taken up anew may begin."""
    caller = Broken(
        [snapshot(3), step(4), step(4), snapshot(4)],
        [snapshot(4), step(5)],
        [step(5), step(6), snapshot(7, FINISHED)],
    )
    assert [update.last for update in await followed(caller)] == [3, 4, 5, 6, 7]
    assert caller.dropped == {"g": 3}


async def test_a_version_that_is_left_out_is_asked_for_again() -> None:
    """The stream is taken up where it was whole, and nothing is told out of order."""
    caller = Broken([snapshot(3), step(5)], [step(4), step(5, 6, FINISHED)])
    assert [(u.first, u.last) for u in await followed(caller)] == [(1, 3), (4, 4), (5, 6)]
    assert caller.tokens == [b"", b"3"]


async def test_a_step_of_which_a_part_was_told_is_not_told_again() -> None:
    """Nor is any of it: the stream is taken up anew."""
    caller = Broken([snapshot(3), step(3, 5)], [snapshot(5, FINISHED, first=4)])
    assert [(u.first, u.last) for u in await followed(caller)] == [(1, 3), (4, 5)]


async def test_versions_that_nobody_brings_are_a_refusal() -> None:
    """Not a silent gap, and not an endless search."""
    caller = Broken([snapshot(3), step(5)], *([step(5)] for _ in range(watching.GAPS_MAX)))
    updates = follow(cast(Caller, caller), "g")
    assert (await anext(updates)).last == 3
    with pytest.raises(Refused, match="STREAM_GAP"):
        await anext(updates)


def test_silence_is_judged_by_what_the_stream_promised() -> None:
    """Half as long again; by a fixed time where an older server promises nothing."""
    assert promised(Message(heartbeat_ms=2_000)) == 3.0
    assert promised(Message()) == SILENCE_SECONDS


def test_a_stream_that_brings_nothing_is_given_longer_the_next_time() -> None:
    """Until one brings something; a service that is slow is not driven round in circles."""
    silence = Silence(promised)
    assert [silence(None) for _ in range(5)] == [2.0, 4.0, 8.0, 15.0, 15.0]
    assert silence(Message(heartbeat_ms=2_000)) == 3.0
    assert silence(None) == 2.0


async def test_nobody_is_asked_again_before_the_time_he_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However the waits are spread; without such a time they stay below what doubles."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    backoff = Backoff(60_000)
    for _ in range(20):
        await backoff.wait(Refused(Kind.EXHAUSTED, "RATE", "slower", retry_after_ms=2_500))
    assert all(2.5 <= seconds <= 3.125 for seconds in waits)
    backoff, waits = Backoff(60_000), []
    for _ in range(3):
        await backoff.wait(Refused(Kind.UNAVAILABLE, "AWAY", "away"))
    assert all(most / 2 <= s <= most for s, most in zip(waits, (0.1, 0.2, 0.4), strict=True))


async def test_waits_follow_from_the_loop_and_the_chance_they_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a simulation is the same every time: no clock of the machine, no chance of the process."""
    loop, now = asyncio.get_running_loop(), [100.0]
    monkeypatch.setattr(loop, "time", lambda: now[0])
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    gone = Refused(Kind.UNAVAILABLE, "AWAY", "away")
    for _ in range(2):
        backoff = Backoff(700, iter((0.0, 0.5, 1.0, 0.0)).__next__)
        for _ in range(3):
            await backoff.wait(gone)
        with pytest.raises(Refused, match="AWAY"):
            await backoff.wait(gone)
    assert waits == [0.05, 0.15, 0.4] * 2


async def test_each_try_of_a_call_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one not for long, so that who met a frozen replica is soon at another."""
    caller = Caller(Settings(peer_timeout_ms=5_000))
    caller.prompt_ms = 2_000
    given: list[int] = []

    async def call(_method: Any, _request: Any, timeout_ms: int) -> str:
        given.append(timeout_ms)
        if len(given) < 4:
            raise Refused(Kind.EXPIRED, "DEADLINE_EXCEEDED", "no answer in time")
        return "done"

    monkeypatch.setattr(caller._clients["game"], "call", call)
    assert await caller.call("game", None, game_pb2.SubmitMoveRequest()) == "done"
    assert given == [2_000, 4_000, 5_000, 5_000]
    assert caller.repeated == {"SubmitMove DEADLINE_EXCEEDED": 3}
    await caller.close()


async def test_a_contended_call_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing will come that asks the player anew, so the same request goes out until it is done;
    a refusal that says no time for a next try is handed on."""
    caller = Caller(Settings())
    contended = Refused(Kind.CONFLICT, "CONTENDED", "busy", retry_after_ms=1)
    outcomes: list[Any] = [contended, contended, "done", Refused(Kind.CONFLICT, "STALE_TURN", "")]
    sent: list[str] = []

    async def call(_method: Any, request: Any, _timeout_ms: int) -> Any:
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
