"""What a viewer is shown of a game: built field by field, never by taking things away.

A viewer is a seat number, or None for anybody without a seat. Everything here depends only on what
that viewer may know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never
from uuid import UUID

from kozyr.game.v1 import variant_pb2, view_pb2

from services.game.model import (
    BotTookOver,
    ClockCredited,
    CommitsClosed,
    DealRevealed,
    DealSeeded,
    EngineEvent,
    Event,
    FrameEvent,
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
from services.runtime.wire.framing import nested, numeral
from services.runtime.wire.mapping import Mapper

DEALS: Mapper[DealRevealed, view_pb2.DealRevealed] = Mapper(DealRevealed, view_pb2.DealRevealed)
TABLES = {name: view_pb2.GameView.DESCRIPTOR.fields_by_name[name].number for name in wire.GAMES}
"""Where each game's table stands in a `GameView`."""
HAPPENINGS = {
    name: view_pb2.Happening.DESCRIPTOR.fields_by_name[name].number for name in wire.GAMES
}
"""Where each game's happenings stand in a `Happening`."""
SEAT = view_pb2.GameView.SEAT_FIELD_NUMBER
CLOCK = view_pb2.GameView.CLOCK_FIELD_NUMBER
RESULTS: Mapper[Result, view_pb2.Result] = Mapper(Result, view_pb2.Result)


LEFT_MS_MAX = 2**31 - 1
"""The most that a clock shows, in milliseconds."""
LASTING_KEPT = 4_096
"""Of how many games what seldom changes is kept as octets."""
_LASTING: dict[UUID, tuple[tuple[Seat, ...], bytes]] = {}
"""By game: the seats it was made for, and the octets of `lasting_view`."""


def game_view(
    state: State, viewer: int | None, head: bytes, now: int | None = None
) -> view_pb2.GameView:
    """The game as this viewer sees it at the state's version.

    `now` (microseconds) is the moment its clock is read at; None for that of the version.
    """
    common = common_octets(state, head) + clock_octets(state, now)
    return view_pb2.GameView.FromString(common + own_octets(state, viewer))


def lasting_view(state: State) -> view_pb2.GameView:
    """What all viewers see alike, of which a move mostly changes nothing: it depends on how the
    game was opened and on `state.seats` alone."""
    return view_pb2.GameView(
        game_id=str(state.game_id),
        table_id=state.table_id,
        variant=wire.VARIANTS[state.variant],
        rules=state.rules,
        seats=[_seat(seat) for seat in state.seats],
        server_seed_hash=state.server_seed_hash,
        absent_policy=variant_pb2.AbsentPolicy.ValueType(state.absent_policy),
        bot_after=state.takeover_after or 0,
        spectator_delay=state.spectator_delay,
        no_hints=state.no_hints,
    )


def passing_view(state: State, head: bytes) -> view_pb2.GameView:
    """The rest of what all viewers see alike, but for the clock."""
    view = view_pb2.GameView(
        version=state.version,
        head=head,
        stage=view_pb2.Stage.ValueType(state.stage),
        turn=state.turn,
        server_seed=state.server_seed if state.ended and state.laid_open else b"",
        recorded_time=timestamp(state.recorded_at),
    )
    if state.engine is not None:
        view.to_act.extend(engine_for(state.rules).to_act(state.engine))
    if state.result is not None:
        view.result.CopyFrom(result_message(state.result))
    return view


def own_octets(state: State, viewer: int | None) -> bytes:
    """What depends on who looks, serialised: his seat, and the table as he may know it."""
    seat = b"" if viewer is None else numeral(SEAT, viewer)
    if state.engine is None:
        return seat
    shown = engine_for(state.rules).view(state.engine, viewer)
    return seat + nested(TABLES[state.variant], wire.of(state.variant).view.to_octets(shown))


def common_octets(state: State, head: bytes) -> bytes:
    """What all viewers see alike but for the clock, serialised: octets of one message after those
    of another are both merged."""
    game_id, seats = state.game_id, state.seats
    known = _LASTING.get(game_id)
    if known is None or known[0] is not seats:
        known = _LASTING[game_id] = (seats, lasting_view(state).SerializeToString())
        if len(_LASTING) > LASTING_KEPT:
            _LASTING.pop(next(iter(_LASTING)))
    return known[1] + passing_view(state, head).SerializeToString()


@dataclass(frozen=True, slots=True)
class Shared:
    """A version of a game as anybody may see it, serialised once for all viewers.

    `common` is what all see alike (`common_octets`). `shown` is the table as the public sees it,
    `octets` the same on the wire.
    """

    common: bytes
    shown: Any = None
    octets: bytes = b""


def shared_view(state: State, head: bytes) -> Shared:
    """What the views of all viewers have in common at this version."""
    common = common_octets(state, head)
    if state.engine is None:
        return Shared(common)
    shown = engine_for(state.rules).view(state.engine, None)
    return Shared(common, shown, wire.of(state.variant).view.to_octets(shown))


