"""The running RPC: its request id, caller, deadline, and what its log line should say."""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from services.kernel.errors import Kind, Refused, denied
from services.kernel.ids import parse_uuid
from services.runtime import validate
from services.runtime.auth import ANYONE, Caller, Role
from services.runtime.origin import NOWHERE

if TYPE_CHECKING:
    from services.runtime.spans import Span


@dataclass(slots=True)
class Call:
    """One RPC while it runs: `headers` are what is looked at of its metadata, `address` is where it
    comes from (`origin.py`), `deadline` on the monotonic clock, in seconds, `span` its part of a
    trace, where it is traced."""

    method: str
    request_id: str
    caller: Caller = ANYONE
    deadline: float | None = None
    reason: str | None = None
    cancelled: bool = False
    game: str | None = None
    table: str | None = None
    version: int | None = None
    address: str = NOWHERE
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # a token is among them
    span: "Span | None" = None
    started: float = field(default_factory=time.monotonic)

    def remaining_ms(self) -> int | None:
        """Time left before the caller stops waiting; None if it waits for ever."""
        if self.deadline is None:
            return None
        return max(0, int((self.deadline - time.monotonic()) * 1000))


_CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)


def current() -> Call | None:
    """The RPC this code runs for, or None (background work)."""
    return _CURRENT.get()


def running() -> Call:
    """The RPC this code runs for; only within one."""
    call = _CURRENT.get()
    assert call is not None  # noqa: S101 - a handler is run after `begin`
    return call


def begin(call: Call) -> None:
    """Make `call` the current one of this task and of tasks it starts."""
    _CURRENT.set(call)


def caller() -> Caller:
    """Who makes the running RPC; `ANYONE` outside of one."""
    call = _CURRENT.get()
    return ANYONE if call is None else call.caller


def address() -> str:
    """Where the running RPC comes from (`origin.py`); `local` outside of one."""
    call = _CURRENT.get()
    return NOWHERE if call is None else call.address


def player() -> UUID:
    """The player who makes the running RPC, one for players; raises Refused TOKEN_INVALID."""
    found = parse_uuid(caller().subject)
    if found is None:
        raise Refused(Kind.UNAUTHENTICATED, "TOKEN_INVALID", "the token names no player")
    return found


def whose(player_id: str) -> UUID:
    """The player meant by a request's `player_id`: the caller himself, any for operators.

    Decided before anything is looked up. Raises Refused NOT_YOURS for another's.
    """
    if caller().role is not Role.PLAYER:
        return validate.uuid("player_id", player_id)
    if player_id not in ("", caller().subject):
        raise denied("NOT_YOURS", "players see what is their own only")
    return player()


def note(
    game: UUID | str | None = None, version: int | None = None, table: UUID | None = None
) -> None:
    """Say in the RPC's log line which game or table it was about, at which version of it."""
    call = _CURRENT.get()
    if call is not None:
        call.game = call.game if game is None else str(game)
        call.table = call.table if table is None else str(table)
        call.version = call.version if version is None else version
