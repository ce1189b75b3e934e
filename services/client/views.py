"""Games as the wire brings them, in the engines' own terms."""

from kozyr.game.v1 import variant_pb2, view_pb2

from services.client.variants import Move, View
from services.runtime.wire import games as wire


def game_of(view: view_pb2.GameView) -> str:
    """The game's name; raises KeyError for one this program does not know."""
    return wire.NAMES[view.variant]


def table_view(view: view_pb2.GameView) -> View | None:
    """The table as the engine's own view, None before the first deal."""
    which = view.WhichOneof("table")
    if which is None:
        return None
    read: View = wire.of(which).view.from_wire(getattr(view, which))
    return read


def move_message(game: str, move: Move) -> variant_pb2.Move:
    """A move as it is submitted."""
    message = variant_pb2.Move()
    getattr(message, game).CopyFrom(wire.of(game).move.to_wire(move))
    return message


def read_move(message: variant_pb2.Move) -> tuple[str, Move]:
    """The game and the move of a message; raises ValueError for an empty one."""
    which = message.WhichOneof("move")
    if which is None:
        raise ValueError("no move")
    move: Move = wire.of(which).move.from_wire(getattr(message, which))
    return which, move
