"""Receipts: a game as one signed JSON document that can be checked without any server.

A full receipt lays everything open that the log holds. Whoever may not have that is given a receipt
of his own: the public part of every event, and the cards he has been shown. docs/fairness/README.md
writes the format down.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import Message
from kozyr.game.events.v1 import game_pb2 as stored

from engines.cards import Card
from engines.openings import Opening, openings
from services.game import audit, codec, deals, export
from services.game.model import EngineEvent, OpenDeal, SeedCommitted, State
from services.game.results import bank_flows
from services.game.rulebook import engine_for
from services.kernel.envelope import Recorded
from services.runtime.keys import key_id
from services.runtime.signing import RECEIPT, acknowledge, sign_receipt

FULL, PLAYER = "full", "player"
CARD_ENUM = "kozyr.cards.v1.Card"
OPENED = "game.GameOpened"
"""Its secret is not shown: besides the server's seed it holds that of the bots' choices."""


@dataclass(slots=True)
class Seen:
    """What a viewer has been shown of a deal: cards that were public, and those that came to him
    from the deck, unseen by others."""

    deal: OpenDeal
    public: set[Card] = field(default_factory=set)
    own: set[Card] = field(default_factory=set)


def document(
    key: Ed25519PrivateKey,
    state: State,
    rows: Sequence[Recorded],
    viewer: int | None,
    *,
    auditor: bool,
) -> bytes:
    """The receipt of the game in this state, which these rows led to, for a viewer.

    Where decks are not laid open (AZI-56, DURAK-31, RAMI-35), only an auditor is given all of an
    ended game.
    """
    whole = signed(key, state, rows, viewer, auditor=auditor)
    full = whole["receipt"]["kind"] == FULL
    return spelt(whole, [readable_object(row, full=full) for row in rows])


def spelt(whole: dict[str, Any], readable: Sequence[dict[str, Any]]) -> bytes:
    """A signed receipt as it is given out, with what people read of it."""
    return json.dumps({**whole, "readable": readable}, indent=1, ensure_ascii=False).encode()


def signed(
    key: Ed25519PrivateKey,
    state: State,
    rows: Sequence[Recorded],
    viewer: int | None,
    *,
    auditor: bool,
) -> dict[str, Any]:
    """The same without what is for people alone."""
    full = state.ended and (state.laid_open or auditor)
    trusted: dict[str, Any] = {
        "kind": FULL if full else PLAYER,
        "game": str(state.game_id),
        "rules": state.rules,
        "viewer": None if full else viewer,
        "ended": state.ended,
        "version": state.version,
        "head": rows[-1].hash.hex(),
        "server_seed": state.server_seed.hex() if full else "",
        "rows": [row_object(row, full=full) for row in rows],
        "result": _result(state) if full else None,
        "payouts": _payouts(state) if full else [],
        "cards": [] if full else list(_cards(state, rows, viewer)),
        "acknowledged": None if full else _acknowledged(key, state, rows, viewer),
    }
    public = key.public_key()
    return {
        "format": RECEIPT,
        "receipt": trusted,
        "signature": {
            "key": key_id(public),
            "public_key": public.public_bytes_raw().hex(),
            "signature": sign_receipt(key, trusted).hex(),
        },
    }


def row_object(row: Recorded, *, full: bool) -> dict[str, Any]:
    """A row's octets; what is hidden while the game runs only where everything is shown."""
    opened = full and row.name != OPENED
    request_id = None if row.request_id is None else row.request_id.encode()
    return {
        "version": row.version,
        "name": row.name,
        "schema": row.schema,
        "payload": row.payload.hex(),
        "secret_digest": _hex(row.secret_digest),
        "salt": _hex(row.salt) if opened else None,
        "secret": _hex(row.secret) if opened else None,
        "metadata": row.metadata.hex() if full else None,
        "request_id": _hex(request_id) if full else None,
        "body_hash": _hex(row.body_hash) if full else None,
        "recorded_at": row.recorded_at,
        "hash": row.hash.hex(),
    }


def readable_object(row: Recorded, *, full: bool) -> dict[str, Any]:
    """A row in words, for people alone."""
    said: dict[str, Any] = {"version": row.version, "event": row.name, **export.readable(row)}
    if full and row.request_id is not None:
        metadata = stored.Metadata.FromString(row.metadata)
        said |= {"by": metadata.actor, "because": metadata.reason}
    return said


