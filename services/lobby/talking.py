"""TalkService: one method an RPC."""

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import grpc
from kozyr.lobby.v1 import talk_pb2 as pb
from kozyr.lobby.v1.talk_pb2_grpc import TalkServiceServicer

from services.kernel.errors import Refused, invalid, not_found
from services.lobby.listening import Listening
from services.lobby.mutes import Mutes
from services.lobby.players import Players
from services.lobby.tables import Tables, request_of
from services.lobby.talk import Line, Said, Talk
from services.lobby.talkers import (
    require_host,
    require_listener,
    require_silencer,
    require_talker,
)
from services.lobby.views import talk_line
from services.lobby.words import message_text
from services.runtime import call, validate
from services.runtime.seal import open_page, seal_page

Context = grpc.aio.ServicerContext[Any, Any]


class Talking(TalkServiceServicer):
    """One method an RPC. `said` is told of every line: its table and its number."""

    def __init__(
        self,
        tables: Tables,
        players: Players,
        talk: Talk,
        mutes: Mutes,
        listening: Listening,
        seal_key: bytes,
        said: Callable[[UUID, int], None],
    ) -> None:
        self._tables = tables
        self._players = players
        self._talk = talk
        self._mutes = mutes
        self._listening = listening
        self._seal_key = seal_key
        self._said = said

    async def SendEmote(
        self, request: pb.SendEmoteRequest, context: Context
    ) -> pb.SendEmoteResponse:
        """Show an emote."""
        if not request.emote:
            raise invalid("emote", "is required")
        return pb.SendEmoteResponse(line=await self._say(request, request.emote, None))

    async def SendMessage(
        self, request: pb.SendMessageRequest, context: Context
    ) -> pb.SendMessageResponse:
        """Say something."""
        return pb.SendMessageResponse(line=await self._say(request, 0, message_text(request.text)))

    async def Mute(self, request: pb.MuteRequest, context: Context) -> pb.MuteResponse:
        """Hear a player no more, or silence him at one's table."""
        me, table_id, player = call.player(), self._table(request), self._player(request)
        if table_id is not None:
            silenced = await self._mutes.silenced(table_id, player)
            require_silencer(await self._tables.see(table_id, me), me, player, silenced=silenced)
        elif player == me:
            raise invalid("player_id", "must be another player")
        elif not await self._players.find([player]):
            raise not_found("PLAYER_NOT_FOUND", "there is no such player")
        await self._mutes.add(table_id or me, player)
        return pb.MuteResponse()

    async def Unmute(self, request: pb.UnmuteRequest, context: Context) -> pb.UnmuteResponse:
        """Hear a player again, or let him talk at one's table."""
        me, table_id, player = call.player(), self._table(request), self._player(request)
        if table_id is not None:
            require_host(await self._tables.see(table_id, me), me)
        await self._mutes.drop(table_id or me, player)
        return pb.UnmuteResponse()

    async def ListMutes(
        self, request: pb.ListMutesRequest, context: Context
    ) -> pb.ListMutesResponse:
        """Whom the caller has muted, or who is silenced at a table."""
        me, table_id = call.player(), self._table(request)
        if table_id is not None:
            require_listener(await self._tables.see(table_id, me), me)
        response = pb.ListMutesResponse(player_ids=map(str, await self._mutes.of(table_id or me)))
        if table_id is None:
            response.silenced_at_table_ids.extend(map(str, await self._mutes.silenced_at(me)))
        return response

    async def ListTalk(self, request: pb.ListTalkRequest, context: Context) -> pb.ListTalkResponse:
        """A page of the caller's own lines."""
        me, size = call.player(), validate.page_size(request.page_size)
        bound = (str(me),)
        place = open_page(self._seal_key, "talk", bound, request.page_token)
        before = (int(place[0] or 0), UUID(str(place[1]))) if place else None
        lines = await self._talk.of(me, before, size + 1)
        page = pb.ListTalkResponse(lines=await self._shown(lines[:size]))
        if len(lines) > size:
            last = lines[size - 1]
            mark = (last.number, str(last.table))
            page.next_page_token = seal_page(self._seal_key, "talk", bound, mark)
        return page

    async def WatchTalk(
        self, request: pb.WatchTalkRequest, context: Context
    ) -> AsyncIterator[pb.WatchTalkResponse]:
        """Follow a table's talk."""
        table_id, me = validate.uuid("table_id", request.table_id), call.player()
        call.note(table=table_id)
        seen = self._listening.seen(table_id, me, request.resume_token)
        async for reply in self._listening.follow(table_id, me, request.invite_code, seen):
            yield reply

    async def _say(self, request: Any, emote: int, words: str | None) -> pb.TalkLine:
        table_id, me = validate.uuid("table_id", request.table_id), call.player()
        call.note(table=table_id)
        asked = request_of(call.caller().key, request.request_id, request)
        said = Said(table_id, me, emote, words, _digest(asked.key), asked.body)
        try:
            table = await self._tables.see(table_id, me)
            require_talker(table, me, silenced=await self._mutes.silenced(table_id, me))
        except Refused:
            known = await self._talk.known(said)
            if known is None:
                raise
            line = known
        else:
            line = await self._talk.say(said)
            self._said(table_id, line.number)
        (shown,) = await self._shown([line])
        return shown

    async def _shown(self, lines: list[Line]) -> list[pb.TalkLine]:
        names = await self._players.find({line.player for line in lines})
        return [talk_line(line, names) for line in lines]

    @staticmethod
    def _table(request: Any) -> UUID | None:
        return validate.optional_uuid("table_id", request.table_id)

    @staticmethod
    def _player(request: Any) -> UUID:
        return validate.uuid("player_id", request.player_id)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
