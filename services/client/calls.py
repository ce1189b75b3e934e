"""Calls that outlast a restart: repeated with the same request id until there is an answer.

Every failure is `services.kernel.errors.Refused`, with its reason, the fields it names and how long
to wait. A change keeps its request id however often it is sent, so it acts once.
"""

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from services.kernel.errors import Kind, Refused
from services.runtime.clients import Client
from services.runtime.settings import SERVICES, Settings

R = TypeVar("R")

RETRIED = (Kind.UNAVAILABLE, Kind.EXPIRED)
BACKOFF_FIRST_MS = 100
BACKOFF_MAX_MS = 2_000
FIRST_SECONDS = 2.0
"""A stream that brings nothing at all for so long leads to a replica that is no more."""
SILENCE_SECONDS = 15.0
"""A stream without even a heartbeat for so long is taken up anew, if it did not name a time."""
PATIENCE_MS = 30_000
"""How long a service may be away before the failure is handed on."""


def new_request_id() -> str:
    """A fresh request id."""
    return secrets.token_hex(16)


def name_of(request: Message) -> str:
    """The RPC that takes such a request."""
    return request.DESCRIPTOR.name.removesuffix("Request")


class Backoff:
    """Waits that double up to two seconds, with jitter, until the patience is used up.

    Time is the event loop's; `chance` gives the numbers from 0 to 1 that spread the waits.
    """

    def __init__(
        self,
        patience_ms: int,
        chance: Callable[[], float] = random.random,  # no secret hangs on it
    ) -> None:
        self._patience = patience_ms / 1000
        self._chance = chance
        self._now = asyncio.get_running_loop().time
        self.reset()

    def reset(self) -> None:
        """Something went well: begin again."""
        self._wait_ms = BACKOFF_FIRST_MS
        self._until = self._now() + self._patience

    async def wait(self, failure: Refused) -> None:
        """Wait before the next try; raises `failure` when patience has run out."""
        # Spreads clients that lost the same server, never before the time they were told.
        chance = self._chance()
        own, told = self._wait_ms * (1 + chance) / 2, failure.retry_after_ms or 0
        wait = max(own, told * (1 + chance / 4)) / 1000
        if self._now() + wait > self._until:
            raise failure
        await asyncio.sleep(wait)
        self._wait_ms = min(2 * self._wait_ms, BACKOFF_MAX_MS)


class Silence:
    """How long a stream may be silent, in seconds, by the message it brought last.

    `promised` tells it of a message. At its start a stream has two seconds; each time it brought
    nothing the next one has twice as long, so that a service with too much to do is not asked ever
    again for what it has begun.
    """

    def __init__(self, promised: Callable[[Any], float]) -> None:
        self._promised = promised
        self._first = FIRST_SECONDS

    def __call__(self, message: Any) -> float:
        """The time until the message after this one; None: until the first."""
        if message is not None:
            self._first = FIRST_SECONDS
            return self._promised(message)
        now, self._first = self._first, min(2 * self._first, SILENCE_SECONDS)
        return now


class Caller:
    """Clients to the four services that send one caller's token and keep trying for a while.

    `token` gives the token to send, None for none; `patience_ms` bounds how long a service may be
    away before the failure is handed on. The first try of a call waits `prompt_ms` for an answer,
    each later one twice as long, up to `peer_timeout_ms` of the settings.
    """

    def __init__(
        self,
        settings: Settings,
        token: Callable[[], str | None] = lambda: None,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self.patience_ms = patience_ms
        self.prompt_ms = self.answer_ms = settings.peer_timeout_ms
        self.dropped: Counter[str] = Counter()
        """Messages of a game's streams that came twice, other than a snapshot at a new start."""
        self.repeated: Counter[str] = Counter()
        """Calls sent again and streams taken up anew: how often each, with the reason."""
        self._clients = {
            name: Client(settings.address(name), settings, token, service=name) for name in SERVICES
        }

    def stub(self, service: str, make: Callable[[Any], R]) -> R:
        """A stub on the service's channel."""
        return make(self._clients[service].channel)

    async def call(self, service: str, method: Any, request: Any) -> Any:
        """Call a unary RPC, again and with the same request while the service is away.

        A request with an empty `request_id` is given one first. Raises Refused.
        """
        if "request_id" in request.DESCRIPTOR.fields_by_name and not request.request_id:
            request.request_id = new_request_id()
        backoff, timeout_ms = Backoff(self.patience_ms), self.prompt_ms
        while True:
            try:
                return await self._clients[service].call(method, request, timeout_ms)
            except Refused as refused:
                if refused.kind not in RETRIED and refused.retry_after_ms is None:
                    raise
                self.repeated[f"{name_of(request)} {refused.reason}"] += 1
                await backoff.wait(refused)
                timeout_ms = min(2 * timeout_ms, self.answer_ms)

    def stream(
        self,
        service: str,
        method: Any,
        request: Message,
        silence: Callable[[Any], float | None] = lambda _: None,
    ) -> AsyncGenerator[Any, None]:
        """One try of a server stream; raises Refused when it breaks.

        `silence` says after each message (None: at first) for how many seconds it may be silent.
        """
        return self._clients[service].stream(method, request, silence)

    async def close(self) -> None:
        """Let all connections go."""
        for client in self._clients.values():
            await client.close()
