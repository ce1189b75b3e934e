"""What a request asks, as 32 bytes: the same request id with another fingerprint is refused."""

import hashlib

from google.protobuf.message import Message


def fingerprint(request: Message) -> bytes:
    """SHA-256 of a request: its type's name and its octets."""
    octets = request.SerializeToString(deterministic=True)
    return hashlib.sha256(request.DESCRIPTOR.full_name.encode() + b"\0" + octets).digest()
