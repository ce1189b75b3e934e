"""Durak: rulings, deals, faults that keep coming back, and every line of a tiny position."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import engines.durak as durak
from engines import scenario
from engines.api import (
    Act,
    InvalidOption,
    Leave,
    Start,
    Timeout,
    read_options,
)
from engines.cards import Card, Suit, parse, suit
from engines.durak.model import PACK, Attack, Beat, Move, Options, Pass, Phase, State, Take
from tests.engines.durak_positions import Listed, after, bout, cards, refusal, stacked, told

HERE = Path(__file__).parent
CASES = [
    case
    for name in ("durak.jsonl", "durak_more.jsonl", "durak_referee.jsonl")
    for case in scenario.read((HERE / "cases" / name).read_text("utf-8"))
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_ruling(case: dict[str, Any]) -> None:
    """The scenario comes to what was worked out by hand from the rules."""
    assert scenario.judge(case) == []


def test_every_ruling_has_a_name_of_its_own() -> None:
    """Rulings are told apart by name, and there are as many as were written down."""
    assert len({case["id"] for case in CASES}) == len(CASES) == 63 + 53


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"setup": None}, "setup"),
        ({"setup": {"stock": []}}, "setup.stock"),
        ({"hands": [["8S"]]}, "setup.hands"),
        ({"hands": [["8S"], ["8S"]]}, "setup"),
        ({"hands": [["8S"], ["5S"]]}, r"setup.hands\[1\]"),
        ({"hands": [["8S"], ["XS"]]}, r"setup.hands\[1\]"),
        ({"hands": [["8S"], []]}, "setup.hands"),
        ({"trump": "X"}, "setup.trump"),
        ({"talon": ["7S"]}, "setup.talon"),
        ({"attacker": 2}, "setup.attacker"),
        ({"attacker": True}, "setup.attacker"),
        ({"out": [0]}, "setup.out"),
        ({"options": {"series": True}}, "options.series"),
        ({"options": {"auto_pass": 1}}, "options.auto_pass"),
        ({"moves": [[0, "transfer", "8H"]]}, r"moves\[0\]"),
        ({"moves": [[0, "attack"]]}, r"moves\[0\]"),
        ({"moves": [[0]]}, r"moves\[0\]"),
    ],
)
def test_a_scenario_that_makes_no_sense_names_its_key(change: dict[str, Any], key: str) -> None:
    """A mistake in a scenario is told, not ruled upon."""
    setup = {"hands": [["8S"], ["9S"]], "talon": [], "trump": "H", "attacker": 0}
    whole = {"id": "x", "game": "durak", "setup": setup, "moves": []}
    scenario.run(whole)
    inner = {k: v for k, v in change.items() if k in setup or k == "out"}
    outer = {k: v for k, v in change.items() if k not in inner}
    with pytest.raises(ValueError, match=rf"^{key}:"):
        scenario.run({**whole, "setup": {**setup, **inner}, **outer})


# The deal


def test_the_deck_is_dealt_round_and_the_trump_lies_beneath() -> None:
    """Six cards each, one at a time from seat 0; the next is shown and drawn last (DURAK-3)."""
    deck = PACK
    state = after(durak.initial(Options(), 4), Start(), chance=Listed(deck))
    assert state.hands == tuple(deck[s:24:4] for s in range(4))
    assert state.talon == (*deck[25:], deck[24])
    assert (state.shown, state.trump) == (deck[24], suit(deck[24]))


def test_the_lowest_trump_in_hand_attacks_first_and_the_shown_card_does_not_count() -> None:
    """The shown six of trumps is in nobody's hand (DURAK-5)."""
    hands = ["8H 9S TS JS QS KS", "7H AS 6S 7S 8S 6D", "AH KH QH JH TH 9H"]
    chance = Listed(stacked(3, hands, "6H"), starter=2)
    (dealt,) = told(durak.initial(Options(), 3), Start(), chance)
    assert isinstance(dealt, durak.Dealt)
    assert (dealt.starter, dealt.lowest, dealt.shown) == (1, parse("7H"), parse("6H"))
    assert chance.asked == []
    state = after(durak.initial(Options(), 3), Start(), chance=chance)
    assert (state.attacker, state.defender, state.limit) == (1, 2, 6)
    assert len(durak.legal(state, 1)) == 6


