"""A card of Azi by trying every one out on hands the others may hold, each played out exactly."""

from collections.abc import Sequence
from random import Random

from engines.azi import Happening, PlayCard, View, strength
from engines.azi.core import Core
from engines.azi.masks import BIT
from engines.cards import Card
from services.ai.bots.azi import reading, showdown
from services.ai.bots.azi.solving import Solver, Worth
from services.ai.bots.azi.worlds import Likely, Worlds
from services.ai.bots.budget import Budget

USUAL = {1: 1, 2: 1_200, 3: 600, 4: 250, 5: 80, 6: 30}
"""By seats at the tricks, on how many worlds a card is tried out in less than 80 ms."""


def best_card(
    view: View, history: Sequence[Happening], likely: Likely, rng: Random, budget: Budget
) -> Card:
    """The card that brings most chips on average over sampled worlds."""
    cards = [move.card for move in view.legal if isinstance(move, PlayCard)]
    core = reading.core(view, history)
    own = core.seat
    seats = [seat for seat in range(core.seats) if core.live >> seat & 1]
    place, taken = seats.index(own), [core.taken[seat] for seat in seats]
    solver = Solver(core.trumps, core.taking, worth(core, seats), place)
    # The best card of a seat that has left counts as the own one's: it leads no more (AZI-48).
    best_place = seats.index(core.best_seat) if core.best_seat in seats else place
    trick = (core.led, core.best, best_place, core.waiting.bit_count() - 1)
    worlds, totals = Worlds(view, likely), [0.0] * len(cards)
    bits = [BIT[card] for card in cards]
    done, meter = 0, budget.begin(USUAL[len(seats)])
    while not done or meter.allows(done):
        done += 1
        held = worlds.drawn(rng)
        if held is None:
            break
        held[own] = core.hands[own]
        dealt = [held[seat] for seat in seats]
        for at, card in enumerate(bits):
            totals[at] += solver.played(dealt, taken, trick, card)[place]
    turned = view.turned or cards[0]
    ranked = zip(totals, cards, strict=True)
    return max(ranked, key=lambda each: (each[0], -strength(each[1], turned), -each[1]))[1]


def worth(core: Core, seats: Sequence[int]) -> Worth:
    """The chips each of these seats has in the end, by who of them wins; last after an azi."""
    rows = [showdown.paid(core, seat) for seat in seats]
    rows.append(showdown.expected(core, seats))
    return [[row[seat] for seat in seats] for row in rows]
