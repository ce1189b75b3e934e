"""A receipt's JSON, read strictly: every field of the trusted part is there, and nothing else.

Octets are lower-case hexadecimal, chips decimal text, everything else whole numbers, text, true,
false and null; so the trusted part has one spelling (`canonical`), which is what is signed. What
stands under `readable` is for people and is not looked at.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from engines.cards import PACK_SIZE, Card
from engines.openings import Opening
from engines.shuffle import framed
from verifier.chain import Row
from verifier.wrong import Wrong

FORMAT = "kozyr receipt 1"
FULL, PLAYER = "full", "player"
INTEGER_MAX = 2**53 - 1
"""The largest whole number that every reader of JSON keeps."""

HEX = re.compile(r"(?:[0-9a-f]{2})*")
CHIPS = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Payout:
    """What a seat of a game for chips brought, put into banks, was paid, and ended with."""

    seat: int
    player: str
    brought: int
    paid_in: int
    paid_out: int
    ends_with: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A card shown to the receipt's player: of which deal, and what opens it. Without salt and
    path the service only states it, under its signature."""

    deal: int
    opening: Opening
    proven: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The service's signature that a seat's hash stands in the log that ends in `head`."""

    seat: int
    hash: bytes
    head: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt as it was read. `viewer` is the seat it was made for, None for nobody's or a
    spectator's; a full one opens everything and has neither viewer nor cards."""

    kind: str
    game: UUID
    rules: str
    viewer: int | None
    ended: bool
    version: int
    head: bytes
    server_seed: bytes
    rows: tuple[Row, ...]
    result: Mapping[str, Any] | None
    payouts: tuple[Payout, ...]
    cards: tuple[Shown, ...]
    acknowledged: Acknowledged | None
    signed: bytes
    key: str
    public_key: bytes
    signature: bytes


