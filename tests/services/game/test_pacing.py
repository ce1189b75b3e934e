"""When bots move: a pause that tells nothing of hands, or of how long was thought."""

from dataclasses import replace
from statistics import fmean

from services.game.model import Stage, State
from services.game.pacing import AT_ONCE, STEP_MS, Pace

PACE = Pace(800)
PLAYING = State(
    stage=Stage.PLAYING,
    bot_seed=bytes(32),
    recorded_at=1_000_000_000,
    turn_at=1_000_000_000,
    turn_ms=30_000,
)


def test_pauses_lie_between_half_and_twice_the_usual_one() -> None:
    """All of that span is used, and the usual pause is about the mean."""
    pauses = [PACE.pause_ms(replace(PLAYING, version=v), v % 6) for v in range(2_000)]
    assert min(pauses) >= 400
    assert max(pauses) <= 1_600
    assert min(pauses) < 420
    assert max(pauses) > 1_550
    assert 800 < fmean(pauses) < 930


def test_a_pause_follows_from_the_games_secret_the_version_and_the_seat() -> None:
    """Who does not know the secret cannot tell it; nothing that is dealt goes into it."""
    first = PACE.pause_ms(PLAYING, 1)
    assert first == PACE.pause_ms(replace(PLAYING, engine=object()), 1)
    assert first != PACE.pause_ms(replace(PLAYING, bot_seed=b"\1" * 32), 1)
    assert first != PACE.pause_ms(replace(PLAYING, version=1), 1)
    assert first != PACE.pause_ms(PLAYING, 2)


def test_a_pause_takes_no_more_than_half_of_a_decisions_time() -> None:
    """However slow bots are to be, they move in time."""
    hurried = replace(PLAYING, turn_ms=1_000)
    assert Pace(60_000).pause_ms(hurried, 0) == 500


def test_a_move_that_is_ready_waits_for_its_moment_and_a_late_one_for_the_next_step() -> None:
    """So a move appears at its moment however fast it was found."""
    pause = PACE.pause_ms(PLAYING, 0)
    for after_ms in range(0, pause, 7):
        at = PLAYING.recorded_at + after_ms * 1_000
        assert PACE.wait_ms(PLAYING, 0, at) == pause - after_ms
    for late_ms in range(1, 3 * STEP_MS, 7):
        at = PLAYING.recorded_at + (pause + late_ms) * 1_000
        moment = late_ms + PACE.wait_ms(PLAYING, 0, at)
        assert moment % STEP_MS == 0
        assert 0 <= moment - late_ms < STEP_MS


def test_a_bot_is_asked_before_its_moment() -> None:
    """Early enough to think, never before the event it answers."""
    for version in range(200):
        state = replace(PLAYING, version=version)
        asked, moves = PACE.ask_ms(state, 0), PACE.pause_ms(state, 0)
        assert 0 <= asked <= moves - 150
    assert AT_ONCE.ask_ms(PLAYING, 0) == AT_ONCE.pause_ms(PLAYING, 0) == 0