@pytest.mark.parametrize("starter", [0, 1])
def test_without_a_trump_in_any_hand_the_starter_is_drawn(starter: int) -> None:
    """A labelled draw of its own decides, and the event shows that nobody had a trump (DURAK-6)."""
    chance = Listed(stacked(2, ["6S 7S 8S 9S TS JS", "6D 7D 8D 9D TD JD"], "AC"), starter)
    (dealt,) = told(durak.initial(Options(), 2), Start(), chance)
    assert isinstance(dealt, durak.Dealt)
    assert (dealt.starter, dealt.lowest) == (starter, None)
    assert chance.asked == [(1, "starter", 2)]


def test_six_players_read_the_trump_from_the_last_card_dealt() -> None:
    """With an empty talon the last card of seat 5 is shown and stays there (DURAK-4)."""
    state = after(durak.initial(Options(), 6), Start(), chance=Listed(PACK))
    assert state.talon == ()
    assert (state.trump, state.shown) == (Suit.CLUBS, PACK[-1])
    assert state.hands[5][-1] == PACK[-1]
    assert PACK[-1] in durak.view(state, 0).known[-1].cards
    assert state.attacker == next(s for s in range(6) if parse("6C") in state.hands[s])


@pytest.mark.parametrize("deck", [PACK[:35], (*PACK[:35], PACK[0]), ()])
def test_a_deck_that_is_not_the_pack_is_not_dealt(deck: tuple[Card, ...]) -> None:
    """A faulty source of cards is noticed before anything is stored."""
    with pytest.raises(ValueError, match="deck"):
        told(durak.initial(Options(), 2), Start(), Listed(deck))


@pytest.mark.parametrize("seats", [-1, 0, 1, 7])
def test_only_two_to_six_play(seats: int) -> None:
    """Other numbers of seats are refused (DURAK-1)."""
    with pytest.raises(ValueError, match="seats"):
        durak.initial(Options(), seats)
    with pytest.raises(ValueError, match="stacks"):
        durak.initial(Options(), 2, stacks=(1, 1))


def test_options_have_the_documented_names_and_defaults() -> None:
    """Both are on unless the table says otherwise; others do not exist (DURAK-14, DURAK-15)."""
    assert read_options(Options, {}) == Options(throw_in_after_take=True, auto_pass=True)
    assert not read_options(Options, {"auto_pass": False}).auto_pass
    for given in ({"transfer": True}, {"auto_pass": 1}):
        with pytest.raises(InvalidOption):
            read_options(Options, given)


def test_a_deal_begins_once_and_nothing_moves_before_it() -> None:
    """Before the deal every move is of the wrong phase, afterwards a second deal is (DURAK-29)."""
    new = durak.initial(Options(), 2)
    assert durak.to_act(new) == ()
    moves: tuple[Move, ...] = (Pass(), Attack(PACK[0]), Beat(PACK[0]), Take())
    for move in moves:
        assert refusal(new, Act(0, move)) == "WRONG_PHASE"
    assert refusal(new, Timeout(0)) == "WRONG_PHASE"
    dealt = after(new, Leave(1), Start(), chance=Listed(PACK))
    assert dealt.left == (1,)
    assert refusal(dealt, Start()) == "WRONG_PHASE"


# Faults that keep coming back


def test_the_limit_holds_after_a_take() -> None:
    """One card in the defender's hand: nothing is added to what he takes (DURAK-12)."""
    state = after(bout(["8S 8H 8D", "7C", "8C 6D"]), Act(0, Attack(parse("8S"))), Act(1, Take()))
    assert state.hands[1] == cards("7C 8S")


def test_the_limit_is_not_measured_on_the_current_hand() -> None:
    """Two of three cards are gone, and a third attack is still allowed (DURAK-12)."""
    state = after(
        bout(["8S 8H 8D 6H", "9S 9H KD"]),
        Act(0, Attack(parse("8S"))),
        Act(1, Beat(parse("9S"))),
        Act(0, Attack(parse("8H"))),
        Act(1, Beat(parse("9H"))),
    )
    assert durak.legal(state, 0) == (Attack(parse("8D")), Pass())
    assert durak.view(state, None).limit_left == 1


def test_at_the_limit_no_attack_is_taken_whatever_the_position() -> None:
    """A position at its limit that still asks offers and takes a pass only (DURAK-12)."""
    pair = durak.Pair(0, parse("7S"), parse("9S"))
    state = bout(["8S 9D", "KC"], table=(pair,), limit=1)
    assert durak.legal(state, 0) == (Pass(),)
    assert refusal(state, Act(0, Attack(parse("9D")))) == "ATTACK_LIMIT"
    assert refusal(state, Act(0, Attack(parse("8S")))) == "RANK_NOT_ON_TABLE"