def canonical(trusted: Any) -> bytes:
    """The one spelling of the trusted part: keys sorted, no blanks, UTF-8."""
    made = json.dumps(trusted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return made.encode("utf-8", "surrogatepass")


def signed_octets(trusted: Any) -> bytes:
    """What the game service signs of a receipt."""
    return framed(FORMAT.encode(), canonical(trusted))


def load(document: bytes) -> Receipt:
    """Read a receipt; raises Wrong for whatever is not exactly one."""
    try:
        found = json.loads(
            document.decode("utf-8"),
            object_pairs_hook=_once,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as problem:
        detail = str(problem) if isinstance(problem, _Twice) else "is not JSON in UTF-8"
        raise Wrong("receipt", detail) from None
    whole = Object(found, "file", ("format", "receipt", "signature", "readable"))
    if whole.take("format", _text) != FORMAT:
        raise Wrong("file.format", f"must be {FORMAT!r}")
    trusted = found["receipt"]
    under = Object(found["signature"], "signature", ("key", "public_key", "signature"))
    given = Object(
        trusted,
        "receipt",
        (
            *("kind", "game", "rules", "viewer", "ended", "version", "head", "server_seed"),
            *("rows", "result", "payouts", "cards", "acknowledged"),
        ),
    )
    kind = given.take("kind", _text)
    if kind not in (FULL, PLAYER):
        raise Wrong("receipt.kind", f"must be {FULL} or {PLAYER}")
    made = Receipt(
        kind=kind,
        game=given.take("game", _uuid),
        rules=given.take("rules", _text),
        viewer=given.take("viewer", _or_none(_number)),
        ended=given.take("ended", _flag),
        version=given.take("version", _number),
        head=given.take("head", _hash),
        server_seed=given.take("server_seed", _octets),
        rows=given.take("rows", _list(_row)),
        result=given.take("result", _or_none(_result)),
        payouts=given.take("payouts", _list(_payout)),
        cards=given.take("cards", _list(_shown)),
        acknowledged=given.take("acknowledged", _or_none(_acknowledged)),
        signed=signed_octets(trusted),
        key=under.take("key", _text),
        public_key=under.take("public_key", _octets),
        signature=under.take("signature", _octets),
    )
    if kind == FULL and (made.viewer is not None or made.cards or made.acknowledged):
        raise Wrong("receipt.kind", "a full receipt is nobody's and has no cards of its own")
    if kind == PLAYER and (made.server_seed or made.result or made.payouts):
        raise Wrong("receipt.kind", "a player's receipt has no seed, result or payouts")
    return made


class Object:
    """A JSON object with exactly these fields; raises Wrong naming the first that is not."""

    def __init__(self, value: Any, where: str, fields: tuple[str, ...]) -> None:
        if not isinstance(value, dict):
            raise Wrong(where, "must be an object")
        for name in fields:
            if name not in value:
                raise Wrong(f"{where}.{name}", "is missing")
        for name in value:
            if name not in fields:
                raise Wrong(where, f"has a field {name[:40]!r} that means nothing")
        self._value, self._where = value, where

    def take(self, name: str, read: Callable[[Any, str], Any]) -> Any:
        """A field's value."""
        return read(self._value[name], f"{self._where}.{name}")


class _Twice(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice("an object has a field twice")
    return made


def _no_number(_: str) -> Any:
    raise _Twice("has a number that is not whole")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Wrong(where, "must be text")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Wrong(where, "must be true or false")
    return value


def _number(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        raise Wrong(where, "must be a whole number")
    return value


def _octets(value: Any, where: str) -> bytes:
    if not isinstance(value, str) or HEX.fullmatch(value) is None:
        raise Wrong(where, "must be octets in lower-case hexadecimal")
    return bytes.fromhex(value)


def _hash(value: Any, where: str) -> bytes:
    octets = _octets(value, where)
    if len(octets) != 32:
        raise Wrong(where, "must be 32 octets")
    return octets


def _chips(value: Any, where: str) -> int:
    if not isinstance(value, str) or CHIPS.fullmatch(value) is None:
        raise Wrong(where, "must be chips, in decimal text")
    return int(value)


def _uuid(value: Any, where: str) -> UUID:
    try:
        made = UUID(_text(value, where))
    except ValueError:
        made = None
    if made is None or str(made) != value:
        raise Wrong(where, "must be a game's id")
    return made


def _or_none(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, where: None if value is None else read(value, where)


def _list(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def run(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Wrong(where, "must be a list")
        return tuple(read(item, f"{where}[{at}]") for at, item in enumerate(value))

    return run


def _row(value: Any, where: str) -> Row:
    opened = ("salt", "secret", "metadata", "request_id", "body_hash")
    plain = ("version", "name", "schema", "payload", "secret_digest", "recorded_at", "hash")
    row = Object(value, where, (*plain, *opened))
    return Row(
        version=row.take("version", _number),
        name=row.take("name", _text),
        schema=row.take("schema", _number),
        payload=row.take("payload", _octets),
        secret_digest=row.take("secret_digest", _or_none(_hash)),
        salt=row.take("salt", _or_none(_hash)),
        secret=row.take("secret", _or_none(_octets)),
        metadata=row.take("metadata", _or_none(_octets)),
        request_id=row.take("request_id", _or_none(_octets)),
        body_hash=row.take("body_hash", _or_none(_octets)),
        recorded_at=row.take("recorded_at", _number),
        hash=row.take("hash", _hash),
    )


def _result(value: Any, where: str) -> Mapping[str, Any]:
    result = Object(value, where, ("winner", "durak", "null", "seats"))
    return {
        "winner": result.take("winner", _or_none(_number)),
        "durak": result.take("durak", _or_none(_number)),
        "null": result.take("null", _flag),
        "seats": result.take("seats", _list(_seat_result)),
    }


def _seat_result(value: Any, where: str) -> Mapping[str, Any]:
    seat = Object(value, where, ("seat", "player", "place", "points"))
    return {
        "seat": seat.take("seat", _number),
        "player": seat.take("player", _text),
        "place": seat.take("place", _number),
        "points": seat.take("points", _number),
    }


def _payout(value: Any, where: str) -> Payout:
    names = ("seat", "player", "brought", "paid_in", "paid_out", "ends_with")
    line = Object(value, where, names)
    return Payout(
        line.take("seat", _number),
        line.take("player", _text),
        *(line.take(name, _chips) for name in names[2:]),
    )


def _shown(value: Any, where: str) -> Shown:
    line = Object(value, where, ("deal", "place", "card", "salt", "path"))
    place, card = line.take("place", _number), line.take("card", _number)
    salt = line.take("salt", _or_none(_hash))
    path = line.take("path", _or_none(_list(_hash)))
    if place >= PACK_SIZE or card >= PACK_SIZE:
        raise Wrong(where, "no pack has such a card or place")
    if (salt is None) != (path is None):
        raise Wrong(where, "salt and path go together")
    opening = Opening(place, Card(card), salt or b"", path or ())
    return Shown(line.take("deal", _number), opening, salt is not None)


def _acknowledged(value: Any, where: str) -> Acknowledged:
    line = Object(value, where, ("seat", "hash", "head", "signature"))
    return Acknowledged(
        line.take("seat", _number),
        line.take("hash", _hash),
        line.take("head", _hash),
        line.take("signature", _octets),
    )
