"""Tables in the store: acting on one, opening, finding and listing them."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from google.protobuf.message import Message
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.decider import Decider
from services.kernel.errors import Kind, Refused, invalid, precondition
from services.lobby import codec, domain
from services.lobby.accounts import Accounts
from services.lobby.admission import Admission
from services.lobby.bots import new_bot
from services.lobby.choices import Choices
from services.lobby.commands import (
    AddBot,
    Bot,
    Command,
    EndGame,
    Invite,
    LeaveSeat,
    Open,
    TakeSeat,
    TopUp,
)
from services.lobby.evolve import (
    Limits,
    after_events,
    evolve,
    plan,
    rules_of,
    tag_of_player,
)
from services.lobby.model import Event, Rules, Table
from services.lobby.players import Players
from services.lobby.purse import claimed, require_chips
from services.lobby.seatings import Seatings
from services.lobby.seeing import require_sight, table_not_found
from services.lobby.views import players_at, table_view
from services.runtime.fingerprint import fingerprint
from services.runtime.moments import new_id
from services.runtime.store.api import Store
from services.runtime.streams import Streams

TABLES_PER_PLAYER = 8
"""At how many tables a player may sit at once, where nothing else is said."""
SCAN_MAX = 200
"""The most tables looked at for one page, or for one free seat."""
SCAN_STEP = 50


def decider(limits: Limits) -> Decider[Table, Command, Event]:
    """How a table decides, evolves and is written down, where these limits hold."""
    return Decider(
        initial=Table(),
        decide=domain.decide,
        evolve=evolve,
        encode=codec.encode,
        decode=codec.decode,
        plan=partial(plan, limits=limits),
    )


DECIDER = decider(Limits())


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request for a change: `key` names it among all, `body` is the hash of its text."""

    actor: str
    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """A table that was found."""

    table_id: UUID
    table: Table


def request_of(actor: str, request_id: str, message: Message) -> Request:
    """A caller's request. Two callers may use the same request id."""
    key = hashlib.sha256(f"{actor} {request_id}".encode()).hexdigest()
    return Request(actor, key, fingerprint(message))


