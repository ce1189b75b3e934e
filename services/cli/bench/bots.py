"""`kozyr bench bots`: a match between two levels of a game's bots, and how long they think."""

import argparse
import os
from collections.abc import Callable
from functools import partial
from random import Random
from statistics import fmean
from typing import Any

from services.ai.bots import Budget, Level
from services.cli.bench.matches import (
    SEATS,
    Match,
    Played,
    bot,
    interval,
    matches_won,
    play,
)
from services.cli.outcome import USAGE, Failure
from services.cli.terminal import grid

DEALS_MAX = 1_000_000
LEVELS = {level.name.lower(): level for level in Level}


def add_arguments(made: argparse.ArgumentParser) -> None:
    """What only `bots` reads."""
    group = made.add_argument_group("bots")
    group.add_argument("--game", choices=tuple(SEATS), help="whose bots play")
    group.add_argument("--a", choices=tuple(LEVELS), help="the level on one seat")
    group.add_argument("--b", choices=tuple(LEVELS), help="the level on all other seats")
    group.add_argument("--seats", type=int, default=2, help="seats of a table (2)")
    group.add_argument("--deals", type=int, default=100, help="deals, each from every seat (100)")
    group.add_argument("--seed", type=int, default=1, help="the seed of cards and chances (1)")
    group.add_argument("--worlds", type=int, help="worlds of a search (the game's own number)")
    group.add_argument("--cpu-ms", type=float, help="milliseconds of CPU of a search")


def measure(arguments: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, Any]:
    """Play the match the arguments describe and sum it up; raises Failure on ones without sense."""
    match = _match(arguments)
    deals = range(arguments.deals)
    done = 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        tell(f"{done:,} of {len(deals):,} deals")

    played = play(match, deals, told, os.cpu_count() or 1)
    return {
        "game": match.game,
        "a": arguments.a,
        "b": arguments.b,
        "seats": match.seats,
        "deals": len(deals),
        "seed": match.seed,
        **summed_up(match.game, match.seats, match.seed, played),
    }


def summed_up(game: str, seats: int, seed: int, played: Played) -> dict[str, Any]:
    """The numbers of a match: score and interval, and milliseconds of CPU a decision of A."""
    told: dict[str, Any] = {
        "score": _rounded(played.score),
        "ci95": [_rounded(end) for end in played.ci95],
        "ms_p50": _rounded(played.ms(0.5)),
        "ms_p99": _rounded(played.ms(0.99)),
        "ms_mean": _rounded(sum(played.times) / max(1, len(played.times))),
    }
    if game == "durak":
        told["undecided"] = played.undecided
    if game == "rami" and seats == min(SEATS[game]):
        told["points"] = _rounded(fmean(played.margins))
        told["points_ci95"] = [_rounded(end) for end in interval(played.margins)]
        told["matches"] = _rounded(matches_won(played.rounds, Random(seed)))  # noqa: S311
    return told


def table(told: dict[str, Any]) -> list[str]:
    """The match for eyes."""
    rows = [(key, _shown(value)) for key, value in told.items()]
    return [*grid(("bots", "value"), rows), ""]


def _match(arguments: argparse.Namespace) -> Match:
    for name in ("game", "a", "b"):
        if getattr(arguments, name) is None:
            raise Failure(f"--{name} is required for bots", USAGE)
    game, seats = arguments.game, arguments.seats
    if seats not in SEATS[game]:
        allowed = SEATS[game]
        raise Failure(f"--seats: {game} is for {allowed.start} to {allowed.stop - 1}", USAGE)
    if not 1 <= arguments.deals <= DEALS_MAX:
        raise Failure(f"--deals must be 1 to {DEALS_MAX:,}", USAGE)
    if arguments.worlds is not None and arguments.worlds < 1:
        raise Failure("--worlds must be at least 1", USAGE)
    if arguments.cpu_ms is not None and arguments.cpu_ms <= 0:
        raise Failure("--cpu-ms must be more than 0", USAGE)
    budget = Budget(arguments.worlds, arguments.cpu_ms)
    a, b = (partial(bot, LEVELS[name], budget) for name in (arguments.a, arguments.b))
    return Match(game, a, b, seats, arguments.seed)


def _rounded(value: float) -> float:
    return round(value, 4)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " … ".join(_shown(each) for each in value)
    return f"{value:,g}" if isinstance(value, float) else str(value)
