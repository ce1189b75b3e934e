"""Provable dealing: seeds, commitments, and the draws made from them.

Every deal has a seed of its own, derived from the server's committed seed and the seeds the
players contributed, so that opening one deal tells nothing about another. A deck is a
Fisher-Yates shuffle driven by an HMAC-SHA-256 stream with rejection sampling: no modulo bias,
and every order of the pack can occur.
"""

import hashlib
import hmac
from collections.abc import Sequence

from engines.cards import Card

SERVER_SEED_BYTES = 32
CONTRIBUTION_BYTES_MIN = 16
CONTRIBUTION_BYTES_MAX = 64
_WORD_BYTES = 8


def digest(data: bytes) -> bytes:
    """SHA-256: the commitment to a server seed, a player's seed or a deal seed (32 bytes)."""
    return hashlib.sha256(data).digest()


def framed(*fields: bytes | None) -> bytes:
    """Join fields so that no two sequences of fields give the same bytes.

    A field is a presence octet (1), its length (4 octets, big-endian) and its bytes; an absent
    field (None) is the octet 0, which differs from an empty one.
    """
    parts: list[bytes] = []
    for field in fields:
        if field is None:
            parts.append(b"\x00")
        else:
            parts.append(b"\x01" + len(field).to_bytes(4, "big") + field)
    return b"".join(parts)


def deal_seed(
    server_seed: bytes, deal: int, game: bytes, contributions: Sequence[bytes | None]
) -> bytes:
    """The seed of deal number `deal` (from 1) of a game, 32 bytes.

    `game` is the game's id (16 bytes); `contributions` holds each seat's revealed seed in seat
    order, None where a seat gave none.
    """
    message = framed(b"deal", deal.to_bytes(4, "big"), game, *contributions)
    return hmac.digest(server_seed, message, "sha256")


class Stream:
    """Uniform numbers below a bound, drawn from one seed and one label."""

    __slots__ = ("_buffer", "_counter", "_label", "_seed")

    def __init__(self, seed: bytes, label: str) -> None:
        self._seed = seed
        self._label = label.encode()
        self._counter = 0
        self._buffer = b""

    def below(self, bound: int) -> int:
        """A uniform integer in 0 … bound-1 (bound ≥ 1), by rejection sampling."""
        if bound < 1:
            raise ValueError("bound must be at least 1")
        limit = 2 ** (8 * _WORD_BYTES) // bound * bound
        while True:
            word = int.from_bytes(self._take(), "big")
            if word < limit:
                return word % bound

    def _take(self) -> bytes:
        if not self._buffer:
            message = framed(self._label, self._counter.to_bytes(8, "big"))
            self._buffer = hmac.digest(self._seed, message, "sha256")
            self._counter += 1
        word, self._buffer = self._buffer[:_WORD_BYTES], self._buffer[_WORD_BYTES:]
        return word


def shuffled(seed: bytes, pack: Sequence[Card]) -> tuple[Card, ...]:
    """The pack in the order this deal seed gives (Fisher-Yates from the last place down)."""
    deck = list(pack)
    stream = Stream(seed, "deck")
    for i in range(len(deck) - 1, 0, -1):
        j = stream.below(i + 1)
        deck[i], deck[j] = deck[j], deck[i]
    return tuple(deck)


def drawn(seed: bytes, label: str, bound: int) -> int:
    """One labelled draw in 0 … bound-1, independent of the deck (Azi's opener, Durak's starter)."""
    return Stream(seed, label).below(bound)
