"""The form of an archive: a folder of files for a month, and the signed manifest over them.

`logs-00001.jsonl.gz` holds logs one after the other, each a gzip member of two lines of JSON: a
receipt as `kozyr verify` takes it (a dispute, or a game that never opened, as its plain rows), and
the log's place in the tree of checkpoints. `logs-00001.index.jsonl` says where each begins.
`manifest.json` names the files with their SHA-256; its digest is signed by the game service. Equal
logs make equal octets. docs/audits.md writes the form down.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from services.kernel.ids import parse_uuid
from services.runtime.signing import ARCHIVE, archive_octets
from services.runtime.store.months import Month, parse_month
from verifier.ed25519 import is_signed
from verifier.keys import key_id
from verifier.wrong import Wrong

MANIFEST = "manifest.json"
FILES = "logs-*"
"""What else an archive's folder holds."""
FILE = re.compile(r"logs-[0-9]{5,9}\.(jsonl\.gz|index\.jsonl)")
"""How that is named."""
FILE_BYTES_MAX = 64 * 2**20
FILE_LOGS_MAX = 10_000
"""A file is closed when it has come to either."""
LOG_BYTES_MAX = 64 * 2**20
"""No log is longer than this when it is unpacked."""
MANIFEST_BYTES_MAX = 64 * 2**20
GZIP = 31
"""zlib's word for one gzip member."""
RECEIPT, ROWS = "receipt", "rows"
"""The kinds of entries."""
HASH_BYTES = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A log in a file: its id, kind, last version and chain head, and where it lies (octets)."""

    stream: UUID
    kind: str
    version: int
    head: bytes
    offset: int
    length: int

    def line(self) -> bytes:
        """As it stands in an index."""
        plain = {**asdict(self), "stream": str(self.stream), "head": self.head.hex()}
        return spelt(plain) + b"\n"


@dataclass(frozen=True, slots=True)
class File:
    """A file of the archive: its name without an ending, octets, SHA-256, that of its index; how
    many logs and events it holds, and the ids of the first and the last."""

    name: str
    bytes: int
    sha256: str
    index_sha256: str
    logs: int
    events: int
    first: UUID
    last: UUID

    @property
    def data(self) -> str:
        """The name of the file itself."""
        return f"{self.name}.jsonl.gz"

    @property
    def index(self) -> str:
        """The name of its index."""
        return f"{self.name}.index.jsonl"

    def plain(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        return {**asdict(self), "first": str(self.first), "last": str(self.last)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a month's archive consists of. `checkpoint` is the signed note of the checkpoint that
    covers all of it, empty where there is no log."""

    month: Month
    games: int
    disputes: int
    events: int
    checkpoint: str
    files: tuple[File, ...]
    key: str
    public_key: bytes
    signature: bytes

    @property
    def logs(self) -> int:
        """How many there are in all."""
        return self.games + self.disputes

    @property
    def digest(self) -> bytes:
        """The digest that is signed, 32 bytes."""
        return digest(self.signed())

    def signed(self) -> dict[str, Any]:
        """What the digest is over."""
        return {
            "month": str(self.month),
            "games": self.games,
            "disputes": self.disputes,
            "events": self.events,
            "checkpoint": self.checkpoint,
            "files": [file.plain() for file in self.files],
        }

    def document(self) -> bytes:
        """As it is written."""
        whole = {
            "format": ARCHIVE,
            "archive": self.signed(),
            "signature": {
                "key": self.key,
                "public_key": self.public_key.hex(),
                "signature": self.signature.hex(),
            },
        }
        return json.dumps(whole, indent=1, ensure_ascii=False).encode() + b"\n"


