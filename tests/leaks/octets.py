"""What was sent, taken apart: values that carry no information made constants, cards looked for.

A card could leave in four ways: as a number of the enum that all messages name cards by, in words,
in octets, or as a number that means nothing to a reader of the contract. The first three are looked
for here; what the fourth would change is found by comparing two worlds.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from engines.cards import PACK_SIZE, Card, text

CARD_ENUM = "kozyr.cards.v1.Card"
CONSTANT = frozenset({
    *("head", "hash", "settled_head", "root", "note", "proof", "leaf", "signature", "payload_hash"),
    *("secret_digest", "body_hash", "salt", "path"),
    *("recorded_time", "deadline_time", "opened_time", "ended_time", "signed_time", "recorded_at"),
    *("oldest_uncovered_time", "thought_us", "expire_time", "at_ms", "duration_ms"),
    *("now_time", "remaining_ms"),
})  # fmt: skip
"""Fields that are made constants: digests, proofs of them, and times."""
LINE_CONSTANT = frozenset(
    {"time", "ms", "trace", "request_id", "trace_id", "address", "port", "pid"}
)

WORDS = {text(Card(n)): Card(n) for n in range(PACK_SIZE)}
NAMES = {"SPADES": "S", "HEARTS": "H", "DIAMONDS": "D", "CLUBS": "C"}
RANKS = {"TEN": "T", "JACK": "J", "QUEEN": "Q", "KING": "K", "ACE": "A"}
NUMBERS = ("TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
RANKS |= {word: str(number) for number, word in enumerate(NUMBERS, start=2)}
SIGNS = {"♠": "S", "♥": "H", "♦": "D", "♣": "C"}
SHORT = re.compile(rf"(?<![0-9A-Za-z])({'|'.join(WORDS)})(?![0-9A-Za-z])")
BASE64 = re.compile(
    r"(?<![\w+/-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=[\w+/-]*[0-9])"
    r"(?:[A-Za-z0-9+/]{20,}|[A-Za-z0-9_-]{32,})={0,2}(?![\w+/-])"
)
LONG = re.compile(rf"({'|'.join(RANKS)})_OF_({'|'.join(NAMES)})")
SIGNED = re.compile(r"(10|[2-9TJQKA])([♠♥♦♣])")
SPOKEN = re.compile(r"\bCard\((\d+)\)|<Card\.\w+: (\d+)>")


def constants(message: Message) -> Any:
    """A message as plain values, constants where nothing is told."""
    shown: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        if descriptor.name in CONSTANT:
            shown[descriptor.name] = "constant"
        elif _is_map(descriptor):
            shown[descriptor.name] = dict(value)
        elif descriptor.message_type is not None and descriptor.is_repeated:
            shown[descriptor.name] = [constants(each) for each in value]
        elif descriptor.message_type is not None:
            shown[descriptor.name] = constants(value)
        elif descriptor.name == "readable":
            shown[descriptor.name] = _plain(json.loads(value))
        else:
            shown[descriptor.name] = list(value) if descriptor.is_repeated else value
    return shown


def _is_map(descriptor: Any) -> bool:
    inner = descriptor.message_type
    return inner is not None and inner.GetOptions().map_entry


def document(octets: bytes) -> Any:
    """A JSON document likewise."""
    return _plain(json.loads(octets))


def line(said: str) -> Any:
    """A line of a log likewise."""
    fields = json.loads(said)
    return {k: "constant" if k in LINE_CONSTANT else v for k, v in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "constant" if k in CONSTANT and v else _plain(v) for k, v in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def refusal(details: bytes) -> list[Message]:
    """What a refusal says, its parts."""
    parts: list[Message] = []
    for detail in Status.FromString(details).details:
        shape: Any = getattr(error_details_pb2, detail.TypeName().rpartition(".")[2])
        parts.append(shape.FromString(detail.value))
    return parts


def named(message: Message) -> Iterator[Card]:
    """Every card that a message names by number or, in its texts, in words."""
    for descriptor, value in message.ListFields():
        values = value if descriptor.is_repeated else (value,)
        if _is_map(descriptor):
            yield from spelt(str(dict(value)))
        elif descriptor.message_type is not None:
            for inner in values:
                yield from named(inner)
        elif descriptor.enum_type is not None and descriptor.enum_type.full_name == CARD_ENUM:
            yield from (Card(number - 1) for number in values)
        elif descriptor.type == descriptor.TYPE_STRING:
            for inner in values:
                yield from spelt(inner)


def spelt(said: str) -> Iterator[Card]:
    """Every card that a text names; in signatures and tokens any two letters may meet."""
    yield from (WORDS[word] for word in SHORT.findall(BASE64.sub("", said)))
    yield from (WORDS[RANKS[rank] + NAMES[suit]] for rank, suit in LONG.findall(said))
    for rank, suit in SIGNED.findall(said):
        yield WORDS[("T" if rank == "10" else rank) + SIGNS[suit]]
    yield from (Card(int(a or b)) for a, b in SPOKEN.findall(said))


def carried(octets: bytes, secrets: Iterable[bytes]) -> Iterator[bytes]:
    """The secrets of which octets hold a copy: as they are, in hexadecimal or in base64."""
    for secret in secrets:
        forms: tuple[Callable[[bytes], bytes], ...] = (
            bytes,
            lambda it: it.hex().encode(),
            lambda it: it.hex().upper().encode(),
            lambda it: base64.b64encode(it).rstrip(b"="),
            lambda it: base64.urlsafe_b64encode(it).rstrip(b"="),
        )
        if any(form(secret) in octets for form in forms):
            yield secret
