"""IdentityService: accounts, how one signs in to them, everybody's names, and their erasure."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import grpc
from kozyr.lobby.v1 import identity_pb2
from kozyr.lobby.v1.identity_pb2_grpc import IdentityServiceServicer

from services.kernel.errors import denied, invalid, not_found, precondition
from services.kernel.ids import REQUEST_ID_MAX, parse_uuid
from services.lobby.accounts import Accounts
from services.lobby.challenges import Challenges
from services.lobby.devices import KEY_BYTES, SIGNATURE_BYTES, Devices, usable
from services.lobby.erasing import Erasing
from services.lobby.erasures import Erasures, Wish
from services.lobby.externals import BOUND as EXTERNAL
from services.lobby.externals import LINK, Externals
from services.lobby.logins import Logins, login_name, wanted
from services.lobby.passwords import PASSWORD_MAX
from services.lobby.players import NAME_MAX, SIGN_UP_REQUEST_MIN, Players, display_name
from services.lobby.sessions import Refreshing
from services.lobby.views import device_view, erasure_view, player_view, session_view
from services.runtime import validate
from services.runtime.auth import Role
from services.runtime.call import address, caller, player, whose
from services.runtime.keys import ISSUERS, PLAYERS
from services.runtime.moments import timestamp
from services.runtime.seal import open_page, seal_page
from services.runtime.tokens import RingSigner

PLAYERS_MAX = 100
"""The most players whose names one call asks for."""
SECRET_MAX = 64
"""Longest secret or refresh token accepted, in characters; ours have 43."""

CHALLENGE_MAX = 512
"""Longest challenge accepted, in characters."""

CONFIRM_MAX = 4 * NAME_MAX
"""Longest confirming name, in characters: before it is composed it may be longer than a name."""

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Doors:
    """The ways to sign in beside an account's secret."""

    logins: Logins
    devices: Devices
    externals: Externals
    challenges: Challenges


