"""Azi's rulings as data, and what a game may begin with and a program may ask."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import engines.azi as azi
from engines import scenario
from engines.api import (
    CHIPS_MAX,
    Act,
    Command,
    InvalidOption,
    Leave,
    RuleViolation,
    Start,
    Timeout,
    read_options,
)
from engines.azi import (
    BankPaid,
    Fold,
    Options,
)
from tests.engines.azi_play import Listed, Table

CASES = Path(__file__).parent / "cases"
SCENARIOS = [
    one
    for name in ("azi.jsonl", "azi_more.jsonl", "azi_referee.jsonl")
    for one in scenario.read((CASES / name).read_text("utf-8"))
]
TWO = "KS 6D 7D  7H AD QD  9H"


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one["id"])
def test_rulings(one: dict[str, Any]) -> None:
    """Every ruling written down as a scenario holds."""
    assert scenario.judge(one) == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"setup": 7}, "setup"),
        ({"options": []}, "options"),
        ({"options": {"fee": 1}}, "options.fee"),
        ({"options": {"entry_fee": 0}}, "options.entry_fee"),
        ({"setup": {"stacks": None}}, "setup.stacks"),
        ({"setup": {"stacks": [100]}}, "setup.seats"),
        ({"setup": {"stacks": [100, -1]}}, "setup.stacks"),
        ({"setup": {"stacks": [100, 0]}}, "setup.stacks"),
        ({"setup": {"opener": 2}}, "setup.opener"),
        ({"setup": {"opener": None}}, "setup.opener"),
        ({"setup": {"last_winner": 0}}, "setup.opener"),
        ({"setup": {"stakes": 1}}, "setup.stakes"),
        ({"setup": {"deals": []}}, "setup.deals"),
        ({"setup": {"deals": [5]}}, r"setup.deals\[0\]"),
        ({"setup": {"deals": [{"hands": [["KS"]], "turned": "9H"}]}}, r"setup.deals\[0\].hands"),
        ({"setup": {"deals": [{"hands": [None, None], "turned": "9H"}]}}, r"setup.deals\[0\]"),
        ({"moves": [[0, "check"]]}, r"moves\[0\]"),
        ({"moves": [[0, "bid"]]}, r"moves\[0\]"),
        ({"moves": [[0]]}, r"moves\[0\]"),
    ],
)
def test_a_bad_scenario_names_its_key(changes: dict[str, Any], key: str) -> None:
    """What makes no sense is an error that says where."""
    hands = [["KS", "6D", "7D"], ["7H", "AD", "QD"]]
    setup = {"stacks": [100, 100], "opener": 0, "deals": [{"hands": hands, "turned": "9H"}]}
    changed = dict(changes)
    if isinstance(changed.get("setup"), dict):
        changed["setup"] = {**setup, **changed["setup"]}
    good = {"id": "x", "game": "azi", "setup": setup, "options": {"entry_fee": 10}, "moves": []}
    with pytest.raises(ValueError, match=f"^{key}"):
        scenario.run({**good, **changed})


@pytest.mark.parametrize(
    "hands",
    [
        [["KS", "6D"], ["7H", "AD", "QD"]],
        [["KS", "6D", "6D"], ["7H", "AD", "QD"]],
        [["KS", "6D", "9H"], ["7H", "AD", "QD"]],
        [["KS", "6D", "2S"], ["7H", "AD", "QD"]],
        [["KS", "6D", "6C"], ["7H", "AD", "QD"]],
        [["KS", "6D", 6], ["7H", "AD", "QD"]],
    ],
)
def test_a_bad_hand_is_no_position(hands: list[list[str]]) -> None:
    """A hand has the right number of cards of the pack, none twice."""
    setup = {"stacks": [100, 100], "opener": 0, "deals": [{"hands": hands, "turned": "9H"}]}
    with pytest.raises(ValueError, match=r"^setup.deals\[0\]"):
        scenario.run({"id": "x", "game": "azi", "setup": setup, "options": {"entry_fee": 10}})


def test_options_have_the_defaults_of_the_book() -> None:
    """AZI-55: the minimum bet is the entry fee unless it is chosen."""
    assert Options() == Options(1, 3, 1, "survivors", True, False)
    assert Options(entry_fee=25).min_bet == 25
    assert Options(entry_fee=25, min_bet=5).min_bet == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entry_fee", 0),
        ("entry_fee", -1),
        ("entry_fee", True),
        ("entry_fee", 2**63),
        ("min_bet", -1),
        ("deal_size", 5),
        ("azi_entry", "everyone"),
        ("blind_bets", 1),
        ("no_such", 1),
    ],
)
def test_a_wrong_option_is_named(name: str, value: object) -> None:
    """AZI-55: options out of bounds are refused by name."""
    with pytest.raises(InvalidOption) as caught:
        read_options(Options, {name: value})
    assert caught.value.option == name


@pytest.mark.parametrize(
    ("seats", "stacks", "winner", "argument"),
    [
        (1, (100,), None, "seats"),
        (7, (100,) * 7, None, "seats"),
        (True, (100,), None, "seats"),
        (2, (100,), None, "stacks"),
        (2, (100, -1), None, "stacks"),
        (2, (100, 100.0), None, "stacks"),
        (2, (100, True), None, "stacks"),
        (2, (CHIPS_MAX, 1), None, "stacks"),
        (2, (100, 9), None, "stacks"),
        (3, (9, 9, 9), None, "stacks"),
        (2, (100, 100), 2, "last_winner"),
        (2, (100, 100), -1, "last_winner"),
    ],
)
def test_no_table_begins_so(
    seats: int, stacks: tuple[Any, ...], winner: int | None, argument: str
) -> None:
    """AZI-4, AZI-51: two seats must be able to pay, and all chips together must be countable."""
    with pytest.raises(ValueError, match=f"^{argument}:"):
        azi.initial(Options(entry_fee=10), seats, stacks=stacks, last_winner=winner)


def test_blind_bets_halve_the_chips_that_can_be_counted() -> None:
    """AZI-51: a blind level is twice the chips, and must stay below the largest number too."""
    stacks = (CHIPS_MAX // 2, 1)
    azi.initial(Options(), 2, stacks=stacks)
    with pytest.raises(ValueError, match=r"^stacks:"):
        azi.initial(Options(blind_bets=True), 2, stacks=stacks)


def test_the_start_is_accepted_once() -> None:
    """AZI-50: a second start and a move before the first are out of phase."""
    table = Table(Listed(TWO), [100, 100])
    with pytest.raises(RuleViolation, match="WRONG_PHASE"):
        table.give(Start())
    fresh = azi.initial(Options(), 2, stacks=(5, 5))
    assert azi.to_act(fresh) == ()
    refused: list[Command[azi.Move]] = [Act(0, Fold()), Timeout(0), Leave(0)]
    for command in refused:
        with pytest.raises(RuleViolation, match="WRONG_PHASE"):
            azi.decide(fresh, command, Listed())


def test_no_command_has_begun_with_a_consequence() -> None:
    """What only follows from something is no first event of an append."""
    for events in ((), (azi.BiddingClosed(0),), (BankPaid(0, False, (), ()),)):
        with pytest.raises(ValueError, match="no command"):
            azi.cause(events)


def test_the_engine_needs_the_standard_library_only() -> None:
    """It imports in an isolated interpreter without the site's packages."""
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import engines.azi.scenario"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
