"""Whether a player's limits and running games let him do what would bring him into another."""

from uuid import UUID

from services.kernel.errors import Refused
from services.lobby.commands import Command, Open, Rematch, SetReady, TakeSeat, TopUp
from services.lobby.evolve import rules_of
from services.lobby.limitbook import LimitBook
from services.lobby.limits import Ask
from services.lobby.model import Event, Rules, Table
from services.lobby.stakes import Stakes
from services.runtime.store.api import Store
from services.runtime.streams import Streams


class Admission:
    """Looks at commands before they are carried out. Nothing is put aside for them: what binds is
    the start of the game (`stakes.py`)."""

    def __init__(
        self,
        streams: Streams[Table, Command, Event],
        store: Store,
        book: LimitBook,
        stakes: Stakes,
    ) -> None:
        self._streams = streams
        self._store = store
        self._book = book
        self._stakes = stakes

    async def check(self, table_id: UUID, command: Command, request_id: str) -> None:
        """Raise Refused LIMIT_REACHED or EXCLUDED, and TOO_MANY_GAMES for who would be ready for a
        game more, unless this very request was let in before."""
        match command:
            case Open(player, ready=ready) | TakeSeat(player, ready=ready):
                pass
            case SetReady(player, True) | Rematch(player):
                ready = True
            case TopUp(player):
                ready = False
            case _:
                return
        try:
            if ready:
                await self._stakes.require_room(player)
            if await self._book.limited(player):
                await self._book.require(player, await self._ask(table_id, command))
        except Refused:
            if await self._store.find_request(table_id, request_id) is None:
                raise

    async def _ask(self, table_id: UUID, command: Command) -> Ask:
        """The game that the command leads to."""
        if isinstance(command, Open):
            return _bought(command.rules, command.stack)
        table = (await self._streams.load(table_id)).state
        match command:
            case TakeSeat() if table.rules is not None:
                return _bought(rules_of(table), command.stack)
            case SetReady(player) | Rematch(player):
                return _played_on(table, player, 0)
            case TopUp(player, chips):
                return _played_on(table, player, chips)
            case _:
                return Ask()


def _bought(rules: Rules, chips: int) -> Ask:
    stack = chips or rules.buy_in_min
    return Ask(stack, stack)


def _played_on(table: Table, player: UUID, more: int) -> Ask:
    number = table.seat_of(player)
    seat = None if number is None else table.seats[number]
    return Ask() if seat is None else Ask(seat.stack + more, seat.fresh + more)
