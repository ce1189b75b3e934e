"""Tables of the lobby, from a player's side: opening one, filling it, and waiting for the game."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc

from services.client.calls import SILENCE_SECONDS, Backoff, Silence
from services.client.player import Player
from services.client.variants import engine, read_values
from services.kernel.errors import Kind, Refused, precondition
from services.runtime.wire import games as wire

NO_BOTS = variant_pb2.BOT_LEVEL_UNSPECIFIED


class Tables:
    """What a player does in the lobby. Every failure is Refused."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._stub: Any = player.stub("lobby", lobby_pb2_grpc.LobbyServiceStub)

    async def create(self, rules: lobby_pb2.TableRules, buy_in: int = 0) -> lobby_pb2.Table:
        """Open a table and sit down at it; a buy-in of 0 is the least there is."""
        return await self._ask(
            self._stub.CreateTable, lobby_pb2.CreateTableRequest(rules=rules, buy_in=buy_in)
        )

    async def quick_play(
        self, game: str, seats: int = 0, bots: variant_pb2.BotLevel.ValueType = NO_BOTS
    ) -> lobby_pb2.Table:
        """Sit down, ready, at a table of the game with a free seat, or at a new one; the table.

        0 seats are any number. With a level of `bots` they take the other seats at once.
        """
        request = lobby_pb2.QuickPlayRequest(variant=wire.VARIANTS[game], seats=seats, bots=bots)
        return await self._ask(self._stub.QuickPlay, request)

    async def sit(self, table_id: str, invite_code: str = "", buy_in: int = 0) -> lobby_pb2.Table:
        """Take a free seat."""
        request = lobby_pb2.TakeSeatRequest(
            table_id=table_id, invite_code=invite_code, buy_in=buy_in
        )
        return await self._ask(self._stub.TakeSeat, request)

    async def add_bot(
        self, table_id: str, level: variant_pb2.BotLevel.ValueType, buy_in: int = 0
    ) -> lobby_pb2.Table:
        """Put a bot on a free seat."""
        request = lobby_pb2.AddBotRequest(table_id=table_id, level=level, buy_in=buy_in)
        return await self._ask(self._stub.AddBot, request)

    async def ready(self, table_id: str) -> lobby_pb2.Table:
        """Say that one is ready; the game starts when all are."""
        request = lobby_pb2.SetReadyRequest(table_id=table_id, ready=True)
        return await self._ask(self._stub.SetReady, request)

    async def get(self, table_id: str) -> lobby_pb2.Table:
        """The table as it is now."""
        return await self._ask(self._stub.GetTable, lobby_pb2.GetTableRequest(table_id=table_id))

    async def leave(self, table_id: str) -> lobby_pb2.Table:
        """Stand up."""
        return await self._ask(self._stub.LeaveSeat, lobby_pb2.LeaveSeatRequest(table_id=table_id))

    async def started(self, table_id: str, after: str = "") -> str:
        """Wait for a game to be played here, another than `after`; its id.

        Raises Refused START_FAILED with the lobby's reason when a start fails.
        """
        table = await self._until(table_id, lambda t: _playing(t, after) or bool(t.start_failure))
        if not _playing(table, after):
            raise precondition("START_FAILED", f"the game did not start: {table.start_failure}")
        return table.game_id

    async def settled(self, table_id: str, games_played: int) -> lobby_pb2.Table:
        """Wait until the table knows that so many games have ended; the table."""
        return await self._until(table_id, lambda t: t.games_played >= games_played)

    async def _until(
        self, table_id: str, wanted: Callable[[lobby_pb2.Table], bool]
    ) -> lobby_pb2.Table:
        request = lobby_pb2.WatchTablesRequest(table_id=table_id)
        async with aclosing(self.follow(request)) as tables:
            async for table in tables:
                if wanted(table):
                    return table
        raise precondition("TABLE_CLOSED", "the table was closed")

    async def follow(
        self, request: lobby_pb2.WatchTablesRequest, anew: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[lobby_pb2.Table, None]:
        """Tables as they are now and after each change, across lost connections, without end.

        Whenever the stream begins anew, `anew` is called and every table comes again.
        """
        backoff = Backoff(self._player.patience_ms)
        # A lobby without tables has nothing to say at first.
        silence = Silence(_promised) if request.table_id else _promised
        while True:
            failure = Refused(Kind.UNAVAILABLE, "STREAM_ENDED", "the stream ended")
            stream = self._player.stream("lobby", self._stub.WatchTables, request, silence)
            anew()
            try:
                async with aclosing(stream) as messages:
                    async for message in messages:
                        backoff.reset()
                        if message.HasField("table"):
                            yield message.table
            except Refused as refused:
                if refused.kind not in (Kind.UNAVAILABLE, Kind.EXPIRED, Kind.UNAUTHENTICATED):
                    raise
                failure = refused
            await backoff.wait(failure)
            await self._renew(request)

    async def _renew(self, request: lobby_pb2.WatchTablesRequest) -> None:
        """A call, which renews a token that has expired."""
        if request.table_id:
            await self.get(request.table_id)
        else:
            await self._player.call(
                "lobby", self._stub.ListTables, lobby_pb2.ListTablesRequest(page_size=1)
            )

    async def _ask(self, method: Any, request: Any) -> lobby_pb2.Table:
        reply = await self._player.call("lobby", method, request)
        table: lobby_pb2.Table = reply.table
        return table


def _promised(_: Any) -> float:
    """How long a stream of tables may be silent, seconds."""
    return SILENCE_SECONDS


def _playing(table: lobby_pb2.Table, after: str) -> bool:
    return table.state == lobby_pb2.TABLE_STATE_PLAYING and table.game_id != after


def game_options(game: str, given: Mapping[str, str]) -> variant_pb2.GameOptions:
    """A game's rule options as the wire has them; raises InvalidOption."""
    options = variant_pb2.GameOptions()
    read = read_values(engine(game).Options, given)
    getattr(options, game).CopyFrom(wire.of(game).options.to_wire(read))
    return options
