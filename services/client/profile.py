"""A player's account as kept on disk: one JSON file, readable by its owner only.

The folder is `KOZYR_HOME`, or `~/.kozyr`. The file holds the account's secret and the key from
which the player's seeds are made, so it is never shown.
"""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SEED_KEY_BYTES = 32


class FileFault(Exception):
    """A file of a player's own cannot be read or written, or is damaged: one line for a person."""


@dataclass(frozen=True, slots=True)
class Profile:
    """An account: who, its secret or this device's key, the key of its seeds. Nothing of it prints
    its secrets."""

    player_id: str
    display_name: str
    secret: str = field(repr=False)
    seed_key: bytes = field(repr=False)
    device_key: bytes = field(default=b"", repr=False)


def new_seed_key() -> bytes:
    """32 random bytes from which a player's seeds are made."""
    return secrets.token_bytes(SEED_KEY_BYTES)


def write_private(path: Path, kept: Mapping[str, object]) -> None:
    """Write a JSON file, whole or not at all, for its owner alone (0600); raises FileFault."""
    draft = path.with_suffix(f".{os.getpid()}.draft")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as to:
            json.dump(kept, to, indent=1)
        draft.replace(path)
    except OSError as error:
        raise FileFault(f"{path}: {error.strerror}") from None


def home() -> Path:
    """The folder of profiles."""
    given = os.environ.get("KOZYR_HOME")
    return Path(given) if given else Path.home() / ".kozyr"


class ProfileFile:
    """The file of one profile."""

    def __init__(self, name: str = "player", folder: Path | None = None) -> None:
        self.path = (home() if folder is None else folder) / f"{name}.json"

    def read(self) -> Profile | None:
        """The profile, None if there is none yet; raises FileFault for a damaged file."""
        try:
            kept = json.loads(self.path.read_text("utf-8"))
            return Profile(
                player_id=str(kept["player_id"]),
                display_name=str(kept["display_name"]),
                secret=str(kept["secret"]),
                seed_key=base64.b64decode(kept["seed_key"], validate=True),
                device_key=base64.b64decode(kept.get("device_key", ""), validate=True),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise FileFault(f"{self.path} is damaged; move it away to sign up anew") from None
        except OSError as error:
            raise FileFault(f"{self.path}: {error.strerror}") from None

    def write(self, profile: Profile) -> None:
        """Keep the profile, whole or not at all, mode 0600."""
        kept = {
            "player_id": profile.player_id,
            "display_name": profile.display_name,
            "secret": profile.secret,
            "seed_key": base64.b64encode(profile.seed_key).decode(),
        }
        if profile.device_key:
            kept["device_key"] = base64.b64encode(profile.device_key).decode()
        write_private(self.path, kept)

    @property
    def acknowledgements(self) -> Path:
        """The folder of what the game service has acknowledged to this profile."""
        return self.path.with_name(f"{self.path.stem}-acknowledgements")

    def set_aside(self, profile: Profile) -> Path:
        """Move the file away, under the player's id, and say where to."""
        aside = self.path.with_name(f"{self.path.stem}-{profile.player_id}.json")
        self.path.replace(aside)
        return aside
