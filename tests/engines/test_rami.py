"""Rami's rules by example: rulings as data, the deal, combinations, each known kind of mistake."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engines import rami
from engines.api import (
    Act,
    InvalidOption,
    Start,
    Timeout,
    read_options,
)
from engines.cards import Card, parse, rank, suit, text
from engines.rami import Ending, MeldKind, Phase
from engines.scenario import judge, read
from tests.engines.rami_play import CHANCE, after, at, begun, cards, keen_match, refusal

FOLDER = Path(__file__).parent
CASES = [
    scenario
    for name in ("rami", "rami_more", "rami_referee")
    for scenario in read((FOLDER / "cases" / f"{name}.jsonl").read_text("utf-8"))
]


@pytest.mark.parametrize("scenario", CASES, ids=lambda s: s["id"])
def test_rulings(scenario: dict[str, Any]) -> None:
    """Every ruling written down as data comes out as it says."""
    assert judge(scenario) == []


def test_rulings_cite_known_ids_once() -> None:
    """No two rulings bear one name."""
    ids = [scenario["id"] for scenario in CASES]
    assert len(set(ids)) == len(ids)
    assert len(ids) >= 40


# The deal


@pytest.mark.parametrize(("seats", "hand", "stock"), [(2, 7, 37), (3, 10, 21), (4, 10, 11)])
def test_the_deal(seats: int, hand: int, stock: int) -> None:
    """RAMI-1, RAMI-4: hands, one upcard and the rest as stock, dealt singly from the starter."""
    deck = CHANCE.deck(1, rami.PACK)
    state = begun(seats)
    assert [len(cards) for cards in state.hands] == [hand] * seats
    assert len(state.stock) == stock
    assert state.hands[1][:2] == (deck[0], deck[seats])
    assert state.hands[0][0] == deck[seats - 1]
    assert state.discard == (deck[hand * seats],)
    assert state.stock == deck[hand * seats + 1 :]


def test_seat_zero_deals_and_the_next_seat_starts() -> None:
    """RAMI-3: in the first round seat 0 deals and seat 1 plays first."""
    state = begun(3)
    assert (state.round, state.dealer, rami.to_act(state)) == (1, 0, (1,))


def test_the_deal_goes_round_in_the_append_that_ends_a_round() -> None:
    """RAMI-2, RAMI-3, RAMI-25: each round moves the dealer on, with no command between."""
    dealers = [
        (event.round, event.dealer, event.starter)
        for _, events, _ in keen_match(rami.Options(target=300), 3, 5)
        for event in events
        if isinstance(event, rami.Dealt)
    ]
    assert len(dealers) > 3
    assert dealers == [(n + 1, n % 3, (n + 1) % 3) for n in range(len(dealers))]


def test_the_next_round_begins_afresh() -> None:
    """RAMI-22, RAMI-25, RAMI-32: no meld, draw, known card or count of the old round is left."""
    melds = {"m1": ["2C", "3C", "4C"]}
    state = at("5C 8H", "KH 7D", melds=melds, discard=["9C"], options={"ace_high": True})
    state = replace(state, idle=7, known=((), cards("KH")))
    state = after(state, Act(0, rami.DrawDiscard()), Act(0, rami.LayOff(cards("5C"), "m1")))
    state = after(state, Act(0, rami.Discard(parse("8H"))), Act(1, rami.DrawDiscard()))
    assert (state.idle, state.known) == (8, (cards("9C"), cards("KH 8H")))
    state = after(state, Act(1, rami.Discard(parse("7D"))), Act(0, rami.DrawDiscard()))
    state = after(
        replace(state, hands=(cards("9C"), state.hands[1])), Act(0, rami.Discard(parse("9C")))
    )
    assert (state.round, state.melds, state.known, state.idle) == (2, (), ((), ()), 0)
    assert (state.drawn, state.drawn_card) == (None, None)
    assert (state.scores, state.dealer, state.actor) == ((18, 0), 1, 0)


def test_the_first_player_may_take_the_upcard() -> None:
    """RAMI-9: the upcard is the visible card of the discard pile."""
    state = begun(2)
    taken = after(state, Act(1, rami.DrawDiscard()))
    assert taken.hands[1][-1] == state.discard[0]
    assert taken.discard == ()


def test_a_deal_is_recorded_whole_and_shown_to_nobody() -> None:
    """RAMI-33: the deck is in the event's secret, and not in its text."""
    (dealt,) = rami.decide(rami.initial(rami.Options(), 2), Start(), CHANCE)
    assert isinstance(dealt, rami.Dealt)
    assert sorted(dealt.secret.deck) == list(rami.PACK)
    assert "secret" not in repr(dealt)


