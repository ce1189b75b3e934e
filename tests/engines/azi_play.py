"""Azi positions for tests: listed hands, and moves made one after the other."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from engines.api import Act, Command, Leave, RuleViolation, Start, Timeout, read_options
from engines.azi import Event, Move, Options, State, decide, evolve, initial
from engines.cards import Card, parse


def cards(text: str) -> tuple[Card, ...]:
    """The cards of a text such as `"AS KD"`."""
    return tuple(parse(word) for word in text.split())


class Listed:
    """A `Chance` that deals what is listed: for each deal the hands in seat order and the turned.

    Random seats are drawn as `index`; after the last listed deal the pack is dealt in order.
    """

    def __init__(self, *deals: str, index: int = 0) -> None:
        self.deals = [cards(deal) for deal in deals]
        self.index = index
        self.drawn: list[tuple[int, str, int]] = []

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The listed cards, then the rest of the pack."""
        known = self.deals[deal - 1] if deal <= len(self.deals) else ()
        return (*known, *(card for card in pack if card not in known))

    def seat(self, deal: int, label: str, bound: int) -> int:
        """The fixed index, as far as there are seats; what was asked is kept in `drawn`."""
        self.drawn.append((deal, label, bound))
        return self.index % bound


class Table:
    """A game in progress that keeps its state and events."""

    def __init__(
        self,
        chance: Listed,
        stacks: Sequence[int],
        last_winner: int | None = -1,
        **options: object,
    ) -> None:
        """Starts the game; unless said otherwise seat 0 opens and the fee is 10."""
        chosen: dict[str, Any] = {"entry_fee": 10, **options}
        seats = len(stacks)
        winner = seats - 1 if last_winner == -1 else last_winner
        self.chance = chance
        self.state: State = initial(
            read_options(Options, chosen), seats, stacks=tuple(stacks), last_winner=winner
        )
        self.events: list[Event] = []
        self.told: tuple[Event, ...] = ()
        self.give(Start())

    def give(self, command: Command[Move]) -> "Table":
        """Gives a command; `told` holds the events of this one."""
        self.told = decide(self.state, command, self.chance)
        self.state = reduce(evolve, self.told, self.state)
        self.events += self.told
        return self

    def move(self, seat: int, *moves: Move) -> "Table":
        """Makes a seat's moves."""
        for move in moves:
            self.give(Act(seat, move))
        return self

    def late(self, seat: int) -> "Table":
        """Lets a seat's time run out."""
        return self.give(Timeout(seat))

    def leave(self, seat: int) -> "Table":
        """Lets a seat leave."""
        return self.give(Leave(seat))

    def refused(self, seat: int, move: Move) -> str:
        """The reason for which a move is refused; AssertionError if it is not."""
        try:
            decide(self.state, Act(seat, move), self.chance)
        except RuleViolation as violation:
            return violation.reason
        raise AssertionError(f"{move} was accepted")

    @property
    def stacks(self) -> list[int]:
        """The chips of the seats."""
        return [player.stack for player in self.state.players]

    def paid(self) -> dict[int, int]:
        """What each seat got out of the bank."""
        return {payout.seat: payout.chips for payout in self.state.payouts}
