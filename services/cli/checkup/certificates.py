"""Certificates for TLS between services: our own, and those that the services show."""

import asyncio
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from services.cli.checkup import handshake
from services.cli.checkup.handshake import Shown
from services.cli.checkup.keyfolder import OTHERS, ROOT
from services.cli.checkup.symptoms import Symptom, age, bad, ok, warn
from services.runtime.certificates import read_authorities, read_own
from services.runtime.identity import EDGE
from services.runtime.settings import SERVICES, Settings

CHECK = "certificates"
SOON_MS = 7 * 86_400_000
"""A certificate that ends sooner should have been renewed."""
RENEW = "have it renewed: `kubectl describe certificate` says why cert-manager has not"


def look(settings: Settings) -> list[Symptom]:
    """Our own: readable, of an authority that is trusted here, fitting its key, not at its end, and
    in a name over which operators may speak."""
    if settings.tls_ca_file is None:
        return [ok(CHECK, "none here: services are called without TLS")]
    try:
        authorities = x509.load_pem_x509_certificates(read_authorities(settings.tls_ca_file))
        if settings.tls_cert_file is None or settings.tls_key_file is None:
            return [*_ending("an authority", authorities), _outside(settings.tls_ca_file)]
        own = read_own(settings.tls_cert_file, settings.tls_key_file)
    except (OSError, ValueError) as error:
        return [bad(CHECK, _problem(error), "put the file back, whole and with its other half")]
    chain = x509.load_pem_x509_certificates(own.certificate)
    found = [*_ending("an authority", authorities), *_ending("our own", chain[:1])]
    if not _leads(chain, authorities):
        found.append(
            bad(
                CHECK,
                f"no authority of {settings.tls_ca_file} has issued {settings.tls_cert_file}",
                "take ca.crt from where the certificate is from; while authorities are exchanged, "
                "both are in it",
            )
        )
    found += _private(settings.tls_key_file)
    shown = handshake.of(chain[0])
    ours = sorted({*SERVICES, EDGE}.intersection(shown.names))
    if ours or not shown.names:
        found.append(
            warn(
                CHECK,
                f"ours bears the name {', '.join(ours) or 'of nobody'}: operators' tokens are "
                "refused over it",
                "use one in another name, as `operators`",
            )
        )
    return found or [ok(CHECK, f"ours: {shown}")]


def _private(key: Path) -> list[Symptom]:
    state = key.stat()
    if state.st_mode & (stat.S_IRWXO if state.st_uid == ROOT else OTHERS):
        return [bad(CHECK, f"{key} can be read by others", f"`chmod 600 {key}`")]
    return []


async def served(settings: Settings) -> list[Symptom]:
    """Those that services show to whoever connects: how long they are good for."""
    if settings.tls_ca_file is None:
        return []
    each = await asyncio.gather(*(handshake.shown(settings.address(name)) for name in SERVICES))
    found = []
    for name, shown in zip(SERVICES, each, strict=True):
        if shown is not None:
            found.append(_served(f"certificate {name}", shown))
    return found


def _served(check: str, shown: Shown) -> Symptom:
    left_ms = 1_000 * (shown.ends.timestamp() - time.time())
    if left_ms <= 0:
        return bad(check, f"it shows {shown}", f"{RENEW}; new files are read without a restart")
    if left_ms < SOON_MS:
        return warn(check, f"it shows {shown}: in {age(left_ms)}", RENEW)
    return ok(check, f"it shows {shown}")


def _ending(whose: str, certificates: list[x509.Certificate]) -> list[Symptom]:
    """Those that are at their end, or not good yet."""
    found, now = [], datetime.now(UTC)
    for each in certificates:
        left_ms = 1_000 * (each.not_valid_after_utc - now).total_seconds()
        if left_ms <= 0:
            found.append(bad(CHECK, f"{whose} has ended: {handshake.of(each)}", RENEW))
        elif left_ms < SOON_MS:
            found.append(warn(CHECK, f"{whose} ends in {age(left_ms)}", RENEW))
        if each.not_valid_before_utc > now:
            found.append(
                bad(CHECK, f"{whose} is not good yet", "set the clocks of all machines (NTP)")
            )
    return found


def _leads(chain: list[x509.Certificate], authorities: list[x509.Certificate]) -> bool:
    """Whether each of a chain has issued the one before it, and an authority the last that does."""
    for below, above in zip(chain, [*chain[1:], None], strict=True):
        if any(_issued(each, below) for each in authorities):
            return True
        if above is None or not _issued(above, below):
            return False
    return False


def _issued(above: x509.Certificate, below: x509.Certificate) -> bool:
    try:
        below.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _outside(authorities: Path) -> Symptom:
    return ok(CHECK, f"{authorities} and none of our own: we call as from outside, over the edge")


def _problem(error: OSError | ValueError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
