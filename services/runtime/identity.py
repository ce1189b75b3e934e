"""Whose certificate a connection shows, and what may be said over it.

With TLS between services (`certificates.py`) a caller shows a certificate and a token. A service
speaks over a certificate with its own name and over no other; over that it speaks for nobody else.
The edge hands on what players say, and nothing of services or operators. Whoever needs no token
(health, public calls) is whose certificate it may be.
"""

from typing import Any, TypeAlias, assert_never

import grpc

from services.kernel.errors import denied
from services.runtime.auth import Caller, Role
from services.runtime.settings import SERVICES

EDGE = "edge"
"""The name in the certificate by which the edge calls services."""
_NAMES = "peer_dns"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


def shown(context: Context) -> frozenset[str]:
    """The names (DNS) in the certificate of a call's connection; none where it shows none.

    Read at every call that has a token (6 µs): the address of a connection would not do as a key,
    because the next one from there may be another's.
    """
    names: Any = context.auth_context().get(_NAMES, ())
    return frozenset(name.decode("ascii", "replace") for name in names)


def agree(caller: Caller, names: frozenset[str]) -> None:
    """Raise Refused (PERMISSION_DENIED CERTIFICATE_MISMATCH) unless `caller` may speak over a
    certificate of these names.

    >>> agree(Caller(Role.SERVICE, "game", 0), frozenset({"game", "game-headless"}))
    """
    if not _may_speak(caller, names):
        raise denied("CERTIFICATE_MISMATCH", "not over the certificate of this connection")


def _may_speak(caller: Caller, names: frozenset[str]) -> bool:
    ours = names.intersection((*SERVICES, EDGE))
    match caller.role:
        case Role.PUBLIC:
            return True
        case Role.SERVICE:
            return ours == {caller.subject}
        case Role.OPERATOR:
            return bool(names) and not ours
        case Role.PLAYER:
            return bool(names) and ours <= {EDGE}
        case _:
            assert_never(caller.role)
