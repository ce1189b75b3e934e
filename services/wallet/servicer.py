"""The wallet's RPCs: what was asked becomes a command, what came of it an answer."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar
from uuid import UUID

import grpc
from google.protobuf.message import Message
from kozyr.wallet.v1 import wallet_pb2 as pb
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceServicer

from services.runtime import validate
from services.runtime.call import caller, note
from services.runtime.seal import open_page, seal_page
from services.wallet import requests, views
from services.wallet.batch import Request, Respond
from services.wallet.books import DISPUTE_RESERVE, Books, ReservationState
from services.wallet.compensation import shortfalls
from services.wallet.domain import Command, game_of
from services.wallet.ledger import Ledger, body_hash
from services.wallet.statements import (
    Holding,
    read_game,
    read_holding,
    read_reservations,
    read_statement,
    read_transfers,
    read_trial,
)
from services.wallet.watch import Watch

R = TypeVar("R", bound=Message)
Context = grpc.aio.ServicerContext[Any, Any]


class WalletServicer(WalletServiceServicer):
    """`WalletService` on a ledger. `welcome` chips go to each new player."""

    def __init__(self, ledger: Ledger, watch: Watch, welcome: int, seal_key: bytes) -> None:
        self._ledger = ledger
        self._watch = watch
        self._welcome = welcome
        self._seal_key = seal_key

    async def OpenAccount(
        self, request: pb.OpenAccountRequest, context: Context
    ) -> pb.OpenAccountResponse:
        """Open an account; one of the same kind that is open stays as it is."""
        command = requests.read_open(request, self._welcome)

        def respond(after: Books) -> bytes:
            holding = Holding(after.accounts[command.account], after.held)
            shown = pb.OpenAccountResponse(account=views.show_account(holding))
            return shown.SerializeToString()

        return await self._execute(request, command, respond, pb.OpenAccountResponse)

    async def GetAccount(
        self, request: pb.GetAccountRequest, context: Context
    ) -> pb.GetAccountResponse:
        """The account as it is, after its expired reservations went back."""
        account = requests.whose(request.account_id, caller())
        holding = await read_holding(self._ledger.engine, account)
        if holding.has_expired:
            await self._ledger.expire(account)
            holding = await read_holding(self._ledger.engine, account)
        return pb.GetAccountResponse(account=views.show_account(holding))

    async def ListTransfers(
        self, request: pb.ListTransfersRequest, context: Context
    ) -> pb.ListTransfersResponse:
        """A page of the statement."""
        account = requests.whose(request.account_id, caller())
        game = validate.optional_uuid("game_id", request.game_id)
        size = validate.page_size(request.page_size)
        bound = (str(account), request.game_id)
        opened = open_page(self._seal_key, "transfers", bound, request.page_token)
        below = next((at for at in opened if isinstance(at, int)), None)
        lines = await read_statement(self._ledger.engine, account, game, below, size + 1)
        page = pb.ListTransfersResponse(lines=[views.show_line(line) for line in lines[:size]])
        if len(lines) > size:
            last = (lines[size - 1].version,)
            page.next_page_token = seal_page(self._seal_key, "transfers", bound, last)
        return page

    async def Reserve(self, request: pb.ReserveRequest, context: Context) -> pb.ReserveResponse:
        """Hold chips for a game."""
        command = requests.read_reserve(request)

        def respond(after: Books) -> bytes:
            made = next(r for r in after.reservations if r.id == command.id)
            shown = pb.ReserveResponse(reservation=views.show_reservation(made))
            return shown.SerializeToString()

        return await self._execute(request, command, respond, pb.ReserveResponse)

    async def Pin(self, request: pb.PinRequest, context: Context) -> pb.PinResponse:
        """Bind a game's reservations to it."""

        def respond(after: Books) -> bytes:
            return pb.PinResponse().SerializeToString()

        return await self._execute(request, requests.read_pin(request), respond, pb.PinResponse)

    async def Settle(self, request: pb.SettleRequest, context: Context) -> pb.SettleResponse:
        """Pay a finished game out."""

        def respond(after: Books) -> bytes:
            transfer = "" if after.game is None else str(after.game.transfer)
            return pb.SettleResponse(transfer_id=transfer).SerializeToString()

        command = requests.read_settle(request)
        return await self._execute(request, command, respond, pb.SettleResponse)

    async def Void(self, request: pb.VoidRequest, context: Context) -> pb.VoidResponse:
        """Give a game's chips back and refuse it from now on."""

        def respond(after: Books) -> bytes:
            voided = sum(r.state is ReservationState.VOIDED for r in after.reservations)
            return pb.VoidResponse(voided=voided).SerializeToString()

        command = requests.read_void(request, caller())
        return await self._execute(request, command, respond, pb.VoidResponse)

    async def Grant(self, request: pb.GrantRequest, context: Context) -> pb.GrantResponse:
        """Give chips from the house."""
        command = requests.read_grant(request, caller())

        def respond(after: Books) -> bytes:
            holding = Holding(after.accounts[command.account], after.held)
            shown = pb.GrantResponse(account=views.show_account(holding))
            return shown.SerializeToString()

        return await self._execute(request, command, respond, pb.GrantResponse)

    async def WatchAccount(
        self, request: pb.WatchAccountRequest, context: Context
    ) -> AsyncIterator[pb.WatchAccountResponse]:
        """The account now, after each change, and every so often."""
        account = requests.whose(request.account_id, caller())
        async for holding in self._watch.follow(account):
            yield pb.WatchAccountResponse(account=views.show_account(holding))

    async def TrialBalance(
        self, request: pb.TrialBalanceRequest, context: Context
    ) -> pb.TrialBalanceResponse:
        """All balances against all postings."""
        return views.show_trial(await read_trial(self._ledger.engine))

    async def ListReservations(
        self, request: pb.ListReservationsRequest, context: Context
    ) -> pb.ListReservationsResponse:
        """A game's reservations, after those that have expired went back."""
        game_id = validate.uuid("game_id", request.game_id)
        game, reservations, has_expired = await read_game(self._ledger.engine, game_id)
        if has_expired:
            await self._ledger.expire_game(game_id)
            game, reservations, _ = await read_game(self._ledger.engine, game_id)
        return views.show_reservations(game, reservations)

    async def FundReserve(
        self, request: pb.FundReserveRequest, context: Context
    ) -> pb.FundReserveResponse:
        """Give chips from the house to the dispute reserve."""

        def respond(after: Books) -> bytes:
            holding = Holding(after.accounts[DISPUTE_RESERVE], 0)
            shown = pb.FundReserveResponse(account=views.show_account(holding))
            return shown.SerializeToString()

        command = requests.read_fund(request)
        return await self._execute(request, command, respond, pb.FundReserveResponse)

    async def Compensate(
        self, request: pb.CompensateRequest, context: Context
    ) -> pb.CompensateResponse:
        """Carry out a ruling."""
        command = requests.read_compensate(request)

        def respond(after: Books) -> bytes:
            made = after.made()
            claims = views.show_moves(shortfalls(command.moves, made))
            shown = pb.CompensateResponse(transfer_id=str(made.id), claims=claims)
            return shown.SerializeToString()

        return await self._execute(request, command, respond, pb.CompensateResponse)

    async def Collect(self, request: pb.CollectRequest, context: Context) -> pb.CollectResponse:
        """Collect a claim, as far as the account has chips."""

        def respond(after: Books) -> bytes:
            made = after.made()
            chips = sum(leg.chips for leg in made.legs if leg.account == DISPUTE_RESERVE)
            return pb.CollectResponse(transfer_id=str(made.id), chips=chips).SerializeToString()

        command = requests.read_collect(request)
        return await self._execute(request, command, respond, pb.CollectResponse)

    async def Forfeit(self, request: pb.ForfeitRequest, context: Context) -> pb.ForfeitResponse:
        """Leave an account empty."""
        command = requests.read_forfeit(request)

        def respond(after: Books) -> bytes:
            legs = () if after.transfer is None else after.transfer.legs
            chips = -sum(leg.chips for leg in legs if leg.account == command.account)
            return pb.ForfeitResponse(chips=chips).SerializeToString()

        return await self._execute(request, command, respond, pb.ForfeitResponse)

    async def ListGameTransfers(
        self, request: pb.ListGameTransfersRequest, context: Context
    ) -> pb.ListGameTransfersResponse:
        """A page of a game's transfers."""
        game = validate.uuid("game_id", request.game_id)
        note(game=game)
        size = validate.page_size(request.page_size)
        opened = open_page(self._seal_key, "game", (request.game_id,), request.page_token)
        after = (int(opened[0] or 0), UUID(str(opened[1]))) if opened else None
        found = await read_transfers(self._ledger.engine, game, after, size + 1)
        page = pb.ListGameTransfersResponse(transfers=map(views.show_transfer, found[:size]))
        if len(found) > size:
            last = found[size - 1]
            mark = (last.recorded_at, str(last.id))
            page.next_page_token = seal_page(self._seal_key, "game", (request.game_id,), mark)
        return page

    async def ListHoldings(
        self, request: pb.ListHoldingsRequest, context: Context
    ) -> pb.ListHoldingsResponse:
        """A page of the reservations that hold an account's chips."""
        account = requests.whose(request.account_id, caller())
        size = validate.page_size(request.page_size)
        bound = (str(account),)
        opened = open_page(self._seal_key, "holdings", bound, request.page_token)
        below = UUID(str(opened[0])) if opened else None
        found = await read_reservations(self._ledger.engine, account, below, size + 1)
        page = pb.ListHoldingsResponse(reservations=map(views.show_reservation, found[:size]))
        if len(found) > size:
            last = (str(found[size - 1].id),)
            page.next_page_token = seal_page(self._seal_key, "holdings", bound, last)
        return page

    async def _execute(
        self, request: Any, command: Command, respond: Respond, response: type[R]
    ) -> R:
        """Carry out what a caller's request asks, once."""
        note(game=game_of(command))
        body = request.SerializeToString(deterministic=True)
        digest = body_hash(request.DESCRIPTOR.full_name, body)
        asked = Request(caller().key, request.request_id, digest)
        answer = response()
        answer.ParseFromString(await self._ledger.execute(command, asked, respond))
        return answer
