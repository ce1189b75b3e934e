"""A session with the services: lobby and game over gRPC."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from kozyr.game.v1 import game_pb2, game_pb2_grpc, variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc, talk_pb2

from services.cli.finding import look_for
from services.cli.pictures.look import Look
from services.cli.play.session import (
    NOT_SHOWN_YET,
    Emote,
    Hint,
    Level,
    Moment,
    Opening,
    Running,
)
from services.client import lists
from services.client.player import Player
from services.client.tables import Tables
from services.client.talk import Talk
from services.client.variants import Move
from services.client.views import game_of, move_message, read_move
from services.client.watching import Update
from services.runtime.wire import games as wire


class Served:
    """A player signed in at a server."""

    alone = False

    def __init__(self, player: Player, *, ascii_only: bool = False) -> None:
        self.name = player.display_name
        self.player_id = player.player_id
        self._player = player
        self._ascii = ascii_only
        self._tables = Tables(player)
        self._talk = Talk(player)
        self._tried = 0
        self._lobby: Any = player.stub("lobby", lobby_pb2_grpc.LobbyServiceStub)
        self._games: Any = player.stub("game", game_pb2_grpc.GameServiceStub)

    @property
    def lost(self) -> bool:
        """Whether something had to be tried again since the game last told anything."""
        return self._tries > self._tried

    @property
    def _tries(self) -> int:
        """How often something was tried again that was not answered."""
        tried = self._player.repeated.items()
        return sum(often for what, often in tried if not what.endswith(NOT_SHOWN_YET))

    async def variants(self, language: str) -> lobby_pb2.ListVariantsResponse:
        """The games as the server plays them."""
        request = lobby_pb2.ListVariantsRequest(languages=[language])
        reply: lobby_pb2.ListVariantsResponse = await self._call(self._lobby.ListVariants, request)
        return reply

    async def tables(self) -> AsyncIterator[Sequence[lobby_pb2.Table]]:
        """Public tables, newest first, again whenever one changes; the own ones among them."""
        known: dict[str, lobby_pb2.Table] = {}
        everything = lobby_pb2.WatchTablesRequest()
        yield ()
        async with aclosing(self._tables.follow(everything, known.clear)) as changes:
            async for table in changes:
                known[table.table_id] = table
                if table.state == lobby_pb2.TABLE_STATE_CLOSED:
                    del known[table.table_id]
                yield sorted(
                    known.values(), key=lambda t: t.opened_time.ToNanoseconds(), reverse=True
                )

    async def running(self) -> Running | None:
        """A game the player has left for a while."""
        asked = game_pb2.ListGamesRequest(running=True)
        async for found in lists.games(self._player, asked):
            seats = [seat for seat in found.seats if seat.player_id == self.player_id]
            if seats and not all(seat.left for seat in seats):
                return Running(found.game_id, found.table_id, wire.NAMES[found.variant])
        return None

    async def open(self, opening: Opening) -> lobby_pb2.Table:
        """Open a table, sit down and put bots on as many seats as was asked for."""
        table = await self._tables.create(opening.rules, opening.buy_in)
        for _ in range(opening.bots):
            table = await self._tables.add_bot(table.table_id, opening.level, opening.buy_in)
        return table

    async def quick(self, game: str, wait_seconds: int) -> lobby_pb2.Table:
        """A table that waits for one more, or a new one; bots come after so long."""
        request = lobby_pb2.QuickPlayRequest(
            variant=wire.VARIANTS[game],
            bots=variant_pb2.BOT_LEVEL_NORMAL,
            fill_after_ms=1_000 * wait_seconds,
        )
        reply: lobby_pb2.QuickPlayResponse = await self._call(self._lobby.QuickPlay, request)
        return reply.table

    async def sit(self, table_id: str, code: str = "") -> lobby_pb2.Table:
        """Take a free seat."""
        return await self._tables.sit(table_id, code)

    def table(self, table_id: str) -> AsyncIterator[lobby_pb2.Table]:
        """A table, again whenever it changes."""
        return self._tables.follow(lobby_pb2.WatchTablesRequest(table_id=table_id))

    async def ready(self, table_id: str, *, ready: bool) -> None:
        """Say that one is ready, or not."""
        request = lobby_pb2.SetReadyRequest(table_id=table_id, ready=ready)
        await self._call(self._lobby.SetReady, request)

    async def add_bot(self, table_id: str, level: Level) -> None:
        """Put a bot on a free seat."""
        await self._tables.add_bot(table_id, level)

    async def remove_bot(self, table_id: str, seat: int) -> None:
        """Take a bot away."""
        request = lobby_pb2.RemoveBotRequest(table_id=table_id, seat=seat)
        await self._call(self._lobby.RemoveBot, request)

    async def start(self, table_id: str) -> None:
        """Start with the seats that are taken."""
        await self._call(self._lobby.StartGame, lobby_pb2.StartGameRequest(table_id=table_id))

    async def again(self, table_id: str) -> None:
        """Want another game with those of the last one."""
        await self._call(self._lobby.Rematch, lobby_pb2.RematchRequest(table_id=table_id))

    async def kick(self, table_id: str, player_id: str) -> None:
        """Send a person away from one's table."""
        request = lobby_pb2.KickPlayerRequest(
            table_id=table_id, player_id=player_id, kick_reason=lobby_pb2.KICK_REASON_OTHER
        )
        await self._call(self._lobby.KickPlayer, request)

    async def top_up(self, table_id: str, chips: int) -> None:
        """Add chips to the own stack."""
        request = lobby_pb2.TopUpRequest(table_id=table_id, chips=chips)
        await self._call(self._lobby.TopUp, request)

    async def stand_up(self, table_id: str) -> None:
        """Leave the table between games."""
        await self._tables.leave(table_id)

    def talk(self, table_id: str) -> AsyncIterator[talk_pb2.TalkLine]:
        """What was said at a table of late, and what is said from now on."""
        return self._talk.follow(table_id)

    async def say(self, table_id: str, text: str) -> None:
        """Say something to a table."""
        await self._talk.say(table_id, text)

    async def show(self, table_id: str, emote: Emote) -> None:
        """Show an emote to a table."""
        await self._talk.show(table_id, emote)

    async def mute(self, player_id: str, *, muted: bool) -> None:
        """Hear a player no more, or again."""
        await self._talk.mute(player_id, muted=muted)

    async def play(self, game_id: str) -> AsyncIterator[Moment]:
        """Everything that happens in a game, in order, across lost connections."""
        async with aclosing(self._player.follow(game_id)) as updates:
            async for update in updates:
                self._tried = self._tries
                told = tuple(update.happenings)
                if update.skipped:
                    told = await self._history(update)
                yield Moment(update.view, told, late=update.skipped)

    async def _history(self, update: Update) -> tuple[view_pb2.Happening, ...]:
        """What happened in the versions that a snapshot stands for."""
        asked = game_pb2.GetGameRequest(game_id=update.view.game_id, history=True)
        seen: game_pb2.GetGameResponse = await self._player.call("game", self._games.GetGame, asked)
        return tuple(each for each in seen.history if update.first <= each.version <= update.last)

    async def look(self, view: view_pb2.GameView) -> Look:
        """The names of a game's seats."""
        look = await look_for(self._player, view.seats)
        return replace(look, ascii=self._ascii)

    async def submit(self, view: view_pb2.GameView, move: Move) -> None:
        """Make a move in the decision that the view shows."""
        await self._player.submit(view, move_message(game_of(view), move))

    async def leave(self, view: view_pb2.GameView) -> None:
        """Leave the game for good."""
        await self._player.leave(view.game_id)

    async def back(self, view: view_pb2.GameView) -> None:
        """Play for oneself again, after a bot has."""
        request = game_pb2.ReturnToSeatRequest(game_id=view.game_id)
        await self._player.call("game", self._games.ReturnToSeat, request)

    async def hint(self, view: view_pb2.GameView) -> Hint:
        """What a strong bot would do with what this seat sees."""
        request = game_pb2.GetHintRequest(game_id=view.game_id, turn=view.turn)
        reply: game_pb2.GetHintResponse = await self._player.call(
            "game", self._games.GetHint, request
        )
        return Hint(read_move(reply.move)[1], reply.reason)

    async def close(self) -> None:
        """Let all connections go."""
        await self._player.close()

    async def _call(self, method: Any, request: Any) -> Any:
        return await self._player.call("lobby", method, request)
