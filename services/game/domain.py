"""The game's decider: seeds, moves and the end, around the engine's own rules. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never
from uuid import UUID

from engines import azi
from engines.api import Act, Command, InvalidOption, Leave, RuleViolation, Start, Timeout
from engines.shuffle import (
    CONTRIBUTION_BYTES_MAX,
    CONTRIBUTION_BYTES_MIN,
    SERVER_SEED_BYTES,
    digest,
)
from services.game import deals
from services.game.evolve import engine_initial, evolve, evolve_all
from services.game.model import (
    BotTookOver,
    ClockCredited,
    CommitsClosed,
    EngineEvent,
    Event,
    GameCancelled,
    GameFinished,
    GameOpened,
    GameOpenedSecret,
    PlayerReturned,
    Seat,
    SeatOpened,
    SeedCommitted,
    SeedRevealed,
    SeedsClosed,
    SeedStatus,
    Stage,
    State,
)
from services.game.results import result_of
from services.game.rulebook import CURRENT, engine_for
from services.kernel.errors import (
    Kind,
    Refused,
    from_option,
    from_rules,
    invalid,
    precondition,
)
from services.kernel.seats import AbsentPolicy

CREDIT_MS_MAX = 2**31 - 1
"""The most a clock is credited, in milliseconds."""


class Moot(Refused):
    """Work that came due is not needed any more: the game has moved on."""

    def __init__(self) -> None:
        super().__init__(Kind.PRECONDITION, "MOOT", "the game has moved on")


@dataclass(frozen=True, slots=True)
class Open:
    """Open a game. `options` is the engine's Options of game `variant`."""

    game_id: UUID
    variant: str
    table_id: str
    options: Any
    seats: tuple[SeatOpened, ...]
    last_winner: int | None
    turn_ms: int
    seed_ms: int
    spectators: bool
    absent_policy: AbsentPolicy
    server_seed: bytes = field(repr=False)
    bot_seed: bytes = field(repr=False)
    time_bank_ms: int = 0
    spectator_delay: int = 0
    bot_after: int = 0
    no_hints: bool = False
    rules: str | None = None
    """The version of the rules; None for the one by which new games are played."""

    @property
    def by(self) -> str:
        """The rules it is opened by."""
        return self.rules or CURRENT[self.variant]


@dataclass(frozen=True, slots=True)
class CommitSeed:
    """A player's hash of his seed."""

    seat: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class RevealSeed:
    """A player's seed."""

    seat: int
    seed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CloseSeeds:
    """The time for hashes (COMMITTING) or seeds (REVEALING) is up."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Play:
    """A move of a seat in decision `turn`; `by_bot` when a bot chose it for the seat."""

    seat: int
    turn: int
    move: Any
    by_bot: bool = False


@dataclass(frozen=True, slots=True)
class Expire:
    """The time of decision `turn` is up for a seat."""

    seat: int
    turn: int


@dataclass(frozen=True, slots=True)
class Credit:
    """Outages have taken `lost_ms` from decision `turn` in all."""

    turn: int
    lost_ms: int


@dataclass(frozen=True, slots=True)
class LeaveSeat:
    """A player leaves for good."""

    seat: int


@dataclass(frozen=True, slots=True)
class Return:
    """A player who was away says that he is back."""

    seat: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Make sure that the game never opens."""


GameCommand = (
    Open
    | CommitSeed
    | RevealSeed
    | CloseSeeds
    | Play
    | Expire
    | Credit
    | LeaveSeat
    | Return
    | Cancel
)


def decide(state: State, command: GameCommand) -> Sequence[Event]:
    """The events that follow. Raises Refused; Moot for work no longer needed."""
    match command:
        case Open():
            return _open(state, command)
        case Cancel():
            return _cancel(state)
        case CommitSeed():
            return _commit(state, command)
        case RevealSeed():
            return _reveal(state, command)
        case CloseSeeds():
            if state.stage is not command.stage:
                raise Moot
            return _close_commits(state) if state.stage is Stage.COMMITTING else _deal(state, ())
        case Play():
            return _play(state, command)
        case Expire():
            return _expire(state, command)
        case Credit():
            lost_ms = min(command.lost_ms, CREDIT_MS_MAX) - state.credit_ms
            if state.stage is not Stage.PLAYING or state.turn != command.turn or lost_ms <= 0:
                raise Moot
            return (ClockCredited(command.turn, lost_ms),)
        case LeaveSeat():
            _require_playing(state)
            return _engine_step(state, (), Leave(command.seat))
        case Return():
            return _return(state, command)
        case _:
            assert_never(command)


