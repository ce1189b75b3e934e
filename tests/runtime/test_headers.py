"""What is read of a call's metadata."""

import pytest

from services.runtime import headers
from services.runtime.headers import AUTHORIZATION, READ, REQUEST_ID


def test_what_nobody_looks_at_is_left_out() -> None:
    """And of what is looked at nothing is lost that came twice."""
    metadata: list[tuple[str, str | bytes]] = [
        ("user-agent", "x"),
        ("x-forwarded-for", "1.1.1.1"),
        ("grpc-trace-bin", b"\x00"),
        ("x-forwarded-for", "2.2.2.2"),
        (REQUEST_ID, "id-1"),
    ]
    assert headers.read(metadata) == {"x-forwarded-for": "1.1.1.1,2.2.2.2", REQUEST_ID: "id-1"}
    assert headers.read([(key, "v") for key in sorted(READ)]) == dict.fromkeys(READ, "v")
    assert headers.read(None) == headers.read([]) == {}


@pytest.mark.parametrize("given", ["id-1", "a" * 64, "A.b:c_9"])
def test_a_callers_request_id_is_kept(given: str) -> None:
    """Where it is one."""
    assert headers.request_id({REQUEST_ID: given}) == given


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "id,id", "ü", "a\n"])
def test_what_is_no_request_id_is_replaced(given: str) -> None:
    """By one that nobody else has."""
    made = {headers.request_id({REQUEST_ID: given}) for _ in range(100)}
    assert len(made | {headers.request_id({})}) == 101
    assert all(len(each) == 16 and each != given for each in made)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Bearer a.b.c", "a.b.c"),
        ("bearer a.b.c", ""),
        ("a.b.c", ""),
        ("", ""),
        ("Bearer a,Bearer b", "a,Bearer b"),
    ],
)
def test_a_token_is_what_follows_the_word(given: str, expected: str) -> None:
    """What is none is not valid either, nor are two; where there is no header there is none."""
    assert headers.token({AUTHORIZATION: given}) == expected
    assert headers.token({}) is None
