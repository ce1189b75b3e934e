"""What a core's moves and stages are written as."""

from enum import IntEnum

from engines.azi.model import PACK

FOLD, LEVEL, ALL_IN, LOOK, DROP_LAST, BUY_BACK, DECLINE = range(-1, -8, -1)
BID = 1 << len(PACK)
"""Plus the amount: open or raise."""
NOBODY = -1
"""No seat."""


class Stage(IntEnum):
    """What a core waits for."""

    OPENER = 1
    """`open_from`: the opener of the next deal has to be drawn (AZI-11)."""
    DEAL = 2
    """`deal`: the cards of the next deal."""
    DROPPING = 3
    BIDDING = 4
    TRICKS = 5
    BUYING_BACK = 6
    OVER = 7
