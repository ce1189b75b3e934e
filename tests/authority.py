"""An authority for tests: certificates of any name and any age, laid where settings say."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

from services.runtime.settings import SERVICES

FILES: Mapping[str, str] = {
    "tls_cert_file": "tls.crt",
    "tls_key_file": "tls.key",
    "tls_ca_file": "ca.crt",
}
"""The settings and the names of the files, as a cluster's secrets have them."""
OPERATORS = "operators"


def swap(folder: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Lays files into `folder/name` as a kubelet does: a new folder, and a link moved to it."""
    there = folder / name
    there.mkdir(exist_ok=True, parents=True)
    held = there / f"..{len(list(there.iterdir()))}"
    held.mkdir()
    for file, content in files.items():
        (held / file).write_bytes(content)
        (held / file).chmod(0o600 if file.endswith(".key") else 0o644)
        link = there / file
        if not link.is_symlink():
            link.symlink_to(Path("..data") / file)
    draft = there / "..data_tmp"
    draft.symlink_to(held.name)
    draft.rename(there / "..data")


def given(folder: Path) -> dict[str, Any]:
    """The settings that lead to certificates in this folder."""
    return {name: folder / file for name, file in FILES.items()}


def variables(folder: Path) -> dict[str, str]:
    """The same as variables."""
    return {f"KOZYR_{name.upper()}": str(path) for name, path in given(folder).items()}


class Authority:
    """Issues certificates; two of them know nothing of each other."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.pem: bytes = self._ca.cert_pem.bytes()

    def files(
        self, *names: str, trusting: Sequence["Authority"] = (), days: float = 1.0
    ) -> dict[str, bytes]:
        """A certificate of these names that ends in so many days (has ended, below zero), its key,
        and the authorities that its holder trusts: this one unless others are named."""
        ends = datetime.now(UTC) + timedelta(days=days)
        made = self._ca.issue_cert(
            *names, not_before=ends - timedelta(days=100), not_after=ends, common_name=names[0]
        )
        return {
            "tls.crt": b"".join(part.bytes() for part in made.cert_chain_pems),
            "tls.key": made.private_key_pem.bytes(),
            "ca.crt": b"".join(each.pem for each in trusting or (self,)),
        }

    def lay(
        self,
        folder: Path,
        *names: str,
        trusting: Sequence["Authority"] = (),
        days: float = 1.0,
    ) -> dict[str, Any]:
        """Lays a certificate into a folder of its first name; the settings that lead there."""
        swap(folder, names[0], self.files(*names, trusting=trusting, days=days))
        return given(folder / names[0])

    def lay_all(
        self, folder: Path, trusting: Sequence["Authority"] = ()
    ) -> dict[str, dict[str, str]]:
        """Certificates for the four services and operators; the variables of each."""
        for name in SERVICES:
            self.lay(folder, name, f"{name}-headless", trusting=trusting)
        self.lay(folder, OPERATORS, trusting=trusting)
        return {name: variables(folder / name) for name in (*SERVICES, OPERATORS)}
