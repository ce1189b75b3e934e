"""An archive checked from its files alone: every octet, every signature, every game again."""

import hashlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from services.cli.archiving import form
from services.cli.archiving.form import Entry, File, Manifest
from services.cli.outcome import Failure
from services.game import audit
from services.game.dispute_audit import dispute_faults
from services.game.disputes import DISPUTE_VERSION
from services.game.tree import Leaf
from services.kernel import merkle
from services.kernel.envelope import Head, Recorded
from services.runtime.notes import Checkpoint
from services.runtime.store.months import month_of
from verifier.verify import verify
from verifier.wrong import Wrong

LOGS_A_TASK = 64
"""So many logs a process is given at once; as many or fewer are checked in this one."""
Trusted = Mapping[str, bytes]
"""The game service's public keys by name."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Task:
    """Some logs of a file that lie one after the other."""

    data: Path
    entries: tuple[Entry, ...]
    trusted: Trusted
    checkpoint: Checkpoint


def check(
    folder: Path, trusted: Trusted, opened: Callable[[str], Checkpoint], tell: Tell
) -> tuple[Manifest, Checkpoint | None]:
    """Check a whole archive; its manifest, and the checkpoint that covers it.

    `opened` reads a signed note; raises Wrong with the first thing that is wrong, OSError.
    """
    manifest = form.read_manifest(folder, trusted)
    checkpoint = opened(manifest.checkpoint) if manifest.files else None
    _nothing_else(folder, manifest)
    _sums(manifest)
    if checkpoint is not None:
        done = 0
        for count in _in_order(_tasks(folder, manifest, trusted, checkpoint), manifest.logs):
            done += count
            tell(f"{done} of {manifest.logs} logs")
        if done != manifest.logs:
            raise Wrong(form.MANIFEST, f"names {manifest.logs} logs, {done} are in the files")
    return manifest, checkpoint


def _nothing_else(folder: Path, manifest: Manifest) -> None:
    """The files that the manifest names are there, and no other."""
    named = {name for file in manifest.files for name in (file.data, file.index)}
    there = {path.name for path in folder.glob(form.FILES)}
    for name in sorted(named - there):
        raise Wrong(name, "is missing")
    for name in sorted(there - named):
        raise Wrong(name, "is in the folder and not in the manifest")


def _sums(manifest: Manifest) -> None:
    """The manifest's numbers are those of its files, which follow each other."""
    if manifest.logs != sum(file.logs for file in manifest.files):
        raise Wrong(form.MANIFEST, "has another number of logs than its files")
    if manifest.events != sum(file.events for file in manifest.files):
        raise Wrong(form.MANIFEST, "has another number of events than its files")
    for before, file in zip(manifest.files, manifest.files[1:], strict=False):
        if file.first <= before.last:
            raise Wrong(file.name, "does not begin behind the file before it")


def entries_of(folder: Path, manifest: Manifest, file: File) -> list[Entry]:
    """A file's entries, which cover it octet by octet; raises Wrong."""
    entries = form.read_index(folder, file)
    at, last = 0, UUID(int=0)
    for entry in entries:
        if entry.offset != at or not 0 < entry.length <= form.LOG_BYTES_MAX:
            raise Wrong(file.index, f"{entry.stream} does not begin where the one before it ends")
        if entry.stream <= last or month_of(entry.stream) != manifest.month:
            raise Wrong(file.index, f"{entry.stream} is out of order, or of another month")
        at, last = at + entry.length, entry.stream
    ends = (entries[0].stream, last) if entries else None
    if at != file.bytes or ends != (file.first, file.last) or len(entries) != file.logs:
        raise Wrong(file.index, "is not that of the file")
    if sum(entry.version for entry in entries) != file.events:
        raise Wrong(file.index, "has another number of events than the manifest says")
    return entries


def _tasks(
    folder: Path, manifest: Manifest, trusted: Trusted, checkpoint: Checkpoint
) -> Iterator[Task]:
    """All logs, some at a time, once the octets of their file are those that were signed."""
    for file in manifest.files:
        data = folder / file.data
        if (size := data.stat().st_size) != file.bytes:
            raise Wrong(file.data, f"has {size} octets, and had {file.bytes}")
        with data.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != file.sha256:
                raise Wrong(file.data, "is not the file that the manifest names")
        entries = iter(entries_of(folder, manifest, file))
        while some := tuple(islice(entries, LOGS_A_TASK)):
            yield Task(data, some, trusted, checkpoint)


