"""Games of Durak between bots end by themselves (DURAK-24 is for others)."""

from tests.engines.laws import games
from tests.services.ai.durak_games import ended

ROUND = 5044
"""A game in which three plain bots handed the same cards round until the guard ended it."""


def test_games_at_any_table_end_by_themselves() -> None:
    """Whoever sits there; `python -m tests.services.ai.durak_games` plays thousands."""
    assert all(by_itself for *_, by_itself in map(ended, range(games(60))))


def test_cards_that_go_round_are_moved_on() -> None:
    """Where no card is discarded for long, nobody adds or takes by choice."""
    _, bouts, by_itself = ended(ROUND)
    assert by_itself
    assert bouts < 60
