"""The root of a Merkle tree as RFC 6962 defines it, to hold ours to."""

from collections.abc import Iterable
from hashlib import sha256

from engines.merkle import node_hash


def defined(hashes: Iterable[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1 over the hashes of leaves, word by word."""
    leaves = list(hashes)
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(defined(leaves[:k]), defined(leaves[k:]))
