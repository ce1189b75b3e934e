"""How a finished game came out, from its engine's last state."""

from collections.abc import Sequence
from typing import Any

from engines import azi, durak, rami
from services.game.model import Result, SeatResult, State


def result_of(state: State) -> Result:
    """The result of a game whose engine is over."""
    match state.engine:
        case azi.State():
            return _azi(state, state.engine)
        case durak.State():
            return _durak(state, state.engine)
        case rami.State():
            return _rami(state, state.engine)
        case _:
            raise TypeError(f"no result of {type(state.engine).__name__}")


def _azi(state: State, engine: azi.State) -> Result:
    won = [int(seat == engine.winner) for seat in range(len(state.seats))]
    stacks = [player.stack for player in engine.players]
    return Result(engine.winner, None, False, _lines(state, stacks=stacks, places=won))


def _durak(state: State, engine: durak.State) -> Result:
    places = [0] * len(state.seats)
    if not engine.null:
        order = (*engine.out, *(() if engine.durak is None else (engine.durak,)))
        for place, seat in enumerate(order, start=1):
            places[seat] = place
    first = engine.out[0] if engine.out and not engine.null else None
    return Result(first, engine.durak, engine.null, _lines(state, places=places))


def _rami(state: State, engine: rami.State) -> Result:
    totals = engine.scores
    places = [1 + sum(other > mine for other in totals) for mine in totals]
    return Result(engine.winner, None, False, _lines(state, places=places, points=totals))


def _lines(
    state: State,
    *,
    places: Sequence[int],
    stacks: Sequence[int] | None = None,
    points: Sequence[int] | None = None,
) -> tuple[SeatResult, ...]:
    lines: list[Any] = []
    for number, seat in enumerate(state.seats):
        lines.append(
            SeatResult(
                seat=number,
                player_id=seat.player_id,
                stack_before=seat.stack,
                stack_after=0 if stacks is None else stacks[number],
                place=places[number],
                points=0 if points is None else points[number],
            )
        )
    return tuple(lines)


def bank_flows(state: State) -> tuple[tuple[int, int], ...]:
    """For each seat of a finished Azi game, the chips it put into banks and those it was paid."""
    paid_out = [0] * len(state.seats)
    for payout in state.engine.payouts:
        paid_out[payout.seat] += payout.chips
    return tuple(
        (seat.stack + out - player.stack, out)
        for seat, player, out in zip(state.seats, state.engine.players, paid_out, strict=True)
    )
