"""What every bot keeps to, whatever the table and however well it plays."""

import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engines import azi, durak, rami
from engines.api import Act
from engines.cards import text
from services.ai import bots
from services.ai.bots import BOTS, IllegalMove, Level, NoMove, choose
from services.ai.thinking import Baffled, Question, think
from services.runtime.wire import games
from tests.engines import azi_worlds, durak_worlds, laws, rami_worlds
from tests.services.ai.positions import (
    FEW,
    Position,
    asked,
    at_random,
    bot,
    play,
    random_games,
    table,
)

GAMES = tuple(BOTS)
COUNTS = {"azi": 120, "durak": 25, "rami": 30}
"""Games of each kind for the laws."""
WORLDS: dict[str, Any] = {
    "azi": azi_worlds.resample,
    "durak": durak_worlds.resample,
    "rami": rami_worlds.resample,
}
NAMES = re.compile(r"\b[2-9TJQKA][SHDC]\b")


def moved_cards(move: Any) -> set[str]:
    """The cards a move lays open."""
    match move:
        case azi.PlayCard(card=card) | rami.Discard(card=card):
            return {text(card)}
        case durak.Attack(card=card) | durak.Beat(card=card):
            return {text(card)}
        case rami.Meld(cards=cards) | rami.LayOff(cards=cards):
            return {text(card) for card in cards}
        case _:
            return set()


def sound(position: Position, level: Level) -> Any:
    """The bot's move in this position: legal, explained, and the same again."""
    choice = asked(position, level, "law")
    view, move = position.view, choice.move
    if isinstance(move, azi.Bid):
        assert view.bid_minimum <= move.amount <= view.bid_maximum
    else:
        assert move in view.legal
    events = games.of(position.game).engine.decide(
        position.state, Act(position.seat, move), laws.Decks(1)
    )
    assert events
    assert asked(position, level, "law") == choice
    assert choice.reason
    assert choice.reason[-1] == "."
    assert "\n" not in choice.reason
    named = set(NAMES.findall(choice.reason))
    top = getattr(view, "discard", ())[-1:]
    assert named <= moved_cards(move) | {text(card) for card in top}, choice.reason
    return move


@pytest.mark.parametrize("game", GAMES)
def test_whatever_a_bot_chooses_the_rules_accept(game: str) -> None:
    """At every table, in every phase and at every level; games of bots end, twice the same way.

    The reason names only cards that the move itself lays open, or the visible discard.
    """
    kinds: Counter[str] = Counter()
    for number, played in enumerate(random_games(game, range(laws.games(COUNTS[game])))):
        last = None
        for position in played:
            last = position
            if position.view.legal:
                level = list(Level)[(number + position.state.turn) % len(Level)]
                kinds[type(sound(position, level)).__name__] += 1
        assert last is not None
        assert games.of(game).engine.is_over(last.state)
    engine: Any = games.of(game).engine
    possible = {cls.__name__ for cls in engine.Move.__args__}
    seldom = {"BuyBack", "DropLast"}
    assert set(kinds) >= possible - seldom, f"never seen: {possible - set(kinds)}"


