"""A game as it is shown to whoever has a link to it: what could be seen at the table, and no more.

Built field by field: the table as the rules show it to the public at each step, and what happened
there. Hands that were laid open afterwards, seeds, dates, and who the players are stay out of it,
whatever the game's option `reveal` is. Pure.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from kozyr.game.v1 import history_pb2, variant_pb2, view_pb2

from services.game import views
from services.game.audit import Append
from services.game.model import (
    BotTookOver,
    ClockCredited,
    CommitsClosed,
    DealRevealed,
    DealSeeded,
    EngineEvent,
    Event,
    GameCancelled,
    GameFinished,
    GameOpened,
    PlayerReturned,
    Result,
    SeedCommitted,
    SeedRevealed,
    SeedsClosed,
    State,
)
from services.game.rulebook import engine_for
from services.kernel.seats import BotLevel
from services.runtime.wire import games as wire
from services.runtime.wire.framing import nested


def summary(state: State) -> history_pb2.GetSharedGameResponse:
    """An ended game in a few words; the link's end is for the caller to add."""
    shown = history_pb2.GetSharedGameResponse(
        variant=wire.VARIANTS[state.variant],
        rules=state.rules,
        stage=view_pb2.Stage.ValueType(state.stage),
        seats=[
            history_pb2.SharedSeat(bot_level=_level(seat.bot_level), left=seat.left)
            for seat in state.seats
        ],
        duration_ms=(state.recorded_at - state.opened_at) // 1_000,
    )
    if state.result is not None:
        shown.result.CopyFrom(_result(state.result))
    return shown


def steps(appends: Iterable[Append]) -> Iterator[history_pb2.ReplaySharedGameResponse]:
    """The steps of an ended game from the first that shows something on."""
    begun, number = 0, 0
    for append in appends:
        state, at = append.after, append.rows[0].recorded_at
        happened = [told for event in append.events if (told := _told(state.rules, event))]
        if not happened and not state.ended:
            continue
        begun, number = begun or at, number + 1
        yield history_pb2.ReplaySharedGameResponse(
            number=number,
            at_ms=(at - begun) // 1_000,
            happenings=happened,
            view=_view(state),
        )


def _view(state: State) -> view_pb2.GameView:
    view = view_pb2.GameView(
        variant=wire.VARIANTS[state.variant],
        rules=state.rules,
        stage=view_pb2.Stage.ValueType(state.stage),
        turn=state.turn,
        seats=[
            view_pb2.GameSeat(
                bot_level=_level(seat.bot_level),
                left=seat.left,
                bot_plays=seat.bot_plays,
                missed_turns=seat.missed,
            )
            for seat in state.seats
        ],
    )
    if state.engine is not None:
        engine = engine_for(state.rules)
        view.to_act.extend(engine.to_act(state.engine))
        table = wire.of(state.variant).view.to_octets(engine.view(state.engine, None))
        view.MergeFromString(nested(views.TABLES[state.variant], table))
    if state.result is not None:
        view.result.CopyFrom(_result(state.result))
    return view


def _told(rules: str, event: Event) -> view_pb2.Happening | None:
    """What happened as the public at the table could see it; None for nothing."""
    match event:
        case EngineEvent():
            shown = engine_for(rules).show(event.event, None)
            if shown is None:
                return None
            variant = rules.partition(" ")[0]
            octets = wire.of(variant).happening.to_octets(shown)
            return view_pb2.Happening.FromString(nested(views.HAPPENINGS[variant], octets))
        case BotTookOver():
            return view_pb2.Happening(bot_took_over=view_pb2.BotTookOver(seat=event.seat))
        case PlayerReturned():
            return view_pb2.Happening(player_returned=view_pb2.PlayerReturned(seat=event.seat))
        case GameFinished():
            return view_pb2.Happening(finished=view_pb2.Finished(result=_result(event.result)))
        case GameCancelled():
            return view_pb2.Happening(cancelled=view_pb2.Cancelled(reason=event.reason))
        case (
            GameOpened()
            | SeedCommitted()
            | CommitsClosed()
            | SeedRevealed()
            | SeedsClosed()
            | DealSeeded()
            | DealRevealed()
            | ClockCredited()
        ):
            return None
        case _:
            assert_never(event)


def _result(result: Result) -> view_pb2.Result:
    """How it came out, by seats alone."""
    shown = view_pb2.Result(null=result.null)
    if result.winner is not None:
        shown.winner = result.winner
    if result.durak is not None:
        shown.durak = result.durak
    for line in result.seats:
        shown.seats.add(
            seat=line.seat,
            stack_before=line.stack_before,
            stack_after=line.stack_after,
            place=line.place,
            points=line.points,
        )
    return shown


def _level(level: BotLevel | None) -> variant_pb2.BotLevel.ValueType:
    return variant_pb2.BotLevel.ValueType(level or 0)
