"""A state kept in memory is the one that a replay of what is stored gives, moments included."""

from random import Random

import pytest

from services.game import codec, domain
from services.game.evolve import evolve, restamp
from services.game.model import State
from services.game.rulebook import engine_for
from tests.services.game import worlds

LATER = (0, 1, 2, 5_000_000)
"""Microseconds from the event before to the true moment of an append; there may be none."""


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_an_append_folded_before_its_time_is_known_is_put_right(variant: str) -> None:
    """Whatever the estimate was, the state equals the fold of the stored rows at their time."""
    for seed in range(6):
        rng = Random(f"{variant} {seed}")
        commands = worlds.game(variant, rng.choice((2, 3)), rng, moves=40)
        for append in [*worlds.run(commands, {}), *_credited(commands)]:
            before = append.before
            estimate = before.recorded_at + rng.choice((1, 2, 70_000_000))
            for later in LATER:
                to = before.recorded_at + later
                foreseen, replayed = before, before
                for event, row in zip(append.events, append.rows, strict=True):
                    foreseen = evolve(foreseen, event, estimate)
                    replayed = evolve(replayed, codec.decode(row), to)
                assert restamp(before, foreseen, estimate, to) == replayed


def _credited(commands: list[domain.GameCommand]) -> list[worlds.Append]:
    """A credited clock after these commands, and what follows when it runs out."""
    state: State = worlds.run(commands, {})[-1].after
    credited = worlds.append(state, domain.Credit(state.turn, 3_000))
    seat = engine_for(state.rules).to_act(state.engine)[0]
    return [credited, worlds.append(credited.after, domain.Expire(seat, state.turn))]
