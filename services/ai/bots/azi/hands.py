"""Azi's hands of three by what they are worth: those that differ by a plain suit's name are one.

Trumps count by how many of the others are higher, plain cards by rank; the two plain suits are
alike. So there are 1,364 kinds of hands, whatever card is turned up.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations

from engines.azi.masks import BIT, SUIT
from engines.azi.model import PACK
from engines.azi.tricks import strength
from engines.cards import Card, suit

TRUMPS = 8
"""Trumps besides the turned card."""
PLAIN = 9
"""Cards of a plain suit."""
CARDS = TRUMPS + 2 * PLAIN
"""Cards besides the turned one; as numbers the trumps come first, each suit ascending."""
HAND = 3
QUEEN = 6
"""Cards of a plain suit below its queen."""


def _kinds() -> tuple[dict[int, int], list[tuple[int, ...]]]:
    """By the mask of three numbers its kind, and one hand of each kind."""
    kinds: dict[tuple[int, ...], int] = {}
    found, examples = {}, []
    for hand in combinations(range(CARDS), HAND):
        turned_over = sorted(_other_suit(number) for number in hand)
        key = min(hand, tuple(turned_over))
        if key not in kinds:
            kinds[key] = len(kinds)
            examples.append(key)
        found[sum(1 << number for number in hand)] = kinds[key]
    return found, examples


def _other_suit(number: int) -> int:
    """The card of the same rank in the other plain suit; a trump stays itself."""
    if number < TRUMPS:
        return number
    return number + PLAIN if number < TRUMPS + PLAIN else number - PLAIN


_KIND, EXAMPLES = _kinds()
KINDS = len(EXAMPLES)
"""How many kinds of hands there are; `EXAMPLES` has the numbers of one hand of each."""
SIZES = [0] * KINDS
"""By kind, how many of the 2,600 hands are of it."""
for _kind in _KIND.values():
    SIZES[_kind] += 1


@lru_cache(maxsize=len(PACK))
def numbers(turned: Card) -> Mapping[int, int]:
    """By a card's bit (`engines.azi.masks`) the bit of its number under this turned card."""
    rest = [card for card in PACK if card != turned]
    trumps = [card for card in rest if suit(card) is suit(turned)]
    plain = [card for card in rest if suit(card) is not suit(turned)]
    ordered = [*sorted(trumps, key=lambda card: strength(card, turned)), *plain]
    return {BIT[card]: 1 << number for number, card in enumerate(ordered)}


@lru_cache(maxsize=len(PACK))
def kinds(turned: Card) -> Mapping[int, int]:
    """By the mask of any hand of three its kind under this turned card."""
    of = numbers(turned)
    bits = list(of)
    return {a | b | c: _KIND[of[a] | of[b] | of[c]] for a, b, c in combinations(bits, HAND)}


def example(kind: int, turned: Card) -> int:
    """The mask of a hand of this kind under this turned card."""
    by_number = {number: bit for bit, number in numbers(turned).items()}
    return sum(by_number[1 << number] for number in EXAMPLES[kind])


def trumps_in(kind: int) -> int:
    """How many trumps hands of this kind have."""
    return sum(number < TRUMPS for number in EXAMPLES[kind])


def has_high_card(kind: int) -> bool:
    """Whether hands of this kind have a queen, king or ace of a plain suit."""
    plain = [number - TRUMPS for number in EXAMPLES[kind] if number >= TRUMPS]
    return any(number % PLAIN >= QUEEN for number in plain)


def trumps(turned: Card) -> int:
    """All cards of the trump suit, the turned one included."""
    return SUIT[BIT[turned]]
