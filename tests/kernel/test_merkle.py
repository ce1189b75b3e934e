"""Merkle trees: RFC 6962's own words against ours, and no proof of what is not so."""

from hashlib import sha256
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.merkle import leaf_hash
from services.kernel import merkle
from tests.kernel.trees import defined

LARGEST = 70
LEAVES = [leaf_hash(bytes([n])) for n in range(LARGEST)]
ROOTS = [defined(LEAVES[:size]) for size in range(LARGEST + 1)]

TOLD = [b"", b"\0", b"\x10", b" !", b"01", b"@ABC", b"PQRSTUVW", b"`abcdefghijklmno"]
"""The entries of the test vectors that certificate-transparency logs are tested with."""
TOLD_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def looked_up(ranges: list[merkle.Range]) -> list[bytes]:
    """The roots of subtrees."""
    return [defined(LEAVES[start:stop]) for start, stop in ranges]


def test_roots_are_those_that_others_publish() -> None:
    """The trees of 1 to 8 known entries have the known roots."""
    leaves = [leaf_hash(entry) for entry in TOLD]
    found = [defined(leaves[:size]).hex() for size in range(1, 9)]
    assert found == TOLD_ROOTS


def test_growing_is_the_definition() -> None:
    """At every size, and every subtree that growth completes has its own root, once."""
    seen = {}
    tree = merkle.Growth()
    for size, leaf in enumerate(LEAVES, start=1):
        for part, root in tree.add(leaf):
            assert part not in seen
            seen[part] = root
        assert tree.root == ROOTS[size]
        assert tree.roots == looked_up(merkle.peaks(0, size))
        assert merkle.Growth(size, tree.roots).root == tree.root
    assert seen == {part: looked_up([part])[0] for part in seen}
    assert len(seen) == 2 * LARGEST - LARGEST.bit_count()


def test_every_inclusion_is_proven() -> None:
    """Of every leaf in every tree, and the proof is no longer than the tree is high."""
    for size in range(1, LARGEST + 1):
        for index in range(size):
            proof = looked_up(merkle.inclusion_ranges(index, size))
            assert merkle.is_included(LEAVES[index], index, size, proof, ROOTS[size])
            assert len(proof) <= (size - 1).bit_length()


def test_every_continuation_is_proven() -> None:
    """Of every tree by every larger one, and of itself."""
    for new in range(LARGEST + 1):
        for old in range(new + 1):
            proof = looked_up(merkle.consistency_ranges(old, new))
            assert merkle.is_consistent(old, ROOTS[old], new, ROOTS[new], proof)


@given(st.data())
def test_nothing_else_is_proven(data: st.DataObject) -> None:
    """Another leaf, place, size, root or step of the proof is refused, or the claim is true."""
    size = data.draw(st.integers(1, LARGEST))
    index = data.draw(st.integers(0, size - 1))
    proof = looked_up(merkle.inclusion_ranges(index, size))
    other = sha256(b"other").digest()
    at = data.draw(st.integers(0, max(0, len(proof) - 1)))
    forged = [*proof[:at], other, *proof[at + 1 :]]
    assert not merkle.is_included(other, index, size, proof, ROOTS[size])
    assert not merkle.is_included(LEAVES[index], index, size, proof, other)
    assert not merkle.is_included(LEAVES[index], index, size, forged, ROOTS[size])
    assert not merkle.is_included(LEAVES[index], index, size, [*proof, other], ROOTS[size])
    if proof:
        assert not merkle.is_included(LEAVES[index], index, size, proof[:-1], ROOTS[size])
    place, wide = data.draw(st.integers(-1, LARGEST)), data.draw(st.integers(-1, LARGEST))
    if place != index:
        assert not merkle.is_included(LEAVES[index], place, size, proof, ROOTS[size])
    if not 0 <= index < wide:
        assert not merkle.is_included(LEAVES[index], index, wide, proof, ROOTS[size])


def test_no_other_history_is_consistent() -> None:
    """A tree in which a leaf was changed or left out continues none that had it, by any proof of
    the right shape."""
    for old, new in product(range(1, 40), range(1, 40)):
        if old > new:
            assert not merkle.is_consistent(old, ROOTS[old], new, ROOTS[new], [])
            continue
        proof = looked_up(merkle.consistency_ranges(old, new))
        changed = [sha256(b"x").digest(), *LEAVES[1:new]]
        assert not merkle.is_consistent(old, ROOTS[old], new, defined(changed), proof)
        assert not merkle.is_consistent(old, defined(changed[:old]), new, ROOTS[new], proof)
        assert not merkle.is_consistent(old, ROOTS[old], new, ROOTS[new], [*proof, ROOTS[1]])
        if proof:
            assert not merkle.is_consistent(old, ROOTS[old], new, ROOTS[new], proof[:-1])


def test_what_cannot_be_asked_is_refused() -> None:
    """A leaf that is not there, a tree that shrinks, peaks that do not fit."""
    for index, size in ((-1, 3), (3, 3), (0, 0)):
        with pytest.raises(ValueError, match="no such leaf"):
            merkle.inclusion_ranges(index, size)
    for old, new in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="never shrinks"):
            merkle.consistency_ranges(old, new)
    with pytest.raises(ValueError, match="one peak"):
        merkle.Growth(3, [bytes(32)])
