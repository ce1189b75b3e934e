"""What listens at an address shows as its certificate, whoever asks and whether it is believed."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509

SECONDS = 3.0
SCHEMES = ("dns:///", "dns:", "ipv4:")


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate as people read it: its names and when it ends."""

    names: tuple[str, ...]
    ends: datetime

    def __str__(self) -> str:
        ended = "ended" if self.ends < datetime.now(UTC) else "ends"
        return f"{', '.join(self.names) or 'no name'}, {ended} {self.ends:%Y-%m-%d %H:%M} UTC"


def of(certificate: x509.Certificate) -> Shown:
    """A certificate's names (DNS) and end."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = []
    else:
        names = found.get_values_for_type(x509.DNSName)
    return Shown(tuple(names), certificate.not_valid_after_utc)


async def shown(address: str) -> Shown | None:
    """The certificate at a gRPC target with one address; None where no TLS is spoken."""
    return await asyncio.to_thread(_shown, address)


async def listens(address: str) -> bool:
    """Whether anything takes a connection at a gRPC target with one address."""
    return await asyncio.to_thread(_listens, address)


def _place(address: str) -> tuple[str, int]:
    """Host and port; raises ValueError where there is more to it."""
    for scheme in SCHEMES:
        address = address.removeprefix(scheme)
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _shown(address: str) -> Shown | None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: it is looked at, not believed
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(_place(address), SECONDS) as line,
            context.wrap_socket(line) as secured,
        ):
            octets = secured.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return None
    return None if octets is None else of(x509.load_der_x509_certificate(octets))


def _listens(address: str) -> bool:
    try:
        socket.create_connection(_place(address), SECONDS).close()
    except (OSError, ValueError):
        return False
    return True