def view_octets(shared: Shared, state: State, viewer: int | None) -> bytes:
    """`game_view` serialised, but for the clock: what is public, and what this viewer's own view
    has beside it.

    What stands in the public octets is what a spectator is shown, and only where the viewer's own
    view says the same; the rest is made from that view alone.
    """
    if state.engine is None:
        return shared.common + own_octets(state, viewer)
    mapper, table = wire.of(state.variant).view, shared.octets
    if viewer is not None:
        shown = engine_for(state.rules).view(state.engine, viewer, shared.shown)
        own = mapper.to_octets_beside(shown, shared.shown)
        if own is None:
            return shared.common + own_octets(state, viewer)
        table += own
    table = nested(TABLES[state.variant], table)
    return shared.common + (table if viewer is None else numeral(SEAT, viewer) + table)


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
    rules: str, rows: Sequence[tuple[Recorded, Event]], viewer: int | None
) -> list[view_pb2.Happening]:
    """What these events are to this viewer; events that are nothing to him are left out."""
    shown = (happening(rules, row, event, shown_event(rules, event, viewer)) for row, event in rows)
    return [view_pb2.Happening.FromString(octets) for octets in shown if octets is not None]


def shown_event(rules: str, event: Event, viewer: int | None) -> Any:
    """What an event is to this viewer: None for nothing; other than the engines' own are public."""
    if isinstance(event, EngineEvent):
        return engine_for(rules).show(event.event, viewer)
    return event


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


def clock_octets(state: State, now: int | None) -> bytes:
    """The clock of a view, serialised, read at `now` (microseconds; None: when the version was
    recorded). All viewers see it alike."""
    at = state.recorded_at if now is None else max(now, state.recorded_at)
    deadline = state.deadline
    clock = view_pb2.Clock(
        deadline_time=None if deadline is None else timestamp(deadline),
        turn_ms=state.turn_ms,
        now_time=timestamp(at),
        remaining_ms=0 if deadline is None else _left_ms(deadline, at),
    )
    if state.banks:
        clock.time_bank_ms = state.time_bank_ms
        clock.seats.extend(_seat_clocks(state, at))
    return nested(CLOCK, clock.SerializeToString())


def _seat_clocks(state: State, at: int) -> Iterator[view_pb2.SeatClock]:
    asked = () if state.engine is None else engine_for(state.rules).to_act(state.engine)
    for seat, bank in enumerate(state.banks):
        deadline = state.deadline_of(seat)
        if deadline is None or seat not in asked:
            yield view_pb2.SeatClock(bank_ms=bank // 1_000)
            continue
        left = _left_ms(deadline, at)
        yield view_pb2.SeatClock(
            bank_ms=min(bank // 1_000, left),
            deadline_time=timestamp(deadline),
            remaining_ms=left,
        )


def _left_ms(moment: int, at: int) -> int:
    return min(max(0, moment - at) // 1_000, LEFT_MS_MAX)


def happening(rules: str, row: Recorded, event: Event, shown: Any) -> bytes | None:
    """An event of which a viewer is shown `shown` (see `shown_event`), as he is told of it: a
    serialised `Happening`."""
    if shown is None:
        return None
    told = view_pb2.Happening(version=row.version, recorded_time=timestamp(row.recorded_at))
    if isinstance(event, EngineEvent):
        variant = rules.partition(" ")[0]
        what = nested(HAPPENINGS[variant], wire.of(variant).happening.to_octets(shown))
        return told.SerializeToString() + what
    _tell(event, told)
    return told.SerializeToString()


def _tell(event: FrameEvent, told: view_pb2.Happening) -> None:
    """Say what an event of the service's own was; all see it alike."""
    match event:
        case GameOpened():
            told.opened.server_seed_hash = event.server_seed_hash
        case SeedCommitted():
            told.seed_committed.seat = event.seat
            told.seed_committed.hash = event.hash
        case CommitsClosed():
            told.commits_closed.SetInParent()
            told.commits_closed.absent.extend(event.absent)
        case SeedRevealed():
            told.seed_revealed.seat = event.seat
            told.seed_revealed.seed = event.seed
        case SeedsClosed():
            told.seeds_closed.SetInParent()
            told.seeds_closed.absent.extend(event.absent)
        case DealSeeded():
            told.deal_seeded.deal = event.deal
            told.deal_seeded.seed_hash = event.seed_hash
            told.deal_seeded.cards_root = event.cards_root or b""
        case ClockCredited():
            told.clock_credited.turn = event.turn
            told.clock_credited.credit_ms = event.credit_ms
        case DealRevealed():
            told.deal_revealed.CopyFrom(DEALS.to_wire(event))
        case BotTookOver():
            told.bot_took_over.seat = event.seat
        case PlayerReturned():
            told.player_returned.seat = event.seat
        case GameFinished():
            told.finished.result.CopyFrom(result_message(event.result))
            told.finished.server_seed = event.server_seed
        case GameCancelled():
            told.cancelled.reason = event.reason
            told.cancelled.server_seed = event.server_seed
        case _:
            assert_never(event)
