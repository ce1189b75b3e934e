"""The golden lines: stored events as they were once written, and what they must decode to.

`python tests/proto/goldens.py` adds lines for event classes, schemas and fields that have none.
It never changes a line: what has been stored once decodes for ever, so a line that no longer holds
is a fault of the code.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2

from engines import azi, durak, rami
from services.game import codec as game_codec
from services.game import disputes
from services.game import model as game
from services.kernel.envelope import NewEvent, Recorded
from services.lobby import codec as lobby_codec
from services.lobby import model as lobby
from tests.proto.samples import plain, samples

FOLDER = Path(__file__).parent / "golden"
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of stored event: its classes, how they are stored, and how shown in a line."""

    classes: tuple[type, ...]
    samples: Callable[[type], Iterable[Any]]
    encode: Callable[[Any], NewEvent]
    decode: Callable[[Recorded], Any]
    show: Callable[[Any], Any]


def _of_engine(engine: Any) -> Kind:
    return Kind(
        get_args(engine.Event),
        samples,
        lambda event: game_codec.encode(game.EngineEvent(event)),
        lambda row: _engine_event(game_codec.decode(row)),
        plain,
    )


def _engine_event(event: game.Event) -> Any:
    assert isinstance(event, game.EngineEvent)
    return event.event


def _steps(cls: type) -> Iterable[Message]:
    moves = [
        stored.DisputeMove(player_id="P", chips=5),
        stored.DisputeMove(player_id="Q", chips=-5),
    ]
    taken = [stored.DisputeMove(player_id="Q", chips=2)]
    samples: tuple[Message, ...] = (
        stored.DisputeOpened(game_id="G", version=7, player_id="P", complaint="Odd ♠."),
        stored.DisputeOpened(game_id="G", player_id="P", complaint="All of it."),
        stored.DisputeOpened(game_id="G", player_id="P", complaint_digest=bytes(range(32))),
        stored.DisputeRuled(upheld=True, explanation="So it was.", operator="olga"),
        stored.DisputeRuled(explanation="It was not.", operator="olga"),
        stored.DisputeRuled(
            upheld=True,
            operator="olga",
            explanation_digest=bytes(range(32)),
            remedy=audit_pb2.REMEDY_CORRECTION,
            moves=moves,
            rulings_before=1,
            needs_approval=True,
        ),
        stored.RulingApproved(operator="omar"),
        stored.RulingWithdrawn(operator="omar"),
        stored.RulingWithdrawn(reason="OVERTAKEN"),
        stored.RulingRefused(reason="DISPUTE_RESERVE_SHORT"),
        stored.RulingPaid(transfer_id="T", claims=taken),
        stored.ClaimCalled(player_id="Q", chips=2, operator="olga"),
        stored.ClaimCollected(player_id="Q", chips=1, transfer_id="T"),
        stored.ClaimRefused(player_id="Q", reason="INSUFFICIENT_CHIPS"),
    )
    return (sample for sample in samples if isinstance(sample, cls))


def _message(message: Message) -> Any:
    shown = MessageToDict(message, preserving_proto_field_name=True)
    return {message.DESCRIPTOR.name: shown}


KINDS: Mapping[str, Kind] = {
    "game": Kind(get_args(game.FrameEvent), samples, game_codec.encode, game_codec.decode, plain),
    "azi": _of_engine(azi),
    "durak": _of_engine(durak),
    "rami": _of_engine(rami),
    "table": Kind(get_args(lobby.Event), samples, lobby_codec.encode, lobby_codec.decode, plain),
    "dispute": Kind(
        get_args(disputes.DisputeEvent), _steps, disputes.encode, disputes.decode, _message
    ),
}
"""Every kind of stored event, by the name of its file of lines."""


def lines_of(kind: str) -> list[Line]:
    """The golden lines of a kind."""
    path = FOLDER / f"{kind}.jsonl"
    text = path.read_text("utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def recorded(line: Line) -> Recorded:
    """A line's event as a row of a stream."""
    secret = line["secret"]
    return Recorded(
        stream=UUID(int=1),
        version=1,
        name=line["name"],
        schema=line["schema"],
        payload=bytes.fromhex(line["payload"]),
        metadata=b"",
        request_id=None,
        body_hash=None,
        recorded_at=0,
        secret_digest=None,
        salt=None,
        secret=None if secret is None else bytes.fromhex(secret),
        hash=bytes(32),
    )


def written(new: NewEvent) -> Line:
    """What a line says of an event's stored form."""
    return {
        "name": new.name,
        "schema": new.schema,
        "payload": new.payload.hex(),
        "secret": None if new.secret is None else new.secret.hex(),
    }


def missing(kind: str) -> list[Line]:
    """Lines for the classes, schemas of them and fields that have none."""
    there = {(line["name"], line["schema"]) for line in lines_of(kind)}
    fields = {field for line in lines_of(kind) for field in _fields(kind, line)}
    how = KINDS[kind]
    made = []
    for cls in how.classes:
        for event in how.samples(cls):
            line = written(how.encode(event))
            new = (line["name"], line["schema"]) not in there
            if new or not _fields(kind, line) <= fields:
                made.append({**line, "event": how.show(event)})
    return made


def _fields(kind: str, line: Line) -> set[tuple[str, str]]:
    """The fields that a line of a game's log sets."""
    if kind in ("table", "dispute"):
        return set()
    message = game_codec.payload_message(recorded(line))
    return {(line["name"], field.name) for field, _ in message.ListFields()}


def main() -> int:
    """Add what is missing; returns the exit code."""
    FOLDER.mkdir(exist_ok=True)
    for kind in KINDS:
        added = missing(kind)
        with (FOLDER / f"{kind}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in added)
        print(f"{kind}: {len(added)} lines added")
    return 0


if __name__ == "__main__":
    sys.exit(main())
