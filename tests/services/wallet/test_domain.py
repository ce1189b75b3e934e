"""The wallet's decisions: given the books, when a command comes, then this change or refusal."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from uuid import UUID

import pytest

from services.kernel.errors import Refused
from services.wallet.books import (
    CHIPS_MAX,
    ISSUER,
    Account,
    AccountKind,
    Books,
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
    Claim,
    Command,
    Expire,
    Grant,
    Line,
    OpenAccount,
    Pin,
    Reserve,
    Settle,
    Void,
    accounts_of,
    decide,
    has_expired,
)

NOW = 1_700_000_000_000_000
GAME, OTHER_GAME = UUID(int=0xAA), UUID(int=0xAB)
ANN, BEN, BOT = UUID(int=0x11), UUID(int=0x12), UUID(int=0x13)
R1, R2, R3 = UUID(int=0x21), UUID(int=0x22), UUID(int=0x23)
HEAD = b"h" * 32
IDS = count(0x1000)

EMPTY = Books(NOW, {ISSUER: Account(ISSUER, AccountKind.ISSUER)})


def transfer_id() -> UUID:
    """A new id."""
    return UUID(int=next(IDS))


def given(*commands: Command, books: Books = EMPTY) -> Books:
    """The books after commands."""
    for command in commands:
        books = evolve(books, decide(books, command, transfer_id()))
    return books


def refused(books: Books, command: Command) -> str:
    """The reason for which a command is refused; the books stay as they are."""
    before = repr(books)
    with pytest.raises(Refused) as caught:
        decide(books, command, transfer_id())
    assert repr(books) == before
    return caught.value.reason


def balances(books: Books) -> dict[UUID, int]:
    """What every account holds."""
    return {account.id: account.balance for account in books.accounts.values()}


PEOPLE = (
    OpenAccount(ANN, AccountKind.PLAYER, 1_000),
    OpenAccount(BEN, AccountKind.PLAYER, 1_000),
    OpenAccount(BOT, AccountKind.BOT, 0),
)
SEATED = (*PEOPLE, Reserve(R1, ANN, GAME, 300, 5_000), Reserve(R2, BEN, GAME, 400, 5_000))
CLAIMS = (Claim(R1, ANN, 300), Claim(R2, BEN, 400))
OPENED = (*SEATED, Pin(GAME, CLAIMS))
SETTLE = Settle(GAME, (Line(R1, 250, 0), Line(R2, 250, 500)), HEAD)


class TestAccounts:
    """Opening and granting."""

    def test_a_player_is_welcomed_from_the_issuer(self) -> None:
        """The welcome comes out of the one account that may be below zero."""
        books = given(*PEOPLE)
        assert balances(books) == {ISSUER: -2_000, ANN: 1_000, BEN: 1_000, BOT: 0}

    def test_opening_twice_is_opening_once(self) -> None:
        """The same kind again changes nothing, whatever the welcome is by now."""
        books = given(*PEOPLE)
        assert decide(books, OpenAccount(ANN, AccountKind.PLAYER, 7), transfer_id()) == Change()

    @pytest.mark.parametrize("account", [ANN, ISSUER])
    def test_an_account_keeps_its_kind(self, account: UUID) -> None:
        """An id that is another kind of account's is refused."""
        command = OpenAccount(account, AccountKind.BOT, 0)
        assert refused(given(*PEOPLE), command) == "ACCOUNT_EXISTS"

    def test_an_escrow_cannot_be_opened_as_a_player(self) -> None:
        """A game's id is taken."""
        command = OpenAccount(GAME, AccountKind.PLAYER, 0)
        assert refused(given(*SEATED), command) == "ACCOUNT_EXISTS"

    def test_a_grant_comes_from_the_issuer(self) -> None:
        """And carries its reason."""
        books = given(*PEOPLE)
        change = decide(books, Grant(BOT, 50, "a bot's stack", bots_only=True), transfer_id())
        assert change.transfer is not None
        assert change.transfer.reason == "a bot's stack"
        assert balances(evolve(books, change))[BOT] == 50

    def test_who_may_grant_to_bots_may_not_grant_to_players(self) -> None:
        """The lobby's grants end at bots."""
        assert refused(given(*PEOPLE), Grant(ANN, 50, "x", bots_only=True)) == "BOTS_ONLY"

    @pytest.mark.parametrize("account", [R1, ISSUER, GAME])
    def test_only_players_and_bots_are_granted(self, account: UUID) -> None:
        """Nobody's account, the issuer's and an escrow are not found."""
        assert refused(given(*SEATED), Grant(account, 1, "x")) == "ACCOUNT_NOT_FOUND"

    @pytest.mark.parametrize("chips", [0, -1, CHIPS_MAX + 1])
    def test_chips_are_a_positive_int64(self, chips: int) -> None:
        """Other numbers name the field."""
        assert refused(given(*PEOPLE), Grant(ANN, chips, "x")) == "INVALID_FIELD"

    def test_a_balance_never_leaves_int64(self) -> None:
        """The issuer's bound is every account's bound."""
        books = given(*PEOPLE, Grant(ANN, CHIPS_MAX - 2_000, "x"))
        assert refused(books, Grant(BOT, 1, "x")) == "CHIPS_OVERFLOW"


