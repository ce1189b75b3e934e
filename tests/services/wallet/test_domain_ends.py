"""How games end in the wallet: settled, voided, expired; and the double entry under it all."""

from dataclasses import replace

import pytest

from services.kernel.errors import Refused
from services.wallet.books import (
    CHIPS_MAX,
    ISSUER,
    Change,
    Game,
    GameState,
    Leg,
    Reservation,
    ReservationState,
    Transfer,
    TransferKind,
    evolve,
    post,
)
from services.wallet.domain import (
    Expire,
    Grant,
    Line,
    Pin,
    Reserve,
    Settle,
    Void,
    accounts_of,
    decide,
    has_expired,
)
from tests.services.wallet.given import (
    ANN,
    BEN,
    BOT,
    CLAIMS,
    EMPTY,
    GAME,
    HEAD,
    NOW,
    OPENED,
    PEOPLE,
    R1,
    R2,
    R3,
    SEATED,
    SETTLE,
    balances,
    given,
    refused,
    transfer_id,
)


class TestSettle:
    """Paying a finished game out."""

    def test_all_seats_are_paid_by_one_transfer(self) -> None:
        """What a seat ends with is what it had, less what it paid in, plus what it was paid."""
        before = given(*OPENED)
        change = decide(before, SETTLE, transfer_id())
        assert change.transfer is not None
        assert change.transfer.legs == (Leg(GAME, -700), Leg(ANN, 50), Leg(BEN, 650))
        after = evolve(before, change)
        assert balances(after) == {ISSUER: -2_000, ANN: 750, BEN: 1_250, BOT: 0, GAME: 0}
        assert after.game == Game(GAME, GameState.SETTLED, change.transfer.id, HEAD)
        assert {r.state for r in after.reservations} == {ReservationState.POSTED}

    def test_a_seat_that_lost_all_has_no_leg(self) -> None:
        """No posting moves zero chips."""
        lost = Settle(GAME, (Line(R1, 300, 0), Line(R2, 100, 400)), HEAD)
        change = decide(given(*OPENED), lost, transfer_id())
        assert change.transfer is not None
        assert change.transfer.legs == (Leg(GAME, -700), Leg(BEN, 700))

    def test_a_seat_may_stake_what_it_won(self) -> None:
        """Paid in may exceed the stack, as long as the end is not below zero."""
        won = Settle(GAME, (Line(R1, 900, 650), Line(R2, 100, 350)), HEAD)
        assert balances(given(*OPENED, won))[ANN] == 750

    def test_settling_twice_is_settling_once(self) -> None:
        """In any order of the lines."""
        again = replace(SETTLE, lines=tuple(reversed(SETTLE.lines)))
        assert decide(given(*OPENED, SETTLE), again, transfer_id()) == Change()

    @pytest.mark.parametrize(
        "other",
        [
            replace(SETTLE, head=b"x" * 32),
            replace(SETTLE, lines=(Line(R1, 0, 0), Line(R2, 0, 0))),
            replace(SETTLE, lines=(SETTLE.lines[0], SETTLE.lines[0])),
            replace(SETTLE, lines=SETTLE.lines[:1]),
        ],
    )
    def test_another_settlement_is_refused(self, other: Settle) -> None:
        """A game ends once."""
        assert refused(given(*OPENED, SETTLE), other) == "ALREADY_SETTLED"

    @pytest.mark.parametrize(
        "lines",
        [
            (),
            SETTLE.lines[:1],
            (*SETTLE.lines, SETTLE.lines[0]),
            (SETTLE.lines[0], Line(R3, 250, 500)),
        ],
    )
    def test_lines_are_the_reservations(self, lines: tuple[Line, ...]) -> None:
        """Each exactly once."""
        assert refused(given(*OPENED), Settle(GAME, lines, HEAD)) == "RESERVATION_MISMATCH"

    def test_chips_are_conserved(self) -> None:
        """Banks pay out what they were paid in, not one chip more or less."""
        for paid_out in (499, 501):
            lines = (Line(R1, 250, 0), Line(R2, 250, paid_out))
            assert refused(given(*OPENED), Settle(GAME, lines, HEAD)) == "UNBALANCED"

    def test_no_seat_ends_below_zero(self) -> None:
        """Even if the sums agree."""
        lines = (Line(R1, 301, 0), Line(R2, 0, 301))
        assert refused(given(*OPENED), Settle(GAME, lines, HEAD)) == "SEAT_OVERDRAWN"

    @pytest.mark.parametrize("chips", [-1, CHIPS_MAX + 1])
    def test_lines_are_not_negative_int64(self, chips: int) -> None:
        """A negative payment is not a payment."""
        lines = (Line(R1, chips, chips), Line(R2, 0, 0))
        assert refused(given(*OPENED), Settle(GAME, lines, HEAD)) == "INVALID_FIELD"

    def test_only_an_opened_game_is_settled(self) -> None:
        """Not one that never reserved, is not pinned, or was voided."""
        assert refused(given(*PEOPLE), SETTLE) == "RESERVATION_MISMATCH"
        assert refused(given(*SEATED), SETTLE) == "RESERVATION_NOT_PINNED"
        voided = given(*OPENED, Void(GAME, "X", pinned_too=True))
        assert refused(voided, SETTLE) == "ALREADY_VOIDED"


