"""What follows an append of a game: its due rows, its tags, whether it has ended. Pure."""

from typing import assert_never

from engines.records import maker
from services.game.model import Stage, State
from services.game.pacing import Pace
from services.game.rulebook import engine_for
from services.kernel.envelope import Due, Plan

_due, _plan = maker(Due), maker(Plan)


def due_work(state: State, pace: Pace) -> dict[tuple[str, str], int]:
    """What must happen later, as (kind, key) and the milliseconds from the append that asks for it.

    `seeds`: the time for hashes or seeds is up; `turn` `SEAT.TURN.CREDITS`: a decision's time is
    up; `bot` `SEAT.TURN`: a bot is asked for its move; `end`: the chips are paid out and the table
    is told.
    """
    match state.stage:
        case Stage.ABSENT:
            return {}
        case Stage.COMMITTING | Stage.REVEALING:
            return {("seeds", state.stage.name.lower()): state.seed_ms}
        case Stage.PLAYING:
            work = {}
            for seat in engine_for(state.rules).to_act(state.engine):
                work["turn", deadline_key(state, seat)] = _left_ms(state, seat)
                if state.seats[seat].is_bot:
                    work["bot", f"{seat}.{state.turn}"] = pace.ask_ms(state, seat)
            return work
        case Stage.FINISHED | Stage.CANCELLED:
            return {("end", ""): 0}
        case _:
            assert_never(state.stage)


def deadline_key(state: State, seat: int) -> str:
    """The key of the row for a seat's present deadline; a credited clock has another one."""
    return f"{seat}.{state.turn}.{state.credits}"


def _left_ms(state: State, seat: int) -> int:
    """Milliseconds from the state's latest event to the seat's deadline, never rounded down."""
    deadline = state.deadline_of(seat) or state.recorded_at
    return max(0, -(-(deadline - state.recorded_at) // 1_000))


def plan(before: State, after: State, pace: Pace) -> Plan:
    """What an append from one state to the other does beside its events."""
    earlier, later = due_work(before, pace), due_work(after, pace)
    tags: tuple[str, ...] = ()
    if before.stage is Stage.ABSENT and after.stage is not Stage.CANCELLED:
        people = (s.player_id for s in after.seats if s.bot_level is None)
        tags = ("game", f"table:{after.table_id}", *(f"player:{player}" for player in people))
    due = tuple([_due(*what, ms) for what, ms in later.items() if what not in earlier])
    done = tuple([what for what in earlier if what not in later])
    planned: Plan = _plan(due, done, tags, after.ended)
    return planned
