"""Carrying an erasure through, from the wish to the last token's end.

    ASKED      he sits nowhere; no game runs, no dispute or claim concerns him (the games say so)
    AGREED     the wallet takes the chips he gives up; the last that can refuse
    EMPTIED    the games remove his texts and connections
    FORGOTTEN  his row, his tokens and how he signed in are removed, what he said and whom he muted,
               his games, numbers and limits
    ERASED     an embedded database's file is rid of them
    SHREDDED   when the last access token has ended: what was done with it until then goes as well
    ENDED

A refusal before EMPTIED takes the wish back and changes nothing; after it there is none. Each step
done twice is done once, so whoever takes the erasure up again, on any replica, repeats the step it
was left at. A seat that is taken while ASKED is written is found by the last step, and no game
starts with it (`start.py`).
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Protocol, assert_never
from uuid import UUID

from kozyr.game.v1 import audit_pb2
from kozyr.game.v1.audit_pb2_grpc import AuditServiceStub
from kozyr.wallet.v1 import wallet_pb2
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceStub
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused, precondition
from services.lobby.accounts import Accounts
from services.lobby.commands import LeaveSeat
from services.lobby.erasures import Erasure, Erasures, Step, Wish
from services.lobby.players import Players
from services.lobby.schema import PERSONAL, limit_changes
from services.lobby.schema import players as players_table
from services.lobby.start import PASSING
from services.lobby.tables import Request, Tables
from services.lobby.talk import talk as talk_table
from services.runtime import log
from services.runtime.clients import Client
from services.runtime.moments import new_id
from services.runtime.shredding import Shredder
from services.runtime.store.api import StoreUnavailable

LOOK_S = 1.0
PAUSE_MS = 2_000
"""How long an erasure rests that could not be taken further."""
NAMES_WITHIN_US = 60_000_000
"""Names of those who were erased within this time are dropped from memory again and again: one may
have been read just before."""
STALE_MS = 60_000
"""How much longer than its life a token may serve: clocks differ, a call may just have begun."""


PERSONAL_NAMES = tuple(table.name for table in PERSONAL)
NAMING = (players_table.name, talk_table.name, limit_changes.name, *PERSONAL_NAMES)
"""The tables of which an embedded database's file keeps nothing that was removed."""


class Held(Protocol):
    """A part of what the lobby holds about players."""

    async def erase(self, player: UUID) -> object:
        """Remove what is held about a player; may be repeated. Raises StoreUnavailable."""


