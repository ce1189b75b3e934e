"""`engines`: random moves a second of each engine, and of Rami beside gin rummy of two libraries.

Every move of ours is decided and folded, as in a game that is stored; the peers' are applied to
their own mutable state. RLCard is driven through its environment, as its users do; its bare game
and both shares are told as absolute numbers.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from engines.api import Act, Start
from services.cli.bench import peers
from services.cli.bench.measuring import Effort, Report, Side, Slice, interleaved, rate, ratio
from services.cli.deals import SeedChance
from services.cli.variants import GAMES, engine, opening

NAME = "engines"
SECONDS = 1.0
SEATS = {"azi": 3, "durak": 4, "rami": 2}
RIVALS = {
    "rlcard": peers.rlcard_game,
    "rlcard_core": peers.rlcard_core,
    "openspiel": peers.openspiel_game,
}

Play = Callable[[random.Random], int]
"""Plays one game at random and says how many moves it had."""


async def measure(effort: Effort, tell: Callable[[str], None]) -> Report:
    """All of the engines' numbers."""
    report = Report(NAME)
    plays: dict[str, Play] = {name: ours(name) for name in GAMES}
    for name, peer in RIVALS.items():
        try:
            plays[name] = peer()
        except peers.Missing as missing:
            report.skipped[name] = str(missing)
    # Moves are chosen at random for measuring only; the decks are shuffled as in play.
    rng = random.Random(1)  # noqa: S311
    seconds = effort.slice(SECONDS)
    sides: dict[str, Side] = {
        name: partial(_slice, play, rng, seconds, tell, name) for name, play in plays.items()
    }
    found = await interleaved(sides, effort.rounds)
    for name in ("rlcard", "openspiel"):
        if name in found:
            report.ratios[f"engines.rami_vs_{name}"] = ratio(found["rami"], found[name])
    for name, slices in found.items():
        report.absolute[f"engines.{name}_moves_per_s"] = rate(slices)
    return report


def ours(name: str) -> Play:
    """Random play of one of our engines."""
    game: Any = engine(name)
    numbers = iter(range(2**31))

    def play(rng: random.Random) -> int:
        chance = SeedChance(next(numbers).to_bytes(32, "big"))
        state = opening(name, SEATS[name])
        for event in game.decide(state, Start(), chance):
            state = game.evolve(state, event)
        moves = 0
        while not game.is_over(state):
            seat = game.to_act(state)[0]
            move = rng.choice(game.legal(state, seat))
            for event in game.decide(state, Act(seat, move), chance):
                state = game.evolve(state, event)
            moves += 1
        return moves

    return play


async def _slice(
    play: Play, rng: random.Random, seconds: float, tell: Callable[[str], None], name: str
) -> Slice:
    tell(name)
    began = time.perf_counter()
    moves = 0
    while not moves or time.perf_counter() - began < seconds:
        moves += play(rng)
    return Slice(moves, time.perf_counter() - began)
