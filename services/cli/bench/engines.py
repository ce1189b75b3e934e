"""`engines`: random moves a second of CPU of each engine, by its decider and by its core, and the
cores beside games of two libraries.

A decider's move is decided and folded, as in a game that is stored; a core's, like the peers', is
applied to a mutable position. Everywhere all legal moves are listed, one of them is drawn, and the
games are played to their end. Rami stands beside gin rummy and Durak beside hearts: neither
library has these games. RLCard is driven through its environment, as its users do; its bare game
is told as an absolute number.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from engines.api import Act, Start
from services.cli.bench import cores, peers
from services.cli.bench.cores import Play
from services.cli.bench.measuring import Effort, Report, Side, Slice, interleaved, rate, ratio
from services.cli.deals import SeedChance
from services.cli.variants import opening
from services.client.variants import GAMES, engine

NAME = "engines"
SECONDS = 1.0
SEATS = {"azi": 3, "durak": 4, "rami": 2}
RIVALS: dict[str, Callable[[], Play]] = {
    "rlcard": peers.rlcard_game,
    "rlcard_core": peers.rlcard_core,
    "openspiel": partial(peers.openspiel_game, "gin_rummy"),
    "openspiel_hearts": partial(peers.openspiel_game, "hearts"),
}
COMPARED = (
    ("rami", "rlcard"),
    ("rami", "openspiel"),
    ("durak", "openspiel_hearts"),
)
"""Which core stands beside which peer."""
CORES = {"azi": cores.azi_core, "durak": cores.durak_core, "rami": cores.rami_core}


async def measure(effort: Effort, tell: Callable[[str], None]) -> Report:
    """All of the engines' numbers."""
    report = Report(NAME)
    plays: dict[str, Play] = {name: ours(name) for name in GAMES}
    plays |= {f"{name}_core": core(SEATS[name]) for name, core in CORES.items()}
    for name, rival in RIVALS.items():
        try:
            plays[name] = rival()
        except peers.Missing as missing:
            report.skipped[name] = str(missing)
    # Moves are chosen at random for measuring only; the decks are shuffled as in play.
    rng = random.Random(1)  # noqa: S311
    seconds = effort.slice(SECONDS)
    sides: dict[str, Side] = {
        name: partial(_slice, play, rng, seconds, tell, name) for name, play in plays.items()
    }
    found = await interleaved(sides, effort.rounds)
    for name, peer in COMPARED:
        if peer in found:
            report.ratios[f"engines.{name}_vs_{peer}"] = ratio(found[f"{name}_core"], found[peer])
    for name, slices in found.items():
        report.absolute[f"engines.{name}_moves_per_s"] = rate(slices)
    return report


def ours(name: str) -> Play:
    """Random play of one of our deciders."""
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
    """So much CPU time of this process; what else the machine does is not counted."""
    tell(name)
    began = time.process_time()
    moves = 0
    while not moves or time.process_time() - began < seconds:
        moves += play(rng)
    return Slice(moves, time.process_time() - began)
