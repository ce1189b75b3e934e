"""Rami's scenarios: what a position must say, and what comes back."""

from typing import Any

import pytest

from engines.cards import parse
from engines.rami.scenario import position, run
from engines.scenario import judge

SETUP: dict[str, Any] = {
    "hands": [["8H", "9H"], ["KH"]],
    "stock": ["2C"],
    "discard": ["3C"],
    "melds": {"m1": ["5H", "6H", "7H"]},
    "to_act": 0,
    "drawn": "stock",
}


def scenario(moves: Any = (), options: Any = None, **setup: Any) -> dict[str, Any]:
    """A scenario from the position above with some keys of the setup replaced."""
    said = {"setup": {**SETUP, **setup}, "moves": list(moves), "options": options or {}}
    return {"id": "s", "game": "rami", **said}


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"hands": None}, "setup.hands"),
        ({"hands": [["2H"]]}, "setup.hands"),
        ({"hands": [["2H"]] * 5}, "setup.hands"),
        ({"hands": [["1H"], ["KH"]]}, "setup.hands"),
        ({"hands": ["8H", "KH"]}, "setup.hands"),
        ({"stock": ["8H"]}, "setup: 8H"),
        ({"discard": [7]}, "setup.discard"),
        ({"melds": []}, "setup.melds"),
        ({"melds": {"m1": ["5H", "6H"]}}, "setup.melds"),
        ({"melds": {"": ["5H", "6H", "7H"]}}, "setup.melds"),
        ({"to_act": 2}, "setup.to_act"),
        ({"to_act": True}, "setup.to_act"),
        ({"dealer": "0"}, "setup.dealer"),
        ({"scores": [1]}, "setup.scores"),
        ({"scores": [1, -1]}, "setup.scores"),
        ({"drawn": "KH"}, "setup.drawn"),
        ({"drawn": "pile"}, "setup.drawn"),
        ({"drawn": "stock", "hands": [[], ["KH"]]}, "setup.drawn"),
        ({"trump": "S"}, "setup.trump"),
    ],
)
def test_a_position_that_makes_no_sense_names_its_key(wrong: dict[str, Any], key: str) -> None:
    """A ruling on a position that cannot be would mislead."""
    with pytest.raises(ValueError, match=f"^{key}"):
        run(scenario(**wrong))


@pytest.mark.parametrize("options", [{"target": 0}, {"jokers": 2}, {"ace_high": "yes"}, []])
def test_wrong_options_are_named(options: Any) -> None:
    """Options are read as a table's options are."""
    with pytest.raises(ValueError, match=r"^options"):
        run({**scenario(), "options": options})


@pytest.mark.parametrize("move", [[0, "play", "8H"], [0, "draw_stock", 1], [0, "meld"], [0], "x"])
def test_a_move_that_rami_does_not_have_is_named(move: Any) -> None:
    """A misspelt move must not pass for a refused one."""
    with pytest.raises(ValueError, match=r"^moves\[1\]"):
        run(scenario([[0, "discard", "8H"], move]))


def test_a_setup_is_required() -> None:
    """Without a position there is nothing to rule on."""
    with pytest.raises(ValueError, match=r"^setup"):
        run({"id": "s", "game": "rami"})


def test_what_a_scenario_came_to() -> None:
    """Every key of `expect`, with cards as text and the end of the round as the end."""
    came = run(scenario([[0, "draw_stock"], [0, "lay_off", ["9H", "8H"], "m1"]]))
    names = [event["name"] for event in came.pop("events")]
    assert names == ["LaidOff", "RoundScored"]
    assert came == {
        "id": "s",
        "refused": [[0, "ALREADY_DRAWN"]],
        "legal": {},
        "to_act": [],
        "hands": [[], ["KH"]],
        "melds": {"m1": ["5H", "6H", "7H", "8H", "9H"]},
        "scores": [10, 0],
        "round_winner": 0,
        "match_winner": None,
        "over": False,
        "phase": "over",
    }


def test_events_are_told_in_full() -> None:
    """An event has its name and its fields, enumerations in lower case."""
    came = run(scenario([[0, "discard", "8H"], [1, "draw_discard"], [1, "timeout"]]))
    assert came["events"] == [
        {"name": "Discarded", "seat": 0, "card": "8H"},
        {"name": "CardDrawn", "seat": 1, "source": "discard", "card": "8H"},
        {"name": "TurnExpired", "seat": 1, "draws": False, "discards": True},
        {"name": "Discarded", "seat": 1, "card": "KH"},
    ]


def test_with_drawn_stock_the_last_card_is_the_drawn_one() -> None:
    """RAMI-27: hands are listed in dealt order, so a timeout throws the last card."""
    assert position(scenario()).drawn_card == parse("9H")
    assert run(scenario([[0, "timeout"]]))["hands"] == [["8H"], ["KH"]]


def test_what_is_left_out_has_a_default() -> None:
    """Seat 0 deals, the next seat is to act, totals are zero, nothing is drawn."""
    state = position({"id": "s", "game": "rami", "setup": {"hands": [["8H"], ["KH"], ["2C"]]}})
    assert (state.dealer, state.actor, state.scores, state.drawn) == (0, 1, (0, 0, 0), None)
    assert (state.stock, state.discard, state.melds) == ((), (), ())


def test_legal_moves_compare_with_cards_in_any_order() -> None:
    """A meld is the same move whichever way its cards are written."""
    legal = ["lay_off 8H m1", "lay_off 9H 8H m1", "discard 9H", "discard 8H"]
    assert judge({**scenario(), "expect": {"legal": {"0": legal}}}) == []
    assert judge({**scenario(), "expect": {"legal": {"0": legal[1:]}}})
