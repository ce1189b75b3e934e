"""Matches between bots on duplicate deals: the same cards from every seat.

Side A sits on one seat, B on all others, and each deal is played once with A on every seat, so that
the luck of the cards cancels out. The unit is a deal, scored as the mean over its seats; intervals
are 95 % of the mean over deals. Decks follow from the seed and the deal alone, the chances of the
players from the seed, the deal, the seats and the turn: equal matches have equal games, as long as
the players think in worlds and not in milliseconds.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from math import sqrt
from multiprocessing import get_context
from random import Random
from statistics import fmean, stdev
from typing import Any

from engines import azi, durak, rami
from engines.api import Act, Start
from services.ai.bots import Budget, Level, choose
from services.cli.deals import SeedChance

STACK_FEES = 50
"""Chips of every seat at the start of a deal of Azi, in entry fees."""
MATCH_POINTS = 100
"""Points that win a match of Rami."""
RESAMPLED = 4_000
"""Matches of Rami put together from the rounds of a run."""
MOVES_MAX = 20_000
"""No game is longer (a whole one of six bots has some hundreds)."""
CHUNKS = 40
"""In how many parts a match is played, so that its progress can be told."""
DUEL = 2
"""Seats between which a null of Durak counts half; among more it has no loser."""
SEATS = {"azi": azi.SEATS, "durak": durak.SEATS, "rami": rami.SEATS}
ENGINES: dict[str, Any] = {"azi": azi, "durak": durak, "rami": rami}

Player = Callable[[str, Any, Sequence[Any], Random], Any]
"""A player: from the game's name, the seat's view and history and a source of chance to a move.

