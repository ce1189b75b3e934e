"""The wallet's decisions: given the books, when a command comes, then this change or refusal."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from services.wallet.books import (
    CHIPS_MAX,
    ISSUER,
    AccountKind,
    Change,
    GameState,
    ReservationState,
    evolve,
)
from services.wallet.domain import (
    Claim,
    Command,
    Expire,
    Grant,
    OpenAccount,
    Pin,
    Reserve,
    Void,
    decide,
    has_expired,
)
from tests.services.wallet.given import (
    ANN,
    BEN,
    BOT,
    CLAIMS,
    GAME,
    NOW,
    OPENED,
    OTHER_GAME,
    PEOPLE,
    R1,
    R2,
    R3,
    SEATED,
    SETTLE,
    balances,
    given,
    later,
    refused,
    transfer_id,
)


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
