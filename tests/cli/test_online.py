"""A person's seat at a table of the services."""

from random import Random
from typing import Any, cast

from kozyr.game.v1 import variant_pb2, view_pb2

from engines import durak
from services.cli.online import OnlineTable, clock_text
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


def test_a_clock_is_told_as_the_view_brought_it() -> None:
    """Without a look at this machine's clock: the turn time, then the player's own bank."""
    log = dealt("durak", 2, turn_ms=30_000, time_bank_ms=60_000)
    seat = log.state.engine.attacker
    for after_s, said in ((0, "30 s left, 60 s in the bank"), (45, "0 s left, 45 s in the bank")):
        at = log.state.recorded_at + after_s * 1_000_000
        assert clock_text(views.game_view(log.state, seat, b"", at)) == said
    assert clock_text(views.game_view(log.state, None, b"")) == "30 s left"
    assert clock_text(views.game_view(dealt("durak", 2).state, 0, b"")) == "30 s left"
    assert clock_text(view_pb2.GameView()) == ""
