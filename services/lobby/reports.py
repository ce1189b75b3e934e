"""What a game tells its table when it has ended."""

from kozyr.game.v1 import view_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import invalid
from services.lobby.commands import EndGame, Line
from services.runtime import validate


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


def _lines(result: view_pb2.Result) -> tuple[Line, ...]:
    lines = []
    for number, seat in enumerate(result.seats):
        where = f"result.seats[{number}]"
        if seat.seat != number:
            raise invalid(f"{where}.seat", "seats must be in order, from 0")
        if seat.stack_after < 0:
            raise invalid(f"{where}.stack_after", "must not be negative")
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
