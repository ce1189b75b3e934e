"""A table's log: what it decides about, what happened, and the state that follows.

Players and games are UUIDs, table seats 0-based, chips int64, durations milliseconds, moments
Unix microseconds of database time. Event names and fields are the storage format.
"""

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from services.kernel.seats import AbsentPolicy


class Variant(IntEnum):
    """One of the games Kozyr hosts."""

    AZI = 1
    DURAK = 2
    RAMI = 3


class BotLevel(IntEnum):
    """How well a seat's bot plays, as in `services.kernel.seats`; PERSON is no bot."""

    PERSON = 0
    EASY = 1
    NORMAL = 2
    HARD = 3


class Visibility(IntEnum):
    """Who may find a table: everybody; whoever has its code; whom the host named."""

    PUBLIC = 1
    PRIVATE = 2
    INVITED = 3


class KickReason(IntEnum):
    """Why a host sent somebody away; NONE where nobody did."""

    NONE = 0
    ABSENT = 1
    CONDUCT = 2
    SEAT_NEEDED = 3
    OTHER = 4


class LeftCause(IntEnum):
    """Why a seat was left: its player went (or a bot was taken away), the host sent him away, or he
    was not ready for too long."""

    LEFT = 0
    KICKED = 1
    UNREADY = 2


class Phase(IntEnum):
    """What a table is doing; UNOPENED before its first event."""

    UNOPENED = 0
    WAITING = 1
    STARTING = 2
    PLAYING = 3
    CLOSED = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """What the host decided, complete.

    `options` is the game's own Options, which tables only keep and pass on. `seats_min` is the
    fewest seats the game can be played with. `entry_fee` is 0 where no chips move; then both
    buy-in bounds are 0 too. `invite_code` is empty at a listed table; it opens a private one only.
    `invited` are those who may come to a table by invitation, which is not listed either.
    `time_bank_ms` is what each seat may take in a game beyond its decisions' time; spectators are
    `spectator_delay` decisions behind; a bot takes over after `bot_after` missed turns, 0 for the
    usual number.
    """

    variant: Variant
    options: object
    seats: int
    seats_min: int
    turn_ms: int
    listed: bool
    invite_code: str
    spectators: bool
    absent: AbsentPolicy
    entry_fee: int
    buy_in_min: int
    buy_in_max: int
    series: bool
    time_bank_ms: int = 0
    spectator_delay: int = 0
    bot_after: int = 0
    no_hints: bool = False
    no_chat: bool = False
    no_bots: bool = False
    by_invitation: bool = False
    invited: tuple[UUID, ...] = ()

    @property
    def visibility(self) -> Visibility:
        """Who may find the table."""
        if self.listed:
            return Visibility.PUBLIC
        return Visibility.INVITED if self.by_invitation else Visibility.PRIVATE


@dataclass(frozen=True, slots=True)
class Wish:
    """Bots of this level on the seats that are free after `after_ms`: at the moment `at`."""

    level: BotLevel
    after_ms: int
    at: int = 0


@dataclass(frozen=True, slots=True)
class Seat:
    """A taken seat. `problem` says why its player must act before he can be ready, or is empty.

    `since` is the table's version when it was taken or last became unready; `played` whether it
    took part in the last game, `again` whether its player wants another with those who did.
    `fresh` chips of the stack have not been in a game at this table.
    """

    player: UUID
    bot: BotLevel
    stack: int
    ready: bool
    problem: str = ""
    since: int = 0
    played: bool = False
    again: bool = False
    wish: Wish | None = None
    fresh: int = 0


@dataclass(frozen=True, slots=True)
class Kicked:
    """Whom the host sent away, and why."""

    player: UUID
    reason: KickReason


