"""Appends for tests, short to write."""

import asyncio
import hashlib
from uuid import UUID

from services.kernel.envelope import Append, Appended, NewEvent, Plan
from services.runtime.store.sql import SqlStore

STREAM = UUID("018bcfe5-6800-7000-8000-000000000001")
OTHER = UUID("018bcfe5-6800-7000-8000-000000000002")


def numbered(number: int) -> UUID:
    """A stream id that sorts by its number."""
    return UUID(int=STREAM.int + number)


def events(*names: str, secret: bytes | None = None) -> tuple[NewEvent, ...]:
    """Events with these names; the first carries the secret."""
    return tuple(
        NewEvent(name, 1, f"payload of {name}".encode(), None if place else secret)
        for place, name in enumerate(names)
    )


def body(text: str) -> bytes:
    """The hash of a request's body."""
    return hashlib.sha256(text.encode()).digest()


def append(
    expected: int,
    *names: str,
    request: str | None = None,
    stream: UUID = STREAM,
    said: str = "body",
    secret: bytes | None = None,
    plan: Plan = Plan(),  # noqa: B008 - frozen
    not_after: int | None = None,
) -> Append:
    """An append of named events after version `expected`."""
    return Append(
        stream=stream,
        expected=expected,
        events=events(*(names or ("Happened",)), secret=secret),
        request_id=request or f"request-{expected}",
        body_hash=body(said),
        metadata=b"by seat 1",
        plan=plan,
        not_after=not_after,
    )


async def together(store: SqlStore, *appends: Append) -> list[Appended | BaseException]:
    """What becomes of appends that are sent at once, so that they share a batch."""
    return await asyncio.gather(*map(store.append, appends), return_exceptions=True)
