"""Who may see and touch a game. A game one may not see is answered like one that is not there."""

from services.game.model import Stage, State
from services.kernel.errors import Refused, denied, not_found
from services.runtime.auth import Caller, Role


def viewer_of(state: State, caller: Caller) -> int | None:
    """The caller's seat, or None for a spectator; raises Refused GAME_NOT_FOUND."""
    if state.stage is Stage.ABSENT or not state.seats:
        raise missing()
    if caller.role is Role.OPERATOR:
        return None
    seat = state.seat_of(caller.subject)
    if seat is None and not state.spectators:
        raise missing()
    return seat


def seat_of(state: State, caller: Caller) -> int:
    """The caller's seat; raises Refused GAME_NOT_FOUND or, for a spectator, NOT_SEATED."""
    seat = viewer_of(state, caller)
    if seat is None:
        raise denied("NOT_SEATED", "only a player of this game may do this")
    return seat


def missing() -> Refused:
    """No such game, as far as the caller may know."""
    return not_found("GAME_NOT_FOUND", "there is no game of this id that you may see")
