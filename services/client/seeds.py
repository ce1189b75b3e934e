"""A player's own seeds: what the game service acknowledged of them, checked and kept.

An acknowledgement is the service's signature that the hash of this player's seed stood in the
game's log before any seed was shown. Kept with the seed, it lets the player prove later that a log
that lacks it is not the one that was played.

The keys that may sign are `game.pub` and `game.<label>.pub` of the key folder (`KOZYR_KEY_FOLDER`,
by default the data folder's own): whoever plays at a server elsewhere puts there what its operator
has published. Without such a key an acknowledgement is kept unchecked, and says so.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from services.client.profile import FileFault, write_private
from services.kernel.errors import Kind, Refused
from services.runtime.keys import public_keys
from services.runtime.settings import Settings
from services.runtime.signing import acknowledgement, is_signed

FORMAT = "kozyr acknowledgement 1"
SIGNER = "game"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What was signed for a seat's seed, the seed itself, and whether the signature was checked.

    Octets are in hexadecimal; `seed` is secret until it has been revealed.
    """

    game_id: str
    seat: int
    hash: str
    head: str
    signature: str
    seed: str = field(repr=False)
    checked: bool


def signers(settings: Settings) -> list[Ed25519PublicKey]:
    """The keys with which the game service may have signed; none where none are known."""
    folder = settings.keys()
    try:
        return public_keys(folder, SIGNER)
    except (OSError, ValueError) as error:
        raise FileFault(f"{folder}: {error}") from None


def check(made: Acknowledgement, keys: Sequence[Ed25519PublicKey]) -> None:
    """Raise Refused ACKNOWLEDGEMENT_FALSE unless one of the keys signed it."""
    signed = acknowledgement(
        UUID(made.game_id), made.seat, bytes.fromhex(made.hash), bytes.fromhex(made.head)
    )
    if not is_signed(bytes.fromhex(made.signature), signed, keys):
        raise Refused(
            Kind.PRECONDITION,
            "ACKNOWLEDGEMENT_FALSE",
            "the acknowledgement of your seed is not signed with the game service's key "
            "in the key folder; the seed is not revealed",
        )


def keep(folder: Path, made: Acknowledgement) -> Path:
    """Write it down, whole or not at all, mode 0600; where. Raises FileFault."""
    path = folder / f"{made.game_id}.json"
    write_private(path, {"format": FORMAT, **asdict(made)})
    return path


def find(folder: Path, game_id: str) -> Acknowledgement | None:
    """What is kept for a game, None for nothing; raises FileFault for a damaged file."""
    path = folder / f"{game_id}.json"
    try:
        kept = json.loads(path.read_text("utf-8"))
        if kept.pop("format") != FORMAT:
            raise ValueError
        return Acknowledgement(**kept)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FileFault(f"{path} is damaged") from None
    except OSError as error:
        raise FileFault(f"{path}: {error.strerror}") from None
