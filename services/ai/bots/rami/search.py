"""Rami's hard bot: ways to go on are tried out in many worlds, the same for all of them.

Batch by batch, those that are clearly worse are dropped. The move of the seat's own policy stands
unless another is ahead by more than chance explains.
"""

from collections.abc import Sequence
from math import sqrt
from random import Random
from typing import assert_never

from engines.cards import text
from engines.rami import Discard, DrawDiscard, DrawStock, Happening, LayOff, Meld, Move, View
from services.ai.bots.budget import Budget
from services.ai.bots.choice import Choice
from services.ai.bots.rami.trial import TURNS, Trial, usual
from services.ai.bots.rami.ways import Way, ways
from services.ai.bots.rami.worlds import decks, hidden

USUAL_WORLDS = 1_600
"""Worlds of a decision, within its 80 ms of CPU on average."""
LANES = (2_000, 3_600)
"""Rounds of a batch: of the first one, and of later ones."""
HURRIED_LANES = (600, 1_000)
"""The same where there is so little time that a longer batch would not come to an end."""
HURRY_MS = 50.0
"""A search with less CPU time is in a hurry."""
AHEAD = 2.0
"""By so many standard errors another move must be ahead to be made."""
DROPPED = 3.0
"""A way that is so many standard errors behind is tried no further."""
FEWEST_DECKS = 4
"""Of fewer nothing is concluded."""
DECIDED = 4.0
"""With so many between the last two there is no more to find out."""
PATIENCE = 2
"""With an empty stock a bot waits so many rounds of turns for something better."""


def choose(view: View, history: Sequence[Happening], rng: Random, budget: Budget) -> Choice[Move]:
    """A legal move for the seat whose view this is."""
    if not view.stock and view.drawn is None and view.idle > PATIENCE * len(view.counts):
        return _explained(DrawStock(), searched=False)
    each = ways(view)
    own = usual(view)
    if len({way.move for way in each}) == 1 or all(way.move != own for way in each):
        return _explained(each[0].move, searched=False)
    return _explained(_search(view, history, each, own, rng, budget), searched=True)


def _search(
    view: View,
    history: Sequence[Happening],
    each: Sequence[Way],
    own: Move,
    rng: Random,
    budget: Budget,
) -> Move:
    meter, open_ = budget.begin(USUAL_WORLDS), hidden(view)
    most = USUAL_WORLDS if budget.worlds is None else budget.worlds
    gained: dict[Way, list[float]] = {way: [] for way in each}
    hurried = budget.cpu_ms is not None and budget.cpu_ms < HURRY_MS
    lanes, more = HURRIED_LANES if hurried else LANES
    done = 0
    while meter.allows(done):
        number = max(1, min(lanes // len(each), most - done) // TURNS)
        trial = Trial(view, open_, each, decks(view, history, open_, number, rng))
        found = trial.gains(lambda: meter.allows(0))
        if found is None:
            break
        for way, gains in zip(each, found, strict=True):
            gained[way] += gains
        done, lanes = done + number * TURNS, more
        best, stays = _leaders(gained, each, own)
        each = [w for w in each if w in (best, stays) or _lead(gained, best, w) < DROPPED]
        if all(way.move == own for way in each):
            return own
        if len(each) == 2 and _lead(gained, best, stays) > DECIDED:
            break
    best, stays = _leaders(gained, each, own)
    return best.move if _lead(gained, best, stays) > AHEAD else own


def _leaders(gained: dict[Way, list[float]], each: Sequence[Way], own: Move) -> tuple[Way, Way]:
    """The best way, and the best of those that begin with the own move."""
    ranked = sorted(each, key=lambda way: sum(gained[way]), reverse=True)
    return ranked[0], next(way for way in ranked if way.move == own)


def _lead(gained: dict[Way, list[float]], one: Way, other: Way) -> float:
    """By how many standard errors one way is ahead of another."""
    apart = [x - y for x, y in zip(gained[one], gained[other], strict=True)]
    if len(apart) < FEWEST_DECKS or not any(apart):
        return 0.0
    mean = sum(apart) / len(apart)
    spread = sum(x * x for x in apart) / len(apart) - mean * mean
    return mean / sqrt(spread / len(apart)) if spread > 0 else DECIDED + 1


def _explained(move: Move, *, searched: bool) -> Choice[Move]:
    return Choice(move, _reason(move, searched=searched))


def _reason(move: Move, *, searched: bool) -> str:
    match move:
        case DrawStock():
            return "An unseen card promises more than the one on the pile."
        case DrawDiscard():
            return "The card on the pile is worth more to me than an unseen one."
        case Meld(cards):
            return f"Lay {' '.join(map(text, cards))} before it costs points."
        case LayOff(cards):
            return f"Add {' '.join(map(text, cards))} to a meld on the table."
        case Discard(card) if searched:
            return f"{text(card)} costs me least in the hands others may hold."
        case Discard(card):
            return f"{text(card)} is worth the least to me."
        case _:
            assert_never(move)
