"""What a caller may ask of a bot, checked field by field."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kozyr.ai.v1 import ai_pb2 as pb
from kozyr.game.v1 import view_pb2

from engines.api import InvalidOption
from services.ai import fit
from services.ai.bots import Budget, Level
from services.ai.roster import SEARCH_MS
from services.ai.thinking import Question
from services.kernel.errors import invalid, precondition
from services.runtime import validate
from services.runtime.auth import Role
from services.runtime.call import caller
from services.runtime.wire import games

SEED_MAX = 64
BUDGET_MAX_MS = 5_000
"""Milliseconds of CPU a service may ask for."""
WORLDS_MAX = 100_000


def read_game_id(request: pb.ChooseMoveRequest) -> UUID | None:
    """The game the view is of, None for one that has no id."""
    return validate.optional_uuid("view.game_id", request.view.game_id)


def read_asker(request: pb.ChooseMoveRequest) -> str:
    """The player who is given a hint, empty for a bot's own move.

    Raises Refused NO_HINTS for a player with the view of a table without hints.
    """
    if caller().role is Role.PLAYER:
        if request.view.no_hints:
            raise precondition("NO_HINTS", "at this table players are given no hints")
        return caller().subject
    asker = validate.optional_uuid("hint_for", request.hint_for)
    return "" if asker is None else str(asker)


def read_question(request: pb.ChooseMoveRequest) -> Question:
    """The question asked.

    Raises Refused INVALID_ARGUMENT naming the field, FAILED_PRECONDITION NO_MOVE for a view whose
    seat has nothing to decide.
    """
    validate.present(request, "view")
    level = Level(validate.choice("level", request.level, tuple(Level)))
    seed = validate.octets("seed", request.seed, low=0, high=SEED_MAX)
    variant = validate.choice("view.variant", request.view.variant, tuple(games.NAMES))
    game = games.NAMES[variant]
    view = _view(game, request.view)
    history = _history(game, request.history)
    return Question(game, view, history, level, seed, _budget(request))


def _budget(request: pb.ChooseMoveRequest) -> Budget:
    """How long to search; a player gets no more than the level's own time."""
    worlds = validate.number("worlds", request.worlds, low=0, high=WORLDS_MAX)
    asked = validate.number("budget_ms", request.budget_ms, low=0, high=BUDGET_MAX_MS)
    if caller().role is not Role.SERVICE:
        asked = min(asked or SEARCH_MS, SEARCH_MS)
    if worlds:
        return Budget(worlds, asked or BUDGET_MAX_MS)
    return Budget(cpu_ms=asked or SEARCH_MS)


def _view(game: str, message: view_pb2.GameView) -> Any:
    table = message.WhichOneof("table")
    if table is None:
        raise _no_move()
    if table != game:
        raise invalid(f"view.{table}", f"is not a view of {game}")
    try:
        view = games.of(game).view.from_wire(getattr(message, table), f"view.{table}")
    except InvalidOption as wrong:
        raise invalid(f"view.{table}.options.{wrong.option}", wrong.problem) from None
    if not view.legal:
        raise _no_move()
    try:
        fit.check(game, view)
    except fit.Unfit as unfit:
        raise invalid(f"view.{table}.{unfit.field}", unfit.problem) from None
    if message.HasField("seat") and message.seat != view.seat:
        raise invalid("view.seat", f"is not that of view.{table}")
    return view


def _history(game: str, messages: Sequence[view_pb2.Happening]) -> tuple[Any, ...]:
    """What happened in the game, without what happened around it, from the last deal on.

    No bot looks further back in Rami, whose matches are long.
    """
    mapper, shown = games.of(game).happening, []
    for index in reversed(range(len(messages))):
        which = messages[index].WhichOneof("happening")
        if which == game:
            inner = getattr(messages[index], which)
            shown.append(mapper.from_wire(inner, f"history[{index}].{which}"))
            if inner.WhichOneof("happening") == "round_dealt":
                break
        elif which in games.GAMES:
            raise invalid(f"history[{index}].{which}", f"is not a happening of {game}")
    return tuple(reversed(shown))


def _no_move() -> Exception:
    return precondition("NO_MOVE", "the view's seat has nothing to decide")
