"""Whether a later receipt tells the same game as one that a player was given before it."""

from collections.abc import Sequence
from typing import Any

from verifier import events as e
from verifier.chain import Row
from verifier.receipt import FULL, Receipt, Shown
from verifier.wrong import Wrong

PUBLIC = ("version", "name", "schema", "payload", "secret_digest", "recorded_at", "hash")
"""What stands of a row in every receipt."""


def check(earlier: Receipt, later: Receipt, found: Sequence[Any]) -> None:
    """Raise Wrong at the first row or card in which the later receipt differs from the earlier.

    Both have been checked by themselves; `found` are the later one's events.
    """
    if earlier.game != later.game:
        raise Wrong("earlier.game", "is another game")
    if earlier.version > later.version:
        raise Wrong("earlier.version", "is later than that of the receipt")
    for before, after in zip(earlier.rows, later.rows, strict=False):
        if _public(before) != _public(after):
            raise Wrong(before.version, "is another than in the earlier receipt")
    decks = _decks(found) if later.kind == FULL else {}
    cards = {(card.deal, card.opening.place): card for card in later.cards}
    for at, shown in enumerate(earlier.cards):
        where = f"earlier.cards[{at}]"
        deck = decks.get(shown.deal)
        if deck is not None and deck[shown.opening.place] != shown.opening.card:
            raise Wrong(where, "another card lies there in the deck that was dealt")
        if later.kind != FULL and not _same(shown, cards.get((shown.deal, shown.opening.place))):
            raise Wrong(where, "the later receipt does not show this card there")


def _public(row: Row) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in PUBLIC)


def _same(one: Shown, other: Shown | None) -> bool:
    return other is not None and one.opening.card == other.opening.card


def _decks(found: Sequence[Any]) -> dict[int, Sequence[int]]:
    """The deck of each deal, by its number from 1."""
    dealt = [event for event in found if type(event) in e.DEALT]
    return {number: event.secret.deck for number, event in enumerate(dealt, start=1)}
