"""A search over worlds: one tree of what everybody sees, grown in a new world each time.

Information-set Monte Carlo tree search with a single observer. A move's value is what its mover
got in the worlds in which it was possible; what is not in the tree yet is played out by the rule.
Other seats are taken to play by the rule part of the time and as well as the tree knows otherwise.
"""

from dataclasses import dataclass, field
from math import log, sqrt
from random import Random

from engines.bits import members
from engines.durak.core import Core
from services.ai.bots.budget import Meter
from services.ai.bots.durak.playouts import DUEL, playout, rule
from services.ai.bots.durak.worlds import Unknown

EXPLORING = 0.7
"""How much the search tries what looks worse."""
NULL = 0.5
"""What a null is worth between two; among more it is no loss."""


@dataclass(slots=True)
class Branch:
    """A move in the tree: how often it was tried, what its mover won with it, how often it could
    have been tried, and the moves that follow."""

    tries: int = 0
    won: float = 0.0
    possible: int = 1
    below: "dict[int, Branch]" = field(default_factory=dict)


Tree = dict[int, Branch]
"""The moves of a position as everybody sees it."""


def grown(
    unknown: Unknown, moves: int, mix: float, rng: Random, meter: Meter, cost: int = 1
) -> Tree:
    """The tree after all the worlds the meter allows, and one at least; each counts for `cost`.

    `moves` are those of the seat to act that are looked at; `mix` is how much of the time the other
    seats play by the rule.
    """
    tree: Tree = {}
    done = 0
    while not tree or meter.allows(done):
        _grow(tree, unknown.world(rng), moves, mix, rng)
        done += cost
    return tree


def _grow(tree: Tree, core: Core, legal: int, mix: float, rng: Random) -> None:
    """Go down the tree in this world, add one move to it, and play the rest out."""
    own, draw = core.seat, rng.random
    path: list[tuple[Branch, int]] = []
    fresh = False
    while core.seat >= 0 and not fresh:
        seat = core.seat
        if seat != own and draw() < mix:
            move = rule(core)
            branch = tree.get(move)
        else:
            move, branch = _best(tree, members(legal))
            if branch is None and (plain := rule(core)) not in tree and plain & legal:
                move = plain
        if branch is None:
            fresh = True
            branch = tree[move] = Branch()
        path.append((branch, seat))
        core.apply(move)
        tree = branch.below
        if core.seat >= 0:
            legal = core.moves()
    durak = playout(core)
    null = NULL if core.seats == DUEL else 1.0
    for branch, seat in path:
        branch.tries += 1
        if durak < 0:
            branch.won += null
        elif durak != seat:
            branch.won += 1.0


def _best(tree: Tree, moves: list[int]) -> tuple[int, Branch | None]:
    """The move to try: one that was not yet, or what won most and was seldom tried for how often
    it could have been."""
    best, most, found = 0, -1.0, None
    for move in moves:
        branch = tree.get(move)
        if branch is None:
            return move, None
        possible = branch.possible = branch.possible + 1
        tries = branch.tries
        worth = branch.won / tries + EXPLORING * sqrt(log(possible) / tries)
        if worth > most:
            best, most, found = move, worth, branch
    return best, found