def spelt(value: Any) -> bytes:
    """JSON in its one spelling: keys sorted, no blanks."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode("utf-8", "surrogatepass")  # fmt: skip


def compact(value: Any) -> bytes:
    """JSON without blanks, its keys in the order they have."""
    made = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return made.encode("utf-8", "surrogatepass")


def digest(signed: Mapping[str, Any]) -> bytes:
    """The SHA-256 over what a manifest says."""
    return hashlib.sha256(spelt(signed)).digest()


# ------------------------------------------------------------------------------------ read strictly


def read_manifest(folder: Path, trusted: Mapping[str, bytes]) -> Manifest:
    """The manifest of a folder, signed with a key that is trusted; raises Wrong, OSError."""
    path = folder / MANIFEST
    if path.stat().st_size > MANIFEST_BYTES_MAX:
        raise Wrong(MANIFEST, "is longer than any manifest")
    made = manifest_of(path.read_bytes())
    if made.key != key_id(made.public_key):
        raise Wrong(f"{MANIFEST} signature.key", "is not the name of the public key")
    if trusted.get(made.key) != made.public_key:
        raise Wrong(
            MANIFEST, f"is signed with the key {made.key}, which is not among those trusted"
        )
    if not is_signed(made.public_key, archive_octets(str(made.month), made.digest), made.signature):
        raise Wrong(MANIFEST, f"is not what the key {made.key} has signed")
    return made


def manifest_of(document: bytes) -> Manifest:
    """A manifest from its octets, whoever signed it; raises Wrong."""
    whole = fields(_json(document, MANIFEST), MANIFEST, ("format", "archive", "signature"))
    if whole["format"] != ARCHIVE:
        raise Wrong(f"{MANIFEST} format", f"must be {ARCHIVE!r}")
    names = ("month", "games", "disputes", "events", "checkpoint", "files")
    said = fields(whole["archive"], f"{MANIFEST} archive", names)
    under = fields(whole["signature"], f"{MANIFEST} signature", ("key", "public_key", "signature"))
    month = parse_month(_of(said["month"], str, MANIFEST))
    if month is None:
        raise Wrong(f"{MANIFEST} month", "must be a month, as 2026-09")
    return Manifest(
        month=month,
        games=number(said["games"], f"{MANIFEST} games"),
        disputes=number(said["disputes"], f"{MANIFEST} disputes"),
        events=number(said["events"], f"{MANIFEST} events"),
        checkpoint=_of(said["checkpoint"], str, f"{MANIFEST} checkpoint"),
        files=tuple(map(_file, _of(said["files"], list, f"{MANIFEST} files"))),
        key=_of(under["key"], str, f"{MANIFEST} signature.key"),
        public_key=octets(under["public_key"], f"{MANIFEST} signature.public_key"),
        signature=octets(under["signature"], f"{MANIFEST} signature.signature", 64),
    )


def _file(value: Any) -> File:
    where = f"{MANIFEST} files"
    plain = fields(value, where, tuple(File.__dataclass_fields__))
    name = _of(plain["name"], str, where)
    if not name.startswith("logs-") or not name.removeprefix("logs-").isdecimal():
        raise Wrong(where, "a file is named logs-00001 and so on")
    return File(
        name=name,
        bytes=number(plain["bytes"], f"{name} bytes"),
        sha256=octets(plain["sha256"], f"{name} sha256").hex(),
        index_sha256=octets(plain["index_sha256"], f"{name} index_sha256").hex(),
        logs=number(plain["logs"], f"{name} logs"),
        events=number(plain["events"], f"{name} events"),
        first=stream_of(plain["first"], f"{name} first"),
        last=stream_of(plain["last"], f"{name} last"),
    )


def read_index(folder: Path, file: File) -> list[Entry]:
    """The entries of a file, as its index has them, which is the one the manifest names."""
    try:
        document = (folder / file.index).read_bytes()
    except OSError as error:
        raise Wrong(file.index, error.strerror or "cannot be read") from None
    if hashlib.sha256(document).hexdigest() != file.index_sha256:
        raise Wrong(file.index, "is not the index that the manifest names")
    return [entry_of(line, file.index) for line in document.splitlines()]


def entry_of(line: bytes, where: str) -> Entry:
    """A line of an index."""
    plain = fields(_json(line, where), where, tuple(Entry.__dataclass_fields__))
    kind = _of(plain["kind"], str, where)
    if kind not in (RECEIPT, ROWS):
        raise Wrong(where, f"a log is a {RECEIPT} or {ROWS}")
    return Entry(
        stream=stream_of(plain["stream"], where),
        kind=kind,
        version=number(plain["version"], where),
        head=octets(plain["head"], where),
        offset=number(plain["offset"], where),
        length=number(plain["length"], where),
    )


def packed(log: bytes, place: Mapping[str, Any]) -> bytes:
    """A log and its place in the tree as a gzip member, the same each time."""
    made = zlib.compressobj(9, zlib.DEFLATED, GZIP)
    return made.compress(log + b"\n" + spelt(place) + b"\n") + made.flush()


def unpacked(member: bytes, where: str) -> tuple[bytes, dict[str, Any]]:
    """A log's line, and its place in the tree: `leaf`, `proof`; raises Wrong."""
    made = zlib.decompressobj(GZIP)
    try:
        text = made.decompress(member, LOG_BYTES_MAX)
    except zlib.error:
        raise Wrong(where, "cannot be unpacked") from None
    if not made.eof or made.unused_data:
        raise Wrong(where, "is not packed as one log, or is longer than any")
    lines = text.split(b"\n")
    if len(lines) != 3 or lines[2]:
        raise Wrong(where, "is not two lines")
    return lines[0], fields(_json(lines[1], where), where, ("leaf", "proof"))


def log_object(line: bytes, where: str) -> dict[str, Any]:
    """A log's line as JSON."""
    return _of(_json(line, where), dict, where)


def fields(value: Any, where: str, names: Sequence[str]) -> dict[str, Any]:
    """A JSON object with exactly these fields."""
    if not isinstance(value, dict) or value.keys() != set(names):
        raise Wrong(where, f"must have the fields {', '.join(names)}")
    return value


def number(value: Any, where: str) -> int:
    """A whole number from 0."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise Wrong(where, "must be a whole number")
    return value


def octets(value: Any, where: str, length: int = HASH_BYTES) -> bytes:
    """So many octets in hexadecimal."""
    try:
        made = bytes.fromhex(_of(value, str, where))
    except ValueError:
        made = b""
    if len(made) != length or made.hex() != value:
        raise Wrong(where, f"must be {length} octets in lower-case hexadecimal")
    return made


def stream_of(value: Any, where: str) -> UUID:
    """A log's id."""
    made = parse_uuid(_of(value, str, where))
    if made is None:
        raise Wrong(where, "must be the id of a log")
    return made


def _of(value: Any, kind: type[T], where: str) -> T:
    if not isinstance(value, kind):
        raise Wrong(where, f"must be {kind.__name__}")
    return value


def _json(document: bytes, where: str) -> Any:
    try:
        return json.loads(document.decode())
    except (ValueError, RecursionError):
        raise Wrong(where, "is not JSON in UTF-8") from None
