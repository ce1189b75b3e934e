"""Rami positions and moves written as data, for `engines.scenario`.

A scenario ends with its round: the next deal is not made and later moves are refused. Cards that
a position does not name are out of reach.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any, assert_never, cast

from engines.api import Command, Game, InvalidOption, read_options
from engines.cards import Card, parse, text, texts
from engines.rami.melds import kind_of
from engines.rami.model import (
    Dealt,
    Discard,
    DrawDiscard,
    DrawStock,
    Event,
    LayOff,
    Meld,
    Move,
    Options,
    Phase,
    RoundScored,
    Source,
    State,
    TableMeld,
)
from engines.rami.rules import SEATS, decide, initial, legal, to_act
from engines.rami.table import evolve
from engines.records import changed
from engines.scenario import Scenario, played

_SETUP = {"hands", "stock", "discard", "melds", "to_act", "drawn", "scores", "dealer"}


@dataclass(frozen=True, slots=True)
class _PackOrder:
    """The chance of a scenario, whose next round is never played."""

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        return tuple(pack)

    def seat(self, deal: int, label: str, bound: int) -> int:
        return 0


def run(scenario: Scenario) -> dict[str, Any]:
    """What the scenario came to, by every key of `expect`; `over` is the match, `phase` the round.

    Raises ValueError naming the key for a position that makes no sense.
    """
    one_round = cast(
        "Game[State, Move, Event]",
        SimpleNamespace(decide=_decide, evolve=_evolve, legal=legal, to_act=to_act),
    )
    state, result = played(
        one_round, position(scenario), scenario, _PackOrder(), _read_move, _write_move
    )
    scored = [event for event in result["events"] if event["name"] == RoundScored.__name__]
    return {
        **result,
        "hands": [[text(c) for c in hand] for hand in state.hands],
        "melds": {meld.id: [text(c) for c in meld.cards] for meld in state.melds},
        "scores": list(state.scores),
        "round_winner": scored[0]["winner"] if scored else None,
        "match_winner": state.winner,
        "over": state.winner is not None,
        "phase": state.phase.name.lower(),
    }


def position(scenario: Scenario) -> State:
    """The state a scenario's `options` and `setup` describe; raises ValueError naming the key.

    With `drawn` "stock" the last card of the hand is the drawn one. Left out, `dealer` is seat 0,
    `to_act` the seat after the dealer, `scores` are zero and `drawn` is null.
    """
    setup = _mapping(scenario.get("setup"), "setup")
    if unknown := set(setup) - _SETUP:
        raise ValueError(f"setup.{min(unknown)}: no such key in rami")
    hands = setup.get("hands")
    if not isinstance(hands, list) or len(hands) not in SEATS:
        raise ValueError("setup.hands: must be a list of two to four hands")
    seats = len(hands)
    state = changed(
        initial(_options(scenario), seats),
        phase=Phase.PLAYING,
        round=1,
        turn=1,
        hands=tuple(_cards(hand, "setup.hands") for hand in hands),
        stock=_cards(setup.get("stock", []), "setup.stock"),
        discard=_cards(setup.get("discard", []), "setup.discard"),
        melds=_melds(setup.get("melds", {})),
        scores=_scores(setup.get("scores", [0] * seats), seats),
    )
    _check_once(state)
    dealer = _seat(setup.get("dealer", 0), seats, "setup.dealer")
    actor = _seat(setup.get("to_act", (dealer + 1) % seats), seats, "setup.to_act")
    return _with_draw(changed(state, dealer=dealer, actor=actor), setup.get("drawn"))


def _decide(state: State, command: Command[Move], chance: _PackOrder) -> tuple[Event, ...]:
    return tuple(e for e in decide(state, command, chance) if not isinstance(e, Dealt))


def _evolve(state: State, event: Event) -> State:
    after = evolve(state, event)
    return changed(after, phase=Phase.OVER) if isinstance(event, RoundScored) else after


def _read_move(state: State, seat: int, word: str, arguments: Sequence[Any]) -> Move:
    """The move; arguments that are no cards go in as they are, for the rules to refuse."""
    match word, *arguments:
        case ("draw_stock",):
            return DrawStock()
        case ("draw_discard",):
            return DrawDiscard()
        case "meld", cards:
            return Meld(_read_cards(cards))
        case "lay_off", cards:
            return LayOff(_read_cards(cards), "")
        case "lay_off", cards, meld:
            return LayOff(_read_cards(cards), "" if meld is None else meld)
        case "discard", card:
            return Discard(_read_card(card))
        case _:
            raise ValueError(f"no such move: {word} with {len(arguments)} arguments")


def _read_cards(cards: Any) -> tuple[Card, ...]:
    found = tuple(_read_card(c) for c in cards) if isinstance(cards, list) else cards
    return cast("tuple[Card, ...]", found)


def _read_card(card: Any) -> Card:
    try:
        return parse(card)
    except (TypeError, ValueError):
        return cast(Card, None)


def _write_move(move: Move) -> str:
    match move:
        case DrawStock():
            return "draw_stock"
        case DrawDiscard():
            return "draw_discard"
        case Meld(cards):
            return f"meld {texts(cards)}"
        case LayOff(cards, meld):
            return f"lay_off {texts(cards)} {meld}"
        case Discard(card):
            return f"discard {text(card)}"
        case _:
            assert_never(move)


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: must be an object")
    return value


def _options(scenario: Scenario) -> Options:
    try:
        return read_options(Options, _mapping(scenario.get("options", {}), "options"))
    except InvalidOption as wrong:
        raise ValueError(f"options.{wrong}") from None


def _cards(value: Any, key: str) -> tuple[Card, ...]:
    if not isinstance(value, list) or not all(isinstance(c, str) for c in value):
        raise ValueError(f"{key}: must be a list of cards")
    try:
        return tuple(parse(c) for c in value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _melds(value: Any) -> tuple[TableMeld, ...]:
    """The table's melds; who laid them does not matter to a ruling, so seat 0 did."""
    melds = []
    for name, listed in _mapping(value, "setup.melds").items():
        cards = _cards(listed, "setup.melds")
        kind = kind_of(cards)
        if kind is None or not name:
            raise ValueError(f"setup.melds: {name!r} is no named run or group")
        melds.append(TableMeld(name, 0, kind, tuple(sorted(cards))))
    return tuple(melds)


