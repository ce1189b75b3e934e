"""Carrying a start through: reserve every stack, create the game, and undo it all if that fails.

A start is due work of its table and may be taken up again at any step, by any replica, any number
of times: the game's id is chosen by the table's log, reservation and request ids follow from it,
and each step done twice is done once.

    StartBegun → account, Reserve (a bot's account is filled up first) → CreateGame → GameStarted
    refused for good, or tried too often → StartAbandoned → CancelGame → Void → StartFailed

Before anything is reserved the game begins for its persons, each within his limits (`stakes.py`);
that is undone last, before StartFailed.

The order of the second line keeps chips safe: that the start is given up is in the log before
anything is undone, so no later try opens what is being undone; chips go back only once CancelGame
has said that the game can never open. If it says that the game had been opened, it goes on. A game
service that bound the chips and never opened the game gives them back itself; until it has, Void is
refused and tried again.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID, uuid5

from kozyr.game.v1 import game_pb2, variant_pb2
from kozyr.game.v1.game_pb2_grpc import GameServiceStub
from kozyr.wallet.v1 import wallet_pb2
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceStub

from services.kernel.envelope import Claimed
from services.kernel.errors import Kind, Refused
from services.lobby.accounts import Accounts
from services.lobby.commands import Abandon, Command, Confirm, Fail
from services.lobby.conditions import Moot
from services.lobby.ending import plays
from services.lobby.evolve import INSUFFICIENT_CHIPS, PLAYER_HELD_BACK, START, rules_of
from services.lobby.model import BotLevel, Event, Phase, Seat, Table
from services.lobby.stakes import Stake, Stakes
from services.lobby.variants import write_game_options
from services.runtime import log
from services.runtime.clients import Client
from services.runtime.streams import Streams

TRIES_MAX = 6
"""How often a start is tried before it is given up."""
HOLD_MS = 600_000
"""How long a stack stays reserved for a game that has not been opened."""
SEED_MS = 2_000
"""How long players may take to commit, and again to reveal, their seeds."""
SERVICES_UNAVAILABLE = "SERVICES_UNAVAILABLE"
"""Why a start failed that was tried too often."""

PLAYER_ERASED = "PLAYER_ERASED"
"""Why a start failed with a player who has been erased since he sat down."""

PASSING = frozenset(
    {Kind.UNAVAILABLE, Kind.EXPIRED, Kind.CONFLICT, Kind.EXHAUSTED, Kind.UNAUTHENTICATED}
)
"""Refusals after which the same call may succeed. All others are for good."""

TableStreams: TypeAlias = Streams[Table, Command, Event]


class Unpaid(Exception):
    """Stacks that could not be reserved for good: why, and at which table seats."""

    def __init__(self, reason: str, seats: tuple[int, ...]) -> None:
        super().__init__(reason, seats)
        self.reason = reason
        self.seats = seats


class Starter:
    """Works off starts. `tries_max` bounds how often a start is tried."""

    def __init__(
        self,
        tables: TableStreams,
        accounts: Accounts,
        wallet: Client,
        game: Client,
        stakes: Stakes,
        tries_max: int = TRIES_MAX,
    ) -> None:
        self._tables = tables
        self._stakes = stakes
        self._accounts = accounts
        self._wallet = wallet
        self._wallet_stub = WalletServiceStub(wallet.channel)
        self._game = game
        self._game_stub = GameServiceStub(game.channel)
        self._tries_max = tries_max

    async def handle(self, kind: str, claimed: Claimed) -> None:
        """Take a start as far as it goes; raises Refused to try again."""
        if kind != START:
            raise ValueError(f"no such work: {kind}")
        try:
            await self._carry(claimed.stream, UUID(claimed.key), claimed.attempts)
        except Moot:
            log.get().info("work_moot", table=claimed.stream, kind=kind)
            await self._let_go(claimed.stream, UUID(claimed.key))

    async def _let_go(self, table_id: UUID, game: UUID) -> None:
        """Nothing is at stake in a game that its table does not play."""
        if not plays((await self._tables.load(table_id)).state, game):
            await self._stakes.release(game)

    async def _carry(self, table_id: UUID, game: UUID, attempts: int) -> None:
        table = (await self._tables.load(table_id)).state
        if table.phase is not Phase.STARTING or table.game != game:
            raise Moot
        if not table.abandoned:
            abandon = await self._attempt(table_id, table, game, attempts)
            if abandon is None:
                await self._record(table_id, Confirm(game), "started")
                return
            log.get().warning("start_abandoned", table=table_id, game=game, reason=abandon.reason)
            await self._record(table_id, abandon, "abandoned")
        await self._undo(table_id, game)

    async def _attempt(
        self, table_id: UUID, table: Table, game: UUID, attempts: int
    ) -> Abandon | None:
        """Open the game; or say why that is given up. Raises Refused to try again later."""
        if attempts > self._tries_max:
            return Abandon(game, SERVICES_UNAVAILABLE)
        gone = await self._accounts.leaving(seat.player for _, seat in seats_in(table))
        if gone:
            return Abandon(
                game, PLAYER_ERASED, tuple(n for n, seat in seats_in(table) if seat.player in gone)
            )
        over = await self._stakes.hold(game, table_id, persons_in(table))
        if over:
            return Abandon(game, PLAYER_HELD_BACK, over)
        try:
            if rules_of(table).entry_fee:
                await self._reserve_all(table, game)
            await self._game.call(self._game_stub.CreateGame, game_request(table_id, table, game))
        except Unpaid as unpaid:
            return Abandon(game, unpaid.reason, unpaid.seats)
        except Refused as refused:
            if refused.kind in PASSING:
                raise
            return Abandon(game, refused.reason)
        return None

    async def _undo(self, table_id: UUID, game: UUID) -> None:
        cancel = game_pb2.CancelGameRequest(request_id=f"cancel:{game}", game_id=str(game))
        answer = await self._game.call(self._game_stub.CancelGame, cancel)
        if answer.opened:
            await self._record(table_id, Confirm(game), "started")
            return
        table = (await self._tables.load(table_id)).state
        if rules_of(table).entry_fee:
            void = wallet_pb2.VoidRequest(
                request_id=f"start-failed:{game}", game_id=str(game), reason="START_FAILED"
            )
            await self._wallet.call(self._wallet_stub.Void, void)
        await self._stakes.release(game)
        await self._record(table_id, Fail(game), "failed")

    async def _record(self, table_id: UUID, step: Abandon | Fail | Confirm, word: str) -> None:
        await self._tables.transact(
            table_id, step, request_id=f"{word}:{step.game}", body_hash=step.game.bytes * 2
        )

    async def _reserve_all(self, table: Table, game: UUID) -> None:
        """Reserve every stack. Raises Unpaid where that is refused for good, else Refused."""
        seats = seats_in(table)
        results = await asyncio.gather(
            *(self._reserve(game, number, seat) for number, seat in seats), return_exceptions=True
        )
        refused: dict[int, Refused] = {}
        for (number, _), result in zip(seats, results, strict=True):
            if isinstance(result, Refused):
                refused[number] = result
            elif result is not None:
                raise result
        for_good = {n: r.reason for n, r in refused.items() if r.kind not in PASSING}
        if for_good:
            reasons = set(for_good.values())
            reason = INSUFFICIENT_CHIPS if INSUFFICIENT_CHIPS in reasons else min(reasons)
            raise Unpaid(reason, tuple(n for n, why in for_good.items() if why == reason))
        for passing in refused.values():
            raise passing

    async def _reserve(self, game: UUID, number: int, seat: Seat) -> None:
        bot = seat.bot is not BotLevel.PERSON
        reservation = str(reservation_id(game, number))
        await self._accounts.open(seat.player, bot=bot)
        request = wallet_pb2.ReserveRequest(
            request_id=reservation,
            reservation_id=reservation,
            account_id=str(seat.player),
            game_id=str(game),
            chips=seat.stack,
            ttl_ms=HOLD_MS,
        )
        try:
            await self._wallet.call(self._wallet_stub.Reserve, request)
        except Refused as refused:
            if not bot or refused.reason != INSUFFICIENT_CHIPS:
                raise
            await self._fund(seat, reservation)
            await self._wallet.call(self._wallet_stub.Reserve, request)

    async def _fund(self, seat: Seat, reservation: str) -> None:
        """Give a bot what its account lacks for its stack.

        The number of chips is part of the request id: a lost answer is asked for again, and a
        balance that changed meanwhile makes it another grant.
        """
        look = wallet_pb2.GetAccountRequest(account_id=str(seat.player))
        account = (await self._wallet.call(self._wallet_stub.GetAccount, look)).account
        lacks = seat.stack - account.balance
        if lacks <= 0:
            return
        grant = wallet_pb2.GrantRequest(
            request_id=f"{reservation}:{lacks}",
            account_id=str(seat.player),
            chips=lacks,
            reason="a bot's stack",
        )
        await self._wallet.call(self._wallet_stub.Grant, grant)


def seats_in(table: Table) -> tuple[tuple[int, Seat], ...]:
    """The seats of the game being opened or played, with their table numbers, in game order."""
    return tuple((n, seat) for n in table.playing if (seat := table.seats[n]) is not None)


def persons_in(table: Table) -> tuple[Stake, ...]:
    """What the persons of the game being opened play with."""
    return tuple(
        Stake(number, seat.player, seat.stack, seat.fresh)
        for number, seat in seats_in(table)
        if seat.bot is BotLevel.PERSON
    )


def reservation_id(game: UUID, number: int) -> UUID:
    """The reservation of a table seat's stack for a game."""
    return uuid5(game, f"seat {number}")


