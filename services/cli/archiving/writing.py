"""A month written to files: whole files under temporary names, named when they are on disk.

Whatever was written by a run that was broken off is kept where it still is what the database has.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.ext.asyncio import AsyncEngine

from services.cli.archiving import form
from services.cli.archiving.form import Entry, File, Manifest
from services.cli.archiving.survey import Covered, covered
from services.cli.outcome import Failure
from services.game import audit, receipts, tree
from services.game.disputes import DISPUTE_VERSION
from services.game.model import Stage
from services.kernel import merkle
from services.kernel.envelope import Recorded
from services.runtime.database import read
from services.runtime.keys import key_id
from services.runtime.notes import Checkpoint
from services.runtime.signing import archive_octets
from services.runtime.store.api import Damaged
from services.runtime.store.months import Month, month_of
from services.runtime.store.sealing import KeyUnknown
from services.runtime.store.sql import SqlStore
from verifier.wrong import Wrong

AT_ONCE = 16
"""So many logs are read and proven together."""
ROOTS_KEPT = 50_000
"""Roots of subtrees that are remembered, as neighbours share them."""
Tell = Callable[[str], None]


@dataclass(slots=True)
class Archivist:
    """Writes one month of a database into a folder."""

    engine: AsyncEngine
    store: SqlStore
    key: Ed25519PrivateKey
    month: Month
    folder: Path
    checkpoint: Checkpoint
    note: str
    _roots: dict[merkle.Range, bytes] = field(default_factory=dict)

    async def write(self, of: int, tell: Tell) -> Manifest:
        """Write what is missing, and the manifest last; raises Failure, StoreUnavailable.

        `of` is how many logs there are, for those who wait.
        """
        files: list[File] = []
        games = disputes = done = 0
        async with aclosing(covered(self.engine, self.month)) as logs:
            waiting: list[Covered] = []
            more = True
            while True:
                while more and len(waiting) < form.FILE_LOGS_MAX:
                    page = await anext(logs, None)
                    more = page is not None
                    waiting += page or []
                if not waiting:
                    break
                name = f"logs-{len(files) + 1:05}"
                kept = await self._kept(name, waiting, last=not more)
                file, entries = kept or await self._file(name, waiting, tell, done, of)
                disputes += sum(e.stream.version == DISPUTE_VERSION for e in entries)
                del waiting[: file.logs]
                files.append(file)
                done += file.logs
                games = done - disputes
                tell(f"{done} of {of} logs")
        return self._sign(files, games, disputes)

    async def _kept(
        self, name: str, waiting: Sequence[Covered], *, last: bool
    ) -> tuple[File, list[Entry]] | None:
        """A file that an earlier run finished, if it holds what it would hold now, to the octets of
        its first log: under the same key and checkpoint."""
        data, index = self.folder / f"{name}.jsonl.gz", self.folder / f"{name}.index.jsonl"
        if not (data.exists() and index.exists()):
            return None
        document = index.read_bytes()
        try:
            entries = [form.entry_of(line, index.name) for line in document.splitlines()]
        except Wrong:
            return None
        size = data.stat().st_size
        if not entries or entries[-1].offset + entries[-1].length != size:
            return None
        closed = len(entries) == form.FILE_LOGS_MAX or size >= form.FILE_BYTES_MAX
        same = [(e.stream, e.version, e.head) for e in entries] == [
            (log.stream, log.version, log.hash) for log in waiting[: len(entries)]
        ]
        if not same or not (closed or (last and len(entries) == len(waiting))):
            return None
        ((_, _, member),) = await self._members(waiting[:1])
        with data.open("rb") as file:
            if file.read(entries[0].length) != member:
                return None
        sha256 = hashlib.sha256(document).hexdigest()
        return _described(name, entries, _sha256(data), sha256), entries

    async def _file(
        self, name: str, waiting: Sequence[Covered], tell: Tell, done: int, of: int
    ) -> tuple[File, list[Entry]]:
        """Write one file of the logs that wait, as many as fit, and its index."""
        (self.folder / form.MANIFEST).unlink(missing_ok=True)
        entries: list[Entry] = []
        hashed = hashlib.sha256()
        size = 0
        with _whole(self.folder / f"{name}.jsonl.gz") as file:
            for start in range(0, len(waiting), AT_ONCE):
                some = waiting[start : start + AT_ONCE]
                for log, kind, member in await self._members(some):
                    file.write(member)
                    hashed.update(member)
                    entries.append(
                        Entry(log.stream, kind, log.version, log.hash, size, len(member))
                    )
                    size += len(member)
                    if size >= form.FILE_BYTES_MAX or len(entries) == form.FILE_LOGS_MAX:
                        break
                else:
                    tell(f"{done + len(entries)} of {of} logs")
                    continue
                break
        document = b"".join(entry.line() for entry in entries)
        with _whole(self.folder / f"{name}.index.jsonl") as file:
            file.write(document)
        index_sha256 = hashlib.sha256(document).hexdigest()
        return _described(name, entries, hashed.hexdigest(), index_sha256), entries

    async def _members(self, logs: Sequence[Covered]) -> list[tuple[Covered, str, bytes]]:
        """Some logs as they are packed; raises Failure for one that cannot be read."""
        for log in logs:
            if log.leaf is None or log.leaf >= self.checkpoint.size:
                raise Failure(f"{log.stream}: went on meanwhile; run it again")
        proofs = await self._proofs(logs)
        made = []
        for log in logs:
            try:
                head, rows = await self.store.whole(log.stream)
                kind, line = log_line(self.key, log.stream, rows)
            except Damaged as damage:
                raise Failure(f"{log.stream}: DAMAGED: {damage.problem}") from None
            except KeyUnknown as unknown:
                raise Failure(f"{log.stream}: LOG_SEALED: {unknown}") from None
            except Exception as problem:  # noqa: BLE001 - a damaged payload may fail in any way
                kind = type(problem).__name__
                raise Failure(f"{log.stream}: UNREADABLE: {kind}; `kozyr audit` it") from None
            if head is None or (head.version, head.hash) != (log.version, log.hash):
                raise Failure(f"{log.stream}: went on meanwhile; run it again")
            place = {"leaf": log.leaf, "proof": [each.hex() for each in proofs[log.stream]]}
            made.append((log, kind, form.packed(line, place)))
        return made

    async def _proofs(self, logs: Sequence[Covered]) -> dict[UUID, list[bytes]]:
        """The way from each log's leaf to the root of the checkpoint."""
        ways = {
            log.stream: merkle.inclusion_ranges(log.leaf or 0, self.checkpoint.size) for log in logs
        }
        if len(self._roots) > ROOTS_KEPT:
            self._roots.clear()
        missing = sorted({part for way in ways.values() for part in way} - self._roots.keys())
        async with read(self.engine) as connection:
            found = await tree.roots(connection, missing)
        self._roots |= zip(missing, found, strict=True)
        return {stream: [self._roots[part] for part in way] for stream, way in ways.items()}

    def _sign(self, files: Sequence[File], games: int, disputes: int) -> Manifest:
        """Write the manifest, once what it names is there and nothing else."""
        named = {name for file in files for name in (file.data, file.index)}
        drafts = [*self.folder.glob(f".{form.FILES}.part"), _draft(self.folder / form.MANIFEST)]
        for path in (*self.folder.glob(form.FILES), *drafts):
            if path.name not in named:
                path.unlink(missing_ok=True)
        public = self.key.public_key()
        made = Manifest(
            month=self.month,
            games=games,
            disputes=disputes,
            events=sum(file.events for file in files),
            checkpoint=self.note if files else "",
            files=tuple(files),
            key=key_id(public),
            public_key=public.public_bytes_raw(),
            signature=b"",
        )
        signature = self.key.sign(archive_octets(str(self.month), made.digest))
        whole = replace(made, signature=signature)
        with _whole(self.folder / form.MANIFEST) as file:
            file.write(whole.document())
        return whole