class TestReserve:
    """Holding chips for a game."""

    def test_chips_go_to_the_games_escrow(self) -> None:
        """The escrow has the game's id and is opened by the first reservation."""
        books = given(*SEATED)
        assert balances(books)[GAME] == 700
        assert books.accounts[GAME].kind is AccountKind.ESCROW
        assert [(r.number, r.state) for r in books.reservations] == [
            (1, ReservationState.PENDING),
            (2, ReservationState.PENDING),
        ]
        assert books.reservations[0].expires_at == NOW + 5_000_000

    def test_an_account_cannot_be_overdrawn(self) -> None:
        """One chip too many is refused with what there is."""
        command = Reserve(R3, ANN, GAME, 701, 5_000)
        assert refused(given(*SEATED), command) == "INSUFFICIENT_CHIPS"

    def test_the_last_chip_may_be_reserved(self) -> None:
        """The bound is exact."""
        assert balances(given(*SEATED, Reserve(R3, ANN, GAME, 700, 5_000)))[ANN] == 0

    def test_the_same_reservation_by_another_request_moves_nothing(self) -> None:
        """While it still holds the chips."""
        for commands in (SEATED, OPENED):
            again = Reserve(R1, ANN, GAME, 300, 9_000)
            assert decide(given(*commands), again, transfer_id()) == Change()

    @pytest.mark.parametrize(
        "command",
        [
            Reserve(R1, ANN, GAME, 301, 5_000),
            Reserve(R1, BEN, GAME, 300, 5_000),
            Reserve(R1, ANN, OTHER_GAME, 300, 5_000),
        ],
    )
    def test_a_reservations_id_stands_for_one_reservation(self, command: Reserve) -> None:
        """Other chips, another account or another game are refused."""
        assert refused(given(*SEATED), command) == "RESERVATION_MISMATCH"

    def test_a_late_reservation_of_a_voided_game_is_refused(self) -> None:
        """Also when the game had none: the void left a mark."""
        late = Reserve(R3, ANN, GAME, 1, 5_000)
        assert refused(given(*PEOPLE, Void(GAME, "X", pinned_too=False)), late) == "GAME_VOIDED"
        assert refused(given(*SEATED, Void(GAME, "X", pinned_too=False)), late) == "GAME_VOIDED"

    def test_an_opened_or_settled_game_takes_no_more(self) -> None:
        """What was pinned is all there is."""
        late = Reserve(R3, ANN, GAME, 1, 5_000)
        assert refused(given(*OPENED), late) == "RESERVATION_PINNED"
        assert refused(given(*OPENED, SETTLE), late) == "ALREADY_SETTLED"

    def test_a_reservation_that_is_over_cannot_be_made_again(self) -> None:
        """Its id says what became of it."""
        again = Reserve(R1, ANN, GAME, 300, 5_000)
        assert refused(given(*OPENED, SETTLE), again) == "ALREADY_SETTLED"
        voided = given(*SEATED, Void(GAME, "X", pinned_too=False))
        assert refused(voided, again) == "ALREADY_VOIDED"
        assert refused(given(Expire(GAME), books=later(*SEATED)), again) == "RESERVATION_EXPIRED"

    @pytest.mark.parametrize("account", [R1, ISSUER, GAME])
    def test_only_players_and_bots_reserve(self, account: UUID) -> None:
        """Nobody's account, the issuer's and an escrow are not found."""
        assert refused(given(*SEATED), Reserve(R3, account, GAME, 1, 5_000)) == "ACCOUNT_NOT_FOUND"

    def test_a_game_cannot_have_a_players_id(self) -> None:
        """The escrow would be that player's account."""
        assert refused(given(*PEOPLE), Reserve(R3, BEN, ANN, 1, 5_000)) == "ACCOUNT_EXISTS"

    @pytest.mark.parametrize("ttl_ms", [0, 99, 3_600_001])
    def test_the_time_to_live_is_bounded(self, ttl_ms: int) -> None:
        """From a tenth of a second to an hour."""
        assert refused(given(*PEOPLE), Reserve(R3, ANN, GAME, 1, ttl_ms)) == "INVALID_FIELD"


