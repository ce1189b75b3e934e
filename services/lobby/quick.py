"""Quick play: a seat at a table that fits, or a table of one's own."""

from uuid import UUID

from services.kernel.errors import Kind, Refused
from services.lobby.bots import bot_id
from services.lobby.choices import Choices
from services.lobby.commands import Bot, Open, TakeSeat
from services.lobby.evolve import rules_of, tag_of_variant
from services.lobby.model import BotLevel, Phase, Rules, Table
from services.lobby.tables import Found, Request, Tables
from services.runtime.moments import new_id
from services.runtime.store.api import Store

TRIES_MAX = 5
"""How many tables with a free seat are tried before one is opened."""


class QuickPlay:
    """Finds a table by its rules: the same request always ends at the same table.

    The table chosen is written down before sitting down there. Whoever carries out the same
    request, now or after a crash, first tries the table that stands chosen, and only what that
    table refused is chosen anew.
    """

    def __init__(self, tables: Tables, store: Store, choices: Choices) -> None:
        self._tables = tables
        self._store = store
        self._choices = choices

    async def play(
        self, player: UUID, rules: Rules, level: BotLevel, request: Request, *, any_seats: bool
    ) -> Found:
        """A seat, ready, at a table that plays by `rules` (of any size with `any_seats`).

        With a `level`, at a table of one's own that bots of this level fill.
        """
        async with self._tables.seating(player):
            return await self._play(player, rules, level, request, any_seats=any_seats)

    async def _play(
        self, player: UUID, rules: Rules, level: BotLevel, request: Request, *, any_seats: bool
    ) -> Found:
        own = level is not BotLevel.PERSON
        chosen = await self._choices.find(request.key)
        if chosen is None:
            await self._tables.require_room(player)
            candidates = [] if own else await self._candidates(player, rules, any_seats)
            chosen = await self._choices.choose(request.key, next(iter(candidates), new_id()))
        tried: set[UUID] = set()
        while True:
            try:
                return Found(chosen, await self._sit(chosen, player, rules, level, request))
            except Refused as refused:
                if refused.kind not in {Kind.PRECONDITION, Kind.NOT_FOUND} or chosen in tried:
                    raise
                if await self._store.head(chosen) is None:
                    raise  # he was to open it: what one of his own refuses, the next one would too
            tried.add(chosen)
            others = await self._candidates(player, rules, any_seats)
            fresh = [table for table in others if table not in tried]
            other = fresh[0] if fresh and not own and len(tried) < TRIES_MAX else new_id()
            chosen = await self._choices.choose(request.key, other, instead_of=chosen)

    async def _sit(
        self, table_id: UUID, player: UUID, rules: Rules, level: BotLevel, request: Request
    ) -> Table:
        if await self._store.head(table_id) is not None:
            seat = TakeSeat(player, None, 0, "", new_id(), ready=True)
            return await self._tables.act(table_id, seat, request)
        bots: tuple[Bot, ...] = ()
        if level is not BotLevel.PERSON:
            ids = (bot_id(table_id, request.key, n) for n in range(1, rules.seats))
            bots = tuple(Bot(bot, level) for bot in ids)
            await self._tables.name_bots(Table(), list(bots))
        opened = Open(player, rules, rules.buy_in_min, new_id(), bots, ready=True)
        return await self._tables.act(table_id, opened, request)

    async def _candidates(self, player: UUID, rules: Rules, any_seats: bool) -> list[UUID]:
        return [
            found.table_id
            async for found in self._tables.scan(tag_of_variant(rules.variant.name))
            if _fits(found.table, player, rules, any_seats)
        ]


def _fits(table: Table, player: UUID, rules: Rules, any_seats: bool) -> bool:
    """Whether the player may sit there and wait for nobody but other newcomers."""
    offered = rules_of(table)
    return (
        table.phase is Phase.WAITING
        and bool(table.free())
        and table.seat_of(player) is None
        and all(seat.ready for _, seat in table.taken())
        and offered.options == rules.options
        and (offered.buy_in_min, offered.buy_in_max) == (rules.buy_in_min, rules.buy_in_max)
        and (any_seats or offered.seats == rules.seats)
    )
