"""Messages put together by hand are the octets that protobuf would have written."""

from google.protobuf.wrappers_pb2 import BytesValue
from hypothesis import given
from hypothesis import strategies as st
from kozyr.game.v1 import game_pb2

from services.runtime.wire.framing import nested, numeral, varint


@given(st.integers(1, 40_000))
def test_a_nested_field_is_framed_as_protobuf_does(length: int) -> None:
    """Whatever its length."""
    value = bytes(length)
    assert nested(1, value) == BytesValue(value=value).SerializeToString()


@given(st.integers(0, 2**63 - 1))
def test_numbers_are_written_as_protobuf_does(value: int) -> None:
    """Seven bits an octet, the lowest first."""
    tag = bytes((game_pb2.CreateGameResponse.VERSION_FIELD_NUMBER << 3,))
    written = game_pb2.CreateGameResponse(version=value).SerializeToString()
    assert tag + varint(value) == (written or tag + b"\0")
    assert numeral(game_pb2.CreateGameResponse.VERSION_FIELD_NUMBER, value) == tag + varint(value)
