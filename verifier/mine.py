"""Whether a player's own seed is in a game: his kept acknowledgement beside the game's receipt."""

import json
from dataclasses import dataclass
from uuid import UUID

from engines.shuffle import digest, framed
from verifier import events as e
from verifier.ed25519 import is_signed
from verifier.receipt import Object, Receipt
from verifier.wrong import Wrong

FORMAT = "kozyr acknowledgement 1"
LABEL = b"kozyr seed 1"
SEATS_MAX = 256
"""A seat is signed as one octet."""
FIELDS = ("format", "game_id", "seat", "hash", "head", "signature", "seed", "checked")


@dataclass(frozen=True, slots=True)
class Kept:
    """What the client wrote down when the service acknowledged its seed's hash."""

    game: str
    seat: int
    hash: bytes
    head: bytes
    signature: bytes
    seed: bytes


def acknowledgement(game: UUID, seat: int, hash: bytes, head: bytes) -> bytes:  # noqa: A002
    """What the service signs when it acknowledges a seed's hash."""
    return framed(LABEL, game.bytes, seat.to_bytes(1, "big"), hash, head)


def load(document: bytes) -> Kept:
    """Read a kept acknowledgement; raises Wrong."""
    try:
        found = json.loads(document)
        Object(found, "acknowledgement", FIELDS)
        if found["format"] != FORMAT:
            raise ValueError
        octets = {name: bytes.fromhex(found[name]) for name in FIELDS[3:7]}
        seat = found["seat"]
        if type(seat) is not int or seat not in range(SEATS_MAX):
            raise ValueError
        return Kept(str(found["game_id"]), seat, **octets)
    except (ValueError, TypeError, RecursionError):
        raise Wrong("acknowledgement", f"is none of the format {FORMAT!r}") from None


def check(kept: Kept, receipt: Receipt, found: list[object], public_key: bytes) -> None:
    """Raise Wrong unless the kept seed was acknowledged by this key and counts in every deal."""
    if kept.game != str(receipt.game):
        raise Wrong("acknowledgement.game_id", "is of another game")
    if digest(kept.seed) != kept.hash:
        raise Wrong("acknowledgement.seed", "is not that of the hash")
    signed = acknowledgement(receipt.game, kept.seat, kept.hash, kept.head)
    if not is_signed(public_key, signed, kept.signature):
        raise Wrong("acknowledgement.signature", "is not of the key that signed the receipt")
    by_version = list(zip(receipt.rows, found, strict=True))
    stands = [row for row, event in by_version if event == e.SeedCommitted(kept.seat, kept.hash)]
    if not stands or stands[0].hash != kept.head:
        raise Wrong(
            "acknowledgement", "the log lacks your hash where it was acknowledged: keep both files"
        )
    if not any(event == e.SeedRevealed(kept.seat, kept.seed) for _, event in by_version):
        raise Wrong("acknowledgement", "your seed was acknowledged, but is not among those shown")