@pytest.mark.parametrize("game", GAMES)
def test_bots_cope_with_what_nobody_sensible_plays(game: str) -> None:
    """In positions that random players get into every level still answers soundly."""
    for seed in range(laws.games(COUNTS[game]) // 3):
        rng = Random(f"odd/{seed}")
        movers = [at_random(f"{seed}/{seat}") for seat in range(6)]
        for index, position in enumerate(play(game, table(game, rng), laws.Decks(seed), movers)):
            if position.view.legal and index % 3 == 0:
                sound(position, rng.choice(list(Level)))


@pytest.mark.parametrize("game", GAMES)
def test_a_bot_cannot_tell_what_its_seat_cannot_see(game: str) -> None:
    """In another world with the same view the same seed gives the same choice."""
    rng, differed = Random(game), 0
    for played in random_games(game, range(laws.games(COUNTS[game]) // 3)):
        for position in played:
            if not position.view.legal or rng.random() < 0.7:
                continue
            state = WORLDS[game](position.state, position.seat, rng)
            other = Position(game, state, position.events, position.seat)
            differed += state != position.state
            for level in Level:
                view = games.of(game).engine.view(state, position.seat)
                assert view == position.view
                assert asked(other, level, 1) == asked(position, level, 1)
    assert differed > 20


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("level", Level)
def test_games_among_bots_of_one_level_end(game: str, level: Level) -> None:
    """With any number of seats; the guards of the rules are not what ends them."""
    for seats in games.of(game).engine.SEATS:
        for seed in range(2):
            if game == "azi":
                state: Any = azi.initial(azi.Options(), seats, stacks=(50,) * seats)
            elif game == "durak":
                state = durak.initial(durak.Options(), seats)
            else:
                state = rami.initial(rami.Options(target=30), seats)
            movers = [bot(level, f"{seed}/{seat}") for seat in range(seats)]
            *_, last = play(game, state, laws.Decks(seed), movers)
            guards = [e for e in last.events if "guard" in repr(e).lower() or "MANY" in repr(e)]
            assert guards == []


def test_a_view_without_a_move_is_not_decided() -> None:
    """A seat that is not asked gets no answer."""
    for position in play(
        "durak", durak.initial(durak.Options(), 2), laws.Decks(1), [bot(Level.EASY, 1)] * 2
    ):
        view = durak.view(position.state, 1 - position.seat)
        with pytest.raises(NoMove):
            choose("durak", view, (), Level.NORMAL, Random(1))
        break


def test_no_bot_of_rami_looks_back_beyond_the_deal() -> None:
    """The history from the round's deal on is as good as that of the whole match."""
    later = 0
    for played in random_games("rami", range(laws.games(8))):
        for position in played:
            if not position.view.legal:
                continue
            whole = position.history
            deals = [i for i, h in enumerate(whole) if isinstance(h, rami.RoundDealt)]
            later += len(deals) > 1
            for level in Level:
                since = whole[deals[-1] :]
                recent = choose("rami", position.view, since, level, Random(1), FEW)
                assert recent == choose("rami", position.view, whole, level, Random(1), FEW)
    assert later > 20


def test_a_beginner_buys_back_in_what_others_decline() -> None:
    """After an azi an easy bot pays a price that is small to it; the others never do (AZI-39)."""
    answers: dict[Level, set[str]] = {level: set() for level in Level}
    for seed in range(400):
        state = azi.initial(azi.Options(azi_entry="half_bank"), 5, stacks=(1_000,) * 5)
        movers = [bot(Level.EASY, f"{seed}/{seat}") for seat in range(5)]
        for position in play("azi", state, laws.Decks(seed), movers):
            if position.state.phase is azi.Phase.BUYING_BACK:
                for level in Level:
                    answers[level].add(type(sound(position, level)).__name__)
        if answers[Level.EASY]:
            break
    assert answers == {
        Level.EASY: {"BuyBack"},
        Level.NORMAL: {"Decline"},
        Level.HARD: {"Decline"},
    }


@pytest.mark.parametrize("game", GAMES)
def test_a_bot_that_would_break_the_rules_moves_not_at_all(
    game: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the view does not allow is no answer; who asked is told by its kind."""
    played = next(random_games(game, range(1)))
    position, choice = next(
        (p, choice)
        for p in played
        if len(p.view.legal) > 1
        and not isinstance((choice := asked(p, Level.EASY, "law")).move, azi.Bid)
    )
    others = tuple(move for move in position.view.legal if move != choice.move)
    view = replace(position.view, legal=(*others, *others))
    monkeypatch.setitem(bots.BOTS, game, lambda *_: choice)
    with pytest.raises(IllegalMove):
        choose(game, view, position.history, Level.EASY, Random(1))
    question = Question(game, view, position.history, Level.EASY, b"")
    assert think(question) == Baffled("IllegalMove")
