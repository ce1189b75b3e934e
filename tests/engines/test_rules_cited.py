"""Rule books and what cites them: every numbered rule is worked on, every number cited exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOKS = {book.parent.name: book for book in sorted(ROOT.glob("engines/*/RULES.md"))}
"""The rule book of each engine there is, by the engine's name."""
CITING = {".py", ".jsonl", ".proto", ".md", ".txt"}
SEARCHED = ("engines", "services", "tests", "proto/kozyr")


def number(game: str) -> re.Pattern[str]:
    """The pattern of a rule number of the game, `AZI-12`; the digits are its group."""
    return re.compile(rf"\b{game.upper()}-(\d+)\b")


def defined(game: str) -> list[int]:
    """The numbers a rule book gives to its rules: those that open a marked line (`- **AZI-1**`)."""
    starts = re.compile(rf"^[ >-]*[#*|][ #*|>-]*{game.upper()}-(\d+)\b", re.MULTILINE)
    return [int(n) for n in starts.findall(BOOKS[game].read_text("utf-8"))]


def cited(game: str, *kinds: str) -> dict[int, list[str]]:
    """Where each number is cited, in files of these suffixes; the rule book and this aside."""
    found: dict[int, list[str]] = {}
    aside = {BOOKS[game], Path(__file__).resolve()}
    for path in (p for folder in SEARCHED for p in sorted((ROOT / folder).rglob("*"))):
        if path.suffix in kinds and path.is_file() and path not in aside:
            for n in number(game).findall(path.read_text("utf-8")):
                found.setdefault(int(n), []).append(str(path.relative_to(ROOT)))
    return found


def test_there_are_rule_books() -> None:
    """The checks below look at something."""
    assert "rami" in BOOKS


@pytest.mark.parametrize("game", BOOKS)
def test_rules_are_numbered_once_and_without_a_gap(game: str) -> None:
    """Each number from 1 to the last stands at the head of one rule."""
    numbers = defined(game)
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert numbers


@pytest.mark.parametrize("game", BOOKS)
def test_every_rule_is_cited_by_code_or_test(game: str) -> None:
    """A rule that nothing cites is a rule that perhaps nothing follows."""
    assert sorted(set(defined(game)) - set(cited(game, ".py", ".jsonl"))) == []


@pytest.mark.parametrize("game", BOOKS)
def test_no_unknown_rule_is_cited(game: str) -> None:
    """Neither code, tests, wire nor texts name a rule that the book does not have."""
    known = set(defined(game))
    assert {n: where for n, where in cited(game, *CITING).items() if n not in known} == {}


@pytest.mark.parametrize("game", BOOKS)
def test_a_rule_book_cites_its_own_rules_only(game: str) -> None:
    """References within the book lead somewhere."""
    text = BOOKS[game].read_text("utf-8")
    assert {int(n) for n in number(game).findall(text)} == set(defined(game))
