"""Azi's bids: what one opponent always does gains it nothing against the hard bot."""

import pytest

from engines import azi
from services.ai.bots import Level
from tests.services.ai.azi_match import Table, match
from tests.services.ai.match import level
from tests.services.ai.zoo import ZOO, at_random
from tests.services.ai.zoo.azi_simple import WAYS

HARD = level(Level.HARD, worlds=4)


@pytest.mark.parametrize("way", WAYS)
def test_whoever_bids_in_one_way_loses_to_the_hard_bot(way: str) -> None:
    """More than an entry fee a deal: raising always, levelling always, folding always."""
    table = Table(azi.Options(), seats=2)
    assert match(table, HARD, ZOO[f"azi-{way}"], range(100)).score > 1 / 3


@pytest.mark.parametrize(("way", "deals"), [("stays", 60), ("bids-all", 400)])
def test_nor_does_it_gain_by_bidding_blind(way: str, deals: int) -> None:
    """With blind bets on the table, and cards that are not looked at."""
    table = Table(azi.Options(blind_bets=True), seats=2)
    assert match(table, HARD, ZOO[f"azi-blind-{way}"], range(deals)).score > 0


@pytest.mark.parametrize("of", Level)
def test_every_level_wins_from_bids_at_random(of: Level) -> None:
    """Far more than a third of a fee a deal from two who make any legal move."""
    assert match(Table(azi.Options(), seats=3), level(of, worlds=4), at_random, range(40)).score > 1


def test_the_hard_bot_wins_at_every_kind_of_table() -> None:
    """From normal ones: with four cards, with buying back, at two seats; and from easy ones."""
    normal, easy = level(Level.NORMAL), level(Level.EASY)
    four = Table(azi.Options(deal_size=4), seats=3)
    back = Table(azi.Options(azi_entry="half_bank"), seats=3)
    assert match(four, HARD, normal, range(60)).score > 0.5
    assert match(back, HARD, normal, range(200)).score > 0.1
    assert match(Table(azi.Options(), seats=3), HARD, easy, range(60)).score > 0.5
    assert match(Table(azi.Options(), seats=2), HARD, normal, range(150)).score > 0.1
