"""Azi scenarios: a table's stacks, the decks of an azi chain, some moves, and what came of them."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import engines.azi as azi
from engines import scenario as scenarios
from engines.api import InvalidOption, Start, read_options
from engines.cards import Card, parse, text

_WORDS: Mapping[str, azi.Move] = {
    "level": azi.Level(),
    "fold": azi.Fold(),
    "all_in": azi.AllIn(),
    "look": azi.Look(),
    "drop_last": azi.DropLast(),
    "buy_back": azi.BuyBack(),
    "decline": azi.Decline(),
}


def run(scenario: scenarios.Scenario) -> dict[str, Any]:
    """What an Azi scenario came to; raises ValueError naming the key that makes no sense."""
    setup = _mapping(scenario, "setup")
    _known(setup, {"stacks", "opener", "last_winner", "deals"}, "setup")
    try:
        options = read_options(azi.Options, _mapping(scenario, "options"))
    except InvalidOption as error:
        raise ValueError(f"options.{error}") from None
    stacks = setup.get("stacks")
    if not isinstance(stacks, list):
        raise ValueError("setup.stacks: must be a list of chips")
    seats = len(stacks)
    last_winner = _last_winner(setup, seats)
    try:
        state = azi.initial(options, seats, stacks=tuple(stacks), last_winner=last_winner)
    except ValueError as error:
        raise ValueError(f"setup.{error}") from None
    chance = _Listed(setup, seats, options.deal_size)
    dealt = azi.decide(state, Start(), chance)
    state = reduce(azi.evolve, dealt, state)
    state, result = scenarios.played(azi, state, scenario, chance, _read_move, write_move)
    begun = [scenarios.described(event) for event in dealt]
    result["events"] = begun + result["events"]
    chance.check_seats(result["events"])
    return {**result, **_came_to(state)}


class _Listed:
    """A `Chance` that deals the decks a scenario lists."""

    def __init__(self, setup: Mapping[str, Any], seats: int, size: int) -> None:
        self._deals = [
            _Deal(deal, f"setup.deals[{i}]", seats, size)
            for i, deal in enumerate(_list(setup.get("deals"), "setup.deals"))
        ]

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The listed hands in seat order, the turned card, then the rest of the pack."""
        if deal > len(self._deals):
            raise ValueError(f"setup.deals: the game goes on, but deal {deal} is not listed")
        known = self._deals[deal - 1].cards
        return (*known, *(card for card in pack if card not in known))

    def seat(self, deal: int, label: str, bound: int) -> int:
        """Never asked for: a scenario says who opens."""
        raise ValueError(f"setup.opener: nobody was named for deal {deal}")

    def check_seats(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Raise ValueError if a deal lists hands for other seats than are dealt in."""
        for event in events:
            if event["name"] == "Dealt":
                deal = self._deals[event["deal"] - 1]
                if deal.seats != event["seats"]:
                    dealt_in = ", ".join(map(str, event["seats"]))
                    raise ValueError(f"{deal.key}.hands: the seats dealt in are {dealt_in}")


class _Deal:
    """One listed deal, checked."""

    def __init__(self, deal: object, key: str, seats: int, size: int) -> None:
        if not isinstance(deal, Mapping):
            raise ValueError(f"{key}: must be an object")
        _known(deal, {"hands", "turned"}, key)
        hands = _list(deal.get("hands"), f"{key}.hands")
        if len(hands) != seats:
            raise ValueError(f"{key}.hands: must hold a hand or null for each of {seats} seats")
        self.key = key
        self.seats = [seat for seat, hand in enumerate(hands) if hand is not None]
        dealt = [card for hand in hands if hand is not None for card in _hand(hand, key, size)]
        turned = _card(deal.get("turned"), f"{key}.turned")
        if len({*dealt, turned}) != len(dealt) + 1:
            raise ValueError(f"{key}: a card twice")
        self.cards = (*dealt, turned)


def _hand(hand: object, key: str, size: int) -> list[Card]:
    cards = [_card(card, f"{key}.hands") for card in _list(hand, f"{key}.hands")]
    if len(cards) != size:
        raise ValueError(f"{key}.hands: a hand has {size} cards")
    return cards


def _card(given: object, key: str) -> Card:
    try:
        card = parse(given if isinstance(given, str) else "")
    except ValueError:
        raise ValueError(f"{key}: {given!r} is not a card") from None
    if card not in azi.PACK:
        raise ValueError(f"{key}: {given!r} is not in the pack")
    return card


def _last_winner(setup: Mapping[str, Any], seats: int) -> int | None:
    """Who won before, so that the named opener opens."""
    named = [key for key in ("opener", "last_winner") if setup.get(key) is not None]
    if len(named) != 1:
        raise ValueError("setup.opener: name either the opener or the last_winner")
    key = named[0]
    seat = setup[key]
    if type(seat) is not int or not 0 <= seat < seats:
        raise ValueError(f"setup.{key}: must be a seat")
    return (seat - 1) % seats if key == "opener" else seat


def _read_move(_: azi.State, __: int, word: str, arguments: Sequence[Any]) -> azi.Move:
    """A move from its word; arguments that are no card or amount stay what they are."""
    if word in _WORDS and not arguments:
        return _WORDS[word]
    if word in ("bid", "drop", "play") and len(arguments) == 1:
        argument = arguments[0]
        if word == "bid":
            return azi.Bid(argument)
        card = _card_named(argument)
        return azi.Drop(card) if word == "drop" else azi.PlayCard(card)
    raise ValueError(f"no move {word!r} with {len(arguments)} arguments")


def _card_named(argument: Any) -> Card:
    """A card; for anything else a number that the rules call malformed."""
    try:
        return parse(argument) if isinstance(argument, str) else Card(-1)
    except ValueError:
        return Card(-1)


def write_move(move: azi.Move) -> str:
    """A move as scenarios write it, `"play 7S"`."""
    match move:
        case azi.Bid(amount=amount):
            return f"bid {amount}"
        case azi.Drop(card=card):
            return f"drop {text(card)}"
        case azi.PlayCard(card=card):
            return f"play {text(card)}"
        case _:
            return next(word for word, known in _WORDS.items() if known == move)


def _came_to(state: azi.State) -> dict[str, Any]:
    paid: dict[str, int] = {}
    for payout in state.payouts:
        paid[str(payout.seat)] = paid.get(str(payout.seat), 0) + payout.chips
    return {
        "bank": state.bank,
        "stacks": [player.stack for player in state.players],
        "payouts": paid,
        "leader": state.leader,
        "winner": state.winner,
        "contributions": [player.contributed for player in state.players],
        "azi": state.azis,
        "phase": state.phase.name.lower(),
    }


def _mapping(scenario: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = scenario.get(key, {})
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: must be an object")
    return value


def _known(given: Mapping[str, Any], names: set[str], key: str) -> None:
    if unknown := set(given) - names:
        raise ValueError(f"{key}.{min(unknown)}: no such key in azi")


def _list(value: object, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{key}: must be a list")
    return value
