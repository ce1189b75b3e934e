"""What the wallet shows: its values as messages of the wire contract."""

from collections.abc import Sequence

from kozyr.wallet.v1 import wallet_pb2 as pb

from services.runtime.moments import timestamp
from services.wallet.books import (
    AccountKind,
    Game,
    Leg,
    Reservation,
    ReservationState,
    TransferKind,
)
from services.wallet.statements import GameTransfer, Holding, StatementLine, Trial

ACCOUNT_KINDS = {
    AccountKind.ISSUER: pb.ACCOUNT_KIND_ISSUER,
    AccountKind.PLAYER: pb.ACCOUNT_KIND_PLAYER,
    AccountKind.BOT: pb.ACCOUNT_KIND_BOT,
    AccountKind.ESCROW: pb.ACCOUNT_KIND_ESCROW,
    AccountKind.DISPUTE_RESERVE: pb.ACCOUNT_KIND_DISPUTE_RESERVE,
}
TRANSFER_KINDS = {
    TransferKind.WELCOME: pb.TRANSFER_KIND_WELCOME,
    TransferKind.GRANT: pb.TRANSFER_KIND_GRANT,
    TransferKind.RESERVE: pb.TRANSFER_KIND_RESERVE,
    TransferKind.SETTLE: pb.TRANSFER_KIND_SETTLE,
    TransferKind.VOID: pb.TRANSFER_KIND_VOID,
    TransferKind.RESERVE_FUNDED: pb.TRANSFER_KIND_RESERVE_FUNDED,
    TransferKind.DISPUTE: pb.TRANSFER_KIND_DISPUTE,
    TransferKind.CLAIM: pb.TRANSFER_KIND_CLAIM,
    TransferKind.FORFEIT: pb.TRANSFER_KIND_FORFEIT,
}
RULED = (TransferKind.DISPUTE, TransferKind.CLAIM)
"""Transfers whose reason is the dispute's id."""
RESERVATION_STATES = {
    ReservationState.PENDING: pb.RESERVATION_STATE_PENDING,
    ReservationState.PINNED: pb.RESERVATION_STATE_PINNED,
    ReservationState.POSTED: pb.RESERVATION_STATE_POSTED,
    ReservationState.VOIDED: pb.RESERVATION_STATE_VOIDED,
}


def show_account(holding: Holding) -> pb.Account:
    """An account with its spendable and its reserved chips."""
    account = holding.account
    return pb.Account(
        account_id=str(account.id),
        kind=ACCOUNT_KINDS[account.kind],
        balance=account.balance,
        reserved=holding.reserved,
        version=account.version,
    )


def show_line(line: StatementLine) -> pb.StatementLine:
    """A line of a statement."""
    reason, dispute = why(line.kind, line.reason)
    return pb.StatementLine(
        transfer_id=str(line.transfer),
        kind=TRANSFER_KINDS[line.kind],
        chips=line.chips,
        balance_before=line.before,
        balance_after=line.after,
        game_id="" if line.game is None else str(line.game),
        reason=reason,
        recorded_time=timestamp(line.recorded_at),
        version=line.version,
        dispute_id=dispute,
    )


def why(kind: TransferKind, reason: str | None) -> tuple[str, str]:
    """The reason given for a transfer, and the dispute it belongs to."""
    return ("", reason or "") if kind in RULED else (reason or "", "")


def show_transfer(transfer: GameTransfer) -> pb.GameTransfer:
    """A transfer with its postings."""
    reason, dispute = why(transfer.kind, transfer.reason)
    return pb.GameTransfer(
        transfer_id=str(transfer.id),
        kind=TRANSFER_KINDS[transfer.kind],
        reason=reason,
        dispute_id=dispute,
        recorded_time=timestamp(transfer.recorded_at),
        postings=[
            pb.GamePosting(
                account_id=str(posting.account),
                chips=posting.chips,
                balance_before=posting.before,
                balance_after=posting.after,
            )
            for posting in transfer.postings
        ],
    )


def show_moves(legs: Sequence[Leg]) -> list[pb.Compensation]:
    """What accounts gain or lose."""
    return [pb.Compensation(account_id=str(leg.account), chips=leg.chips) for leg in legs]


def show_reservation(reservation: Reservation) -> pb.Reservation:
    """A reservation and what became of it."""
    return pb.Reservation(
        reservation_id=str(reservation.id),
        account_id=str(reservation.account),
        game_id=str(reservation.game),
        chips=reservation.chips,
        state=RESERVATION_STATES[reservation.state],
        paid_out=reservation.final if reservation.state is ReservationState.POSTED else 0,
        expire_time=timestamp(reservation.expires_at),
        bank_in=reservation.paid_in,
        bank_out=reservation.paid_out,
        reason=reservation.reason or "",
    )


def show_reservations(
    game: Game | None, reservations: Sequence[Reservation]
) -> pb.ListReservationsResponse:
    """A game's reservations, and the head it was settled with."""
    return pb.ListReservationsResponse(
        reservations=[show_reservation(r) for r in reservations],
        settled_head=b"" if game is None else game.head or b"",
    )


def show_trial(trial: Trial) -> pb.TrialBalanceResponse:
    """The trial balance."""
    return pb.TrialBalanceResponse(
        lines=[
            pb.TrialLine(
                kind=ACCOUNT_KINDS[line.kind],
                accounts=line.accounts,
                balance=line.balance,
                postings=line.postings,
            )
            for line in trial.lines
        ],
        total=trial.total,
        open_reservations=trial.held,
        sound=trial.sound,
    )
