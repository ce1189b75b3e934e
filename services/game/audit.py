"""Audits: a log read back from its rows, re-executed under its rules, and checked throughout.

Nothing here trusts a cache: every check starts from the stored rows. A fault names the first
version at which something is wrong and never a hidden card.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from engines import azi
from engines.api import Act, Command, Leave, Timeout
from engines.records import maker
from services.game import domain
from services.game.codec import decode, is_open, open_event
from services.game.evolve import evolve
from services.game.model import (
    ClockCredited,
    CommitsClosed,
    EngineEvent,
    Event,
    GameCancelled,
    GameOpened,
    PlayerReturned,
    SeedCommitted,
    SeedRevealed,
    SeedsClosed,
    Stage,
    State,
)
from services.game.rulebook import engine_for
from services.kernel.envelope import Head, Recorded, appends
from services.kernel.errors import Refused
from services.runtime.slices import at_once
from services.runtime.store import chain

CHECKS = (
    *("chain", "checkpoints", "secrets", "decoding", "rules", "deals", "chips", "clock", "lists"),
    *("wallet", "rulings"),
)
"""What an audit looks at, in words for the report."""
EARLY_US = 100_000
"""A row's time may be behind the database's clock, by which seeds are closed, by this much."""
ROWS_AT_ONCE = 200
"""How many links of the chain are followed without giving way."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong: the version it shows at (0: the whole game), its kind, and words."""

    version: int
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Append:
    """One append of a log: its rows and events, and the states before and after it."""

    rows: tuple[Recorded, ...]
    events: tuple[Event, ...]
    before: State
    after: State


_append, _play = maker(Append), maker(domain.Play)


def replay(rows: Sequence[Recorded]) -> Iterator[Append]:
    """The log's appends with the states between them."""
    state = State()
    for group in appends(rows):
        events: tuple[Event, ...] = ()
        after = state
        for row in group:
            event = decode(row)
            after = evolve(after, event, row.recorded_at)
            events += (event,)
        yield _append(group, events, state, after)
        state = after


def verify_log(game_id: UUID, rows: Sequence[Recorded], head: Head | None) -> list[Fault]:
    """Check a log from its rows and its head: chain, secrets, and every decision made again."""
    return at_once(examining(game_id, rows, head))[0]


def examining(
    game_id: UUID, rows: Sequence[Recorded], head: Head | None
) -> Generator[None, None, tuple[list[Fault], State]]:
    """Work, a piece an append, that comes to what is wrong with a log, and to the game after the
    last append that was looked at."""
    state = State()
    broken = yield from _following(rows, head)
    if broken is not None:
        return [Fault(broken.version, "CHAIN_BROKEN", broken.problem)], state
    steps = replay(rows)
    version = 1
    while True:
        try:
            step = next(steps)
        except StopIteration:
            return _head(head, ended=state.ended), state
        except Refused as later:
            return [Fault(version, later.reason, later.message)], state
        except Exception as problem:  # noqa: BLE001 - a damaged payload may fail in any way
            kind = type(problem).__name__
            fault = Fault(version, "UNREADABLE", f"the event cannot be read ({kind})")
            return [fault], state
        version, state = step.rows[-1].version + 1, step.after
        if found := _rules(game_id, step) + _chips(step) + _clock(step):
            return found, state
        yield


def _following(
    rows: Sequence[Recorded], head: Head | None
) -> Generator[None, None, chain.Fault | None]:
    """The first row that does not follow, some at a time."""
    previous, after = chain.GENESIS, 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        if broken := chain.verify(some, previous=previous, after=after):
            return broken
        previous, after = some[-1].hash, some[-1].version
        yield
    return chain.verify((), head, previous, after)


def _head(head: Head | None, *, ended: bool) -> list[Fault]:
    """Whether the head, by which games are listed, knows that the game runs or has ended."""
    if head is None or head.ended == ended:
        return []
    said, is_so = ("has ended", "runs") if head.ended else ("runs", "has ended")
    return [Fault(head.version, "WRONG_HEAD", f"the head says the game {said}, the log: {is_so}")]


def command_of(step: Append, game_id: UUID) -> domain.GameCommand:
    """The command that must have led to this append; raises ValueError if none could have."""
    first = step.events[0]
    match first:
        case EngineEvent():
            return _engine_command(step)
        case PlayerReturned():
            return domain.Return(first.seat) if len(step.events) == 1 else _engine_command(step)
        case GameOpened():
            return _open_command(first, game_id)
        case GameCancelled():
            return domain.Cancel()
        case SeedCommitted():
            return domain.CommitSeed(first.seat, first.hash)
        case CommitsClosed():
            return domain.CloseSeeds(Stage.COMMITTING)
        case SeedRevealed():
            return domain.RevealSeed(first.seat, first.seed)
        case SeedsClosed():
            return domain.CloseSeeds(Stage.REVEALING)
        case ClockCredited():
            return domain.Credit(first.turn, step.before.credit_ms + first.credit_ms)
        case _:
            raise ValueError(f"no append begins with {type(first).__name__}")


