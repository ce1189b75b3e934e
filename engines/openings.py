"""Cards committed to one by one, so that one can be shown without the others.

Each place of a deck has a salt of its own, made from the deal's seed. The root of the tree over
all salted cards is published with the deal; a card is opened by its place, its salt and its path.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engines import merkle
from engines.cards import Card
from engines.shuffle import framed

LABEL = b"card"


@dataclass(frozen=True, slots=True)
class Opening:
    """That `card` lies at `place` (from 0) of a deck, with what proves it."""

    place: int
    card: Card
    salt: bytes
    path: tuple[bytes, ...]


def salt(seed: bytes, place: int) -> bytes:
    """The salt of a place of the deck of this deal seed, 32 bytes."""
    return hmac.digest(seed, framed(LABEL, place.to_bytes(8, "big")), "sha256")


def leaf(place: int, card: Card, salt: bytes) -> bytes:
    """The leaf of a card: place and card as one octet each, and the salt."""
    return merkle.leaf_hash(bytes((place, card)) + salt)


def leaves(seed: bytes, deck: Sequence[Card]) -> tuple[bytes, ...]:
    """The leaves of a whole deck in dealing order."""
    return tuple(leaf(place, card, salt(seed, place)) for place, card in enumerate(deck))


def cards_root(seed: bytes, deck: Sequence[Card]) -> bytes:
    """What is published of a deck whose cards are to be opened one by one, 32 bytes."""
    return merkle.root_hash(leaves(seed, deck))


def openings(seed: bytes, deck: Sequence[Card], places: Iterable[int]) -> tuple[Opening, ...]:
    """What opens the cards at these places of the deck."""
    made = leaves(seed, deck)
    return tuple(
        Opening(place, deck[place], salt(seed, place), merkle.path(made, place)) for place in places
    )


def opens(root: bytes, size: int, opening: Opening) -> bool:
    """Whether a deck of `size` cards with this root has that card at that place."""
    made = leaf(opening.place, opening.card, opening.salt)
    return merkle.climbed(made, opening.place, size, opening.path) == root
