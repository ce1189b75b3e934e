"""A seat played by a program: over gRPC and the watch stream, as any client would."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kozyr.game.v1 import variant_pb2, view_pb2

from services.client.player import Player
from services.client.watching import view_of
from services.kernel.errors import Kind, Refused

Choose = Callable[[view_pb2.GameView], variant_pb2.Move]
Look = Callable[[view_pb2.GameView], Awaitable[None]]


@dataclass(slots=True)
class Seen:
    """What a driven seat saw of a game: every view by version, and what did not fit together.

    `gaps` names versions that came twice, out of order or not at all.
    """

    views: dict[int, view_pb2.GameView] = field(default_factory=dict)
    happenings: list[view_pb2.Happening] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    moves: int = 0
    last: view_pb2.GameView = field(default_factory=view_pb2.GameView)


async def _nothing(_: view_pb2.GameView) -> None:
    pass


async def drive(player: Player, game_id: str, choose: Choose, look: Look = _nothing) -> Seen:
    """Play a game to its end; what the seat saw. Raises Refused.

    `look` is awaited with each view before the seat moves in it.
    """
    seen = Seen()
    answered = -1
    async for message in player.watch(game_id):
        view = view_of(message)
        if view is None:
            continue
        step = message.WhichOneof("event") == "step"
        first = message.step.from_version if step else message.snapshot.from_version
        if seen.views and first != seen.last.version + 1:
            seen.gaps.append(first)
        seen.views[view.version] = seen.last = view
        seen.happenings += message.step.happenings
        await look(view)
        if view.seat not in view.to_act or view.version < answered:
            continue
        try:
            after = await player.submit(view, choose(view))
        except Refused as refused:
            # Somebody was quicker, or the time was up: the next view says what is asked now.
            if refused.kind not in (Kind.CONFLICT, Kind.PRECONDITION):
                raise
            continue
        seen.moves += 1
        answered = after.version
    return seen
