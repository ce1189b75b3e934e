"""A game's stream without gaps: taken up again where it broke, and no version comes twice."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from kozyr.game.v1 import game_pb2, view_pb2

from services.client.calls import RETRIED, Backoff, Caller
from services.kernel.errors import Kind, Refused

FIRST_SECONDS = 2.0
"""A stream that brings nothing at all for so long leads to a replica that is no more."""
SILENCE_SECONDS = 15.0
"""A stream without even a heartbeat for so long is taken up anew, if it did not name a time."""
ENDED = (view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED)


async def watch(
    caller: Caller, games: Any, game_id: str
) -> AsyncGenerator[tuple[game_pb2.WatchGameResponse, view_pb2.GameView], None]:
    """A game's stream for any caller, taken up again when it breaks, until the game has ended."""
    token, seen = b"", -1
    backoff = Backoff(caller.patience_ms)
    while True:
        request = game_pb2.WatchGameRequest(game_id=game_id, resume_token=token)
        stream, silence = caller.stream("game", games.WatchGame, request), FIRST_SECONDS
        lost = Refused(Kind.UNAVAILABLE, "STREAM_ENDED", "the stream ended")
        begun = False
        try:
            while True:
                async with asyncio.timeout(silence):
                    message: game_pb2.WatchGameResponse = await anext(stream)
                backoff.reset()
                silence = silence_after(message.heartbeat_ms)
                token = message.resume_token or token
                view = view_of(message)
                if view is None:
                    continue
                again, anew, begun = view.version <= seen, not begun, True
                if again:
                    caller.dropped[game_id] += not (anew and message.HasField("snapshot"))
                    continue
                seen = view.version
                yield message, view
                if view.stage in ENDED:
                    return
        except (StopAsyncIteration, TimeoutError):
            pass
        except Refused as refused:
            if refused.reason == "TOKEN_EXPIRED":
                await caller.call("game", games.GetGame, game_pb2.GetGameRequest(game_id=game_id))
            elif refused.kind is Kind.INVALID and token:
                token = b""  # not a token of this server: begin with a snapshot
            elif refused.kind not in (*RETRIED, Kind.EXHAUSTED):
                raise
            lost = refused
        finally:
            await stream.aclose()
        await backoff.wait(lost)


def silence_after(heartbeat_ms: int) -> float:
    """How long to wait for a stream's next message, seconds: half as long again as it promised."""
    return heartbeat_ms * 1.5 / 1000 if heartbeat_ms else SILENCE_SECONDS


def view_of(message: game_pb2.WatchGameResponse) -> view_pb2.GameView | None:
    """The view a message of the stream brings, None for a heartbeat."""
    match message.WhichOneof("event"):
        case "snapshot":
            return message.snapshot.view
        case "step":
            return message.step.view
        case _:
            return None
