"""Merkle trees as RFC 6962 hashes them: one hash for many items, each of which can be shown alone.

A leaf is SHA-256(00 ‖ item), an inner node SHA-256(01 ‖ left ‖ right), and n > 1 items are split
before the largest power of two below n. A path lists the neighbours from the leaf up to the root.
"""

from collections.abc import Sequence
from hashlib import sha256


def leaf_hash(item: bytes) -> bytes:
    """The hash of an item, 32 bytes."""
    return sha256(b"\x00" + item).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees, 32 bytes."""
    return sha256(b"\x01" + left + right).digest()


def root_hash(leaves: Sequence[bytes]) -> bytes:
    """The hash over leaf hashes in order; that of nothing is SHA-256 of nothing."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256().digest()
    cut = _split(len(leaves))
    return node_hash(root_hash(leaves[:cut]), root_hash(leaves[cut:]))


def path(leaves: Sequence[bytes], place: int) -> tuple[bytes, ...]:
    """The neighbours of the leaf at `place` (from 0), from it up to the root."""
    if place not in range(len(leaves)):
        raise ValueError("no such leaf")
    if len(leaves) == 1:
        return ()
    cut = _split(len(leaves))
    if place < cut:
        return (*path(leaves[:cut], place), root_hash(leaves[cut:]))
    return (*path(leaves[cut:], place - cut), root_hash(leaves[:cut]))


def climbed(leaf_hash: bytes, place: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf at `place` of `size` and its path lead to, None for a path too short
    or too long."""
    if place not in range(size):
        return None
    turns = []
    while size > 1:
        cut = _split(size)
        turns.append(place < cut)
        place, size = (place, cut) if place < cut else (place - cut, size - cut)
    if len(turns) != len(path):
        return None
    found = leaf_hash
    for is_left, other in zip(reversed(turns), path, strict=True):
        found = node_hash(found, other) if is_left else node_hash(other, found)
    return found


def _split(size: int) -> int:
    """The largest power of two below `size` (at least 2)."""
    return 1 << (size - 1).bit_length() - 1
