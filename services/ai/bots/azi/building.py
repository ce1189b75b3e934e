"""Makes `tables.json`: `python -m services.ai.bots.azi.building`, some ten minutes of CPU.

They depend on the seeds and the numbers of samples and rounds named here and in `measuring`, and
on nothing else.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from services.ai.bots.azi import hands, measuring, tables
from services.ai.bots.azi.situation import ACTS
from services.ai.bots.azi.training import Known, Row, Training

SEED = 1
SEEDS = (1, 2, 3)
"""Of the trainings whose averages are added up."""
ROUNDS = 60_000
"""Deals of each of them."""
SEEN_LEAST = 40
"""What was decided fewer times in the trainings is not kept."""
RARE = 0.035
"""And an act that is made less often than this is not made at all."""
KEPT_PLAYERS = 3
"""With so many players it is measured which of four cards goes."""
PROOF_ROUNDS = 150
"""So long a training of the first seed tells by its digest whether this is still the code that
made the table."""


def worths(leads: bool) -> dict[int, Sequence[float]]:
    """By number of players and kind of hand the part of the bank it wins."""
    return {
        n: [measuring.equity(SEED, n, leads, kind) for kind in range(hands.KINDS)]
        for n in tables.PLAYERS
    }


def kept(worth: Sequence[float]) -> list[float]:
    """By kind of hand how often it is what is left of four cards that begin with it."""
    turned = measuring.TURNED
    of, found = hands.kinds(turned), []
    deck = list(hands.numbers(turned))
    for kind in range(hands.KINDS):
        held = hands.example(kind, turned)
        fourths = [bit for bit in deck if not held & bit]
        cards = [bit for bit in deck if held & bit]
        others = [[worth[of[held ^ card | fourth]] for card in cards] for fourth in fourths]
        found.append(sum(max(other) <= worth[kind] for other in others) / len(fourths))
    return found


def trained(known: Known, seed: int, rounds: int) -> Mapping[int, Row]:
    """The bidding learned in so many rounds."""
    training = Training(known, seed)
    training.run(rounds)
    return training.rows


def mixed(trainings: Sequence[Mapping[int, Row]]) -> dict[int, list[list[float]]]:
    """By situation and rank how often each act is made; zeros where too little was decided."""
    found: dict[int, list[list[float]]] = {}
    for number in sorted(set().union(*trainings)):
        rows = [rows[number] for rows in trainings if number in rows]
        played = [sum(parts) for parts in zip(*(row.played for row in rows), strict=True)]
        total = sum(played)
        if sum(row.seen for row in rows) < SEEN_LEAST or not total:
            continue
        situation, rank = divmod(number, tables.RANKED)
        common = [part if part >= RARE * total else 0.0 for part in played]
        block = found.setdefault(situation, [[0.0] * ACTS for _ in range(tables.RANKED)])
        block[rank] = [part / sum(common) for part in common]
    return found


def proof(known: Known) -> str:
    """A digest of what a short training learns."""
    learned = trained(known, SEEDS[0], PROOF_ROUNDS)
    told = [(number, row.seen, row.regrets, row.played) for number, row in sorted(learned.items())]
    return sha256(repr(told).encode()).hexdigest()


def measured() -> dict[str, Any]:
    """The worths of hands as they are stored, and no bids."""
    leads, follows = worths(leads=True), worths(leads=False)
    mean = [sum(pair) / 2 for pair in zip(leads[KEPT_PLAYERS], follows[KEPT_PLAYERS], strict=True)]
    return {
        "leads": {str(n): tables.parts(leads[n]) for n in leads},
        "follows": {str(n): tables.parts(follows[n]) for n in follows},
        "kept": tables.parts(kept(mean)),
        **tables.mixes({}),
    }


def known(tables_: tables.Tables) -> Known:
    """What a training knows of hands: what a bot knows that has these tables."""
    worths = {n: [tables_.worth(n, kind) for kind in range(hands.KINDS)] for n in tables.PLAYERS}
    return Known(tables_.ranks[hands.HAND], worths)


def main() -> int:
    """Write the file beside this module."""
    hand_worths = measured()
    company = known(tables.read(hand_worths))
    bids = mixed([trained(company, seed, ROUNDS) for seed in SEEDS])
    found = {**hand_worths, **tables.mixes(bids), "proof": proof(company)}
    text = json.dumps(found, indent=1)
    Path(__file__).with_name(tables.NAME).write_text(text + "\n", "utf-8")
    sys.stdout.write(f"{tables.NAME}: {len(text):,} octets\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
