"""Wallet accounts of players: opened at sign-up, and later where the wallet was away."""

import asyncio
from collections.abc import Iterable
from uuid import UUID

from kozyr.wallet.v1 import wallet_pb2
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceStub

from services.kernel.errors import Kind, Refused
from services.lobby.players import Players
from services.runtime import log
from services.runtime.clients import Client
from services.runtime.store.api import StoreUnavailable

SIGN_UP_WAIT_MS = 2_000
"""How long a sign-up waits for the wallet before it leaves the account for later."""
IDLE_S = 1.0
PAUSE_MAX_S = 30.0


class Accounts:
    """Opens wallet accounts. Opening twice is opening once: the request id is the player's id."""

    def __init__(self, players: Players, wallet: Client) -> None:
        self._players = players
        self._wallet = wallet
        self._stub = WalletServiceStub(wallet.channel)

    async def open(self, player: UUID, *, bot: bool, timeout_ms: int | None = None) -> None:
        """Open a player's or a bot's account; raises Refused."""
        kind = wallet_pb2.ACCOUNT_KIND_BOT if bot else wallet_pb2.ACCOUNT_KIND_PLAYER
        request = wallet_pb2.OpenAccountRequest(
            request_id=f"account:{player}", account_id=str(player), kind=kind
        )
        await self._wallet.call(self._stub.OpenAccount, request, timeout_ms)

    async def balance(self, player: UUID) -> int:
        """The chips in a player's account, which is opened where that was left for later; raises
        Refused."""
        request = wallet_pb2.GetAccountRequest(account_id=str(player))
        try:
            answer = await self._wallet.call(self._stub.GetAccount, request)
        except Refused as refused:
            if refused.kind is not Kind.NOT_FOUND:
                raise
            await self.open(player, bot=False)
            answer = await self._wallet.call(self._stub.GetAccount, request)
        balance: int = answer.account.balance
        return balance

    async def leaving(self, players: Iterable[UUID]) -> set[UUID]:
        """Those of these players who are being erased, or were: no game is started with them."""
        return await self._players.leaving(players)

    async def welcome(self, player: UUID) -> bool:
        """Open a new guest's account; whether it worked. If not, `run` will."""
        try:
            await self.open(player, bot=False, timeout_ms=SIGN_UP_WAIT_MS)
            await self._players.account_opened(player)
        except (Refused, StoreUnavailable) as error:
            reason = error.reason if isinstance(error, Refused) else "STORE_UNAVAILABLE"
            log.get().warning("account_left_for_later", account=player, reason=reason)
            return False
        return True

    async def run(self) -> None:
        """For ever: open the accounts that sign-ups left for later."""
        pause = IDLE_S
        while True:
            await asyncio.sleep(pause)
            try:
                waiting = await self._players.without_account()
            except StoreUnavailable:
                waiting = []
            opened = [await self.welcome(player) for player in waiting]
            pause = IDLE_S if all(opened) else min(pause * 2, PAUSE_MAX_S)
