"""Certificates between processes while they change: read again as their files do, no restart.

`KOZYR_TLS_CERT_FILE`, `…_KEY_FILE` and `…_CA_FILE` name what a process shows and whom it believes.
The files are looked at when a connection is made or a call begins, at most every
`KOZYR_KEY_REREAD_MS`; a server shows to every new connection what lies there then. What cannot be
used (half written, a key that does not fit) is an error in the log and changes nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from services.runtime import log

Seen = tuple[tuple[int, int, int], ...]


class Named(Protocol):
    """Where the files are: settings."""

    @property
    def tls_cert_file(self) -> Path | None:
        """The own certificate and what leads from it to an authority."""

    @property
    def tls_key_file(self) -> Path | None:
        """Its key."""

    @property
    def tls_ca_file(self) -> Path | None:
        """The authorities."""

    @property
    def key_reread_ms(self) -> int:
        """How often the files are looked at."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What was read: PEM as it is, and when the own certificate ends (Unix seconds).

    A client that shows no certificate has empty ones, and `ends_at` is infinite.
    """

    authorities: bytes
    certificate: bytes = b""
    key: bytes = b""
    ends_at: float = float("inf")

    def __repr__(self) -> str:
        return f"Credentials(ends_at={self.ends_at})"


class Certificates:
    """The certificates of a process. Raises OSError or ValueError where they are no good at first;
    `settings` must name authorities."""

    def __init__(self, settings: Named, now: Callable[[], float] = time.monotonic) -> None:
        assert settings.tls_ca_file is not None  # noqa: S101 - whoever has none speaks plainly
        self._authorities = settings.tls_ca_file
        self._own = settings.tls_cert_file, settings.tls_key_file
        self._interval = settings.key_reread_ms / 1_000
        self._now = now
        self._seen = self._look()
        self._read = self._load()
        self._again_at = now() + self._interval

    def current(self) -> Credentials:
        """What to show and believe now; another object only when something changed."""
        now = self._now()
        if now >= self._again_at:
            self._again_at = now + self._interval
            self._refresh()
        return self._read

    def for_server(self) -> grpc.ServerCredentials:
        """Credentials that ask every client for a certificate, and follow the files."""
        shown, until = self.current(), self._now() + self._interval

        def changed() -> grpc.ServerCertificateConfiguration | None:
            # grpc asks before every handshake, in a thread of its own. None keeps what there was,
            # and with it the keys by which a client resumes a session without showing anything:
            # one whose certificate has ended meanwhile, too, so not for long.
            nonlocal shown, until
            now = self.current()
            if now is shown and self._now() < until:
                return None
            shown, until = now, self._now() + self._interval
            return _configuration(now)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(shown),
            changed,  # type: ignore[arg-type] # None is for no change
            require_client_authentication=True,
        )

    def _refresh(self) -> None:
        seen = self._look()
        if seen == self._seen:
            return
        try:
            read = self._load()
        except (OSError, ValueError) as error:
            log.get().error("certificate_not_read", problem=str(error))  # it names the file
            return
        self._seen = seen
        if read != self._read:
            self._read = read
            log.get().info("certificate_read", ends_at=None if not read.key else int(read.ends_at))

    def _look(self) -> Seen:
        """What tells whether the files are others."""
        found = []
        for path in (self._authorities, *self._own):
            try:
                state = None if path is None else path.stat()
            except OSError:
                state = None
            found.append((state.st_ino, state.st_mtime_ns, state.st_size) if state else (0, 0, 0))
        return tuple(found)

    def _load(self) -> Credentials:
        authorities = read_authorities(self._authorities)
        certificate, key = self._own
        if certificate is None or key is None:
            return Credentials(authorities)
        return read_own(certificate, key, authorities)


def read_authorities(path: Path) -> bytes:
    """The authorities' certificates, PEM; raises OSError, or ValueError naming the file alone."""
    pem = path.read_bytes()
    _certificates(pem, path)
    return pem


def read_own(path: Path, key_path: Path, authorities: bytes = b"") -> Credentials:
    """A certificate and the key that fits; raises OSError, or ValueError naming the file alone."""
    pem, key_pem = path.read_bytes(), key_path.read_bytes()
    own = _certificates(pem, path)[0]
    try:
        key = load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError(f"{key_path}: not a private key in PEM without a password") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError(f"{key_path}: not a key of RSA or of an elliptic curve (ECDSA)")
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*form) != own.public_key().public_bytes(*form):
        raise ValueError(f"{key_path}: not the key of the certificate in {path}")
    return Credentials(authorities, pem, key_pem, own.not_valid_after_utc.timestamp())


def _certificates(pem: bytes, path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"{path}: not a certificate in PEM") from None


def _configuration(given: Credentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(given.key, given.certificate)], root_certificates=given.authorities
    )
