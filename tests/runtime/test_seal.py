"""Sealed tokens: what a client gives back is what it was given, for what it was given for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kernel.errors import Kind, Refused
from services.runtime.seal import Sealer, open_page, open_token, seal_page, seal_token

KEY = b"k" * 32
values = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20)
several = st.lists(values, max_size=4)


@given(several, several)
def test_a_token_gives_back_its_fields(bound: list[Any], fields: list[Any]) -> None:
    """Numbers, texts and None, of equal value; and the same token for the same fields."""
    token = seal_token(KEY, "watch", bound, fields)
    assert open_token(KEY, "watch", bound, token) == tuple(fields)
    assert seal_token(KEY, "watch", bound, fields) == token
    page = seal_page(KEY, "games", bound, fields)
    assert open_page(KEY, "games", bound, page) == tuple(fields)


@given(several, several)
def test_a_token_is_bound(bound: list[Any], other: list[Any]) -> None:
    """Another viewer or game, purpose or key, and it does not open."""
    token = seal_token(KEY, "watch", bound, (7,))
    tries = [(b"x" * 32, "watch", bound), (KEY, "page", bound)]
    if other != bound:
        tries.append((KEY, "watch", other))
    for key, purpose, given_bound in tries:
        with pytest.raises(Refused) as caught:
            open_token(key, purpose, given_bound, token)
        assert (caught.value.kind, caught.value.reason) == (Kind.INVALID, "BAD_TOKEN")


@given(several, st.lists(several, max_size=3))
def test_a_sealer_makes_the_same_tokens(bound: list[Any], each: list[list[Any]]) -> None:
    """One after the other, each as if it were made alone."""
    sealer = Sealer(KEY, "page", bound)
    for fields in each:
        assert sealer.seal(fields) == seal_token(KEY, "page", bound, fields)


def test_fields_cannot_move_into_what_is_bound() -> None:
    """Where one part ends and the next begins is part of what is signed."""
    token = seal_token(KEY, "watch", ("a", "b"), ("c",))
    for purpose, bound in (("watch", ("a",)), ("watch", ("a", "b", "c")), ("watcha", ("b",))):
        with pytest.raises(Refused):
            open_token(KEY, purpose, bound, token)


@given(st.binary(max_size=600))
def test_garbage_is_no_token(garbage: bytes) -> None:
    """Whatever the octets, the answer names the field."""
    with pytest.raises(Refused) as caught:
        open_token(KEY, "watch", (), garbage, "resume_token")
    assert caught.value.fields[0].field == "resume_token"


@given(st.text(min_size=1, max_size=50))
def test_garbage_is_no_page(garbage: str) -> None:
    """Whatever the text."""
    with pytest.raises(Refused) as caught:
        open_page(KEY, "games", (), garbage)
    assert caught.value.fields[0].field == "page_token"


def test_a_changed_token_does_not_open() -> None:
    """Any bit of it."""
    token = seal_token(KEY, "watch", (), (200,))
    for place in range(len(token) * 8):
        changed = bytearray(token)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(Refused):
            open_token(KEY, "watch", (), bytes(changed))


def test_the_first_page_has_no_token() -> None:
    """An empty text stands for the beginning."""
    assert open_page(KEY, "games", ("x",), "") == ()


def test_a_token_stays_small() -> None:
    """Too much in it is our mistake and found at once."""
    with pytest.raises(ValueError, match="too much"):
        seal_token(KEY, "watch", (), ("x" * 600,))
