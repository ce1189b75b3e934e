"""What the bidding of a deal of Azi tells of the others' hands.

A seat's bids are compared with what the table of strategies would have done with each kind of
hand in its place. Others are not the table, so every act stays possible with every hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engines.azi import (
    BecameShort,
    BidMade,
    BlindLookedAt,
    DealtShown,
    Folded,
    Happening,
    Levelled,
    OpenerDrawn,
    Phase,
    SeatLeft,
    View,
    WentAllIn,
)
from engines.azi.codes import BID, NOBODY
from engines.azi.core import Core
from engines.azi.projection import from_view
from services.ai.bots.azi.situation import Act, acts, key

DOUBT = 0.12
"""How much of an act is put down to chance and not to the hand."""


@dataclass(frozen=True, slots=True)
class Told:
    """One act of a seat: the situation it was in, how many were live, and what it did."""

    situation: int
    live: int
    act: int


def core(view: View, history: Sequence[Happening]) -> Core:
    """The view's position, its seat to act, the hands of the others empty."""
    drawn = [happening.seat for happening in history if isinstance(happening, OpenerDrawn)]
    found = from_view(view, drawn[-1] if drawn else 0)
    if view.seat is not None:
        found.seat = view.seat
        if view.phase is not Phase.BUYING_BACK:
            found.live |= 1 << view.seat
    return found


def told(view: View, history: Sequence[Happening]) -> Mapping[int, Sequence[Told]]:
    """By seat what it did in this deal's bidding, in order; blind acts tell nothing."""
    seats = range(len(view.seats))
    since = [each for each in this_deal(history) if getattr(each, "seat", 0) in seats]
    standing = before(view, since)
    found: dict[int, list[Told]] = {seat: [] for seat in seats}
    for happening in since:
        match happening:
            case BidMade(seat=seat) | Levelled(seat=seat) | WentAllIn(seat=seat):
                act = _act(standing, happening)
                if act is not None and not standing.blind >> seat & 1:
                    live = standing.live.bit_count()
                    found[seat].append(Told(key(standing, seat), live, act))
                put(standing, happening)
            case Folded(seat=seat) | SeatLeft(seat=seat):
                standing.live &= ~(1 << seat)
            case BlindLookedAt(seat=seat):
                standing.blind &= ~(1 << seat)
            case BecameShort(seat=seat):
                standing.short |= 1 << seat
            case _:
                pass
    return found


def this_deal(history: Sequence[Happening]) -> Sequence[Happening]:
    """What happened since the cards were dealt, the deal first."""
    for index in reversed(range(len(history))):
        if isinstance(history[index], DealtShown):
            return history[index:]
    return ()


def before(view: View, since: Sequence[Happening]) -> Core:
    """The position as the bidding of the deal began."""
    standing = from_view(view)
    for happening in since:
        match happening:
            case DealtShown(seats=seats, blind=blind):
                standing.live = sum(1 << seat for seat in seats)
                standing.blind = standing.live if blind else 0
            case BidMade() | Levelled() | WentAllIn():
                seat, chips = happening.seat, happening.chips
                standing.stacks[seat] += chips
                standing.contributed[seat] -= chips
                standing.bank -= chips
                if isinstance(happening, WentAllIn):
                    standing.short &= ~(1 << seat)
            case BecameShort(seat=seat):
                standing.short &= ~(1 << seat)
            case _:
                pass
    credited = zip(standing.weights, standing.levels, strict=True)
    standing.weights = [weight - level for weight, level in credited]
    standing.levels = [0] * standing.seats
    standing.bids = [0] * standing.seats
    standing.high, standing.high_seat = 0, NOBODY
    return standing


def _act(standing: Core, happening: BidMade | Levelled | WentAllIn) -> int | None:
    """The act of the table that comes next to what was done; None if the table has none."""
    able = acts(standing, happening.seat)
    if not isinstance(happening, BidMade):
        return int(Act.STAY) if any(act == Act.STAY for act, _ in able) else None
    bids = [(abs(move - BID - happening.level), act) for act, move in able if move > BID]
    return min(bids)[1] if bids else None


def put(standing: Core, happening: BidMade | Levelled | WentAllIn) -> None:
    """Let the seat bid, level or go all in."""
    seat, chips = happening.seat, happening.chips
    standing.stacks[seat] -= chips
    standing.contributed[seat] += chips
    standing.weights[seat] += happening.level - standing.levels[seat]
    standing.levels[seat] = happening.level
    standing.bank += chips
    if isinstance(happening, BidMade):
        standing.high, standing.high_seat = happening.level, seat
        standing.bids[seat] += 1
    elif isinstance(happening, WentAllIn):
        standing.short |= 1 << seat
