"""The game's decider: opening, seeds, deals, moves, absence and the end."""

from random import Random
from typing import Any

import pytest

from engines import azi, durak, rami
from engines.cards import pack
from engines.shuffle import deal_seed, digest, shuffled
from services.game import deals, domain
from services.game.evolve import evolve
from services.game.model import (
    BotTookOver,
    ClockCredited,
    DealRevealed,
    DealSeeded,
    EngineEvent,
    Event,
    GameCancelled,
    GameFinished,
    GameOpened,
    PlayerReturned,
    SeatOpened,
    SeedStatus,
    Stage,
    State,
)
from services.game.rulebook import engine_for
from services.kernel.errors import Kind, Refused
from services.kernel.seats import AbsentPolicy
from tests.services.game.logs import GAME_ID, Log, dealt, names, opened, opening, player

SEED = b"s" * 16


def refusal(log: Log, command: domain.GameCommand) -> Refused:
    """What the decider answers, the log being left as it was."""
    before = log.state
    with pytest.raises(Refused) as caught:
        log.when(command)
    assert log.state == before
    return caught.value


def test_opening_publishes_the_hash_of_the_servers_seed_and_deals_nothing() -> None:
    """The server commits itself before any player's seed is known."""
    log = opened("durak", 3)
    (event,) = log.appends[0]
    assert isinstance(event, GameOpened)
    assert event.server_seed_hash == digest(bytes(range(32)))
    assert log.state.stage is Stage.COMMITTING
    assert log.state.engine is None


def test_a_game_of_bots_only_is_dealt_when_it_opens() -> None:
    """Bots contribute nothing, so there is nothing to wait for."""
    log = opened("rami", 2, people=0)
    assert log.state.stage is Stage.PLAYING
    assert names(log.appends[0])[:3] == ["GameOpened", "CommitsClosed", "SeedsClosed"]


@pytest.mark.parametrize(
    ("variant", "changes", "field"),
    [
        ("durak", {"seats": ()}, "seats"),
        ("durak", {"last_winner": 5}, "last_winner"),
        ("rami", {"seats": opening("rami", 5).seats}, "seats"),
        ("azi", {"seats": opening("azi", 7).seats}, "seats"),
        ("azi", {"options": azi.Options(entry_fee=101)}, "seats[0].stack"),
        ("durak", {"seats": opening("azi", 2).seats}, "seats"),
        ("durak", {"seats": (opening("durak").seats[0],) * 2}, "seats"),
    ],
)
def test_a_game_that_cannot_be_played_is_not_opened(
    variant: str, changes: dict[str, Any], field: str
) -> None:
    """The refusal names the field."""
    refused = refusal(Log(), opening(variant, **changes))
    assert refused.kind is Kind.INVALID
    assert refused.fields[0].field == field


def test_azi_needs_a_reservation_for_every_stack() -> None:
    """No game is played with chips that nobody holds back."""
    seats = tuple(SeatOpened(player(n), None, 100, "") for n in range(2))
    assert refusal(Log(), opening("azi", seats=seats)).fields[0].field == "seats[0].reservation_id"


def test_a_game_is_opened_once() -> None:
    """A second opening of the same id is refused."""
    assert refusal(opened("rami"), opening("rami")).reason == "GAME_EXISTS"


def test_a_tombstone_keeps_a_game_from_opening() -> None:
    """After a cancel the id never opens; after an opening there is nothing to cancel."""
    log = Log()
    (event,) = log.when(domain.Cancel())
    assert event == GameCancelled("NEVER_OPENED", b"")
    assert refusal(log, opening("rami")).reason == "GAME_CANCELLED"
    assert isinstance(refusal(opened("rami"), domain.Cancel()), domain.Moot)


def test_seeds_are_committed_then_revealed_then_dealt_from() -> None:
    """The deck follows from the server's seed and both players' seeds, and from nothing else."""
    log = opened("durak")
    assert names(log.when(domain.CommitSeed(0, digest(SEED)))) == ["SeedCommitted"]
    closing = log.when(domain.CommitSeed(1, digest(b"t" * 64)))
    assert names(closing) == ["SeedCommitted", "CommitsClosed"]
    log.when(domain.RevealSeed(1, b"t" * 64))
    log.when(domain.RevealSeed(0, SEED))
    assert log.state.stage is Stage.PLAYING
    seed = deal_seed(bytes(range(32)), 1, GAME_ID.bytes, (SEED, b"t" * 64))
    assert log.state.deals[0].deck == shuffled(seed, pack("SHDC", "6"))


