"""A game's log as the game service knows it: its own events around the engine's, and the state.

The service's events frame the engine's: opening, seeds, revealed deals, absence, the end. Seats
are 0-based, chips int64, durations milliseconds, `at` and deadlines Unix microseconds.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from uuid import UUID

from engines.cards import Card
from services.kernel.seats import BOT_AFTER_USUAL, AbsentPolicy, BotLevel

NO_GAME = UUID(int=0)


class Stage(IntEnum):
    """Where a game stands as a whole; ABSENT before it is opened."""

    ABSENT = 0
    COMMITTING = 1
    REVEALING = 2
    PLAYING = 3
    FINISHED = 4
    CANCELLED = 5


class SeedStatus(IntEnum):
    """What became of a seat's contribution to the shuffle."""

    AWAITED = 1
    COMMITTED = 2
    REVEALED = 3
    ABSENT = 4


@dataclass(frozen=True, slots=True)
class SeatOpened:
    """A seat as the game was opened: the player's id, the bot's level (None for a person), Azi's
    stack and the wallet reservation that holds it."""

    player_id: str
    bot_level: BotLevel | None
    stack: int
    reservation_id: str


@dataclass(frozen=True, slots=True)
class GameOpenedSecret:
    """The server's seed, and the seed of the bots' choices (32 bytes each)."""

    server_seed: bytes
    bot_seed: bytes


@dataclass(frozen=True, slots=True)
class GameOpened:
    """The game was opened; `options` is the engine's Options."""

    game_id: str
    table_id: str
    rules: str
    options: Any
    seats: tuple[SeatOpened, ...]
    last_winner: int | None
    turn_ms: int
    seed_ms: int
    spectators: bool
    absent_policy: AbsentPolicy
    server_seed_hash: bytes
    secret: GameOpenedSecret = field(repr=False)
    time_bank_ms: int = 0
    spectator_delay: int = 0
    bot_after: int = 0
    no_hints: bool = False


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
    """A player revealed a seed that matches its hash."""

    seat: int
    seed: bytes


@dataclass(frozen=True, slots=True)
class SeedsClosed:
    """All seeds that count are in; those of `absent` seats do not count."""

    absent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DealSeeded:
    """The deal just made came from a seed whose SHA-256 is this.

    `cards_root` commits to its cards one by one, where the deck is never laid open as a whole.
    """

    deal: int
    seed_hash: bytes
    cards_root: bytes | None = None


@dataclass(frozen=True, slots=True)
class ClockCredited:
    """The service was out of order during decision `turn`, whose clock is credited that time."""

    turn: int
    credit_ms: int


@dataclass(frozen=True, slots=True)
class DroppedCard:
    """A card that was dropped face down (Azi with four cards)."""

    seat: int
    card: Card


@dataclass(frozen=True, slots=True)
class DealRevealed:
    """A deal is over and laid open: its seed, its deck, the cards dropped in it."""

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
    """The player is back and plays for himself."""

    seat: int


@dataclass(frozen=True, slots=True)
class SeatResult:
    """What a seat takes out of a finished game (see the Result message for the meaning a game)."""

    seat: int
    player_id: str
    stack_before: int
    stack_after: int
    place: int
    points: int


@dataclass(frozen=True, slots=True)
class Result:
    """How a finished game came out."""

    winner: int | None
    durak: int | None
    null: bool
    seats: tuple[SeatResult, ...]


@dataclass(frozen=True, slots=True)
class GameFinished:
    """The game ended by its rules; the server's seed is published, and with it every deck, unless
    cards are opened one by one: then it is empty here."""

    result: Result
    server_seed: bytes


@dataclass(frozen=True, slots=True)
class GameCancelled:
    """The game was cancelled, or is never to open; `reason` is an UPPER_SNAKE word."""

    reason: str
    server_seed: bytes


FrameEvent = (
    GameOpened
    | SeedCommitted
    | CommitsClosed
    | SeedRevealed
    | SeedsClosed
    | DealSeeded
    | ClockCredited
    | DealRevealed
    | BotTookOver
    | PlayerReturned
    | GameFinished
    | GameCancelled
)


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """An event of the game's own engine."""

    event: Any


