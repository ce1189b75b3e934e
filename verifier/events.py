"""The events of a game's log around those of its rules, and how a row becomes an event.

Seats are 0-based, durations milliseconds. A row of the rules' own carries the game's name before
the dot (`azi.BidMade`) and becomes the engine's event; `game.` are the events here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from engines import azi, durak, rami, rulebook
from engines.api import InvalidOption, read_options
from engines.cards import Card
from verifier.chain import Row
from verifier.numbers import NUMBERS
from verifier.wire import Unreadable, octets_of, parse, read, read_present

SCHEMA = 1
ENGINES: Mapping[str, Any] = {"azi": azi, "durak": durak, "rami": rami}
"""By the name of the game: what its options and events are made of."""
DEALT = (azi.Dealt, durak.Dealt, rami.Dealt)
"""The events that make a deal; a game's deals are numbered from 1 in their order."""
RULEBOOK: Mapping[str, Any] = rulebook.RULEBOOK
"""By the version of the rules, which a game names once and for all: what executes it."""


@dataclass(frozen=True, slots=True)
class SeatOpened:
    """A seat: its player, its bot's level (None for a person), the chips it brought, and the
    reservation that holds them."""

    player_id: str
    bot_level: int | None
    stack: int
    reservation_id: str


@dataclass(frozen=True, slots=True)
class GameOpened:
    """The game was opened; `options` is the engine's Options."""

    table_id: str
    rules: str
    options: Any
    seats: tuple[SeatOpened, ...]
    last_winner: int | None
    turn_ms: int
    seed_ms: int
    spectators: bool
    absent_policy: int
    server_seed_hash: bytes
    game_id: str
    time_bank_ms: int
    spectator_delay: int
    bot_after: int
    no_hints: bool


@dataclass(frozen=True, slots=True)
class SeedCommitted:
    """A player sent the hash of a seed."""

    seat: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class CommitsClosed:
    """No more hashes are taken; `absent` seats committed none."""

    absent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SeedRevealed:
    """A player revealed the seed of his hash."""

    seat: int
    seed: bytes


@dataclass(frozen=True, slots=True)
class SeedsClosed:
    """All seeds that count are in; those of `absent` seats do not."""

    absent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DealSeeded:
    """The hash of a deal's seed and, where cards are opened one by one, the root over them."""

    deal: int
    seed_hash: bytes
    cards_root: bytes | None


@dataclass(frozen=True, slots=True)
class ClockCredited:
    """Time that an outage took from a decision."""

    turn: int
    credit_ms: int


@dataclass(frozen=True, slots=True)
class DroppedCard:
    """A card dropped face down."""

    seat: int
    card: Card


@dataclass(frozen=True, slots=True)
class DealRevealed:
    """A deal laid open: its seed, its deck, what was dropped in it."""

    deal: int
    seed: bytes
    deck: tuple[Card, ...]
    dropped: tuple[DroppedCard, ...]


@dataclass(frozen=True, slots=True)
class BotTookOver:
    """A bot plays for an absent player from here on."""

    seat: int


@dataclass(frozen=True, slots=True)
class PlayerReturned:
    """The player is back."""

    seat: int


@dataclass(frozen=True, slots=True)
class SeatResult:
    """What a seat takes out of the game."""

    seat: int
    player_id: str
    stack_before: int
    stack_after: int
    place: int
    points: int


@dataclass(frozen=True, slots=True)
class Result:
    """How a game came out."""

    winner: int | None
    durak: int | None
    null: bool
    seats: tuple[SeatResult, ...]


@dataclass(frozen=True, slots=True)
class GameFinished:
    """The game ended by its rules; `server_seed` is empty where cards are opened one by one."""

    result: Result
    server_seed: bytes


FRAME: Mapping[str, Any] = {
    cls.__name__: cls
    for cls in (
        SeedCommitted,
        CommitsClosed,
        SeedRevealed,
        SeedsClosed,
        DealSeeded,
        ClockCredited,
        DealRevealed,
        BotTookOver,
        PlayerReturned,
        GameFinished,
    )
}


def decode(row: Row, *, closed: bool = False) -> Any:
    """The event of a row; raises Unreadable. With `closed` its secret may be missing (None)."""
    if row.schema != SCHEMA:
        raise Unreadable(f"schema {row.schema} is unknown")
    kind, _, name = row.name.partition(".")
    if kind == "game" and name == "GameOpened":
        return _opened(row.payload)
    if kind == "game" and name in FRAME:
        if row.secret is not None:
            raise Unreadable(f"{row.name} has no secret")
        return read(FRAME[name], row.name, row.payload)
    classes = (
        {cls.__name__: cls for cls in get_args(ENGINES[kind].Event)} if kind in ENGINES else {}
    )
    if name not in classes:
        raise Unreadable("is no event of a game")
    return _engine_event(classes[name], kind, row, closed=closed)


def _engine_event(cls: Any, kind: str, row: Row, *, closed: bool) -> Any:
    hidden = get_type_hints(cls).get("secret")
    if hidden is None:
        if row.secret is not None:
            raise Unreadable(f"{row.name} has no secret")
        return read(cls, row.name, row.payload)
    if row.secret is None and not closed:
        raise Unreadable(f"the secret of {row.name} is missing")
    secret = None
    if row.secret is not None:
        secret = read(hidden, f"{kind}.{hidden.__name__}", row.secret)
    return read(cls, row.name, row.payload, secret=secret)


def _opened(payload: bytes) -> GameOpened:
    message = "game.GameOpened"
    wrapped = octets_of(message, "options", payload)
    fields = list(parse(wrapped))
    names = {number: name for name, number in NUMBERS["game.GameOptions"].items()}
    if len(fields) != 1 or fields[0][0] not in names or not isinstance(fields[0][1], bytes):
        raise Unreadable(f"{message}.options: must be those of one game")
    game, octets = names[fields[0][0]], fields[0][1]
    cls = ENGINES[game].Options
    try:
        options = read_options(cls, read_present(cls, f"{game}.Options", octets))
    except InvalidOption as problem:
        raise Unreadable(f"{message}.options.{problem.option}: {problem.problem}") from None
    opened = read(GameOpened, message, payload, options=options)
    if opened.rules.partition(" ")[0] != game:
        raise Unreadable(f"{message}: the options are not those of the game")
    return opened
