"""A decision of Azi's bidding as the table of strategies knows it: by ratios, not by chips.

What counts is how many seats are live, what the bank asks for and offers, how deep the stacks
still are, how often was raised and who is still to answer. Seats and amounts are a core's.
"""

from collections.abc import Sequence
from enum import IntEnum

from engines.azi.codes import ALL_IN, BID, FOLD, LEVEL, LOOK
from engines.azi.core import Core
from engines.azi.model import BIDS_MAX
from services.ai.bots.azi.bidding import cost, part_for_all


class Act(IntEnum):
    """The acts a strategy mixes; from `LEAST` on they are bids of growing size."""

    FOLD = 0
    STAY = 1
    """Level, or all in of a seat that is short."""
    LOOK = 2
    LEAST = 3
    HALF = 4
    BANK = 5
    ALL = 6


ACTS = len(Act)
SIZES = ((int(Act.HALF), 0.6), (int(Act.BANK), 1.3))
"""Bids between the least and everything, as parts of the bank after levelling."""
ALMOST_ALL = 0.7
"""A bid of more than this part of what the seat can reach is not told from everything."""
PRICES = (0.12, 0.2, 0.27, 0.34, 0.42)
"""Bounds of the price of staying as a part of the bank it then makes (pot odds)."""
DEPTHS = (0.0, 0.6, 1.8, 6.0)
"""Bounds of what can still be bid above the high, as a part of the bank after levelling."""
DEEP = 1.8
"""Above this depth nobody bids everything."""
MANY = 4
"""So many live seats or more are alike."""
OFTEN = 3
"""So many highest bids or more are alike."""


def acts(core: Core, seat: int) -> list[tuple[int, int]]:
    """What the seat asked in the bidding may do: acts, and for each the core's move."""
    high, most = core.high, core.reach(seat)
    found = [(int(Act.LOOK), LOOK)] if core.blind >> seat & 1 else []
    least = core.options.min_bet
    if high:
        found += [(int(Act.FOLD), FOLD), (int(Act.STAY), LEVEL if most >= high else ALL_IN)]
        least = high + 1
    elif most < least:
        found += [(int(Act.FOLD), FOLD), (int(Act.STAY), ALL_IN)]
    if most >= least and core.bids[seat] < BIDS_MAX:
        found += _bids(core, seat, most)
    return found


def _bids(core: Core, seat: int, most: int) -> list[tuple[int, int]]:
    found, high, pot = [], core.high, core.bank + cost(core, seat)
    last = high + core.options.min_bet
    almost = high + ALMOST_ALL * (most - high)
    if last < almost:
        found.append((int(Act.LEAST), BID + last))
    for act, part in SIZES:
        amount = high + int(part * pot + 0.5)
        if last < amount < almost:
            found.append((act, BID + amount))
            last = amount
    if depth(core, seat, pot) <= DEEP or not found:
        found.append((int(Act.ALL), BID + most))
    return found


def depth(core: Core, seat: int, pot: int) -> float:
    """What can still be bid above the high against somebody, as a part of the bank."""
    able = core.live & ~core.short
    reached = [core.reach(s) for s in range(core.seats) if able >> s & 1 and s != seat]
    most = min(core.reach(seat), max(reached, default=0))
    return max(0, most - core.high) / max(pot, 1)


def key(core: Core, seat: int) -> int:
    """The number of the seat's situation; equal ones are played alike."""
    high, bank = core.high, core.bank
    price = cost(core, seat)
    won = bank + price
    if price > core.stacks[seat]:
        part, price = part_for_all(core, seat)
        won = int(part)
    pressure = 0 if not high else 1 + _place(price / max(won, 1), PRICES)
    deep = _place(depth(core, seat, bank + price), DEPTHS) if core.bids[seat] < BIDS_MAX else 0
    raises = min(sum(core.bids), OFTEN)
    able = core.live & ~core.short & ~(1 << seat)
    behind = any(able >> s & 1 and core.levels[s] < high for s in range(core.seats))
    dark = core.high_seat >= 0 and core.blind >> core.high_seat & 1
    found = min(core.live.bit_count(), MANY) - 2
    found = found * (len(PRICES) + 2) + pressure
    found = found * (len(DEPTHS) + 1) + deep
    found = found * (OFTEN + 1) + raises
    found = found * 2 + (core.bids[seat] > 0)
    found = found * 2 + behind
    return found * 2 + dark


def _place(value: float, bounds: Sequence[float]) -> int:
    """How many of the bounds the value is above."""
    place = 0
    for bound in bounds:
        if value <= bound:
            break
        place += 1
    return place
