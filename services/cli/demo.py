"""`kozyr demo`: whole games over the four services, one of them broken, and all of it checked."""

import argparse
import asyncio
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from services.cli.demo_checks import (
    Checks,
    Played,
    check_audits,
    check_ledger,
    check_receipts,
    check_replays,
    check_seeds,
    check_streams,
    check_trial_balance,
)
from services.cli.demo_games import play_azi, play_durak, play_rami
from services.cli.operators import operator
from services.cli.outcome import FINE, WRONG, Failure
from services.cli.stack import Stack
from services.cli.terminal import command, emit, show
from services.cli.wallet import account_of, grant
from services.client.player import Player
from services.client.profile import FileFault
from services.kernel.errors import Refused
from services.runtime.settings import SERVICES

GRANT = 500
ENVIRONMENT = {"KOZYR_BOT_DELAY_MS": "0", "KOZYR_LOG_LEVEL": "warning"}
GAME_SECONDS = 75.0
"""How long the games of one kind may take."""
SEED = 7
"""Moves of the driven seats are chosen at random from this seed; decks are not."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "demo",
        "Start the four services with a fresh folder on free ports; play Azi until an azi, a Durak "
        "of four and a Rami match to 100, one seat of each by a client, the rest by bots; kill the "
        "game service in mid-game and finish the same game; replay and audit every game. Exits 0 "
        "only if all that was checked held.",
        "kozyr demo --keep /tmp/kozyr-demo",
    )
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the data in this folder")
    made.add_argument("--json", action="store_true", help="one JSON object a check")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Play, break, check."""
    checks = Checks(quiet=arguments.json)
    if arguments.keep is not None:
        if arguments.keep.exists() and any(arguments.keep.iterdir()):
            raise Failure(f"{arguments.keep} is not empty")
        asyncio.run(_demo(arguments.keep, checks))
    else:
        with tempfile.TemporaryDirectory(prefix="kozyr-demo-") as folder:
            asyncio.run(_demo(Path(folder), checks))
    if arguments.json:
        for each in checks.done:
            emit({"check": each.name, "held": each.held, "detail": each.detail})
    else:
        show(checks.table())
    return FINE if checks.all_held() else WRONG


async def _demo(folder: Path, checks: Checks) -> None:
    checks.tell("starting lobby, game, ai and wallet")
    try:
        async with Stack(folder, environment=ENVIRONMENT) as stack, AsyncExitStack() as closing:
            where = ", ".join(f"{name} {stack.address(name)}" for name in SERVICES)
            checks.note("four services start on free ports", True, where)
            await _played_and_checked(stack, checks, closing)
        checks.note("all services stop when told to", True, "SIGTERM")
    except (Failure, FileFault, Refused) as failure:
        checks.note("nothing unexpected comes up", False, str(failure))


async def _played_and_checked(stack: Stack, checks: Checks, closing: AsyncExitStack) -> None:
    house = operator(stack.settings)
    closing.push_async_callback(house.close)
    players = []
    for name in ("Ann", "Bela", "Chidi"):
        player = Player(stack.settings)
        closing.push_async_callback(player.close)
        await player.sign_up(name)
        before = await account_of(player)
        await grant(house, player.player_id, GRANT, "for the demo")
        after = await account_of(player)
        gained = after.balance - before.balance
        said = f"{name}: {before.balance} + {gained}"
        checks.note(f"{name} signs up and is given chips", gained == GRANT, said)
        players.append(player)
    ann, bela, chidi = players
    games: list[Played] = []
    for kind, playing in (
        ("Azi", partial(play_azi, ann, checks, games, SEED)),
        ("Durak", partial(play_durak, bela, checks, games, stack, SEED)),
        ("Rami", partial(play_rami, chidi, checks, games, SEED)),
    ):
        try:
            async with asyncio.timeout(GAME_SECONDS):
                await playing()
        except (Refused, TimeoutError) as failure:
            checks.note(f"{kind} is played to its end", False, str(failure) or "it takes too long")
    checks.tell(f"checking {len(games)} games")
    check_streams(checks, games)
    check_seeds(checks, games)
    await check_ledger(checks, games)
    await check_replays(checks, house, games)
    await check_audits(checks, house, games)
    await check_receipts(checks, house, games)
    await check_trial_balance(checks, house)
