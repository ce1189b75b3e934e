"""Whether the wallet agrees with a game's log, to the chip."""

from uuid import UUID

from kozyr.wallet.v1 import wallet_pb2

from services.game.audit import Fault
from services.game.model import Stage, State
from services.game.peers import Peers
from services.game.results import bank_flows

Reservation = wallet_pb2.ReservationState


SETTLED_WITHIN_US = 600_000_000
"""How long after its end a game's chips may still be pinned, while its services were away."""


async def wallet_faults(
    peers: Peers, game_id: UUID, state: State, head: bytes, now: int
) -> list[Fault]:
    """Differences between the end of a log and what the wallet holds or paid for the game.

    `now` is the database's clock, microseconds: a game may be settled a while after its end.
    """
    wallet = await peers.reservations(str(game_id))
    if state.stage is Stage.CANCELLED:
        return compare_cancelled(wallet, now - state.recorded_at)
    return compare(state, head, wallet, now)


def compare(
    state: State, head: bytes, wallet: wallet_pb2.ListReservationsResponse, now: int
) -> list[Fault]:
    """Every seat's reservation beside the log's numbers."""
    held = {reservation.reservation_id: reservation for reservation in wallet.reservations}
    expected = {seat.reservation_id for seat in state.seats}
    if set(held) != expected:
        return [Fault(0, "WALLET_DIFFERS", "the wallet holds other reservations than the game's")]
    flows = bank_flows(state) if state.stage is Stage.FINISHED else None
    overdue = flows is not None and now - state.recorded_at > SETTLED_WITHIN_US
    faults = []
    for number, seat in enumerate(state.seats):
        reservation = held[seat.reservation_id]
        if reservation.account_id != seat.player_id or reservation.chips != seat.stack:
            faults.append(_fault(number, "brought other chips to the game"))
        elif reservation.state == Reservation.RESERVATION_STATE_POSTED:
            if flows is None:
                faults.append(_fault(number, "was settled before the game ended"))
            elif reservation.paid_out != seat.stack - flows[number][0] + flows[number][1]:
                faults.append(_fault(number, "was paid other chips than the log says"))
        elif reservation.state != Reservation.RESERVATION_STATE_PINNED:
            faults.append(_fault(number, "is neither held nor settled"))
        elif overdue:
            faults.append(_fault(number, "was not paid although the game ended long ago"))
    if wallet.settled_head and wallet.settled_head != head:
        faults.append(Fault(0, "WALLET_DIFFERS", "the wallet settled another end of this log"))
    return faults


def compare_cancelled(wallet: wallet_pb2.ListReservationsResponse, since_us: int) -> list[Fault]:
    """What was reserved for a game that never opened must be given back, soon after."""
    faults = []
    for number, reservation in enumerate(wallet.reservations):
        match reservation.state:
            case Reservation.RESERVATION_STATE_VOIDED:
                continue
            case Reservation.RESERVATION_STATE_POSTED:
                faults.append(_fault(number, "was settled although the game was cancelled"))
            case _ if since_us > SETTLED_WITHIN_US:
                faults.append(_fault(number, "was not given back although the game was cancelled"))
    return faults


def _fault(seat: int, problem: str) -> Fault:
    return Fault(0, "WALLET_DIFFERS", f"seat {seat} {problem}")
