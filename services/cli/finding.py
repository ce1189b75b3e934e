"""Finding games and names: what commands that look at games have in common with each other."""

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from kozyr.game.v1 import game_pb2, view_pb2

from services.cli.operators import OPERATOR, PATIENCE_MS, operator
from services.cli.outcome import Failure
from services.cli.pictures.look import Look
from services.cli.shown import LEVELS
from services.cli.terminal import can_draw_suits
from services.client import lists
from services.client.calls import Caller
from services.client.player import Player
from services.client.profile import ProfileFile
from services.kernel.errors import Refused
from services.kernel.ids import parse_uuid
from services.runtime.settings import Settings

LAST = "last"
LEVEL_NAMES = {value: name for name, value in LEVELS.items()}


def add_game(parser: argparse.ArgumentParser, *, ended: bool = False) -> None:
    """The argument that names a game, with `ended` one that has ended."""
    kind = "finished game" if ended else "game"
    parser.add_argument(
        "game", metavar="GAME", help=f"a game's id, or `last` for the newest {kind}"
    )


def add_look(parser: argparse.ArgumentParser) -> None:
    """The flag for terminals without the signs of the suits."""
    parser.add_argument("--ascii", action="store_true", help="letters instead of ♠♥♦♣")


@asynccontextmanager
async def as_operator(settings: Settings, subject: str = OPERATOR) -> AsyncIterator[Caller]:
    """Call as an operator."""
    caller = operator(settings, subject=subject)
    try:
        yield caller
    finally:
        await caller.close()


@asynccontextmanager
async def as_player(settings: Settings, profile: str = "player") -> AsyncIterator[Player]:
    """Call as the player of the profile, in a session of its own that ends with what is done.

    Raises Failure if there is none.
    """
    file = ProfileFile(profile)
    kept = file.read()
    if kept is None:
        raise Failure("you have not played here yet: `kozyr play` signs you up")
    player = Player(settings, PATIENCE_MS)
    try:
        await player.sign_in(kept, file)
        yield player
        with suppress(Refused):
            await player.sign_out()
    finally:
        await player.close()


@asynccontextmanager
async def as_nobody(settings: Settings) -> AsyncIterator[Caller]:
    """Call without an account."""
    caller = Caller(settings, patience_ms=PATIENCE_MS)
    try:
        yield caller
    finally:
        await caller.close()


async def game_id(caller: Caller, named: str, *, ended: bool = False) -> str:
    """The id of the game that is meant, `last` being with `ended` one that has ended.

    Raises Failure.
    """
    if named != LAST:
        if parse_uuid(named) is None:
            raise Failure(f"{named!r} is no game's id; `kozyr games` lists them")
        return named
    request = game_pb2.ListGamesRequest(page_size=1)
    if ended:
        request.running = False
    async for game in lists.games(caller, request):
        return game.game_id
    raise Failure("no game has ended yet" if ended else "there is no game yet")


async def look_for(
    caller: Caller, seats: Sequence[view_pb2.GameSeat], *, ascii_only: bool = False
) -> Look:
    """How to draw a game with these seats."""
    names = await lists.names_of(caller, (seat.player_id for seat in seats))
    return Look(
        tuple(names.get(seat.player_id) or _unnamed(i, seat) for i, seat in enumerate(seats)),
        ascii=ascii_only or not can_draw_suits(),
    )


def nameless(seats: Sequence[view_pb2.GameSeat], *, ascii_only: bool = False) -> Look:
    """How to draw a game whose players nobody can be asked for."""
    return Look(
        tuple(_unnamed(seat, who) for seat, who in enumerate(seats)),
        ascii=ascii_only or not can_draw_suits(),
    )


def _unnamed(seat: int, who: view_pb2.GameSeat) -> str:
    level = LEVEL_NAMES.get(who.bot_level)
    return f"bot {seat} ({level})" if level else f"seat {seat}"