def log_line(key: Ed25519PrivateKey, stream: UUID, rows: Sequence[Recorded]) -> tuple[str, bytes]:
    """The kind of a log's entry, and its line."""
    if stream.version != DISPUTE_VERSION:
        *_, last = audit.replay(rows)
        if last.after.stage is not Stage.CANCELLED or last.after.seats:
            whole = receipts.signed(key, last.after, rows, None, auditor=True)
            return form.RECEIPT, form.compact({**whole, "readable": []})
    plain: dict[str, Any] = {
        "log": str(stream),
        "rows": [receipts.row_object(row, full=True) for row in rows],
    }
    return form.ROWS, form.compact(plain)


def require_month(folder: Path, month: Month) -> None:
    """Raises Failure for a folder that holds another month, or what is of no archive and would be
    written over or removed."""
    for path in sorted(folder.glob(form.FILES)):
        if not form.FILE.fullmatch(path.name) or not path.is_file():
            raise Failure(f"{path}: is of no archive; name another folder")
    manifest = folder / form.MANIFEST
    if manifest.exists():
        try:
            found = form.manifest_of(manifest.read_bytes()).month
        except Wrong:
            raise Failure(f"{manifest}: of no archive, or damaged; move it away first") from None
        if found != month:
            raise Failure(f"{folder}: holds {found}; each month has a folder of its own")
    for index in sorted(folder.glob("logs-*.index.jsonl"))[:1]:
        with index.open("rb") as file:
            line = file.readline()
        try:
            found = month_of(form.entry_of(line.rstrip(b"\n"), index.name).stream)
        except Wrong:
            raise Failure(f"{index}: not an archive's index; name another folder") from None
        if found != month:
            raise Failure(f"{folder}: holds {found}; each month has a folder of its own")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The folder, held for one command; raises Failure."""
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"{folder}: another `kozyr archive` works in it") from None
        except OSError as error:
            raise Failure(f"{folder}: cannot be held for one alone: {error.strerror}") from None
        yield
    finally:
        os.close(at)


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file that has its name only once all of it is on disk, for its owner alone: hands are in
    it."""
    draft = _draft(path)
    try:
        draft.unlink(missing_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _described(name: str, entries: Sequence[Entry], sha256: str, index_sha256: str) -> File:
    return File(
        name=name,
        bytes=entries[-1].offset + entries[-1].length,
        sha256=sha256,
        index_sha256=index_sha256,
        logs=len(entries),
        events=sum(entry.version for entry in entries),
        first=entries[0].stream,
        last=entries[-1].stream,
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
