"""When a bot moves: a pause that is drawn apart from the cards, and thinking hidden within it."""

import hmac
from dataclasses import dataclass

from engines.shuffle import framed
from services.game.model import State

SPAN = 2.0
"""A pause is between the mean divided by this and the mean times this."""
AHEAD_MS = 250
"""So long before it moves a bot is asked what it will do."""
STEP_MS = 100
"""A move that is not ready at its moment waits for the next step, so that how long was thought
does not show; how many steps were missed does, where a bot is asked too late or thinks too long."""
OF_TURN = 0.5
"""The most that a pause takes of a decision's time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast bots play: `mean_ms` is their usual pause in milliseconds, 0 for none."""

    mean_ms: int

    def pause_ms(self, state: State, seat: int) -> int:
        """How long after the state's latest event the seat moves, forced or not.

        It follows from a secret of the game, the version and the seat, never from a hand.
        """
        decision = framed(b"pace", state.version.to_bytes(8, "big"), seat.to_bytes(1, "big"))
        drawn = int.from_bytes(hmac.digest(state.bot_seed, decision, "sha256")[:4], "big") / 2**32
        pause = int(self.mean_ms / SPAN * SPAN ** (2 * drawn))
        return pause if state.deadline is None else min(pause, int(OF_TURN * _turn_ms(state)))

    def ask_ms(self, state: State, seat: int) -> int:
        """How long after the state's latest event the bot is asked."""
        return max(0, self.pause_ms(state, seat) - AHEAD_MS)

    def wait_ms(self, state: State, seat: int, now: int) -> float:
        """How long a move that is ready at `now` (microseconds, Unix) still waits."""
        late = (now - state.recorded_at) / 1_000 - self.pause_ms(state, seat)
        return -late if late <= 0 else -late % STEP_MS


AT_ONCE = Pace(0)
"""Bots that make no pause."""


def _turn_ms(state: State) -> float:
    return max(0, (state.deadline or 0) - state.recorded_at) / 1_000
