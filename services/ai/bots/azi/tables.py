"""What Azi's bots know by heart: the worth of every kind of hand, and how to mix one's bids.

`tables.json` is made by `python -m services.ai.bots.azi.building`; nothing in it is written by
hand.
"""

import json
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from struct import iter_unpack, pack
from typing import Any

from services.ai.bots.azi import hands
from services.ai.bots.azi.situation import ACTS

NAME = "tables.json"
RANKS = (0.15, 0.3, 0.45, 0.6, 0.72, 0.82, 0.9, 0.95, 0.98)
"""Bounds of the ranks of hands, as the part of all hands that is worth less."""
DARK = len(RANKS) + 1
"""The rank of a hand that its seat has not seen."""
RANKED = DARK + 1
"""How many ranks there are."""
FULL = 255
"""A part of one is kept in so many steps."""
MIXED = 15
"""And a part of a mix in so many."""
ROW = (ACTS + 1) // 2
"""Octets of a mix: half an octet an act."""
BLOCK = RANKED * ROW
"""Octets of one situation: a mix for every rank."""
PLAYERS = range(2, 7)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables, read.

    Attributes:
        leads, follows: by number of players and kind of hand the part of the bank it wins, 0 … 1,
            when it leads or follows to the tricks.
        ranks: by number of cards dealt, number of players and kind of hand its rank.
        kept: by kind of hand how often it is what is left of four cards that begin with it.
        mixes: by situation the octets of its block.
    """

    leads: Mapping[int, Sequence[float]]
    follows: Mapping[int, Sequence[float]]
    ranks: Mapping[int, Mapping[int, Sequence[int]]]
    kept: Sequence[float]
    mixes: Mapping[int, bytes]

    def worth(self, players: int, kind: int) -> float:
        """The part of the bank a kind of hand wins, whether it leads or not."""
        return (self.leads[players][kind] + self.follows[players][kind]) / 2

    def mix(self, situation: int, rank: int) -> Sequence[int] | None:
        """How often each act is made, in fifteenths; None where the table was never in."""
        block = self.mixes.get(situation)
        if block is None:
            return None
        row = block[rank * ROW : (rank + 1) * ROW]
        mix = [part for octet in row for part in (octet >> 4, octet & MIXED)]
        return mix if any(mix) else None


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The tables that come with the package."""
    return read(json.loads(files(__package__).joinpath(NAME).read_text("utf-8")))


def read(stored: Mapping[str, Any]) -> Tables:
    """Tables as they are stored in JSON."""
    leads = {n: _parts(stored["leads"][str(n)]) for n in PLAYERS}
    follows = {n: _parts(stored["follows"][str(n)]) for n in PLAYERS}
    worths = {n: _means(leads[n], follows[n]) for n in PLAYERS}
    kept = _parts(stored["kept"])
    four = [size * part for size, part in zip(hands.SIZES, kept, strict=True)]
    blocks = zlib.decompress(b64decode(stored["mixes"]))
    situations = iter_unpack("<H", zlib.decompress(b64decode(stored["situations"])))
    return Tables(
        leads,
        follows,
        {
            3: {n: ranked(worths[n], hands.SIZES) for n in PLAYERS},
            4: {n: ranked(worths[n], four) for n in PLAYERS},
        },
        kept,
        {
            situation: blocks[at * BLOCK : (at + 1) * BLOCK]
            for at, (situation,) in enumerate(situations)
        },
    )


def ranked(worths: Sequence[float], sizes: Sequence[float]) -> Sequence[int]:
    """By kind of hand its rank; `sizes` is how often each kind is held."""
    whole, below, ranks = sum(sizes), 0.0, [0] * len(worths)
    for kind in sorted(range(len(worths)), key=worths.__getitem__):
        ranks[kind] = bisect_right(RANKS, (below + sizes[kind] / 2) / whole)
        below += sizes[kind]
    return ranks


def parts(values: Sequence[float]) -> str:
    """Parts of one as they are stored."""
    return b64encode(bytes(round(value * FULL) for value in values)).decode()


def mixes(found: Mapping[int, Sequence[Sequence[float]]]) -> dict[str, str]:
    """By situation and rank how often each act is made, as it is stored."""
    order = sorted(found)
    blocks = b"".join(_block(found[situation]) for situation in order)
    numbers = b"".join(pack("<H", situation) for situation in order)
    return {
        "situations": b64encode(zlib.compress(numbers, 9)).decode(),
        "mixes": b64encode(zlib.compress(blocks, 9)).decode(),
    }


def _block(rows: Sequence[Sequence[float]]) -> bytes:
    steps = [[*(round(part * MIXED) for part in row), 0] for row in rows]
    return bytes(row[at] << 4 | row[at + 1] for row in steps for at in range(0, ACTS, 2))


def _parts(stored: str) -> Sequence[float]:
    return [octet / FULL for octet in b64decode(stored)]


def _means(first: Sequence[float], second: Sequence[float]) -> Sequence[float]:
    return [(a + b) / 2 for a, b in zip(first, second, strict=True)]