class TestVoid:
    """Giving a game's chips back."""

    def test_all_chips_go_back(self) -> None:
        """Pending ones for anybody who may void, pinned ones for the game itself."""
        for commands, pinned_too in ((SEATED, False), (SEATED, True), (OPENED, True)):
            books = given(*commands, Void(GAME, "START_FAILED", pinned_too=pinned_too))
            assert balances(books) == {ISSUER: -2_000, ANN: 1_000, BEN: 1_000, BOT: 0, GAME: 0}
            assert {r.reason for r in books.reservations} == {"START_FAILED"}

    def test_pinned_chips_stay_for_anybody_but_the_game(self) -> None:
        """The lobby cannot undo an opened game."""
        command = Void(GAME, "X", pinned_too=False)
        assert refused(given(*OPENED), command) == "RESERVATION_PINNED"

    def test_voiding_twice_is_voiding_once(self) -> None:
        """Whoever does it the second time."""
        books = given(*SEATED, Void(GAME, "X", pinned_too=False))
        assert decide(books, Void(GAME, "Y", pinned_too=True), transfer_id()) == Change()

    def test_a_settled_game_cannot_be_voided(self) -> None:
        """Its chips are paid out."""
        command = Void(GAME, "X", pinned_too=True)
        assert refused(given(*OPENED, SETTLE), command) == "ALREADY_SETTLED"

    def test_accounts_with_two_seats_get_both_stacks(self) -> None:
        """By one leg."""
        books = given(*SEATED, Reserve(R3, ANN, GAME, 100, 5_000))
        change = decide(books, Void(GAME, "X", pinned_too=False), transfer_id())
        assert change.transfer is not None
        assert change.transfer.legs == (Leg(GAME, -800), Leg(ANN, 400), Leg(BEN, 400))


class TestExpire:
    """Reservations that go back by themselves."""

    def test_time_is_up_at_the_moment_itself(self) -> None:
        """Not a microsecond before."""
        books = given(*SEATED)
        end = books.reservations[0].expires_at
        assert not has_expired(replace(books, now=end - 1), GAME)
        assert has_expired(replace(books, now=end), GAME)

    def test_only_what_has_expired_goes_back(self) -> None:
        """The other seat keeps waiting."""
        books = given(*SEATED, Reserve(R3, ANN, GAME, 100, 60_000))
        books = given(Expire(GAME), books=replace(books, now=NOW + 5_000_000))
        assert balances(books)[GAME] == 100
        assert [r.reason for r in books.reservations] == ["EXPIRED", "EXPIRED", None]


class TestPost:
    """Double entry."""

    @pytest.mark.parametrize(
        "legs",
        [
            (),
            (Leg(ANN, 1),),
            (Leg(ANN, 1), Leg(BEN, -2)),
            (Leg(ANN, 0), Leg(BEN, 0)),
            (Leg(ANN, -1), Leg(ANN, 1)),
        ],
    )
    def test_a_transfer_balances(self, legs: tuple[Leg, ...]) -> None:
        """Two or more legs of different accounts, none of zero, summing to zero."""
        transfer = Transfer(R1, TransferKind.GRANT, legs)
        with pytest.raises(Refused, match="UNBALANCED"):
            post(given(*PEOPLE).accounts, transfer)

    def test_an_unknown_account_gets_nothing(self) -> None:
        """Nor does it give."""
        transfer = Transfer(R1, TransferKind.GRANT, (Leg(ISSUER, -1), Leg(R3, 1)))
        with pytest.raises(Refused, match="ACCOUNT_NOT_FOUND"):
            post(EMPTY.accounts, transfer)

    def test_transfers_build_on_each_other(self) -> None:
        """Before and after chain from one to the next, versions count."""
        accounts = dict(given(*PEOPLE).accounts)
        chain = []
        for name, legs in (
            (R1, (Leg(ISSUER, -5), Leg(ANN, 5))),
            (R2, (Leg(ANN, -3), Leg(BEN, 3))),
        ):
            postings, moved = post(accounts, Transfer(name, TransferKind.GRANT, legs))
            accounts |= {account.id: account for account in moved}
            chain += [(p.version, p.before, p.after) for p in postings if p.account == ANN]
        assert chain == [(2, 1_000, 1_005), (3, 1_005, 1_002)]
        assert accounts[ANN].balance == 1_002


def test_a_command_touches_no_account_it_does_not_name() -> None:
    """What is locked covers what changes."""
    for commands, command in (
        (PEOPLE, Grant(ANN, 1, "x")),
        (PEOPLE, Reserve(R1, ANN, GAME, 1, 5_000)),
        (SEATED, Pin(GAME, CLAIMS)),
        (OPENED, SETTLE),
        (SEATED, Void(GAME, "X", pinned_too=False)),
    ):
        books = given(*commands)
        after = given(command, books=books)
        changed = {i for i, a in after.accounts.items() if a != books.accounts.get(i)}
        assert changed <= set(accounts_of(command, books.reservations))


def test_a_reservation_knows_what_it_ends_with() -> None:
    """Chips less what was paid in plus what was paid out."""
    held = Reservation(R1, GAME, 1, ANN, 300, NOW, ReservationState.POSTED, 250, 40)
    assert held.final == 90
