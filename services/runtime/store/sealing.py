"""Sealing of secrets: AES-256-GCM under a key per stream, itself wrapped by a master key.

A stream's data key is 32 random bytes made with its first secret. It is stored wrapped under the
current master key, whose id stands beside it, so a master key is exchanged by wrapping the data
keys again; neither the log nor the sealed secrets change. Salt and secret are sealed together:
with the salt in the open, a secret of few possibilities (one card) could be found by trying.

    sealed  = nonce(12) ‖ AES-GCM(data key, nonce, salt(32) ‖ secret,
                                  "kozyr secret 1" ‖ stream(16) ‖ version(8))
    wrapped = nonce(12) ‖ AES-GCM(master key, nonce, data key,
                                  "kozyr key 1" ‖ stream(16) ‖ key id)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from services.runtime.store.chain import SALT_BYTES

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_ID_MAX = 64


class KeyUnknown(Exception):
    """A stream's key is wrapped under a master key that this process was not given."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no master key {key_id!r} in the settings")
        self.key_id = key_id


class SealBroken(Exception):
    """Sealed bytes are not what was sealed, or the key is not the one they were sealed with."""


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """Master keys by id (32 bytes each), and the id of the one that wraps new data keys."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if self.current not in self.keys:
            raise KeyUnknown(self.current)
        for key_id, key in self.keys.items():
            if len(key) != KEY_BYTES:
                raise ValueError(f"master key {key_id!r} must have {KEY_BYTES} bytes")
            if not 0 < len(key_id) <= KEY_ID_MAX or not key_id.isprintable():
                raise ValueError(f"a master key id has 1 to {KEY_ID_MAX} printable characters")


def wrap(keys: MasterKeys, stream: UUID, data_key: bytes, nonce: bytes) -> bytes:
    """A data key as it is stored, under the current master key."""
    return nonce + AESGCM(keys.keys[keys.current]).encrypt(
        nonce, data_key, key_context(stream, keys.current)
    )


def unwrap(keys: MasterKeys, stream: UUID, key_id: str, wrapped: bytes) -> bytes:
    """The data key of a stream; raises KeyUnknown, SealBroken."""
    if key_id not in keys.keys:
        raise KeyUnknown(key_id)
    return open_box(keys.keys[key_id], wrapped, key_context(stream, key_id))


def seal(
    data_key: bytes, stream: UUID, version: int, salt: bytes, secret: bytes, nonce: bytes
) -> bytes:
    """A secret and its salt as they are stored."""
    return nonce + AESGCM(data_key).encrypt(nonce, salt + secret, secret_context(stream, version))


def unseal(data_key: bytes, stream: UUID, version: int, sealed: bytes) -> tuple[bytes, bytes]:
    """Salt and secret; raises SealBroken."""
    opened = open_box(data_key, sealed, secret_context(stream, version))
    if len(opened) < SALT_BYTES:
        raise SealBroken
    return opened[:SALT_BYTES], opened[SALT_BYTES:]


def open_box(key: bytes, box: bytes, context: bytes) -> bytes:
    """What is in a box of nonce and ciphertext; raises SealBroken."""
    try:
        return AESGCM(key).decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], context)
    except (InvalidTag, TypeError, ValueError) as error:
        raise SealBroken from error


def key_context(stream: UUID, key_id: str) -> bytes:
    """What a wrapped key is bound to."""
    return b"kozyr key 1" + stream.bytes + key_id.encode("utf-8", "surrogateescape")


def secret_context(stream: UUID, version: int) -> bytes:
    """What a sealed secret is bound to."""
    return b"kozyr secret 1" + stream.bytes + version.to_bytes(8, "big")
