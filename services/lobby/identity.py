"""IdentityService: guests, their tokens, and everybody's names."""

from typing import Any

import grpc
from kozyr.lobby.v1 import identity_pb2
from kozyr.lobby.v1.identity_pb2_grpc import IdentityServiceServicer

from services.kernel.errors import invalid
from services.lobby.accounts import Accounts
from services.lobby.players import SIGN_UP_REQUEST_MIN, Players, Refreshing, display_name
from services.lobby.views import player_view
from services.runtime import validate
from services.runtime.moments import timestamp
from services.runtime.tokens import Signer

PLAYERS_MAX = 100
"""The most players whose names one call asks for."""
SECRET_MAX = 64
"""Longest secret or refresh token accepted, in characters; ours have 43."""

Context = grpc.aio.ServicerContext[Any, Any]


class Identity(IdentityServiceServicer):
    """One method an RPC. `signer` issues players' access tokens of `token_ms` milliseconds."""

    def __init__(self, players: Players, accounts: Accounts, signer: Signer, token_ms: int) -> None:
        self._players = players
        self._accounts = accounts
        self._signer = signer
        self._token_ms = token_ms

    async def SignUp(
        self, request: identity_pb2.SignUpRequest, context: Context
    ) -> identity_pb2.SignUpResponse:
        """Make a guest; his wallet account is opened now, or by `Accounts.run` later."""
        if len(request.request_id) < SIGN_UP_REQUEST_MIN:
            raise invalid("request_id", f"at least {SIGN_UP_REQUEST_MIN} characters")
        name = display_name(request.display_name)
        made = await self._players.sign_up(name, request.request_id)
        await self._accounts.welcome(made.player.player)
        return identity_pb2.SignUpResponse(
            player=player_view(made.player),
            secret=made.secret,
            tokens=self._tokens(str(made.player.player), made.refresh),
        )

    async def SignIn(
        self, request: identity_pb2.SignInRequest, context: Context
    ) -> identity_pb2.SignInResponse:
        """Give tokens for an account's secret."""
        player_id = validate.uuid("player_id", request.player_id)
        secret = validate.text("secret", request.secret, high=SECRET_MAX)
        player, refresh = await self._players.sign_in(player_id, secret)
        tokens = self._tokens(str(player.player), refresh)
        return identity_pb2.SignInResponse(player=player_view(player), tokens=tokens)

    async def Refresh(
        self, request: identity_pb2.RefreshRequest, context: Context
    ) -> identity_pb2.RefreshResponse:
        """Trade a refresh token."""
        token = validate.text("refresh_token", request.refresh_token, high=SECRET_MAX)
        player, refresh = await self._players.refresh(token)
        return identity_pb2.RefreshResponse(tokens=self._tokens(str(player), refresh))

    async def ListPlayers(
        self, request: identity_pb2.ListPlayersRequest, context: Context
    ) -> identity_pb2.ListPlayersResponse:
        """Names of players, in the order asked for; unknown ones are left out."""
        if not 1 <= len(request.player_ids) <= PLAYERS_MAX:
            raise invalid("player_ids", f"1 to {PLAYERS_MAX} of them")
        ids = [validate.uuid(f"player_ids[{i}]", text) for i, text in enumerate(request.player_ids)]
        found = await self._players.find(ids)
        return identity_pb2.ListPlayersResponse(
            players=[player_view(found[player]) for player in ids if player in found]
        )

    def _tokens(self, player: str, refresh: Refreshing) -> identity_pb2.Tokens:
        expires_at = int(self._signer.now()) + self._token_ms // 1_000
        access = self._signer.issue(player, self._token_ms)
        tokens = identity_pb2.Tokens(access_token=access, refresh_token=refresh.token)
        tokens.access_expire_time.FromSeconds(expires_at)
        tokens.refresh_expire_time.CopyFrom(timestamp(refresh.expires_at))
        return tokens