def test_the_loser_taking_last_ends_the_game() -> None:
    """After a take one seat holds cards: it is the durak at once (DURAK-22)."""
    events = told(after(bout(["8S", "7S KD"]), Act(0, Attack(parse("8S")))), Act(1, Take()))
    assert events == (
        durak.Taken(1),
        durak.Passed(0, automatic=True),
        durak.BoutClosed(1, durak.Outcome.TAKEN, None, None, 0),
        durak.SeatOut(0, 1),
        durak.DurakNamed(1, (0, 1)),
    )


def test_the_old_roles_refill_before_the_new_ones_hold() -> None:
    """The beaten bout's defender draws last although he attacks next (DURAK-18)."""
    state = bout(["8S 6D 7D 8D 9D TD", "9S 6S 7S TS JS QS"], talon="7H 8H 9C")
    state = after(state, Act(0, Attack(parse("8S"))), Act(1, Beat(parse("9S"))), Act(0, Pass()))
    assert state.hands[0][-1] == parse("7H")
    assert state.hands[1][-1] == parse("8H")
    assert (state.attacker, state.defender) == (1, 0)


def test_nobody_is_out_while_the_talon_has_cards() -> None:
    """Both hands are empty, both draw, and the deal goes on (DURAK-20)."""
    talon = "7S 8D 9D TD JD QD 7H 8H 9H TH JH QH TC"
    state = after(
        bout(["8S", "9S"], talon=talon), Act(0, Attack(parse("8S"))), Act(1, Beat(parse("9S")))
    )
    assert (state.out, state.phase) == ((), Phase.ATTACKING)
    assert [len(hand) for hand in state.hands] == [6, 6]


def test_a_deal_can_have_no_durak() -> None:
    """Both last cards in one bout: null, with places but no loser (DURAK-23)."""
    events = told(after(bout(["8S", "9S"]), Act(0, Attack(parse("8S")))), Act(1, Beat(parse("9S"))))
    assert events[-3:] == (
        durak.SeatOut(0, 1),
        durak.SeatOut(1, 2),
        durak.DealNull(durak.NullReason.NOBODY_LEFT, (0, 1)),
    )


def test_one_card_is_not_laid_twice_in_a_bout() -> None:
    """A card on the table is no longer in the hand (DURAK-29)."""
    state = after(bout(["8S 8H", "9S KD"]), Act(0, Attack(parse("8S"))), Act(1, Beat(parse("9S"))))
    assert refusal(state, Act(0, Attack(parse("8S")))) == "CARD_NOT_IN_HAND"


def test_a_late_move_can_be_told_by_its_turn() -> None:
    """Every decision of a bout has a number of its own; leaving asks nothing new."""
    state = bout(["8S 8H", "9S KD TD", "8D 7D"])
    turns = [state.turn]
    moves: tuple[tuple[int, Move], ...] = (
        (0, Attack(parse("8S"))),
        (1, Beat(parse("9S"))),
        (0, Pass()),
        (2, Attack(parse("8D"))),
        (1, Take()),
    )
    for seat, move in moves:
        state = after(state, Act(seat, move))
        turns.append(state.turn)
    assert turns == sorted(set(turns))
    assert after(state, Leave(1)).turn == state.turn


# Every line of play


def lines(state: State) -> Counter[tuple[int | None, bool]]:
    """How many lines of play end with each durak, or null."""
    if durak.is_over(state):
        return Counter([(state.durak, state.null)])
    (seat,) = durak.to_act(state)
    found: Counter[tuple[int | None, bool]] = Counter()
    for move in durak.legal(state, seat):
        found += lines(after(state, Act(seat, move)))
    return found


def test_a_tiny_position_has_exactly_the_lines_counted_by_hand() -> None:
    """Two cards each, no trumps: 12 lines.

    Opening 6S: beaten, 6D added: beaten (null) or taken (1 loses); beaten, passed: 7D comes back
    and is taken (0 loses); taken, 6D added (1 loses); taken, passed, then 6D beaten or taken
    (1 loses twice). Opening 6D is the same with the suits exchanged.
    """
    assert lines(bout(["6S 6D", "7S 7D"], trump=Suit.HEARTS)) == {
        (None, True): 2,
        (0, False): 2,
        (1, False): 8,
    }


def test_without_adding_after_a_take_the_tiny_position_has_ten_lines() -> None:
    """`taken, 6D added` is no line of its own any more (DURAK-15)."""
    options = Options(throw_in_after_take=False)
    state = bout(["6S 6D", "7S 7D"], trump=Suit.HEARTS, options=options)
    assert lines(state) == {(None, True): 2, (0, False): 2, (1, False): 6}