def test_a_match_starts_once() -> None:
    """RAMI-29: no second start, and no move before the first."""
    fresh = rami.initial(rami.Options(), 2)
    assert refusal(begun(2), Start()).reason == "WRONG_PHASE"
    assert refusal(fresh, Act(0, rami.DrawStock())).reason == "WRONG_PHASE"
    assert refusal(fresh, Timeout(0)).reason == "WRONG_PHASE"
    assert rami.to_act(fresh) == ()


@pytest.mark.parametrize("seats", [0, 1, 5, True])
def test_two_to_four_seats(seats: int) -> None:
    """RAMI-1: no other number of seats plays."""
    with pytest.raises(ValueError, match="two to four"):
        rami.initial(rami.Options(), seats)


def test_nothing_is_carried_over() -> None:
    """A match of Rami begins from nothing."""
    with pytest.raises(ValueError, match="stacks"):
        rami.initial(rami.Options(), 2, stacks=(1, 2))


def test_options_have_bounds() -> None:
    """RAMI-34: names, types and the bounds of the target are checked."""
    assert read_options(rami.Options, {}) == rami.Options(False, False, True, 100)
    assert read_options(rami.Options, {"target": 10_000}).target == 10_000
    wrong: tuple[dict[str, object], ...] = (
        {"target": 0},
        {"target": 10_001},
        {"target": True},
        {"ace_high": 1},
        {"jokers": True},
    )
    for given in wrong:
        with pytest.raises(InvalidOption):
            read_options(rami.Options, given)


# Combinations


def valid(cs: tuple[Card, ...]) -> bool:
    """Whether cards are a run or a group, said another way than the engine does."""
    run = any(
        {text(c) for c in cs} == {r + s for r in "23456789TJQKA"[low : low + len(cs)]}
        for s in "SHDC"
        for low in range(14 - len(cs))
    )
    group = len(cs) in (3, 4) and len({rank(c) for c in cs}) == 1 and len(set(cs)) == len(cs)
    return len(cs) >= 3 and (run or group)


def test_every_combination_of_the_pack_is_found() -> None:
    """RAMI-5, RAMI-6: 66 runs a suit (11 of three, … 1 of thirteen), 5 groups a rank."""
    found = rami.melds_in(rami.PACK)
    assert len(found) == len(set(found)) == 4 * 66 + 13 * 5
    assert all(valid(cs) for cs in found)
    kinds = [rami.kind_of(cs) for cs in found]
    assert (kinds.count(MeldKind.RUN), kinds.count(MeldKind.GROUP)) == (264, 65)


def test_melds_in_a_hand_are_all_its_valid_subsets() -> None:
    """RAMI-31: compared with all subsets of dense and of random hands of eleven cards."""
    rng = Random(3)
    dense = [c for c in rami.PACK if rank(c) > 8]
    for pack in (rami.PACK, dense, rami.PACK[:13], dense):
        hand = sorted(rng.sample(pack, 11))
        subsets = [cs for n in range(3, 12) for cs in combinations(hand, n)]
        assert sorted(rami.melds_in(hand)) == sorted(cs for cs in subsets if valid(cs))
        assert all((rami.kind_of(cs) is not None) == valid(cs) for cs in subsets)


def test_extensions_are_all_subsets_that_keep_the_meld_valid() -> None:
    """RAMI-12, RAMI-13, RAMI-31: at both ends, several at once, for runs and groups."""
    rng = Random(4)
    for meld in (cards("7H 8H 9H"), cards("QH KH AH"), cards("2H 3H 4H"), cards("7S 7D 7C")):
        for _ in range(20):
            others = [c for c in rami.PACK if c not in meld and (suit(c) == 1 or rank(c) == 5)]
            hand = sorted(rng.sample(others, 9))
            subsets = [cs for n in range(1, 10) for cs in combinations(hand, n)]
            expected = [cs for cs in subsets if valid((*meld, *cs))]
            assert sorted(rami.extensions(meld, hand)) == sorted(expected)


def test_ace_and_kings_are_no_group() -> None:
    """A mistake often made: an ace among kings."""
    assert rami.kind_of(cards("KC KD AD")) is None


def test_a_card_twice_makes_no_meld() -> None:
    """Three cards of which two are one are no group."""
    assert rami.kind_of(cards("7S 7H 7H")) is None


