"""One hash for a whole deck, and single cards shown against it."""

from dataclasses import replace
from hashlib import sha256
from random import Random

import pytest

from engines import merkle
from engines.cards import PACK_SIZE, Card, pack
from engines.openings import cards_root, openings, opens, salt
from engines.shuffle import shuffled

ITEMS = [b"", b"\x00", b"\x10", b"\x20\x21", b"\x30\x31", b"@ABC", bytes(range(0x50, 0x58))]
ITEMS.append(bytes(range(0x60, 0x70)))
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""Roots over the first items of the tree that tests of RFC 6962 commonly use."""


def test_roots_are_those_of_the_standard() -> None:
    """Known ones, and that of nothing."""
    leaves = [merkle.leaf_hash(item) for item in ITEMS]
    assert {size: merkle.root_hash(leaves[:size]).hex() for size in ROOTS} == ROOTS
    assert merkle.root_hash([]) == sha256().digest()


@pytest.mark.parametrize("size", range(1, 60))
def test_every_leaf_leads_to_the_root_and_from_no_other_place(size: int) -> None:
    """And by no other path: one neighbour changed, left out or too many leads elsewhere."""
    leaves = [merkle.leaf_hash(bytes([n])) for n in range(size)]
    root = merkle.root_hash(leaves)
    for place in range(size):
        path = merkle.path(leaves, place)
        assert merkle.climbed(leaves[place], place, size, path) == root
        others = [at for at in range(size) if at != place]
        assert all(merkle.climbed(leaves[place], at, size, path) != root for at in others)
        assert merkle.climbed(leaves[place], place, size, (*path, root)) is None
        if path:
            assert merkle.climbed(leaves[place], place, size, path[1:]) is None
            changed = (*path[:-1], bytes(32))
            assert merkle.climbed(leaves[place], place, size, changed) != root
    assert merkle.climbed(leaves[0], size, size, ()) is None
    with pytest.raises(ValueError, match="no such leaf"):
        merkle.path(leaves, size)


@pytest.mark.parametrize("cards", [pack("SHD", "6"), pack("SHDC", "6"), pack("SHDC", "2")])
def test_every_card_of_a_deck_opens_and_no_other_does(cards: tuple[Card, ...]) -> None:
    """Each place with its own card alone; another deck has another root."""
    rng = Random(len(cards))
    seed = rng.randbytes(32)
    deck = shuffled(seed, cards)
    root = cards_root(seed, deck)
    for made in openings(seed, deck, range(len(deck))):
        assert opens(root, len(deck), made)
        card = Card(rng.choice([c for c in range(PACK_SIZE) if c != made.card]))
        place = rng.choice([p for p in range(len(deck)) if p != made.place])
        assert not opens(root, len(deck), replace(made, card=card))
        assert not opens(root, len(deck), replace(made, place=place))
        assert not opens(root, len(deck), replace(made, salt=bytes(32)))
    other = list(deck)
    other[0], other[1] = other[1], other[0]
    assert cards_root(seed, other) != root


def test_salts_are_their_places_own() -> None:
    """No two places and no two deals share one, so an opened card tells nothing of another."""
    salts = {salt(bytes([seed]) * 32, place) for seed in range(4) for place in range(PACK_SIZE)}
    assert len(salts) == 4 * PACK_SIZE
