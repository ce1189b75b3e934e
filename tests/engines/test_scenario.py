"""Reading and judging scenarios, apart from any game's rules."""

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from engines import scenario
from engines.cards import Card, Suit


def judged(
    monkeypatch: pytest.MonkeyPatch, game: str, expect: dict[str, Any], **came: Any
) -> list[str]:
    """Judge an expectation against what a game is said to have come to."""
    told = ModuleType(f"engines.{game}.scenario")
    told.__dict__["run"] = lambda _: {"id": "s", "refused": [], **came}
    monkeypatch.setitem(sys.modules, f"engines.{game}", ModuleType(f"engines.{game}"))
    monkeypatch.setitem(sys.modules, told.__name__, told)
    three: dict[str, Any] = {"hands": [[], [], []]}
    return scenario.judge({"id": "s", "game": game, "setup": three, "expect": expect})


def test_reading_skips_comments_and_blank_lines() -> None:
    """A line is a scenario, a comment or blank."""
    assert scenario.read('// a comment\n\n{"id": "x"}\n  // more\n{"id": "y"}\n') == [
        {"id": "x"},
        {"id": "y"},
    ]


def test_only_an_end_of_line_ends_a_scenario() -> None:
    """A name may hold what else might count as a line's end."""
    assert scenario.read('{"id": "a\u2028b"}\r\n') == [{"id": "a\u2028b"}]


@pytest.mark.parametrize(
    "line", ["{", "[1]", '{"id": "x"} // no comment may follow', "[" * 100_000, "9" * 5_000]
)
def test_reading_names_a_bad_line(line: str) -> None:
    """What is no JSON object is refused with its line number."""
    with pytest.raises(ValueError, match=r"^line 2:"):
        scenario.read(f"// first\n{line}\n")


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"id": "x", "game": "chess"}, "game"),
        ({"id": "x", "game": ["azi"]}, "game"),
        ({"id": "x"}, "game"),
        ({"game": "durak"}, "id"),
        ({"id": "x", "game": "durak", "expekt": {}}, "expekt"),
    ],
)
def test_a_bad_scenario_names_its_key(wrong: dict[str, Any], key: str) -> None:
    """The game must exist, the scenario must have a name, and no key may be misspelt."""
    with pytest.raises(ValueError, match=f"^{key}"):
        scenario.run(wrong)


@pytest.mark.parametrize(
    ("game", "key"), [("durak", "bank"), ("azi", "hands"), ("rami", "out"), ("rami", "legals")]
)
def test_an_unknown_expectation_is_an_error(
    monkeypatch: pytest.MonkeyPatch, game: str, key: str
) -> None:
    """A misspelt key must not pass for an expectation that holds."""
    with pytest.raises(ValueError, match=f"^expect.{key}:"):
        judged(monkeypatch, game, {key: 1})


@pytest.mark.parametrize(
    ("expect", "key"),
    [
        ({"refused": 5}, "refused"),
        ({"refused": {}}, "refused"),
        ({"refused": [0]}, "refused"),
        ({"refused": [[0, "MUST_BID"], 3]}, "refused"),
        ({"refused": ["0", "MUST_BID"]}, "refused"),
        ({"legal": []}, "legal"),
        ({"legal": {"3": []}}, "legal"),
        ({"legal": {"x": []}}, "legal"),
    ],
)
def test_an_expectation_that_makes_no_sense_is_an_error(
    monkeypatch: pytest.MonkeyPatch, expect: dict[str, Any], key: str
) -> None:
    """Refusals are pairs, and moves belong to seats of the table."""
    with pytest.raises(ValueError, match=f"^expect.{key}:"):
        judged(monkeypatch, "azi", expect, legal={})


