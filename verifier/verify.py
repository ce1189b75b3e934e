"""One receipt checked from beginning to end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.shuffle import digest
from verifier import events as e
from verifier import glimpse, mine, phases
from verifier.chain import GENESIS, Row, link, secret_digest
from verifier.earlier import check as compare
from verifier.ed25519 import is_signed
from verifier.keys import key_id
from verifier.play import Game, execute
from verifier.receipt import FULL, Receipt, load
from verifier.results import payouts_of
from verifier.wrong import Wrong

FULL_CHECKS = (
    *("chain", "secrets", "seeds", "deals", "rules", "clock", "result", "payouts", "signature"),
)
PLAYER_CHECKS = ("seeds", "cards", "signature")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was checked of a receipt that holds. `pinned`: its key was among those trusted;
    `contributed`: the seats whose own seeds are in the cards; None while nothing is dealt."""

    receipt: Receipt
    checks: tuple[str, ...]
    pinned: bool
    contributed: tuple[int, ...] | None


def verify(
    document: bytes,
    trusted: Mapping[str, bytes] | None = None,
    kept: bytes | None = None,
    earlier: bytes | None = None,
) -> Verdict:
    """Check a receipt; raises Wrong with the first thing that is not as it must be.

    `trusted` are the public keys that may have signed it, by name; without any, the key it brings
    is believed. `kept` is the player's own acknowledgement, as his client wrote it down; `earlier`
    a receipt he was given before, signed with the same key or another trusted one.
    """
    receipt, found = _checked(document, trusted)
    checks = FULL_CHECKS if receipt.kind == FULL else PLAYER_CHECKS
    if earlier is not None:
        before, _ = _checked(earlier, trusted or {receipt.key: receipt.public_key})
        compare(before, receipt, found)
        checks = (*checks, "earlier")
    if kept is not None:
        mine.check(mine.load(kept), receipt, found, receipt.public_key)
        checks = (*checks, "mine")
    return Verdict(receipt, checks, bool(trusted), _contributed(found))


def _contributed(found: list[Any]) -> tuple[int, ...] | None:
    if not any(isinstance(event, e.DealSeeded) for event in found):
        return None
    return tuple(sorted(event.seat for event in found if isinstance(event, e.SeedRevealed)))


def _checked(document: bytes, trusted: Mapping[str, bytes] | None) -> tuple[Receipt, list[Any]]:
    """A receipt that holds by itself, and its events."""
    receipt = load(document)
    found = check_full(receipt) if receipt.kind == FULL else _check_player(receipt)
    _check_signature(receipt, trusted)
    return receipt, found


def check_full(receipt: Receipt) -> list[Any]:
    """Check everything but the signature of a full receipt; its events."""
    _check_chain(receipt)
    game = execute(receipt.game, receipt.server_seed, receipt.rows)
    _check_claims(receipt, game)
    found = [e.decode(row) for row in receipt.rows]
    phases.check(receipt.rows, found)
    return found


def _check_player(receipt: Receipt) -> list[Any]:
    _check_order(receipt)
    found = glimpse.check(receipt)
    phases.check(receipt.rows, found)
    return found


def _check_order(receipt: Receipt) -> None:
    """Versions without a gap, up to the head."""
    for at, row in enumerate(receipt.rows, start=1):
        if row.version != at:
            raise Wrong(at, f"stands where version {row.version} is said to be")
    if not receipt.rows or receipt.version != len(receipt.rows):
        raise Wrong("receipt.version", f"there are {len(receipt.rows)} rows")
    if receipt.rows[-1].hash != receipt.head:
        raise Wrong("receipt.head", "is not the hash of the last row")


def _check_chain(receipt: Receipt) -> None:
    """Every hash, and every secret against the digest in its row."""
    previous = GENESIS
    salted = any(row.salt is not None for row in receipt.rows)
    for at, row in enumerate(receipt.rows, start=1):
        _check_whole(row, salted=salted)
        try:
            made = link(previous, receipt.game, row)
        except (OverflowError, UnicodeEncodeError):
            raise Wrong(at, "a field holds what is never stored there") from None
        if row.version != at or made != row.hash:
            raise Wrong(at, "the hash is not that of this row and the one before")
        previous = row.hash
        opened = row.salt is not None and row.secret is not None
        if opened and secret_digest(row.salt or b"", row.secret or b"") != row.secret_digest:
            raise Wrong(at, "the secret is not the one the row was made with")
    _check_order(receipt)


def _check_whole(row: Row, *, salted: bool) -> None:
    """What is shown of a row in a full receipt: all, but for the secret of GameOpened, and no salt
    at all where they are lost."""
    if row.metadata is None:
        raise Wrong(row.version, "metadata is missing")
    if (row.request_id is None) != (row.body_hash is None):
        raise Wrong(row.version, "request_id and body_hash go together")
    shown = row.secret_digest is not None and row.name != "game.GameOpened"
    if (row.salt is not None, row.secret is not None) != (shown and salted, shown):
        raise Wrong(
            row.version, "salt and secret are shown for each row with a secret, and only so"
        )


def _check_claims(receipt: Receipt, game: Game) -> None:
    """What the receipt says of the game is what its execution came to."""
    if game.opened is None or game.result is None:
        raise Wrong(receipt.version, "the game has not ended by its rules")
    if receipt.rules != game.opened.rules:
        raise Wrong("receipt.rules", "are not those the game was opened with")
    if not receipt.ended:
        raise Wrong("receipt.ended", "the game has ended")
    if digest(receipt.server_seed) != game.opened.server_seed_hash:
        raise Wrong("receipt.server_seed", "is not the one that was committed to")
    result = {
        "winner": game.result.winner,
        "durak": game.result.durak,
        "null": game.result.null,
        "seats": tuple(
            {"seat": s.seat, "player": s.player_id, "place": s.place, "points": s.points}
            for s in game.result.seats
        ),
    }
    if receipt.result != result:
        raise Wrong("receipt.result", "is not what the game came to")
    if receipt.payouts != payouts_of(game.opened.seats, game.state):
        raise Wrong("receipt.payouts", "are not what the game's log says")


def _check_signature(receipt: Receipt, trusted: Mapping[str, bytes] | None) -> None:
    if receipt.key != key_id(receipt.public_key):
        raise Wrong("signature.key", "is not the name of the public key")
    if trusted and trusted.get(receipt.key) != receipt.public_key:
        raise Wrong("signature.public_key", f"the key {receipt.key} is not among those trusted")
    if not is_signed(receipt.public_key, receipt.signed, receipt.signature):
        raise Wrong("signature.signature", "is not that of the key under this receipt")