def test_every_contribution_changes_the_deck() -> None:
    """With another seed of one player, or without it, other cards are dealt."""
    decks = set()
    for seed in (SEED, b"u" * 16, None):
        log = opened("durak")
        if seed is not None:
            log.when(domain.CommitSeed(1, digest(seed)))
        log.when(domain.CloseSeeds(Stage.COMMITTING))
        if seed is not None:
            log.when(domain.RevealSeed(1, seed))
        decks.add(log.state.deals[0].deck)
    assert len(decks) == 3


def test_a_seed_that_is_not_revealed_counts_as_absent() -> None:
    """Nobody can stall a game by withholding a seed."""
    log = opened("rami")
    log.when(domain.CommitSeed(0, digest(SEED)))
    log.when(domain.CloseSeeds(Stage.COMMITTING))
    assert [seat.seed_status for seat in log.state.seats] == [
        SeedStatus.COMMITTED,
        SeedStatus.ABSENT,
    ]
    log.when(domain.CloseSeeds(Stage.REVEALING))
    assert log.state.stage is Stage.PLAYING
    assert log.state.seats[0].seed_status is SeedStatus.ABSENT


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (domain.CommitSeed(0, digest(SEED)), "SEED_ALREADY_COMMITTED"),
        (domain.CommitSeed(1, b"short"), "INVALID_FIELD"),
        (domain.RevealSeed(0, SEED), "SEEDS_OPEN"),
        (domain.Play(0, 1, rami.DrawStock()), "NOT_DEALT"),
        (domain.LeaveSeat(0), "NOT_DEALT"),
        (domain.Expire(0, 1), "MOOT"),
        (domain.CloseSeeds(Stage.REVEALING), "MOOT"),
    ],
)
def test_what_is_refused_while_hashes_are_taken(command: domain.GameCommand, reason: str) -> None:
    """One seed a seat, no reveal before all hashes are closed, no move before the deal."""
    log = opened("rami")
    log.when(domain.CommitSeed(0, digest(SEED)))
    assert refusal(log, command).reason == reason


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (domain.RevealSeed(0, b"x" * 16), "SEED_MISMATCH"),
        (domain.RevealSeed(0, b"x" * 15), "INVALID_FIELD"),
        (domain.RevealSeed(0, b"x" * 65), "INVALID_FIELD"),
        (domain.RevealSeed(1, SEED), "SEED_NOT_COMMITTED"),
        (domain.CommitSeed(1, digest(SEED)), "SEEDS_CLOSED"),
    ],
)
def test_what_is_refused_while_seeds_are_revealed(command: domain.GameCommand, reason: str) -> None:
    """A seed must match its hash and have its length; no hash is taken late."""
    log = opened("rami")
    log.when(domain.CommitSeed(0, digest(SEED)))
    log.when(domain.CloseSeeds(Stage.COMMITTING))
    assert refusal(log, command).reason == reason


def test_a_move_names_the_decision_it_answers() -> None:
    """A move for an earlier decision is refused as stale and names the present one."""
    log = dealt("rami")
    seat = log.state.engine.actor
    turn = log.state.turn
    log.when(domain.Play(seat, turn, rami.DrawStock()))
    refused = refusal(log, domain.Play(seat, turn, rami.DrawStock()))
    assert (refused.kind, refused.reason) == (Kind.CONFLICT, "STALE_TURN")
    assert refused.facts["turn"] == str(log.state.turn)


def test_a_move_against_the_rules_is_refused_with_reason_and_rule() -> None:
    """The engine's refusal reaches the caller with the number of the rule."""
    log = dealt("rami")
    seat = log.state.engine.actor
    refused = refusal(log, domain.Play(1 - seat, log.state.turn, rami.DrawStock()))
    assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "NOT_YOUR_TURN")
    assert refused.facts["rule"].startswith("RAMI-")


