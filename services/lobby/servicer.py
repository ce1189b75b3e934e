"""LobbyService: one method an RPC."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import grpc
from kozyr.game.v1 import view_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb
from kozyr.lobby.v1.lobby_pb2_grpc import LobbyServiceServicer

from services.lobby import commands
from services.lobby.bots import bot_id
from services.lobby.directory import Directory
from services.lobby.ending import Ending
from services.lobby.filters import wanted
from services.lobby.guides import spoken
from services.lobby.hosting import BUY_IN_MAX, table_rules
from services.lobby.listing import list_tables
from services.lobby.model import BotLevel, KickReason, Table, Variant
from services.lobby.quick import QuickPlay, hope_of
from services.lobby.records import table_events
from services.lobby.tables import Request, Tables, request_of
from services.lobby.variants import variants_told
from services.lobby.watch import Watching
from services.runtime import call, validate
from services.runtime.auth import Role
from services.runtime.moments import new_id
from services.runtime.settings import Settings

Context = grpc.aio.ServicerContext[Any, Any]


class Lobby(LobbyServiceServicer):
    """One method an RPC; who may call it is decided before, by the access table."""

    def __init__(
        self,
        settings: Settings,
        tables: Tables,
        directory: Directory,
        quick: QuickPlay,
        watching: Watching,
        ending: Ending,
        seal_key: bytes,
    ) -> None:
        self._settings = settings
        self._ending = ending
        self._tables = tables
        self._directory = directory
        self._quick = quick
        self._watching = watching
        self._seal_key = seal_key

    async def ListVariants(
        self, request: pb.ListVariantsRequest, context: Context
    ) -> pb.ListVariantsResponse:
        """The games, from the engines' own options, with their rules for people."""
        only = Variant(request.variant) if request.variant else None
        return variants_told(spoken(request.languages), only)

    async def CreateTable(
        self, request: pb.CreateTableRequest, context: Context
    ) -> pb.CreateTableResponse:
        """Open a table and sit down."""
        validate.present(request, "rules")
        rules, host = table_rules(request.rules, self._settings), call.player()
        stack = _chips("buy_in", request.buy_in)
        found = await self._tables.open(host, rules, stack, _asked(request))
        table = await self._show(found.table_id, found.table)
        return pb.CreateTableResponse(table=table)

    async def ListTables(
        self, request: pb.ListTablesRequest, context: Context
    ) -> pb.ListTablesResponse:
        """A page of the tables that fit."""
        return await list_tables(self._tables, self._directory, self._seal_key, request, _viewer())

    async def GetTable(self, request: pb.GetTableRequest, context: Context) -> pb.GetTableResponse:
        """One table, if the caller may know of it."""
        table_id = validate.uuid("table_id", request.table_id)
        table = await self._tables.see(table_id, _viewer(), request.invite_code)
        return pb.GetTableResponse(table=await self._show(table_id, table))

    async def WatchTables(
        self, request: pb.WatchTablesRequest, context: Context
    ) -> AsyncIterator[pb.WatchTablesResponse]:
        """Follow one table, or the listed ones."""
        table_id, viewer = validate.optional_uuid("table_id", request.table_id), _viewer()
        asked = wanted(request, viewer)
        if table_id is not None:
            replies = self._watching.one(table_id, viewer, request.invite_code)
        else:
            replies = self._watching.many(asked)
        async for reply in replies:
            yield reply

    async def TakeSeat(self, request: pb.TakeSeatRequest, context: Context) -> pb.TakeSeatResponse:
        """Sit down."""
        table_id = validate.uuid("table_id", request.table_id)
        command = commands.TakeSeat(
            player=call.player(),
            seat=request.seat if request.HasField("seat") else None,
            stack=_chips("buy_in", request.buy_in),
            code=request.invite_code,
            game=new_id(),
        )
        table = await self._tables.take_seat(table_id, command, _asked(request))
        return pb.TakeSeatResponse(table=await self._show(table_id, table))

    async def LeaveSeat(
        self, request: pb.LeaveSeatRequest, context: Context
    ) -> pb.LeaveSeatResponse:
        """Stand up."""
        table = await self._act(request, commands.LeaveSeat(call.player(), new_id()))
        return pb.LeaveSeatResponse(table=table)

    async def AddBot(self, request: pb.AddBotRequest, context: Context) -> pb.AddBotResponse:
        """Put a bot on a seat."""
        asked, table_id = _asked(request), validate.uuid("table_id", request.table_id)
        level = BotLevel(validate.choice("level", request.level, (1, 2, 3)))
        command = commands.AddBot(
            player=call.player(),
            bot=commands.Bot(bot_id(table_id, asked.key), level),
            seat=request.seat if request.HasField("seat") else None,
            stack=_chips("buy_in", request.buy_in),
            game=new_id(),
        )
        table = await self._tables.add_bot(table_id, command, asked)
        return pb.AddBotResponse(table=await self._show(table_id, table))

    async def RemoveBot(
        self, request: pb.RemoveBotRequest, context: Context
    ) -> pb.RemoveBotResponse:
        """Take a bot away."""
        command = commands.RemoveBot(call.player(), request.seat)
        return pb.RemoveBotResponse(table=await self._act(request, command))

    async def SetReady(self, request: pb.SetReadyRequest, context: Context) -> pb.SetReadyResponse:
        """Be ready or not; the last one to be ready starts the game."""
        command = commands.SetReady(call.player(), request.ready, new_id())
        return pb.SetReadyResponse(table=await self._act(request, command))

    async def StartGame(
        self, request: pb.StartGameRequest, context: Context
    ) -> pb.StartGameResponse:
        """Start with the seats taken so far."""
        command = commands.StartGame(call.player(), new_id())
        return pb.StartGameResponse(table=await self._act(request, command))

    async def Rematch(self, request: pb.RematchRequest, context: Context) -> pb.RematchResponse:
        """Want another game with those of the last one."""
        command = commands.Rematch(call.player(), new_id())
        return pb.RematchResponse(table=await self._act(request, command))

    async def KickPlayer(
        self, request: pb.KickPlayerRequest, context: Context
    ) -> pb.KickPlayerResponse:
        """Send a person away."""
        whom = validate.uuid("player_id", request.player_id)
        reasons = tuple(each for each in KickReason if each is not KickReason.NONE)
        reason = KickReason(validate.choice("kick_reason", request.kick_reason, reasons))
        command = commands.Kick(call.player(), whom, reason, new_id())
        return pb.KickPlayerResponse(table=await self._act(request, command))

    async def InvitePlayer(
        self, request: pb.InvitePlayerRequest, context: Context
    ) -> pb.InvitePlayerResponse:
        """Let a player come, or come back."""
        table_id = validate.uuid("table_id", request.table_id)
        whom = validate.uuid("player_id", request.player_id)
        command = commands.Invite(call.player(), whom)
        table = await self._tables.invite(table_id, command, _asked(request))
        return pb.InvitePlayerResponse(table=await self._show(table_id, table))

    async def UninvitePlayer(
        self, request: pb.UninvitePlayerRequest, context: Context
    ) -> pb.UninvitePlayerResponse:
        """Take an invitation back."""
        whom = validate.uuid("player_id", request.player_id)
        table = await self._act(request, commands.Uninvite(call.player(), whom))
        return pb.UninvitePlayerResponse(table=table)

    async def HandOverHost(
        self, request: pb.HandOverHostRequest, context: Context
    ) -> pb.HandOverHostResponse:
        """Make another person the host."""
        whom = validate.uuid("player_id", request.player_id)
        table = await self._act(request, commands.HandOver(call.player(), whom))
        return pb.HandOverHostResponse(table=table)

    async def TopUp(self, request: pb.TopUpRequest, context: Context) -> pb.TopUpResponse:
        """Add to one's stack; the chips are reserved when the next game starts."""
        chips = validate.number("chips", request.chips, low=1, high=BUY_IN_MAX)
        table_id = validate.uuid("table_id", request.table_id)
        command = commands.TopUp(call.player(), chips)
        table = await self._tables.top_up(table_id, command, _asked(request))
        return pb.TopUpResponse(table=await self._show(table_id, table))

    async def QuickPlay(
        self, request: pb.QuickPlayRequest, context: Context
    ) -> pb.QuickPlayResponse:
        """Sit down at a table that fits, ready, or at a new one."""
        hope = hope_of(request, self._settings)
        found = await self._quick.play(call.player(), hope, _asked(request))
        table = await self._show(found.table_id, found.table)
        return pb.QuickPlayResponse(table=table)

    async def CloseTable(
        self, request: pb.CloseTableRequest, context: Context
    ) -> pb.CloseTableResponse:
        """Close a table: its host, or an operator."""
        table = await self._act(request, commands.Close(_viewer()))
        return pb.CloseTableResponse(table=table)

    async def ReportGame(
        self, request: pb.ReportGameRequest, context: Context
    ) -> pb.ReportGameResponse:
        """Take a game's end to its players' numbers and its table, once."""
        table_id = validate.uuid("table_id", request.table_id)
        validate.choice("stage", request.stage, (view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED))
        command = await self._ending.report(table_id, request)
        call.note(game=command.game, table=table_id)
        return pb.ReportGameResponse()

    async def ListTableEvents(
        self, request: pb.ListTableEventsRequest, context: Context
    ) -> pb.ListTableEventsResponse:
        """What tables' logs hold of a player."""
        player = call.whose(request.player_id)
        return await table_events(self._tables.store, self._seal_key, request, player)

    async def _act(self, request: Any, command: commands.PlayerCommand) -> pb.Table:
        table_id = validate.uuid("table_id", request.table_id)
        table = await self._tables.act(table_id, command, _asked(request))
        return await self._show(table_id, table)

    async def _show(self, table_id: UUID, table: Table) -> pb.Table:
        call.note(table=table_id, version=table.version)
        return await self._tables.show(table_id, table, _viewer())


def _viewer() -> UUID | None:
    """The player who calls; None for an operator or a service."""
    return call.player() if call.caller().role is Role.PLAYER else None


def _asked(message: Any) -> Request:
    """The change that the caller asks for."""
    return request_of(call.caller().key, message.request_id, message)


def _chips(field: str, chips: int) -> int:
    return validate.number(field, chips, low=0, high=BUY_IN_MAX)
