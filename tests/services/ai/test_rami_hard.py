"""Hard Rami plays the match and not the hand, and knows an end when it sees one."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engines import rami
from engines.rami import Source
from services.ai.bots import Budget, Level, choose
from services.ai.bots.rami.trial import usual
from tests.engines import rami_play

MANY = Budget(worlds=400)


def chosen(state: rami.State, *history: rami.Happening, budget: Budget = MANY) -> Any:
    """What hard does in seat 0."""
    return choose("rami", rami.view(state, 0), history, Level.HARD, Random(1), budget).move


def turned(hand: str, other: str, **setup: Any) -> rami.State:
    """Seat 0 has drawn; what is not named lies in the stock."""
    state = rami_play.at(hand, other, discard=["9C"], **setup)
    return replace(_stocked(state), drawn=Source.STOCK, drawn_card=state.hands[0][-1])


def _stocked(state: rami.State) -> rami.State:
    named = {c for hand in state.hands for c in hand} | set(state.discard)
    named |= {c for meld in state.melds for c in meld.cards}
    return replace(state, stock=tuple(c for c in rami.PACK if c not in named))


def test_who_can_go_out_does() -> None:
    """By laying everything, or all but a discard, from the pile or not."""
    first = chosen(turned("5H 6H 7H 9D 9S 9H KC", "2S 4S 6S 8S TS QS"))
    assert isinstance(first, rami.Meld)
    from_pile = _stocked(rami_play.at("5H 6H 7H 9D 9S", "2S 4S 6S 8S TS QS", discard=["9C"]))
    assert chosen(from_pile) == rami.DrawDiscard()


def test_a_lone_combination_is_held_back_from_a_full_hand() -> None:
    """Who is far from going out is given no run to add to; who has two cards is not."""
    hand = "5H 6H 7H 2C 9D JS KD 4S"
    early = turned(hand, "2S 4D 6S 8C TS QS KH")
    assert isinstance(usual(rami.view(early, 0)), rami.Discard)
    late = turned(hand, "2S 8C", melds={"m1": ["QS", "QD", "QH"], "m2": ["AS", "AD", "AC"]})
    assert isinstance(usual(rami.view(late, 0)), rami.Meld)
    assert isinstance(chosen(late), rami.Meld)


@pytest.mark.parametrize("keep", [False, True])
def test_the_last_card_is_kept_where_it_must_be_discarded(keep: bool) -> None:
    """RAMI-19: with `discard_to_win` three cards of a run are no way out, without they are."""
    state = turned("5H 6H 7H", "2S 4S 6S 8S TS QS", options={"discard_to_win": keep})
    assert isinstance(chosen(state), rami.Discard if keep else rami.Meld)


def test_with_an_empty_stock_the_cheapest_hand_ends_the_round_and_others_do_not() -> None:
    """RAMI-21: asking for a card is how a leader wins, and how anybody else loses."""
    cheap = rami_play.at("2H 3C", "KS QS JD TD 9D", discard=["KC"])
    assert chosen(cheap) == rami.DrawStock()
    dear = rami_play.at("KS QD", "2H 3C", discard=["4S"])
    assert chosen(dear) == rami.DrawDiscard()


def test_nobody_waits_for_ever_on_an_empty_stock() -> None:
    """After two rounds of turns in which only the pile changed hands the round is ended."""
    dear = replace(rami_play.at("KS QD", "2H 3C", discard=["4S"]), idle=5)
    assert chosen(dear) == rami.DrawStock()


def test_equal_questions_have_equal_answers_and_worlds_are_counted() -> None:
    """The same seed and number of worlds give the same move; one world is enough for one."""
    state = turned("5H 6H 8C 2C 9D JS KD 4S", "2S 4D 6S 8D TS QS KH")
    for worlds in (1, 8, 300):
        assert chosen(state, budget=Budget(worlds)) == chosen(state, budget=Budget(worlds))


def test_without_time_to_search_hard_keeps_to_its_policy() -> None:
    """A search that is over before its first batch changes nothing."""
    state = turned("5H 6H 8C 2C 9D JS KD 4S", "2S 4D 6S 8D TS QS KH")
    assert chosen(state, budget=Budget(cpu_ms=0)) == usual(rami.view(state, 0))
