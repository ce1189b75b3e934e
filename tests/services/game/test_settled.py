"""The log of a game beside what the wallet holds and paid."""

from random import Random

import pytest
from kozyr.wallet.v1 import wallet_pb2

from services.game.results import bank_flows
from services.game.settled import SETTLED_WITHIN_US, compare, compare_cancelled
from tests.services.game.logs import Log, dealt

HEAD = bytes(range(32))


@pytest.fixture
def log() -> Log:
    """A finished game of Azi for three."""
    played = dealt("azi", 3)
    played.play_random(Random(4))
    assert played.state.ended
    return played


def books(log: Log, *, posted: bool = True) -> wallet_pb2.ListReservationsResponse:
    """What a wallet that agrees says; with `posted` after it has paid."""
    paid = wallet_pb2.RESERVATION_STATE_POSTED
    state = paid if posted else wallet_pb2.RESERVATION_STATE_PINNED
    response = wallet_pb2.ListReservationsResponse(settled_head=HEAD if posted else b"")
    for seat, (paid_in, paid_out) in zip(log.state.seats, bank_flows(log.state), strict=True):
        response.reservations.add(
            reservation_id=seat.reservation_id,
            account_id=seat.player_id,
            chips=seat.stack,
            state=state,
            paid_out=seat.stack - paid_in + paid_out if posted else 0,
        )
    return response


def problems(log: Log, wallet: wallet_pb2.ListReservationsResponse, later_us: int = 0) -> list[str]:
    """What an audit says so long after the game's end."""
    return [fault.detail for fault in compare(log.state, HEAD, wallet, log.at + later_us)]


def test_books_that_agree_have_no_fault(log: Log) -> None:
    """However late they are looked at."""
    assert problems(log, books(log), SETTLED_WITHIN_US * 100) == []


def test_chips_may_be_pinned_for_a_while_after_the_end_and_no_longer(log: Log) -> None:
    """A settlement that never came is named for every seat."""
    assert problems(log, books(log, posted=False), SETTLED_WITHIN_US) == []
    late = problems(log, books(log, posted=False), SETTLED_WITHIN_US + 1)
    assert len(late) == 3
    assert "was not paid" in late[0]


def test_a_chip_too_many_is_found(log: Log) -> None:
    """So are another account, another stack, another end of the log, a reservation too few."""
    changes = []
    for field, value in (("paid_out", 10_000), ("chips", 1), ("account_id", "somebody")):
        wrong = books(log)
        setattr(wrong.reservations[1], field, value)
        changes.append(wrong)
    wrong = books(log)
    wrong.settled_head = bytes(32)
    changes.append(wrong)
    wrong = books(log)
    del wrong.reservations[0]
    changes.append(wrong)
    for wrong in changes:
        assert len(problems(log, wrong)) == 1


def test_what_was_reserved_for_a_cancelled_game_is_given_back_soon(log: Log) -> None:
    """It may be held for a while, never be settled, and not be held for long."""
    held, voided = books(log, posted=False), books(log, posted=False)
    for reservation in voided.reservations:
        reservation.state = wallet_pb2.RESERVATION_STATE_VOIDED
    late = SETTLED_WITHIN_US + 1
    assert compare_cancelled(voided, late) == compare_cancelled(held, SETTLED_WITHIN_US) == []
    assert ["not given back" in fault.detail for fault in compare_cancelled(held, late)] == [
        True
    ] * 3
    held.reservations[1].state = wallet_pb2.RESERVATION_STATE_POSTED
    assert [fault.detail for fault in compare_cancelled(held, 0)] == [
        "seat 1 was settled although the game was cancelled"
    ]
