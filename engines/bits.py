"""Sets of cards as integers, for the games' cores: a card is one bit, a hand the sum of its bits.

Which bit a card has, each game says in its `masks.py`. Masks are below 2**54.
"""

_STEP = 9
_LOW = (1 << _STEP) - 1


def members(mask: int) -> list[int]:
    """The members of a set, each as its own bit, ascending."""
    return [
        *_FIRST[mask & _LOW],
        *_SECOND[mask >> 9 & _LOW],
        *_THIRD[mask >> 18 & _LOW],
        *_FOURTH[mask >> 27 & _LOW],
        *_FIFTH[mask >> 36 & _LOW],
        *_SIXTH[mask >> 45],
    ]


def _subsets(first: int) -> tuple[tuple[int, ...], ...]:
    """The members of every set of the nine cards from `first` on."""
    return tuple(
        tuple(1 << (first + i) for i in range(_STEP) if part >> i & 1) for part in range(_LOW + 1)
    )


# Nine cards at a time from tables: taking one bit after the other costs three times as much.
_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH = map(_subsets, range(0, 6 * _STEP, _STEP))