class Identity(IdentityServiceServicer):
    """One method an RPC. `signer` issues players' access tokens of `token_ms` milliseconds."""

    def __init__(
        self,
        players: Players,
        doors: Doors,
        accounts: Accounts,
        signer: RingSigner,
        token_ms: int,
        erasures: Erasures,
        erasing: Erasing,
        seal_key: bytes,
    ) -> None:
        self._players = players
        self._doors = doors
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
        called = _device_name(request.device_name)
        made = await self._players.sign_up(name, request.request_id, called)
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
        called = _device_name(request.device_name)
        player, refresh = await self._players.sign_in(player_id, secret, called)
        tokens = self._tokens(str(player.player), refresh)
        return identity_pb2.SignInResponse(player=player_view(player), tokens=tokens)

    async def SignInWithPassword(
        self, request: identity_pb2.SignInWithPasswordRequest, context: Context
    ) -> identity_pb2.SignInWithPasswordResponse:
        """Give tokens for a login name's password."""
        name = login_name(request.login_name)
        if not 1 <= len(request.password) <= PASSWORD_MAX:
            raise invalid("password", f"must have 1 to {PASSWORD_MAX} characters")
        player, refresh = await self._doors.logins.sign_in(
            name, request.password, address(), _device_name(request.device_name)
        )
        return identity_pb2.SignInWithPasswordResponse(
            player=player_view(player), tokens=self._tokens(str(player.player), refresh)
        )

    async def GetChallenge(
        self, request: identity_pb2.GetChallengeRequest, context: Context
    ) -> identity_pb2.GetChallengeResponse:
        """A challenge, stored nowhere."""
        bound: tuple[str, ...] = (EXTERNAL,)
        if request.player_id or request.public_key:
            player_id = str(validate.uuid("player_id", request.player_id))
            bound = (LINK, player_id)
            if request.public_key:
                key = _octets("public_key", request.public_key, KEY_BYTES)
                bound = ("device", player_id, key.hex())
        challenge, expires_at = self._doors.challenges.make(*bound)
        return identity_pb2.GetChallengeResponse(
            challenge=challenge, expire_time=timestamp(expires_at)
        )

    async def SignInWithKey(
        self, request: identity_pb2.SignInWithKeyRequest, context: Context
    ) -> identity_pb2.SignInWithKeyResponse:
        """Give tokens for a device's signature."""
        player, refresh = await self._doors.devices.sign_in(
            validate.uuid("player_id", request.player_id),
            _octets("public_key", request.public_key, KEY_BYTES),
            validate.text("challenge", request.challenge, high=CHALLENGE_MAX),
            _octets("signature", request.signature, SIGNATURE_BYTES),
        )
        return identity_pb2.SignInWithKeyResponse(
            player=player_view(player), tokens=self._tokens(str(player.player), refresh)
        )

    async def SignInExternal(
        self, request: identity_pb2.SignInExternalRequest, context: Context
    ) -> identity_pb2.SignInExternalResponse:
        """Give tokens for an external issuer's id token; a new player is welcomed as a guest is."""
        entered = await self._doors.externals.sign_in(
            _id_token(request.id_token), request.display_name, _device_name(request.device_name)
        )
        if entered.created:
            await self._accounts.welcome(entered.player.player)
        return identity_pb2.SignInExternalResponse(
            player=player_view(entered.player),
            tokens=self._tokens(str(entered.player.player), entered.refresh),
            created=entered.created,
        )

    async def Refresh(
        self, request: identity_pb2.RefreshRequest, context: Context
    ) -> identity_pb2.RefreshResponse:
        """Trade a refresh token."""
        token = validate.text("refresh_token", request.refresh_token, high=SECRET_MAX)
        attempt = request.attempt_id
        if attempt:
            low, high = SIGN_UP_REQUEST_MIN, REQUEST_ID_MAX
            validate.text("attempt_id", attempt, low=low, high=high)
        player, refresh = await self._players.sessions.refresh(token, attempt)
        return identity_pb2.RefreshResponse(tokens=self._tokens(str(player), refresh))

    async def SetPassword(
        self, request: identity_pb2.SetPasswordRequest, context: Context
    ) -> identity_pb2.SetPasswordResponse:
        """Give the caller the login he wants."""
        asked = wanted(request.login_name, request.new_password, request.old_password)
        name = await self._doors.logins.set(
            player(), caller().session, asked, request.request_id, address()
        )
        return identity_pb2.SetPasswordResponse(login_name=name)

    async def RenewSecret(
        self, request: identity_pb2.RenewSecretRequest, context: Context
    ) -> identity_pb2.RenewSecretResponse:
        """Give the caller another secret."""
        secret = await self._players.renew_secret(player(), caller().session)
        return identity_pb2.RenewSecretResponse(secret=secret)

    async def AddDevice(
        self, request: identity_pb2.AddDeviceRequest, context: Context
    ) -> identity_pb2.AddDeviceResponse:
        """Let a key of the caller's sign in."""
        key = _octets("public_key", request.public_key, KEY_BYTES)
        if not usable(key):
            raise invalid("public_key", "is a key that anybody can sign with")
        name = display_name(request.device_name, "device_name")
        device = await self._doors.devices.add(player(), caller().session, name, key)
        return identity_pb2.AddDeviceResponse(device=device_view(device))

    async def RemoveDevice(
        self, request: identity_pb2.RemoveDeviceRequest, context: Context
    ) -> identity_pb2.RemoveDeviceResponse:
        """Let a key of the caller's sign in no longer."""
        device = validate.uuid("device_id", request.device_id)
        await self._doors.devices.remove(player(), caller().session, device)
        return identity_pb2.RemoveDeviceResponse()

    async def LinkExternal(
        self, request: identity_pb2.LinkExternalRequest, context: Context
    ) -> identity_pb2.LinkExternalResponse:
        """Let a subject of the external issuer sign in to the caller's account."""
        known = await self._doors.externals.link(
            player(), caller().session, _id_token(request.id_token)
        )
        return identity_pb2.LinkExternalResponse(
            issuer=known.issuer, created_time=timestamp(known.created_at)
        )

    async def SignOut(
        self, request: identity_pb2.SignOutRequest, context: Context
    ) -> identity_pb2.SignOutResponse:
        """End a session of the caller's."""
        session = validate.optional_uuid("session_id", request.session_id)
        session = session or parse_uuid(caller().session)
        if session is None:
            raise precondition("NO_SESSION", "this token names no session; say which is to end")
        await self._players.sessions.end(player(), session)
        return identity_pb2.SignOutResponse()

    async def SignOutEverywhere(
        self, request: identity_pb2.SignOutEverywhereRequest, context: Context
    ) -> identity_pb2.SignOutEverywhereResponse:
        """End all of the caller's sessions."""
        await self._players.sessions.end(player())
        return identity_pb2.SignOutEverywhereResponse()

    async def GetKeys(
        self, request: identity_pb2.GetKeysRequest, context: Context
    ) -> identity_pb2.GetKeysResponse:
        """An issuer's public keys."""
        issuer = request.issuer or PLAYERS
        if issuer not in ISSUERS:
            raise invalid("issuer", f"one of {', '.join(ISSUERS)}")
        return identity_pb2.GetKeysResponse(jwks=self._signer.ring.jwks(issuer))

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
        known = await self._players.signed_up(player)
        erasure = await self._erasures.find(player)
        response = identity_pb2.GetProfileResponse()
        if known is not None:
            response.player.CopyFrom(player_view(known[0]))
            response.created_time.CopyFrom(timestamp(known[1]))
            await self._tell(player, response)
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

    async def _tell(self, player: UUID, response: identity_pb2.GetProfileResponse) -> None:
        """How a player signs in, and where he is signed in."""
        mine, doors = caller().session, self._doors
        for session in await self._players.sessions.of_player(player):
            response.sessions.append(session_view(session, mine))
        login = await doors.logins.of_player(player)
        if login is not None:
            response.login_name = login.name
            response.login_time.CopyFrom(timestamp(login.changed_at))
        response.devices.extend(map(device_view, await doors.devices.of_player(player)))
        for known in await doors.externals.of_player(player):
            response.externals.add(issuer=known.issuer, created_time=timestamp(known.created_at))

    def _tokens(self, player: str, refresh: Refreshing) -> identity_pb2.Tokens:
        expires_at = int(self._signer.now()) + self._token_ms // 1_000
        access = self._signer.issue(player, self._token_ms, str(refresh.session))
        tokens = identity_pb2.Tokens(access_token=access, refresh_token=refresh.token)
        tokens.access_expire_time.FromSeconds(expires_at)
        tokens.refresh_expire_time.CopyFrom(timestamp(refresh.expires_at))
        return tokens


def _is_operator() -> bool:
    return caller().role is Role.OPERATOR


def _device_name(text: str) -> str:
    """What a session is called; raises Refused naming the field."""
    return display_name(text, "device_name") if text else ""


def _id_token(octets: bytes) -> str:
    """An external issuer's token; raises Refused naming the field."""
    if not octets.isascii():
        raise invalid("id_token", "ASCII only")
    return octets.decode("ascii")


def _octets(field: str, value: bytes, count: int) -> bytes:
    """So many octets; raises Refused naming the field."""
    if len(value) != count:
        raise invalid(field, f"must have {count} bytes")
    return value
