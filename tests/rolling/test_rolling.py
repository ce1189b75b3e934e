"""The rolling restart in short: every service replaced once, and nobody notices.

`make rolling` runs the long form. A failure prints the seed.
"""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.cli.migrate import STORED, migrate_service
from services.runtime.settings import SERVICES, Settings
from tests import postgres
from tests.rolling.lines import lines_of
from tests.rolling.pace import paces
from tests.rolling.rolling import SHORT, rolling


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """A database a service, migrated."""
    urls = {name: postgres.create_database() for name in STORED}
    for name, url in urls.items():
        given = {"data_folder": tmp_path, f"{name}_database_url": url}
        await migrate_service(Settings.model_validate(given), name)
    yield urls
    for url in urls.values():
        postgres.drop_database(url)


async def test_a_rolling_restart_is_not_noticed(tmp_path: Path, databases: dict[str, str]) -> None:
    """One replica of each service, replaced by another while games are played: every acknowledged
    move is in its log once, everybody is told every version once, nobody is refused or timed out,
    and each process ends by itself."""
    outcome = await rolling(tmp_path, databases, random.randrange(10**6), SHORT, lambda _: None)
    assert outcome.held, "\n".join(outcome.table())
    assert outcome.restarts == len(SERVICES)


def test_the_pace_is_that_of_the_manifests() -> None:
    """What an old replica is given to end in is longer than all that its drain may take."""
    assert paces().keys() == set(SERVICES)
    for pace in paces().values():
        assert pace.pre_stop + sum(ms for _, ms in pace.drain) / 1_000 < pace.grace


def test_what_a_log_says_is_counted(tmp_path: Path) -> None:
    """Calls that were refused as unavailable, warnings, errors, and lines of nobody's."""
    log = tmp_path / "game-1.log"
    told = [
        '{"event": "rpc", "level": "info", "method": "/a.B/Do", "code": "OK"}',
        (
            '{"event": "rpc", "level": "info", "method": "/a.B/Do", "code": "UNAVAILABLE", '
            '"reason": "DRAINING"}'
        ),
        '{"event": "due_refused", "level": "warning", "reason": "DRAINING"}',
        '{"event": "task_died", "level": "error"}',
        "Fatal Python error: Segmentation fault",
    ]
    log.write_text("\n".join(told), "utf-8")
    found = lines_of(log)
    assert found.unavailable == {"Do DRAINING": 1}
    assert found.warnings == {"due_refused DRAINING": 1}
    assert found.errors == told[3:]
