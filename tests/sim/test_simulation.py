"""The whole system under a storm of faults, from seeds: no promise is broken.

`make sim SEED=7 N=100` runs more of them; a failure prints its seed and the last steps.
"""

import pytest

from tests.sim.run import simulate

SEEDS = range(1, 51)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_breaks_a_promise(seed: int) -> None:
    """What must hold after every step holds, and after the storm everything comes to its end."""
    outcome = simulate(seed)
    assert outcome.problem is None, outcome.report()


@pytest.mark.parametrize("seed", [3, 16])
def test_a_seed_is_one_run(seed: int) -> None:
    """The same seed gives the same logs, to the last hash, and the same number of faults."""
    assert simulate(seed) == simulate(seed)