def _open_command(event: GameOpened, game_id: UUID) -> domain.Open:
    return domain.Open(
        game_id=game_id,
        variant=event.rules.partition(" ")[0],
        rules=event.rules,
        table_id=event.table_id,
        options=event.options,
        seats=event.seats,
        last_winner=event.last_winner,
        turn_ms=event.turn_ms,
        seed_ms=event.seed_ms,
        spectators=event.spectators,
        absent_policy=event.absent_policy,
        server_seed=event.secret.server_seed,
        bot_seed=event.secret.bot_seed,
        time_bank_ms=event.time_bank_ms,
        spectator_delay=event.spectator_delay,
        bot_after=event.bot_after,
        no_hints=event.no_hints,
    )


def _cause(rules: str, step: Append) -> Command[Any]:
    row = step.rows[0]
    if len(step.rows) == 1 and is_open(row):
        return _cause_of_one(rules, row.name, row.payload)
    return engine_for(rules).cause([e.event for e in step.events if isinstance(e, EngineEvent)])


@lru_cache(maxsize=4_096)
def _cause_of_one(rules: str, name: str, payload: bytes) -> Command[Any]:
    """For appends of one open event, by its octets, which are sooner compared than events: most
    were met before."""
    return engine_for(rules).cause([open_event(name, payload).event])


def _engine_command(step: Append) -> domain.GameCommand:
    """The command at the table. For a seat that bots play a player moves once he has returned."""
    match cause := _cause(step.before.rules, step):
        case Act():
            back = isinstance(step.events[0], PlayerReturned)
            by_bot = step.before.seats[cause.seat].is_bot and not back
            return _play(cause.seat, step.before.turn, cause.move, by_bot)
        case Timeout():
            return domain.Expire(cause.seat, step.before.turn)
        case Leave():
            return domain.LeaveSeat(cause.seat)
        case _:
            raise ValueError("a deal stands where a move should")


def _rules(game_id: UUID, step: Append) -> list[Fault]:
    """Decide again and compare event by event."""
    version = step.rows[0].version
    try:
        decided = tuple(domain.decide(step.before, command_of(step, game_id)))
    except Refused as refusal:
        return [Fault(version, "NOT_ALLOWED", f"the rules refuse this move: {refusal.reason}")]
    except (ValueError, IndexError, AttributeError) as problem:
        return [Fault(version, "NOT_ALLOWED", f"no command leads here ({type(problem).__name__})")]
    if step.events == decided:
        return []
    for row, stored, expected in zip(step.rows, step.events, decided, strict=False):
        if stored != expected:
            return [Fault(row.version, _kind(stored), f"the rules decide otherwise at {row.name}")]
    at = step.rows[min(len(decided), len(step.rows) - 1)]
    return [Fault(at.version, "NOT_WHOLE", "the append has more or fewer events than it must")]


def _kind(stored: Event) -> str:
    name = type(stored.event if isinstance(stored, EngineEvent) else stored).__name__
    return "WRONG_DEAL" if name in ("Dealt", "DealRevealed", "DealSeeded") else "WRONG_EVENT"


def _chips(step: Append) -> list[Fault]:
    """Stacks and bank together are what was brought, after every append (Azi only)."""
    engine: Any = step.after.engine
    if not isinstance(engine, azi.State):
        return []
    brought = sum(seat.stack for seat in step.after.seats)
    there = engine.bank + sum(player.stack for player in engine.players)
    if brought == there:
        return []
    return [Fault(step.rows[-1].version, "CHIPS_LOST", f"{brought} were brought, {there} are left")]


def _clock(step: Append) -> list[Fault]:
    """No move after its deadline, no expiry before it, and nobody's seed left out before its time.

    What is closed because all is in, is closed by the append that brought the last of it.
    """
    row, first = step.rows[0], step.events[0]
    if isinstance(first, CommitsClosed | SeedsClosed):
        if row.recorded_at + EARLY_US < step.before.seeds_until:
            return [
                Fault(row.version, "CLOSED_EARLY", "a seed was left out before its time was up")
            ]
        return []
    if step.before.deadline is None or row.name.endswith((".SeatLeft", ".ClockCredited")):
        return []
    if len(step.rows) == 1 and isinstance(first, PlayerReturned):
        return []
    mover = getattr(first.event if isinstance(first, EngineEvent) else first, "seat", -1)
    known = mover in range(len(step.before.seats))
    deadline = (step.before.deadline_of(mover) if known else step.before.deadline) or 0
    expired = row.name.endswith(".TurnExpired")
    if expired and row.recorded_at < deadline:
        return [Fault(row.version, "EXPIRED_EARLY", "a turn expired before its deadline")]
    if not expired and row.recorded_at > deadline:
        return [Fault(row.version, "MOVED_LATE", "a move was taken after its deadline")]
    return []
