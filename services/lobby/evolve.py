"""How a table follows from its log, and what an append of it does beside its events. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from engines.records import changed
from services.kernel.envelope import Due, Plan
from services.lobby.model import (
    BotLevel,
    Event,
    GameEnded,
    GameStarted,
    HostChanged,
    Kicked,
    LeftCause,
    Phase,
    PlayerInvited,
    PlayerUninvited,
    ReadySet,
    Rules,
    Seat,
    SeatLeft,
    SeatOutcome,
    SeatTaken,
    StartAbandoned,
    StartBegun,
    StartFailed,
    Table,
    TableClosed,
    TableOpened,
    Tally,
    ToppedUp,
)

START = "start"
"""The kind of due work that carries a start through; its key is the game's id."""
IDLE = "idle"
"""The kind of due work that closes a table at which nothing happens any more."""
UNREADY = "unready"
"""The kind of due work that frees a seat whose player is not ready; its key is the seat."""
FILL = "fill"
"""The kind of due work that puts bots on free seats; its key is the seat of whoever waits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a waiting table is kept with nothing happening there, and a seat at it whose player
    is not ready; milliseconds."""

    idle_ms: int = 3_600_000
    unready_ms: int = 600_000


INSUFFICIENT_CHIPS = "INSUFFICIENT_CHIPS"
STACK_BELOW_ENTRY_FEE = "STACK_BELOW_ENTRY_FEE"
PLAYER_HELD_BACK = "PLAYER_HELD_BACK"
"""Why a start failed with a player whose limits do not allow the game, or who plays in as many as
one may; others learn no more."""
SEAT_PROBLEMS = frozenset({INSUFFICIENT_CHIPS, PLAYER_HELD_BACK})
"""Reasons of a failed start that stand at the seats at fault."""
TAG_OPEN = "public"
"""Tag of public tables; followed by the game's name it is the tag of one game's."""


def evolve(table: Table, event: Event, at: int) -> Table:
    """The table after one event."""
    return changed(_evolve(table, event, at), version=table.version + 1)


def plan(before: Table, after: Table, limits: Limits = Limits()) -> Plan:
    """The work that follows, the tags to be found by, and whether the table has closed.

    While a table waits, whatever happens there puts its closing off; a game is never closed.
    """
    was, now = _work(before, limits), _work(after, limits)
    return Plan(
        due=tuple(
            Due(*name, after_ms)
            for name, (since, after_ms) in now.items()
            if was.get(name) != (since, after_ms)
        ),
        done=tuple(name for name in was if name not in now),
        tags=tuple(_tags(before, after)),
        ended=after.phase is Phase.CLOSED,
    )


def _work(table: Table, limits: Limits) -> dict[tuple[str, str], tuple[int, int]]:
    """What is due at a table, by kind and key: since when, and after how many milliseconds."""
    if table.phase is Phase.STARTING:
        return {(START, str(table.game)): (0, 0)}
    if table.phase is not Phase.WAITING:
        return {}
    work = {(IDLE, ""): (table.version, limits.idle_ms)}
    for number, seat in table.people():
        if not seat.ready:
            work[UNREADY, str(number)] = (seat.since, limits.unready_ms)
        if seat.wish and table.free():
            work[FILL, str(number)] = (seat.wish.at, seat.wish.after_ms)
    return work


def _evolve(table: Table, event: Event, at: int) -> Table:
    match event:
        case TableOpened():
            return Table(
                phase=Phase.WAITING,
                rules=event.rules,
                host=event.host,
                seats=(None,) * event.rules.seats,
                opened_at=at,
                version=table.version,
            )
        case SeatTaken():
            return _seated(table, event.seat, _taken(table, event, at))
        case SeatLeft():
            return _left(table, event, at)
        case ReadySet():
            return _set_ready(table, (event.seat,), event.ready, "", again=event.again)
        case ToppedUp():
            return _topped_up(table, event)
        case HostChanged():
            return changed(table, host=event.host)
        case PlayerInvited() | PlayerUninvited():
            return _invited(table, event)
        case TableClosed():
            return changed(table, phase=Phase.CLOSED)
        case GameEnded():
            return _ended(table, event)
        case StartBegun() | StartAbandoned() | StartFailed() | GameStarted():
            return _evolve_start(table, event)
        case _:
            assert_never(event)


def _evolve_start(
    table: Table, event: StartBegun | StartAbandoned | StartFailed | GameStarted
) -> Table:
    match event:
        case StartBegun():
            return changed(
                table,
                phase=Phase.STARTING,
                game=event.game,
                playing=event.seats,
                failure="",
                seats=tuple(seat and changed(seat, again=False, wish=None) for seat in table.seats),
            )
        case StartAbandoned():
            problem = event.reason if event.reason in SEAT_PROBLEMS else ""
            table = _set_ready(table, event.unready, False, problem)
            return changed(table, abandoned=event.reason)
        case StartFailed():
            return changed(
                table, phase=Phase.WAITING, playing=(), failure=table.abandoned, abandoned=""
            )
        case GameStarted():
            return changed(table, phase=Phase.PLAYING, abandoned="")
        case _:
            assert_never(event)


