"""The wire reader beside protobuf, the numbers beside the contract, signatures beside a library."""

from dataclasses import asdict, is_dataclass
from random import Random
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.descriptor import Descriptor
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import variant_pb2

from services.game import codec
from services.game import model as game
from services.runtime.wire.games import GAMES, of
from tests.proto.samples import samples
from verifier import ed25519, events
from verifier.chain import Row
from verifier.numbers import NUMBERS
from verifier.wire import Unreadable, parse

ENGINE_EVENTS = [(name, cls) for name in GAMES for cls in get_args(of(name).engine.Event)]  # type: ignore[attr-defined]
FRAME_EVENTS = [game.GameOpened, *(codec.EVENTS[name].cls for name in events.FRAME)]


def descriptors() -> dict[str, Descriptor]:
    """Every message a log of a game is stored in, by its name in `NUMBERS`."""
    found: dict[str, Descriptor] = {}

    def walk(area: str, descriptor: Descriptor) -> None:
        found[f"{area}.{descriptor.name}"] = descriptor
        for field in descriptor.fields:
            inner = field.message_type
            if inner is not None and f"{area}.{inner.name}" not in found:
                walk(area, inner)

    for name in ("GameOpened", *events.FRAME, "GameCancelled"):
        walk("game", getattr(stored, name).DESCRIPTOR)
    for name in GAMES:
        walk(name, of(name).options.message.DESCRIPTOR)
        for event in of(name).events.values():
            walk(name, event.public.message.DESCRIPTOR)
            if event.secret is not None:
                walk(name, event.secret.message.DESCRIPTOR)
    options = variant_pb2.GameOptions.DESCRIPTOR
    return {key: found[key] for key in found if key not in ("game.Options", "game.GameOptions")} | {
        "game.GameOptions": options
    }


def test_the_numbers_are_those_of_the_contract() -> None:
    """Each stored message with all its fields; no message that is not stored."""
    expected = {
        name: {field.name: field.number for field in descriptor.fields}
        for name, descriptor in descriptors().items()
    }
    assert expected == NUMBERS


def row_of(event: game.Event) -> Row:
    """The event as it is stored, with what is not looked at left out."""
    new = codec.encode(event)
    return Row(
        1, new.name, new.schema, new.payload, None, None, new.secret, b"", None, None, 0, b""
    )


def plain(value: Any) -> Any:
    """A dataclass as a dict, so that classes of the same fields compare."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


@pytest.mark.parametrize(("name", "cls"), ENGINE_EVENTS)
def test_an_engines_events_are_read_as_they_were_stored(name: str, cls: Any) -> None:
    """Every class, every enum member, what may be absent absent and otherwise."""
    for event in samples(cls):
        assert events.decode(row_of(game.EngineEvent(event))) == event


@pytest.mark.parametrize("cls", FRAME_EVENTS)
def test_the_frames_events_are_read_as_they_were_stored(cls: Any) -> None:
    """The same fields with the same values, in classes of the verifier's own."""
    for event in samples(cls):
        row = row_of(event)
        row = row if cls is not game.GameOpened else Row(*_without_secret(row))
        found, made = plain(events.decode(row)), plain(event)
        made.pop("secret", None)
        assert found == made


def _without_secret(row: Row) -> tuple[Any, ...]:
    whole = [getattr(row, name) for name in Row.__dataclass_fields__]
    whole[6] = None
    return tuple(whole)


def test_octets_that_are_no_event_are_refused() -> None:
    """Cut off, with a field too many, twice, of another kind, of an unknown name or schema."""
    row = row_of(game.SeedCommitted(1, bytes(32)))

    def read(payload: bytes, name: str = row.name, schema: int = 1) -> Any:
        return events.decode(
            Row(1, name, schema, payload, None, None, None, b"", None, None, 0, b"")
        )

    assert read(row.payload) == events.SeedCommitted(1, bytes(32))
    for payload in (
        row.payload[:-1],
        row.payload + b"\x50\x01",
        row.payload + row.payload[:2],
        b"\x0a\x01\x01" + row.payload[2:],
        b"\x0d\x01\x00\x00\x00",
        b"\x08" + b"\x80" * 11,
        b"\x80",
    ):
        with pytest.raises(Unreadable):
            read(payload)
    for name, schema in (("game.Other", 1), ("chess.Dealt", 1), ("game", 1), (row.name, 2)):
        with pytest.raises(Unreadable):
            read(row.payload, name, schema)


def test_any_octets_are_read_or_refused() -> None:
    """No octets lead to anything but fields or Unreadable."""
    rng = Random(7)
    refused = 0
    for _ in range(3_000):
        try:
            list(parse(rng.randbytes(rng.randrange(12))))
        except Unreadable:
            refused += 1
    assert 0 < refused < 3_000


def test_signatures_are_judged_as_the_library_judges_them() -> None:
    """Genuine ones hold; one bit elsewhere in key, message or signature and they do not."""
    rng = Random(11)
    for number in range(6):
        key = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32))
        message = rng.randbytes(number * 40)
        public, signature = key.public_key().public_bytes_raw(), key.sign(message)
        assert ed25519.is_signed(public, message, signature)
        for place in rng.sample(range(512), 6):
            assert not ed25519.is_signed(public, message, flipped(signature, place))
        assert not ed25519.is_signed(flipped(public, rng.randrange(256)), message, signature)
        assert not ed25519.is_signed(public, message + b"x", signature)
        scalar = int.from_bytes(signature[32:], "little") + ed25519.ORDER
        again = signature[:32] + scalar.to_bytes(32, "little")
        assert not ed25519.is_signed(public, message, again)
    assert not ed25519.is_signed(b"", b"", bytes(64))


def flipped(octets: bytes, place: int) -> bytes:
    """The octets with one bit turned."""
    made = bytearray(octets)
    made[place // 8] ^= 1 << place % 8
    return bytes(made)