def test_malformed_moves_are_invalid_arguments() -> None:
    """A two in Azi is no card of the game."""
    log = dealt("azi")
    (seat,) = engine_for(log.state.rules).to_act(log.state.engine)
    refused = refusal(log, domain.Play(seat, log.state.turn, azi.Bid(-1)))
    assert (refused.kind, refused.reason) == (Kind.INVALID, "MALFORMED")


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
@pytest.mark.parametrize("seed", range(3))
def test_every_game_ends_with_its_result_its_deals_and_the_servers_seed(
    variant: str, seed: int
) -> None:
    """The end publishes every deal that was not open yet, then the seed; every deal was hashed."""
    log = dealt(variant, 3, server_seed=bytes([seed]) * 32)
    log.play_random(Random(seed))
    events = [event for append in log.appends for event in append]
    assert isinstance(events[-1], GameFinished)
    assert events[-1].server_seed == bytes([seed]) * 32
    shown = [event for event in events if isinstance(event, DealRevealed)]
    hashed = {event.deal: event.seed_hash for event in events if isinstance(event, DealSeeded)}
    assert [event.deal for event in shown] == list(range(1, len(hashed) + 1))
    assert all(digest(event.seed) == hashed[event.deal] for event in shown)
    assert log.state.deals == ()
    assert refusal(log, domain.Play(0, log.state.turn, rami.DrawStock())).reason == "GAME_OVER"


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_what_a_move_is_framed_with_is_told_by_the_events_of_deals_and_ends(variant: str) -> None:
    """A move turns the deal exactly if cards are dealt or, by the engine's state, all is over."""
    engine = engine_for(opened(variant, 3).state.rules)
    for seed in range(5):
        log = dealt(variant, 3, server_seed=bytes([seed]) * 32)
        log.play_random(Random(seed))
        state = State()
        for append in log.appends:
            decided = [each.event for each in append if isinstance(each, EngineEvent)]
            for event in append:
                state = evolve(state, event, 0)
            over = state.engine is not None and engine.is_over(state.engine)
            assert deals.turns(decided) == ("Dealt" in names(append) or over)
        assert state.stage is Stage.FINISHED


def test_an_azi_chain_stays_closed_until_the_bank_is_paid() -> None:
    """No deal of a chain is laid open before the last one is over."""
    log, seed = dealt("azi", 4), 0
    while not log.state.ended or not log.state.engine.azis:
        seed += 1
        log = dealt("azi", 4, server_seed=seed.to_bytes(32, "big"))
        log.play_random(Random(seed))
    early = [event for append in log.appends[:-1] for event in append]
    assert not any(isinstance(event, DealRevealed) for event in early)
    assert names(log.appends[-1]).count("DealRevealed") == log.state.engine.azis + 1


def test_a_rami_round_is_laid_open_when_it_ends() -> None:
    """The deal of each round is shown in the append that scores it."""
    log = dealt("rami", 2)
    log.play_random(Random(5))
    for append in log.appends:
        scored = names(append).count("RoundScored")
        assert names(append).count("DealRevealed") == scored


def test_an_absent_player_is_expired_and_then_played_by_a_bot_until_he_returns() -> None:
    """With the policy BOT the second missed turn in a row hands the seat to a bot."""
    log = dealt("durak", 2, absent_policy=AbsentPolicy.BOT)
    engine = engine_for(log.state.rules)
    last: tuple[Event, ...] = ()
    while not log.state.seats[0].bot_plays:
        (seat,) = engine.to_act(log.state.engine)
        if seat == 0:
            last = log.when(domain.Expire(0, log.state.turn))
        else:
            move = engine.legal(log.state.engine, seat)[0]
            log.when(domain.Play(seat, log.state.turn, move))
    assert isinstance(last[-1], BotTookOver)
    assert log.state.seats[0].missed == 2
    while engine.to_act(log.state.engine) != (0,):
        (seat,) = engine.to_act(log.state.engine)
        log.when(domain.Play(seat, log.state.turn, engine.legal(log.state.engine, seat)[0]))
    move = engine.legal(log.state.engine, 0)[0]
    as_bot = domain.decide(log.state, domain.Play(0, log.state.turn, move, by_bot=True))
    assert not isinstance(as_bot[0], PlayerReturned)
    back = log.when(domain.Play(0, log.state.turn, move))
    assert back[0] == PlayerReturned(0)
    assert not log.state.seats[0].is_bot
    assert log.state.seats[0].missed == 0


