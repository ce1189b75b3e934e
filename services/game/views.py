"""What a viewer is shown of a game: built field by field, never by taking things away.

A viewer is a seat number, or None for anybody without a seat. Everything here depends only on what
that viewer may know.
"""

from collections.abc import Sequence
from typing import Any, assert_never

from kozyr.game.v1 import variant_pb2, view_pb2

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
    Seat,
    SeedCommitted,
    SeedRevealed,
    SeedsClosed,
    State,
)
from services.game.rulebook import engine_for
from services.kernel.envelope import Recorded
from services.runtime.moments import timestamp
from services.runtime.wire import games as wire
from services.runtime.wire.mapping import Mapper

DEALS: Mapper[DealRevealed, view_pb2.DealRevealed] = Mapper(DealRevealed, view_pb2.DealRevealed)
RESULTS: Mapper[Result, view_pb2.Result] = Mapper(Result, view_pb2.Result)


def game_view(state: State, viewer: int | None, head: bytes) -> view_pb2.GameView:
    """The game as this viewer sees it at the state's version."""
    view = common_view(state, head)
    view.MergeFrom(own_view(state, viewer))
    return view


def common_view(state: State, head: bytes) -> view_pb2.GameView:
    """What all viewers see alike."""
    view = view_pb2.GameView(
        game_id=str(state.game_id),
        table_id=state.table_id,
        variant=wire.VARIANTS[state.variant],
        rules=state.rules,
        version=state.version,
        head=head,
        stage=view_pb2.Stage.ValueType(state.stage),
        turn=state.turn,
        seats=[_seat(seat) for seat in state.seats],
        clock=_clock(state),
        server_seed_hash=state.server_seed_hash,
        server_seed=state.server_seed if state.ended else b"",
        recorded_time=timestamp(state.recorded_at),
    )
    if state.engine is not None:
        view.to_act.extend(engine_for(state.rules).to_act(state.engine))
    if state.result is not None:
        view.result.CopyFrom(result_message(state.result))
    return view


def own_view(state: State, viewer: int | None) -> view_pb2.GameView:
    """What depends on who looks: his seat, and the table as he may know it."""
    if state.engine is None:
        return view_pb2.GameView(seat=viewer)
    shown = engine_for(state.rules).view(state.engine, viewer)
    table: dict[str, Any] = {state.variant: wire.of(state.variant).view.to_fields(shown)}
    return view_pb2.GameView(seat=viewer, **table)


def view_octets(common: bytes, state: State, viewer: int | None) -> bytes:
    """`game_view` serialised, of which `common` is the common part.

    The octets of one message after those of another are the two merged.
    """
    return common + own_view(state, viewer).SerializeToString()


def summary(state: State) -> dict[str, Any]:
    """The fields of a game in a list; the same for every viewer."""
    return {
        "game_id": str(state.game_id),
        "table_id": state.table_id,
        "variant": wire.VARIANTS[state.variant],
        "rules": state.rules,
        "stage": state.stage.value,
        "version": state.version,
        "seats": [_seat(seat) for seat in state.seats],
        "opened_time": timestamp(state.opened_at),
        "ended_time": timestamp(state.recorded_at) if state.ended else None,
        "result": None if state.result is None else result_message(state.result),
    }


def result_message(result: Result) -> view_pb2.Result:
    """The result on the wire."""
    return RESULTS.to_wire(result)


def happenings(
    variant: str, rows: Sequence[tuple[Recorded, Event]], viewer: int | None
) -> list[view_pb2.Happening]:
    """What these events are to this viewer; events that are nothing to him are left out."""
    shown = (_happening(variant, row, event, viewer) for row, event in rows)
    return [happening for happening in shown if happening is not None]


def _seat(seat: Seat) -> view_pb2.GameSeat:
    return view_pb2.GameSeat(
        player_id=seat.player_id,
        bot_level=variant_pb2.BotLevel.ValueType(seat.bot_level or 0),
        left=seat.left,
        bot_plays=seat.bot_plays,
        missed_turns=seat.missed,
        seed_status=view_pb2.SeedStatus.ValueType(seat.seed_status),
        seed_hash=seat.seed_hash,
        seed=seat.seed,
    )


def _clock(state: State) -> view_pb2.Clock:
    deadline = None if state.deadline is None else timestamp(state.deadline)
    return view_pb2.Clock(deadline_time=deadline, turn_ms=state.turn_ms)


def _happening(
    variant: str, row: Recorded, event: Event, viewer: int | None
) -> view_pb2.Happening | None:
    what: dict[str, Any] = {}
    if isinstance(event, EngineEvent):
        game = wire.of(variant)
        shown = game.engine.show(event.event, viewer)
        if shown is None:
            return None
        what[variant] = game.happening.to_fields(shown)
    at = timestamp(row.recorded_at)
    happening = view_pb2.Happening(version=row.version, recorded_time=at, **what)
    match event:
        case EngineEvent():
            pass
        case GameOpened():
            happening.opened.server_seed_hash = event.server_seed_hash
        case SeedCommitted():
            happening.seed_committed.seat = event.seat
            happening.seed_committed.hash = event.hash
        case CommitsClosed():
            happening.commits_closed.SetInParent()
            happening.commits_closed.absent.extend(event.absent)
        case SeedRevealed():
            happening.seed_revealed.seat = event.seat
            happening.seed_revealed.seed = event.seed
        case SeedsClosed():
            happening.seeds_closed.SetInParent()
            happening.seeds_closed.absent.extend(event.absent)
        case DealSeeded():
            happening.deal_seeded.deal = event.deal
            happening.deal_seeded.seed_hash = event.seed_hash
        case ClockCredited():
            happening.clock_credited.turn = event.turn
            happening.clock_credited.credit_ms = event.credit_ms
        case DealRevealed():
            happening.deal_revealed.CopyFrom(DEALS.to_wire(event))
        case BotTookOver():
            happening.bot_took_over.seat = event.seat
        case PlayerReturned():
            happening.player_returned.seat = event.seat
        case GameFinished():
            happening.finished.result.CopyFrom(result_message(event.result))
            happening.finished.server_seed = event.server_seed
        case GameCancelled():
            happening.cancelled.reason = event.reason
            happening.cancelled.server_seed = event.server_seed
        case _:
            assert_never(event)
    return happening
