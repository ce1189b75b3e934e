"""A person's seat at a table of the services."""

from random import Random
from typing import Any, cast

from kozyr.game.v1 import variant_pb2, view_pb2

from engines import durak
from services.cli.online import OnlineTable, last_deal
from services.cli.pictures.look import Look
from services.game import views
from tests.services.game.logs import GAME_ID, dealt


class Recorder:
    """Takes moves and remembers what they were made in."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    async def submit(self, view: view_pb2.GameView, move: variant_pb2.Move) -> view_pb2.GameView:
        """Take a move."""
        assert move.HasField("durak")
        self.made.append((view.game_id, view.turn))
        return view


async def test_a_move_is_made_in_the_decision_that_was_shown() -> None:
    """A view that came while the person was typing does not turn the move into another one."""
    log = dealt("durak", 2)
    shown = durak.view(log.state.engine, log.state.engine.attacker)
    log.play_random(Random(1), moves=2)
    newest = views.game_view(log.state, 0, bytes(32))
    recorder = Recorder()
    table = OnlineTable(cast(Any, recorder), newest, Look(("a", "b")))
    await table.submit(shown, shown.legal[0])
    assert shown.turn < newest.turn
    assert recorder.made == [(str(GAME_ID), shown.turn)]


def test_a_hint_is_asked_with_the_deal_in_play() -> None:
    """A whole Rami match would be more than a request may hold; other games are told whole."""
    match = [view_pb2.Happening(version=n) for n in range(1, 9)]
    for deal in (2, 5):
        match[deal].rami.round_dealt.round = deal
    assert [h.version for h in last_deal(match)] == [6, 7, 8]
    assert list(last_deal(match[:2])) == match[:2]
