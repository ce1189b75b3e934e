"""`kozyr bench`: how fast things are on this machine."""

import argparse
import random
import time
from typing import Any

from engines.api import Act, Start
from services.cli.deals import SeedChance
from services.cli.outcome import FINE
from services.cli.terminal import command, emit, progress, show
from services.cli.variants import GAMES, engine, opening


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "bench",
        "Measure random play: moves a second of each engine, every move decided and folded.",
        "kozyr bench engines --seconds 2",
    )
    made.add_argument("what", nargs="?", choices=("engines",), default="engines")
    made.add_argument("--seconds", type=float, default=3.0, help="time for each engine (3)")
    made.add_argument("--json", action="store_true", help="one JSON object an engine")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Play at random with each engine for the time given."""
    with progress("engines") as tell:
        for name in GAMES:
            tell(name)
            seats = 3 if name == "azi" else 4
            games, moves, seconds = _play(name, seats, arguments.seconds)
            if arguments.json:
                measured = {"games": games, "moves": moves, "seconds": round(seconds, 3)}
                emit({"engine": name, "seats": seats, **measured})
            else:
                rate = f"{moves / seconds:>9,.0f} moves/s"
                show([f"{name:<6} {seats} seats {rate}  ({games} games, {moves} moves)"])
    return FINE


def _play(name: str, seats: int, limit: float) -> tuple[int, int, float]:
    game: Any = engine(name)
    # Moves are chosen at random for measuring only; the decks are shuffled as in play.
    rng = random.Random(1)  # noqa: S311
    games = moves = 0
    began = time.perf_counter()
    while (spent := time.perf_counter() - began) < limit:
        moves += _game(game, name, seats, games, rng)
        games += 1
    return games, moves, spent


def _game(game: Any, name: str, seats: int, number: int, rng: random.Random) -> int:
    chance = SeedChance(number.to_bytes(32, "big"))
    state = opening(name, seats)
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
