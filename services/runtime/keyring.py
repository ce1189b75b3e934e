"""Signing and verifying keys while they change: read again as the folder does, without a restart.

An issuer's private keys are `<issuer>.key` and, later ones, `<issuer>.<number>.key` from 2 on, each
with its public key beside it under the same name (`.pub`). A key verifies from the moment it is
read. Of those that have lain in the folder for as long as every process needs to hear of them, the
one with the highest number signs; where none has, the one with the lowest. How long a file has lain
there is what its inode says (`ctime`), which a copy does not take along from elsewhere.

What cannot be read changes nothing: it is an error in the log, what was known stays, and it is
tried again at every look.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from services.runtime import log
from services.runtime.jwks import PublicKeys, key_set
from services.runtime.keys import key_id, load_private, load_public

Seen = tuple[tuple[str, int, int], ...]
FIRST = 1
"""The number of `<issuer>.key`."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, and since when it and its public one lie in the folder (Unix seconds)."""

    number: int
    key_id: str
    key: Ed25519PrivateKey
    since: float


class Keyring:
    """The keys of a folder: everybody's public ones, and private ones of `issuers`.

    A key signs once it has been there for `announce_ms`. Raises OSError or ValueError where the
    folder cannot be read at first.
    """

    def __init__(
        self,
        folder: Path,
        issuers: Sequence[str] = (),
        announce_ms: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._issuers = tuple(issuers)
        self._announce = announce_ms / 1_000
        self._now = now
        self._seen = look(folder)
        self.public: PublicKeys = load_public(folder)
        self._private = {issuer: read_private(folder, issuer) for issuer in self._issuers}

    def signing(self, issuer: str) -> SigningKey:
        """The key that signs now."""
        return choose(self._private[issuer], self._now() - self._announce)

    def refresh(self) -> None:
        """Read what has changed."""
        seen = look(self.folder)
        if seen == self._seen:
            return
        before = self.public
        try:
            public = load_public(self.folder)
            private = {issuer: read_private(self.folder, issuer) for issuer in self._issuers}
        except (OSError, ValueError) as error:
            log.get().error("keys_not_read", path=str(self.folder), problem=type(error).__name__)
            return
        self._seen, self.public, self._private = seen, public, private
        for kid in sorted(self.public.keys() - before):
            log.get().info("key_added", key=kid)
        for kid in sorted(before.keys() - self.public):
            log.get().info("key_removed", key=kid)

    async def run(self, interval_ms: int) -> None:
        """For ever: read what has changed."""
        while True:
            await asyncio.sleep(interval_ms / 1_000)
            self.refresh()

    def jwks(self, issuer: str) -> str:
        """An issuer's public keys as a JSON Web Key Set (RFC 7517, 8037)."""
        return key_set(self.public, issuer)


def look(folder: Path) -> Seen:
    """What tells whether something changed: names, times and sizes of the keys' files."""
    found = []
    for path in (*folder.glob("*.pub"), *folder.glob("*.key")):
        try:
            state = path.stat()
        except OSError:
            continue
        found.append((path.name, state.st_ctime_ns, state.st_size))
    return tuple(sorted(found))


def files(folder: Path, issuer: str) -> dict[int, Path]:
    """An issuer's private keys by number; raises ValueError for one that has none."""
    found = {}
    for path in folder.glob(f"{issuer}*.key"):
        _, *label = path.name.removesuffix(".key").split(".")
        if not path.name.startswith((f"{issuer}.key", f"{issuer}.")):
            continue
        number = FIRST if not label else int(label[0]) if label[0].isdecimal() else 0
        if len(label) > 1 or number < FIRST or (label and number == FIRST):
            raise ValueError(f"{path}: must be {issuer}.key or {issuer}.<number from 2>.key")
        found[number] = path
    return dict(sorted(found.items()))


def read_private(folder: Path, issuer: str) -> tuple[SigningKey, ...]:
    """An issuer's private keys, lowest number first.

    Where public keys of his are in the folder, only those of which one is. Raises OSError,
    ValueError, FileNotFoundError where there is none.
    """
    paths = files(folder, issuer) or {FIRST: folder / f"{issuer}.key"}
    public = any(folder.glob("*.pub"))
    verified = {k for k, (by, _) in load_public(folder).items() if by == issuer} if public else ()
    made = []
    for number, path in paths.items():
        key = load_private(path)
        kid = key_id(key.public_key())
        if verified and kid not in verified:
            continue
        made.append(SigningKey(number, kid, key, _since(path)))
    if not made:
        raise ValueError(f"{folder}: no key of {issuer} has its public one beside it")
    return tuple(made)


def choose(keys: Sequence[SigningKey], since: float) -> SigningKey:
    """The highest number of those there since this moment; the lowest of all where none is."""
    ripe = [key for key in keys if key.since <= since]
    return ripe[-1] if ripe else keys[0]


def _since(path: Path) -> float:
    """Since when a private key and the public one of its name are there."""
    beside = path.with_suffix(".pub")
    return max(each.stat().st_ctime for each in (path, beside) if each.exists())
