"""How a finished game came out, from the last state of its rules."""

from collections.abc import Sequence
from typing import Any

from engines import azi, durak, rami
from verifier.events import Result, SeatOpened, SeatResult
from verifier.receipt import Payout


def result_of(seats: Sequence[SeatOpened], state: Any) -> Result:
    """The result that GameFinished must state."""
    match state:
        case azi.State():
            won = [int(seat == state.winner) for seat in range(len(seats))]
            stacks = [player.stack for player in state.players]
            return Result(state.winner, None, False, _lines(seats, won, stacks=stacks))
        case durak.State():
            order = () if state.null else (*state.out, *_one(state.durak))
            places = [order.index(n) + 1 if n in order else 0 for n in range(len(seats))]
            first = order[0] if state.out and not state.null else None
            return Result(first, state.durak, state.null, _lines(seats, places))
        case rami.State():
            totals = state.scores
            places = [1 + sum(other > mine for other in totals) for mine in totals]
            lines = _lines(seats, places, points=totals)
            return Result(state.winner, None, False, lines)
        case _:
            raise TypeError("no such game")


def payouts_of(seats: Sequence[SeatOpened], state: Any) -> tuple[Payout, ...]:
    """What each seat brought, put in, was paid and ended with; nothing in games without chips."""
    if not isinstance(state, azi.State):
        return ()
    out = [0] * len(seats)
    for payout in state.payouts:
        out[payout.seat] += payout.chips
    return tuple(
        Payout(
            n, seat.player_id, seat.stack, seat.stack + out[n] - player.stack, out[n], player.stack
        )
        for n, (seat, player) in enumerate(zip(seats, state.players, strict=True))
    )


def _one(durak: int | None) -> tuple[int, ...]:
    return () if durak is None else (durak,)


def _lines(
    seats: Sequence[SeatOpened],
    places: Sequence[int],
    *,
    stacks: Sequence[int] | None = None,
    points: Sequence[int] | None = None,
) -> tuple[SeatResult, ...]:
    return tuple(
        SeatResult(
            seat=n,
            player_id=seat.player_id,
            stack_before=seat.stack,
            stack_after=0 if stacks is None else stacks[n],
            place=places[n],
            points=0 if points is None else points[n],
        )
        for n, seat in enumerate(seats)
    )