class TestPin:
    """Binding reservations to an opening game."""

    def test_pinned_reservations_do_not_expire(self) -> None:
        """Only the game's end releases them."""
        books = later(*OPENED)
        assert books.game is not None
        assert books.game.state is GameState.PINNED
        assert not has_expired(books, GAME)
        assert decide(books, Expire(GAME), transfer_id()) == Change()

    def test_pinning_twice_is_pinning_once(self) -> None:
        """In any order of the claims."""
        again = Pin(GAME, tuple(reversed(CLAIMS)))
        assert decide(given(*OPENED), again, transfer_id()) == Change()

    @pytest.mark.parametrize(
        "claims",
        [
            (),
            CLAIMS[:1],
            (*CLAIMS, CLAIMS[0]),
            (*CLAIMS, Claim(R3, ANN, 1)),
            (CLAIMS[0], Claim(R2, BEN, 401)),
            (CLAIMS[0], Claim(R2, ANN, 400)),
        ],
    )
    @pytest.mark.parametrize("commands", [SEATED, OPENED])
    def test_claims_are_the_reservations(
        self, claims: tuple[Claim, ...], commands: Sequence[Command]
    ) -> None:
        """Fewer, more, repeated or different ones are refused, before and after pinning."""
        assert refused(given(*commands), Pin(GAME, claims)) == "RESERVATION_MISMATCH"

    def test_a_game_without_reservations_cannot_pin(self) -> None:
        """There is nothing to pin."""
        assert refused(given(*PEOPLE), Pin(GAME, CLAIMS)) == "RESERVATION_MISMATCH"

    def test_an_expired_reservation_cannot_be_pinned(self) -> None:
        """Its chips have gone back."""
        books = given(Expire(GAME), books=later(*SEATED))
        assert refused(books, Pin(GAME, CLAIMS)) == "RESERVATION_EXPIRED"

    def test_an_expired_seat_may_reserve_anew_and_be_pinned(self) -> None:
        """Expiry ends a reservation, not the game."""
        books = given(Expire(GAME), books=later(*SEATED))
        books = given(
            Reserve(R3, ANN, GAME, 10, 5_000), Pin(GAME, (Claim(R3, ANN, 10),)), books=books
        )
        assert books.reservations[2].state is ReservationState.PINNED

    def test_an_ended_game_cannot_be_pinned(self) -> None:
        """Voided or settled."""
        voided = given(*SEATED, Void(GAME, "X", pinned_too=False))
        assert refused(voided, Pin(GAME, CLAIMS)) == "GAME_VOIDED"
        assert refused(given(*OPENED, SETTLE), Pin(GAME, CLAIMS)) == "ALREADY_SETTLED"


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
            post(given(*PEOPLE).accounts, [transfer])

    def test_an_unknown_account_gets_nothing(self) -> None:
        """Nor does it give."""
        transfer = Transfer(R1, TransferKind.GRANT, (Leg(ISSUER, -1), Leg(R3, 1)))
        with pytest.raises(Refused, match="ACCOUNT_NOT_FOUND"):
            post(EMPTY.accounts, [transfer])

    def test_transfers_of_one_list_build_on_each_other(self) -> None:
        """Before and after chain through the list, versions count."""
        first = Transfer(R1, TransferKind.GRANT, (Leg(ISSUER, -5), Leg(ANN, 5)))
        second = Transfer(R2, TransferKind.GRANT, (Leg(ANN, -3), Leg(BEN, 3)))
        postings, after = post(given(*PEOPLE).accounts, [first, second])
        ann = [(p.version, p.before, p.after) for p in postings if p.account == ANN]
        assert ann == [(2, 1_000, 1_005), (3, 1_005, 1_002)]
        assert after[ANN].balance == 1_002


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
        assert changed <= accounts_of(command, books.reservations)


def later(*commands: Command) -> Books:
    """The books after commands, when every reservation's time is up."""
    return replace(given(*commands), now=NOW + 10**12)


def test_a_reservation_knows_what_it_ends_with() -> None:
    """Chips less what was paid in plus what was paid out."""
    held = Reservation(R1, GAME, 1, ANN, 300, NOW, ReservationState.POSTED, 250, 40)
    assert held.final == 90
