"""Seeds and the end: whatever players do or leave undone, and whatever the service might like."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engines.shuffle import deal_seed, digest, shuffled
from services.game import domain
from services.game.evolve import evolve
from services.game.model import (
    CommitsClosed,
    DealRevealed,
    DealSeeded,
    Event,
    GameFinished,
    GameOpened,
    SeedCommitted,
    SeedRevealed,
    SeedsClosed,
    SeedStatus,
    Stage,
    State,
)
from services.game.rulebook import engine_for
from services.kernel.errors import Refused
from services.kernel.seats import AbsentPolicy
from tests.services.game.logs import ENGINES, GAME_ID, Log, opened, opening

VARIANTS = ("azi", "durak", "rami")
APPENDS_MAX = 5_000
"""A game of a few seats in which nobody moves is over before so many appends."""


def events(log: Log) -> list[Event]:
    """All events of a log."""
    return [event for append in log.appends for event in append]


def attempts(rng: Random, seats: int, seeds: list[bytes]) -> Iterator[tuple[str, Any]]:
    """What players might send, good or bad, in any order, and the two deadlines at some time."""
    for _ in range(rng.randrange(1, 30)):
        seat = rng.randrange(seats)
        other = rng.randbytes(rng.choice((0, 15, 16, 32, 64, 65)))
        yield rng.choice(
            [
                ("commit", domain.CommitSeed(seat, digest(seeds[seat]))),
                ("commit", domain.CommitSeed(seat, digest(seeds[seat]))),
                ("commit", domain.CommitSeed(seat, other)),
                ("reveal", domain.RevealSeed(seat, seeds[seat])),
                ("reveal", domain.RevealSeed(seat, seeds[seat])),
                ("reveal", domain.RevealSeed(seat, other)),
                ("close", domain.CloseSeeds(rng.choice((Stage.COMMITTING, Stage.REVEALING)))),
            ]
        )


def allowed(log: Log, command: Any) -> str:
    """Why the state refuses a seed or a hash, empty if it takes it: the published table."""
    state = log.state
    match command:
        case domain.CommitSeed():
            if state.stage is not Stage.COMMITTING:
                return "SEEDS_CLOSED"
            if len(command.hash) != 32:
                return "INVALID_FIELD"
            free = state.seats[command.seat].seed_status is SeedStatus.AWAITED
            return "" if free else "SEED_ALREADY_COMMITTED"
        case domain.RevealSeed():
            if state.stage is not Stage.REVEALING:
                return "SEEDS_OPEN" if state.stage is Stage.COMMITTING else "SEEDS_CLOSED"
            if not 16 <= len(command.seed) <= 64:
                return "INVALID_FIELD"
            seat = state.seats[command.seat]
            if seat.seed_status is not SeedStatus.COMMITTED:
                return "SEED_NOT_COMMITTED"
            return "" if digest(command.seed) == seat.seed_hash else "SEED_MISMATCH"
        case _:
            return "" if state.stage is command.stage else "MOOT"


@pytest.mark.parametrize("number", range(60))
def test_seeds_late_twice_too_long_or_mismatched_change_nothing(number: int) -> None:
    """Each is refused with its own reason; what was withheld is recorded as absent; what counts is
    what was committed first and revealed rightly, and the deck follows from it."""
    rng = Random(number)
    seats = rng.randint(2, 4)
    people = rng.randint(1, seats)
    log = opened("rami", seats, people=people)
    seeds = [rng.randbytes(rng.randint(16, 64)) for _ in range(seats)]
    for _, command in attempts(rng, people, seeds):
        reason, before = allowed(log, command), log.state
        if not reason:
            log.when(command)
            continue
        with pytest.raises(Refused) as refused:
            log.when(command)
        assert refused.value.reason == reason
        assert log.state == before
    log.deal()
    found = events(log)
    hashes = {e.seat: e.hash for e in found if isinstance(e, SeedCommitted)}
    shown = {e.seat: e.seed for e in found if isinstance(e, SeedRevealed)}
    (no_hash,) = (e.absent for e in found if isinstance(e, CommitsClosed))
    (absent,) = (e.absent for e in found if isinstance(e, SeedsClosed))
    assert set(no_hash) == set(range(seats)) - set(hashes)
    assert set(absent) == set(range(seats)) - set(shown)
    assert all(hashes[seat] == digest(seed) for seat, seed in shown.items())
    given = tuple(shown.get(seat) for seat in range(seats))
    seed = deal_seed(bytes(range(32)), 1, GAME_ID.bytes, given)
    assert log.state.deals[0].deck == shuffled(seed, ENGINES["rami"].PACK)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_server_is_bound_before_any_players_seed_is_known(variant: str) -> None:
    """Its hash is the first event, nothing that follows changes its seed, and a second opening with
    a seed more to its liking is refused."""
    log = opened(variant, 3)
    first = log.appends[0][0]
    assert isinstance(first, GameOpened)
    seed = log.state.server_seed
    for seat in range(3):
        log.when(domain.CommitSeed(seat, digest(bytes([seat]) * 16)))
    for seat in range(3):
        log.when(domain.RevealSeed(seat, bytes([seat]) * 16))
        with pytest.raises(Refused, match="GAME_EXISTS"):
            log.when(replace(opening(variant, 3), server_seed=b"another seed, 32 octets of it!!!"))
    log.play_random(Random(1))
    assert log.state.server_seed == seed
    last = log.appends[-1][-1]
    assert isinstance(last, GameFinished)
    assert digest(last.server_seed) == first.server_seed_hash


def untouched(state: State) -> domain.GameCommand:
    """What the service's own deadlines make of a game in which nobody does anything any more."""
    if state.stage in (Stage.COMMITTING, Stage.REVEALING):
        return domain.CloseSeeds(state.stage)
    return domain.Expire(engine_for(state.rules).to_act(state.engine)[0], state.turn)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("number", range(4))
