"""Merkle trees over a sequence that only grows, hashed as RFC 6962 section 2.1 says. Pure.

A subtree is a range `(start, stop)` of leaves. Proofs are lists of subtrees' roots: which ones is
said here, and whoever keeps the tree looks them up. Who is shown a proof needs this module alone.
"""

from collections.abc import Iterator, Sequence

from engines.merkle import node_hash, root_hash

Range = tuple[int, int]
EMPTY = root_hash(())
"""The root of a tree without leaves."""


def peaks(start: int, stop: int) -> list[Range]:
    """The complete subtrees that make up a subtree, the largest and leftmost first."""
    found = []
    while start < stop:
        size = 1 << (stop - start).bit_length() - 1
        found.append((start, start + size))
        start += size
    return found


def joined(roots: Sequence[bytes]) -> bytes:
    """The root over `peaks`, from theirs in the same order."""
    if not roots:
        return EMPTY
    root = roots[-1]
    for left in reversed(roots[:-1]):
        root = node_hash(left, root)
    return root


class Growth:
    """A tree that grows leaf by leaf, known by the roots of its peaks alone."""

    def __init__(self, size: int = 0, roots: Sequence[bytes] = ()) -> None:
        if size.bit_count() != len(roots):
            raise ValueError("a tree has one peak for each bit of its size")
        self.size = size
        self.roots = list(roots)

    @property
    def root(self) -> bytes:
        """The root of the whole tree."""
        return joined(self.roots)

    def add(self, leaf: bytes) -> Iterator[tuple[Range, bytes]]:
        """Take in the hash of the next leaf; every subtree it completes, with its root."""
        start, stop, root = self.size, self.size + 1, leaf
        yield (start, stop), root
        while stop - start & self.size:
            start -= stop - start
            root = node_hash(self.roots.pop(), root)
            yield (start, stop), root
        self.roots.append(root)
        self.size = stop


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The subtrees whose roots prove that leaf `index` is in the tree of `size` leaves."""
    if not 0 <= index < size:
        raise ValueError("the tree has no such leaf")
    start, stop, above = 0, size, []
    while stop - start > 1:
        middle = _middle(start, stop)
        if index < middle:
            above.append((middle, stop))
            stop = middle
        else:
            above.append((start, middle))
            start = middle
    return above[::-1]


def consistency_ranges(old: int, new: int) -> list[Range]:
    """The subtrees whose roots prove that the tree of `new` leaves continues that of `old`."""
    if not 0 <= old <= new:
        raise ValueError("a tree never shrinks")
    if old in (0, new):
        return []
    start, stop, above, whole = 0, new, [], True
    while stop != old:
        middle = _middle(start, stop)
        if old <= middle:
            above.append((middle, stop))
            stop = middle
        else:
            above.append((start, middle))
            start, whole = middle, False
    return [*([] if whole else [(start, stop)]), *above[::-1]]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof leads from the hash of leaf `index` to the root of a tree of `size`."""
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf
    for other in proof:
        if not last:
            return False
        if place & 1 or place == last:
            found = node_hash(other, found)
            place, last = _up(place, last)
        else:
            found = node_hash(found, other)
        place, last = place >> 1, last >> 1
    return not last and found == root


def is_consistent(
    old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether the proof shows that the tree of `new` leaves continues that of `old`."""
    if old in (0, new) or not 0 < old < new:
        known = EMPTY if old == 0 else new_root
        return old in (0, new) and not proof and old_root == known
    path = [old_root, *proof] if old.bit_count() == 1 else list(proof)
    if not path:
        return False
    place, last = old - 1, new - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = path[0]
    for other in path[1:]:
        if not last:
            return False
        if place & 1 or place == last:
            before, after = node_hash(other, before), node_hash(other, after)
            place, last = _up(place, last)
        else:
            after = node_hash(after, other)
        place, last = place >> 1, last >> 1
    return not last and before == old_root and after == new_root


def _middle(start: int, stop: int) -> int:
    """Where a subtree of two or more leaves parts: its left side is the largest power of two."""
    return start + (1 << (stop - start - 1).bit_length() - 1)


def _up(place: int, last: int) -> tuple[int, int]:
    """Past the levels at which a node at the right edge has no sibling."""
    while place and not place & 1:
        place, last = place >> 1, last >> 1
    return place, last
