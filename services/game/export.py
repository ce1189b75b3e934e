"""A game's log as rows to read and as one JSON document."""

import base64
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import audit_pb2

from services.game import codec, views
from services.game.model import State
from services.kernel.envelope import Recorded
from services.runtime.slices import each

FORMAT = "kozyr game 1"
CHUNK_BYTES = 262_144
"""How much of a document a message carries, about."""


def log_row(row: Recorded, *, secrets: bool) -> audit_pb2.LogRow:
    """A stored row; salt and secret only where `secrets` may be shown.

    So too the metadata: why a bot moved tells of its hand.
    """
    return audit_pb2.LogRow(
        version=row.version,
        name=row.name,
        schema=row.schema,
        payload=row.payload,
        secret_digest=row.secret_digest or b"",
        salt=(row.salt or b"") if secrets else b"",
        secret=(codec.shown_secret(row) or b"") if secrets else b"",
        metadata=row.metadata if secrets else b"",
        request_id=row.request_id or "",
        body_hash=row.body_hash or b"",
        recorded_at=row.recorded_at,
        hash=row.hash,
        readable=json.dumps(readable(row), sort_keys=True),
    )


def readable(row: Recorded) -> dict[str, Any]:
    """An event's public payload in words, for reading only."""
    return MessageToDict(codec.payload_message(row), preserving_proto_field_name=True)


def document(
    game_id: UUID, state: State, rows: Sequence[Recorded], *, auditor: bool = False
) -> Iterator[bytes]:
    """An ended game, piece by piece: every row with its octets in base64, the result in words.

    Only an auditor is given the secret of GameOpened, which holds the seed of the bots' choices.
    """
    result = None
    if state.result is not None:
        message = views.result_message(state.result)
        result = MessageToDict(message, preserving_proto_field_name=True)
    frame = {
        "format": FORMAT,
        "game": str(game_id),
        "rules": state.rules,
        "version": state.version,
        "head": rows[-1].hash.hex(),
        "result": result,
    }
    yield json.dumps(frame, ensure_ascii=False).encode().removesuffix(b"}") + b',\n"events": ['
    for number, row in enumerate(rows):
        written = json.dumps(_row(row, opened=auditor or row.version > 1), ensure_ascii=False)
        yield (b",\n" if number else b"\n") + written.encode()
    yield b"\n]}\n"


async def chunks(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Pieces put together to what messages carry."""
    waiting, size = [], 0
    async for piece in each(pieces):
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _row(row: Recorded, *, opened: bool) -> dict[str, Any]:
    return {
        "version": row.version,
        "name": row.name,
        "schema": row.schema,
        "payload": _text(row.payload),
        "secret_digest": _text(row.secret_digest),
        "salt": _text(row.salt) if opened else None,
        "secret": _text(row.secret) if opened else None,
        "metadata": _text(row.metadata),
        "request_id": row.request_id,
        "body_hash": _text(row.body_hash),
        "recorded_at": row.recorded_at,
        "hash": _text(row.hash),
        "readable": readable(row),
    }


def _text(octets: bytes | None) -> str | None:
    return None if octets is None else base64.b64encode(octets).decode()