def _open(state: State, command: Open) -> Sequence[Event]:
    if state.stage is Stage.CANCELLED:
        raise precondition("GAME_CANCELLED", "this game was cancelled before it could open")
    if state.stage is not Stage.ABSENT:
        raise Refused(Kind.EXISTS, "GAME_EXISTS", "a game of this id has been opened")
    if len(command.server_seed) != SERVER_SEED_BYTES or len(command.bot_seed) != SERVER_SEED_BYTES:
        raise ValueError("seeds must be 32 bytes long")
    check_setup(command)
    opened = GameOpened(
        game_id=str(command.game_id),
        table_id=command.table_id,
        rules=command.by,
        options=command.options,
        seats=command.seats,
        last_winner=command.last_winner,
        turn_ms=command.turn_ms,
        seed_ms=command.seed_ms,
        spectators=command.spectators,
        absent_policy=command.absent_policy,
        server_seed_hash=digest(command.server_seed),
        secret=GameOpenedSecret(command.server_seed, command.bot_seed),
        time_bank_ms=command.time_bank_ms,
        spectator_delay=command.spectator_delay,
        bot_after=command.bot_after,
        no_hints=command.no_hints,
    )
    after = evolve(state, opened, 0)
    if any(seat.bot_level is None for seat in after.seats):
        return (opened,)
    return (opened, *_close_commits(after))


def check_setup(command: Open) -> None:
    """Raise Refused, naming the field, unless the game can be played as it is to be opened."""
    engine = engine_for(command.by)
    if len(command.seats) not in engine.SEATS:
        bounds = f"{engine.SEATS.start} to {engine.SEATS.stop - 1}"
        raise invalid("seats", f"{engine.NAME} is played by {bounds}")
    players = [seat.player_id for seat in command.seats]
    if len(set(players)) != len(players):
        raise invalid("seats", "a player can hold one seat only")
    if command.last_winner is not None and command.last_winner not in range(len(players)):
        raise invalid("last_winner", "no such seat")
    if command.variant == azi.NAME:
        for number, seat in enumerate(command.seats):
            if seat.stack < command.options.entry_fee:
                raise invalid(f"seats[{number}].stack", "does not cover the entry fee")
            if not seat.reservation_id:
                raise invalid(f"seats[{number}].reservation_id", "chips must be reserved")
    elif any(seat.stack or seat.reservation_id for seat in command.seats):
        raise invalid("seats", f"{engine.NAME} is played without chips")
    try:
        engine_initial(command.by, command.options, command.seats, command.last_winner)
    except InvalidOption as problem:
        raise from_option(problem, f"options.{command.variant}") from None
    except ValueError as problem:
        raise invalid("seats", str(problem)) from None


def _cancel(state: State) -> Sequence[Event]:
    if state.stage is not Stage.ABSENT:
        raise Moot
    return (GameCancelled("NEVER_OPENED", b""),)


def _commit(state: State, command: CommitSeed) -> Sequence[Event]:
    if state.stage is not Stage.COMMITTING:
        raise precondition("SEEDS_CLOSED", "hashes of seeds are not taken any more")
    if len(command.hash) != SERVER_SEED_BYTES:
        raise invalid("hash", f"must be {SERVER_SEED_BYTES} bytes long")
    seat = state.seats[command.seat]
    if seat.seed_status is not SeedStatus.AWAITED:
        raise precondition("SEED_ALREADY_COMMITTED", "a seat commits one seed")
    committed = SeedCommitted(command.seat, command.hash)
    after = evolve(state, committed, 0)
    if any(s.seed_status is SeedStatus.AWAITED for s in after.seats):
        return (committed,)
    return (committed, *_close_commits(after))


def _close_commits(state: State) -> Sequence[Event]:
    closed = CommitsClosed(_seats_with(state, SeedStatus.AWAITED, SeedStatus.ABSENT))
    after = evolve(state, closed, 0)
    if _seats_with(after, SeedStatus.COMMITTED):
        return (closed,)
    return _deal(state, (closed,))


