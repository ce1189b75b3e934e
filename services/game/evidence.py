"""Everything there is to judge a dispute by, as one JSON document for operators."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game import audit, export, views
from services.game.accesses import Accesses
from services.game.arbitration import Found
from services.game.connections import Connections
from services.game.games import Games
from services.game.model import Stage
from services.game.outages import Outages
from services.game.peers import Peers
from services.game.proving import inclusion_proof
from services.kernel.envelope import Recorded
from services.kernel.errors import Refused
from services.runtime.slices import each
from services.runtime.streams import refusals

FORMAT = "kozyr evidence 1"
ACCESSES_MAX = 200
"""Most looks of operators at the game that are listed, the newest."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Puts the document together."""

    engine: AsyncEngine
    games: Games
    peers: Peers
    accesses: Accesses
    connections: Connections
    outages: Outages

    async def document(self, dispute: Found, shown: audit_pb2.Dispute) -> bytes:
        """The document about a dispute; hands only if the game has ended.

        Raises Refused: LOG_DAMAGED, LOG_SEALED, UNAVAILABLE.
        """
        game_id = UUID(dispute.game_id)
        state = (await self.games.load(game_id)).state
        rows = await self.games.rows(game_id, 0, state.version)
        with refusals():
            own = await self.games.store.read(dispute.id)
            spans = await self.outages.between(state.opened_at, state.recorded_at)
        wallet = await self.peers.reservations(dispute.game_id)
        body = {
            "format": FORMAT,
            "dispute": _plain(shown),
            "dispute_events": [_event(row) for row in own],
            "game": {
                "game": dispute.game_id,
                "rules": state.rules,
                "stage": Stage(state.stage).name,
                "version": state.version,
                "head": rows[-1].hash.hex(),
                "seats": [_seat(number, seat) for number, seat in enumerate(state.seats)],
                "result": _result(state),
                "events": [
                    _plain(export.log_row(row, secrets=state.ended)) async for row in each(rows)
                ],
            },
            "proof": await self._proof(game_id),
            "ledger": [_plain(transfer) for transfer in await self.peers.transfers(str(game_id))],
            "reservations": [_plain(reservation) for reservation in wallet.reservations],
            "clock": [line async for line in each(clock(rows, reasons=state.ended))],
            "outages": [{"began_at": began, "ended_at": ended} for began, ended in spans],
            "connections": [
                {
                    "at": each.at,
                    "seat": each.seat,
                    "stream": str(each.connection),
                    "what": "opened" if each.opened else "closed",
                }
                for each in await self.connections.of_game(game_id)
            ],
            "looks": [
                {"at": look.at, "operator": look.operator, "action": look.action}
                for look in await self.accesses.page(None, ACCESSES_MAX, game_id)
            ],
        }
        written = json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(body)
        return "".join([piece async for piece in each(written)]).encode()

    async def _proof(self, game_id: UUID) -> dict[str, Any] | None:
        """The game's place under a signed checkpoint, if one covers it."""
        try:
            found = await inclusion_proof(self.engine, game_id, None)
        except Refused as refused:
            if refused.reason != "NOT_CHECKPOINTED":
                raise
            return None
        return {
            "version": found.version,
            "head": found.head.hex(),
            "leaf": found.leaf,
            "proof": [node.hex() for node in found.proof],
            "checkpoint": found.checkpoint.note,
        }


def clock(rows: Sequence[Recorded], *, reasons: bool) -> Iterator[dict[str, Any]]:
    """Each append with who made it, and the decision it was made in: since when, until when there
    was time before time banks ran, and what was left in these. Moments are Unix microseconds, and
    so are banks."""
    for step in audit.replay(rows):
        first, before = step.rows[0], step.before
        metadata = stored.Metadata.FromString(first.metadata)
        yield {
            "version": first.version,
            "at": first.recorded_at,
            "what": first.name,
            "actor": metadata.actor,
            "reason": metadata.reason if reasons else "",
            "decision": before.turn,
            "since": before.turn_at,
            "deadline": before.deadline,
            "credit_ms": before.credit_ms,
            "banks": list(before.banks),
        }


def _result(state: Any) -> dict[str, Any] | None:
    return None if state.result is None else _plain(views.result_message(state.result))


def _seat(number: int, seat: Any) -> dict[str, Any]:
    return {
        "seat": number,
        "player_id": seat.player_id,
        "bot_level": None if seat.bot_level is None else int(seat.bot_level),
        "stack": seat.stack,
        "left": seat.left,
        "bot_plays": seat.bot_plays,
        "missed": seat.missed,
    }


def _event(row: Recorded) -> dict[str, Any]:
    return {
        "version": row.version,
        "name": row.name,
        "payload": base64.b64encode(row.payload).decode(),
        "recorded_at": row.recorded_at,
        "hash": row.hash.hex(),
    }


def _plain(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)