def _scores(value: Any, seats: int) -> tuple[int, ...]:
    whole = isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
    if not whole or len(value) != seats:
        raise ValueError("setup.scores: must be a total, 0 or more, for each seat")
    return tuple(value)


def _seat(value: Any, seats: int, key: str) -> int:
    if type(value) is not int or value not in range(seats):
        raise ValueError(f"{key}: must be a seat, 0 to {seats - 1}")
    return value


def _check_once(state: State) -> None:
    piles = (*state.hands, state.stock, state.discard, *(meld.cards for meld in state.melds))
    seen: set[Card] = set()
    for c in chain.from_iterable(piles):
        if c in seen:
            raise ValueError(f"setup: {text(c)} lies in two places")
        seen.add(c)


def _with_draw(state: State, drawn: Any) -> State:
    """The position after the draw of this turn, if there has been one."""
    hand = state.hands[state.actor]
    if drawn is None:
        return state
    if drawn == "stock":
        if not hand:
            raise ValueError("setup.drawn: the hand of the seat to act is empty")
        return changed(state, drawn=Source.STOCK, drawn_card=hand[-1])
    (card,) = _cards([drawn], "setup.drawn")
    if card not in chain(hand, *(meld.cards for meld in state.melds)):
        raise ValueError("setup.drawn: the taken card is neither in the hand nor in a meld")
    known = tuple(
        (card,) if seat == state.actor and card in hand else () for seat in range(state.seats)
    )
    return changed(state, drawn=Source.DISCARD, drawn_card=card, known=known)
