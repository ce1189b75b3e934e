"""A player's receipt: what can be checked of a game by somebody who may not see all of it.

Nothing can be executed again without the hidden cards. Checked is that the seeds shown are those of
their hashes, that every card shown is where the deck committed to has it and fits what is public,
and that the player's own seed stands where it was acknowledged.
"""

from collections.abc import Sequence
from typing import Any

from engines import rami
from engines.openings import opens
from engines.shuffle import digest
from verifier import events as e
from verifier.chain import Row
from verifier.ed25519 import is_signed
from verifier.mine import acknowledgement
from verifier.receipt import Receipt, Shown
from verifier.wire import Unreadable
from verifier.wrong import Wrong


def check(receipt: Receipt) -> list[Any]:
    """Check a player's receipt; its events, with no secrets. Raises Wrong."""
    found = [_event(row) for row in receipt.rows]
    opened = found[0]
    if not isinstance(opened, e.GameOpened) or opened.game_id != str(receipt.game):
        raise Wrong(1, "the log does not begin with this game's GameOpened")
    if opened.rules != receipt.rules:
        raise Wrong("receipt.rules", "are not those the game was opened with")
    if receipt.viewer is not None and receipt.viewer not in range(len(opened.seats)):
        raise Wrong("receipt.viewer", "the game has no such seat")
    if isinstance(found[-1], e.GameFinished) != receipt.ended:
        raise Wrong("receipt.ended", "is not what the last event says")
    _check_seeds(receipt.rows, found)
    _check_cards(receipt.cards, found, own=opened.options.reveal == "own")
    if receipt.acknowledged is not None:
        _check_acknowledged(receipt, found)
    return found


def _event(row: Row) -> Any:
    for name in ("salt", "secret", "metadata", "request_id", "body_hash"):
        if getattr(row, name) is not None:
            raise Wrong(row.version, f"{name} is not shown in a player's receipt")
    try:
        return e.decode(row, closed=True)
    except Unreadable as problem:
        raise Wrong(row.version, f"cannot be read: {problem}") from None


def _check_seeds(rows: Sequence[Row], found: Sequence[Any]) -> None:
    """A hash a seat, taken before the first seed is shown; each seed shown is that of its hash."""
    hashes: dict[int, bytes] = {}
    closed = False
    for row, event in zip(rows, found, strict=True):
        match event:
            case e.CommitsClosed():
                closed = True
            case e.SeedCommitted():
                if closed or event.seat in hashes:
                    raise Wrong(row.version, "a hash came late or twice")
                hashes[event.seat] = event.hash
            case e.SeedRevealed():
                if not closed or hashes.get(event.seat) != digest(event.seed):
                    raise Wrong(row.version, "the seed is not that of its hash")


def _check_cards(cards: Sequence[Shown], found: Sequence[Any], *, own: bool) -> None:
    roots = {event.deal: event.cards_root for event in found if isinstance(event, e.DealSeeded)}
    packs = _packs(found)
    places: set[tuple[int, int]] = set()
    named: set[tuple[int, int]] = set()
    for at, shown in enumerate(cards):
        where, opening = f"receipt.cards[{at}]", shown.opening
        pack = packs.get(shown.deal)
        if pack is None or opening.card not in pack or opening.place >= len(pack):
            raise Wrong(where, "no such card, place or deal")
        if (shown.deal, opening.place) in places or (shown.deal, opening.card) in named:
            raise Wrong(where, "a card or a place comes twice")
        places.add((shown.deal, opening.place))
        named.add((shown.deal, opening.card))
        root = roots.get(shown.deal)
        if shown.proven != own or (own and root is None):
            raise Wrong(where, "cards are proven where, and only where, they are opened singly")
        if root is not None and not opens(root, len(pack), opening):
            raise Wrong(where, "this card is not in the deck that was committed to")


def _packs(found: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    """The pack of each deal that was made, by its number."""
    made = {}
    opened = found[0]
    engine = e.RULEBOOK[opened.rules]
    for event in found:
        if type(event).__name__ == "Dealt":
            number = event.round if isinstance(event, rami.Dealt) else event.deal
            made[number] = tuple(engine.PACK)
    return made


def _check_acknowledged(receipt: Receipt, found: Sequence[Any]) -> None:
    made = receipt.acknowledged
    if made is None or made.seat != receipt.viewer:
        raise Wrong("receipt.acknowledged.seat", "is not the seat of this receipt")
    for row, event in zip(receipt.rows, found, strict=True):
        if isinstance(event, e.SeedCommitted) and event.seat == made.seat:
            if (event.hash, row.hash) != (made.hash, made.head):
                raise Wrong("receipt.acknowledged", "is not of the hash that stands in the log")
            signed = acknowledgement(receipt.game, made.seat, made.hash, made.head)
            if not is_signed(receipt.public_key, signed, made.signature):
                raise Wrong("receipt.acknowledged.signature", "is not that of the key")
            return
    raise Wrong("receipt.acknowledged", "no hash of this seat stands in the log")
