"""Every family of metrics moves when what it tells of happens, by values that are declared."""

import asyncio
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from kozyr.game.v1 import audit_pb2
from prometheus_client import Gauge

from services.ai.bots import Level
from services.game import disputes, steps
from services.lobby import evolve
from services.runtime.health import Health
from services.runtime.metrics import CALLS, CHECKS, DUE_KINDS, FAMILIES, OTHER
from tests.authority import Authority
from tests.runtime.echo import Echo, serving, settings
from tests.runtime.series import Series, moved, series
from tests.runtime.test_metrics import asked
from tests.runtime.test_relay import STREAM, replica
from tests.services.ai.host import hard, hosting, question
from tests.services.ai.positions import random_games
from tests.services.game.system import game_uuid, setup, system
from tests.services.game.test_steps import dealt, replicas, taken

UNTOUCHED = -12_345.0
ROUNDS = "kozyr_game_checkpoint_rounds_total"


async def test_every_family_moves(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games, bots, chips, an audit, a slow watcher, replicas with news, a check that fails: each
    counter has grown, each gauge was set, and no label had a value that is not declared."""
    for family in FAMILIES.values():
        if isinstance(family.metric, Gauge):
            if family.labels:
                family.metric.clear()
                family._series.clear()
            else:
                family.metric.set(UNTOUCHED)
    before = series()
    await play_and_audit(tmp_path / "system")
    await think(tmp_path / "ai")
    monkeypatch.setattr(steps, "LINKED_MAX", 2)
    await fall_behind(tmp_path / "slow")
    async with replica(postgres_url) as here, replica(postgres_url) as there:
        here.relay.tell(STREAM, 1)
        assert await there.feed.wait(STREAM, 0, timeout_s=20) == 1
    await show_a_certificate(tmp_path / "certificate")
    await Health((), {CHECKS[0]: fail}).refresh()
    changes = moved(before)
    still = {
        name
        for name, family in FAMILIES.items()
        if not {name, f"{name}_count"} & {found for found, _ in changes}
        and not (isinstance(family.metric, Gauge) and UNTOUCHED not in values(name))
    }
    assert still == set()
    strange = {key for key in changes if any(value == OTHER for _, value in key[1])}
    assert strange == set()


def values(name: str) -> set[float]:
    """What all series of a gauge are now; one that was never set is untouched."""
    return {value for (found, _), value in series().items() if found == name} or {UNTOUCHED}


async def fail() -> None:
    """A check that fails."""
    raise OSError


async def play_and_audit(folder: Path) -> None:
    """A game of bots to its end and its audit, another one watched, while metrics are asked for."""
    before = series()
    untraced = {"otlp_endpoint": "http://127.0.0.1:1", "trace_ratio": 1, "trace_flush_ms": 0}
    async with system(folder, checkpoint_ms=100, metrics_listen="127.0.0.1:0", **untraced) as house:
        request = await house.open(setup("azi", people=1, bots=1, seed_ms=20))
        player = house.game(request.seats[0].player_id)
        stream = player.watch(request.game_id)
        await anext(stream)
        async with asyncio.timeout(30):
            while not grown(before) >= {"kozyr_feed_polls_total", ROUNDS}:
                await asyncio.sleep(0.02)
        assert house.metrics_port is not None
        page = await asked(house.metrics_port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"kozyr_game_running 1.0" in page
        assert b"kozyr_game_watchers 1.0" in page
        assert request.game_id.encode() not in page
        await stream.aclose()  # type: ignore[attr-defined] # a generator has it
        operator = house.operator
        verify = audit_pb2.VerifyGameRequest(game_id=str(game_uuid(request)))
        await operator.call(operator.audits.VerifyGame, verify)


def grown(before: Mapping[Series, float]) -> set[str]:
    """Which series have changed since, by name."""
    return {name for name, _ in moved(before)}


async def think(folder: Path) -> None:
    """A bot that plays at once, and one that a full queue makes play lower."""
    position = next(p for p in islice(next(random_games("rami", range(1))), 12) if p.view.legal)
    async with hosting(folder, ai_workers=1, ai_queue_max=0) as host:
        await host.choose(question(position, Level.EASY))
        await asyncio.gather(*(host.choose(hard(position, budget_ms=200)) for _ in range(3)))


async def fall_behind(folder: Path) -> None:
    """A watcher takes nothing while another sees move after move."""
    async with replicas(folder, 1) as (here,):
        await dealt(here)
        slow, quick = here.watch(0), here.watch(1)
        await anext(slow)
        await anext(quick)
        rng = Random(7)
        for _ in range(6):
            await taken(quick, (await here.play(rng)).version)
        assert (await anext(slow)).HasField("snapshot")


async def show_a_certificate(folder: Path) -> None:
    """A service with a certificate is asked for its metrics."""
    own = Authority().lay(folder / "own", "wallet")
    async with serving(Echo(), settings(folder, **own, metrics_listen="127.0.0.1:0")) as server:
        assert server.metrics_port is not None
        await asked(server.metrics_port, b"GET /metrics HTTP/1.1\r\n\r\n")


def test_kinds_of_due_work_are_declared() -> None:
    """Those that the services' modules name; whatever else came would be `other`."""
    named = {disputes.PAY, disputes.COLLECT}
    named |= {evolve.START, evolve.IDLE, evolve.UNREADY, evolve.FILL}
    assert named | {"seeds", "turn", "bot", "end"} == set(DUE_KINDS)
    assert CALLS.of("unknown", "UNIMPLEMENTED") is CALLS.of("unknown", "UNIMPLEMENTED")
