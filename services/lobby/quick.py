"""Quick play: a seat at a table that fits, or a table that others find."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.errors import Kind, Refused, invalid
from services.lobby.bots import bot_id
from services.lobby.choices import Choices
from services.lobby.commands import Bot, Open, SetReady, TakeSeat
from services.lobby.directory import Directory
from services.lobby.evolve import INSUFFICIENT_CHIPS, rules_of
from services.lobby.hosting import (
    BUY_IN_MAX,
    FEES_MAX,
    quick_options,
    quick_rules,
    stack_bounds,
)
from services.lobby.model import BotLevel, KickReason, Phase, Rules, Table, Variant, Wish
from services.lobby.openings import Latest, Openings, Terms
from services.lobby.seeing import kick_of
from services.lobby.tables import Found, Request, Tables
from services.lobby.variants import default_options
from services.runtime import validate
from services.runtime.moments import new_id
from services.runtime.settings import Settings
from services.runtime.store.api import Store
from services.runtime.streams import refusals

FILL_AFTER_MAX_MS = 300_000
"""The longest that a player may wait for people before bots sit down, in milliseconds."""
ELSEWHERE = (Kind.PRECONDITION, Kind.NOT_FOUND, Kind.DENIED)
"""Refusals after which another table is looked for."""
HIS_OWN = (INSUFFICIENT_CHIPS, "BEING_ERASED", "LIMIT_REACHED", "EXCLUDED", "TOO_MANY_GAMES")
"""Why a player is refused a seat anywhere."""
FEE_MAX = BUY_IN_MAX // FEES_MAX


@dataclass(frozen=True, slots=True)
class Hope:
    """What a player hopes for: a table by `rules`, of any size with `any_seats`, at an entry fee of
    `fee_min` to `fee_max` chips. `bots` of a level other than PERSON fill it after `fill_after_ms`;
    at 0 it is a table of his own, full at once."""

    rules: Rules
    any_seats: bool
    fee_min: int
    fee_max: int
    bots: BotLevel = BotLevel.PERSON
    fill_after_ms: int = 0

    @property
    def alone(self) -> bool:
        """Whether he waits for nobody."""
        return self.bots is not BotLevel.PERSON and not self.fill_after_ms

    @property
    def wish(self) -> Wish | None:
        """What he waits for besides people."""
        return Wish(self.bots, self.fill_after_ms) if self.fill_after_ms else None


def hope_of(request: pb.QuickPlayRequest, settings: Settings) -> Hope:
    """What a request hopes for; raises Refused naming the field."""
    variant = Variant(validate.choice("variant", request.variant, tuple(Variant)))
    usual: int = getattr(default_options(variant), "entry_fee", 0)
    low, high = request.entry_fee_min, request.entry_fee_max
    if not usual and (low or high):
        field = "entry_fee_min" if low else "entry_fee_max"
        raise invalid(field, "no chips are played for")
    if usual:
        validate.number("entry_fee_min", low, low=0, high=FEE_MAX)
        low = low or (min(usual, high) if high > 0 else usual)
        high = validate.number("entry_fee_max", high or low, low=low, high=FEE_MAX)
    fill = validate.number("fill_after_ms", request.fill_after_ms, low=0, high=FILL_AFTER_MAX_MS)
    if fill and not request.bots:
        raise invalid("fill_after_ms", "names no level of bots")
    rules = quick_rules(variant, request.seats, max(low, min(usual, high)), settings)
    return Hope(rules, request.seats == 0, low, high, BotLevel(request.bots), fill)


class QuickPlay:
    """Finds a table by its rules: the same request always ends at the same table.

    The table chosen is written down before sitting down there. Whoever carries out the same
    request, now or after a crash, first tries the table that stands chosen, and only what that
    table refused is chosen anew. Who waits at a table that fits already is answered with that one.
    Those who ask a process for the same game take turns: they would run for the same seats.
    """

    def __init__(
        self,
        tables: Tables,
        store: Store,
        choices: Choices,
        directory: Directory,
        openings: Openings,
    ) -> None:
        self._tables = tables
        self._store = store
        self._choices = choices
        self._directory = directory
        self._openings = openings
        self._turns = {variant: asyncio.Lock() for variant in Variant}

    async def play(self, player: UUID, hope: Hope, request: Request) -> Found:
        """A seat, ready, at a table as hoped for; raises Refused."""
        async with self._tables.seating(player):
            with refusals():
                if hope.alone:
                    return await self._play(player, hope, request)
                async with self._turns[hope.rules.variant]:
                    return await self._play(player, hope, request)

    async def _play(self, player: UUID, hope: Hope, request: Request) -> Found:
        tried: set[UUID] = set()
        chosen = await self._choices.find(request.key)
        if chosen is None or not await self._suits(chosen, hope, request):
            first = await self._next(player, hope, tried)
            chosen = await self._choices.choose(request.key, first, instead_of=chosen)
        while True:
            try:
                return Found(chosen, await self._sit(chosen, player, hope, request))
            except Refused as refused:
                elsewhere = refused.kind in ELSEWHERE and refused.reason not in HIS_OWN
                if not elsewhere or chosen in tried:
                    raise
                if await self._store.head(chosen) is None:
                    raise  # he was to open it: what one of his own refuses, the next one would too
            tried.add(chosen)
            other = await self._next(player, hope, tried)
            chosen = await self._choices.choose(request.key, other, instead_of=chosen)

    async def _suits(self, table_id: UUID, hope: Hope, request: Request) -> bool:
        """Whether a table that was chosen for this request is one for this hope, or the request was
        carried out there: one that came to no end may have been another under the same id."""
        table = await self._tables.load(table_id)
        if table.rules is not None:
            return _plays(table, hope) or await self._tables.answered(table_id, request)
        for variant in Variant:
            terms = (await self._openings.latest(variant)).terms(table_id)
            if terms is not None:
                return not hope.alone and _as_hoped(terms, hope)
        return True

    async def _next(self, player: UUID, hope: Hope, tried: set[UUID]) -> UUID:
        """Where to sit down: where he waits already, at the fullest table, or at a new one."""
        while not hope.alone:
            latest = await self._openings.latest(hope.rules.variant)
            await self._directory.fresh()
            if mine := self._waits_at(player, hope):
                return mine
            if not tried:
                await self._tables.require_room(player)
            fitting = [
                (-len(table.people()), table_id)
                for table_id, table in self._directory.newest(variant=hope.rules.variant, free=True)
                if table_id not in tried and _fits(table, player, hope)
            ]
            if fitting:
                return min(fitting)[1]
            if (coming := await self._coming(latest, hope, tried)) is not None:
                return coming
            opening = new_id()
            if await self._openings.add(latest.number + 1, opening, Terms(hope.rules, hope.bots)):
                return opening
        if not tried:
            await self._tables.require_room(player)
        return new_id()

    async def _coming(self, latest: Latest, hope: Hope, tried: set[UUID]) -> UUID | None:
        """A table that somebody is opening at this moment, or was when his process died."""
        unknown = [
            table_id
            for table_id in latest.stored
            if self._directory.find(table_id) is None
            and table_id not in tried
            and _as_hoped(latest.terms(table_id), hope)
        ]
        heads = await self._store.heads(unknown) if unknown else {}
        return next((t for t in unknown if t not in heads or not heads[t].ended), None)

    def _waits_at(self, player: UUID, hope: Hope) -> UUID | None:
        for table_id, table in self._directory.of(player):
            number = table.seat_of(player)
            seat = table.seats[number] if number is not None else None
            if seat and seat.ready and table.phase is Phase.WAITING and _plays(table, hope):
                level = seat.wish.level if seat.wish else BotLevel.PERSON
                if level is hope.bots:
                    return table_id
        return None

    async def _sit(self, table_id: UUID, player: UUID, hope: Hope, request: Request) -> Table:
        if await self._store.head(table_id) is None:
            try:
                return await self._open(table_id, player, hope, request)
            except Refused as refused:
                if refused.reason != "TABLE_EXISTS":
                    raise
        seat = TakeSeat(player, None, 0, "", new_id(), ready=True, wish=hope.wish)
        table = await self._tables.see(table_id, player)
        try:
            return await self._tables.seat(table_id, table, seat, request)
        except Refused as refused:
            if refused.reason != "ALREADY_SEATED":
                raise
        return await self._stay(table_id, player, request)

    async def _stay(self, table_id: UUID, player: UUID, request: Request) -> Table:
        """Note at the table where the player waits already that this request led there: asked again
        it sits nobody down who has left since."""
        ready = SetReady(player, ready=True, game=new_id())
        try:
            return await self._tables.act(table_id, ready, request)
        except Refused as refused:
            if refused.reason != "GAME_RUNNING":
                raise
            return await self._tables.see(table_id, player)

    async def _open(self, table_id: UUID, player: UUID, hope: Hope, request: Request) -> Table:
        """Open the table, by the terms of whoever thought of it first."""
        bots: tuple[Bot, ...] = ()
        rules = hope.rules
        if hope.alone:
            ids = (bot_id(table_id, request.key, n) for n in range(1, rules.seats))
            bots = tuple(Bot(bot, hope.bots) for bot in ids)
            await self._tables.name_bots(Table(), list(bots))
        elif terms := (await self._openings.latest(rules.variant)).terms(table_id):
            rules = terms.rules
        opened = Open(player, rules, rules.buy_in_min, new_id(), bots, ready=True, wish=hope.wish)
        return await self._tables.seat(table_id, Table(), opened, request)


def _as_hoped(terms: Terms | None, hope: Hope) -> bool:
    """Whether a table by these terms, at which nobody sits yet, is one to wait at."""
    return terms is not None and terms.level is hope.bots and _same_game(terms.rules, hope)


def _plays(table: Table, hope: Hope) -> bool:
    return table.rules is not None and _same_game(table.rules, hope)


def _same_game(rules: Rules, hope: Hope) -> bool:
    """Whether the rules are those hoped for, but for what he leaves open."""
    fee = rules.entry_fee
    if rules.variant is not hope.rules.variant or not rules.listed:
        return False
    if not hope.fee_min <= fee <= hope.fee_max:
        return False
    same_size = hope.any_seats or rules.seats == hope.rules.seats
    bounds = (rules.buy_in_min, rules.buy_in_max) == stack_bounds(fee)
    return same_size and bounds and rules.options == quick_options(rules.variant, fee)


def _fits(table: Table, player: UUID, hope: Hope) -> bool:
    """Whether the player may sit there and wait for nobody but other newcomers."""
    free = len(table.free())
    if table.phase is not Phase.WAITING or not free or not _same_game(rules_of(table), hope):
        return False
    if kick_of(table, player) is not KickReason.NONE or table.seat_of(player) is not None:
        return False
    if not all(seat.ready for _, seat in table.taken()):
        return False
    wishes = {seat.wish.level for _, seat in table.people() if seat.wish}
    alike = wishes == ({hope.bots} if hope.wish else set())
    return alike or free == 1
