"""`kozyr bench`: what this machine gives, each number beside its ceiling or a peer."""

import argparse
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from services.cli.bench import bots, postgres
from services.cli.bench.measuring import (
    LIVE_GAMES,
    OPEN_STREAMS,
    Effort,
    Report,
    on_loop,
    shortened,
)
from services.cli.outcome import FINE, WRONG
from services.cli.terminal import command, emit, grid, progress, show

LOCAL = ("engines", "calls")
"""What needs no database."""
LOAD = "load"
"""What takes minutes, and is no part of all."""
MATCHES = "bots"
"""What is no measurement of a machine, and no part of all."""
KINDS = ("calls", "store", "moves", "watch", "wallet", "replay", "engines", "memory")


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "bench",
        "Measure, each number in one run beside its ceiling or a peer: rounds of short slices in "
        "turn, the median of the rounds' ratios. What each number means stands in docs/bench.md.",
        "kozyr bench engines --seconds 2",
    )
    choices = (*KINDS, LOAD, MATCHES, "all")
    made.add_argument("what", nargs="?", choices=choices, default="engines")
    made.add_argument("--seconds", type=float, help="length of a slice (what suits the benchmark)")
    made.add_argument("--rounds", type=int, default=3, help="rounds of slices (3)")
    made.add_argument("--games", type=int, default=LIVE_GAMES, help="live games of memory")
    made.add_argument("--streams", type=int, default=OPEN_STREAMS, help="its open streams")
    made.add_argument(
        "--database-url",
        help="a PostgreSQL whose user may create databases; else the embedded one is started",
    )
    made.add_argument("--json", action="store_true", help="one JSON object a benchmark")
    group = made.add_argument_group("load")
    group.add_argument("--players", type=int, default=500, help="clients that play (500)")
    group.add_argument("--tables", type=int, default=125, help="tables they sit at (125)")
    group.add_argument("--minutes", type=float, default=5.0, help="how long they play (5)")
    group.add_argument("--sqlite", action="store_true", help="on SQLite instead of PostgreSQL")
    bots.add_arguments(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    if arguments.what == MATCHES:
        with progress(MATCHES) as tell:
            told = bots.measure(arguments, tell)
        if arguments.json:
            emit(told)
        else:
            show(bots.table(told))
        return FINE
    effort = Effort(
        seconds=arguments.seconds,
        rounds=max(1, arguments.rounds),
        games=arguments.games,
        streams=arguments.streams,
        database_url=arguments.database_url,
    )
    code = FINE
    for kind in KINDS if arguments.what == "all" else (arguments.what,):
        with progress(kind) as tell:
            report = measure_load(arguments, tell) if kind == LOAD else measure(kind, effort, tell)
        if arguments.json:
            emit(report.json())
        else:
            show(table(report))
        code = WRONG if report.failed else code
    return code


def measure_load(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Report:
    """People at tables, on a PostgreSQL of its own unless told otherwise."""
    from services.cli.bench import load

    asked = load.Load(arguments.players, arguments.tables, arguments.minutes)
    if arguments.sqlite:
        return on_loop(load.measure(asked, None, tell))
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        tell("PostgreSQL starts")
        with postgres.server(arguments.database_url, Path(folder)) as url:
            return on_loop(load.measure(asked, url, tell))


def measure(kind: str, effort: Effort, tell: Callable[[str], None]) -> Report:
    """One benchmark, on a PostgreSQL of its own where it needs one."""
    module: Any = import_module(f"services.cli.bench.{kind}")
    report: Report
    if kind in LOCAL:
        report = on_loop(module.measure(effort, tell))
        return report
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        tell("PostgreSQL starts")
        with postgres.server(effort.database_url, Path(folder)) as url:
            report = on_loop(module.measure(effort, url, tell))
    return report


def table(report: Report) -> list[str]:
    """The report for eyes."""
    rows = [(key, f"{shortened(value):,g}", "ratio") for key, value in report.ratios.items()]
    rows += [(key, f"{shortened(value):,g}", "") for key, value in report.absolute.items()]
    lines = grid((report.name, "value", ""), rows)
    lines += [f"skipped {name}: {why}" for name, why in report.skipped.items()]
    return [*lines, *(f"FAILED {what}" for what in report.failed), ""]
