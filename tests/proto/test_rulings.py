"""A version of the rules decides for ever what it decided when it was released."""

from dataclasses import replace
from typing import Any

import pytest

from engines.api import RuleViolation
from services.game import rulebook
from tests.proto import golden_rulings
from tests.proto.golden_rulings import lines_of, missing, ruled

ANOTHER = """{rules} rules otherwise than it did, at {seats} seats with the options {options}.
Games that were begun under it would come out otherwise when they are executed again. If the change
is meant, it is a new version of the rules: engines/README.md, "A new version of the rules". No
golden line is ever changed."""


@pytest.mark.parametrize("rules", rulebook.RULEBOOK)
def test_a_version_rules_as_it_always_has(rules: str) -> None:
    """Two hundred random games of each, at every number of seats, with every option: the same
    events, the same legal moves, the same refusals."""
    assert sum(line["games"] for line in lines_of(rules)) >= golden_rulings.GAMES_MIN
    for line in lines_of(rules):
        assert ruled(rules, line) == line["sha256"], ANOTHER.format(rules=rules, **line)


@pytest.mark.parametrize("rules", rulebook.RULEBOOK)
def test_every_option_and_number_of_seats_has_a_line(rules: str) -> None:
    """What is missing is new: `python tests/proto/golden_rulings.py` adds it."""
    assert missing(rules) == []


class Changed:
    """A version of the rules of which one function is another."""

    def __init__(self, engine: Any, **functions: Any) -> None:
        self._engine = engine
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return self._functions.get(name) or getattr(self._engine, name)


def seeded(engine: Any) -> dict[str, Any]:
    """Changes of rulings that no golden log need meet, each in one function."""

    def decide(state: Any, command: Any, chance: Any) -> Any:
        try:
            return engine.decide(state, command, chance)
        except RuleViolation as refused:
            raise RuleViolation(refused.reason, f"{refused.rule}0") from None

    def legal(state: Any, seat: int) -> Any:
        moves = engine.legal(state, seat)
        return moves[:-1] if len(moves) > 4 else moves

    def evolve(state: Any, event: Any) -> Any:
        after = engine.evolve(state, event)
        return replace(after, turn=after.turn + 1) if after.turn > 9 else after

    return {"decide": decide, "legal": legal, "evolve": evolve}


@pytest.mark.parametrize("name", ["decide", "legal", "evolve"])
@pytest.mark.parametrize("rules", rulebook.CURRENT.values())
def test_a_changed_ruling_is_seen(rules: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal by another rule, a legal move fewer where there are many, a state that differs late
    in a game: some line of the version no longer holds."""
    engine = rulebook.RULEBOOK[rules]
    changed = Changed(engine, **{name: seeded(engine)[name]})
    monkeypatch.setitem(rulebook.RULEBOOK, rules, changed)
    assert any(ruled(rules, line) != line["sha256"] for line in lines_of(rules)[-4:])
