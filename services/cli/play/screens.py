"""`kozyr play` on screens: coming in, the app, and what is said after it."""

import argparse
import asyncio
import os
import signal
from contextlib import suppress

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.cli.addresses import settings
from services.cli.operators import PATIENCE_MS
from services.cli.outcome import FINE
from services.cli.play.alone import Alone
from services.cli.play.app import PlayApp, Wishes
from services.cli.play.entering import enter, name
from services.cli.play.ink import Theme
from services.cli.play.plan import Plan
from services.cli.play.served import Served
from services.cli.play.session import Opening, Session
from services.cli.shown import LEVELS
from services.cli.terminal import can_draw_suits, say_the_rest, show
from services.client.player import Player
from services.client.tables import game_options

LIGHT_GROUNDS = ("7", "15")
"""Grounds that COLORFGBG names and that are light."""


async def play(arguments: argparse.Namespace, plan: Plan | None) -> int:
    """Play on screens until the person has had enough; the exit code."""
    ascii_only = arguments.ascii or not can_draw_suits()
    where = settings(arguments)
    session: Session
    if arguments.offline:
        pause = where.bot_delay_ms / 1_000
        session = Alone(name(arguments), ascii_only=ascii_only, pause=pause)
    else:
        player = Player(where, PATIENCE_MS)
        try:
            said = await enter(player, arguments)
        except BaseException:
            await player.close()
            raise
        show([said] if said else [])
        session = Served(player, ascii_only=ascii_only)
    wishes = Wishes(
        theme=theme(arguments),
        ascii_only=ascii_only,
        language=_language(arguments),
        opening=None if plan is None or arguments.join else _opening(arguments, plan),
        table_id=arguments.join or "",
        when_cut=arguments.hang_up,
    )
    try:
        app = PlayApp(session, wishes)
        await run_until_cut(app)
    finally:
        await session.close()
    if app.seat_kept:
        profile = "" if arguments.profile == "player" else f" --profile {arguments.profile}"
        with suppress(OSError):  # the terminal may have gone since
            show([f"Your seat stays yours: `kozyr play{profile}` comes back to it."])
    say_the_rest()
    return app.return_code or FINE


async def run_until_cut(app: PlayApp) -> None:
    """Run the app; a signal to end, or a terminal that goes away, ends it in good order."""
    loop = asyncio.get_running_loop()
    ends = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    cutting: list[asyncio.Task[None]] = []
    for number in ends:
        loop.add_signal_handler(number, lambda: cutting.append(asyncio.create_task(app.cut())))
    try:
        await app.run_async()
    finally:
        for number in ends:
            loop.remove_signal_handler(number)
        await asyncio.gather(*cutting, return_exceptions=True)


def theme(arguments: argparse.Namespace) -> Theme:
    """The colours that were asked for, else those that fit the terminal's ground, if it tells."""
    if arguments.no_colour or os.environ.get("NO_COLOR"):
        return "none"
    if arguments.colours:
        chosen: Theme = arguments.colours
        return chosen
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if ground in LIGHT_GROUNDS else "dark"


def _language(arguments: argparse.Namespace) -> str:
    """A BCP 47 tag: the one given, else the locale's."""
    if arguments.language:
        given: str = arguments.language
        return given
    set_in = next((v for k in ("LC_ALL", "LC_MESSAGES", "LANG") if (v := os.environ.get(k))), "")
    tag = set_in.partition(".")[0].replace("_", "-")
    return tag if tag not in ("", "C", "POSIX") else "en"


def _opening(arguments: argparse.Namespace, plan: Plan) -> Opening:
    """The table of the command line."""
    rules = lobby_pb2.TableRules(options=game_options(plan.game, plan.options), seats=plan.seats)
    if not arguments.offline:
        rules.turn_ms = 1_000 * arguments.seconds
        rules.spectators = True
        rules.absent_policy = variant_pb2.ABSENT_POLICY_BOT
    return Opening(rules, plan.bots, LEVELS[arguments.level])