def game_request(table_id: UUID, table: Table, game: UUID) -> game_pb2.CreateGameRequest:
    """The game a table opens.

    The last winner is named by his seat in the new game; without him in it nobody is named, and
    the first opener is drawn.
    """
    rules = rules_of(table)
    seats = seats_in(table)
    request = game_pb2.CreateGameRequest(
        request_id=str(game),
        game_id=str(game),
        table_id=str(table_id),
        options=write_game_options(rules.variant, rules.options),
        seats=[_seat_setup(game, n, seat, paid=rules.entry_fee > 0) for n, seat in seats],
        turn_ms=rules.turn_ms,
        seed_ms=SEED_MS,
        spectators=rules.spectators,
        absent_policy=variant_pb2.AbsentPolicy.ValueType(rules.absent),
        time_bank_ms=rules.time_bank_ms,
        spectator_delay=rules.spectator_delay,
        bot_after=rules.bot_after,
        no_hints=rules.no_hints,
    )
    winner = _index_of(table.last_winner, seats)
    if winner is not None:
        request.last_winner = winner
    return request


def _seat_setup(game: UUID, number: int, seat: Seat, *, paid: bool) -> game_pb2.SeatSetup:
    return game_pb2.SeatSetup(
        player_id=str(seat.player),
        bot_level=variant_pb2.BotLevel.ValueType(seat.bot),
        stack=seat.stack if paid else 0,
        reservation_id=str(reservation_id(game, number)) if paid else "",
    )


def _index_of(player: UUID | None, seats: Sequence[tuple[int, Seat]]) -> int | None:
    return next((i for i, (_, seat) in enumerate(seats) if seat.player == player), None)