@dataclass(frozen=True, slots=True)
class Tally:
    """A player's firsts and duraks over a table's Durak games."""

    player: UUID
    wins: int
    losses: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the fold of its log.

    `game` is the game being opened or played, or the last one; `playing` the table's seats that
    take part in it, in the order in which the game numbers them. `abandoned` is the reason a start
    is being undone for, while that lasts; `failure` the reason the last start failed for.
    """

    phase: Phase = Phase.UNOPENED
    rules: Rules | None = None
    host: UUID | None = None
    seats: tuple[Seat | None, ...] = ()
    game: UUID | None = None
    playing: tuple[int, ...] = ()
    abandoned: str = ""
    failure: str = ""
    games: int = 0
    last_winner: UUID | None = None
    series: tuple[Tally, ...] = ()
    kicked: tuple[Kicked, ...] = ()
    opened_at: int = 0
    version: int = 0

    def seat_of(self, player: UUID) -> int | None:
        """Where the player sits."""
        return next((n for n, s in enumerate(self.seats) if s and s.player == player), None)

    def taken(self) -> tuple[tuple[int, Seat], ...]:
        """The taken seats with their numbers, in order."""
        return tuple((n, s) for n, s in enumerate(self.seats) if s is not None)

    def free(self) -> tuple[int, ...]:
        """The free seats, in order."""
        return tuple(n for n, s in enumerate(self.seats) if s is None)

    def people(self) -> tuple[tuple[int, Seat], ...]:
        """The seats with persons, in order."""
        return tuple((n, s) for n, s in self.taken() if s.bot is BotLevel.PERSON)


@dataclass(frozen=True, slots=True)
class TableOpened:
    """The table was opened."""

    host: UUID
    rules: Rules


@dataclass(frozen=True, slots=True)
class SeatTaken:
    """Somebody sat down; a bot is ready at once."""

    seat: int
    player: UUID
    bot: BotLevel
    stack: int
    wish: Wish | None = None


@dataclass(frozen=True, slots=True)
class SeatLeft:
    """A seat was left; `reason` is the host's who sent its player away."""

    seat: int
    cause: LeftCause = LeftCause.LEFT
    reason: KickReason = KickReason.NONE


@dataclass(frozen=True, slots=True)
class ReadySet:
    """A player is ready or not; `again` when he wants another game with those of the last one."""

    seat: int
    ready: bool
    again: bool = False


@dataclass(frozen=True, slots=True)
class ToppedUp:
    """Chips were added to a stack."""

    seat: int
    chips: int


@dataclass(frozen=True, slots=True)
class HostChanged:
    """The host left or handed over; another player is the host."""

    host: UUID


@dataclass(frozen=True, slots=True)
class PlayerInvited:
    """A player may come, or come back who had been sent away."""

    player: UUID


@dataclass(frozen=True, slots=True)
class PlayerUninvited:
    """A player may come no more."""

    player: UUID


@dataclass(frozen=True, slots=True)
class StartBegun:
    """A game is about to open with these table seats, in this order."""

    game: UUID
    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartAbandoned:
    """The start was given up, and what it did is being undone; `unready` seats must act."""

    game: UUID
    reason: str
    unready: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The start is undone: the game will never open, and no chips are held for it."""

    game: UUID


@dataclass(frozen=True, slots=True)
class GameStarted:
    """The game is open."""

    game: UUID


@dataclass(frozen=True, slots=True)
class SeatOutcome:
    """What a table seat takes out of a game."""

    seat: int
    stack: int
    first: bool
    durak: bool


@dataclass(frozen=True, slots=True)
class GameEnded:
    """A game ended; `finished` when it was played to its end, `winner` whoever won Azi's bank."""

    game: UUID
    finished: bool
    outcomes: tuple[SeatOutcome, ...]
    winner: UUID | None


@dataclass(frozen=True, slots=True)
class TableClosed:
    """No more games."""


Event = (
    TableOpened
    | SeatTaken
    | SeatLeft
    | ReadySet
    | ToppedUp
    | HostChanged
    | PlayerInvited
    | PlayerUninvited
    | StartBegun
    | StartAbandoned
    | StartFailed
    | GameStarted
    | GameEnded
    | TableClosed
)
