"""Lost connections in short: whole games, told once and in order, from one replica to the other.

`make drops` plays a hundred of each kind. A failure prints the seed that replays it.
"""

import random
from pathlib import Path

import pytest
from kozyr.game.v1 import view_pb2

from services.client.driving import Seen
from tests.drops.drops import SHORT, Outcome, Tally, drops, judge


async def test_drops_leave_nothing_out_and_tell_nothing_twice(
    tmp_path: Path, postgres_url: str
) -> None:
    """A game of each kind whose players' lines are cut and fall silent: every version once and in
    order, or a snapshot that says which it stands for, and all of it as the log has it."""
    seed = random.randrange(10**6)
    outcome = await drops(tmp_path, postgres_url, seed, SHORT, lambda _: None)
    assert outcome.held, "\n".join([f"seed {seed}", *outcome.table()])


def happening(deal: int) -> view_pb2.Happening:
    """Something that happened."""
    return view_pb2.Happening(deal_seeded=view_pb2.DealSeeded(deal=deal))


LOG = [happening(deal) for deal in range(1, 5)]
ENDED = view_pb2.GameView(version=9, stage=view_pb2.STAGE_FINISHED)


@pytest.mark.parametrize(
    ("seen", "twice", "wrong"),
    [
        (Seen(happenings=LOG[1:], last=ENDED), 0, []),
        (Seen(happenings=LOG[1:], last=ENDED, gaps=[4]), 0, ["version twice, out of order"]),
        (Seen(happenings=LOG[1:], last=ENDED), 2, ["sent twice"]),
        (Seen(happenings=LOG[1:]), 0, ["not finished"]),
        (Seen(happenings=[LOG[1], LOG[3]], last=ENDED), 0, ["told otherwise"]),
        (Seen(happenings=[*LOG[1:], LOG[3]], last=ENDED), 0, ["told otherwise"]),
        (Seen(happenings=LOG[1:3], last=ENDED), 0, ["told otherwise"]),
        (Seen(last=ENDED), 0, ["told otherwise"]),
    ],
)
def test_what_was_told_otherwise_is_found(seen: Seen, twice: int, wrong: list[str]) -> None:
    """A version twice or left out, and happenings that are missing, doubled or too few."""
    outcome = Outcome(0, {"azi": Tally(resumed=1)})
    judge(outcome, "a game", seen, twice, LOG)
    assert len(outcome.wrong) == len(wrong)
    assert all(kind.startswith(begin) for kind, begin in zip(outcome.wrong, wrong, strict=True))
    assert outcome.held == (not wrong)
