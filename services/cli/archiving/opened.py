"""One log taken out of an archive: checked by itself, without a server, read like a stored one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2

from services.cli import witness
from services.cli.archiving import form
from services.cli.archiving.checking import Trusted, check_log, entries_of, rows_of
from services.cli.archiving.form import Entry, Manifest
from services.cli.outcome import Failure
from services.client import seeds
from services.game import audit, export, receipts
from services.game.auditing import replayed
from services.game.published import UNPUBLISHED
from services.kernel.envelope import Recorded
from services.kernel.ids import parse_uuid
from services.runtime.notes import Checkpoint, FalseNote, open_note
from services.runtime.settings import Settings
from services.runtime.wire.games import octets
from verifier.keys import key_id
from verifier.wrong import Wrong


def trusted_keys(where: Settings) -> Trusted:
    """The game service's public keys of the key folder, by name; raises Failure for none."""
    found = [key.public_bytes_raw() for key in witness.keys_of(where)]
    return {key_id(key): key for key in found}


def note_reader(where: Settings) -> Callable[[str], Checkpoint]:
    """What reads signed notes with the keys of the key folder; raises Wrong."""
    keys = seeds.signers(where)

    def read(note: str) -> Checkpoint:
        try:
            return open_note(note, keys)
        except FalseNote as false:
            raise Wrong(f"{form.MANIFEST} checkpoint", str(false)) from None

    return read


def line_of(where: Settings, folder: Path, named: str) -> tuple[Entry, bytes]:
    """A log's entry and line, checked; raises Failure, naming what is wrong or not there."""
    stream = parse_uuid(named)
    if stream is None:
        raise Failure(f"{named!r} is no game's id; an archive knows games by nothing else")
    trusted, opened = trusted_keys(where), note_reader(where)
    try:
        manifest = form.read_manifest(folder, trusted)
        entry, member = _find(folder, manifest, stream)
        return entry, check_log(entry, member, trusted, opened(manifest.checkpoint))
    except Wrong as wrong:
        raise Failure(f"WRONG {folder}: {wrong}") from None
    except OSError as error:
        raise Failure(f"{error.filename or folder}: {error.strerror}") from None


def _find(folder: Path, manifest: Manifest, stream: UUID) -> tuple[Entry, bytes]:
    for file in manifest.files:
        if file.first <= stream <= file.last:
            for entry in entries_of(folder, manifest, file):
                if entry.stream == stream:
                    with (folder / file.data).open("rb") as data:
                        data.seek(entry.offset)
                        return entry, data.read(entry.length)
    raise Failure(f"{folder}: there is no {stream} in the archive of {manifest.month}")


def game_of(where: Settings, folder: Path, named: str) -> dict[str, Any]:
    """A game's signed receipt; raises Failure for what has none."""
    entry, line = line_of(where, folder, named)
    if entry.kind != form.RECEIPT:
        raise Failure(f"{named}: a dispute or a game that never opened; it has no receipt")
    return form.log_object(line, named)


def game_rows(whole: dict[str, Any]) -> list[Recorded]:
    """The rows of a game as they were stored, but for what is never laid open: salt and secret of
    its opening; of that the server's seed stands there, and nothing for the bots' choices."""
    receipt = whole["receipt"]
    first, *others = rows_of(UUID(receipt["game"]), receipt["rows"])
    opening = stored.GameOpenedSecret(
        server_seed=bytes.fromhex(receipt["server_seed"]), bot_seed=UNPUBLISHED
    )
    return [replace(first, secret=octets(opening)), *others]


def receipt_document(whole: dict[str, Any]) -> bytes:
    """The receipt as the service gave it to operators, octet by octet."""
    readable = [receipts.readable_object(row, full=True) for row in game_rows(whole)]
    parts = {name: whole[name] for name in ("format", "receipt", "signature")}
    return receipts.spelt(parts, readable)


def log_document(whole: dict[str, Any]) -> bytes:
    """The log as the service gave it to players."""
    rows = game_rows(whole)
    *_, last = audit.replay(rows)
    return b"".join(export.document(last.after.game_id, last.after, rows))


def steps_of(whole: dict[str, Any]) -> Sequence[audit_pb2.ReplayGameResponse]:
    """Every step of a game, as the service replayed it."""
    return [replayed(step) for step in audit.replay(game_rows(whole))]