class Erasing:
    """Carries out erasures. `tokens_ms` is how long access tokens of players live; `own` is what
    the lobby holds about them beside their rows."""

    def __init__(
        self,
        engine: AsyncEngine,
        erasures: Erasures,
        players: Players,
        tables: Tables,
        accounts: Accounts,
        wallet: Client,
        game: Client,
        tokens_ms: int,
        pause_ms: int = PAUSE_MS,
        own: Sequence[Held] = (),
    ) -> None:
        self._remains = Shredder(engine, *NAMING)
        self._own = own
        self._erasures = erasures
        self._players = players
        self._tables = tables
        self._accounts = accounts
        self._wallet = wallet
        self._wallet_stub = WalletServiceStub(wallet.channel)
        self._game = game
        self._game_stub = AuditServiceStub(game.channel)
        self._tokens_ms = tokens_ms
        self._pause_ms = pause_ms

    async def erase(self, wish: Wish) -> Erasure:
        """Erase a player as far as can be done now; the same again goes on with it.

        Raises Refused: what `Erasures.begin` refuses, SEATED, what the games and the wallet refuse.
        After a refusal that passes (UNAVAILABLE) it is gone on with by itself.
        """
        erasure = await self._erasures.begin(wish)
        return erasure if erasure.step >= Step.ERASED else await self.carry(erasure)

    async def run(self) -> None:
        """For ever: go on with what is left, and forget the names of those who are gone."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self._players.forget(await self._erasures.erased_within(NAMES_WITHIN_US))
                for player in await self._erasures.due():
                    await self._go_on(player)
            except StoreUnavailable:
                log.get().warning("erasures_wait_for_the_store")

    async def carry(self, erasure: Erasure) -> Erasure:
        """Take an erasure that is ours as far as it goes now.

        Raises Refused where it must wait, or was refused and is no more.
        """
        while True:
            try:
                erasure = await self._step(erasure)
            except Refused as refused:
                if refused.kind not in PASSING and erasure.step <= Step.AGREED:
                    await self._erasures.drop(erasure)
                    raise
                await self._erasures.put_off(erasure, self._pause_ms)
                if erasure.step is not Step.ERASED:
                    raise
                return erasure  # to him it is done; his file's remains are cleared away later
            if erasure.step >= Step.SHREDDED:
                return erasure

    async def _go_on(self, player: UUID) -> None:
        try:
            erasure = await self._erasures.hold(player)
            if erasure is not None:
                await self.carry(erasure)
        except Refused as refused:
            log.get().warning("erasure_left_for_later", account=player, reason=refused.reason)

    async def _step(self, erasure: Erasure) -> Erasure:
        """Do what comes next, and note that it is done."""
        match erasure.step:
            case Step.ASKED:
                await self._check(erasure)
                return await self._erasures.advance(erasure, Step.AGREED)
            case Step.AGREED:
                chips = await self._forfeit(erasure)
                return await self._erasures.advance(erasure, Step.EMPTIED, chips)
            case Step.EMPTIED:
                await self._forget_games(erasure)
                return await self._erasures.advance(erasure, Step.FORGOTTEN)
            case Step.FORGOTTEN:
                await self._forget_own(erasure)
                removed = await self._erasures.remove(erasure, self._tokens_ms + STALE_MS)
                self._players.forget([erasure.player])
                return removed
            case Step.ERASED:
                await self._remains.shred()
                return await self._erasures.rest(erasure)
            case Step.SHREDDED:
                await self._stand_up(erasure)
                await self._forget_own(erasure)
                await self._forget_games(erasure)
                return await self._erasures.advance(erasure, Step.ENDED)
            case Step.ENDED:
                return erasure
            case _:
                assert_never(erasure.step)

    async def _check(self, erasure: Erasure) -> None:
        async for found in self._tables.seats_of(erasure.player):
            raise precondition("SEATED", "the player sits at a table", table_id=str(found.table_id))
        request = audit_pb2.CheckErasureRequest(
            player_id=str(erasure.player), leave_claims=erasure.leave_claims
        )
        await self._game.call(self._game_stub.CheckErasure, request)

    async def _forfeit(self, erasure: Erasure) -> int:
        """Empty the account, opened before where a sign-up left that for later: no welcome may
        come after this."""
        await self._accounts.open(erasure.player, bot=False)
        request = wallet_pb2.ForfeitRequest(
            request_id=f"erasure:{erasure.erasure}",
            account_id=str(erasure.player),
            forfeit=erasure.give_up_chips,
        )
        return (await self._wallet.call(self._wallet_stub.Forfeit, request)).chips

    async def _forget_games(self, erasure: Erasure) -> None:
        request = audit_pb2.ErasePlayerRequest(
            request_id=f"erasure:{erasure.erasure}", player_id=str(erasure.player)
        )
        await self._game.call(self._game_stub.ErasePlayer, request)

    async def _forget_own(self, erasure: Erasure) -> None:
        for part in self._own:
            await part.erase(erasure.player)

    async def _stand_up(self, erasure: Erasure) -> None:
        async for found in self._tables.seats_of(erasure.player):
            name = f"erasure:{erasure.erasure}:{found.table.version}"
            request = Request("server", name, hashlib.sha256(name.encode()).digest())
            await self._tables.act(found.table_id, LeaveSeat(erasure.player, new_id()), request)
