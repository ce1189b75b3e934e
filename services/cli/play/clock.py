"""The time that is left for a decision, counted down from what the server has said."""

from dataclasses import dataclass

from kozyr.game.v1 import view_pb2


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds left for the present decision, and in the time bank that is used after them."""

    seconds: int
    bank_seconds: int = 0


def left(view: view_pb2.GameView, passed_ms: float) -> Left | None:
    """What is left so many milliseconds after the view came in; None where no time runs.

    The bank is that of the viewer, if he is asked, else of who is.
    """
    clock = view.clock
    if not clock.HasField("deadline_time") or not view.to_act:
        return None
    own = view.HasField("seat") and view.seat in view.to_act
    seat = view.seat if own else view.to_act[0]
    remaining = clock.remaining_ms - passed_ms
    bank = clock.seats[seat].bank_ms if seat < len(clock.seats) else 0
    spent = min(0.0, remaining)
    return Left(round(max(0.0, remaining) / 1_000), round(max(0.0, bank + spent) / 1_000))
