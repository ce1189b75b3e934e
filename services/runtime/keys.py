"""The folder of keys: who may sign as whom, and the secrets that seal tokens and stored secrets.

The folder holds `<issuer>.pub` (Ed25519, PEM) of every issuer, `<issuer>.key` (PKCS #8, PEM) of
those this process may sign as, and secret keys of 32 bytes as base64: `<service>.seal` for page and
resume tokens, `master.key` for stored secrets (`master.<id>.key` of older ids). Further keys of an
issuer are `<issuer>.<number>.key` and `.pub`: the new one is published everywhere before it signs
(`keyring.py`); further public keys alone may bear any label.
"""

import base64
import hashlib
import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from services.runtime.settings import SERVICES, Settings
from services.runtime.store.sealing import MasterKeys

PLAYERS = "players"
OPERATORS = "operators"
ISSUERS = (PLAYERS, OPERATORS, *SERVICES)
"""Everyone who may issue tokens: `players` is held by lobby, `operators` by operators."""
SECRET_BYTES = 32


def ensure_keys(folder: Path) -> None:
    """Create the folder and every key that is missing (embedded use); files are mode 0600.

    Safe when several processes do it at once: a key that exists is never replaced.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for issuer in ISSUERS:
        if (folder / f"{issuer}.pub").exists() and not (folder / f"{issuer}.key").exists():
            continue  # somebody else signs as this issuer
        _create(folder / f"{issuer}.key", _new_private_key())
        private = load_private(folder / f"{issuer}.key")
        public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        _create(folder / f"{issuer}.pub", public)
    for name in (*(f"{service}.seal" for service in SERVICES), "master.key"):
        _create(folder / name, base64.b64encode(secrets.token_bytes(SECRET_BYTES)) + b"\n")


def make_next(folder: Path, issuer: str, number: int) -> None:
    """Create an issuer's key of this number, the public one first; one that exists is kept."""
    pem = _new_private_key()
    private = load_pem_private_key(pem, password=None)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _create(folder / f"{issuer}.{number}.pub", public)
    _create(folder / f"{issuer}.{number}.key", pem)


def read_secret(path: Path) -> bytes:
    """A 32-byte secret key from a base64 file; raises ValueError without its content."""
    return decode_secret(path.read_text("ascii"), str(path))


def decode_secret(text: str, where: str) -> bytes:
    """32 bytes from base64; raises ValueError naming only where it came from."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != SECRET_BYTES:
        raise ValueError(f"{where}: must be base64 of {SECRET_BYTES} bytes")
    return key


def master_keys(settings: Settings) -> MasterKeys:
    """The keys that wrap the keys of games: the current one, and `master.<id>.key` of older ids.

    Raises OSError or ValueError without the content of a key.
    """
    older = {
        path.name.split(".")[1]: read_secret(path) for path in settings.keys().glob("master.*.key")
    }
    if settings.master_key is not None:
        current = decode_secret(settings.master_key.get_secret_value(), "KOZYR_MASTER_KEY")
    else:
        current = read_secret(settings.master_key_file or settings.keys() / "master.key")
    return MasterKeys(settings.master_key_id, older | {settings.master_key_id: current})


def key_id(key: Ed25519PublicKey) -> str:
    """The name of a key in token headers: the start of its SHA-256."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def _new_private_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def _create(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet, whole or not at all."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass  # another process was first; its key is the one that counts
    finally:
        draft.unlink()


def load_private(path: Path) -> Ed25519PrivateKey:
    """A private key from its PEM file; raises OSError or ValueError."""
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path}: must be an Ed25519 key")
    return key


def load_public(folder: Path) -> dict[str, tuple[str, Ed25519PublicKey]]:
    """Every public key of the folder, by key id, with its issuer; raises OSError or ValueError."""
    keys: dict[str, tuple[str, Ed25519PublicKey]] = {}
    for path in sorted(folder.glob("*.pub")):
        issuer = path.name.split(".")[0]
        key = load_pem_public_key(path.read_bytes())
        if issuer not in ISSUERS or not isinstance(key, Ed25519PublicKey):
            raise ValueError(f"{path}: must be an Ed25519 key of {', '.join(ISSUERS)}")
        keys[key_id(key)] = (issuer, key)
    if not keys:
        raise ValueError(f"{folder}: no public keys")
    return keys


def public_keys(folder: Path, issuer: str) -> list[Ed25519PublicKey]:
    """An issuer's public keys, `<issuer>.pub` and `<issuer>.<label>.pub`; none where none are.

    Raises OSError or ValueError.
    """
    if not any(folder.glob(f"{issuer}*.pub")):
        return []
    return [key for by, key in load_public(folder).values() if by == issuer]
