"""Audits of disputes: a log followed step by step, each by the rule it was taken by. Pure."""

from collections.abc import Sequence
from uuid import UUID

from services.game.audit import Fault
from services.game.disputes import Dispute, Standing, decide, decode, evolve
from services.kernel.envelope import Head, Recorded
from services.kernel.errors import Refused
from services.runtime.store import chain
from services.runtime.store.api import Damaged


def dispute_faults(dispute: UUID, rows: Sequence[Recorded], head: Head | None) -> list[Fault]:
    """What is wrong with a dispute's log: its chain, a step that could not follow, its head."""
    broken = chain.verify(rows, head)
    if broken is not None:
        return [Fault(broken.version, "CHAIN_BROKEN", broken.problem)]
    state = Dispute()
    for row in rows:
        try:
            event = decode(row)
            decide(state, event)
        except Damaged:
            return [Fault(row.version, "UNREADABLE", "the event cannot be read")]
        except Refused as refused:
            return [Fault(row.version, "NOT_ALLOWED", f"no dispute takes this: {refused.reason}")]
        state = evolve(state, event, row.recorded_at)
    closed = state.standing is Standing.CLOSED
    if head is not None and head.ended != closed:
        said = "closed" if head.ended else "open"
        return [Fault(head.version, "WRONG_HEAD", f"the head says the dispute is {said}")]
    return []
