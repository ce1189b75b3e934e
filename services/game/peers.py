"""The other services as a game needs them."""

from dataclasses import dataclass

from kozyr.ai.v1 import ai_pb2, ai_pb2_grpc
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.runtime.clients import Peers as Clients
from services.runtime.clients import ServiceClient


@dataclass(frozen=True, slots=True)
class Peers:
    """Calls to ai, wallet and lobby; every one raises Refused when it fails."""

    clients: Clients

    async def choose_move(self, request: ai_pb2.ChooseMoveRequest) -> ai_pb2.ChooseMoveResponse:
        """A bot's move."""
        client = self.clients.client("ai")
        return await client.call(ai_pb2_grpc.AiServiceStub(client.channel).ChooseMove, request)

    async def pin(self, request: wallet_pb2.PinRequest) -> wallet_pb2.PinResponse:
        """Bind a game's reservations to it."""
        client, stub = self._wallet()
        return await client.call(stub.Pin, request)

    async def settle(self, request: wallet_pb2.SettleRequest) -> wallet_pb2.SettleResponse:
        """Pay a finished game out."""
        client, stub = self._wallet()
        return await client.call(stub.Settle, request)

    async def void(self, request: wallet_pb2.VoidRequest) -> wallet_pb2.VoidResponse:
        """Give a game's chips back."""
        client, stub = self._wallet()
        return await client.call(stub.Void, request)

    async def reservations(self, game_id: str) -> wallet_pb2.ListReservationsResponse:
        """What the wallet holds, or held, for a game."""
        client, stub = self._wallet()
        request = wallet_pb2.ListReservationsRequest(game_id=game_id)
        return await client.call(stub.ListReservations, request)

    async def compensate(
        self, request: wallet_pb2.CompensateRequest
    ) -> wallet_pb2.CompensateResponse:
        """Carry out a ruling on a dispute."""
        client, stub = self._wallet()
        return await client.call(stub.Compensate, request)

    async def collect(self, request: wallet_pb2.CollectRequest) -> wallet_pb2.CollectResponse:
        """Collect what a ruling could not take."""
        client, stub = self._wallet()
        return await client.call(stub.Collect, request)

    async def transfers(self, game_id: str) -> list[wallet_pb2.GameTransfer]:
        """Every transfer that concerns a game, oldest first."""
        client, stub = self._wallet()
        request = wallet_pb2.ListGameTransfersRequest(game_id=game_id, page_size=200)
        found: list[wallet_pb2.GameTransfer] = []
        while True:
            page = await client.call(stub.ListGameTransfers, request)
            found += page.transfers
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def report(self, request: lobby_pb2.ReportGameRequest) -> lobby_pb2.ReportGameResponse:
        """Tell the table how a game ended."""
        client = self.clients.client("lobby")
        return await client.call(
            lobby_pb2_grpc.LobbyServiceStub(client.channel).ReportGame, request
        )

    def _wallet(self) -> "tuple[ServiceClient, wallet_pb2_grpc.WalletServiceAsyncStub]":
        client = self.clients.client("wallet")
        return client, wallet_pb2_grpc.WalletServiceStub(client.channel)
