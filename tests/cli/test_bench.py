"""`kozyr bench` in its smallest form: every benchmark runs and gives its keys. Nothing is timed."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from services.cli import bench
from services.cli.bench import load, peers
from services.cli.bench.measuring import (
    Effort,
    Report,
    Slice,
    drive,
    interleaved,
    on_loop,
    percentile,
    ratio,
)
from services.cli.main import main
from services.cli.outcome import Failure
from tests import postgres

TINY = Effort(seconds=0.02, rounds=1, curve=(1, 2), many=4, games=6, streams=4, events=60)

RATIOS = {
    "calls": {"calls.all_vs_bare", "calls.traced_1_vs_bare", "calls.traced_100_vs_bare"},
    "store": {"store.append_vs_raw", "store.append_vs_raw_1"},
    "moves": {"moves.submit_vs_echo"},
    "watch": {"watch.fanout_vs_echo_stream"},
    "wallet": {
        "wallet.spread_vs_function",
        "wallet.hot_vs_function",
        "wallet.hot_vs_spread",
    },
    "replay": {"replay.fold_vs_raw", "replay.audit_vs_play"},
    "engines": set[str](),
    "memory": {"memory"},
}
PEERS = {
    "store": {"store.append_vs_eventsourcing", "store.sqlite_vs_eventsourcing"},
    "engines": {
        "engines.rami_vs_rlcard",
        "engines.rami_vs_openspiel",
        "engines.durak_vs_openspiel_hearts",
    },
}
"""Ratios to peers, which are there only where the peer is installed."""
ABSOLUTE = {
    "calls": {"calls.bare_cpu_us", "calls.gate_cpu_us", "calls.metrics_per_s"},
    "store": {"store.append_per_s_1", "store.raw_per_s_4", "store.sqlite_append_per_s_16"},
    "moves": {"moves.submit_per_s_1", "moves.submit_cpu_us", "moves.echo_cpu_us"},
    "watch": {"watch.cross_replica_ms_p99", "watch.same_replica_ms_p99", "watch.step_bytes"},
    "wallet": {"wallet.spread_per_s", "wallet.hot_per_s", "wallet.grants_per_s"},
    "replay": {"replay.audit_events_per_s", "replay.disk_bytes_an_event"},
    "engines": {
        f"engines.{name}{face}_moves_per_s"
        for name in ("azi", "durak", "rami")
        for face in ("", "_core")
    },
    "memory": {"memory", "memory.games_mib", "memory.streams"},
}


@pytest.fixture
def server_url() -> str:
    """The URL of the tests' own server, which does not wait for its disk."""
    return postgres.server_url()


@pytest.mark.parametrize("kind", bench.KINDS)
def test_a_benchmark_gives_its_keys(kind: str, server_url: str) -> None:
    """Every ratio of the benchmark is a positive number, and so is what it is made of."""
    effort = replace(TINY, database_url=server_url)
    report = bench.measure(kind, effort, lambda _news: None)
    assert report.name == kind
    given = set(report.ratios)
    assert RATIOS[kind] <= given <= RATIOS[kind] | PEERS.get(kind, set())
    assert given >= (PEERS.get(kind, set()) if not report.skipped else set())
    assert ABSOLUTE[kind] <= set(report.absolute)
    assert [key for key, value in report.ratios.items() if not value > 0] == []


