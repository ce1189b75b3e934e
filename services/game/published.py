"""The secrets of an ended game as its own final events publish them: what makes it readable for
ever, with no key at all. Pure.

Published are the server's seed, every deck and the cards dropped face down. Not published is the
seed of the bots' choices, which nothing of the game follows from; zeros stand for it. Salts are
not published either, so where these secrets stand in their place the digests are not compared;
what is compared is that seeds, decks and every move follow from each other.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError
from kozyr.game.events.v1 import game_pb2 as stored

from services.game import codec
from services.kernel.envelope import Recorded
from services.runtime.wire import games as wire
from services.runtime.wire.games import octets

UNPUBLISHED = bytes(32)
"""In place of the seed of the bots' choices."""


def published(rows: Sequence[Recorded]) -> list[Recorded] | None:
    """The rows of a whole log with the secrets that its end published; None where it did not.

    Never published are those of a game that runs, and of one that opens cards one by one.
    """
    try:
        shown = {row.version: codec.payload_message(row) for row in rows}
    except (DecodeError, KeyError, AttributeError):
        return None
    seeds = [m.server_seed for m in shown.values() if isinstance(m, stored.GameFinished)]
    deals = {m.deal: m for m in shown.values() if isinstance(m, stored.DealRevealed)}
    found, deal = [], 0
    for row in rows:
        if row.name.endswith(".Dealt"):
            deal += 1
        if row.secret_digest is None:
            found.append(row)
            continue
        secret = _secret(row, shown[row.version], seeds, deals.get(deal))
        if secret is None:
            return None
        found.append(replace(row, secret=secret, salt=None))
    return found


def _secret(
    row: Recorded, message: Any, seeds: Sequence[bytes], deal: stored.DealRevealed | None
) -> bytes | None:
    """A row's secret octets, as they were sealed but for the seed of the bots' choices."""
    kind, _, name = row.name.partition(".")
    match name:
        case "GameOpened" if kind == codec.FRAME and any(seeds):
            made = stored.GameOpenedSecret(server_seed=seeds[-1], bot_seed=UNPUBLISHED)
            return octets(made)
        case "Dealt" if deal is not None:
            return _of(kind, name, deck=deal.deck)
        case "CardDropped" if deal is not None:
            cards = [each.card for each in deal.dropped if each.seat == message.seat]
            return _of(kind, name, card=cards[0]) if cards else None
        case _:
            return None


def _of(kind: str, name: str, **fields: Any) -> bytes | None:
    hidden = wire.of(kind).events[name].secret
    return None if hidden is None else octets(hidden.message(**fields))
