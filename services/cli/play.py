"""`kozyr play`: a person at this terminal, over gRPC or with no server at all."""

import argparse
import asyncio
import getpass
import re
from random import Random
from typing import Any

from kozyr.game.v1 import game_pb2, variant_pb2
from kozyr.lobby.v1 import lobby_pb2

from engines.api import InvalidOption
from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.deals import SeedChance
from services.cli.lines import Lines
from services.cli.offline import OfflineTable
from services.cli.online import sit_down
from services.cli.operators import PATIENCE_MS
from services.cli.outcome import FINE, UNREACHABLE, USAGE, Failure
from services.cli.pictures.look import Look
from services.cli.shown import LEVELS
from services.cli.sitting import sit
from services.cli.terminal import can_draw_suits, command, progress, show
from services.cli.variants import SEATS
from services.client import lists
from services.client.player import Player
from services.client.profile import ProfileFile
from services.client.tables import Tables, game_options
from services.client.variants import GAMES, View, engine, read_values
from services.kernel.errors import Kind, Refused
from services.runtime.wire import games as wire

PLAYING_PATIENCE_MS = 300_000
"""How long a game that has begun may be out of reach before the terminal gives up."""
AGAIN = "Enter plays again, q ends."
NAME_MAX = 24


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "play",
        "Play at this terminal, against bots or with others. With --offline no server is needed. "
        "Type h at the table for what can be typed.",
        "kozyr play durak --seats 3 --level hard",
    )
    made.add_argument("game", choices=GAMES)
    made.add_argument("--seats", type=int, metavar="N", help="seats at the table, yours included")
    made.add_argument("--bots", type=int, metavar="N", help="bots (all other seats)")
    made.add_argument("--level", choices=sorted(LEVELS), default="normal", help="of the bots")
    made.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a rule option (engines/GAME/RULES.md)",
    )
    made.add_argument("--join", metavar="TABLE", help="sit down at this table instead")
    made.add_argument(
        "--seconds", type=int, default=120, metavar="N", help="time for a decision (120)"
    )
    made.add_argument("--offline", action="store_true", help="no server: engine and bots in here")
    made.add_argument("--name", help="your name, the first time")
    made.add_argument("--profile", default="player", help="which of your accounts (player)")
    finding.add_look(made)
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Play."""
    rules = engine(arguments.game)
    seats = arguments.seats
    if seats is None:
        seats = arguments.bots + 1 if arguments.bots else SEATS[arguments.game]
    if seats not in rules.SEATS:
        most = rules.SEATS[-1]
        raise Failure(f"{arguments.game} has {rules.SEATS[0]} to {most} seats, not {seats}", USAGE)
    bots = seats - 1 if arguments.bots is None else arguments.bots
    if not 0 <= bots < seats:
        raise Failure(f"--bots: 0 to {seats - 1} at a table of {seats}", USAGE)
    if arguments.offline and bots != seats - 1:
        raise Failure("--bots: without a server all other seats are bots'", USAGE)
    if arguments.seconds < 1:
        raise Failure("--seconds: must be at least 1", USAGE)
    try:
        given = dict(_pair(text) for text in arguments.option)
        read_values(rules.Options, given)
        if arguments.offline:
            return asyncio.run(_offline(arguments, seats, given))
        return asyncio.run(_online(arguments, seats, bots, given))
    except InvalidOption as problem:
        raise Failure(f"--option {problem}", USAGE) from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Failure(f"--option: {text!r} is not NAME=VALUE", USAGE)
    return name, value


async def _offline(arguments: argparse.Namespace, seats: int, given: dict[str, str]) -> int:
    from services.ai.bots import choose
    from services.kernel.seats import BotLevel

    level = BotLevel[arguments.level.upper()]
    rng = Random()  # noqa: S311 - bots mix their play; the cards come from elsewhere

    def chosen(view: View, history: Any) -> tuple[Any, str]:
        choice = choose(arguments.game, view, history, level, rng)
        return choice.move, choice.reason

    names = (_name(arguments), *(f"Bot {seat}" for seat in range(1, seats)))
    look = Look(names, ascii=arguments.ascii or not can_draw_suits())
    options = read_values(engine(arguments.game).Options, given)
    async with Lines() as lines:
        while True:
            table = OfflineTable(arguments.game, look, SeedChance(), chosen, options)
            if not await sit(table, lines) or not await _again(lines):
                return FINE


async def _again(lines: Lines) -> bool:
    show(["", AGAIN])
    line = await lines.next()
    return line is not None and line.strip().lower() not in ("q", "quit", "n", "no")


async def _online(
    arguments: argparse.Namespace, seats: int, bots: int, given: dict[str, str]
) -> int:
    player = Player(settings(arguments), PATIENCE_MS)
    try:
        said = await _enter(player, arguments)
        show([said] if said else [])
        player.patience_ms = PLAYING_PATIENCE_MS
        running = await _running(player, arguments.game)
        async with Lines() as lines:
            if running is not None:
                show(["You are in a game already; it goes on."])
                await _sit(player, running, lines, arguments)
                return FINE
            await _at_table(player, lines, arguments, seats, bots, given)
    finally:
        await player.close()
    return FINE


async def _enter(player: Player, arguments: argparse.Namespace) -> str | None:
    try:
        return await player.enter(ProfileFile(arguments.profile), _name(arguments))
    except Refused as refused:
        if refused.kind is not Kind.UNAVAILABLE:
            raise
        raise Failure(
            f"{refused.reason}: no lobby answers; run `kozyr up`, or play with --offline",
            UNREACHABLE,
        ) from None


async def _running(player: Player, game: str) -> str | None:
    """A game of this kind the player is in, left by a terminal that went away."""
    async for found in lists.games(player, game_pb2.ListGamesRequest(running=True)):
        seats = [seat for seat in found.seats if seat.player_id == player.player_id]
        if wire.NAMES.get(found.variant) == game and not all(seat.left for seat in seats):
            return found.game_id
    return None


async def _at_table(
    player: Player,
    lines: Lines,
    arguments: argparse.Namespace,
    seats: int,
    bots: int,
    given: dict[str, str],
) -> None:
    """Open or join a table and play games at it until the person has had enough."""
    tables = Tables(player)
    if arguments.join:
        table = await tables.sit(arguments.join)
    else:
        table = await tables.create(
            lobby_pb2.TableRules(
                options=game_options(arguments.game, given),
                seats=seats,
                turn_ms=1_000 * arguments.seconds,
                spectators=True,
                absent_policy=variant_pb2.ABSENT_POLICY_BOT,
            )
        )
        for _ in range(bots):
            await tables.add_bot(table.table_id, LEVELS[arguments.level])
    last = ""
    try:
        while True:
            await tables.ready(table.table_id)
            started = await _started(tables, table.table_id, last, lines, arguments.game)
            if started is None:
                return
            last = started
            show([f"table {table.table_id}", f"game  {last}"])
            if not await _sit(player, last, lines, arguments):
                return
            table = await tables.settled(table.table_id, table.games_played + 1)
            show(_standing(table, player.player_id))
            if not await _again(lines):
                return
    finally:
        await _stand_up(tables, table.table_id)


async def _started(tables: Tables, table_id: str, last: str, lines: Lines, game: str) -> str | None:
    """Wait for the next game at the table; its id, None if the person would rather leave."""
    table = await tables.get(table_id)
    free = sum(not seat.player_id for seat in table.seats)
    if free:
        show(
            [
                f"Seats free: {free}. Others sit down (here each with a --profile) by",
                f"  kozyr play {game} --join {table_id}",
            ]
        )
    starting = asyncio.ensure_future(tables.started(table_id, last))
    leaving = asyncio.ensure_future(_told_to_leave(lines))
    try:
        with progress("waiting for all to be ready (q leaves)"):
            await asyncio.wait((starting, leaving), return_when=asyncio.FIRST_COMPLETED)
        return starting.result() if starting.done() else None
    finally:
        for task in (starting, leaving):
            task.cancel()
        await asyncio.gather(starting, leaving, return_exceptions=True)


async def _told_to_leave(lines: Lines) -> None:
    """Wait until a person says so; a script's lines are for the game."""
    if not lines.interactive:
        await asyncio.Event().wait()
    while (line := await lines.next()) is not None:
        if line.strip().lower() in ("q", "quit"):
            return