@pytest.mark.parametrize(("ace_high", "points"), [(False, 1), (True, 11)])
def test_points_of_cards(ace_high: bool, points: int) -> None:
    """RAMI-23: every rank once, and the ace as the option says."""
    worth = [rami.card_points(c, ace_high) for c in rami.PACK[:13]]
    assert worth == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, points]


# Mistakes that keep coming back


def test_repeated_lay_off_on_one_end() -> None:
    """RAMI-13: one end takes card after card in one turn."""
    state = at("TH JH QH 2C", "KD", melds={"m1": ["7H", "8H", "9H"]}, drawn="stock")
    for c in ("TH", "JH", "QH"):
        state = after(state, Act(0, rami.LayOff(cards(c), "m1")))
    assert state.melds[0].cards == cards("7H 8H 9H TH JH QH")


def test_a_card_that_fits_two_melds_is_never_guessed() -> None:
    """RAMI-12: without a target the lay-off is refused; with one, only that meld changes."""
    melds = {"m1": ["5H", "6H", "7H"], "m2": ["8S", "8D", "8C"]}
    state = at("8H 2C", "KD", melds=melds, drawn="stock")
    assert refusal(state, Act(0, rami.LayOff(cards("8H"), ""))).reason == "TARGET_REQUIRED"
    lays = [m for m in rami.legal(state, 0) if isinstance(m, rami.LayOff)]
    assert lays == [rami.LayOff(cards("8H"), "m1"), rami.LayOff(cards("8H"), "m2")]


def test_ace_points_do_not_move_the_ace() -> None:
    """RAMI-5: whatever it counts, the ace stands above the king only."""
    for ace_high in (False, True):
        state = at("AS 2S 3S QS KS", "KD", options={"ace_high": ace_high}, drawn="stock")
        melds = [m for m in rami.legal(state, 0) if isinstance(m, rami.Meld)]
        assert melds == [rami.Meld(cards("QS KS AS"))]


def test_drawing_twice() -> None:
    """RAMI-8: no second draw of either kind after either kind."""
    for first in (rami.DrawStock(), rami.DrawDiscard()):
        state = after(at("8H", "KD", stock=["2C", "3C"], discard=["4C", "5C"]), Act(0, first))
        for second in (rami.DrawStock(), rami.DrawDiscard()):
            assert refusal(state, Act(0, second)).reason == "ALREADY_DRAWN"


def test_duplicate_cards_in_a_batch() -> None:
    """RAMI-15: a card named twice is refused before anything else about the cards."""
    state = at("7S 7H 2C", "KD", drawn="stock")
    for move in (rami.Meld(cards("7S 7H 7H")), rami.LayOff(cards("KD KD"), "m9")):
        assert refusal(state, Act(0, move)).reason == "DUPLICATE_CARD"


def test_a_refused_draw_leaves_the_turn_open() -> None:
    """RAMI-10, RAMI-20: after a refused draw the stock may be drawn, even an empty one."""
    for stock in ([], ["2C"]):
        state = at("8H", "KD", stock=stock, discard=[])
        assert refusal(state, Act(0, rami.DrawDiscard())).reason == "EMPTY_DISCARD"
        assert rami.legal(state, 0) == (rami.DrawStock(),)
        rami.decide(state, Act(0, rami.DrawStock()), CHANCE)


def test_the_last_stock_card() -> None:
    """RAMI-20: taking it plays on; only asking beyond it ends the round."""
    state = after(at("8H", "KD", stock=["2C"], discard=["4C"]), Act(0, rami.DrawStock()))
    assert (state.phase, state.stock, state.hands[0]) == (Phase.PLAYING, (), cards("8H 2C"))
    state = after(state, Act(0, rami.Discard(parse("8H"))))
    (scored, *_) = rami.decide(state, Act(1, rami.DrawStock()), CHANCE)
    assert isinstance(scored, rami.RoundScored)
    assert (scored.ending, scored.seat, scored.winner) == (Ending.EXHAUSTED, 1, 0)
    assert (scored.points, scored.gains) == ((2, 10), (10, 0))


def test_no_bonus_for_going_out_in_one_go() -> None:
    """RAMI-24: laying everything in one turn gains what the opponents hold and no more."""
    state = at("8H 9H TH", "KH AS", "2C", drawn="stock")
    events = rami.decide(state, Act(0, rami.Meld(cards("8H 9H TH"))), CHANCE)
    scored = events[1]
    assert isinstance(scored, rami.RoundScored)
    assert (scored.ending, scored.gains, scored.points) == (Ending.WENT_OUT, (13, 0, 0), (0, 11, 2))


