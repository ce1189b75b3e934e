"""Whether rulings on a game and the ledger agree, to the chip. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from kozyr.wallet.v1 import wallet_pb2

from services.game.audit import Fault
from services.game.disputes import Dispute

Kind = wallet_pb2.TransferKind


def compare_rulings(
    paid: Mapping[UUID, Dispute], transfers: Sequence[wallet_pb2.GameTransfer]
) -> list[Fault]:
    """Every ruling that moved chips beside the transfers that name its dispute.

    `paid` are the game's disputes whose chips have moved. A transfer whose answer is not yet
    written down belongs to one that is about to be, and is `known` by the next audit.
    """
    faults = []
    of_dispute: dict[str, list[wallet_pb2.GameTransfer]] = {}
    for transfer in transfers:
        if transfer.dispute_id:
            of_dispute.setdefault(transfer.dispute_id, []).append(transfer)
    for dispute, state in paid.items():
        there = of_dispute.pop(str(dispute), [])
        faults += [_fault(dispute, problem) for problem in _problems(state, there)]
    for name, there in of_dispute.items():
        faults += [
            Fault(0, "WALLET_DIFFERS", f"dispute {name} moved chips and no ruling says so")
            for _ in there
        ]
    return faults


def _problems(state: Dispute, transfers: Iterable[wallet_pb2.GameTransfer]) -> Iterable[str]:
    """What is wrong with the transfers of one dispute."""
    ruled = [t for t in transfers if t.kind == Kind.TRANSFER_KIND_DISPUTE]
    collected = [t for t in transfers if t.kind == Kind.TRANSFER_KIND_CLAIM]
    if state.paid is None or [t.transfer_id for t in ruled] != [state.paid.transfer_id]:
        yield "was carried out by another transfer than its log says"
    elif _moved(ruled, _parts(state)) != _parts(state):
        yield "moved other chips than were ruled"
    came_in = _moved(collected, state.collected)
    pending = state.called is not None
    if not pending and came_in != {p: -chips for p, chips in state.collected.items()}:
        yield "collected other chips than its log says"


def _parts(state: Dispute) -> dict[str, int]:
    """What players gave and got by a ruling, without what the reserve gave for them."""
    moves = state.ruled.moves if state.ruled else ()
    parts = {move.player_id: move.chips + state.claims.get(move.player_id, 0) for move in moves}
    return {player: chips for player, chips in parts.items() if chips}


def _moved(transfers: Iterable[wallet_pb2.GameTransfer], players: Iterable[str]) -> dict[str, int]:
    """What players' accounts gained and lost, and any account that is not the reserve's."""
    sums: dict[str, int] = dict.fromkeys(players, 0)
    for transfer in transfers:
        for posting in transfer.postings:
            if posting.account_id != RESERVE:
                sums[posting.account_id] = sums.get(posting.account_id, 0) + posting.chips
    return sums


RESERVE = str(UUID(int=2))
"""The wallet's dispute reserve."""


def _fault(dispute: UUID, problem: str) -> Fault:
    return Fault(0, "WALLET_DIFFERS", f"the ruling on dispute {dispute} {problem}")
