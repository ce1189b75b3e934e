"""Checkpoints of a log as signed notes, in the form that transparency logs use (C2SP).

A checkpoint is a text: the log's name, the size of its tree, the tree's root in base64, a line with
the time (`time` and Unix microseconds). A note is the text, an empty line, and a signature line: an
em dash, the signer's name, and in base64 four octets that name the key and 64 octets of Ed25519.
"""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from services.runtime.signing import is_signed

ORIGIN = "kozyr/game"
"""The name of the game service's log, and of the key that signs it."""
ED25519 = b"\x01"
NOTE_MAX = 1_000
"""Longest note, in characters."""
SHAPE = re.compile(
    rf"{ORIGIN}\n(0|[1-9][0-9]{{0,18}})\n([A-Za-z0-9+/]{{43}}=)\ntime ([1-9][0-9]{{0,18}})\n\n"
    rf"— {ORIGIN} ([A-Za-z0-9+/]+={{0,2}})\n"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree at a moment: its size in leaves, its root, Unix microseconds."""

    size: int
    root: bytes
    at: int

    @property
    def text(self) -> str:
        """What is signed."""
        root = base64.b64encode(self.root).decode()
        return f"{ORIGIN}\n{self.size}\n{root}\ntime {self.at}\n"


class FalseNote(Exception):
    """Not a checkpoint, or not signed by a key that may."""


def sign_note(checkpoint: Checkpoint, key: Ed25519PrivateKey) -> str:
    """The checkpoint as a note under the game service's signature."""
    octets = key_hash(key.public_key()) + key.sign(checkpoint.text.encode())
    return f"{checkpoint.text}\n— {ORIGIN} {base64.b64encode(octets).decode()}\n"


def open_note(note: str, keys: Iterable[Ed25519PublicKey]) -> Checkpoint:
    """The checkpoint of a note that one of the keys has signed; raises FalseNote."""
    found = SHAPE.fullmatch(note) if len(note) <= NOTE_MAX else None
    if found is None:
        raise FalseNote("this is not a checkpoint")
    try:
        root, octets = (base64.b64decode(found[n], validate=True) for n in (2, 4))
    except ValueError:
        raise FalseNote("this is not a checkpoint") from None
    checkpoint = Checkpoint(int(found[1]), root, int(found[3]))
    text, _, _ = note.partition("\n\n")
    named = [key for key in keys if key_hash(key) == octets[:4]]
    if f"{text}\n" != checkpoint.text or not is_signed(octets[4:], checkpoint.text.encode(), named):
        raise FalseNote("the checkpoint is not signed with a key of the game service that is known")
    return checkpoint


def key_hash(key: Ed25519PublicKey) -> bytes:
    """The four octets that name a key in a signature line."""
    return sha256(ORIGIN.encode() + b"\n" + ED25519 + key.public_bytes_raw()).digest()[:4]
