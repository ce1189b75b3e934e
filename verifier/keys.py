"""Public keys of the game service: read from files, named by the start of their SHA-256."""

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

HEAD, TAIL = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"
PREFIX = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 octets of an Ed25519 key (RFC 8410)."""
KEY_BYTES = 32


def key_id(public_key: bytes) -> str:
    """The key's name, 16 hexadecimal digits."""
    return hashlib.sha256(public_key).hexdigest()[:16]


def read_keys(paths: Iterable[Path]) -> dict[str, bytes]:
    """Public keys by name; raises OSError, or ValueError for a file that holds none."""
    found = {}
    for path in paths:
        key = parse_key(path.read_text("ascii"))
        if key is None:
            raise ValueError(f"{path}: is no Ed25519 public key in PEM")
        found[key_id(key)] = key
    return found


def parse_key(text: str) -> bytes | None:
    """The 32 octets of a public key in PEM, None for anything else."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(lines) < 3 or (lines[0], lines[-1]) != (HEAD, TAIL):
        return None
    try:
        octets = base64.b64decode("".join(lines[1:-1]), validate=True)
    except ValueError:
        return None
    if len(octets) != len(PREFIX) + KEY_BYTES or not octets.startswith(PREFIX):
        return None
    return octets[len(PREFIX) :]
