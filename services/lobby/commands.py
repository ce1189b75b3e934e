"""What may be asked of a table: by players, by a start under way, and by a game that ends."""

from dataclasses import dataclass
from uuid import UUID

from services.lobby.model import BotLevel, KickReason, Rules, Wish


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot to sit down."""

    player: UUID
    level: BotLevel


@dataclass(frozen=True, slots=True)
class Open:
    """Open a table; the host takes seat 0 with `stack`, the bots the next ones.

    With `ready` the host is ready at once, and may wish for bots. `game` is the id a game gets if
    that starts one.
    """

    host: UUID
    rules: Rules
    stack: int
    game: UUID
    bots: tuple[Bot, ...] = ()
    ready: bool = False
    wish: Wish | None = None


@dataclass(frozen=True, slots=True)
class TakeSeat:
    """Sit down on `seat`, or on any free one; `stack` 0 means the least buy-in."""

    player: UUID
    seat: int | None
    stack: int
    code: str
    game: UUID
    ready: bool = False
    wish: Wish | None = None


@dataclass(frozen=True, slots=True)
class LeaveSeat:
    """Stand up; `game` is the id of a game that this may start."""

    player: UUID
    game: UUID


@dataclass(frozen=True, slots=True)
class AddBot:
    """The host puts a bot on `seat`, or on any free one."""

    player: UUID
    bot: Bot
    seat: int | None
    stack: int
    game: UUID


@dataclass(frozen=True, slots=True)
class RemoveBot:
    """The host takes a bot away."""

    player: UUID
    seat: int


@dataclass(frozen=True, slots=True)
class SetReady:
    """A player is ready or not; `game` is the id of the game that this may start."""

    player: UUID
    ready: bool
    game: UUID


@dataclass(frozen=True, slots=True)
class Rematch:
    """A player wants another game with those of the last one; `game` is its id if it starts."""

    player: UUID
    game: UUID


@dataclass(frozen=True, slots=True)
class Kick:
    """The host sends another person away."""

    player: UUID
    whom: UUID
    reason: KickReason
    game: UUID


@dataclass(frozen=True, slots=True)
class Invite:
    """The host lets somebody come, or come back."""

    player: UUID
    whom: UUID


@dataclass(frozen=True, slots=True)
class Uninvite:
    """The host takes an invitation back."""

    player: UUID
    whom: UUID


@dataclass(frozen=True, slots=True)
class HandOver:
    """The host makes another person the host."""

    player: UUID
    whom: UUID


@dataclass(frozen=True, slots=True)
class StartGame:
    """The host starts with the seats taken so far."""

    player: UUID
    game: UUID


@dataclass(frozen=True, slots=True)
class TopUp:
    """Add chips to one's stack."""

    player: UUID
    chips: int


@dataclass(frozen=True, slots=True)
class Close:
    """The host closes the table, or an operator (None) does."""

    player: UUID | None


@dataclass(frozen=True, slots=True)
class Abandon:
    """Give a start up; `unready` seats are at fault, none means everybody must be ready again."""

    game: UUID
    reason: str
    unready: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """An abandoned start is undone."""

    game: UUID


@dataclass(frozen=True, slots=True)
class Confirm:
    """The game is open."""

    game: UUID


@dataclass(frozen=True, slots=True)
class Line:
    """What a player takes out of a finished game."""

    player: UUID
    stack: int
    first: bool = False
    durak: bool = False


@dataclass(frozen=True, slots=True)
class EndGame:
    """The game has ended; `lines` in the game's seat order, none if it was cancelled.

    `left` are players who left for good in mid-game.
    """

    game: UUID
    finished: bool
    lines: tuple[Line, ...]
    winner: UUID | None
    left: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class CloseIdle:
    """Nothing has happened for long since the table's `version`: it closes."""

    version: int


@dataclass(frozen=True, slots=True)
class FreeSeat:
    """Who sits on `seat` has not been ready since the table's `version`: he loses it."""

    seat: int
    version: int
    game: UUID


@dataclass(frozen=True, slots=True)
class FillSeats:
    """The player on `seat` has waited long enough since `version`: the bots sit down, as many as
    there are free seats."""

    seat: int
    version: int
    bots: tuple[Bot, ...]
    game: UUID


PlayerCommand = (
    TakeSeat
    | LeaveSeat
    | AddBot
    | RemoveBot
    | SetReady
    | Rematch
    | Kick
    | Invite
    | Uninvite
    | HandOver
    | StartGame
    | TopUp
    | Close
)
DueCommand = CloseIdle | FreeSeat | FillSeats
Command = Open | PlayerCommand | Abandon | Fail | Confirm | EndGame | DueCommand
