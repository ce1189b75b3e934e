"""How things are drawn: names of seats and signs of cards, within 80 columns of characters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engines.cards import RANKS, SUITS, Card, Suit

WIDTH = 80
NAME_MAX = 14
HIDDEN = "##"
SIGNS = "♠♥♦♣"
SUIT_NAMES = ("spades", "hearts", "diamonds", "clubs")


@dataclass(frozen=True, slots=True)
class Look:
    """Names of the seats in order, and whether to keep to ASCII."""

    names: tuple[str, ...]
    ascii: bool = False

    def name(self, seat: int) -> str:
        """A seat's name, at most 14 characters."""
        name = self.names[seat] if seat < len(self.names) else f"seat {seat}"
        return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "."

    def named(self, seats: Iterable[int]) -> str:
        """Several seats' names, joined by commas."""
        return ", ".join(self.name(seat) for seat in seats)

    def card(self, card: Card) -> str:
        """A card: rank and the suit's sign, or its letter in ASCII."""
        return RANKS[card % 13] + self._sign(card // 13)

    def cards(self, cards: Iterable[Card]) -> str:
        """Cards separated by blanks, `-` for none."""
        return " ".join(self.card(card) for card in cards) or "-"

    def suit(self, suit: Suit) -> str:
        """A suit by sign and name."""
        return f"{self._sign(suit)} {SUIT_NAMES[suit]}"

    def pointer(self, *, on: bool) -> str:
        """Marks a seat that may move now."""
        return (">" if self.ascii else "▶") if on else " "

    def hand(self, cards: Sequence[Card] | None, count: int, known: Sequence[Card] = ()) -> str:
        """A hand: its cards or, when it is closed, the known ones of it and backs for the rest."""
        if cards is not None:
            return self.cards(cards)
        shown = [self.card(card) for card in known]
        return " ".join(shown + [HIDDEN] * (count - len(shown))) or "-"

    def _sign(self, suit: int) -> str:
        return (SUITS if self.ascii else SIGNS)[suit]


def wrapped(head: str, items: Iterable[str]) -> list[str]:
    """Items after a head, continued under the first one so that no line passes 80 columns."""
    lines, line = [], head
    for item in items:
        if len(line) + 2 + len(item) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * len(head)
        line += ("" if line.endswith(" ") and len(line) <= len(head) else "  ") + item
    return [*lines, line.rstrip()]


def plural(count: int, word: str) -> str:
    """`1 card`, `2 cards`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
