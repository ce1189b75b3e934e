"""Opponents that do not change: what a level is measured against besides the other levels.

Each is a `services.cli.bench.matches.Player`. `random` takes any legal move; `previous` are the
bots of the release before, level by level; `durak-flat` is flat Monte Carlo that solves the end;
`rami-holding` holds its combinations back.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from services.ai.bots import Level
from services.cli.bench.matches import Player
from tests.services.ai.zoo import azi_simple, durak_flat, rami_holding, release_0_1_0


def at_random(game: str, view: Any, history: Sequence[Any], rng: Random) -> Any:
    """Any legal move."""
    return rng.choice(view.legal)


def previous(level: Level, game: str, view: Any, history: Sequence[Any], rng: Random) -> Any:
    """The move of the previous release's bot of that level."""
    return release_0_1_0.choose(game, view, history, level, rng).move


ZOO: Mapping[str, Player] = {
    "random": at_random,
    **azi_simple.SIMPLE,
    "durak-flat": durak_flat.flat,
    "rami-holding": rami_holding.holding,
    **{f"previous-{level.name.lower()}": partial(previous, level) for level in Level},
}
"""The opponents by name."""
