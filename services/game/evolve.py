"""The state of a game after each event of its log: total, never judging. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never
from uuid import UUID

from engines import azi, durak, rami
from engines.records import changed
from services.game import deals
from services.game.model import (
    BotTookOver,
    ClockCredited,
    CommitsClosed,
    DealRevealed,
    DealSeeded,
    DroppedCard,
    EngineEvent,
    Event,
    FrameEvent,
    GameCancelled,
    GameFinished,
    GameOpened,
    PlayerReturned,
    Seat,
    SeatOpened,
    SeedCommitted,
    SeedRevealed,
    SeedsClosed,
    SeedStatus,
    Stage,
    State,
)
from services.game.rulebook import engine_for


def engine_initial(
    rules: str, options: Any, seats: Sequence[SeatOpened | Seat], last_winner: int | None
) -> Any:
    """The engine's state before the first deal, by the rules of this version."""
    engine = engine_for(rules)
    if engine.NAME == azi.NAME:
        stacks = tuple(seat.stack for seat in seats)
        return engine.initial(options, len(seats), stacks=stacks, last_winner=last_winner)
    return engine.initial(options, len(seats))


def evolve_all(state: State, events: Iterable[Event]) -> State:
    """The state after several events of one append that has no moment yet."""
    for event in events:
        state = evolve(state, event, state.recorded_at)
    return state


def evolve(state: State, event: Event, at: int) -> State:
    """The state after one event recorded `at` (database time, microseconds)."""
    if isinstance(event, EngineEvent):
        return _apply_engine(state, event.event, at)
    return changed(_apply_frame(state, event, at), version=state.version + 1, recorded_at=at)


def restamp(before: State, state: State, at: int, to: int) -> State:
    """The state had the append after `before`, recorded `at`, later than all before it, been
    recorded at `to`."""
    return changed(
        state,
        recorded_at=to,
        opened_at=to if state.opened_at == at else state.opened_at,
        seeds_at=to if state.seeds_at == at else state.seeds_at,
        turn_at=to if state.turn_at == at else state.turn_at,
        banks=_drawn(before, state.engine, to) if before.banks else state.banks,
    )


def _apply_engine(state: State, event: Any, at: int) -> State:
    """An event of the game itself; a new decision starts the clock anew."""
    engine = engine_for(state.rules).evolve(state.engine, event)
    asks = engine.turn != state.turn
    after = changed(
        state,
        version=state.version + 1,
        recorded_at=at,
        engine=engine,
        turn_at=at if asks else state.turn_at,
        credit_ms=0 if asks else state.credit_ms,
        credits=0 if asks else state.credits,
        banks=state.banks and _drawn(state, engine, at),
    )
    beside = _BESIDE.get(type(event))
    return after if beside is None else beside(after, event)


def _drawn(before: State, engine: Any, at: int) -> tuple[int, ...]:
    """The time banks after events recorded `at` that led to this engine's state: a seat that is not
    asked any more in the decision has drawn on its own for what it took beyond the turn time."""
    over = at - (at if before.deadline is None else before.deadline)
    if over <= 0:
        return before.banks
    to_act = engine_for(before.rules).to_act
    still = to_act(engine) if engine.turn == before.turn else ()
    done = set(to_act(before.engine)).difference(still)
    return tuple(max(0, b - over) if s in done else b for s, b in enumerate(before.banks))


