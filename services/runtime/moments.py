"""Moments and ids as they leave a process: database time on the wire, ids that sort by time."""

import secrets
import time
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from services.kernel.ids import RANDOM_BYTES, uuid7


def timestamp(at: int) -> Timestamp:
    """A Timestamp of Unix microseconds."""
    return Timestamp(seconds=at // 1_000_000, nanos=at % 1_000_000 * 1_000)


def new_id() -> UUID:
    """A new UUIDv7 of this moment, by this machine's clock."""
    return uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES))
