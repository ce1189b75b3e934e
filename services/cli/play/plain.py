"""`kozyr play` in lines: for pipes, scripts, and terminals that can do no more."""

import argparse
import asyncio
from random import Random
from typing import Any

from kozyr.game.v1 import game_pb2, variant_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.cli.addresses import settings
from services.cli.deals import SeedChance
from services.cli.lines import Lines
from services.cli.offline import OfflineTable
from services.cli.online import sit_down
from services.cli.operators import PATIENCE_MS
from services.cli.outcome import FINE
from services.cli.pictures.look import Look
from services.cli.play.entering import enter, name
from services.cli.play.plan import Plan
from services.cli.shown import LEVELS
from services.cli.sitting import sit
from services.cli.terminal import can_draw_suits, progress, show
from services.client import lists
from services.client.player import Player
from services.client.tables import Tables, game_options
from services.client.variants import View, engine, read_values
from services.kernel.errors import Kind, Refused
from services.runtime.wire import games as wire

AGAIN = "Enter plays again, q ends."


async def play(arguments: argparse.Namespace, plan: Plan) -> int:
    """Play in lines until the person has had enough; the exit code."""
    if arguments.offline:
        return await _offline(arguments, plan)
    return await _online(arguments, plan)


async def _offline(arguments: argparse.Namespace, plan: Plan) -> int:
    from services.ai.bots import choose
    from services.kernel.seats import BotLevel

    level = BotLevel[arguments.level.upper()]
    rng = Random()  # noqa: S311 - bots mix their play; the cards come from elsewhere

    def chosen(view: View, history: Any) -> tuple[Any, str]:
        choice = choose(arguments.game, view, history, level, rng)
        return choice.move, choice.reason

    names = (name(arguments), *(f"Bot {seat}" for seat in range(1, plan.seats)))
    look = Look(names, ascii=arguments.ascii or not can_draw_suits())
    options = read_values(engine(arguments.game).Options, plan.options)
    async with Lines() as lines:
        while True:
            table = OfflineTable(arguments.game, look, SeedChance(), chosen, options)
            if not await sit(table, lines) or not await _again(lines):
                return FINE


async def _again(lines: Lines) -> bool:
    show(["", AGAIN])
    line = await lines.next()
    return line is not None and line.strip().lower() not in ("q", "quit", "n", "no")


async def _online(arguments: argparse.Namespace, plan: Plan) -> int:
    player = Player(settings(arguments), PATIENCE_MS)
    try:
        said = await enter(player, arguments)
        show([said] if said else [])
        running = await _running(player, arguments.game)
        async with Lines() as lines:
            if running is not None:
                show(["You are in a game already; it goes on."])
                await _sit(player, running, lines, arguments)
                return FINE
            await _at_table(player, lines, arguments, plan)
    finally:
        await player.close()
    return FINE


async def _running(player: Player, game: str) -> str | None:
    """A game of this kind the player is in, left by a terminal that went away."""
    async for found in lists.games(player, game_pb2.ListGamesRequest(running=True)):
        seats = [seat for seat in found.seats if seat.player_id == player.player_id]
        if wire.NAMES.get(found.variant) == game and not all(seat.left for seat in seats):
            return found.game_id
    return None


async def _at_table(
    player: Player, lines: Lines, arguments: argparse.Namespace, plan: Plan
) -> None:
    """Open or join a table and play games at it until the person has had enough."""
    tables = Tables(player)
    if arguments.join:
        table = await tables.sit(arguments.join)
    else:
        table = await tables.create(
            lobby_pb2.TableRules(
                options=game_options(arguments.game, plan.options),
                seats=plan.seats,
                turn_ms=1_000 * arguments.seconds,
                spectators=True,
                absent_policy=variant_pb2.ABSENT_POLICY_BOT,
            )
        )
        for _ in range(plan.bots):
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
