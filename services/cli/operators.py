"""Calls as an operator: with `KOZYR_TOKEN`, or a token signed with the key folder's own key."""

import os
from pathlib import Path

from services.cli.outcome import Failure
from services.client.calls import Caller
from services.runtime.keys import OPERATORS
from services.runtime.settings import Settings
from services.runtime.tokens import Signer, load_signer

TOKEN_VARIABLE = "KOZYR_TOKEN"  # noqa: S105 - the name of a variable
OPERATOR = "operator"
TOKEN_MS = 600_000
PATIENCE_MS = 4_000
"""How long a command waits for a service that does not answer."""


def signer(settings: Settings, issuer: str) -> Signer:
    """Who may sign as this issuer; raises Failure if the key folder has no such key."""
    folder: Path = settings.keys()
    try:
        return load_signer(folder, issuer, announce_ms=settings.key_announce_ms)
    except FileNotFoundError:
        raise Failure(
            f"there is no key {folder / issuer}.key; name the data folder of a `kozyr up` with "
            f"--data, or give a token in {TOKEN_VARIABLE}"
        ) from None
    except (OSError, ValueError) as error:
        raise Failure(f"{folder / issuer}.key: {error}") from None


def operator(settings: Settings, patience_ms: int = PATIENCE_MS, subject: str = OPERATOR) -> Caller:
    """Clients that call as an operator; raises Failure without a key or a token.

    A token that is given says itself who calls.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return Caller(settings, lambda: given, patience_ms)
    by = signer(settings, OPERATORS)
    try:
        by.issue(subject, TOKEN_MS)
    except ValueError:
        raise Failure("an operator's name has 1 to 64 printable characters, no blanks") from None
    return Caller(settings, lambda: by.issue(subject, TOKEN_MS), patience_ms)
