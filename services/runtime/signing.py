"""The game service's signature under what it acknowledges, made by it and checked by players."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from engines.shuffle import framed

RECEIPT = "kozyr receipt 1"
"""The format of receipts, and the label of what is signed of them."""
ARCHIVE = "kozyr archive 1"
"""The same of archives of a month."""


def acknowledgement(game_id: UUID, seat: int, seed_hash: bytes, head: bytes) -> bytes:
    """The bytes that are signed when a seed's hash is acknowledged."""
    return framed(b"kozyr seed 1", game_id.bytes, seat.to_bytes(1, "big"), seed_hash, head)


def acknowledge(
    key: Ed25519PrivateKey, game_id: UUID, seat: int, seed_hash: bytes, head: bytes
) -> bytes:
    """The Ed25519 signature (64 bytes) that a seed's hash is in the log that ends in `head`."""
    return key.sign(acknowledgement(game_id, seat, seed_hash, head))


def receipt_octets(trusted: Any) -> bytes:
    """The bytes that are signed of a receipt: its trusted part as JSON in its one spelling."""
    spelt = json.dumps(trusted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return framed(RECEIPT.encode(), spelt.encode())


def sign_receipt(key: Ed25519PrivateKey, trusted: Any) -> bytes:
    """The Ed25519 signature (64 bytes) under a receipt's trusted part."""
    return key.sign(receipt_octets(trusted))


def archive_octets(month: str, manifest: bytes) -> bytes:
    """The bytes that are signed of an archived month: its name, the digest of its manifest."""
    return framed(ARCHIVE.encode(), month.encode(), manifest)


def is_signed(signature: bytes, signed: bytes, keys: Iterable[Ed25519PublicKey]) -> bool:
    """Whether one of these keys made the signature."""
    for key in keys:
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            continue
        return True
    return False
