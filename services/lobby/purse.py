"""The chips a player brings to tables: what his seats claim, and what his account holds.

A stack is a number until a game starts, which reserves it. So before a seat is taken or a stack
grows, all that the player's seats claim and no game holds yet must be in his account; his seats are
taken one after the other, at whatever replica (`seatings.py`). The last judge is a start: it
reserves each stack or does not begin.
"""

from collections.abc import AsyncIterator
from uuid import UUID

from services.kernel.errors import precondition
from services.lobby.accounts import Accounts
from services.lobby.evolve import INSUFFICIENT_CHIPS
from services.lobby.model import Phase, Table


def claimed(table: Table, player: UUID) -> int:
    """The chips that the player's seat claims and that no game holds.

    While a game is starting they may be held already; then they are counted all the same.
    """
    number = table.seat_of(player)
    seat = table.seats[number] if number is not None else None
    if seat is None or table.rules is None or not table.rules.entry_fee:
        return 0
    return 0 if table.phase is Phase.PLAYING and number in table.playing else seat.stack


async def require_chips(
    accounts: Accounts, player: UUID, tables: AsyncIterator[Table], more: int
) -> None:
    """Raise Refused INSUFFICIENT_CHIPS unless the account holds what the player's seats at these
    tables claim, and `more` chips; UNAVAILABLE when the wallet is away."""
    chips = more
    async for table in tables:
        chips += claimed(table, player)
    balance = await accounts.balance(player)
    if chips > balance:
        raise precondition(
            INSUFFICIENT_CHIPS,
            "the account does not hold what the player's seats claim",
            chips=str(chips),
            balance=str(balance),
        )
