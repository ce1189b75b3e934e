"""Games as the wire brings them, for eyes: views to pictures, happenings to sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from kozyr.game.v1 import variant_pb2, view_pb2

from engines.cards import Card
from services.cli import pictures
from services.cli.pictures.look import Look, plural
from services.client.views import game_of, table_view
from services.runtime.wire import games as wire

LEVELS = {
    "easy": variant_pb2.BOT_LEVEL_EASY,
    "normal": variant_pb2.BOT_LEVEL_NORMAL,
    "hard": variant_pb2.BOT_LEVEL_HARD,
}
STAGES: Mapping[int, str] = {
    view_pb2.STAGE_COMMITTING: "committing seeds",
    view_pb2.STAGE_REVEALING: "revealing seeds",
    view_pb2.STAGE_PLAYING: "playing",
    view_pb2.STAGE_FINISHED: "finished",
    view_pb2.STAGE_CANCELLED: "cancelled",
}


def picture(
    view: view_pb2.GameView, look: Look, hands: Mapping[int, Sequence[Card]] | None = None
) -> list[str]:
    """The table, or where the game stands while nothing is dealt."""
    read = table_view(view)
    if read is None:
        return [f"{game_of(view).capitalize()}: {STAGES.get(view.stage, 'not begun')}"]
    return pictures.table(game_of(view), read, look, hands)


def told(happening: view_pb2.Happening, look: Look) -> str:
    """What happened, as a sentence."""
    which: Any = happening.WhichOneof("happening")
    match which:
        case "azi" | "durak" | "rami":
            read = wire.of(which).happening.from_wire(getattr(happening, which))
            return pictures.told(which, read, look)
        case "opened":
            return "The game is opened; the server has committed to its seed."
        case "seed_committed":
            return f"{look.name(happening.seed_committed.seat)} commits to a seed."
        case "commits_closed":
            return f"Seeds are to be revealed.{_absent(happening.commits_closed.absent, look)}"
        case "seed_revealed":
            return f"{look.name(happening.seed_revealed.seat)} reveals the seed."
        case "seeds_closed":
            return f"All seeds are in.{_absent(happening.seeds_closed.absent, look)}"
        case "deal_seeded":
            return f"The deck of deal {happening.deal_seeded.deal} is committed to."
        case "deal_revealed":
            return f"The seed and the deck of deal {happening.deal_revealed.deal} are shown."
        case "clock_credited":
            seconds = happening.clock_credited.credit_ms / 1_000
            return f"The service was out of order; the clock is given back {seconds:.1f} s."
        case "bot_took_over":
            return f"A bot plays for {look.name(happening.bot_took_over.seat)}, who is absent."
        case "player_returned":
            return f"{look.name(happening.player_returned.seat)} is back."
        case "finished":
            return "The game is finished; the server's seed is shown."
        case "cancelled":
            return f"The game is cancelled: {happening.cancelled.reason}."
        case _:
            return "Something happened that this version does not know."


def _absent(seats: Sequence[int], look: Look) -> str:
    return f" Without one: {look.named(seats)}." if seats else ""


def ending(view: view_pb2.GameView, look: Look) -> list[str]:
    """How a finished game came out."""
    result = view.result
    if view.stage == view_pb2.STAGE_CANCELLED:
        return ["The game was cancelled."]
    lines = []
    if result.HasField("winner"):
        lines.append(f"Winner: {look.name(result.winner)}")
    if result.HasField("durak"):
        lines.append(f"Durak: {look.name(result.durak)}")
    if result.null:
        lines.append("The deal is null.")
    for line in result.seats:
        if game_of(view) == "azi":
            change = line.stack_after - line.stack_before
            chips = f"{line.stack_before} -> {line.stack_after} ({change:+d})"
            lines.append(f"  {look.name(line.seat):<15}{chips}")
        elif game_of(view) == "rami":
            points = plural(line.points, "point")
            lines.append(f"  {look.name(line.seat):<15}{points}, place {line.place}")
    return lines


def when(at: Timestamp) -> str:
    """A time in UTC to the second; `-` for none."""
    moment = at.ToDatetime()
    return moment.strftime("%Y-%m-%d %H:%M:%S") if at.seconds else "-"
