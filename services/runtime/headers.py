"""What the metadata of a call say of it, read once, where the call comes in."""

import random
import re
from collections.abc import Iterable, Mapping

from services.runtime import traces
from services.runtime.origin import FORWARDED

REQUEST_ID = "x-request-id"
AUTHORIZATION = "authorization"
BEARER = "Bearer "
READ = frozenset({REQUEST_ID, AUTHORIZATION, traces.HEADER, FORWARDED})
"""All that is looked at."""
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def read(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """The headers that are looked at; of one that came twice both values, with a comma between."""
    found: dict[str, str] = {}
    for key, value in metadata or ():
        if key in READ and isinstance(value, str):
            found[key] = f"{found[key]},{value}" if key in found else value
    return found


def request_id(headers: Mapping[str, str]) -> str:
    """The id that the caller gave the call, where it is one; else a new one."""
    given = headers.get(REQUEST_ID)
    if given is not None and _SANE_ID.fullmatch(given):
        return given
    return f"{random.getrandbits(64):016x}"


def token(headers: Mapping[str, str]) -> str | None:
    """The token that the caller shows; None for none, one that is not valid for anything else."""
    given = headers.get(AUTHORIZATION)
    if given is None:
        return None
    return given.removeprefix(BEARER) if given.startswith(BEARER) else ""