def _reveal(state: State, command: RevealSeed) -> Sequence[Event]:
    if state.stage is Stage.COMMITTING:
        raise precondition("SEEDS_OPEN", "seeds are revealed after all hashes are in")
    if state.stage is not Stage.REVEALING:
        raise precondition("SEEDS_CLOSED", "seeds are not taken any more")
    if not CONTRIBUTION_BYTES_MIN <= len(command.seed) <= CONTRIBUTION_BYTES_MAX:
        bounds = f"{CONTRIBUTION_BYTES_MIN} to {CONTRIBUTION_BYTES_MAX}"
        raise invalid("seed", f"must be {bounds} bytes long")
    seat = state.seats[command.seat]
    if seat.seed_status is not SeedStatus.COMMITTED:
        raise precondition("SEED_NOT_COMMITTED", "no hash of a seed stands against this seat")
    if digest(command.seed) != seat.seed_hash:
        raise precondition("SEED_MISMATCH", "the seed does not match the hash that was committed")
    shown = SeedRevealed(command.seat, command.seed)
    after = evolve(state, shown, 0)
    return (shown,) if _seats_with(after, SeedStatus.COMMITTED) else _deal(state, (shown,))


def _deal(state: State, before: tuple[Event, ...]) -> Sequence[Event]:
    after = evolve_all(state, before)
    closed = SeedsClosed(_seats_with(after, SeedStatus.COMMITTED, SeedStatus.ABSENT))
    return _engine_step(state, (*before, closed), Start())


def _play(state: State, command: Play) -> Sequence[Event]:
    _require_turn(state, command.turn)
    seat = state.seats[command.seat]
    if command.by_bot and not seat.is_bot:
        raise Moot  # the player came back while a bot was thinking for him
    if not command.by_bot:
        _require_stayed(seat)
    back = not command.by_bot and seat.is_away
    before = (PlayerReturned(command.seat),) if back else ()
    return _engine_step(state, before, Act(command.seat, command.move))


def _return(state: State, command: Return) -> Sequence[Event]:
    _require_playing(state)
    seat = state.seats[command.seat]
    _require_stayed(seat)
    if not seat.is_away:
        raise precondition("NOT_AWAY", "this player has missed no turn")
    return (PlayerReturned(command.seat),)


def _require_stayed(seat: Seat) -> None:
    if seat.left:
        raise precondition("SEAT_LEFT", "who has left a game for good plays in it no more")


def require_asked(state: State, seat: int, turn: int) -> None:
    """Raise Refused, as for a move, unless the seat's player is asked in that decision."""
    _require_turn(state, turn)
    _require_stayed(state.seats[seat])
    if seat not in engine_for(state.rules).to_act(state.engine):
        raise precondition("NOT_YOUR_TURN", "another seat is asked")


def _require_turn(state: State, turn: int) -> None:
    _require_playing(state)
    if turn != state.turn:
        raise Refused(
            Kind.CONFLICT,
            "STALE_TURN",
            "the game has moved on to another decision",
            facts={"turn": str(state.turn)},
        )


def _require_playing(state: State) -> None:
    if state.ended:
        raise precondition("GAME_OVER", "the game has ended")
    if state.stage is not Stage.PLAYING:
        raise precondition("NOT_DEALT", "the cards have not been dealt yet")


def _expire(state: State, command: Expire) -> Sequence[Event]:
    if state.stage is not Stage.PLAYING or state.turn != command.turn:
        raise Moot
    engine = engine_for(state.rules)
    if command.seat not in engine.to_act(state.engine):
        raise Moot
    seat = state.seats[command.seat]
    after = state.takeover_after
    takes_over = after is not None and not seat.is_bot and seat.missed + 1 >= after
    extra = (BotTookOver(command.seat),) if takes_over else ()
    return _engine_step(state, (), Timeout(command.seat), extra)


def _engine_step(
    state: State, before: tuple[Event, ...], command: Command[Any], then: tuple[Event, ...] = ()
) -> Sequence[Event]:
    """What the rules decide, with what frames it: seed hashes, takeover, laid-open deals, end."""
    engine = engine_for(state.rules)
    framed = evolve_all(state, before)
    try:
        decided = engine.decide(framed.engine, command, deals.SeededChance(framed))
    except RuleViolation as violation:
        raise from_rules(violation) from None
    events = (*before, *map(EngineEvent, decided))
    if not deals.turns(decided):
        return (*events, *then)
    events = (*events, *deals.seeded(framed, decided))
    after = evolve_all(state, events)
    over = engine.is_over(after.engine)
    if not over:
        events = (*events, *then)
    events = (*events, *deals.revealed(after, over=over))
    if over:
        seed = state.server_seed if state.laid_open else b""
        events = (*events, GameFinished(result_of(after), seed))
    return events


def _seats_with(state: State, *statuses: SeedStatus) -> tuple[int, ...]:
    return tuple(n for n, s in enumerate(state.seats) if s.seed_status in statuses)