Event = FrameEvent | EngineEvent


@dataclass(frozen=True, slots=True)
class Seat:
    """A seat now. `missed` counts turns missed in a row."""

    player_id: str
    bot_level: BotLevel | None
    stack: int
    reservation_id: str
    seed_status: SeedStatus
    seed_hash: bytes = b""
    seed: bytes = b""
    left: bool = False
    bot_plays: bool = False
    missed: int = 0

    @property
    def is_bot(self) -> bool:
        """Whether the server asks a bot for this seat's moves now."""
        return self.bot_level is not None or self.bot_plays or self.left

    @property
    def is_away(self) -> bool:
        """Whether the player has missed turns since he last moved or said that he is back."""
        return self.bot_plays or self.missed > 0


@dataclass(frozen=True, slots=True)
class OpenDeal:
    """A deal that has been made, by the event of that version, and not yet laid open."""

    deal: int
    deck: tuple[Card, ...]
    dropped: tuple[DroppedCard, ...] = ()
    version: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """A game now: the fold of its log."""

    game_id: UUID = NO_GAME
    stage: Stage = Stage.ABSENT
    version: int = 0
    opened_at: int = 0
    recorded_at: int = 0
    """When the latest event was recorded."""
    table_id: str = ""
    rules: str = ""
    options: Any = None
    seats: tuple[Seat, ...] = ()
    last_winner: int | None = None
    turn_ms: int = 0
    seed_ms: int = 0
    spectators: bool = False
    absent_policy: AbsentPolicy = AbsentPolicy.EXPIRE
    time_bank_ms: int = 0
    spectator_delay: int = 0
    bot_after: int = 0
    no_hints: bool = False
    server_seed_hash: bytes = b""
    server_seed: bytes = field(default=b"", repr=False)
    bot_seed: bytes = field(default=b"", repr=False)
    engine: Any = None
    """The engine's state; None until the first deal."""
    deals: tuple[OpenDeal, ...] = field(default=(), repr=False)
    seeds_at: int = 0
    """When the present phase of hashes or seeds began."""
    turn_at: int = 0
    """When the present decision was first asked."""
    credit_ms: int = 0
    """Time credited to the present decision for outages."""
    credits: int = 0
    """How often the present decision was credited."""
    banks: tuple[int, ...] = ()
    """What is left of each seat's time bank, microseconds, the present decision left aside; empty
    where there are none."""
    result: Result | None = None

    @property
    def variant(self) -> str:
        """`azi`, `durak` or `rami`."""
        return self.rules.partition(" ")[0]

    @property
    def laid_open(self) -> bool:
        """Whether decks and seeds are published in the end (AZI-56, DURAK-31, RAMI-35)."""
        return self.options is None or self.options.reveal != "own"

    @property
    def ended(self) -> bool:
        """Whether nothing more can happen."""
        return self.stage in (Stage.FINISHED, Stage.CANCELLED)

    @property
    def turn(self) -> int:
        """The number of the present decision; 0 before the first deal."""
        return 0 if self.engine is None else int(self.engine.turn)

    @property
    def deadline(self) -> int | None:
        """When the turn time of the present decision is up and time banks begin to run, or None."""
        if self.stage is Stage.PLAYING:
            return self.turn_at + (self.turn_ms + self.credit_ms) * 1_000
        return None

    def deadline_of(self, seat: int) -> int | None:
        """When a seat that is asked now has no time left, its time bank included, or None."""
        deadline = self.deadline
        return deadline + self.banks[seat] if deadline is not None and self.banks else deadline

    @property
    def takeover_after(self) -> int | None:
        """After how many turns missed in a row a bot takes over; None where none does."""
        if self.absent_policy is AbsentPolicy.BOT:
            return self.bot_after or BOT_AFTER_USUAL
        return None

    @property
    def seeds_until(self) -> int:
        """When the time of the present phase of hashes or seeds is up."""
        return self.seeds_at + self.seed_ms * 1_000

    def seat_of(self, player_id: str) -> int | None:
        """The player's seat, or None."""
        for number, seat in enumerate(self.seats):
            if seat.player_id == player_id:
                return number
        return None
