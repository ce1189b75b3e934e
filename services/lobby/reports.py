"""What a game tells its table and its players' numbers when it has ended."""

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from kozyr.game.v1 import game_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import invalid
from services.lobby.commands import EndGame, Line
from services.lobby.model import Variant
from services.lobby.standings import GameEnd, SeatEnd
from services.runtime import validate

SECONDS_MAX = 10**11
"""Moments lie before this one, in Unix seconds."""


def end_of_game(report: lobby_pb2.ReportGameRequest) -> EndGame:
    """The end of a game as the table takes it; raises Refused for a report that says too little."""
    game = validate.uuid("game_id", report.game_id)
    finished = report.stage == view_pb2.STAGE_FINISHED
    if finished:
        validate.present(report, "result")
    lines = _lines(report.result) if finished else ()
    left = [validate.uuid(f"left_player_ids[{n}]", p) for n, p in enumerate(report.left_player_ids)]
    winner = _seat(report.result, "winner", lines) if finished else None
    return EndGame(game, finished, lines, winner.player if winner else None, frozenset(left))


def game_end(
    game: UUID,
    table_id: UUID,
    variant: Variant,
    result: view_pb2.Result,
    finished: bool,
    bots: Collection[UUID],
    field: str = "result",
) -> GameEnd:
    """The end of a game as its players' numbers take it; raises Refused for a result that says too
    little, naming what is wrong below `field` of the request."""
    lines = zip(result.seats, _lines(result, field), strict=True) if finished else ()
    return GameEnd(
        game=game,
        table_id=table_id,
        variant=variant,
        finished=finished,
        people=not bots,
        nulled=result.null,
        seats=tuple(
            SeatEnd(
                player=line.player,
                place=seat.place,
                points=seat.points,
                first=line.first,
                durak=line.durak,
                chips_in=seat.stack_before,
                chips_out=seat.stack_after,
            )
            for seat, line in lines
            if line.player not in bots
        ),
    )


def listed_end(game: game_pb2.GameSummary) -> GameEnd:
    """The end of a game as the game service lists it; raises Refused where that says too little."""
    choices = (view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED)
    finished = validate.choice("game.stage", game.stage, choices) == view_pb2.STAGE_FINISHED
    if finished and not game.HasField("result"):
        raise invalid("game.result", "is required")
    variant = Variant(validate.choice("game.variant", game.variant, tuple(Variant)))
    bots = [
        validate.uuid(f"game.seats[{number}].player_id", seat.player_id)
        for number, seat in enumerate(game.seats)
        if seat.bot_level
    ]
    end = game_end(
        validate.uuid("game.game_id", game.game_id),
        validate.uuid("game.table_id", game.table_id),
        variant,
        game.result,
        finished,
        bots,
        "game.result",
    )
    opened, ended = _moment("opened", game.opened_time), _moment("ended", game.ended_time)
    return replace(end, begun_at=opened, ended_at=ended)


def _moment(name: str, at: Timestamp) -> int:
    if not 0 < at.seconds < SECONDS_MAX or not 0 <= at.nanos < 10**9:
        raise invalid(f"game.{name}_time", "is required")
    return at.seconds * 1_000_000 + at.nanos // 1_000


def _lines(result: view_pb2.Result, below: str = "result") -> tuple[Line, ...]:
    lines = []
    for number, seat in enumerate(result.seats):
        where = f"{below}.seats[{number}]"
        if seat.seat != number:
            raise invalid(f"{where}.seat", "seats must be in order, from 0")
        for field in ("stack_before", "stack_after"):
            if getattr(seat, field) < 0:
                raise invalid(f"{where}.{field}", "must not be negative")
        player = validate.uuid(f"{where}.player_id", seat.player_id)
        counts = not result.null
        first = counts and result.HasField("winner") and result.winner == number
        durak = counts and result.HasField("durak") and result.durak == number
        lines.append(Line(player, seat.stack_after, first, durak))
    return tuple(lines)


def _seat(result: view_pb2.Result, field: str, lines: tuple[Line, ...]) -> Line | None:
    if not result.HasField(field):  # type: ignore[arg-type]
        return None
    seat: int = getattr(result, field)
    if not 0 <= seat < len(lines):
        raise invalid(f"result.{field}", "is no seat of the game")
    return lines[seat]
