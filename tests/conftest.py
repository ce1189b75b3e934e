"""Fixtures every test may use."""

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import postgres

hypothesis.settings.register_profile("kozyr", deadline=None, print_blob=True)
hypothesis.settings.load_profile("kozyr")

RUN = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Makes the run's folder, in the one process of the run that is no worker."""
    if folder := postgres.open_run():
        config.stash[RUN] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends what the run shared and removes its folder."""
    if folder := config.stash.get(RUN, None):
        postgres.close_run(folder)


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The URL (`postgresql+asyncpg://…`) of an empty database made for this test alone."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)
