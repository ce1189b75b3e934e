"""What the seats of Azi have of the bank when one of them wins it, short ones by their part."""

from collections.abc import Sequence

from engines.azi.bank import payouts
from engines.azi.core import Core
from engines.azi.model import Player, Standing


def paid(core: Core, winner: int) -> list[float]:
    """By seat the chips it has of the bank when this seat wins it (AZI-31 … AZI-34)."""
    found = [0.0] * core.seats
    others = sum(core.contributed) - core.contributed[winner]
    if not core.short >> winner & 1 or not others or not any(core.weights):
        found[winner] = float(core.bank)
        return found
    chips = zip(core.contributed, core.weights, core.bought, strict=True)
    players = tuple(
        Player(0, Standing.LIVE, True, contributed=paid, weight=weight, bought_back=bought)
        for paid, weight, bought in chips
    )
    for payout in payouts(players, core.bank, winner):
        found[payout.seat] += payout.chips
    return found


def expected(core: Core, seats: Sequence[int]) -> list[float]:
    """By seat the chips it has of the bank when each of these seats wins it equally often.

    So an azi is reckoned: the new fees and bids bring nobody anything on average.
    """
    rows = [paid(core, seat) for seat in seats]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]