def test_a_late_expiry_does_nothing() -> None:
    """An expiry of a decision that has been made is moot."""
    log = dealt("rami")
    seat, turn = log.state.engine.actor, log.state.turn
    log.when(domain.Play(seat, turn, rami.DrawStock()))
    assert isinstance(refusal(log, domain.Expire(seat, turn)), domain.Moot)


def test_an_outage_is_credited_once_to_the_clock_of_the_decision() -> None:
    """What outages took in all is given back, the deadline row is set anew, and nothing twice."""
    log = dealt("rami")
    deadline = log.state.deadline
    assert deadline is not None
    turn, seat = log.state.turn, log.state.engine.actor
    (event,) = log.when(domain.Credit(turn, 5_000))
    assert event == ClockCredited(turn, 5_000)
    assert log.state.deadline == deadline + 5_000_000
    (due,) = log.plans[-1].due
    assert (due.kind, due.key, due.after_ms) == ("turn", f"{seat}.{turn}.1", 30_000 + 5_000 - 1_000)
    assert log.plans[-1].done == (("turn", f"{seat}.{turn}.0"),)
    assert isinstance(refusal(log, domain.Credit(turn, 5_000)), domain.Moot)
    log.when(domain.Credit(turn, 6_500))
    assert log.state.deadline == deadline + 6_500_000
    log.when(domain.Play(seat, turn, rami.DrawStock()))
    assert log.state.credit_ms == 0
    assert isinstance(refusal(log, domain.Credit(turn, 9_000)), domain.Moot)


def test_a_player_who_leaves_durak_is_played_by_a_bot() -> None:
    """The seat stays in the game, its player left for good: the next move can only be a bot's."""
    log = dealt("durak", 3)
    seat, turn = log.state.engine.attacker, log.state.turn
    log.when(domain.LeaveSeat(seat))
    assert log.state.seats[seat].left
    assert log.state.seats[seat].is_bot
    move = durak.legal(log.state.engine, seat)[0]
    assert refusal(log, domain.Play(seat, turn, move)).reason == "SEAT_LEFT"
    assert log.when(domain.Play(seat, turn, move, by_bot=True))


def test_a_game_knows_where_the_deal_in_play_begins() -> None:
    """So that a bot is told of this deal without reading a whole match."""
    log = dealt("rami", 2)
    log.play_random(Random(3))
    events = [event for append in log.appends for event in append]
    dealings = [version for version, name in enumerate(names(events), 1) if name == "Dealt"]
    assert len(dealings) > 1
    again, seen = State(), list[int]()
    for event in events:
        again = evolve(again, event, 1)
        seen += [deal.version for deal in again.deals if deal.version not in seen]
    assert seen == dealings


def test_work_is_planned_for_every_decision_and_taken_back_with_it() -> None:
    """Each asked seat has a deadline row, a bot a row to move; what is past is deleted."""
    log = opened("rami", 2, people=1)
    assert [(due.kind, due.key) for due in log.plans[0].due] == [("seeds", "committing")]
    log.deal()
    asked = (log.state.engine.actor, log.state.turn)
    key = f"{asked[0]}.{asked[1]}"
    assert ("seeds", "committing") in log.plans[-1].done
    rows = {(due.kind, due.key) for due in log.plans[-1].due}
    assert rows == {("turn", f"{key}.0")} | (set() if asked[0] == 0 else {("bot", key)})
    log.when(domain.Play(asked[0], asked[1], rami.DrawStock()))
    assert ("turn", f"{key}.0") in log.plans[-1].done


def test_all_work_is_planned_exactly_once_over_whole_games() -> None:
    """Set and deleted rows balance: at the end only the settlement is left."""
    for variant, seats in (("azi", 4), ("durak", 4), ("rami", 3)):
        log = dealt(variant, seats, people=2)
        log.play_random(Random(7))
        rows: set[tuple[str, str]] = set()
        for plan in log.plans:
            rows -= set(plan.done)
            assert not rows & {(due.kind, due.key) for due in plan.due}
            rows |= {(due.kind, due.key) for due in plan.due}
        assert rows == {("end", "")}
        assert log.plans[-1].ended


def test_players_games_are_tagged_when_they_open() -> None:
    """A game stands in its players' history from its first event; bots have none."""
    log = opened("durak", 3, people=2)
    assert set(log.plans[0].tags) == {
        "game",
        f"table:{log.state.table_id}",
        f"player:{player(0)}",
        f"player:{player(1)}",
    }
