"""What a request asks, as 32 bytes: the same request id with another fingerprint is refused."""

import hashlib
import hmac
from functools import cache

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message


def fingerprint(request: Message, key: bytes | None = None) -> bytes:
    """SHA-256 of a request: its type's name and its octets.

    With a key it is an HMAC, for requests that say what nobody may find out by trying all there
    could be.
    """
    named = _name(request.DESCRIPTOR) + request.SerializeToString(deterministic=True)
    return hashlib.sha256(named).digest() if key is None else hmac.digest(key, named, "sha256")


@cache
def _name(kind: Descriptor) -> bytes:
    return kind.full_name.encode() + b"\0"