Known by its module's name, or a `functools.partial` of what is, so that it gets into processes.
"""


def bot(
    level: Level, budget: Budget, game: str, view: Any, history: Sequence[Any], rng: Random
) -> Any:
    """A bot of a level; `partial(bot, level, budget)` is a player."""
    return choose(game, view, history, level, rng, budget).move


@dataclass(frozen=True, slots=True)
class Match:
    """A match: `a` on one seat against `b` on all others, from a seed."""

    game: str
    a: Player
    b: Player
    seats: int
    seed: int


@dataclass(frozen=True, slots=True)
class Played:
    """What deals brought to side A.

    `scores` has one number a deal; `rounds`, of Rami, the points of A and those of all others in
    each game; `times` the milliseconds of CPU of each of A's decisions that was not forced;
    `undecided` how many games nobody lost or won.
    """

    scores: list[float] = field(default_factory=list)
    rounds: list[tuple[int, int]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    undecided: int = 0

    def __add__(self, other: "Played") -> "Played":
        return Played(
            self.scores + other.scores,
            self.rounds + other.rounds,
            self.times + other.times,
            self.undecided + other.undecided,
        )

    @property
    def score(self) -> float:
        """The mean score of a deal."""
        return fmean(self.scores)

    @property
    def ci95(self) -> tuple[float, float]:
        """The ends of its interval."""
        return interval(self.scores)

    def ms(self, part: float) -> float:
        """The milliseconds of CPU within which this part of A's decisions was made."""
        times = sorted(self.times)
        return times[min(int(part * len(times)), len(times) - 1)] if times else 0.0

    @property
    def margins(self) -> list[float]:
        """Of Rami, by deal, the points a round A won less those it lost to the others."""
        games = len(self.rounds) // len(self.scores)
        margins = [won - lost for won, lost in self.rounds]
        return [fmean(margins[at : at + games]) for at in range(0, len(margins), games)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of independent values."""
    mean = fmean(values)
    margin = 1.96 * stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return mean - margin, mean + margin


def play(match: Match, deals: range, tell: Callable[[int], None], processes: int) -> Played:
    """The whole match; `tell` hears of every part how many deals it had.

    Durak: the share of games in which A is not the durak; a null counts half, between two.
    Rami: the share of rounds A wins. Azi: the entry fees A wins a deal.
    """
    size = max(1, len(deals) // CHUNKS)
    parts = [deals[at : at + size] for at in range(0, len(deals), size)]
    if processes == 1:
        results = {part: _told(play_deals(match, part), len(part), tell) for part in parts}
    else:
        results = {}
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            asked = {pool.submit(play_deals, match, part): part for part in parts}
            for done in as_completed(asked):
                results[asked[done]] = _told(done.result(), len(asked[done]), tell)
    return reduce(Played.__add__, (results[part] for part in parts))


def play_deals(match: Match, deals: range) -> Played:
    """These deals, each from every seat."""
    played = Played()
    for deal in deals:
        played += _play_deal(match, deal)
    return played


def matches_won(rounds: Sequence[tuple[int, int]], rng: Random) -> float:
    """The share of matches to 100 that rounds like these win, by resampling (RAMI-27)."""
    won = 0
    if not any(mine or others for mine, others in rounds):
        return 0.5
    for _ in range(RESAMPLED):
        mine = others = 0
        while max(mine, others) < MATCH_POINTS:
            gained, lost = rng.choice(rounds)
            mine, others = mine + gained, others + lost
        won += mine >= MATCH_POINTS
    return won / RESAMPLED


def _told(played: Played, deals: int, tell: Callable[[int], None]) -> Played:
    tell(deals)
    return played


def _play_deal(match: Match, deal: int) -> Played:
    played, scores, drawn = Played(), [], 0
    for seat in range(match.seats):
        players = [match.b] * match.seats
        players[seat] = match.a
        scored = _play_game(match, deal, seat, players, played.times)
        scores.append(_score(scored, seat, played.rounds))
        drawn += isinstance(scored, durak.State) and scored.null
    played.scores.append(fmean(scores))
    return Played(played.scores, played.rounds, played.times, drawn)


def _play_game(
    match: Match, deal: int, own: int, players: Sequence[Player], times: list[float]
) -> Any:
    """The state at the end of one game, or how its round was scored in Rami.

    The times of seat `own` are added to `times`.
    """
    engine = ENGINES[match.game]
    chance = SeedChance(sha256(f"deal/{match.seed}/{deal}".encode()).digest())
    state = _table(match.game, match.seats, deal)
    shown: list[list[Any]] = [[] for _ in players]
    command: Any = Start()
    for _ in range(MOVES_MAX):
        for event in engine.decide(state, command, chance):
            if isinstance(event, rami.RoundScored):
                return event
            state = engine.evolve(state, event)
            for seat in range(match.seats):
                shown[seat] += engine.history((event,), seat)
        if engine.is_over(state):
            return state
        seat = engine.to_act(state)[0]
        rng = Random(f"{match.seed}/{deal}/{own}/{seat}/{state.turn}")  # noqa: S311 - a match
        view = engine.view(state, seat)
        began = time.thread_time_ns()
        move = players[seat](match.game, view, shown[seat], rng)
        if seat == own and len(view.legal) > 1:
            times.append((time.thread_time_ns() - began) / 1e6)
        command = Act(seat, move)
    raise AssertionError(f"{match.game}, seed {match.seed}, deal {deal}: not over")


def _table(game: str, seats: int, deal: int) -> Any:
    match game:
        case "azi":
            stacks = (STACK_FEES,) * seats
            return azi.initial(azi.Options(), seats, stacks=stacks, last_winner=deal % seats)
        case "durak":
            return durak.initial(durak.Options(), seats)
        case _:
            return rami.initial(rami.Options(), seats)


def _score(ended: Any, seat: int, rounds: list[tuple[int, int]]) -> float:
    match ended:
        case azi.State():
            return float(ended.players[seat].stack - STACK_FEES)
        case durak.State(null=True):
            return 0.5 if ended.seats == DUEL else 1.0
        case durak.State():
            return float(ended.durak != seat)
        case _:
            mine = ended.gains[seat]
            rounds.append((mine, sum(ended.gains) - mine))
            return float(ended.winner == seat)
