"""The levels differ, and in the right order: small matches on fixed deals.

The same deals and seeds give the same games, so these cannot fail by chance; the table of
strengths with its intervals comes from `kozyr bench bots`.
"""

from statistics import fmean

import pytest

from services.ai.bots import Level
from services.cli.bench.matches import Player
from tests.services.ai.match import level, match
from tests.services.ai.zoo import at_random

EASY, NORMAL, HARD = (level(each, 64) for each in Level)


@pytest.mark.parametrize("hero", [EASY, NORMAL, HARD], ids=["easy", "normal", "hard"])
@pytest.mark.parametrize("game", ["durak", "rami"])
def test_every_level_beats_chance(game: str, hero: Player) -> None:
    """At least nine games of ten against legal moves at random."""
    assert match(game, hero, at_random, range(20)).score >= 0.9


def test_normal_durak_beats_easy() -> None:
    """More than half of the games."""
    assert match("durak", NORMAL, EASY, range(150)).score > 0.53


def test_hard_durak_beats_normal() -> None:
    """With few worlds two games of three, with all it has four of five."""
    assert match("durak", HARD, NORMAL, range(20)).score > 0.65


def test_hard_durak_is_seldom_the_durak() -> None:
    """Among four the fair share is a quarter."""
    assert match("durak", HARD, NORMAL, range(8), seats=4).score > 0.8


def test_normal_rami_beats_easy() -> None:
    """Four rounds of five."""
    assert match("rami", NORMAL, EASY, range(60)).score > 0.8


def test_hard_rami_beats_normal_and_easy() -> None:
    """Most rounds, and points too, though it searches little here."""
    searching = level(Level.HARD, 64)
    played = match("rami", searching, NORMAL, range(20))
    assert played.score > 0.55
    assert fmean(played.margins) > 0
    assert match("rami", searching, EASY, range(8)).score > 0.8


def test_normal_azi_wins_from_two_easy_ones() -> None:
    """Chips come in: more than nothing a game."""
    assert match("azi", NORMAL, EASY, range(300), seats=3).score > 0


def test_hard_azi_wins_from_two_normal_ones() -> None:
    """Chips come in here too."""
    assert match("azi", HARD, NORMAL, range(60), seats=3).score > 0
