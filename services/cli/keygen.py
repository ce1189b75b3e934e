"""`kozyr keygen`: the keys that are missing in the key folder."""

import argparse

from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, Failure
from services.cli.terminal import command, show
from services.runtime.keys import ensure_keys


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "keygen",
        "Make every key that is missing in the key folder, readable by its owner only. A key that "
        "exists is never replaced. `kozyr up` does it by itself.",
        "KOZYR_KEY_FOLDER=/etc/kozyr/keys kozyr keygen",
    )
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Make them."""
    folder = settings(arguments).keys()
    try:
        ensure_keys(folder)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from None
    show([f"keys: {folder}"])
    return FINE
