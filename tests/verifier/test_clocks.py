"""Time banks, in a receipt and in an audit: both tell the same from the times in the log."""

from dataclasses import fields, replace
from random import Random

import pytest

from services.game import domain
from services.game.audit import verify_log
from services.game.rulebook import engine_for
from services.kernel.envelope import Recorded
from tests.services.game.logs import GAME_ID, opening
from tests.verifier.played import Played
from verifier.chain import Row
from verifier.play import Game, execute
from verifier.wrong import Wrong

VARIANTS = ("azi", "durak", "rami")
BANK_MS = 50_000


def stored(row: Recorded) -> Row:
    """A row as a full receipt shows it."""
    told = {each.name: getattr(row, each.name) for each in fields(Row)}
    told["request_id"] = None if row.request_id is None else row.request_id.encode()
    return Row(**told)


def executed(game: Played) -> Game:
    """The game as the verifier executes it; raises Wrong."""
    return execute(GAME_ID, game.state.server_seed, [stored(row) for row in game.rows])


def begun(variant: str, number: int) -> Played:
    """A game with time banks, in which random moves were made at random times."""
    game = Played(Random(f"clocks {variant} {number}"))
    game.when(opening(variant, 3, people=2, time_bank_ms=BANK_MS, turn_ms=5_000))
    game.seed()
    game.play(game.rng.randint(0, 30))
    return game


@pytest.mark.parametrize("variant", VARIANTS)
def test_receipt_and_audit_tell_the_same_banks(variant: str) -> None:
    """After every append of random games."""
    drawn = 0
    for number in range(8):
        game = begun(variant, number)
        assert verify_log(GAME_ID, game.rows, None) == []
        assert executed(game).banks == game.state.banks
        drawn += sum(game.state.banks) < 2 * BANK_MS * 1_000
    assert drawn > 2


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("expires", "off"), [(True, 0), (True, -1), (False, 0), (False, 1)])
def test_both_find_a_microsecond_too_early_or_too_late(
    variant: str, *, expires: bool, off: int
) -> None:
    """An expiry before the seat's deadline, a move after it: what the bank held is in it."""
    for number in range(6):
        game = begun(variant, number)
        if game.state.ended:
            continue
        engine = engine_for(game.state.rules)
        seat = engine.to_act(game.state.engine)[-1]
        until = game.state.deadline_of(seat)
        assert until is not None
        move = engine.legal(game.state.engine, seat)[0]
        bot = game.state.seats[seat].is_bot
        play = domain.Play(seat, game.state.turn, move, by_bot=bot)
        expire = domain.Expire(seat, game.state.turn)
        version = len(game.rows) + 1
        game.when(expire if expires else play, wait=until + off - game.at)
        faults = [(fault.kind, fault.version) for fault in verify_log(GAME_ID, game.rows, None)]
        if not off:
            assert faults == []
            executed(game)
            continue
        assert faults == [("EXPIRED_EARLY" if expires else "MOVED_LATE", version)]
        with pytest.raises(Wrong, match=f"version {version}: a (turn|move)"):
            executed(game)


def test_who_was_away_and_moves_without_coming_back_is_found() -> None:
    """By both: the row that says so is part of the append."""
    game = Played(Random(1))
    game.when(opening("durak", 2))
    game.seed()
    engine = engine_for(game.state.rules)
    away = game.state.engine.attacker
    game.when(domain.Expire(away, game.state.turn), wait=31_000_000)
    while (seat := engine.to_act(game.state.engine)[0]) != away:
        move = engine.legal(game.state.engine, seat)[0]
        game.when(domain.Play(seat, game.state.turn, move))
    seats = tuple(replace(each, missed=0) for each in game.state.seats)
    game.state = replace(game.state, seats=seats)
    version = len(game.rows) + 1
    move = engine.legal(game.state.engine, away)[0]
    game.when(domain.Play(away, game.state.turn, move))
    assert verify_log(GAME_ID, game.rows, None)[0].version == version
    with pytest.raises(Wrong, match=f"version {version}"):
        executed(game)
