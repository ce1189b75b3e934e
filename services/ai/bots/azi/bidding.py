"""Azi's bidding by counting: what a chance of winning is worth paying for, and how to say so.

Chances are between 0 and 1, prices and pots in chips; positions and moves are a core's. So bid the
lower levels, and so bid some of the players that the highest one has learned against.
"""

from engines.azi.codes import ALL_IN, BID, FOLD, LEVEL
from engines.azi.core import Core
from engines.azi.model import BIDS_MAX
from services.ai.bots.azi import showdown

EDGE = 0.22
"""So much more than its equal part a normal bot's hand must win to raise."""


def by_trumps(core: Core, seat: int, trumps: int, high_card: bool) -> int:
    """An easy bot's bid: two trumps raise, one stays, a high card stays once."""
    if trumps > 1 and (bid := raised(core, seat, 1)):
        return bid
    return stay(core, seat, float(bool(trumps or (high_card and not core.levels[seat]))))


def by_odds(core: Core, seat: int, chance: float) -> int:
    """A normal bot's bid: the hand's chance against the price, and a raise for a good one."""
    good = chance > 1 / core.live.bit_count() + EDGE
    return (good and raised(core, seat, core.options.min_bet)) or stay(core, seat, chance)


def stay(core: Core, seat: int, chance: float) -> int:
    """Level or go all in if the chance is worth the price, else fold; open where that is due."""
    wanted = core.high or core.options.min_bet
    if core.reach(seat) < wanted:
        won, price = part_for_all(core, seat)
        return ALL_IN if chance * won >= price else FOLD
    if not core.high:
        return BID + wanted
    price = cost(core, seat)
    return LEVEL if chance * (core.bank + price) >= price else FOLD


def cost(core: Core, seat: int) -> int:
    """Chips to come up to the highest bid (AZI-15; blind AZI-42); 0 while there is none."""
    missing = core.high - core.levels[seat] if core.high else 0
    return missing + 1 >> 1 if core.blind >> seat & 1 else missing


def raised(core: Core, seat: int, step: int) -> int:
    """A bid of so much above the highest, or as near as may be; 0 if none may be."""
    least = core.high + 1 if core.high else core.options.min_bet
    most = core.reach(seat)
    if core.bids[seat] >= BIDS_MAX or most < least:
        return 0
    return BID + min(max(core.high + step, least), most)


def part_for_all(core: Core, seat: int) -> tuple[float, int]:
    """Chips won by a short winner who goes all in now (AZI-32), and what it costs."""
    price = core.stacks[seat]
    weight = core.weights[seat] + (2 * price if core.blind >> seat & 1 else price)
    own = core.contributed[seat] + core.bought[seat]
    part = weight / max(weight, *core.weights, 1)
    return own + price + (core.bank - own) * part, price


def buys_back(core: Core, seat: int) -> bool:
    """Whether the bank, with the price in it, is worth the price (AZI-39).

    Everybody dealt in is reckoned to win it equally often. Without buying back a seat may still be
    returned a part, if a short seat wins (AZI-33).
    """
    others = [s for s in range(core.seats) if core.live >> s & 1]
    kept = showdown.expected(core, others)[seat] if others else 0.0
    bought = core.clone()
    bought.bought[seat] += core.price
    bought.bank += core.price
    return showdown.expected(bought, [*others, seat])[seat] - core.price > kept
