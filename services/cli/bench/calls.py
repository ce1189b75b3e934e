"""`calls`: what a call costs a server beside the least that gRPC lets it cost, part by part.

Each side is a process that gives a small request back, 64 calls at once: gRPC's own server with
nothing before the handler, the service's interceptor (tokens, access, rates, checks, deadline)
without a log line or metrics, then with each of them, then with traces. All are sent the same
requests with the same player's token by one client process; what is told is the server's CPU.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from google.rpc.error_details_pb2 import RequestInfo

from services.cli.bench import echo
from services.cli.bench.measuring import Effort, Report, Slice, cpu_us, drive, interleaved, rate
from services.cli.bench.moves import echoing
from services.cli.bench.replicas import House, Server

NAME = "calls"
SECONDS = 1.0
PLAYER = "01890a5d-ac96-774b-bcce-b302099a8057"
ALL = "all"
"""What services run with, traces aside."""
PARTS = ("gate", "metrics", ALL)
"""The sides without traces, each with something more than the one before."""


def sides(collector: str) -> Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]]:
    """By the names in the keys: what a process is told beside, as arguments and as settings."""
    quiet, traced = {"log_level": "warning"}, {"otlp_endpoint": f"http://{collector}"}
    return {
        "gate": ((echo.NO_METRICS,), quiet),
        "metrics": ((), quiet),
        ALL: ((), {}),
        "traced_1": ((), {**traced, "trace_ratio": "0.01"}),
        "traced_100": ((), {**traced, "trace_ratio": "1"}),
    }


async def measure(effort: Effort, tell: Callable[[str], None]) -> Report:
    """All of the calls' numbers."""
    report = Report(NAME)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kozyr-bench-")))
        house = House(folder, f"sqlite+aiosqlite:///{folder / 'unused.db'}", stack)
        stack.push_async_callback(house.store.close)
        tell("services start")
        bare = await house.start([sys.executable, "-m", "services.cli.bench.bare"], "bare")
        asked = sides(bare.address)
        others = [
            house.start_echo(name, *arguments, **settings)
            for name, (arguments, settings) in asked.items()
        ]
        servers = {"bare": bare, **dict(zip(asked, await asyncio.gather(*others), strict=True))}
        await _measure(effort, house, servers, report, tell)
    return report


async def _measure(
    effort: Effort,
    house: House,
    servers: Mapping[str, Server],
    report: Report,
    tell: Callable[[str], None],
) -> None:
    async def side(name: str) -> Slice:
        tell(name)
        return await drive(steps[name], effort.slice(SECONDS), servers[name].pid)

    steps = {}
    for name, server in servers.items():
        call = house.channel(server).unary_unary(
            echo.ECHO, RequestInfo.SerializeToString, RequestInfo.FromString
        )
        steps[name] = [echoing(house, call, PLAYER) for _ in range(effort.many)]
        await side(name)  # warm, and its connection made
    found = await interleaved({name: partial(side, name) for name in servers}, effort.rounds)
    for name, slices in found.items():
        report.absolute[f"calls.{name}_cpu_us"] = cpu_us(slices)
        report.absolute[f"calls.{name}_per_s"] = rate(slices)
        if name not in ("bare", *PARTS[:-1]):
            costs = zip(slices, found["bare"], strict=True)
            report.ratios[f"calls.{name}_vs_bare"] = statistics.median(
                (ours.cpu_us or 1) / (bare.cpu_us or 1) for ours, bare in costs
            )
