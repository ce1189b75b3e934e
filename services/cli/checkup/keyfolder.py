"""The folder of keys: what is in it, who may read it, and whether the services agree with it."""

import json
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.cli.checkup.reachable import PATIENCE_MS
from services.cli.checkup.symptoms import Symptom, bad, ok, warn
from services.kernel.errors import Refused
from services.runtime.clients import Client
from services.runtime.keyring import files, read_private
from services.runtime.keys import ISSUERS, load_public, read_secret
from services.runtime.settings import SERVICES, Settings

CHECK = "keys"
OTHERS = stat.S_IRWXG | stat.S_IRWXO
ROOT = 0
"""A cluster mounts secrets as files of root's, to be read by the group of the process."""


def look(settings: Settings) -> list[Symptom]:
    """The files, without a service: those that are here are whole and only their owner's."""
    folder = settings.keys()
    if not folder.is_dir():
        return [
            warn(
                CHECK,
                f"there is no folder {folder}",
                "name it by KOZYR_KEY_FOLDER or --data; where there are no keys yet, "
                "`kozyr keygen` makes them",
            )
        ]
    problems = [*_public(folder), *_private(folder), *_secret(folder), *_readable(folder)]
    if problems:
        return problems
    private = sum(1 for _ in folder.glob("*.key"))
    return [ok(CHECK, f"{folder}: {private} private, readable by their owner alone")]


def _public(folder: Path) -> Iterable[Symptom]:
    try:
        there = {issuer for issuer, _ in load_public(folder).values()}
    except (OSError, ValueError) as error:
        yield bad(CHECK, _problem(error, folder), "put the file back from its backup")
        return
    missing = [issuer for issuer in ISSUERS if issuer not in there]
    if missing:
        yield bad(
            CHECK,
            f"no public key of {', '.join(missing)} in {folder}: what they sign is refused",
            "copy their .pub files into the folders of all processes; `kozyr keygen` makes pairs "
            "that nobody has",
        )


def _private(folder: Path) -> Iterable[Symptom]:
    for issuer in ISSUERS:
        try:
            if files(folder, issuer):
                read_private(folder, issuer)
        except (OSError, ValueError, TypeError) as error:
            yield bad(
                CHECK,
                _problem(error, folder / f"{issuer}.key"),
                f"whoever signs as {issuer} is refused everywhere: put {issuer}.key and its .pub "
                "back from their backup",
            )


def _secret(folder: Path) -> Iterable[Symptom]:
    names = [*(f"{name}.seal" for name in SERVICES), *(p.name for p in folder.glob("master*.key"))]
    for name in names:
        path = folder / name
        try:
            if path.exists():
                read_secret(path)
        except (OSError, ValueError) as error:
            yield bad(CHECK, _problem(error, path), "put the file back from its backup")


def _readable(folder: Path) -> Iterable[Symptom]:
    """Private files that others may read, or that belong to somebody else than the folder."""
    for path in sorted((*folder.glob("*.key"), *folder.glob("*.seal"))):
        try:
            found, owner = path.stat(), folder.stat().st_uid
        except OSError as error:
            yield bad(CHECK, _problem(error, path), "let the services' account read it")
            continue
        seen = found.st_mode & (stat.S_IRWXO if found.st_uid == ROOT else OTHERS)
        if seen:
            yield bad(CHECK, f"{path} can be read by others", f"`chmod 600 {path}`")
        if found.st_uid != owner:
            yield warn(
                CHECK,
                f"{path} belongs to another account than its folder",
                f"`chown --reference={folder} {path}`",
            )


def _problem(error: Exception, path: Path) -> str:
    """What is wrong with a key's file, without anything that is in it."""
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror}"
    said = str(error)
    return said if said.startswith(str(path.parent)) else f"{path}: not a key"


async def published(settings: Settings) -> Symptom:
    """Whether lobby publishes the keys that this folder has: services that were given others
    refuse each other's tokens."""
    check = "published keys"
    client = Client(settings.address("lobby"), settings, timeout_ms=PATIENCE_MS, service="lobby")
    differ = []
    try:
        here = load_public(settings.keys())
        stub: Any = identity_pb2_grpc.IdentityServiceStub(client.channel)
        for issuer in ISSUERS:
            request = identity_pb2.GetKeysRequest(issuer=issuer)
            answer = await client.call(stub.GetKeys, request)
            told = {key["kid"] for key in json.loads(answer.jwks)["keys"]}
            if told != {kid for kid, (by, _) in here.items() if by == issuer}:
                differ.append(issuer)
    except (OSError, ValueError):
        return warn(check, "there are no public keys here to compare", "see `keys`")
    except Refused as refused:
        return warn(check, f"lobby does not name them ({refused.reason})", "see `service lobby`")
    finally:
        await client.close()
    if differ:
        return bad(
            check,
            f"lobby has other public keys of {', '.join(differ)} than {settings.keys()}",
            "bring the same .pub files into the key folders of all processes; they are read again "
            f"within {settings.key_reread_ms} ms",
        )
    return ok(check, "those that lobby publishes are those here")