async def _sit(player: Player, game: str, lines: Lines, arguments: argparse.Namespace) -> bool:
    """Play a game of the services; whoever interrupts it is told how to come back."""
    online = await sit_down(player, game, ascii_only=arguments.ascii)
    try:
        return await sit(online, lines)
    except asyncio.CancelledError:
        profile = "" if arguments.profile == "player" else f" --profile {arguments.profile}"
        show(["", f"Your seat stays yours: `kozyr play {online.game}{profile}` goes on."])
        raise


def _standing(table: lobby_pb2.Table, player_id: str) -> list[str]:
    """What the table keeps between games: the stack, the tally of a series."""
    lines = [
        f"Your stack for the next game: {seat.stack}"
        for seat in table.seats
        if seat.player_id == player_id and seat.stack
    ]
    names = {seat.player_id: seat.display_name for seat in table.seats}
    lines += [
        f"  {names.get(line.player_id, '?'):<20} first out {line.wins}, durak {line.losses}"
        for line in table.series
    ]
    return lines


async def _stand_up(tables: Tables, table_id: str) -> None:
    try:
        await tables.leave(table_id)
    except Refused as refused:
        # A game that still goes on keeps the seat; its end frees it.
        if refused.kind is not Kind.PRECONDITION:
            raise


def _name(arguments: argparse.Namespace) -> str:
    given = arguments.name or _login()
    name = re.sub(r"[^A-Za-z0-9 ._-]", "", given).strip()[:NAME_MAX]
    return name or "Guest"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "Guest"
