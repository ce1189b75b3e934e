"""A seat played by a program: over gRPC and the watch stream, as any client would."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kozyr.game.v1 import variant_pb2, view_pb2

from services.client.player import Player
from services.kernel.errors import Kind, Refused

Choose = Callable[[view_pb2.GameView], variant_pb2.Move]
Look = Callable[[view_pb2.GameView], Awaitable[None]]


@dataclass(slots=True)
class Seen:
    """What a driven seat saw of a game: every view by version, and what did not fit together.

    `gaps` names versions that came twice, out of order or not at all; `skipped` counts those for
    which one of the `snapshots` stood, `happenings` is what was told since the last of them.
    """

    views: dict[int, view_pb2.GameView] = field(default_factory=dict)
    happenings: list[view_pb2.Happening] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    skipped: int = 0
    snapshots: int = 0
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
    async for update in player.follow(game_id):
        view = update.view
        if update.first != seen.last.version + 1:
            seen.gaps.append(update.first)
        seen.snapshots += update.skipped
        if update.skipped:
            seen.happenings.clear()
        seen.skipped += update.skipped * (update.last - update.first + 1)
        seen.views[view.version] = seen.last = view
        seen.happenings += update.happenings
        await look(view)
        if not update.mine or view.version < answered:
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
