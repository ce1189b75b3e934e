"""A game's stream without gaps: taken up again where it broke, each version told of once.

A stream brings steps, each of a few versions, or a snapshot that stands for all versions since the
last. What was told before is left out; where a version is missing the stream is taken up anew.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from kozyr.game.v1 import game_pb2, game_pb2_grpc, view_pb2

from services.client.calls import RETRIED, SILENCE_SECONDS, Backoff, Caller, Silence, name_of
from services.kernel.errors import Kind, Refused

ENDED = (view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED)
AGAIN = (*RETRIED, Kind.EXHAUSTED)
GAPS_MAX = 3
"""So often in a row a stream may leave a version out before that is taken for an answer."""


@dataclass(frozen=True, slots=True)
class Update:
    """The versions `first` to `last` of a game: the view at the last, and what happened.

    `skipped` says that a snapshot stands for them, so nobody tells what happened. `message` is what
    the stream brought.
    """

    first: int
    last: int
    view: view_pb2.GameView
    happenings: Sequence[view_pb2.Happening]
    skipped: bool
    message: game_pb2.WatchGameResponse

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return self.view.stage in ENDED

    @property
    def mine(self) -> bool:
        """Whether the viewer is asked for a move."""
        return self.view.HasField("seat") and self.view.seat in self.view.to_act


async def follow(caller: Caller, game_id: str) -> AsyncGenerator[Update, None]:
    """A game for any caller until it has ended, across lost connections and replicas.

    Every version is part of exactly one update, in order, from 1 on. Raises Refused: when the
    services stay away longer than the caller's patience, and STREAM_GAP for versions that nobody
    brings.
    """
    games: Any = caller.stub("game", game_pb2_grpc.GameServiceStub)
    token, seen, gaps = b"", 0, 0
    backoff, silence = Backoff(caller.patience_ms), Silence(promised)
    while True:
        request = game_pb2.WatchGameRequest(game_id=game_id, resume_token=token)
        lost = Refused(Kind.UNAVAILABLE, "STREAM_ENDED", "the stream ended")
        begun = False
        try:
            stream = caller.stream("game", games.WatchGame, request, silence)
            async with aclosing(stream) as messages:
                async for message in messages:
                    backoff.reset()
                    update = update_of(message, seen)
                    if update is None:
                        token = message.resume_token or token
                        continue
                    again, anew, begun = update.last <= seen, not begun, True
                    if again:
                        caller.dropped[game_id] += not (anew and message.HasField("snapshot"))
                        continue
                    if update.first != seen + 1:
                        gaps += 1
                        lost = _gap(seen, update.first)
                        break
                    token, seen, gaps = message.resume_token or token, update.last, 0
                    yield update
                    if update.over:
                        return
        except Refused as refused:
            if refused.reason == "TOKEN_EXPIRED":
                await caller.call("game", games.GetGame, game_pb2.GetGameRequest(game_id=game_id))
            elif refused.kind is Kind.INVALID and token:
                token = b""  # not a token of this server: begin with a snapshot
            elif refused.kind not in AGAIN and refused.retry_after_ms is None:
                raise
            lost = refused
        if gaps > GAPS_MAX:
            raise lost
        caller.repeated[f"{name_of(request)} {lost.reason}"] += 1
        await backoff.wait(lost)


def _gap(seen: int, first: int) -> Refused:
    said = f"the stream went on with version {first} after version {seen}"
    return Refused(Kind.UNAVAILABLE, "STREAM_GAP", said)


def promised(message: game_pb2.WatchGameResponse) -> float:
    """How long to wait for a stream's next message, seconds: half as long again as it promised."""
    return message.heartbeat_ms * 1.5 / 1000 if message.heartbeat_ms else SILENCE_SECONDS


def update_of(message: game_pb2.WatchGameResponse, seen: int) -> Update | None:
    """What a message tells to somebody who has seen this version, None for a heartbeat.

    A snapshot with which a stream begins anew stands for what has not been seen of it.
    """
    match message.WhichOneof("event"):
        case "snapshot":
            view, first = message.snapshot.view, message.snapshot.from_version
            return Update(max(first, seen + 1), view.version, view, (), True, message)
        case "step":
            step = message.step
            return Update(
                step.from_version, step.view.version, step.view, step.happenings, False, message
            )
        case _:
            return None