def _ended(table: Table, event: GameEnded) -> Table:
    rules = rules_of(table)
    seats = list(table.seats)
    for outcome in event.outcomes:
        if seat := seats[outcome.seat]:
            seats[outcome.seat] = changed(seat, stack=outcome.stack, fresh=0)
    return changed(
        table,
        phase=Phase.WAITING,
        playing=(),
        seats=tuple(
            seat and _rested(table, seat, rules.entry_fee, played=number in table.playing)
            for number, seat in enumerate(seats)
        ),
        games=table.games + 1,
        last_winner=event.winner or table.last_winner,
        series=_tallied(table, event.outcomes) if rules.series else table.series,
    )


def _rested(table: Table, seat: Seat, entry_fee: int, *, played: bool) -> Seat:
    """A seat between two games: persons are asked anew, bots are always ready."""
    if seat.bot is not BotLevel.PERSON:
        return changed(seat, ready=True, problem="", played=played)
    problem = STACK_BELOW_ENTRY_FEE if seat.stack < entry_fee else ""
    return changed(seat, ready=False, problem=problem, played=played, since=table.version + 1)


def _tallied(table: Table, outcomes: Iterable[SeatOutcome]) -> tuple[Tally, ...]:
    tallies = {tally.player: tally for tally in table.series}
    for outcome in outcomes:
        seat = table.seats[outcome.seat]
        if seat and (outcome.first or outcome.durak):
            old = tallies.get(seat.player, Tally(seat.player, 0, 0))
            tallies[seat.player] = Tally(
                seat.player, old.wins + outcome.first, old.losses + outcome.durak
            )
    return tuple(tallies.values())


def rules_of(table: Table) -> Rules:
    """The rules of a table that has been opened."""
    if table.rules is None:
        raise ValueError("the table has not been opened")
    return table.rules


def after_events(table: Table, events: Iterable[Event]) -> Table:
    """The table as it will be; for looking ahead."""
    for event in events:
        table = evolve(table, event, table.opened_at)
    return table


def _seated(table: Table, number: int, seat: Seat | None) -> Table:
    return changed(table, seats=(*table.seats[:number], seat, *table.seats[number + 1 :]))


def _taken(table: Table, event: SeatTaken, at: int) -> Seat:
    wish = event.wish and changed(event.wish, at=at + event.wish.after_ms * 1_000)
    ready = event.bot is not BotLevel.PERSON
    seat = Seat(event.player, event.bot, event.stack, ready, fresh=event.stack)
    return changed(seat, since=table.version + 1, wish=wish)


def _left(table: Table, event: SeatLeft, at: int) -> Table:
    """Without who sat there. Where there was no free seat, those who wished for bots wait anew."""
    seat = table.seats[event.seat]
    if not table.free():
        for number, other in table.people():
            if wish := other.wish:
                anew = changed(wish, at=at + wish.after_ms * 1_000)
                table = _seated(table, number, changed(other, wish=anew))
    table = _seated(table, event.seat, None)
    if event.cause is not LeftCause.KICKED or seat is None:
        return table
    return changed(
        table,
        rules=_with_invited(table, *(p for p in rules_of(table).invited if p != seat.player)),
        kicked=(*table.kicked, Kicked(seat.player, event.reason)),
    )


def _invited(table: Table, event: PlayerInvited | PlayerUninvited) -> Table:
    rules = rules_of(table)
    invited = [player for player in rules.invited if player != event.player]
    if isinstance(event, PlayerInvited) and rules.by_invitation:
        invited.append(event.player)
    return changed(
        table,
        rules=_with_invited(table, *invited),
        kicked=tuple(each for each in table.kicked if each.player != event.player),
    )


def _with_invited(table: Table, *invited: UUID) -> Rules:
    return changed(rules_of(table), invited=invited)


def _set_ready(
    table: Table, numbers: Iterable[int], ready: bool, problem: str, *, again: bool = False
) -> Table:
    for number in numbers:
        if seat := table.seats[number]:
            kept = problem or ("" if ready else seat.problem)
            asked = changed(seat, ready=ready, problem=kept, again=again)
            if seat.ready and not ready:
                asked = changed(asked, since=table.version + 1, wish=None)
            table = _seated(table, number, asked)
    return table


def _topped_up(table: Table, event: ToppedUp) -> Table:
    seat = table.seats[event.seat]
    if seat is None:
        return table
    problem = "" if seat.problem == STACK_BELOW_ENTRY_FEE else seat.problem
    stack, fresh = seat.stack + event.chips, seat.fresh + event.chips
    return _seated(table, event.seat, changed(seat, stack=stack, fresh=fresh, problem=problem))


def _tags(before: Table, after: Table) -> Iterable[str]:
    if after.rules is None:
        return
    if before.rules is None and after.rules.listed:
        yield TAG_OPEN
        yield tag_of_variant(after.rules.variant.name)
    known = {seat.player for _, seat in before.people()}
    for _, seat in after.people():
        if seat.player not in known:
            yield tag_of_player(seat.player)
    named = before.rules.invited if before.rules else ()
    for player in after.rules.invited:
        if player not in named:
            yield tag_of_invited(player)


def tag_of_player(player: UUID) -> str:
    """The tag of tables where a player sits or sat."""
    return f"player:{player}"


def tag_of_invited(player: UUID) -> str:
    """The tag of tables a player is or was invited to."""
    return f"invited:{player}"


def tag_of_variant(name: str) -> str:
    """The tag of one game's listed tables."""
    return f"{TAG_OPEN}:{name.lower()}"
