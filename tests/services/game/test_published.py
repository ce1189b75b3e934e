"""What the end of a game publishes is all that was sealed of it, as random games show."""

import json
from dataclasses import replace

import pytest

from services.game import audit, receipts
from services.game.published import published
from services.kernel.envelope import Head
from tests.verifier.played import KEY, Played, played
from verifier.verify import verify

GAMES = 8


def closed(game: Played) -> Played:
    """The game as it is read without its key."""
    rows = [replace(row, secret=None, salt=None) for row in game.rows]
    return replace(game, rows=published(rows) or [])


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_an_ended_game_is_read_from_what_it_published(variant: str) -> None:
    """Every secret octet for octet but the seed of the bots' choices; the audit and the receipt."""
    for number in range(GAMES):
        game = played(variant, number)
        again = closed(game)
        for row, was in zip(again.rows, game.rows, strict=True):
            if was.name != "game.GameOpened":
                assert row == replace(was, salt=None), f"{variant} {number}"
        head = Head(game.state.game_id, len(game.rows), game.rows[-1].hash, ended=True)
        assert audit.verify_log(game.state.game_id, again.rows, head) == []
        *_, last = audit.replay(again.rows)
        assert replace(last.after, bot_seed=game.state.bot_seed) == game.state
        document = receipts.document(KEY, game.state, again.rows, None, auditor=False)
        assert verify(document).receipt.kind == "full"
        rows = json.loads(document)["receipt"]["rows"]
        assert {row["salt"] for row in rows} == {None}


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_what_is_not_published_is_not_found(variant: str) -> None:
    """Of a game that runs, and of one that opens cards one by one."""
    for game in (played(variant, 1, moves=5), played(variant, 2, "own")):
        rows = [replace(row, secret=None, salt=None) for row in game.rows]
        assert published(rows) is None