def test_melds_never_merge_nor_move() -> None:
    """RAMI-14: a move that would join two runs extends the named one only."""
    melds = {"m1": ["2H", "3H", "4H"], "m2": ["6H", "7H", "8H"]}
    state = at("5H 2C", "KD", melds=melds, drawn="stock")
    joined = after(state, Act(0, rami.LayOff(cards("5H"), "m1")))
    assert [m.cards for m in joined.melds] == [cards("2H 3H 4H 5H"), cards("6H 7H 8H")]


def test_an_opponent_needs_no_opening_to_lay_off() -> None:
    """RAMI-7, RAMI-11, RAMI-12: the next seat may extend what one has laid."""
    state = at("8H 9H TH 2D 2C", "JH KD", drawn="stock", stock=["3C"])
    state = after(state, Act(0, rami.Meld(cards("8H 9H TH"))), Act(0, rami.Discard(parse("2C"))))
    state = after(state, Act(1, rami.DrawStock()), Act(1, rami.LayOff(cards("JH"), "m1")))
    assert state.melds == (rami.TableMeld("m1", 0, MeldKind.RUN, cards("8H 9H TH JH")),)


def test_no_turn_ends_in_a_dead_end() -> None:
    """RAMI-17, RAMI-19: whatever is laid after taking a discard, a move is left until the end."""
    for forbid in (True, False):
        for keep in (True, False):
            options = {"forbid_same_discard": forbid, "discard_to_win": keep}
            state = at("5H 6H 7H 8S 8D 9H", "KD", options=options, discard=["8H"], stock=["2C"])
            for before, seat in within_turn(after(state, Act(0, rami.DrawDiscard()))):
                assert rami.legal(before, seat)


def within_turn(state: rami.State) -> Iterator[tuple[rami.State, int]]:
    """Every position of this turn that can be reached before its end."""
    yield state, state.actor
    for move in rami.legal(state, state.actor):
        reached = after(state, Act(state.actor, move))
        if reached.round == state.round and reached.actor == state.actor:
            yield from within_turn(reached)


# The guard


def passing_on(turns: int) -> rami.State:
    """Two seats who have taken each other's discards for some turns; a card of each stays."""
    state = at("2H 3D", "KD QC", stock=["9C"], discard=["4S"])
    for _ in range(turns):
        seat = state.actor
        state = after(state, Act(seat, rami.DrawDiscard()))
        state = after(state, Act(seat, rami.Discard(state.hands[seat][1])))
    return state


def test_the_guard_ends_a_round_after_200_turns_without_a_stock_draw() -> None:
    """RAMI-22: the 199th turn goes on, the 200th ends the round as an exhausted stock does."""
    state = passing_on(199)
    assert (state.idle, state.round, state.actor) == (199, 1, 1)
    state = after(state, Act(1, rami.DrawDiscard()))
    card = state.hands[1][1]
    discarded, scored, dealt = rami.decide(state, Act(1, rami.Discard(card)), CHANCE)
    assert isinstance(scored, rami.RoundScored)
    assert (scored.ending, scored.seat) == (Ending.GUARD, 1)
    assert scored.winner == scored.points.index(min(scored.points))
    assert isinstance(dealt, rami.Dealt)
    assert rami.cause((discarded, scored, dealt)) == Act(1, rami.Discard(card))


def test_a_stock_draw_starts_the_guard_anew() -> None:
    """RAMI-22: turns count in a row only."""
    state = passing_on(199)
    state = after(state, Act(1, rami.DrawStock()), Act(1, rami.Discard(state.hands[1][0])))
    assert (state.idle, state.round) == (0, 1)


def test_going_out_in_the_200th_turn_is_going_out() -> None:
    """RAMI-22: an empty hand comes before the guard."""
    state = at("2H", "8C", discard=["4S"], melds={"m1": ["4H", "4D", "4C"]}, to_act=1)
    state = after(replace(state, idle=199), Act(1, rami.DrawDiscard()))
    state = after(state, Act(1, rami.LayOff(cards("4S"), "m1")))
    events = rami.decide(state, Act(1, rami.Discard(parse("8C"))), CHANCE)
    assert isinstance(events[1], rami.RoundScored)
    assert (events[1].ending, events[1].winner) == (Ending.WENT_OUT, 1)
