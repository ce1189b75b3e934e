"""Chips that move after a game: rulings on disputes, what a ruling could not take, forfeits.

A ruling says what each player is to gain or lose. Whoever has less than he is to lose gives what he
has, and the dispute reserve, which an operator funds, gives the rest: that is a claim on him, kept
in the dispute's own log, and collected by a command of its own. All of it is pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never
from uuid import UUID

from services.kernel.errors import Refused, invalid, precondition
from services.wallet.books import (
    CHIPS_MAX,
    DISPUTE_RESERVE,
    ISSUER,
    Account,
    AccountKind,
    Books,
    Change,
    GameState,
    Leg,
    ReservationState,
    Transfer,
    TransferKind,
    check_chips,
    posted,
    unknown_account,
)


@dataclass(frozen=True, slots=True)
class FundReserve:
    """Give chips from the issuer to the dispute reserve, which is opened by the first of them."""

    chips: int
    reason: str


@dataclass(frozen=True, slots=True)
class Compensate:
    """Carry out a ruling: what each player of a settled game gains or loses, zero in all."""

    dispute: UUID
    game: UUID
    moves: tuple[Leg, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """Bring up to `chips` of a claim from a player's account back into the dispute reserve."""

    dispute: UUID
    game: UUID
    account: UUID
    chips: int


@dataclass(frozen=True, slots=True)
class Forfeit:
    """Leave a player's account empty for good; chips go back to the issuer only if `agreed`."""

    account: UUID
    agreed: bool


Amendment: TypeAlias = FundReserve | Compensate | Collect | Forfeit


def touched(command: Amendment) -> tuple[UUID, ...]:
    """The accounts a command may touch."""
    match command:
        case FundReserve():
            return (DISPUTE_RESERVE, ISSUER)
        case Compensate():
            return (DISPUTE_RESERVE, *(move.account for move in command.moves))
        case Collect():
            return (DISPUTE_RESERVE, command.account)
        case Forfeit():
            return (command.account, ISSUER)
        case _:
            assert_never(command)


def amend(books: Books, command: Amendment, transfer_id: UUID) -> Change:
    """What a command does; raises Refused."""
    match command:
        case FundReserve():
            return fund_reserve(books, command, transfer_id)
        case Compensate():
            return compensate(books, command, transfer_id)
        case Collect():
            return collect(books, command, transfer_id)
        case Forfeit():
            return forfeit(books, command, transfer_id)
        case _:
            assert_never(command)


def fund_reserve(books: Books, command: FundReserve, transfer_id: UUID) -> Change:
    """What funding does."""
    check_chips("chips", command.chips)
    opened: tuple[Account, ...] = ()
    if DISPUTE_RESERVE not in books.accounts:
        opened = (Account(DISPUTE_RESERVE, AccountKind.DISPUTE_RESERVE),)
    legs = (Leg(ISSUER, -command.chips), Leg(DISPUTE_RESERVE, command.chips))
    kind = TransferKind.RESERVE_FUNDED
    return posted(books, Transfer(transfer_id, kind, legs, reason=command.reason), opened)


def compensate(books: Books, command: Compensate, transfer_id: UUID) -> Change:
    """What a ruling does.

    Raises Refused UNBALANCED, GAME_NOT_SETTLED, NOT_OF_THE_GAME, DISPUTE_RESERVE_SHORT.
    """
    _check_moves(command.moves)
    _check_players(books, command.game, [move.account for move in command.moves])
    legs: list[Leg] = []
    short = 0
    for move in command.moves:
        taken = max(move.chips, -books.accounts[move.account].balance)
        short += taken - move.chips
        if taken:
            legs.append(Leg(move.account, taken))
    if short:
        _check_reserve(books, short)
        legs.append(Leg(DISPUTE_RESERVE, -short))
    kind, reason = TransferKind.DISPUTE, str(command.dispute)
    return posted(books, Transfer(transfer_id, kind, tuple(legs), command.game, reason))


def collect(books: Books, command: Collect, transfer_id: UUID) -> Change:
    """What collecting does: as much of the claim as the account can pay.

    Raises Refused GAME_NOT_SETTLED, NOT_OF_THE_GAME, INSUFFICIENT_CHIPS where it has nothing.
    """
    check_chips("chips", command.chips)
    _check_players(books, command.game, [command.account])
    chips = min(command.chips, books.accounts[command.account].balance)
    if not chips:
        raise precondition("INSUFFICIENT_CHIPS", "the account has no chips to collect")
    _check_reserve(books, 0)
    legs = (Leg(command.account, -chips), Leg(DISPUTE_RESERVE, chips))
    kind, reason = TransferKind.CLAIM, str(command.dispute)
    return posted(books, Transfer(transfer_id, kind, legs, command.game, reason))


def forfeit(books: Books, command: Forfeit, transfer_id: UUID) -> Change:
    """What forfeiting does; nothing where the account is empty, or was never opened.

    Raises Refused CHIPS_HELD while games hold chips of the account, CHIPS_LEFT.
    """
    account = books.accounts.get(command.account)
    if account is not None and account.kind is not AccountKind.PLAYER:
        raise unknown_account(command.account)
    if books.held:
        raise precondition("CHIPS_HELD", "games hold chips of this account", chips=str(books.held))
    if account is None or not account.balance:
        return Change()
    if not command.agreed:
        chips = str(account.balance)
        raise precondition(
            "CHIPS_LEFT", "the account has chips, which must be given up", chips=chips
        )
    legs = (Leg(account.id, -account.balance), Leg(ISSUER, account.balance))
    return posted(books, Transfer(transfer_id, TransferKind.FORFEIT, legs))


def shortfalls(moves: Sequence[Leg], transfer: Transfer) -> tuple[Leg, ...]:
    """What the reserve gave for each player who could not pay all of his part of a ruling."""
    gave = {leg.account: leg.chips for leg in transfer.legs}
    missing = (Leg(move.account, gave.get(move.account, 0) - move.chips) for move in moves)
    return tuple(leg for leg in missing if leg.chips)


def _check_moves(moves: Sequence[Leg]) -> None:
    if any(not move.chips or abs(move.chips) > CHIPS_MAX for move in moves):
        raise invalid("moves.chips", f"must be 1 to {CHIPS_MAX}, or that much below zero")
    if len({move.account for move in moves}) != len(moves) or len(moves) < 2:
        raise invalid("moves", "must name two or more accounts, each once")
    if sum(move.chips for move in moves):
        raise precondition("UNBALANCED", "what players lose is not what players gain")


def _check_players(books: Books, game: UUID, accounts: Sequence[UUID]) -> None:
    """Rulings touch only those who were settled with in a game, once they were."""
    if books.game is None or books.game.state is not GameState.SETTLED:
        raise precondition("GAME_NOT_SETTLED", "the game has not paid its players out")
    posted_to = {
        r.account
        for r in books.reservations
        if r.game == game and r.state is ReservationState.POSTED
    }
    for account in accounts:
        if account not in posted_to or account not in books.accounts:
            raise _foreign(account)


def _check_reserve(books: Books, needed: int) -> None:
    reserve = books.accounts.get(DISPUTE_RESERVE)
    if reserve is None or reserve.balance < needed:
        balance = 0 if reserve is None else reserve.balance
        raise precondition(
            "DISPUTE_RESERVE_SHORT",
            "the dispute reserve cannot pay what players lack; fund it",
            needed=str(needed),
            balance=str(balance),
        )


def _foreign(account: UUID) -> Refused:
    facts = {"account_id": str(account)}
    return precondition("NOT_OF_THE_GAME", "the account had no chips in this game", **facts)
