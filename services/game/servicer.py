"""GameService: one method for each RPC. Whether the caller may see a game is decided first."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kozyr.game.v1 import game_pb2, game_pb2_grpc, view_pb2

from services.game import domain, receipts, requests, views
from services.game.accesses import Accesses
from services.game.connections import Connections
from services.game.delays import delay_of
from services.game.export import CHUNK_BYTES
from services.game.games import Games
from services.game.hints import Hints
from services.game.listing import Listing
from services.game.model import State
from services.game.peers import Peers
from services.game.viewers import seat_of, viewer_of
from services.game.watching import Watching
from services.runtime.auth import Role
from services.runtime.call import caller, note
from services.runtime.settings import Settings
from services.runtime.signing import acknowledge
from services.runtime.streams import Loaded, Outcome
from services.runtime.wire.framing import nested


class GameServicer(game_pb2_grpc.GameServiceServicer):
    """Games in play."""

    def __init__(
        self,
        games: Games,
        listing: Listing,
        watching: Watching,
        hints: Hints,
        peers: Peers,
        settings: Settings,
        key: Ed25519PrivateKey,
        accesses: Accesses,
        connections: Connections,
    ) -> None:
        self._games = games
        self._listing = listing
        self._watching = watching
        self._delays = watching.delays
        self._hints = hints
        self._peers = peers
        self._settings = settings
        self._key = key
        self._accesses = accesses
        self._connections = connections

    async def CreateGame(
        self, request: game_pb2.CreateGameRequest, context: Any
    ) -> game_pb2.CreateGameResponse:
        """Bind the chips, then open the game."""
        command = requests.open_command(request, self._settings)
        await self._games.require_room(command, self._settings.games_per_player_max)
        pin = requests.pin_request(command)
        if pin is not None:
            domain.check_setup(command)
            await self._peers.pin(pin)
        outcome = await self._games.change(command.game_id, command, request, scope="lobby")
        return game_pb2.CreateGameResponse(version=outcome.appended.version)

    async def CancelGame(
        self, request: game_pb2.CancelGameRequest, context: Any
    ) -> game_pb2.CancelGameResponse:
        """Lay a tombstone, unless the game has opened."""
        game_id = requests.new_game_id("game_id", request.game_id)
        return game_pb2.CancelGameResponse(opened=await self._games.cancel(game_id, request))

    async def GetGame(
        self, request: game_pb2.GetGameRequest, context: Any
    ) -> game_pb2.GetGameResponse:
        """The caller's view, with history if asked for."""
        loaded = await self._load(request.game_id)
        viewer = viewer_of(loaded.state, caller())
        await self._accesses.note(loaded.state.game_id)
        now = None if delay_of(loaded.state, viewer) else self._games.now()
        loaded = await self._delays.seen(loaded, viewer)
        view = views.game_view(loaded.state, viewer, loaded.hash, now)
        response = game_pb2.GetGameResponse(view=view)
        if request.history:
            response.history.extend(await self._games.history(loaded.state, viewer))
        return response

    async def ListGames(
        self, request: game_pb2.ListGamesRequest, context: Any
    ) -> game_pb2.ListGamesResponse:
        """A page of games."""
        return await self._listing.page(request, caller())

    async def CommitSeed(
        self, request: game_pb2.CommitSeedRequest, context: Any
    ) -> game_pb2.CommitSeedResponse:
        """Take a seed's hash and acknowledge it under the service's signature."""
        loaded = await self._seated(request.game_id)
        seat = seat_of(loaded.state, caller())
        command = domain.CommitSeed(seat, request.hash)
        outcome = await self._games.play(loaded.state, seat, command, request)
        row = outcome.appended.events[0]
        signature = acknowledge(self._key, loaded.state.game_id, seat, request.hash, row.hash)
        return game_pb2.CommitSeedResponse(
            seat=seat, version=row.version, head=row.hash, signature=signature
        )

    async def RevealSeed(
        self, request: game_pb2.RevealSeedRequest, context: Any
    ) -> game_pb2.RevealSeedResponse:
        """Take a seed."""
        loaded = await self._seated(request.game_id)
        seat = seat_of(loaded.state, caller())
        command = domain.RevealSeed(seat, request.seed)
        outcome = await self._games.play(loaded.state, seat, command, request)
        return game_pb2.RevealSeedResponse(version=outcome.appended.events[0].version)

    async def SubmitMove(self, request: game_pb2.SubmitMoveRequest, context: Any) -> Any:
        """Make a move; the answer's octets, which may hold what is sent to watchers as well."""
        loaded = await self._seated(request.game_id)
        seat = seat_of(loaded.state, caller())
        move = requests.move_of(loaded.state, request.move)
        command = domain.Play(seat, request.turn, move)
        outcome = await self._games.play(loaded.state, seat, command, request)
        version = outcome.appended.version
        now = self._games.now()
        view = self._watching.steps.view(loaded.state.game_id, version, seat, now)
        if view is None:
            common = views.common_octets(outcome.state, outcome.appended.events[-1].hash)
            clock = views.clock_octets(outcome.state, now)
            view = common + clock + views.own_octets(outcome.state, seat)
        return nested(game_pb2.SubmitMoveResponse.VIEW_FIELD_NUMBER, view)

    async def LeaveGame(
        self, request: game_pb2.LeaveGameRequest, context: Any
    ) -> game_pb2.LeaveGameResponse:
        """Leave for good."""
        loaded = await self._seated(request.game_id)
        seat = seat_of(loaded.state, caller())
        outcome = await self._games.play(loaded.state, seat, domain.LeaveSeat(seat), request)
        return game_pb2.LeaveGameResponse(view=self._view(outcome, seat))

    async def ReturnToSeat(
        self, request: game_pb2.ReturnToSeatRequest, context: Any
    ) -> game_pb2.ReturnToSeatResponse:
        """Play for oneself again."""
        loaded = await self._seated(request.game_id)
        seat = seat_of(loaded.state, caller())
        outcome = await self._games.play(loaded.state, seat, domain.Return(seat), request)
        return game_pb2.ReturnToSeatResponse(view=self._view(outcome, seat))

    async def GetHint(
        self, request: game_pb2.GetHintRequest, context: Any
    ) -> game_pb2.GetHintResponse:
        """A bot's advice to the player who is asked."""
        loaded = await self._load(request.game_id)
        seat = seat_of(loaded.state, caller())
        return await self._hints.hint(loaded, seat, request, caller())

    async def WatchGame(
        self, request: game_pb2.WatchGameRequest, context: Any
    ) -> AsyncIterator[Any]:
        """Follow a game until it ends; yields octets of `WatchGameResponse`."""
        loaded = await self._seated(request.game_id)
        viewer = viewer_of(loaded.state, caller())
        await self._accesses.note(loaded.state.game_id)
        game_id, subject = loaded.state.game_id, caller().key
        seen = self._watching.seen(game_id, subject, request.resume_token)
        with self._connections.open(game_id, viewer):
            async for message in self._watching.follow(game_id, subject, viewer, seen):
                yield message

    async def GetReceipt(
        self, request: game_pb2.GetReceiptRequest, context: Any
    ) -> AsyncIterator[game_pb2.GetReceiptResponse]:
        """What the caller may know of the game, signed, in pieces that fit into a message."""
        loaded = await self._load(request.game_id)
        viewer, auditor = viewer_of(loaded.state, caller()), caller().role is Role.OPERATOR
        await self._accesses.note(loaded.state.game_id)
        state = (await self._delays.seen(loaded, viewer)).state
        rows = await self._games.rows(state.game_id, 0, state.version)
        document = await asyncio.to_thread(
            receipts.document, self._key, state, rows, viewer, auditor=auditor
        )
        for start in range(0, len(document), CHUNK_BYTES):
            yield game_pb2.GetReceiptResponse(chunk=document[start : start + CHUNK_BYTES])

    def _view(self, outcome: Outcome[State], seat: int) -> view_pb2.GameView:
        head = outcome.appended.events[-1].hash
        return views.game_view(outcome.state, seat, head, self._games.now())

    async def _seated(self, game_id: str) -> Loaded[State]:
        """The game at any of its versions, from memory if it is there: who sits where never
        changes, and what is done to the game is judged by its log."""
        return await self._load(game_id, known=0)

    async def _load(self, game_id: str, known: int | None = None) -> Loaded[State]:
        parsed = requests.game_id("game_id", game_id)
        note(game=game_id)
        return await self._games.load(parsed, known)
