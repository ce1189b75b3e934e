"""Talk at a table: what is said, followed without gaps, and saying something oneself."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from kozyr.lobby.v1 import talk_pb2, talk_pb2_grpc

from services.client.calls import RETRIED, SILENCE_SECONDS, Backoff, Silence
from services.client.player import Player
from services.kernel.errors import Kind, Refused


class Talk:
    """What a player says and hears at tables. Every failure is Refused."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._stub: Any = player.stub("lobby", talk_pb2_grpc.TalkServiceStub)

    async def follow(self, table_id: str) -> AsyncGenerator[talk_pb2.TalkLine, None]:
        """What was said of late, and each line after it, until the table closes."""
        token = b""
        backoff, silence = Backoff(self._player.patience_ms), Silence(_promised)
        while True:
            request = talk_pb2.WatchTalkRequest(table_id=table_id, resume_token=token)
            stream = self._player.stream("lobby", self._stub.WatchTalk, request, silence)
            lost = Refused(Kind.UNAVAILABLE, "STREAM_ENDED", "the stream ended")
            try:
                async with aclosing(stream) as messages:
                    async for message in messages:
                        backoff.reset()
                        token = message.resume_token or token
                        for line in message.lines:
                            yield line
                return
            except Refused as refused:
                if refused.kind not in (*RETRIED, Kind.UNAUTHENTICATED):
                    raise
                lost = refused
            await backoff.wait(lost)
            # renews a token that has expired
            await self._call(self._stub.ListMutes, talk_pb2.ListMutesRequest())

    async def say(self, table_id: str, text: str) -> None:
        """Say something to the table."""
        request = talk_pb2.SendMessageRequest(table_id=table_id, text=text)
        await self._call(self._stub.SendMessage, request)

    async def show(self, table_id: str, emote: talk_pb2.Emote.ValueType) -> None:
        """Show an emote to the table."""
        request = talk_pb2.SendEmoteRequest(table_id=table_id, emote=emote)
        await self._call(self._stub.SendEmote, request)

    async def mute(self, player_id: str, *, muted: bool) -> None:
        """Hear a player no more, at no table; or hear him again."""
        if muted:
            await self._call(self._stub.Mute, talk_pb2.MuteRequest(player_id=player_id))
        else:
            await self._call(self._stub.Unmute, talk_pb2.UnmuteRequest(player_id=player_id))

    async def _call(self, method: Any, request: Any) -> None:
        await self._player.call("lobby", method, request)


def _promised(message: talk_pb2.WatchTalkResponse) -> float:
    """How long the stream may be silent after a message, seconds."""
    return message.heartbeat_ms * 1.5 / 1_000 if message.heartbeat_ms else SILENCE_SECONDS
