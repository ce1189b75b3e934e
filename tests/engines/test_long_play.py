"""The cheap laws at every state of thousands of random games of each kind."""

from random import Random
from typing import Any

import pytest

from tests.engines import laws
from tests.engines.durak_worlds import DURAK
from tests.engines.test_azi_laws import AZI
from tests.engines.test_rami_laws import RAMI

AZI_GAMES, DURAK_DEALS, RAMI_ROUNDS = 2_000, 1_000, 1_000


@pytest.mark.parametrize(
    ("described", "wanted"),
    [
        pytest.param(AZI, AZI_GAMES, id="azi"),
        pytest.param(DURAK, DURAK_DEALS, id="durak"),
        pytest.param(RAMI, RAMI_ROUNDS, id="rami"),
    ],
)
def test_cheap_laws_hold_at_every_state(described: laws.Laws[Any, Any, Any], wanted: int) -> None:
    """Cards, chips, turns and the seats to act are right after every event of every game."""
    wanted = laws.games(wanted)
    played = states = number = 0
    while played < wanted:
        deals, seen = laws.cheap_laws_hold_at_every_state(described, Random(f"long {number}"))
        number += 1
        played += 1 if described is AZI else deals
        states += seen
    print(f"{number} games, {played} counted, {states} states")  # noqa: T201 - shown with -s