@pytest.mark.parametrize(
    ("game", "expect", "came"),
    [
        ("durak", {}, {"hands": [["6S"]]}),
        ("durak", {"hands": [["6S", "7S"], []]}, {"hands": [["7S", "6S"], []]}),
        ("durak", {"talon": ["6S", "7S"]}, {"talon": ["7S", "6S"]}),
        ("durak", {"durak": None, "null": True}, {"durak": None, "null": True}),
        ("azi", {"to_act": [2, 0]}, {"to_act": [0, 2]}),
        ("azi", {"payouts": {"0": 5, "1": 0}}, {"payouts": {"0": 5}}),
        ("azi", {"legal": {"1": ["fold", "bid 10"]}}, {"legal": {"1": ["bid 20", "fold"]}}),
        ("azi", {"legal": {"1": ["fold"]}}, {"legal": {"0": ["level"], "1": ["fold"]}}),
        ("azi", {"legal": {"2": []}}, {"legal": {"0": ["level"]}}),
        ("rami", {"melds": {"m1": ["6S", "7S"]}}, {"melds": {"m1": ["7S", "6S"]}}),
        ("rami", {"refused": [1, "MUST_DRAW"]}, {"refused": [[1, "MUST_DRAW"]]}),
        ("rami", {"refused": [[1, "A"], [3, "B"]]}, {"refused": [[1, "A"], [3, "B"]]}),
        ("rami", {"refused": [[3, "B"], [1, "A"]]}, {"refused": [[1, "A"], [3, "B"]]}),
        ("rami", {"refused": []}, {"refused": []}),
    ],
)
def test_what_counts_as_equal(
    monkeypatch: pytest.MonkeyPatch, game: str, expect: dict[str, Any], came: dict[str, Any]
) -> None:
    """Cards are sets, seats that may act are a set, one refusal stands for a list of one."""
    assert judged(monkeypatch, game, expect, **came) == []


@pytest.mark.parametrize(
    ("game", "expect", "came"),
    [
        ("durak", {"hands": [["6S"], ["7S"]]}, {"hands": [["7S"], ["6S"]]}),
        ("durak", {"out": [0, 1]}, {"out": [1, 0]}),
        ("durak", {"null": True}, {"null": 1}),
        ("durak", {"durak": 0}, {"durak": None}),
        ("durak", {"phase": "over"}, {"phase": "taking"}),
        ("azi", {"legal": {"0": ["bidding", "fold"]}}, {"legal": {"0": ["fold"]}}),
        ("rami", {"refused": [[1, "A"], [1, "A"]]}, {"refused": [[1, "A"]]}),
        ("durak", {"talon": []}, {}),
        ("azi", {"payouts": {"0": 5}}, {"payouts": {"0": 5, "1": 1}}),
        ("azi", {"legal": {"0": ["level"]}}, {"legal": {"0": ["fold", "level"]}}),
        ("durak", {"legal": {"0": ["bid 1", "pass"]}}, {"legal": {"0": ["pass"]}}),
        ("durak", {"refused": [0, "MUST_ATTACK"]}, {"refused": [[0, "MALFORMED"]]}),
        ("durak", {"refused": [0, "MUST_ATTACK"]}, {"refused": []}),
        ("durak", {}, {"refused": [[0, "MUST_ATTACK"]]}),
    ],
)
def test_what_counts_as_different(
    monkeypatch: pytest.MonkeyPatch, game: str, expect: dict[str, Any], came: dict[str, Any]
) -> None:
    """A difference is told in one line that names the key; a refusal nobody expected is one."""
    (line,) = judged(monkeypatch, game, expect, **came)
    assert line.startswith(f"{next(iter(expect), 'refused')}: expected ")


@dataclass(frozen=True, slots=True)
class Part:
    """A nested value."""

    card: Card
    count: int


@dataclass(frozen=True, slots=True)
class Happened:
    """An event with a field of every kind that events may have."""

    seat: int
    card: Card
    cards: tuple[Card, ...]
    maybe: Card | None
    nothing: Card | None
    suit: Suit
    parts: tuple[Part, ...]
    data: bytes
    flag: bool


def test_an_event_is_described_with_cards_as_text() -> None:
    """A card is told from a number by the declared type of its field."""
    event = Happened(
        4, Card(4), (Card(5),), Card(6), None, Suit.CLUBS, (Part(Card(51), 7),), b"\x01", True
    )
    assert scenario.described(event) == {
        "name": "Happened",
        "seat": 4,
        "card": "6S",
        "cards": ["7S"],
        "maybe": "8S",
        "nothing": None,
        "suit": "C",
        "parts": [{"card": "AC", "count": 7}],
        "data": "01",
        "flag": True,
    }
