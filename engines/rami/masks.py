"""Rami's combinations on masks: what a hand can lay and what it costs.

A card is the bit `1 << card` (`engines.cards`: each suit a row of 13 bits, the two lowest), a hand
or a combination the bits of its cards. `engines.rami.melds` says the same of lists of cards.
"""

from collections.abc import Iterable

from engines.cards import ACE, PACK_SIZE, RANKS, Card
from engines.rami.melds import card_points

ALL = (1 << PACK_SIZE) - 1
"""The whole pack."""
_SUIT = len(RANKS)
_ROW = (1 << _SUIT) - 1
_COLUMN = 1 | 1 << _SUIT | 1 << 2 * _SUIT | 1 << 3 * _SUIT
"""The twos: one rank of every suit."""
_ABOVE_TWO = ALL & ~_COLUMN
_BELOW_ACE = ALL & ~(_COLUMN << ACE)
_RUN_STARTS = _COLUMN * ((1 << ACE - 1) - 1)
"""The cards that can be the lowest of a run: two to queen."""


def mask(cards: Iterable[int]) -> int:
    """The cards as a mask."""
    return sum([1 << card for card in cards])


def cards(of: int) -> tuple[Card, ...]:
    """The cards of a mask, ascending."""
    return tuple(Card(c) for c in range(PACK_SIZE) if of >> c & 1)


def points(hand: int, ace_high: bool) -> int:
    """What the cards cost in a hand (RAMI-23)."""
    return worth_of(hand, WORTH[ace_high]) >> _COUNT


def melds_in(hand: int) -> list[int]:
    """Every run and group that can be laid from a hand (RAMI-31)."""
    found: list[int] = []
    starts = hand & hand >> 1 & hand >> 2 & _RUN_STARTS
    while starts:
        low = starts & -starts
        starts ^= low
        run, above = low * 0b111, low << 3
        found.append(run)
        while above & hand & _ABOVE_TWO:
            run |= above
            above <<= 1
            found.append(run)
    for groups in groups_in(hand):
        found += groups
    return found


def groups_in(hand: int) -> list[list[int]]:
    """The groups that can be laid from a hand, those of one rank together."""
    spades, hearts = hand & _ROW, hand >> _SUIT & _ROW
    diamonds, clubs = hand >> 2 * _SUIT & _ROW, hand >> 3 * _SUIT
    ranks = spades & hearts & (diamonds | clubs) | diamonds & clubs & (spades | hearts)
    found = []
    while ranks:
        low = ranks & -ranks
        ranks ^= low
        found.append(_groups_of(hand & low * _COLUMN))
    return found


def _groups_of(same: int) -> list[int]:
    """The groups in three or four cards of one rank."""
    first = same & same - 1
    second = first & first - 1
    third = second & second - 1
    if not third:
        return [same]
    return [same, first, same ^ first ^ second, same ^ second ^ third, same ^ third]


def is_run(meld: int) -> bool:
    """Whether a combination is a run: in a group no two cards are neighbours."""
    return bool(meld & meld >> 1)


def neighbours(meld: int) -> int:
    """The cards of which any one can be added to a combination (RAMI-13)."""
    low = meld & -meld
    if meld & meld >> 1:
        return low >> 1 & _BELOW_ACE | (meld + low) & _ABOVE_TWO
    return _column(low) ^ meld


def extensions(meld: int, hand: int) -> list[int]:
    """Every set of hand cards that can be added to a combination in one action (RAMI-31)."""
    low = meld & -meld
    if not meld & meld >> 1:
        missing = (_column(low) ^ meld) & hand
        return [missing] if missing else []
    below = [0]
    card = low >> 1
    while card & hand & _BELOW_ACE:
        below.append(below[-1] | card)
        card >>= 1
    above = [0]
    card = meld + low
    while card & hand & _ABOVE_TWO:
        above.append(above[-1] | card)
        card <<= 1
    return [down | up for down in below for up in above if down or up]


def _column(low: int) -> int:
    """All four cards of the rank of a card."""
    return _COLUMN << (low.bit_length() - 1) % _SUIT


def run_cards(hand: int) -> int:
    """The cards of every stretch of three or more in a suit."""
    starts = hand & hand >> 1 & hand >> 2 & _RUN_STARTS
    return starts | starts << 1 | starts << 2


def paired(hand: int) -> int:
    """The cards that lack one more for a combination with another card of the hand."""
    near = hand << 1 & _ABOVE_TWO | hand >> 1 & _BELOW_ACE
    near |= (hand & _BELOW_ACE) << 2 & _ABOVE_TWO & ALL | (hand & _ABOVE_TWO) >> 2 & _BELOW_ACE
    once = hand | hand << PACK_SIZE
    near |= once >> _SUIT | once >> 2 * _SUIT | once >> 3 * _SUIT
    return hand & near


_COUNT = 6
"""Bits for the number of cards below their points."""


def worth_of(hand: int, worth: tuple[int, ...]) -> int:
    """What the cards cost by a row of `WORTH`: by points, then by their number."""
    return (
        worth[hand & _ROW]
        + worth[hand >> _SUIT & _ROW]
        + worth[hand >> 2 * _SUIT & _ROW]
        + worth[hand >> 3 * _SUIT]
    )


def _worths(ace_high: bool) -> tuple[int, ...]:
    """Points and number of the cards of every set of ranks in a suit."""
    found = [0]
    for rank in range(_SUIT):
        card = (card_points(Card(rank), ace_high) << _COUNT) + 1
        found += [each + card for each in found]
    return tuple(found)


WORTH = (_worths(False), _worths(True))
"""Without and with `ace_high`."""
