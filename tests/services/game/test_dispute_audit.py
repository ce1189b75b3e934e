"""Dispute logs are audited step by step: each must be one that a dispute takes."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from kozyr.game.events.v1 import game_pb2 as stored

from services.game.dispute_audit import dispute_faults
from services.game.disputes import DisputeEvent, encode
from services.kernel.envelope import Append, Head, NewEvent, Recorded
from services.runtime.store.chain import GENESIS
from services.runtime.store.rows import chained
from tests.services.game.logs import GAME_ID, player

DISPUTE = UUID("01890a5d-ac96-874b-bcce-b302099a8057")
OPENED = stored.DisputeOpened(game_id=str(GAME_ID), player_id=player(0), complaint="Hm.")
MOVES = [
    stored.DisputeMove(player_id=player(0), chips=5),
    stored.DisputeMove(player_id=player(1), chips=-5),
]
RULED = stored.DisputeRuled(upheld=True, operator="olga", moves=MOVES, needs_approval=True)
APPROVED = stored.RulingApproved(operator="omar")
PAID = stored.RulingPaid(transfer_id=player(9), claims=[MOVES[0]])
CALLED = stored.ClaimCalled(player_id=player(0), chips=5, operator="olga")
WHOLE: list[DisputeEvent] = [OPENED, RULED, APPROVED, PAID, CALLED]


def rows_of(events: Sequence[NewEvent]) -> list[Recorded]:
    """A dispute's rows, soundly chained, one event an append."""
    rows: list[Recorded] = []
    for number, event in enumerate(events):
        append = Append(DISPUTE, number, (event,), f"r{number}", b"h" * 32)
        rows += chained(append, [None], rows[-1].hash if rows else GENESIS, 1_000 + number)
    return rows


def found(events: Sequence[NewEvent], *, ended: bool) -> list[tuple[int, str]]:
    """What an audit finds in such a log: versions and kinds."""
    rows = rows_of(events)
    head = Head(DISPUTE, len(rows), rows[-1].hash, ended)
    return [(fault.version, fault.kind) for fault in dispute_faults(DISPUTE, rows, head)]


def test_a_dispute_as_it_goes_has_no_fault() -> None:
    """At each of its steps; it is closed once its chips have moved."""
    for length in range(1, len(WHOLE) + 1):
        assert found(list(map(encode, WHOLE[:length])), ended=length >= 4) == []


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([RULED], "NOT_ALLOWED"),
        ([OPENED, OPENED], "NOT_ALLOWED"),
        ([OPENED, APPROVED], "NOT_ALLOWED"),
        ([OPENED, RULED, stored.RulingApproved(operator="olga")], "NOT_ALLOWED"),
        ([OPENED, RULED, PAID], "NOT_ALLOWED"),
        ([OPENED, RULED, RULED], "NOT_ALLOWED"),
        ([OPENED, RULED, APPROVED, stored.RulingWithdrawn(operator="olga")], "NOT_ALLOWED"),
        ([*WHOLE, CALLED], "NOT_ALLOWED"),
        ([*WHOLE[:4], stored.ClaimCollected(player_id=player(0), chips=5)], "NOT_ALLOWED"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1].DESCRIPTOR.name,
)
def test_a_step_that_no_dispute_takes_is_a_fault(events: list[DisputeEvent], kind: str) -> None:
    """However well its hashes fit: approval by who ruled, payment before approval, and so on."""
    assert found(list(map(encode, events)), ended=False) == [(len(events), kind)]


def test_what_is_no_event_of_a_dispute_is_a_fault() -> None:
    """A foreign name, and octets that are none of its shape."""
    for strange in (
        NewEvent("dispute.Forgotten", 1, b""),
        NewEvent("dispute.DisputeRuled", 1, b"\xff"),
    ):
        assert found([encode(OPENED), strange], ended=False) == [(2, "UNREADABLE")]


def test_a_head_that_says_otherwise_is_a_fault() -> None:
    """Lists of open disputes go by the head."""
    assert found([encode(OPENED)], ended=True) == [(1, "WRONG_HEAD")]
    assert found(list(map(encode, WHOLE)), ended=False) == [(5, "WRONG_HEAD")]
