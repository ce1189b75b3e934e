"""What a ruling does with the chips of a game. Pure."""

from collections.abc import Iterable, Sequence

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.game.disputes import Dispute
from services.game.model import Stage, State
from services.kernel.errors import invalid, not_yet, precondition, unavailable

MOVE_MAX = 10**15
"""Most chips that a correction moves to or from one player."""

Kind = wallet_pb2.TransferKind


def rulings_before(paid: Sequence[Dispute], transfers: Iterable[wallet_pb2.GameTransfer]) -> int:
    """How many rulings have moved chips of a settled game, by disputes and ledger alike.

    Raises Refused GAME_NOT_SETTLED; RULING_UNDER_WAY where the two do not agree yet.
    """
    kinds = [transfer.kind for transfer in transfers]
    if Kind.TRANSFER_KIND_SETTLE not in kinds:
        raise not_yet("GAME_NOT_SETTLED", "the game has not paid its players out")
    if kinds.count(Kind.TRANSFER_KIND_DISPUTE) != len(paid):
        raise unavailable("RULING_UNDER_WAY", "another ruling on this game is being carried out")
    return len(paid)


def check_chips(state: State) -> None:
    """Raise Refused unless a ruling may move chips of this game."""
    if not state.ended:
        raise precondition("GAME_RUNNING", "chips are moved once the game has ended")
    if state.stage is not Stage.FINISHED or not any(s.reservation_id for s in state.seats):
        raise precondition("NO_CHIPS", "the game moved no chips, so there are none to put right")


def net_of_game(state: State, paid: Sequence[Dispute]) -> dict[str, int]:
    """What each player has won (positive) or lost by a game, rulings so far included."""
    net = dict.fromkeys((seat.player_id for seat in state.seats), 0)
    for line in state.result.seats if state.result else ():
        net[line.player_id] += line.stack_after - line.stack_before
    for dispute in paid:
        for move in dispute.ruled.moves if dispute.ruled else ():
            net[move.player_id] += move.chips
    return net


def moves_of(
    request: audit_pb2.ResolveDisputeRequest, state: State, paid: Sequence[Dispute]
) -> list[stored.DisputeMove]:
    """What each player gains or loses by a ruling; raises Refused."""
    if request.remedy == audit_pb2.REMEDY_VOID:
        if request.moves:
            raise invalid("moves", "a void game's stakes go back as they were")
        moves = {player: -chips for player, chips in net_of_game(state, paid).items() if chips}
        if not moves:
            raise precondition("NOTHING_TO_MOVE", "every player has his stake already")
    else:
        moves = correction(request.moves, {seat.player_id for seat in state.seats})
    return [stored.DisputeMove(player_id=player, chips=chips) for player, chips in moves.items()]


def correction(moves: Sequence[audit_pb2.ChipMove], players: set[str]) -> dict[str, int]:
    """Named chips between players of the game, zero in all; raises Refused naming the field."""
    found: dict[str, int] = {}
    for index, move in enumerate(moves):
        if move.player_id not in players:
            raise invalid(f"moves[{index}].player_id", "is no player of this game")
        if move.player_id in found:
            raise invalid(f"moves[{index}].player_id", "is named twice")
        if not move.chips or abs(move.chips) > MOVE_MAX:
            raise invalid(f"moves[{index}].chips", f"must be 1 to {MOVE_MAX}, or that much below 0")
        found[move.player_id] = move.chips
    if len(found) < 2:
        raise invalid("moves", "must name two players or more")
    if sum(found.values()):
        raise invalid("moves", "what players lose must be what players gain")
    return found


def moved(moves: Iterable[stored.DisputeMove]) -> int:
    """How many chips change hands."""
    return sum(move.chips for move in moves if move.chips > 0)


def moved_alone(ruled: stored.DisputeRuled, paid: Sequence[Dispute]) -> int:
    """How many chips change hands by a ruling and by those on the game that nobody approved.

    They are counted together, so that no large ruling is made of small ones.
    """
    earlier = (each.ruled for each in paid if each.ruled is not None and not each.approved)
    return moved(ruled.moves) + sum(moved(each.moves) for each in earlier)
