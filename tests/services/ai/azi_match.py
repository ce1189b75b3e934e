"""Matches of Azi at any table: `tests.services.ai.match` with options and stacks.

python -m tests.services.ai.azi_match --a hard --b azi-raises --seats 3 --option deal_size=4
"""

import argparse
import json
import sys
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from random import Random
from statistics import fmean
from time import thread_time_ns

from engines import azi
from engines.api import Act, Command, Start, read_options
from services.ai.bots import Budget
from services.cli.bench.bots import LEVELS
from services.cli.bench.matches import Player, interval
from services.cli.deals import SeedChance
from tests.services.ai.match import player
from tests.services.ai.zoo import ZOO

STACK_FEES = 50
"""Chips of every seat at the start of a deal, in entry fees."""


@dataclass(frozen=True)
class Table:
    """Options, and each seat's chips by the number of the deal."""

    options: azi.Options
    seats: int
    stack_fees: int = STACK_FEES
    uneven: bool = False

    def stacks(self, deal: int) -> tuple[int, ...]:
        """All the same, or anything from a twelfth of it to all of it."""
        fee, rng = self.options.entry_fee, Random(f"stacks/{deal}")
        whole = fee * self.stack_fees
        if not self.uneven:
            return (whole,) * self.seats
        return tuple(rng.randint(max(fee, whole // 12), whole) for _ in range(self.seats))


@dataclass(frozen=True)
class Result:
    """Entry fees that A won, one number a deal, and its milliseconds a decision."""

    scores: list[float]
    times: list[float]

    @property
    def score(self) -> float:
        """The mean of a deal."""
        return fmean(self.scores)

    @property
    def ci95(self) -> tuple[float, float]:
        """The ends of its interval."""
        return interval(self.scores)

    def told(self) -> dict[str, object]:
        """The numbers as JSON has them."""
        times = sorted(self.times) or [0.0]
        return {
            "score": round(self.score, 4),
            "ci95": [round(end, 4) for end in self.ci95],
            "ms_mean": round(fmean(times), 3),
            "ms_p99": round(times[int(0.99 * len(times))], 3),
        }


def match(table: Table, a: Player, b: Player, deals: range, seed: int = 0) -> Result:
    """`a` on every seat of each deal in turn, `b` on all others."""
    result = Result([], [])
    for deal in deals:
        won = []
        for own in range(table.seats):
            players = [a if seat == own else b for seat in range(table.seats)]
            ended = _game(table, players, own, f"{seed}/{deal}", deal, result.times)
            won.append(ended.players[own].stack - table.stacks(deal)[own])
        result.scores.append(fmean(won) / table.options.entry_fee)
    return result


def _game(
    table: Table, players: list[Player], own: int, name: str, deal: int, times: list[float]
) -> azi.State:
    chance = SeedChance(sha256(name.encode()).digest())
    last = deal % table.seats
    state = azi.initial(table.options, table.seats, stacks=table.stacks(deal), last_winner=last)
    shown: list[list[azi.Happening]] = [[] for _ in players]
    command: Command[azi.Move] = Start()
    while True:
        events = azi.decide(state, command, chance)
        state = reduce(azi.evolve, events, state)
        for seat in range(table.seats):
            shown[seat] += azi.history(events, seat)
        if azi.is_over(state):
            return state
        seat = azi.to_act(state)[0]
        view, rng = azi.view(state, seat), Random(f"{name}/{own}/{seat}/{state.turn}")
        began = thread_time_ns()
        move = players[seat]("azi", view, shown[seat], rng)
        if seat == own and len(view.legal) > 1:
            times.append((thread_time_ns() - began) / 1e6)
        command = Act(seat, move)


def main() -> int:
    """Play one match and print what came of it as JSON."""
    parser = argparse.ArgumentParser(description="A match of Azi at any table.")
    parser.add_argument("--a", required=True, choices=(*LEVELS, *ZOO))
    parser.add_argument("--b", required=True, choices=(*LEVELS, *ZOO))
    parser.add_argument("--seats", type=int, default=3)
    parser.add_argument("--deals", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int)
    parser.add_argument("--stack-fees", type=int, default=STACK_FEES)
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--option", action="append", default=[], help="name=value")
    given = parser.parse_args()
    options = read_options(azi.Options, {k: _value(v) for k, v in _pairs(given.option)})
    table = Table(options, given.seats, given.stack_fees, given.uneven)
    a, b = (player(name, Budget(given.worlds)) for name in (given.a, given.b))
    result = match(table, a, b, range(given.deals), given.seed)
    sys.stdout.write(json.dumps({**vars(given), **result.told()}) + "\n")
    return 0


def _pairs(given: list[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (each.partition("=") for each in given)]


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


if __name__ == "__main__":
    sys.exit(main())
