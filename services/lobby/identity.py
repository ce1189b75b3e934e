"""IdentityService: guests, their tokens, everybody's names, and their erasure."""

from typing import Any
from uuid import UUID

import grpc
from kozyr.lobby.v1 import identity_pb2
from kozyr.lobby.v1.identity_pb2_grpc import IdentityServiceServicer

from services.kernel.errors import denied, invalid, not_found
from services.lobby.accounts import Accounts
from services.lobby.erasing import Erasing
from services.lobby.erasures import Erasures, Wish
from services.lobby.players import (
    NAME_MAX,
    SIGN_UP_REQUEST_MIN,
    Players,
    Refreshing,
    display_name,
)
from services.lobby.views import erasure_view, player_view
from services.runtime import validate
from services.runtime.auth import Role
from services.runtime.call import caller, whose
from services.runtime.moments import timestamp
from services.runtime.seal import open_page, seal_page
from services.runtime.tokens import RingSigner

PLAYERS_MAX = 100
"""The most players whose names one call asks for."""
SECRET_MAX = 64
"""Longest secret or refresh token accepted, in characters; ours have 43."""

CONFIRM_MAX = 4 * NAME_MAX
"""Longest confirming name, in characters: before it is composed it may be longer than a name."""

Context = grpc.aio.ServicerContext[Any, Any]


class Identity(IdentityServiceServicer):
    """One method an RPC. `signer` issues players' access tokens of `token_ms` milliseconds."""

    def __init__(
        self,
        players: Players,
        accounts: Accounts,
        signer: RingSigner,
        token_ms: int,
        erasures: Erasures,
        erasing: Erasing,
        seal_key: bytes,
    ) -> None:
        self._players = players
        self._accounts = accounts
        self._signer = signer
        self._token_ms = token_ms
        self._erasures = erasures
        self._erasing = erasing
        self._seal_key = seal_key

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

    async def GetProfile(
        self, request: identity_pb2.GetProfileRequest, context: Context
    ) -> identity_pb2.GetProfileResponse:
        """What the lobby holds of a player beside tables."""
        player = whose(request.player_id)
        profile = await self._players.profile(player)
        erasure = await self._erasures.find(player)
        response = identity_pb2.GetProfileResponse()
        if profile is not None:
            response.player.CopyFrom(player_view(profile.player))
            response.created_time.CopyFrom(timestamp(profile.created_at))
            for end in profile.sessions:
                response.sessions.add(expire_time=timestamp(end))
        elif erasure is not None:
            (former,) = (await self._players.find([player])).values()
            response.player.CopyFrom(player_view(former))
        else:
            raise not_found("PLAYER_NOT_FOUND", "there is no such player")
        if erasure is not None:
            response.erasure.CopyFrom(erasure_view(erasure, operator=_is_operator()))
        return response

    async def ErasePlayer(
        self, request: identity_pb2.ErasePlayerRequest, context: Context
    ) -> identity_pb2.ErasePlayerResponse:
        """Erase the caller, or as an operator any player."""
        player, operator = whose(request.player_id), _is_operator()
        if request.leave_claims and not operator:
            raise denied("OPERATORS_ONLY", "only an operator may leave claims uncollected")
        wish = Wish(
            player=player,
            name=validate.text("confirm_name", request.confirm_name, high=CONFIRM_MAX),
            by=caller().subject if operator else "",
            give_up_chips=request.give_up_chips,
            leave_claims=request.leave_claims,
        )
        erasure = await self._erasing.erase(wish)
        return identity_pb2.ErasePlayerResponse(erasure=erasure_view(erasure, operator=operator))

    async def ListErasures(
        self, request: identity_pb2.ListErasuresRequest, context: Context
    ) -> identity_pb2.ListErasuresResponse:
        """A page of erasures."""
        size, bound = validate.page_size(request.page_size), (request.open,)
        fields = open_page(self._seal_key, "erasures", bound, request.page_token)
        before = (int(fields[0] or 0), UUID(str(fields[1]))) if fields else None
        found = await self._erasures.page(before, size + 1, unfinished=request.open)
        page = identity_pb2.ListErasuresResponse(
            erasures=[erasure_view(each, operator=True) for each in found[:size]]
        )
        if len(found) > size:
            last = (found[size - 1].asked_at, str(found[size - 1].player))
            page.next_page_token = seal_page(self._seal_key, "erasures", bound, last)
        return page

    def _tokens(self, player: str, refresh: Refreshing) -> identity_pb2.Tokens:
        expires_at = int(self._signer.now()) + self._token_ms // 1_000
        access = self._signer.issue(player, self._token_ms)
        tokens = identity_pb2.Tokens(access_token=access, refresh_token=refresh.token)
        tokens.access_expire_time.FromSeconds(expires_at)
        tokens.refresh_expire_time.CopyFrom(timestamp(refresh.expires_at))
        return tokens


def _is_operator() -> bool:
    return caller().role is Role.OPERATOR
