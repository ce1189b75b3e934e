"""A seat as every game shows it: the pointer of whose turn it is, the name, what sits there."""

from kozyr.game.v1 import view_pb2

from services.cli.finding import LEVEL_NAMES
from services.cli.pictures.look import NAME_MAX
from services.cli.play.scene import Scene
from services.cli.play.spans import Role, Span

BOT = " (bot)"
"""What the lobby adds to a bot's name; here its level says so."""
NAME = 21
"""The columns of a name with what sits there."""


def pointer(scene: Scene, seat: int) -> Span:
    """Marks a seat that may move now."""
    return Span(f" {scene.look.pointer(on=seat in scene.view.to_act)} ", Role.TURN)


def name_of(scene: Scene, seat: int, role: Role = Role.PLAIN) -> Span:
    """A name and what is to be known of who sits there, in 21 columns."""
    what = sits(scene.view.seats[seat], own=seat == scene.seat)
    name = scene.look.name(seat).removesuffix(BOT)
    said = f"{name} {what}" if what else name
    if len(said) >= NAME:
        name = name[: NAME - len(what) - 2]
        said = f"{name} {what}"
    return Span(f"{said:<{NAME}}", role)


def sits(seat: view_pb2.GameSeat, *, own: bool) -> str:
    """`(you)`, a bot's level, or that a bot stands in; empty for another person."""
    if own:
        return "(you)"
    if seat.left:
        return "(has left)"
    if seat.bot_plays:
        return "(away)"
    level = LEVEL_NAMES.get(seat.bot_level)
    return f"({level} bot)" if level else ""


def short(scene: Scene, seat: int, columns: int) -> str:
    """A name in so many columns."""
    return scene.look.name(seat)[: min(columns, NAME_MAX)]