class Tables:
    """The tables of one store; a player sits at `most` of them."""

    def __init__(
        self,
        streams: Streams[Table, Command, Event],
        store: Store,
        players: Players,
        choices: Choices,
        accounts: Accounts,
        admission: Admission,
        seatings: Seatings,
        most: int = TABLES_PER_PLAYER,
    ) -> None:
        self._streams = streams
        self._admission = admission
        self.store = store
        self._players = players
        self._choices = choices
        self._accounts = accounts
        self._seatings = seatings
        self._most = most

    async def act(self, table_id: UUID, command: Command, request: Request) -> Table:
        """Carry a command out once; the table right after it. Raises what `decide` refuses,
        BEING_ERASED for a player who may not sit down any more, LIMIT_REACHED and EXCLUDED for one
        whose limits do not allow it, TOO_MANY_GAMES for one who would be ready for a game more than
        he may play."""
        match command:
            case Open(host):
                await self._players.require_staying(host)
            case TakeSeat(player):
                await self._players.require_staying(player)
            case _:
                pass
        await self._admission.check(table_id, command, request.key)
        outcome = await self._streams.transact(
            table_id,
            command,
            request_id=request.key,
            body_hash=request.body,
            metadata=request.actor.encode(),
        )
        return outcome.state

    async def load(self, table_id: UUID) -> Table:
        """The table as it is stored; one that does not exist is UNOPENED."""
        return (await self._streams.load(table_id)).state

    async def leave(self, table_id: UUID, player: UUID, key: str) -> None:
        """Have a player stand up, unless he plays there or does not sit there (any more)."""
        request = Request("server", key, hashlib.sha256(key.encode()).digest())
        try:
            await self.act(table_id, LeaveSeat(player, new_id()), request)
        except Refused as refused:
            if refused.kind is not Kind.PRECONDITION:
                raise

    async def stand_up(self, player: UUID, key: str) -> None:
        """Have a player stand up wherever he does not play."""
        async for found in self.seats_of(player):
            await self.leave(found.table_id, player, key)

    async def see(self, table_id: UUID, viewer: UUID | None, code: str = "") -> Table:
        """The table, if `viewer` (None: an operator or a service) may know of it."""
        table = (await self._streams.load(table_id)).state
        if viewer is not None:
            require_sight(table, viewer, code)
        elif table.rules is None:
            raise table_not_found()
        return table

    async def answered(self, table_id: UUID, request: Request) -> bool:
        """Whether this request was carried out at the table: then it is answered as it was,
        whatever has become of the table and of who asked."""
        return await self.store.find_request(table_id, request.key) is not None

    async def see_to(self, table_id: UUID, viewer: UUID, request: Request, code: str = "") -> Table:
        """The table at which `viewer` asks for something: if he may know of it, or his request was
        carried out there when he did."""
        try:
            return await self.see(table_id, viewer, code)
        except Refused:
            if not await self.answered(table_id, request):
                raise
            return await self.load(table_id)

    async def show(self, table_id: UUID, table: Table, viewer: UUID | None) -> lobby_pb2.Table:
        """The table as `viewer` sees it."""
        return table_view(table_id, table, viewer, await self._players.find(players_at(table)))

    async def open(self, host: UUID, rules: Rules, stack: int, request: Request) -> Found:
        """Open a table; the same request opens one only. Raises what `seat` does, and
        `require_people` of those who are invited."""
        named = {f"rules.invited_player_ids[{n}]": each for n, each in enumerate(rules.invited)}
        try:
            await self.require_people(named)
        except Refused:
            chosen = await self._choices.find(request.key)
            if chosen is None or not await self.answered(chosen, request):
                raise
        table_id = await self._choices.choose(request.key, new_id())
        command = Open(host, rules, stack, new_id())
        async with self.seating(host):
            if await self.store.head(table_id) is None:
                await self.require_room(host)
            return Found(table_id, await self.seat(table_id, Table(), command, request))

    async def take_seat(self, table_id: UUID, command: TakeSeat, request: Request) -> Table:
        """Sit down; raises what `seat` does, and Refused TOO_MANY_TABLES."""
        async with self.seating(command.player):
            table = await self.see_to(table_id, command.player, request, command.code)
            if table.seat_of(command.player) is None:
                try:
                    await self.require_room(command.player)
                except Refused:
                    if not await self.answered(table_id, request):
                        raise
            return await self.seat(table_id, table, command, request)

    async def invite(self, table_id: UUID, command: Invite, request: Request) -> Table:
        """Let a player come; raises what `act` does, and `require_people` of him."""
        await self.see_to(table_id, command.player, request)
        try:
            await self.require_people({"player_id": command.whom})
        except Refused:
            if not await self.answered(table_id, request):
                raise
        return await self.act(table_id, command, request)

    async def top_up(self, table_id: UUID, command: TopUp, request: Request) -> Table:
        """Add to a stack; raises what `seat` does."""
        async with self.seating(command.player):
            table = await self.see_to(table_id, command.player, request)
            return await self.seat(table_id, table, command, request)

    async def seat(
        self, table_id: UUID, table: Table, command: Open | TakeSeat | TopUp, request: Request
    ) -> Table:
        """Carry a command out that brings chips to a table, `table` as far as is known.

        Raises what `act` does, and Refused INSUFFICIENT_CHIPS unless the player's account holds
        what all of his seats claim.
        """
        player = command.host if isinstance(command, Open) else command.player
        try:
            after = after_events(table, domain.decide(table, command))
        except Refused:  # refused below, unless this is the repetition of a request that was not
            return await self.act(table_id, command, request)
        if not rules_of(after).entry_fee:
            return await self.act(table_id, command, request)
        more = max(0, claimed(after, player) - claimed(table, player))
        try:
            await require_chips(self._accounts, player, self._where(player), more)
        except Refused:
            if not await self.answered(table_id, request):
                raise
        return await self.act(table_id, command, request)

    async def _where(self, player: UUID) -> AsyncIterator[Table]:
        async for found in self.seats_of(player):
            yield found.table

    async def add_bot(self, table_id: UUID, command: AddBot, request: Request) -> Table:
        """Put a bot on a seat; it gets a player row of its own first, so that it has a name."""
        table, bot = await self.see_to(table_id, command.player, request), command.bot
        if table.seat_of(bot.player) is None:
            try:
                domain.decide(table, command)
            except Refused:
                pass  # refused below, unless this is the repetition of a request that was not
            else:
                await self.name_bots(table, [bot])
        return await self.act(table_id, command, request)

    async def report(self, table_id: UUID, command: EndGame) -> None:
        """Take a game's end to its table, once however often it is told."""
        request_id, body = f"ended:{command.game}", hashlib.sha256(command.game.bytes).digest()
        await self._streams.transact(table_id, command, request_id=request_id, body_hash=body)

    async def name_bots(self, table: Table, bots: list[Bot]) -> None:
        """Make the player rows of bots that are about to sit down."""
        names = {player.name for player in (await self._players.find(players_at(table))).values()}
        for bot in bots:
            player = new_bot(bot.player, names)
            names.add(player.name)
            await self._players.add_bots([player])

    async def require_people(self, named: Mapping[str, UUID]) -> None:
        """Raise Refused naming the field unless all of these, by field, are players and no bots."""
        known = await self._players.find(named.values())
        for field, player in named.items():
            found = known.get(player)
            if found is None or found.bot or found.erased:
                raise invalid(field, "is no player who could come", "NO_SUCH_PLAYER")

    def seating(self, player: UUID) -> AbstractAsyncContextManager[None]:
        """Held while a player is counted and sits down: one at a time over all replicas, so that
        tables taken at once are counted as well."""
        return self._seatings.of(player)

    async def require_room(self, player: UUID) -> None:
        """Raise Refused TOO_MANY_TABLES unless the player may sit down at one more table."""
        seated = 0
        async for found in self.scan(tag_of_player(player)):
            seated += found.table.seat_of(player) is not None
            if seated >= self._most:
                raise precondition(
                    "TOO_MANY_TABLES",
                    f"a player sits at {self._most} tables at most",
                    limit="tables",
                    most=str(self._most),
                )

    async def seats_of(self, player: UUID) -> AsyncIterator[Found]:
        """Every open table where a player sits, newest first."""
        before: UUID | None = None
        while True:
            looked = 0
            async for found in self.scan(tag_of_player(player), before):
                before, looked = found.table_id, looked + 1
                if found.table.seat_of(player) is not None:
                    yield found
            if looked < SCAN_MAX:
                return

    async def scan(self, tag: str, before: UUID | None = None) -> AsyncIterator[Found]:
        """Open tables with a tag, newest first, `SCAN_MAX` at most; damaged ones do not count."""
        looked = 0
        while True:
            heads = await self.store.tagged(tag, before, SCAN_STEP, ended=False)
            for head in heads:
                before = head.stream
                try:
                    loaded = await self._streams.load(head.stream, known=head.version)
                except Refused as refused:
                    if refused.reason != "LOG_DAMAGED":
                        raise
                    continue
                yield Found(head.stream, loaded.state)
                looked += 1
                if looked == SCAN_MAX:
                    return
            if len(heads) < SCAN_STEP:
                return
