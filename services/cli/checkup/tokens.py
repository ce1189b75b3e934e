"""Whether an operator's token is taken, in which role, and whether the services' clocks agree.

A service tells nobody the time. But it refuses a token that was issued later than its own clock,
or has ended by it, beyond the allowed skew: tokens at both edges show on which side it is off.
"""

import os
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

import jwt
from kozyr.ai.v1 import ai_pb2, ai_pb2_grpc
from kozyr.game.v1 import checkpoint_pb2, checkpoint_pb2_grpc
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli.checkup.reachable import PATIENCE_MS
from services.cli.checkup.symptoms import Symptom, age, bad, ok, warn
from services.cli.operators import OPERATOR, TOKEN_MS, TOKEN_VARIABLE, signer
from services.cli.outcome import Failure
from services.kernel.errors import Kind, Refused
from services.runtime.auth import Role
from services.runtime.clients import Client
from services.runtime.keys import OPERATORS
from services.runtime.settings import Settings

CHECK = "token"
EDGE_MS = 1_000
"""Tokens tell time in whole seconds."""
ASKED: dict[str, tuple[Any, str, Any]] = {
    "lobby": (
        identity_pb2_grpc.IdentityServiceStub,
        "ListErasures",
        identity_pb2.ListErasuresRequest(open=True, page_size=1),
    ),
    "game": (
        checkpoint_pb2_grpc.CheckpointServiceStub,
        "ListCheckpoints",
        checkpoint_pb2.ListCheckpointsRequest(newest=True),
    ),
    "ai": (ai_pb2_grpc.AiServiceStub, "ListBots", ai_pb2.ListBotsRequest()),
    "wallet": (
        wallet_pb2_grpc.WalletServiceStub,
        "ListReservations",
        wallet_pb2.ListReservationsRequest(game_id=str(UUID(int=0))),
    ),
}
"""What an operator may ask of each service that costs next to nothing and is not recorded."""


def issue(settings: Settings) -> tuple[str | None, Symptom]:
    """The token to call with, and what it says of its holder; never the token itself."""
    token = os.environ.get(TOKEN_VARIABLE)
    whence = TOKEN_VARIABLE if token else "signed with the operators' key of this folder"
    if not token:
        try:
            token = _signed(settings, 0, TOKEN_MS)
        except Failure:
            return None, warn(
                CHECK,
                f"there is no {TOKEN_VARIABLE} and no operators' key here: what only operators "
                "are told was not looked at",
                f"give a token: {TOKEN_VARIABLE}=$(kozyr token operator), made where the key is",
            )
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        role, subject, left_ms = (
            claims["role"],
            claims["sub"],
            1_000 * (claims["exp"] - time.time()),
        )
    except (jwt.PyJWTError, KeyError, TypeError):
        return None, bad(
            CHECK, f"what {TOKEN_VARIABLE} holds is no token", "`kozyr token operator`"
        )
    if role != Role.OPERATOR:
        return None, bad(
            CHECK,
            f"{TOKEN_VARIABLE} is {subject}'s, in the role {role}",
            "`kozyr token operator` makes an operator's",
        )
    if left_ms <= 0:
        return None, bad(CHECK, f"{TOKEN_VARIABLE} has ended", "`kozyr token operator`")
    return token, ok(CHECK, f"operator {subject} for {age(left_ms)}, {whence}")


async def taken(settings: Settings, name: str, token: str) -> Symptom:
    """Whether a service takes the token, and whether its clock is this machine's."""
    check = f"clock {name}"
    if os.environ.get(TOKEN_VARIABLE):
        refused = await _refusal(settings, name, token)
        return _judged(check, name, refused, "it takes this token; how its clock is was not seen")
    skew = settings.clock_skew_ms
    known = await _refusal(settings, name, _signed(settings, -TOKEN_MS / 2, TOKEN_MS))
    if known is not None:
        return _judged(check, name, known, "")
    if await _refusal(settings, name, _signed(settings, 0, TOKEN_MS)) is not None:
        return _off(check, name, f"more than {skew} ms behind")
    ending = _signed(settings, -TOKEN_MS, TOKEN_MS + 2 * EDGE_MS)
    if await _refusal(settings, name, ending) is not None:
        return _off(check, name, f"more than {skew} ms ahead of")
    return ok(check, f"within {skew + EDGE_MS} ms of this machine's, and it takes our token")


def _signed(settings: Settings, shift_ms: float, lifetime_ms: int) -> str:
    """A token as it would have been issued at another moment."""
    by = replace(signer(settings, OPERATORS), now=lambda: time.time() + shift_ms / 1_000)
    return by.issue(OPERATOR, lifetime_ms)


def _judged(check: str, name: str, refused: Refused | None, fine: str) -> Symptom:
    """What it means that a service refuses a token that is good here."""
    if refused is None:
        return ok(check, fine)
    if refused.kind is not Kind.UNAUTHENTICATED:
        return bad(check, f"{name} refuses operators ({refused.reason})", f"see `service {name}`")
    return bad(
        check,
        f"{name} refuses our token ({refused.reason})",
        "its clock is far off, or its key folder lacks the operators.pub that goes with our key: "
        "see `published keys`, and set the clocks of all machines by one source (NTP)",
    )


def _off(check: str, name: str, how: str) -> Symptom:
    return bad(
        check,
        f"the clock of {name} is {how} this machine's",
        "set the clocks of all machines by one source (NTP); tokens are refused meanwhile",
    )


async def _refusal(settings: Settings, name: str, token: str) -> Refused | None:
    """Why a service turns a token away; None if it does not, whatever it answers."""
    make, method, request = ASKED[name]
    client = Client(settings.address(name), settings, lambda: token, PATIENCE_MS, name)
    try:
        await client.call(getattr(make(client.channel), method), request)
    except Refused as refused:
        denied = (Kind.UNAUTHENTICATED, Kind.DENIED, Kind.UNAVAILABLE, Kind.EXPIRED)
        return refused if refused.kind in denied else None
    finally:
        await client.close()
    return None
