"""`kozyr keygen`: the keys of the key folder: those that are missing, the next, the last."""

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, Failure
from services.cli.terminal import command, grid, show
from services.cli.token import MINUTE_MS, MINUTES_MAX
from services.runtime.jwks import key_set
from services.runtime.keyring import FIRST, SigningKey, choose, files, read_private
from services.runtime.keys import ISSUERS, OPERATORS, PLAYERS, ensure_keys, load_public, make_next
from services.runtime.settings import Settings

RECEIPTS = "game"
"""Whose first key signs more than tokens, and stays."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "keygen",
        "Make every key that is missing in the key folder, readable by its owner only. A key that "
        "exists is never replaced. `kozyr up` does it by itself. An issuer of tokens changes its "
        "key while everything runs: --next makes the next one, which signs after "
        "KOZYR_KEY_ANNOUNCE_MS; --retire removes those before it once their last token has ended.",
        "KOZYR_KEY_FOLDER=/etc/kozyr/keys kozyr keygen",
    )
    doing = made.add_mutually_exclusive_group()
    doing.add_argument("--next", choices=ISSUERS, metavar="ISSUER", help="make the next key")
    doing.add_argument(
        "--retire", choices=ISSUERS, metavar="ISSUER", help="remove the keys before the one in use"
    )
    doing.add_argument("--list", action="store_true", help="the keys that sign tokens, and since")
    doing.add_argument(
        "--jwks", choices=ISSUERS, metavar="ISSUER", help="its public keys as a JSON Web Key Set"
    )
    made.add_argument(
        "--at-once", action="store_true", help="with --retire: though tokens of theirs still run"
    )
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    where = settings(arguments)
    folder = where.keys()
    try:
        if arguments.next:
            show(_next(folder, arguments.next, where))
        elif arguments.retire:
            show(_retire(folder, arguments.retire, where, at_once=arguments.at_once))
        elif arguments.list:
            show(_list(folder, where))
        elif arguments.jwks:
            sys.stdout.write(key_set(load_public(folder), arguments.jwks) + "\n")
        else:
            ensure_keys(folder)
            show([f"keys: {folder}"])
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from None
    except ValueError as error:
        raise Failure(str(error)) from None
    return FINE


def _next(folder: Path, issuer: str, where: Settings) -> list[str]:
    number = max(files(folder, issuer), default=0) + 1
    if number == FIRST:
        raise Failure(f"{folder}: there is no {issuer}.key yet; `kozyr keygen` makes it")
    make_next(folder, issuer, number)
    key = read_private(folder, issuer)[-1]
    at = _moment(key.since + where.key_announce_ms / 1_000)
    return [f"{folder / issuer}.{number}.key: {key.key_id} signs from {at} UTC on"]


def _retire(folder: Path, issuer: str, where: Settings, *, at_once: bool) -> list[str]:
    keys = read_private(folder, issuer)
    used = choose(keys, time.time() - where.key_announce_ms / 1_000)
    gone = [n for n in files(folder, issuer) if n < used.number]
    if issuer == RECEIPTS:
        gone = [number for number in gone if number != FIRST]
    if not gone:
        return [f"{issuer}: nothing to remove, {used.key_id} signs"]
    ends = _last_token(issuer, used, where)
    if time.time() < ends and not at_once:
        raise Failure(f"a token of an earlier key of {issuer} may run until {_moment(ends)} UTC")
    for number in gone:
        path = files(folder, issuer)[number]
        path.unlink()
        path.with_suffix(".pub").unlink(missing_ok=True)
    return [f"{issuer}: removed {len(gone)}, {used.key_id} signs"]


def _last_token(issuer: str, used: SigningKey, where: Settings) -> float:
    """When the last token of the keys before this one has ended (Unix seconds)."""
    lives = {PLAYERS: where.player_token_ms, OPERATORS: MINUTES_MAX * MINUTE_MS}
    life = lives.get(issuer, where.service_token_ms)
    return used.since + (where.key_announce_ms + life + where.clock_skew_ms) / 1_000


def _list(folder: Path, where: Settings) -> list[str]:
    rows = []
    ripe = time.time() - where.key_announce_ms / 1_000
    for issuer in ISSUERS:
        if not files(folder, issuer):
            continue
        keys = read_private(folder, issuer)
        used = choose(keys, ripe)
        for key in keys:
            state = "signs" if key == used else "earlier" if key.number < used.number else "next"
            rows.append((issuer, key.number, key.key_id, _moment(key.since), state))
    return grid(("issuer", "number", "key id", "there since (UTC)", "state"), rows)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