def _in_order(tasks: Iterator[Task], logs: int) -> Iterator[int]:
    """How many logs each task had, in order; raises the first that is wrong."""
    if logs <= LOGS_A_TASK:
        for task in tasks:
            _raise(check_logs(task))
            yield len(task.entries)
        return
    workers = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting: deque[tuple[Task, Future[tuple[str, str] | None]]] = deque()
        try:
            while True:
                for task in islice(tasks, 2 * workers - len(waiting)):
                    waiting.append((task, pool.submit(check_logs, task)))
                if not waiting:
                    return
                task, found = waiting.popleft()
                _raise(found.result())
                yield len(task.entries)
        except BrokenProcessPool:
            raise Failure("a process that checks the games has died; run it again") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _raise(found: tuple[str, str] | None) -> None:
    if found is not None:
        raise Wrong(*found)


def check_logs(task: Task) -> tuple[str, str] | None:
    """Check some logs; the first that is wrong, and what is."""
    with task.data.open("rb") as file:
        for entry in task.entries:
            file.seek(entry.offset)
            try:
                check_log(entry, file.read(entry.length), task.trusted, task.checkpoint)
            except Wrong as wrong:
                return str(entry.stream), str(wrong)
    return None


def check_log(entry: Entry, member: bytes, trusted: Trusted, checkpoint: Checkpoint) -> bytes:
    """Check a log and its place in the tree; its line. Raises Wrong."""
    line, place = form.unpacked(member, "log")
    if entry.kind == form.RECEIPT:
        receipt = verify(line, trusted).receipt
        found = (receipt.game, receipt.version, receipt.head)
    else:
        found = _check_rows(entry, form.log_object(line, "log"))
    if found != (entry.stream, entry.version, entry.head):
        raise Wrong("log", "is not the one that the index names")
    leaf = form.number(place["leaf"], "leaf")
    proof = place["proof"]
    if not isinstance(proof, list):
        raise Wrong("proof", "must be a list")
    way = [form.octets(each, "proof") for each in proof]
    hashed = Leaf(entry.stream, entry.version, entry.head).hash
    if not merkle.is_included(hashed, leaf, checkpoint.size, way, checkpoint.root):
        raise Wrong("proof", "the head has no place under the checkpoint")
    return line


def _check_rows(entry: Entry, plain: Mapping[str, Any]) -> tuple[UUID, int, bytes]:
    """Check a dispute, or a game that never opened: id, last version, head."""
    whole = form.fields(plain, "log", ("log", "rows"))
    stream = form.stream_of(whole["log"], "log")
    rows = rows_of(stream, whole["rows"]) if isinstance(whole["rows"], list) else []
    if not rows:
        raise Wrong("log", "has no rows")
    head = Head(stream, rows[-1].version, rows[-1].hash, ended=True)
    is_dispute = stream.version == DISPUTE_VERSION
    faults = (dispute_faults if is_dispute else audit.verify_log)(stream, rows, head)
    for fault in faults:
        raise Wrong(fault.version, f"{fault.kind}: {fault.detail}")
    return stream, head.version, head.hash


def rows_of(stream: UUID, objects: Sequence[Mapping[str, Any]]) -> list[Recorded]:
    """Rows as a receipt spells them; raises Wrong."""
    found = []
    for each in objects:
        try:
            asked_by = _octets(each["request_id"])
            found.append(
                Recorded(
                    stream=stream,
                    version=form.number(each["version"], "version"),
                    name=str(each["name"]),
                    schema=form.number(each["schema"], "schema"),
                    payload=bytes.fromhex(each["payload"]),
                    metadata=bytes.fromhex(each["metadata"]),
                    request_id=None if asked_by is None else asked_by.decode(),
                    body_hash=_octets(each["body_hash"]),
                    recorded_at=form.number(each["recorded_at"], "recorded_at"),
                    secret_digest=_octets(each["secret_digest"]),
                    salt=_octets(each["salt"]),
                    secret=_octets(each["secret"]),
                    hash=bytes.fromhex(each["hash"]),
                )
            )
        except (KeyError, TypeError, ValueError):
            raise Wrong(len(found) + 1, "is not spelt as a row") from None
    return found


def _octets(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
