"""Who calls, and who may: callers, roles and rows of the access table.

`services.runtime.call.caller()` gives the caller of the running RPC everywhere below its handler.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from google.protobuf.message import Message

from services.kernel.errors import Kind, Refused, denied


class Role(StrEnum):
    """What a caller is. Only `PUBLIC` has shown no token."""

    PUBLIC = "public"
    PLAYER = "player"
    OPERATOR = "operator"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a player's id, an operator's name or a service's name; expiry in Unix seconds.

    `session` names the sign-in a player's token came from; tokens of release 0.1.0 do not.
    """

    role: Role
    subject: str
    expires_at: int
    session: str = ""
    key: str = field(init=False, repr=False, compare=False)
    """`role:subject`, unique over all callers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.role.value}:{self.subject}")


ANYONE = Caller(Role.PUBLIC, "", 0)
"""A caller without a token."""


@dataclass(frozen=True, slots=True)
class Access:
    """A row of the access table: who may call an RPC.

    `cost` is what a call takes from its caller's rate limit; dear calls (signing up) cost more.
    `dear` is a field of the request that makes it as dear as `dear_cost`, where it is set.
    `limited` is false for what must always be answered. `items` bounds the repeated fields of a
    request; services may send larger ones.
    """

    roles: frozenset[Role]
    services: frozenset[str]
    cost: float = 1.0
    limited: bool = True
    items: int = 256
    dear: str = ""
    dear_cost: float = 0.0

    def more(self, request: Message) -> float:
        """What this request costs beside what every call of the RPC does; of rows with `dear`."""
        return self.dear_cost - self.cost if getattr(request, self.dear) else 0.0

    @property
    def public(self) -> bool:
        """Whether a token is not needed."""
        return Role.PUBLIC in self.roles

    def check(self, caller: Caller) -> None:
        """Raise Refused (UNAUTHENTICATED TOKEN_MISSING, PERMISSION_DENIED ROLE_NOT_ALLOWED)."""
        if caller.role in self.roles or self.public:
            return
        if caller.role is Role.PUBLIC:
            raise Refused(Kind.UNAUTHENTICATED, "TOKEN_MISSING", "a token is needed")
        if caller.role is Role.SERVICE and caller.subject in self.services:
            return
        raise denied("ROLE_NOT_ALLOWED", f"not a call for {caller.role.value}s")


def allow(
    *who: str,
    cost: float = 1.0,
    limited: bool = True,
    items: int = 256,
    dear: tuple[str, float] = ("", 0.0),
) -> Access:
    """A row: any of `public`, `player`, `operator`, `service:<name>`.

    >>> allow("player", "service:game").services
    frozenset({'game'})
    """
    roles = frozenset(Role(w) for w in who if not w.startswith("service:"))
    if Role.SERVICE in roles or not who:
        raise ValueError("say who: public, player, operator or service:<name>")
    services = frozenset(w.removeprefix("service:") for w in who if w.startswith("service:"))
    return Access(roles, services, cost, limited, items, *dear)
