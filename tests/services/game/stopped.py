"""Views that are compared whenever they were sent."""

from kozyr.game.v1 import game_pb2, view_pb2


def still(view: view_pb2.GameView) -> view_pb2.GameView:
    """A view without what its clock showed at the moment of sending."""
    stopped = view_pb2.GameView()
    stopped.CopyFrom(view)
    stopped.clock.ClearField("now_time")
    stopped.clock.ClearField("remaining_ms")
    for seat in stopped.clock.seats:
        seat.ClearField("bank_ms")
        seat.ClearField("remaining_ms")
    return stopped


def still_step(step: game_pb2.Step) -> game_pb2.Step:
    """A step whose view is still."""
    stopped = game_pb2.Step()
    stopped.CopyFrom(step)
    stopped.view.CopyFrom(still(step.view))
    return stopped
