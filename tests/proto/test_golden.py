"""What has been stored once is read for ever, and what is stored now is what was stored then."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.json_format import MessageToDict
from kozyr.azi.events.v1 import azi_pb2
from kozyr.durak.events.v1 import durak_pb2
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.rami.events.v1 import rami_pb2

from services.game import audit, codec
from services.game.codec import payload_message
from services.game.model import Result
from services.game.rulebook import RULEBOOK
from services.runtime.store.api import Damaged
from services.runtime.store.chain import link, verify
from services.runtime.store.sealing import unseal, unwrap
from tests.proto import golden_logs, goldens
from tests.proto.formats import FORMATS, GAME, KEYS, SEED, golden_formats
from tests.proto.golden_logs import head_of, rows_of
from tests.proto.goldens import KINDS, Line, lines_of, missing, recorded, written
from tests.proto.samples import plain

LINES = [(kind, number, line) for kind in KINDS for number, line in enumerate(lines_of(kind), 1)]
LOGS = sorted(path.stem for path in golden_logs.FOLDER.glob("*.jsonl"))
ENUMS = {
    "azi": azi_pb2.DESCRIPTOR,
    "durak": durak_pb2.DESCRIPTOR,
    "rami": rami_pb2.DESCRIPTOR,
}


def kept(then: Any, now: Any) -> Any:
    """What is now, without what no one knew then: fields that came later."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {name: kept(then[name], now[name]) for name in then if name in now}
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [kept(a, b) for a, b in zip(then, now, strict=True)]
    return now


@pytest.mark.parametrize(
    ("kind", "line"), [(k, line) for k, _, line in LINES], ids=[f"{k}-{n}" for k, n, _ in LINES]
)
def test_a_stored_event_is_read_as_it_was_meant(kind: str, line: Line) -> None:
    """Every golden line decodes to what it says; of the present schema, it is written the same.

    An event with fields that came later is written with them, and comes back as it was read.
    """
    how = KINDS[kind]
    event = how.decode(recorded(line))
    shown = how.show(event)
    assert kept(line["event"], shown) == line["event"]
    again = written(how.encode(event))
    if again["schema"] != line["schema"]:
        return
    if shown == line["event"]:
        assert again == {name: line[name] for name in again}
    else:
        assert how.show(how.decode(recorded({**line, **again}))) == shown


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_there_is_has_a_golden_line(kind: str) -> None:
    """An event class without a line is a new one: `python tests/proto/goldens.py` adds it."""
    assert [line["name"] for line in missing(kind)] == []


@pytest.mark.parametrize("kind", ENUMS)
def test_golden_lines_use_every_member_of_every_enum(kind: str) -> None:
    """Of the enums that only stored events have, each named number is in some line."""
    named = {
        value.name
        for enum in ENUMS[kind].enum_types_by_name.values()
        for value in enum.values
        if value.number
    }
    messages = [payload_message(recorded(line)) for line in lines_of(kind)]
    shown = json.dumps([MessageToDict(message) for message in messages])
    assert named
    assert {name for name in named if f'"{name}"' not in shown} == set()


