"""Scenarios: a position, some moves, and what must come of them, as one JSON object.

A scenario file holds one object a line; blank lines and lines that begin with `//` are skipped.
Each game sets its positions up in `engines.<game>.scenario`, whose `run` returns what a scenario
came to; here is what the games share: reading, dispatch, making the moves, and judging.
"""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from engines.api import Act, Chance, Command, Game, Leave, RuleViolation, Timeout
from engines.cards import SUITS, Card, Suit, text

Scenario = Mapping[str, Any]
"""One scenario as read from JSON."""

KEYS = frozenset({"id", "game", "options", "setup", "moves", "expect"})
"""What a scenario may name: a misspelt key must not pass for one that holds."""

EXPECTED: Mapping[str, frozenset[str]] = {
    "azi": frozenset(
        {"bank", "stacks", "payouts", "leader", "winner", "contributions", "azi", "phase"}
    ),
    "durak": frozenset({"hands", "attacker", "defender", "out", "durak", "null", "talon", "phase"}),
    "rami": frozenset(
        {"hands", "melds", "scores", "round_winner", "match_winner", "over", "phase"}
    ),
}
"""What `expect` may name in each game, besides `refused`, `legal` and `to_act`."""

S = TypeVar("S")
M = TypeVar("M")
E = TypeVar("E")


