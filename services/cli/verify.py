"""`kozyr verify`: receipts checked offline, with no server."""

import argparse
from collections.abc import Callable
from pathlib import Path

from services.cli.addresses import add_data, settings
from services.cli.outcome import USAGE, Failure
from services.cli.terminal import command
from services.client.profile import ProfileFile
from services.client.seeds import SIGNER
from verifier.__main__ import check
from verifier.keys import read_keys
from verifier.receipt import load


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "verify",
        "Check receipts offline: hash chain, secrets, seeds, every deal and every decision of the "
        "rules, result, payouts and signature. Exits 1 and names the first thing that is wrong.",
        "kozyr verify game.json --mine",
    )
    made.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a receipt; with --archive a game's id"
    )
    made.add_argument(
        "--archive",
        type=Path,
        metavar="DIR",
        help="games of an archive: also its manifest, and their place under its checkpoint",
    )
    made.add_argument(
        "--trusted",
        action="append",
        type=Path,
        default=[],
        metavar="KEYFILE",
        help="a public key of the game service (PEM; default: game*.pub of the key folder, and "
        "without any the key in the receipt)",
    )
    made.add_argument(
        "--mine", action="store_true", help="check also that your own acknowledged seed is in it"
    )
    made.add_argument(
        "--earlier",
        type=Path,
        metavar="RECEIPT",
        help="a receipt you were given before: check that this one tells the same game",
    )
    made.add_argument("--profile", default="player", help="which of your accounts (player)")
    made.add_argument("--json", action="store_true", help="one JSON object a receipt")
    add_data(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Check them."""
    folder = settings(arguments).keys()
    named = arguments.trusted or sorted(folder.glob(f"{SIGNER}.pub")) + sorted(
        folder.glob(f"{SIGNER}.*.pub")
    )
    try:
        trusted = read_keys(named)
        earlier = None if arguments.earlier is None else arguments.earlier.read_bytes()
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}", USAGE) from None
    except ValueError as error:
        raise Failure(str(error), USAGE) from None
    kept = _kept(arguments.profile) if arguments.mine else _nothing
    source = Path.read_bytes if arguments.archive is None else _archived(arguments)
    return check(arguments.files, trusted, kept, earlier, as_json=arguments.json, source=source)


def _archived(arguments: argparse.Namespace) -> Callable[[Path], bytes]:
    """What finds a game's receipt in an archive; raises Failure where archive or game is wrong."""
    from services.cli.archiving import form, opened

    where = settings(arguments)

    def find(named: Path) -> bytes:
        return form.compact(opened.game_of(where, arguments.archive, str(named)))

    return find


def _kept(profile: str) -> Callable[[bytes], bytes | None]:
    """What the profile keeps of the game that a receipt is of; raises Failure for nothing."""
    folder = ProfileFile(profile).acknowledgements

    def find(document: bytes) -> bytes:
        path = folder / f"{load(document).game}.json"
        try:
            return path.read_bytes()
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}: nothing was acknowledged to you") from None

    return find


def _nothing(document: bytes) -> None:
    return None