def test_adding_lines_changes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a line is lost it is written anew; all that were there stay as they are."""
    source = goldens.FOLDER / "rami.jsonl"
    lines = source.read_text("utf-8").splitlines(keepends=True)
    changed = [line.replace('"seat": 2,', '"seat": 3,') for line in lines[:-1]]
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    (tmp_path / "rami.jsonl").write_text("".join(changed), "utf-8")
    goldens.main()
    after = (tmp_path / "rami.jsonl").read_text("utf-8").splitlines(keepends=True)
    assert after == [*changed, lines[-1]]


@pytest.mark.parametrize("kind", LOGS)
def test_a_golden_log_replays(kind: str) -> None:
    """Chain, secrets, decoding, rules, deals, chips and clock: all as when the game was played."""
    header, rows = rows_of(kind)
    head = head_of(header, len(rows))
    assert verify(rows, head) is None
    assert audit.verify_log(head.stream, rows, head) == []
    *_, last = audit.replay(rows)
    assert last.after.rules == header["rules"]
    assert plain(last.after.result, Result) == header["result"]
    happened = {row.name.partition(".")[2] for row in rows}
    assert happened >= golden_logs.SHOWN[header["rules"].partition(" ")[0]]


@pytest.mark.parametrize("kind", LOGS)
def test_an_append_of_any_event_by_itself_is_judged(kind: str) -> None:
    """Each kind of event in turn, soundly chained, as the only one of an append in the middle of a
    game: either a command leads to it, or it is a fault there."""
    header, rows = rows_of(kind)
    starts = [row.version for row in rows if row.request_id is not None]
    before = rows[: starts[len(starts) // 2] - 1]
    kinds_found = set()
    for row in {row.name: row for row in rows}.values():
        last = before[-1]
        lone = replace(
            row, version=last.version + 1, request_id="alone", recorded_at=last.recorded_at
        )
        lone = replace(lone, hash=link(last.hash, lone))
        found = audit.verify_log(UUID(header["game"]), [*before, lone], None)
        assert {fault.version for fault in found} <= {lone.version}
        kinds_found |= {fault.kind for fault in found}
    assert "NOT_ALLOWED" in kinds_found


def test_every_rules_version_has_a_golden_log() -> None:
    """A version without one is a new one: `python tests/proto/golden_logs.py` adds it."""
    assert {rows_of(kind)[0]["rules"] for kind in LOGS} == set(RULEBOOK)


@pytest.mark.parametrize("kind", ["game", "azi", "durak", "rami"])
def test_every_stored_field_is_in_a_golden_line(kind: str) -> None:
    """One that is in none is new: `python tests/proto/goldens.py` adds a line. Those without it
    stay, so what was stored before it is read as well."""
    messages = [payload_message(recorded(line)) for line in lines_of(kind)]
    shown = {(type(m), field.name) for m in messages for field, _ in m.ListFields()}
    every = {(type(m), field.name) for m in messages for field in m.DESCRIPTOR.fields}
    assert {(shape.DESCRIPTOR.name, name) for shape, name in every - shown} == set()


def test_a_new_shape_is_read_through_its_upcaster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the schema before it come out as events of the present one, whole logs included."""

    def lower(payload: bytes) -> bytes:
        was = azi_pb2.BidMade.FromString(payload)
        return azi_pb2.BidMade(
            seat=was.seat, level=was.level // 100, chips=was.chips
        ).SerializeToString()

    monkeypatch.setitem(codec.UPCASTERS, ("azi.BidMade", 0), lower)
    header, rows = rows_of("azi")
    older = [
        replace(row, schema=0, payload=_hundredfold(row.payload))
        if row.name == "azi.BidMade"
        else row
        for row in rows
    ]
    assert [codec.decode(row) for row in older] == [codec.decode(row) for row in rows]
    *_, last = steps = list(audit.replay(older))
    assert plain(last.after.result, Result) == header["result"]
    game_id = UUID(header["game"])
    assert [audit.command_of(step, game_id) for step in steps] == [
        audit.command_of(step, game_id) for step in audit.replay(rows)
    ]
    monkeypatch.delitem(codec.UPCASTERS, ("azi.BidMade", 0))
    with pytest.raises(Damaged):
        codec.decode(next(row for row in older if not row.schema))


def _hundredfold(payload: bytes) -> bytes:
    was = azi_pb2.BidMade.FromString(payload)
    return azi_pb2.BidMade(
        seat=was.seat, level=was.level * 100, chips=was.chips
    ).SerializeToString()


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_stays_as_it_is(name: str) -> None:
    """Digests, seeds, decks, seals and ids come out as they did when they were first stored."""
    golden = golden_formats()
    assert golden.keys() == FORMATS.keys()
    assert FORMATS[name]() == golden[name]


def test_what_was_sealed_opens() -> None:
    """Sealed octets that are golden open under their key."""
    golden = golden_formats()
    sealed = bytes.fromhex(golden["sealed secret"])
    assert unseal(SEED, GAME, 3, sealed) == (bytes(32), b"secret")
    assert unwrap(KEYS, GAME, "1", bytes.fromhex(golden["wrapped key"])) == SEED
    metadata = stored.Metadata.FromString(bytes.fromhex(golden["metadata"]))
    shown = {"actor": "bot", "subject": "S", "reason": "R", "level": "BOT_LEVEL_HARD"}
    assert MessageToDict(metadata) == shown
