"""Whether shuffled decks are even: counts of many decks, and how likely chance alone makes them.

Every statistic is scaled so that, decks being uniform, it follows a chi-square distribution; its
p-value is two-sided, for counts that are too even are no more likely than counts that are uneven.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engines.cards import Card

_SMALL = 1e-300
_ROUNDS = 100_000


@dataclass(slots=True)
class Counts:
    """What is counted of decks of `pack`, and of the draws made beside them.

    `places[i][c]` decks have card c (its place in the pack) at place i; `before[a][b]` (a < b) have
    card a before card b; `pairs[a][b]` begin with a, then b; `draws[k]` draws came to k.
    """

    pack: tuple[Card, ...]
    bound: int
    decks: int = 0
    places: list[list[int]] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    pairs: list[list[int]] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = len(self.pack)
        for square in (self.places, self.before, self.pairs):
            square.extend([0] * size for _ in range(size))
        self.draws.extend([0] * self.bound)

    def add(self, decks: Sequence[Sequence[Card]], draws: Sequence[int]) -> None:
        """Count these decks and draws.

        Octet strings and whole numbers count in C: a column of the decks is one string, and a
        comparison of two columns is one subtraction, octet by octet under a guarding bit.
        """
        size, many = len(self.pack), len(decks)
        at = {card: place for place, card in enumerate(self.pack)}
        rows = bytes(at[card] for deck in decks for card in deck)
        columns = [rows[place::size] for place in range(size)]
        for place, column in enumerate(columns):
            for card in range(size):
                self.places[place][card] += column.count(card)
        for one, two in zip(columns[0], columns[1], strict=True):
            self.pairs[one][two] += 1
        where = bytearray(len(rows))
        for place, column in enumerate(columns):
            for deck, card in enumerate(column):
                where[deck * size + card] = place
        self._compare([bytes(where[card::size]) for card in range(size)], many)
        for draw in draws:
            self.draws[draw] += 1
        self.decks += many

    def _compare(self, where: Sequence[bytes], many: int) -> None:
        """Count, for each pair of cards, the decks in which the first lies before the second."""
        guard = int.from_bytes(b"\x80" * many, "big")
        numbers = [int.from_bytes(column, "big") for column in where]
        for a, place in enumerate(numbers):
            for b in range(a + 1, len(numbers)):
                behind = (place | guard) - numbers[b]
                self.before[a][b] += many - (behind & guard).bit_count()

    def merge(self, other: "Counts") -> None:
        """Add what was counted elsewhere, of the same pack."""
        self.decks += other.decks
        self.draws = [a + b for a, b in zip(self.draws, other.draws, strict=True)]
        for mine, theirs in (
            (self.places, other.places),
            (self.before, other.before),
            (self.pairs, other.pairs),
        ):
            for row, (ours, others) in enumerate(zip(mine, theirs, strict=True)):
                mine[row] = [a + b for a, b in zip(ours, others, strict=True)]


@dataclass(frozen=True, slots=True)
class Finding:
    """One statistic: what was looked at, chi-square, degrees of freedom, two-sided p-value."""

    name: str
    chi_square: float
    freedom: int
    p: float


def findings(counts: Counts) -> list[Finding]:
    """Every statistic of these counts; raises ValueError without decks."""
    if not counts.decks:
        raise ValueError("no deck was counted")
    size, decks = len(counts.pack), counts.decks
    table = [count for row in counts.places for count in row]
    # The rows and the columns of this table both add up, so its cells vary by (n - 1) / n less than
    # those of free cells do.
    spread = _uneven(table, decks / size) * (size - 1) / size
    pairs = [n for a, row in enumerate(counts.pairs) for b, n in enumerate(row) if a != b]
    found = [
        _finding("position x card", spread, (size - 1) ** 2),
        _finding("first card", _uneven(counts.places[0], decks / size), size - 1),
        _finding("first two cards", _uneven(pairs, decks / len(pairs)), len(pairs) - 1),
        _finding("order of pairs", _order(counts), size * (size - 1) // 2),
    ]
    if sum(counts.draws):
        even = sum(counts.draws) / counts.bound
        found.append(_finding("draw beside", _uneven(counts.draws, even), counts.bound - 1))
    return found


def _uneven(counted: Sequence[int], expected: float) -> float:
    return sum((count - expected) ** 2 for count in counted) / expected


def _order(counts: Counts) -> float:
    """Chi-square of which card of a pair lies first, over all pairs.

    Pairs that share a card hang together: the surpluses, as an antisymmetric matrix, vary by
    (n + 1) / 12 a deck in the part that comes from each card's mean place, and by 1 / 12 in the
    rest. Each part is divided by its own variance.
    """
    size, decks = len(counts.pack), counts.decks
    surplus = [[0.0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a + 1, size):
            surplus[a][b] = counts.before[a][b] - decks / 2
            surplus[b][a] = -surplus[a][b]
    whole = sum(surplus[a][b] ** 2 for a in range(size) for b in range(a + 1, size))
    means = sum(sum(row) ** 2 for row in surplus) / size
    return means / (decks * (size + 1) / 12) + (whole - means) / (decks / 12)


def _finding(name: str, chi_square: float, freedom: int) -> Finding:
    above = upper_tail(chi_square, freedom)
    return Finding(name, chi_square, freedom, min(1.0, 2 * min(above, 1 - above)))


def upper_tail(chi_square: float, freedom: int) -> float:
    """The probability that a chi-square variable of so many degrees of freedom is larger.

    The regularized incomplete gamma function Q(freedom / 2, chi_square / 2), by its series below
    the mean and by its continued fraction (Lentz) above.
    """
    a, x = freedom / 2, chi_square / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, _ROUNDS):
            term *= x / (a + n)
            total += term
            if term < total * 1e-15:
                break
        return max(0.0, 1 - scale * total)
    b = x + 1 - a
    c, d = 1 / _SMALL, 1 / b
    fraction = d
    for n in range(1, _ROUNDS):
        step = -n * (n - a)
        b += 2
        d = 1 / (_kept(step * d + b))
        c = _kept(b + step / c)
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return scale * fraction


def _kept(value: float) -> float:
    """Away from zero, as Lentz's method needs it."""
    return value if abs(value) > _SMALL else _SMALL
