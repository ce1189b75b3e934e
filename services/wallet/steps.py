"""The steps that games and reservations take in a batch: the database holds them to their course.

What was made and ended in one batch is written as made, pinned and ended, one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from uuid import UUID

from services.wallet.books import Game, GameState, Reservation, ReservationState, Table


@dataclass(slots=True)
class SeatSteps:
    """The steps that reservations take: made, pinned, ended; and the accounts they are of."""

    made: list[Reservation] = field(default_factory=list)
    pinned: list[UUID] = field(default_factory=list)
    ended: list[Reservation] = field(default_factory=list)
    holders: list[UUID] = field(default_factory=list)

    def step(self, was: Sequence[Reservation], seats: Sequence[Reservation]) -> None:
        """From what a game's were to what they are."""
        for before, seat in zip_longest(was, seats):
            if before is seat:
                continue
            self.holders.append(seat.account)
            if before is None:
                self.made.append(as_made(seat))
            state = ReservationState.PENDING if before is None else before.state
            if seat.state is state:
                continue
            if state is ReservationState.PENDING and seat.state is not ReservationState.VOIDED:
                self.pinned.append(seat.id)
            if not seat.is_held:
                self.ended.append(seat)


@dataclass(slots=True)
class GameSteps:
    """The steps that games take: made, pinned, ended; what they were seen as; all that changed."""

    seen: dict[UUID, GameState] = field(default_factory=dict)
    made: list[Game] = field(default_factory=list)
    pinned: list[UUID] = field(default_factory=list)
    ended: list[Game] = field(default_factory=list)
    changed: set[UUID] = field(default_factory=set)

    def step(self, was: Table, table: Table) -> None:
        """From what a game was to what it is; one that never had a seat may begin voided."""
        game, state = table.game, GameState.OPEN
        if game is None:
            return
        self.changed.add(game.id)
        if was.game is not None:
            state = self.seen[game.id] = was.game.state
        elif game.state is GameState.VOIDED and not table.seats:
            self.made.append(game)
            return
        else:
            self.made.append(Game(game.id))
        if game.state is state:
            return
        if state is GameState.OPEN and game.state is not GameState.VOIDED:
            self.pinned.append(game.id)
        if game.state is not GameState.PINNED:
            self.ended.append(game)


def as_made(reservation: Reservation) -> Reservation:
    """A reservation as it was when it was made."""
    if reservation.state is ReservationState.PENDING:
        return reservation
    return replace(reservation, state=ReservationState.PENDING, paid_in=0, paid_out=0, reason=None)
