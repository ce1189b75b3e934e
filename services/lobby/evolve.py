"""How a table follows from its log, and what an append of it does beside its events. Pure."""

from collections.abc import Iterable
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
    Phase,
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
IDLE_MS = 24 * 60 * 60 * 1_000
"""So long a table may wait without anybody doing anything there."""
INSUFFICIENT_CHIPS = "INSUFFICIENT_CHIPS"
STACK_BELOW_ENTRY_FEE = "STACK_BELOW_ENTRY_FEE"
TAG_OPEN = "public"
"""Tag of listed tables; followed by the game's name it is the tag of one game's."""


def evolve(table: Table, event: Event, at: int) -> Table:
    """The table after one event."""
    return changed(_evolve(table, event, at), version=table.version + 1)


def plan(before: Table, after: Table) -> Plan:
    """The start to carry through, the tags to be found by, and whether the table has closed.

    While a table waits, whatever happens there puts its closing off; a game is never closed.
    """
    waits = after.phase is Phase.WAITING
    waited = before.phase is Phase.WAITING and not waits
    starting = after.phase is Phase.STARTING and before.game != after.game
    settled = before.phase is Phase.STARTING and after.phase is not Phase.STARTING
    return Plan(
        due=(
            *((Due(START, str(after.game), 0),) if starting else ()),
            *((Due(IDLE, "", IDLE_MS),) if waits else ()),
        ),
        done=(
            *(((START, str(before.game)),) if settled else ()),
            *(((IDLE, ""),) if waited else ()),
        ),
        tags=tuple(_tags(before, after)),
        ended=after.phase is Phase.CLOSED,
    )


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
            ready = event.bot is not BotLevel.PERSON
            return _seated(table, event.seat, Seat(event.player, event.bot, event.stack, ready))
        case SeatLeft():
            return _seated(table, event.seat, None)
        case ReadySet():
            return _set_ready(table, (event.seat,), event.ready, "")
        case ToppedUp():
            return _topped_up(table, event)
        case HostChanged():
            return changed(table, host=event.host)
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
                table, phase=Phase.STARTING, game=event.game, playing=event.seats, failure=""
            )
        case StartAbandoned():
            problem = INSUFFICIENT_CHIPS if event.reason == INSUFFICIENT_CHIPS else ""
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
            seats[outcome.seat] = changed(seat, stack=outcome.stack)
    return changed(
        table,
        phase=Phase.WAITING,
        playing=(),
        seats=tuple(seat and _rested(seat, rules.entry_fee) for seat in seats),
        games=table.games + 1,
        last_winner=event.winner or table.last_winner,
        series=_tallied(table, event.outcomes) if rules.series else table.series,
    )


def _rested(seat: Seat, entry_fee: int) -> Seat:
    """A seat between two games: persons are asked anew, bots are always ready."""
    if seat.bot is not BotLevel.PERSON:
        return changed(seat, ready=True, problem="")
    problem = STACK_BELOW_ENTRY_FEE if seat.stack < entry_fee else ""
    return changed(seat, ready=False, problem=problem)


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


def _set_ready(table: Table, numbers: Iterable[int], ready: bool, problem: str) -> Table:
    for number in numbers:
        if seat := table.seats[number]:
            kept = problem or ("" if ready else seat.problem)
            table = _seated(table, number, changed(seat, ready=ready, problem=kept))
    return table


def _topped_up(table: Table, event: ToppedUp) -> Table:
    seat = table.seats[event.seat]
    if seat is None:
        return table
    problem = "" if seat.problem == STACK_BELOW_ENTRY_FEE else seat.problem
    return _seated(
        table, event.seat, changed(seat, stack=seat.stack + event.chips, problem=problem)
    )


def _tags(before: Table, after: Table) -> Iterable[str]:
    if before.rules is None and after.rules is not None and after.rules.listed:
        yield TAG_OPEN
        yield tag_of_variant(after.rules.variant.name)
    known = {seat.player for _, seat in before.people()}
    for _, seat in after.people():
        if seat.player not in known:
            yield tag_of_player(seat.player)


def tag_of_player(player: UUID) -> str:
    """The tag of tables where a player sits or sat."""
    return f"player:{player}"


def tag_of_variant(name: str) -> str:
    """The tag of one game's listed tables."""
    return f"{TAG_OPEN}:{name.lower()}"
