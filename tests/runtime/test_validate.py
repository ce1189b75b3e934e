"""Field checks: each says which field and what is wrong, and gives back what is right."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from kozyr.azi.v1 import azi_pb2
from kozyr.game.v1 import game_pb2, variant_pb2

from services.kernel.errors import Refused
from services.runtime import validate

CARD: Any = -1
LEGAL = azi_pb2.View(legal=[azi_pb2.Move(), azi_pb2.Move(drop=azi_pb2.Drop(card=CARD))])
VIOLATIONS = [BadRequest.FieldViolation(), BadRequest.FieldViolation(field="\n")]
ID = "0198c0de-0000-7000-8000-000000000001"


def problem(check: Callable[..., Any], *arguments: Any, **bounds: Any) -> str:
    """The field a check complains about."""
    with pytest.raises(Refused) as caught:
        check(*arguments, **bounds)
    assert caught.value.reason == "INVALID_FIELD"
    return caught.value.fields[0].field


def test_uuids_are_canonical() -> None:
    """Lower case with hyphens; anything else would give one thing two names."""
    assert validate.uuid("game_id", ID) == UUID(ID)
    assert validate.optional_uuid("game_id", "") is None
    for bad in ("", ID.upper(), ID.replace("-", ""), f"{{{ID}}}", f"urn:uuid:{ID}", "x", ID + "0"):
        assert problem(validate.uuid, "game_id", bad) == "game_id"


def test_texts_and_octets_have_lengths() -> None:
    """Both ends count; blanks around and control characters do not pass."""
    assert validate.text("name", "Änne K.", high=7) == "Änne K."
    assert validate.text("code", "", low=0, high=7) == ""
    for bad in ("", "x" * 8, " x", "x ", "a\tb", "a\x00", "\u202ex"):
        assert problem(validate.text, "name", bad, high=7) == "name"
    assert validate.octets("seed", b"12", low=2, high=3) == b"12"
    for octets in (b"1", b"1234"):
        assert problem(validate.octets, "seed", octets, low=2, high=3) == "seed"


def test_numbers_and_choices_have_bounds() -> None:
    """The bounds themselves are good."""
    assert [validate.number("seat", n, low=0, high=5) for n in (0, 5)] == [0, 5]
    for bad in (-1, 6):
        assert problem(validate.number, "seat", bad, low=0, high=5) == "seat"
    assert validate.choice("level", 2, (1, 2)) == 2
    for bad in (0, 3, -1):
        assert problem(validate.choice, "level", bad, (1, 2)) == "level"


def test_pages_have_sizes() -> None:
    """0 is the default, too much is the most, less than nothing is a mistake."""
    assert [validate.page_size(n) for n in (0, 1, 200, 201, 10**9)] == [50, 1, 200, 200, 200]
    assert problem(validate.page_size, -1) == "page_size"


def test_a_sub_message_can_be_required() -> None:
    """Its absence names it."""
    validate.present(game_pb2.SubmitMoveRequest(move=variant_pb2.Move()), "move")
    assert problem(validate.present, game_pb2.SubmitMoveRequest(), "move") == "move"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (game_pb2.SubmitMoveRequest(), "request_id"),
        (game_pb2.SubmitMoveRequest(request_id="a", game_id="a\x00"), "game_id"),
        (game_pb2.SubmitMoveRequest(request_id="a", game_id="x" * 1025), "game_id"),
        (game_pb2.CommitSeedRequest(request_id="a", hash=b"x" * 4097), "hash"),
        (azi_pb2.PlayCard(card=99), "card"),  # type: ignore[arg-type]
        (azi_pb2.View(hand=[1, 2, 53]), "hand[2]"),  # type: ignore[list-item]
        (azi_pb2.View(hand=[1] * 257), "hand"),  # type: ignore[list-item]
        (LEGAL, "legal[1].drop.card"),
        (BadRequest(field_violations=VIOLATIONS), "field_violations[1].field"),
        (ErrorInfo(metadata={"a\n": "x"}), "metadata[0]"),
    ],
)
def test_every_request_is_checked_field_by_field(message: Message, field: str) -> None:
    """Texts, octets, enums, lists and maps, at any depth; the path leads there."""
    assert problem(validate.check_message, message) == field


def test_a_good_request_passes() -> None:
    """What is absent or unspecified is for the servicer to judge."""
    validate.check_message(game_pb2.SubmitMoveRequest(request_id="r-1", game_id=ID))
    validate.check_message(azi_pb2.View(hand=[1, 52], legal=[azi_pb2.Move()]))  # type: ignore[list-item]