def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a peer its ratio is missing, and the output says whose and why."""

    def nothing(module: str) -> None:
        raise peers.Missing(f"{module} cannot be imported")

    monkeypatch.setattr(peers, "load", nothing)
    report = bench.measure("engines", Effort(seconds=0.01, rounds=1), lambda _news: None)
    openspiel = {"openspiel", "openspiel_hearts"}
    assert set(report.skipped) == {"rlcard", "rlcard_core", *openspiel}
    assert report.ratios == {}
    assert report.json()["skipped"]["rlcard"] == "rlcard cannot be imported"
    assert "skipped openspiel: pyspiel cannot be imported" in bench.table(report)


def test_the_output_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` is one object a benchmark: its name, ratios, absolute numbers."""
    assert main(["bench", "engines", "--seconds", "0.01", "--rounds", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["name"] == "engines"
    assert {"ratios", "absolute"} <= set(said) <= {"name", "ratios", "absolute", "skipped"}


def test_a_round_runs_every_side_and_the_next_the_other_way_about() -> None:
    """Sides take turns, so that a machine that slows down slows both."""
    order: list[str] = []

    async def side(name: str, count: int) -> Slice:
        order.append(name)
        return Slice(count, 2.0)

    found = on_loop(interleaved({"a": partial(side, "a", 30), "b": partial(side, "b", 10)}, 3))
    assert "".join(order) == "abbaab"
    assert ratio(found["a"], found["b"]) == 3.0
    assert found["a"][0].rate == 15.0


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    """One disturbed round moves no result."""
    ours = [Slice(10, 1.0), Slice(30, 1.0), Slice(20, 1.0)]
    theirs = [Slice(10, 1.0), Slice(1, 1.0), Slice(10, 1.0)]
    assert ratio(ours, theirs) == 2.0


def test_work_that_runs_out_ends_a_slice() -> None:
    """A side that has nothing left is not measured while it waits."""
    left = [3]

    async def step() -> int:
        left[0] -= 1
        return 1 if left[0] >= 0 else -1

    done = on_loop(drive([step, step], 600.0))
    assert done.count == 3
    assert done.seconds < 600.0


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """The 99th of a hundred is the hundredth: no more than one in a hundred is slower."""
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.99) == 100.0
    assert percentile(values, 0.5) == 51.0
    assert percentile([7.0], 0.99) == 7.0


def test_the_document_explains_every_key() -> None:
    """docs/bench.md has a row for each ratio there is, and the command that gives it."""
    text = (Path(__file__).parents[2] / "docs" / "bench.md").read_text("utf-8")
    keys = set().union(*RATIOS.values(), *PEERS.values())
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
    assert [kind for kind in bench.KINDS if f"kozyr bench {kind}" not in text] == []


LOAD = {"load.submit_p99_vs_idle", "load.watch_p99_vs_idle"}


def test_people_at_tables_are_measured_beside_a_table_alone() -> None:
    """A few players in the smallest form: times under load and idle, nothing wrong."""
    report = on_loop(load.measure(load.Load(5, 2, 0.02), None, lambda _news: None))
    assert report.failed == []
    assert set(report.ratios) == LOAD
    assert all(value > 0 for value in report.ratios.values())
    assert report.absolute["load.errors"] == 0
    assert "load.repeated" in report.absolute
    assert report.absolute["load.moves"] >= 2
    assert report.absolute["load.steps"] >= 2
    text = (Path(__file__).parents[2] / "docs" / "bench.md").read_text("utf-8")
    assert [key for key in sorted(LOAD) if f"`{key}`" not in text] == []


def test_what_must_not_happen_under_load_is_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And it is named, for eyes and for machines."""
    report = Report("load", {"load.submit_p99_vs_idle": 2.0}, failed=["DEADLINE_EXCEEDED: 3"])
    monkeypatch.setattr(bench, "measure_load", lambda _arguments, _tell: report)
    assert main(["bench", "load"]) == 1
    assert "FAILED DEADLINE_EXCEEDED: 3" in capsys.readouterr().out
    assert main(["bench", "load", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == ["DEADLINE_EXCEEDED: 3"]


@pytest.mark.parametrize(
    ("players", "tables", "seats"),
    [(500, 125, [4] * 125), (5, 2, [3, 2]), (3, 2, None), (9, 2, None), (1, 0, None)],
)
def test_players_are_spread_over_tables(players: int, tables: int, seats: list[int] | None) -> None:
    """As evenly as can be; what makes no game is refused."""
    asked = load.Load(players, tables, 1.0)
    if seats is None:
        with pytest.raises(Failure, match="--players"):
            _ = asked.seats
    else:
        assert asked.seats == seats


def test_numbers_are_told_with_four_digits() -> None:
    """More digits than the measurement has would only mislead."""
    report = Report("engines", {"engines.rami_vs_rlcard": 20.123456}, {"moves": 123456.7})
    assert report.json()["ratios"] == {"engines.rami_vs_rlcard": 20.12}
    assert report.json()["absolute"] == {"moves": 123500.0}
