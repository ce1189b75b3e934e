"""Coming in: a person's name, the account of a profile, what to say when no server answers."""

import argparse
import getpass
import re

from services.cli.outcome import UNREACHABLE, Failure
from services.client.player import Player
from services.client.profile import ProfileFile
from services.kernel.errors import Kind, Refused

PLAYING_PATIENCE_MS = 300_000
"""How long a game that has begun may be out of reach before the terminal gives up."""
NAME_MAX = 24


async def enter(player: Player, arguments: argparse.Namespace) -> str | None:
    """Sign in with the profile, or sign up; a sentence if something is to be said of it."""
    try:
        said = await player.enter(ProfileFile(arguments.profile), name(arguments))
    except Refused as refused:
        if refused.kind is not Kind.UNAVAILABLE:
            raise
        raise Failure(
            f"{refused.reason}: no lobby answers; run `kozyr up`, or play with --offline",
            UNREACHABLE,
        ) from None
    player.patience_ms = PLAYING_PATIENCE_MS
    return said


def name(arguments: argparse.Namespace) -> str:
    """The name that was given, else the login's, as far as it may be one here."""
    given = arguments.name or _login()
    kept = re.sub(r"[^A-Za-z0-9 ._-]", "", given).strip()[:NAME_MAX]
    return kept or "Guest"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "Guest"