def _apply_frame(state: State, event: FrameEvent, at: int) -> State:
    match event:
        case GameOpened():
            return _apply_opened(state, event, at)
        case SeedCommitted():
            return _seat(state, event.seat, seed_status=SeedStatus.COMMITTED, seed_hash=event.hash)
        case CommitsClosed():
            closed = _mark_absent(state, event.absent)
            return changed(closed, stage=Stage.REVEALING, seeds_at=at)
        case SeedRevealed():
            return _seat(state, event.seat, seed_status=SeedStatus.REVEALED, seed=event.seed)
        case SeedsClosed():
            engine = engine_initial(state.rules, state.options, state.seats, state.last_winner)
            closed = _mark_absent(state, event.absent)
            return changed(closed, stage=Stage.PLAYING, engine=engine)
        case DealSeeded():
            return state
        case ClockCredited():
            credit_ms = state.credit_ms + event.credit_ms
            return changed(state, credit_ms=credit_ms, credits=state.credits + 1)
        case DealRevealed():
            return changed(state, deals=tuple(d for d in state.deals if d.deal != event.deal))
        case BotTookOver():
            return _seat(state, event.seat, bot_plays=True)
        case PlayerReturned():
            return _seat(state, event.seat, bot_plays=False, missed=0)
        case GameFinished():
            return changed(state, stage=Stage.FINISHED, result=event.result)
        case GameCancelled():
            return changed(state, stage=Stage.CANCELLED)
        case _:
            assert_never(event)


def _apply_opened(state: State, event: GameOpened, at: int) -> State:
    engine_for(event.rules)  # nothing after it could be understood without
    seats = tuple(
        Seat(
            player_id=seat.player_id,
            bot_level=seat.bot_level,
            stack=seat.stack,
            reservation_id=seat.reservation_id,
            seed_status=(SeedStatus.AWAITED if seat.bot_level is None else SeedStatus.ABSENT),
        )
        for seat in event.seats
    )
    return changed(
        state,
        game_id=UUID(event.game_id),
        stage=Stage.COMMITTING,
        opened_at=at,
        seeds_at=at,
        table_id=event.table_id,
        rules=event.rules,
        options=event.options,
        seats=seats,
        last_winner=event.last_winner,
        turn_ms=event.turn_ms,
        seed_ms=event.seed_ms,
        spectators=event.spectators,
        absent_policy=event.absent_policy,
        server_seed_hash=event.server_seed_hash,
        server_seed=event.secret.server_seed,
        bot_seed=event.secret.bot_seed,
        time_bank_ms=event.time_bank_ms,
        spectator_delay=event.spectator_delay,
        bot_after=event.bot_after,
        no_hints=event.no_hints,
        banks=_full_banks(event),
    )


def _full_banks(event: GameOpened) -> tuple[int, ...]:
    """Each seat's time bank, that of a bot being empty: it never thinks so long."""
    if not event.time_bank_ms:
        return ()
    return tuple(0 if s.bot_level else event.time_bank_ms * 1_000 for s in event.seats)


def _after_deal(state: State, event: Any) -> State:
    made = deals.deal_made(event)
    if made is None:
        raise TypeError(f"{type(event).__name__} deals no cards")
    return changed(state, deals=(*state.deals, changed(made, version=state.version)))


def _after_drop(state: State, event: azi.CardDropped) -> State:
    deal = state.deals[-1]
    dropped = (*deal.dropped, DroppedCard(event.seat, event.secret.card))
    return changed(state, deals=(*state.deals[:-1], changed(deal, dropped=dropped)))


def _after_expiry(state: State, event: Any) -> State:
    return _seat(state, event.seat, missed=state.seats[event.seat].missed + 1)


def _after_leave(state: State, event: Any) -> State:
    return _seat(state, event.seat, left=True)


def _seat(state: State, number: int, **changes: Any) -> State:
    seats = list(state.seats)
    seats[number] = changed(seats[number], **changes)
    return changed(state, seats=tuple(seats))


def _mark_absent(state: State, absent: tuple[int, ...]) -> State:
    for number in absent:
        state = _seat(state, number, seed_status=SeedStatus.ABSENT)
    return state


_BESIDE: Mapping[type, Callable[[State, Any], State]] = {
    azi.Dealt: _after_deal,
    durak.Dealt: _after_deal,
    rami.Dealt: _after_deal,
    azi.CardDropped: _after_drop,
    azi.TurnExpired: _after_expiry,
    durak.TurnExpired: _after_expiry,
    rami.TurnExpired: _after_expiry,
    azi.SeatLeft: _after_leave,
    durak.SeatLeft: _after_leave,
    rami.SeatLeft: _after_leave,
}
"""What the few engine events that concern more than the engine change beside it."""