def read(lines: str) -> list[dict[str, Any]]:
    """The scenarios of a `.jsonl` text; raises ValueError naming the line that is wrong."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        try:
            scenario = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}: not JSON ({error.msg})") from None
        except ValueError:
            raise ValueError(f"line {number}: a number with too many digits") from None
        except RecursionError:
            raise ValueError(f"line {number}: nested too deep") from None
        if not isinstance(scenario, dict):
            raise ValueError(f"line {number}: not an object")
        found.append(scenario)
    return found


def run(scenario: Scenario) -> dict[str, Any]:
    """What the scenario came to: `id`, `refused`, `events` and every key `expect` knows.

    Raises ValueError naming the key for a scenario that makes no sense.
    """
    game = scenario.get("game")
    if not isinstance(game, str) or game not in EXPECTED:
        raise ValueError(f"game: {game!r} is none of {', '.join(sorted(EXPECTED))}")
    if not isinstance(scenario.get("id"), str):
        raise ValueError("id: must be a name")
    if unknown := set(scenario) - KEYS:
        raise ValueError(f"{min(unknown)}: no such key in a scenario")
    result: dict[str, Any] = importlib.import_module(f"engines.{game}.scenario").run(scenario)
    return result


def judge(scenario: Scenario) -> list[str]:
    """How the scenario differs from what it expects, a line for each key; empty when it holds.

    Cards compare as sets, refusals and seats that may act too, a seat without a payout as one
    that got nothing; keys that `expect` leaves out are not looked at, except that no move may be
    refused.
    Raises ValueError naming the key for a scenario that makes no sense.
    """
    actual = run(scenario)
    game: str = scenario["game"]
    wanted = {"refused": [], **_expected(scenario, game)}
    differences = []
    for key, value in wanted.items():
        came = actual.get(key)
        if key == "legal" and isinstance(value, Mapping) and isinstance(came, Mapping):
            came = {seat: came.get(seat, []) for seat in value}
        if _comparable(game, key, value) != _comparable(game, key, came):
            differences.append(f"{key}: expected {json.dumps(value)}, came to {json.dumps(came)}")
    return differences


def played(
    game: Game[S, M, E],
    state: S,
    scenario: Scenario,
    chance: Chance,
    read_move: Callable[[S, int, str, Sequence[Any]], M],
    write_move: Callable[[M], str],
) -> tuple[S, dict[str, Any]]:
    """Make a scenario's moves: the last state, and `id refused events legal to_act` of the result.

    `read_move(state, seat, word, arguments)` builds a move and raises ValueError for a word the
    game does not have; `timeout` and `leave` are read here. A refused move changes nothing.
    """
    refused: list[list[Any]] = []
    events: list[dict[str, Any]] = []
    for index, entry in enumerate(_moves(scenario)):
        seat, word, *arguments = entry
        command: Command[M]
        if word == "timeout":
            command = Timeout(seat)
        elif word == "leave":
            command = Leave(seat)
        else:
            try:
                command = Act(seat, read_move(state, seat, word, arguments))
            except ValueError as error:
                raise ValueError(f"moves[{index}]: {error}") from None
        try:
            made = game.decide(state, command, chance)
        except RuleViolation as violation:
            refused.append([index, violation.reason])
            continue
        for event in made:
            state = game.evolve(state, event)
            events.append(described(event))
    to_act = game.to_act(state)
    return state, {
        "id": scenario["id"],
        "refused": refused,
        "events": events,
        "legal": {str(s): [write_move(m) for m in game.legal(state, s)] for s in to_act},
        "to_act": list(to_act),
    }


def described(event: object) -> dict[str, Any]:
    """An event as JSON: its name and its fields, cards as text, suits as letters."""
    hints = get_type_hints(type(event))
    named = {f.name: _json(getattr(event, f.name), hints[f.name]) for f in _fields(event)}
    return {"name": type(event).__name__, **named}


def _moves(scenario: Scenario) -> Iterator[Sequence[Any]]:
    moves = scenario.get("moves", [])
    if not isinstance(moves, list):
        raise ValueError("moves: must be a list")
    for index, entry in enumerate(moves):
        if not isinstance(entry, list) or len(entry) < 2 or not isinstance(entry[1], str):
            raise ValueError(f"moves[{index}]: must be [seat, move, argument…]")
        yield entry


def _expected(scenario: Scenario, game: str) -> Mapping[str, Any]:
    """What the scenario expects, checked where a slip would pass for an expectation that holds."""
    expect = scenario.get("expect", {})
    if not isinstance(expect, Mapping):
        raise ValueError("expect: must be an object")
    if unknown := set(expect) - EXPECTED[game] - {"refused", "legal", "to_act"}:
        raise ValueError(f"expect.{min(unknown)}: no such key in {game}")
    if not all(_is_refusal(pair) for pair in _pairs(expect.get("refused", []))):
        raise ValueError("expect.refused: must be [index, reason] or a list of such pairs")
    legal = expect.get("legal", {})
    setup = scenario.get("setup", {})
    seats = {str(seat) for seat in range(len(setup.get("hands", setup.get("stacks", ()))))}
    if not isinstance(legal, Mapping) or not set(legal) <= seats:
        raise ValueError("expect.legal: must name moves for seats of the table")
    return expect


def _pairs(refused: Any) -> list[Any]:
    """One refusal stands for a list of one."""
    if not isinstance(refused, list):
        return [refused]
    return [refused] if refused and not isinstance(refused[0], list) else refused


def _is_refusal(pair: Any) -> bool:
    return (
        isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int and type(pair[1]) is str
    )


def _comparable(game: str, key: str, value: Any) -> str:
    """The value in a form that is equal exactly when the scenario's rules call it equal."""
    match key:
        case "refused":
            value = _sorted(_pairs(value))
        case "to_act" | "talon":
            value = _sorted(value)
        case "hands" if isinstance(value, list):
            value = [_sorted(hand) for hand in value]
        case "melds" if isinstance(value, Mapping):
            value = {name: _sorted(cards) for name, cards in value.items()}
        case "contributions" | "payouts" if isinstance(value, list | Mapping):
            by_seat = value if isinstance(value, Mapping) else dict(enumerate(value))
            value = {str(seat): chips for seat, chips in by_seat.items() if chips != 0}
        case "legal" if isinstance(value, Mapping):
            value = {seat: _comparable_moves(game, moves) for seat, moves in value.items()}
    return json.dumps(value, sort_keys=True)


def _comparable_moves(game: str, moves: Any) -> Any:
    """The moves in any order, each with its cards in any order."""
    if not isinstance(moves, list):
        return moves
    words = [sorted(str(move).split()) for move in moves]
    return sorted(" ".join(told) for told in words if not (game == "azi" and "bid" in told))


def _sorted(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, list) else value


def _fields(of: object) -> tuple[Any, ...]:
    if not is_dataclass(of):
        raise TypeError(f"{type(of).__name__} is not a dataclass")
    return fields(of)


def _json(value: Any, hint: Any) -> Any:
    """A field's value as JSON, by its declared type (a card is told from a number by that)."""
    if value is None:
        return None
    if get_origin(hint) in (Union, UnionType):
        hint = next(a for a in get_args(hint) if a is not type(None))
    if hint is Card:
        return text(value)
    if isinstance(value, Suit):
        return SUITS[value]
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_json(item, get_args(hint)[0]) for item in value]
    if is_dataclass(value):
        hints = get_type_hints(type(value))
        return {f.name: _json(getattr(value, f.name), hints[f.name]) for f in fields(value)}
    return value
