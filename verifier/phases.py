"""Whether the time for hashes, and that for seeds, was given in full before somebody was left out.

Whoever closes a phase early can choose whose seeds count, and so the cards.
"""

from collections.abc import Sequence
from typing import Any

from verifier import events as e
from verifier.chain import Row
from verifier.wrong import Wrong

EARLY_US = 100_000
"""A row's time may be behind the database's clock, by which a phase is closed, by this much."""


def check(rows: Sequence[Row], found: Sequence[Any]) -> None:
    """Raise Wrong where a seat was left out of a phase that had not lasted as long as it must.

    `found` are the events of the rows, of which the first is GameOpened.
    """
    opened, began = found[0], rows[0].recorded_at
    awaited = {n for n, seat in enumerate(opened.seats) if seat.bot_level is None}
    committed: set[int] = set()
    for row, event in zip(rows, found, strict=True):
        match event:
            case e.SeedCommitted():
                awaited.discard(event.seat)
                committed.add(event.seat)
            case e.SeedRevealed():
                committed.discard(event.seat)
            case e.CommitsClosed() | e.SeedsClosed():
                left_out = awaited if isinstance(event, e.CommitsClosed) else committed
                if left_out and row.recorded_at + EARLY_US < began + opened.seed_ms * 1_000:
                    raise Wrong(row.version, "a seed was left out before its time was up")
                began = row.recorded_at
            case _:
                pass
