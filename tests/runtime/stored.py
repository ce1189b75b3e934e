"""Proof that a stream is what was stored."""

from uuid import UUID

from services.runtime.store.api import Damaged, Store
from services.runtime.store.chain import Fault, verify


async def verify_stream(store: Store, stream: UUID) -> Fault | None:
    """What is wrong with a stream's rows, secrets and head; None if all is as it was stored.

    Version 0 stands for the stream as a whole. Raises StoreUnavailable and KeyUnknown.
    """
    try:
        head, rows = await store.whole(stream)
    except Damaged as damage:
        return Fault(damage.stream, damage.version, damage.problem)
    if head is None:
        return Fault(stream, 0, "there is no head") if rows else None
    return verify(rows, head)
