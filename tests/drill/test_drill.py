"""The drill in short: games in play while services, database and disk fail lose nothing.

`make drill` runs the long form. A failure prints the seed that replays it.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drill.drill import SHORT, drill
from tests.drill.embedded import full_disk


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the account of the database server may look into; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="kozyr-drill-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def seed() -> int:
    """Another one each time; told by a failing assertion."""
    return random.randrange(10**6)


async def test_faults_lose_nothing(folder: Path, seed: int) -> None:
    """Replicas killed, drained and frozen, PostgreSQL stopped, cut off and full: every
    acknowledged move is in its log once, every game ends and is settled once, no chip is missing,
    no clock ran out because of us."""
    outcome = await drill(folder, seed, SHORT, lambda _: None)
    assert outcome.held, "\n".join(outcome.table())
    assert sum(outcome.faults.done.values()) > 0


async def test_a_full_disk_on_a_laptop_loses_nothing(folder: Path, seed: int) -> None:
    """Four services on SQLite go on, and so do their games, when there is room again."""
    outcome = await full_disk(folder, seed, SHORT, lambda _: None)
    assert not outcome.findings.faults, f"seed {seed}: {outcome.findings}"
    assert outcome.record.moves
