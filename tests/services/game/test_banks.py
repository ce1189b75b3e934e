"""Time banks: what a decision takes beyond its turn time, and nothing else, is drawn on them."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from services.game import audit, domain, views
from services.game.evolve import evolve
from services.game.model import Stage, State
from services.game.pacing import Pace
from services.game.rulebook import engine_for
from services.game.work import due_work
from services.kernel.errors import Refused
from services.kernel.seats import AbsentPolicy
from tests.services.game.logs import Log, dealt, opening
from tests.services.game.worlds import Append, append, run

TURN_MS, BANK_MS = 2_000, 9_000
MS = 1_000
KINDS = ("azi", "durak", "rami")


def paced(variant: str, seed: int) -> Iterator[tuple[Append, int]]:
    """A random game whose appends take random times, each in time: with it the seat that acted."""
    rng = Random(f"banks {variant} {seed}")
    first = opening(
        variant,
        3,
        people=2,
        turn_ms=TURN_MS,
        time_bank_ms=BANK_MS,
        absent_policy=rng.choice(list(AbsentPolicy)),
    )
    if variant == "azi":
        options = replace(first.options, entry_fee=10, deal_size=rng.choice((3, 4)))
        first = replace(first, options=replace(options, blind_bets=rng.random() < 0.5))
    state = run([first], {})[-1].after
    while state.engine is None:
        state = append(state, domain.CloseSeeds(state.stage)).after
    engine = engine_for(state.rules)
    for _ in range(60):
        if state.ended:
            return
        seat = rng.choice(engine.to_act(state.engine))
        until = state.deadline_of(seat) or 0
        if rng.random() < 0.1:
            credit = domain.Credit(state.turn, state.credit_ms + rng.randint(1, 3_000))
            yield (made := append(state, credit, rng.randint(0, 500 * MS))), -1
        elif rng.random() < 0.2 and (away := _away(state)) is not None:
            yield (made := append(state, domain.Return(away), rng.randint(0, 500 * MS))), -1
        elif until < state.recorded_at or rng.random() < 0.1:
            late = max(0, until - state.recorded_at) + rng.randint(0, 300 * MS)
            yield (made := append(state, domain.Expire(seat, state.turn), late)), seat
        else:
            move = rng.choice(engine.legal(state.engine, seat))
            took = rng.randint(0, max(0, until - state.recorded_at))
            command = domain.Play(seat, state.turn, move, by_bot=state.seats[seat].is_bot)
            yield (made := append(state, command, took)), seat
        state = made.after


def _away(state: State) -> int | None:
    seats = enumerate(state.seats)
    return next((n for n, seat in seats if seat.is_away and not seat.left), None)


@pytest.mark.parametrize("variant", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_bank_falls_by_what_the_logs_times_say_and_never_grows(variant: str, seed: int) -> None:
    """It begins whole (a bot's empty) and ends with that less all that its seat took beyond the
    turn time of its decisions, as far as it reached."""
    left, drawn = [BANK_MS * MS, BANK_MS * MS, 0], 0
    for made, seat in paced(variant, seed):
        before, after = made.before, made.after
        assert list(before.banks) == left
        if seat >= 0 and not _still_asked(made, seat):
            over = after.recorded_at - (before.deadline or 0)
            drawn += min(left[seat], max(0, over))
            left[seat] = max(0, left[seat] - max(0, over))
        assert list(after.banks) == left
        assert all(0 <= now <= then for now, then in zip(after.banks, before.banks, strict=True))
        assert not audit._clock(_audited(made))
    assert drawn == 2 * BANK_MS * MS - sum(left)


def _still_asked(made: Append, seat: int) -> bool:
    """Whether the seat looked at its cards and has the same decision still before it."""
    after = made.after
    same = after.turn == made.before.turn and not after.ended
    return same and seat in engine_for(after.rules).to_act(after.engine)


def _audited(made: Append) -> audit.Append:
    return audit.Append(made.rows, made.events, made.before, made.after)


@pytest.mark.parametrize("variant", KINDS)
def test_an_audit_judges_each_deadline_with_the_bank_that_the_log_leaves(variant: str) -> None:
    """A microsecond early an expiry is found, a microsecond late a move; neither at the moment."""
    for seed in range(4):
        for made, _ in paced(variant, seed):
            state = made.after
            if state.ended:
                continue
            engine = engine_for(state.rules)
            for seat in engine.to_act(state.engine):
                until = state.deadline_of(seat)
                assert until is not None
                took = until - state.recorded_at
                expire = domain.Expire(seat, state.turn)
                move = engine.legal(state.engine, seat)[0]
                by_bot = state.seats[seat].is_bot
                play = domain.Play(seat, state.turn, move, by_bot=by_bot)
                assert _faults(append(state, expire, took)) == []
                assert _faults(append(state, play, took)) == []
                assert _faults(append(state, expire, took - 1)) == ["EXPIRED_EARLY"]
                assert _faults(append(state, play, took + 1)) == ["MOVED_LATE"]


def _faults(made: Append) -> list[str]:
    return [fault.kind for fault in audit._clock(_audited(made))]


@pytest.mark.parametrize("variant", KINDS)
def test_a_deadline_comes_due_when_turn_time_and_bank_are_over(variant: str) -> None:
    """The row of a seat comes with its own deadline, whatever is left of its bank."""
    for seed in range(4):
        for made, _ in paced(variant, seed):
            state = made.after
            for (kind, key), after_ms in due_work(state, Pace(50)).items():
                if kind == "turn":
                    until = state.deadline_of(int(key.partition(".")[0])) or 0
                    ends = state.recorded_at + after_ms * MS
                    assert until <= max(ends, until) < until + MS or ends == state.recorded_at


def test_an_outage_is_given_back_before_a_bank_is_drawn_on() -> None:
    """What a credit covers costs nothing."""
    log = dealt("durak", 2, turn_ms=TURN_MS, time_bank_ms=BANK_MS)
    seat = log.state.engine.attacker
    log.when(domain.Credit(log.state.turn, 3_000))
    move = engine_for(log.state.rules).legal(log.state.engine, seat)[0]
    log.at = (log.state.deadline or 0) - 1_000_000
    log.when(domain.Play(seat, log.state.turn, move))
    assert log.state.banks == (BANK_MS * MS,) * 2


def test_a_game_without_a_bank_is_as_it_was() -> None:
    """No bank, no clock of a seat, the same deadline for all."""
    log = dealt("durak", 3)
    assert log.state.banks == ()
    assert {log.state.deadline_of(seat) for seat in range(3)} == {log.state.deadline}
    view = views.game_view(log.state, 0, b"")
    assert not view.clock.seats
    assert not view.clock.time_bank_ms


def test_a_clock_says_what_is_left_at_the_moment_it_is_read() -> None:
    """Until the turn time is up, then of the bank; never less than nothing, at no moment before the
    view's own."""
    log = dealt("durak", 2, turn_ms=TURN_MS, time_bank_ms=BANK_MS)
    state, seat = log.state, log.state.engine.attacker
    for after_ms in (-5, 0, 1, 1_999, 2_000, 2_001, 10_999, 11_000, 12_000):
        at = state.recorded_at + after_ms * MS
        clock = views.game_view(state, None, b"", at).clock
        gone = max(0, after_ms)
        assert clock.now_time.ToMicroseconds() == state.recorded_at + gone * MS
        assert clock.remaining_ms == max(0, TURN_MS - gone)
        assert clock.deadline_time.ToMicroseconds() == state.deadline
        assert clock.seats[seat].remaining_ms == max(0, TURN_MS + BANK_MS - gone)
        assert clock.seats[seat].bank_ms == min(BANK_MS, max(0, TURN_MS + BANK_MS - gone))
        assert clock.seats[seat].deadline_time.ToMicroseconds() == state.deadline_of(seat)
        other = clock.seats[1 - seat]
        assert (other.bank_ms, other.remaining_ms) == (BANK_MS, 0)
        assert not other.HasField("deadline_time")


def test_a_bot_that_plays_for_the_absent_keeps_to_the_pace_of_the_turn() -> None:
    """Its pause takes half of the turn time at most, however much is left in the bank."""
    log = dealt("durak", 2, turn_ms=TURN_MS, time_bank_ms=600_000)
    assert Pace(60_000).pause_ms(log.state, 0) == TURN_MS // 2


def away(policy: AbsentPolicy, bot_after: int = 0) -> tuple[Log, int]:
    """A game in which a seat has missed its first turn."""
    log = dealt("durak", 2, absent_policy=policy, bot_after=bot_after)
    seat = log.state.engine.attacker
    log.when(domain.Expire(seat, log.state.turn))
    return log, seat


@pytest.mark.parametrize("bot_after", range(1, 5))
def test_a_bot_takes_over_after_as_many_missed_turns_as_the_table_says(bot_after: int) -> None:
    """In a row: a player who comes back begins anew."""
    log = dealt("rami", 2, absent_policy=AbsentPolicy.BOT, bot_after=bot_after)
    missed, rng = [0, 0], Random(3)
    for _ in range(40):
        (seat,) = engine_for(log.state.rules).to_act(log.state.engine)
        assert log.state.seats[seat].bot_plays == (missed[seat] >= bot_after)
        if missed[seat] and rng.random() < 0.2:
            log.when(domain.Return(seat))
            missed[seat] = 0
        assert log.state.seats[seat].missed == missed[seat]
        log.when(domain.Expire(seat, log.state.turn))
        missed[seat] += 1


@pytest.mark.parametrize("policy", AbsentPolicy)
def test_who_was_away_says_that_he_is_back(policy: AbsentPolicy) -> None:
    """Once; from then on no bot is asked for him, and his clock runs on."""
    log, seat = away(policy, bot_after=1 if policy is AbsentPolicy.BOT else 0)
    assert log.state.seats[seat].is_bot == (policy is AbsentPolicy.BOT)
    deadline = log.state.deadline
    events = log.when(domain.Return(seat))
    assert len(events) == 1
    assert not log.state.seats[seat].is_away
    assert log.state.deadline == deadline
    assert not any(kind == "bot" for kind, _ in due_work(log.state, Pace(50)))
    with pytest.raises(Refused, match="NOT_AWAY"):
        domain.decide(log.state, domain.Return(seat))


def test_a_bots_move_that_comes_after_the_player_is_not_needed_any_more() -> None:
    """Though the decision is the same: he who came back won the race."""
    log = dealt("rami", 2, absent_policy=AbsentPolicy.BOT, bot_after=1)
    (seat,) = engine_for(log.state.rules).to_act(log.state.engine)
    while not log.state.seats[seat].bot_plays or seat != log.state.engine.actor:
        log.when(domain.Expire(log.state.engine.actor, log.state.turn))
    move = engine_for(log.state.rules).legal(log.state.engine, seat)[0]
    late = domain.Play(seat, log.state.turn, move, by_bot=True)
    assert domain.decide(log.state, late)
    log.when(domain.Return(seat))
    with pytest.raises(domain.Moot):
        domain.decide(log.state, late)
    assert domain.decide(log.state, replace(late, by_bot=False))


def test_who_left_for_good_does_not_come_back() -> None:
    """Nor does anybody before the cards are dealt or after the end."""
    log, seat = away(AbsentPolicy.BOT)
    log.when(domain.LeaveSeat(seat))
    with pytest.raises(Refused, match="SEAT_LEFT"):
        domain.decide(log.state, domain.Return(seat))
    young = run([opening("durak", 2)], {})[-1].after
    with pytest.raises(Refused, match="NOT_DEALT"):
        domain.decide(young, domain.Return(0))
    over = replace(log.state, stage=Stage.FINISHED)
    with pytest.raises(Refused, match="GAME_OVER"):
        domain.decide(over, domain.Return(1 - seat))


@pytest.mark.parametrize("variant", KINDS)
def test_replay_gives_the_banks_that_were_kept(variant: str) -> None:
    """From the rows and their times alone."""
    for seed in range(4):
        for made, _ in paced(variant, seed):
            state = made.before
            for event, row in zip(made.events, made.rows, strict=True):
                state = evolve(state, event, row.recorded_at)
            assert state == made.after
