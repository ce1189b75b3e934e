"""A table between games on the screen: who sits there, who is ready, what is played."""

from dataclasses import dataclass, replace

from kozyr.lobby.v1 import lobby_pb2

from services.cli.finding import LEVEL_NAMES
from services.cli.play.azi import chips
from services.cli.play.drawing import keys_line
from services.cli.play.hall import free_seats, game_name
from services.cli.play.keys import BETWEEN, TALKING, Do, Key
from services.cli.play.scene import Told
from services.cli.play.spans import Line, Role, Span, between, fitted, folded, line

LAST = (Do.RULES, Do.HELP, Do.QUIT)
PROBLEMS = {
    "INSUFFICIENT_CHIPS": "too few chips",
    "PLAYER_HELD_BACK": "cannot play now",
    "STACK_BELOW_ENTRY_FEE": "stack below the fee",
}


SAID_MAX = 8
"""How many lines of talk are shown."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is shown of a table between games: what was said, and what the person is told."""

    table: lobby_pb2.Table
    player_id: str
    said: tuple[Told, ...] = ()
    notice: Told | None = None
    talks: bool = False
    watches: bool = False
    """Whether one came to watch, without a seat."""
    bots_in: int | None = None
    """In how many seconds bots sit down on the free seats; None if they do not."""


def drawn(waiting: Waiting, columns: int, rows: int) -> list[Line]:
    """The table on a whole screen."""
    table, player_id, notice = waiting.table, waiting.player_id, waiting.notice
    name = game_name(table).capitalize()
    whole = between(line(f" {name} · table of {_host(table)}"), line(f"{_state(table)} "), columns)
    lines: list[Line] = [tuple(Span(span.text, Role.BAR) for span in whole), ()]
    lines += [_seat(table, seat, player_id) for seat in table.seats]
    lines += [(), *_about(table, columns), ()]
    if waiting.bots_in is not None and free_seats(table):
        lines.insert(-1, line(f"   Bots sit down in {waiting.bots_in} s if nobody else comes."))
    for each in waiting.said[-SAID_MAX:]:
        lines += [(Span("   "), *piece) for piece in folded(each.text, columns - 4, each.role)]
    foot = (
        []
        if notice is None
        else [(Span(" "), *each) for each in folded(notice.text, columns - 2, notice.role)]
    )
    asks = (Span(f" ▶ {_asks(waiting)}", Role.TURN),)
    low: list[Line] = [*foot, asks, keys_line(_keys(waiting), columns, LAST)]
    return [*fitted(lines, columns, rows - len(low)), *fitted(low, columns, len(low))]


def own_seat(table: lobby_pb2.Table, player_id: str) -> lobby_pb2.TableSeat | None:
    """The player's seat."""
    return next((seat for seat in table.seats if seat.player_id == player_id), None)


def _host(table: lobby_pb2.Table) -> str:
    return next((s.display_name for s in table.seats if s.player_id == table.host_id), "somebody")


def _state(table: lobby_pb2.Table) -> str:
    if table.state == lobby_pb2.TABLE_STATE_STARTING:
        return "starting"
    games = table.games_played
    return (
        f"{games} {'game' if games == 1 else 'games'} played" if games else "before the first game"
    )


def _seat(table: lobby_pb2.Table, seat: lobby_pb2.TableSeat, player_id: str) -> Line:
    if not seat.player_id:
        return line(Span(f"   {seat.seat + 1}. free", Role.MUTED))
    who = seat.display_name
    level = LEVEL_NAMES.get(seat.bot_level, "")
    notes = ["you"] if seat.player_id == player_id else [level] if level else []
    if seat.player_id == table.host_id:
        notes.append("host")
    name = f"{who} ({', '.join(notes)})" if notes else who
    stack = f"{chips(seat.stack):>8} chips  " if seat.stack else ""
    ready = Span("ready", Role.GOOD) if seat.ready else Span("not ready", Role.MUTED)
    if seat.problem:
        ready = Span(PROBLEMS.get(seat.problem, seat.problem), Role.BAD)
    return (*line(f"   {seat.seat + 1}. {name:<32.31}", stack), ready, *_tally(table, seat))


def _tally(table: lobby_pb2.Table, seat: lobby_pb2.TableSeat) -> Line:
    for each in table.series:
        if each.player_id == seat.player_id and (each.wins or each.losses):
            said = f"   first out {each.wins}, durak {each.losses}"
            return (Span(said, Role.MUTED),)
    return ()


def _about(table: lobby_pb2.Table, columns: int) -> list[Line]:
    """What is to be known of the table: the way in for others, the stakes, the time."""
    said = []
    if free_seats(table):
        said.append(f"Free seats: {free_seats(table)}.")
        if table.invite_code:
            said.append("The table is private; others sit down with `c` in the lobby and")
            said.append(f"{table.table_id} {table.invite_code}")
    if table.rules.turn_ms:
        bank = table.rules.time_bank_ms // 1_000
        more = f", and {bank} s in the time bank" if bank else ""
        said.append(f"A move may take {table.rules.turn_ms // 1_000} s{more}.")
    if table.start_failure:
        said.append(f"The last start failed: {table.start_failure.replace('_', ' ').lower()}.")
    return [(Span("   "), *each) for text in said for each in folded(text, columns - 4, Role.MUTED)]


def _asks(waiting: Waiting) -> str:
    table, own = waiting.table, own_seat(waiting.table, waiting.player_id)
    if table.state == lobby_pb2.TABLE_STATE_STARTING:
        return "The game begins."
    if table.state == lobby_pb2.TABLE_STATE_CLOSED:
        return "The table is closed."
    if own is None and waiting.watches and table.state == lobby_pb2.TABLE_STATE_PLAYING:
        return "A game is played here; it is about to be shown."
    if own is None and waiting.watches:
        return "You watch this table; q leads to the lobby."
    if own is None:
        return "You do not sit here any more; q leads to the lobby."
    if not own.ready:
        return "Ready? Press r."
    if free_seats(table):
        return "Waiting for others to sit down; b puts a bot on a free seat."
    return "Waiting for all to be ready."


def others(table: lobby_pb2.Table, player_id: str) -> list[lobby_pb2.TableSeat]:
    """The other people at the table."""
    seats = (seat for seat in table.seats if seat.player_id and not seat.bot_level)
    return [seat for seat in seats if seat.player_id != player_id]


def _keys(waiting: Waiting) -> list[Key]:
    table, player_id = waiting.table, waiting.player_id
    own = own_seat(table, player_id)
    if own is None:
        return []
    host = table.host_id == player_id
    azi = game_name(table) == "azi"
    free, bots = free_seats(table), any(seat.bot_level for seat in table.seats)
    wanted = {
        Do.READY: True,
        Do.BOT: host and free > 0,
        Do.NO_BOT: host and bots and bool(table.rules.turn_ms),
        Do.KICK: host and bool(others(table, player_id)),
        Do.START: host and free > 0,
        Do.TOP_UP: azi,
    }
    keys = [key for key in BETWEEN if wanted[key.do]]
    if own.ready:
        keys[0] = replace(keys[0], label="not ready")
    return [*keys, *(TALKING if waiting.talks else ())]