def _result(state: State) -> dict[str, Any] | None:
    if state.result is None:
        return None
    seats = [
        {"seat": s.seat, "player": s.player_id, "place": s.place, "points": s.points}
        for s in state.result.seats
    ]
    return {
        "winner": state.result.winner,
        "durak": state.result.durak,
        "null": state.result.null,
        "seats": seats,
    }


def _payouts(state: State) -> list[dict[str, Any]]:
    """A line a seat of a game for chips; chips as text, for they may be more than JSON counts."""
    if state.result is None or not any(seat.reservation_id for seat in state.seats):
        return []
    lines = zip(state.result.seats, bank_flows(state), strict=True)
    return [
        {
            "seat": line.seat,
            "player": line.player_id,
            "brought": str(line.stack_before),
            "paid_in": str(paid_in),
            "paid_out": str(paid_out),
            "ends_with": str(line.stack_after),
        }
        for line, (paid_in, paid_out) in lines
    ]


def seen(rows: Sequence[Recorded], viewer: int | None) -> list[Seen]:
    """What a viewer has been shown of each deal, up to the last append of these rows."""
    found: list[Seen] = []
    for step in audit.replay(rows):
        fresh = False
        for row, event in zip(step.rows, step.events, strict=True):
            if not isinstance(event, EngineEvent):
                continue
            made = deals.deal_made(event.event)
            if made is not None:
                found.append(Seen(made))
                fresh = True
            if found:
                found[-1].public.update(_named(codec.payload_message(row)))
        if viewer is None or not found:
            continue
        view = engine_for(step.after.rules).view(step.after.engine, viewer)
        last = found[-1]
        last.own.update(card for card in view.hand if fresh or card not in last.public)
    return found


def _cards(state: State, rows: Sequence[Recorded], viewer: int | None) -> Iterator[dict[str, Any]]:
    """The cards a viewer may have opened.

    In the deal that is played these are his own that came from the deck: where another's card had
    lain would tell when it was drawn. Of a deal that is over he is given all that he saw.
    """
    found = seen(rows, viewer)
    for number, each in enumerate(found, start=1):
        over = state.ended or (state.variant == "rami" and number < len(found))
        shown = each.own | each.public if over else each.own
        places = [place for place, card in enumerate(each.deal.deck) if card in shown]
        if state.laid_open:
            stated = (Opening(place, each.deal.deck[place], b"", ()) for place in places)
            yield from (_card(each.deal.deal, card, proven=False) for card in stated)
        else:
            opened = openings(deals.seed_of(state, each.deal.deal), each.deal.deck, places)
            yield from (_card(each.deal.deal, card, proven=True) for card in opened)


def _card(deal: int, card: Opening, *, proven: bool) -> dict[str, Any]:
    return {
        "deal": deal,
        "place": card.place,
        "card": int(card.card),
        "salt": card.salt.hex() if proven else None,
        "path": [neighbour.hex() for neighbour in card.path] if proven else None,
    }


def _named(message: Message) -> Iterator[Card]:
    """Every card that a message names."""
    for descriptor, value in message.ListFields():
        values = value if descriptor.is_repeated else (value,)
        if descriptor.message_type is not None:
            for inner in values:
                yield from _named(inner)
        elif descriptor.enum_type is not None and descriptor.enum_type.full_name == CARD_ENUM:
            yield from (Card(number - 1) for number in values)


def _acknowledged(
    key: Ed25519PrivateKey, state: State, rows: Sequence[Recorded], viewer: int | None
) -> dict[str, Any] | None:
    """The acknowledgement of the viewer's seed once more, the same octets as the first time."""
    for row in rows:
        event = codec.decode(row)
        if isinstance(event, SeedCommitted) and event.seat == viewer:
            signature = acknowledge(key, state.game_id, event.seat, event.hash, row.hash)
            return {
                "seat": event.seat,
                "hash": event.hash.hex(),
                "head": row.hash.hex(),
                "signature": signature.hex(),
            }
    return None


def _hex(octets: bytes | None) -> str | None:
    return None if octets is None else octets.hex()
