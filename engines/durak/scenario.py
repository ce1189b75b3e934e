"""Durak scenarios: a position set up directly, and what its moves came to."""

from collections.abc import Mapping, Sequence
from typing import Any

import engines.durak as durak
from engines import scenario as common
from engines.api import InvalidOption, read_options
from engines.cards import SUITS, Card, Suit, parse, suit, text
from engines.durak.model import (
    HAND_SIZE,
    PACK,
    Attack,
    Beat,
    Move,
    Options,
    Pass,
    Phase,
    State,
    Take,
)
from engines.records import changed


def run(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What a scenario came to; raises ValueError naming the key that makes no sense."""
    start = _position(scenario)
    state, came = common.played(durak, start, scenario, _NoDeal(), _read_move, _write_move)
    return {
        **came,
        "hands": [[text(c) for c in hand] for hand in state.hands],
        "talon": [text(c) for c in state.talon],
        "attacker": state.attacker,
        "defender": state.defender,
        "out": list(state.out),
        "durak": state.durak,
        "null": state.null,
        "phase": state.phase.name.lower(),
    }


class _NoDeal:
    """A scenario begins after the deal."""

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        raise ValueError(f"deal {deal}: a durak scenario deals no cards")

    def seat(self, deal: int, label: str, bound: int) -> int:
        raise ValueError(f"deal {deal}: a durak scenario draws no seat")


def _position(scenario: Mapping[str, Any]) -> State:
    """The state a scenario begins in: the opening of a bout, the other cards discarded."""
    setup = scenario.get("setup")
    if not isinstance(setup, Mapping):
        raise ValueError("setup: must be an object")
    if unknown := set(setup) - {"hands", "talon", "trump", "attacker", "out"}:
        raise ValueError(f"setup.{min(unknown)}: no such key in durak")
    lists = setup.get("hands")
    if not isinstance(lists, list) or len(lists) not in durak.SEATS:
        raise ValueError("setup.hands: must be 2 to 6 lists of cards")
    hands = tuple(_cards(hand, f"setup.hands[{s}]") for s, hand in enumerate(lists))
    talon = _cards(setup.get("talon", []), "setup.talon")
    trump = _trump(setup.get("trump"), talon)
    used = [c for cards in (*hands, talon) for c in cards]
    if len(set(used)) < len(used):
        raise ValueError("setup: a card lies in two places")
    empty = durak.initial(_options(scenario), len(hands))
    out = _out(setup.get("out", []), hands, talon)
    state = changed(empty, hands=hands, talon=talon, trump=trump, out=out)
    attacker = setup.get("attacker")
    if type(attacker) is not int or attacker not in state.playing or not hands[attacker]:
        raise ValueError("setup.attacker: must be a seat that holds cards")
    following = (*range(attacker + 1, len(hands)), *range(attacker))
    defender = next(s for s in following if s not in out)
    return changed(
        state,
        turn=1,
        phase=Phase.ATTACKING,
        shown=talon[-1] if talon else None,
        discarded=tuple(c for c in PACK if c not in used),
        attacker=attacker,
        defender=defender,
        limit=min(HAND_SIZE, len(hands[defender])),
        bout=1,
    )


def _options(scenario: Mapping[str, Any]) -> Options:
    given = scenario.get("options", {})
    if not isinstance(given, Mapping):
        raise ValueError("options: must be an object")
    try:
        return read_options(Options, given)
    except InvalidOption as error:
        raise ValueError(f"options.{error}") from None


def _cards(given: object, key: str) -> tuple[Card, ...]:
    if not isinstance(given, list) or not all(isinstance(c, str) for c in given):
        raise ValueError(f"{key}: must be a list of cards")
    try:
        cards = tuple(parse(c) for c in given)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    if foreign := [c for c in cards if c not in PACK]:
        raise ValueError(f"{key}: {text(foreign[0])} is not in the pack")
    return cards


def _trump(given: object, talon: Sequence[Card]) -> Suit:
    if not isinstance(given, str) or len(given) != 1 or given not in SUITS:
        raise ValueError("setup.trump: must be one of S, H, D, C")
    trump = Suit(SUITS.index(given))
    if talon and suit(talon[-1]) is not trump:
        raise ValueError("setup.talon: the last card must be the shown trump card")
    return trump


def _out(given: object, hands: Sequence[Sequence[Card]], talon: Sequence[Card]) -> tuple[int, ...]:
    seats = list(range(len(hands)))
    if not isinstance(given, list) or any(type(s) is not int or s not in seats for s in given):
        raise ValueError("setup.out: must be a list of seats")
    if len(set(given)) < len(given) or any(hands[s] for s in given) or (given and talon):
        raise ValueError("setup.out: seats leave once, without cards, when the talon is empty")
    if any(not hands[s] for s in seats if s not in given):
        raise ValueError("setup.hands: a seat that is not out must hold cards")
    if len(given) > len(hands) - 2:
        raise ValueError("setup.out: two seats must be left")
    return tuple(given)


def _read_move(_: State, seat: object, word: str, arguments: Sequence[Any]) -> Move:
    match word, list(arguments):
        case "attack", [card]:
            return Attack(_card(card))
        case "beat", [card]:
            return Beat(_card(card))
        case "take", []:
            return Take()
        case "pass", []:
            return Pass()
        case _:
            raise ValueError(f"{word!r} with {len(arguments)} arguments is no move of durak")


def _card(given: object) -> Card:
    """The card of a move; what is no card of any pack stays as it is and is refused."""
    try:
        return parse(given) if isinstance(given, str) else Card(-1)
    except ValueError:
        return Card(-1)


def _write_move(move: Move) -> str:
    match move:
        case Attack(card):
            return f"attack {text(card)}"
        case Beat(card):
            return f"beat {text(card)}"
        case Take():
            return "take"
        case Pass():
            return "pass"