def test_every_opened_game_ends_shows_its_seeds_and_is_listed(variant: str, number: int) -> None:
    """Left alone at any moment: there is always work due that moves it on, up to an end at which
    every deal that was made and the server's seed are published. It stands in its players' lists
    from its first event on."""
    rng = Random(f"{variant} {number}")
    seats = rng.choice(list(ENGINES[variant].SEATS)[:3])
    options = ENGINES[variant].Options()
    if variant == "rami":
        options = replace(options, target=5)
    log = opened(variant, seats, options=options, absent_policy=rng.choice(list(AbsentPolicy)))
    if rng.random() < 0.7:
        log.deal()
        log.play_random(rng, moves=rng.randrange(12))
    while not log.state.ended:
        log.when(untouched(log.state))
        assert len(log.appends) < APPENDS_MAX
    due: set[tuple[str, str]] = set()
    state, at = State(), 0
    for append, plan in zip(log.appends, log.plans, strict=True):
        due = due - set(plan.done) | {(row.kind, row.key) for row in plan.due}
        assert due, "nothing would ever happen again"
        for event in append:
            at += 1
            state = evolve(state, event, at)
    assert due == {("end", "")}
    players = {f"player:{seat.player_id}" for seat in state.seats}
    assert players | {"game"} <= set(log.plans[0].tags)
    found = events(log)
    made = {event.deal: event.seed_hash for event in found if isinstance(event, DealSeeded)}
    shown = {event.deal: digest(event.seed) for event in found if isinstance(event, DealRevealed)}
    assert shown == made
    assert made
    last = found[-1]
    assert isinstance(last, GameFinished)
    assert digest(last.server_seed) == state.server_seed_hash


def test_no_phase_of_seeds_waits_longer_than_its_time() -> None:
    """Its deadline is due from the moment it begins, whatever comes in meanwhile."""
    log = opened("durak", 3)
    log.when(domain.CommitSeed(0, digest(bytes(16))))
    log.when(domain.CommitSeed(1, digest(bytes(16))))
    due = [(row.kind, row.key, row.after_ms) for plan in log.plans for row in plan.due]
    assert due == [("seeds", "committing", log.state.seed_ms)]
    log.when(domain.CloseSeeds(Stage.COMMITTING))
    log.when(domain.RevealSeed(0, bytes(16)))
    due = [(row.kind, row.key, row.after_ms) for plan in log.plans for row in plan.due]
    assert due[1:] == [("seeds", "revealing", log.state.seed_ms)]
    log.when(domain.CloseSeeds(Stage.REVEALING))
    assert log.state.stage is Stage.PLAYING
    assert [seat.seed_status.name for seat in log.state.seats] == ["REVEALED", "ABSENT", "ABSENT"]
