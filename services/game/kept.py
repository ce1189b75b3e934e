"""The last checkpoint beside an embedded database, so that a file that lost its end is noticed.

A SQLite file whose write-ahead log is lost or torn, or that is an older copy, is sound in itself.
What was signed last stands in a small file of its own; a tree that does not continue it is not
signed, until an operator who knows why moves the small file away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from services.runtime.notes import Checkpoint, FalseNote, open_note

log = structlog.get_logger(__name__)

NAME = "game.checkpoint"


@dataclass(frozen=True, slots=True)
class KeptNote:
    """The file; `keys` are those that may have signed what it holds."""

    path: Path
    keys: Sequence[Ed25519PublicKey]

    def read(self) -> Checkpoint | None:
        """What was signed last; None where nothing is kept that can be read."""
        try:
            return open_note(self.path.read_text("utf-8"), self.keys)
        except FileNotFoundError:
            return None
        except (FalseNote, OSError, ValueError) as problem:
            log.warning("kept_checkpoint_unreadable", problem=type(problem).__name__)
            return None

    def write(self, note: str) -> None:
        """Keep a note in place of the one before; a disk that does not take it keeps nobody."""
        draft = self.path.with_suffix(".draft")
        try:
            draft.write_text(note, "utf-8")
            draft.replace(self.path)
        except OSError as problem:
            log.warning("kept_checkpoint_not_written", problem=type(problem).__name__)
