"""A table of the services: moves and views over gRPC, in the face of `sitting.Table`."""

from collections.abc import AsyncIterator
from typing import Any

from kozyr.game.v1 import game_pb2, game_pb2_grpc, view_pb2

from services.cli import pictures
from services.cli.finding import look_for
from services.cli.pictures.look import Look
from services.cli.shown import ending, told
from services.cli.sitting import Moment
from services.client.player import Player
from services.client.variants import Move, View
from services.client.views import game_of, move_message, read_move, table_view


class OnlineTable:
    """One game a player sits in. Make it with `sit_down`."""

    def __init__(self, player: Player, view: view_pb2.GameView, look: Look) -> None:
        self.game = game_of(view)
        self.look = look
        self.seat = view.seat
        self._player = player
        self._view = view

    async def moments(self) -> AsyncIterator[Moment]:
        """Everything that happens, in order, across lost connections."""
        async for update in self._player.follow(self._view.game_id):
            view = self._view = update.view
            said = tuple(told(happening, self.look) for happening in update.happenings)
            end = tuple(ending(view, self.look)) if update.over else ()
            yield Moment(said, table_view(view), end, over=update.over, clock=clock_text(view))

    async def submit(self, view: View, move: Move) -> None:
        """Make a move in the decision that was shown, not in one that has come up meanwhile."""
        shown = view_pb2.GameView(game_id=self._view.game_id, turn=view.turn)
        await self._player.submit(shown, move_message(self.game, move))

    async def leave(self) -> None:
        """Leave the game for good."""
        await self._player.leave(self._view.game_id)

    async def hint(self, view: View) -> str:
        """What a strong bot would do with what this seat sees; raises Refused."""
        games: Any = self._player.stub("game", game_pb2_grpc.GameServiceStub)
        request = game_pb2.GetHintRequest(game_id=self._view.game_id, turn=view.turn)
        reply: game_pb2.GetHintResponse = await self._player.call("game", games.GetHint, request)
        _, move = read_move(reply.move)
        return f"A bot would {pictures.move(self.game, move, self.look)}. {reply.reason}"


async def sit_down(player: Player, game_id: str, *, ascii_only: bool) -> OnlineTable:
    """The player's table of a running game; raises Refused."""
    view = await player.view(game_id)
    return OnlineTable(player, view, await look_for(player, view.seats, ascii_only=ascii_only))


def clock_text(view: view_pb2.GameView) -> str:
    """What is left of the present decision's time when the view comes in, and of one's own bank."""
    clock = view.clock
    if not clock.HasField("deadline_time"):
        return ""
    left = f"{round(clock.remaining_ms / 1_000)} s left"
    if not clock.seats or not view.HasField("seat"):
        return left
    return f"{left}, {round(clock.seats[view.seat].bank_ms / 1_000)} s in the bank"
