"""`kozyr replay`: a finished game, step by step, with every hand laid open."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, history_pb2, history_pb2_grpc, view_pb2

from engines.cards import Card
from services.cli import finding, pictures
from services.cli.addresses import add_flags, settings
from services.cli.keys import keys
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.pictures.look import Look
from services.cli.shown import ending, picture, told
from services.cli.terminal import command, console, emit, show
from services.client.calls import Caller
from services.client.variants import View
from services.client.views import game_of, table_view
from services.client.watching import ENDED

ME = "me"
BACK = {"p", "b", "k", "left", "up"}
FIRST = {"f", "g", "home"}
LAST = {"l", "G", "end"}
QUIT = {"q", "\x03", "\x04", "escape"}
Steps = Sequence[audit_pb2.ReplayGameResponse]
STEP_HELP = "n or space: next | p: back | f: first | l: last | q: quit"


@dataclass(frozen=True, slots=True)
class Perspective:
    """How to show a game: names, which view of each step to use (a seat's, or the only one there
    is), None for all hands; `acts` where it is known who made a step."""

    look: Look
    seat: int | None
    acts: bool = True


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "replay",
        "Step through a finished game: what happened, the table, all hands; or through one of "
        "yours as you saw it; or one that you have a link to. Without flags every step is printed.",
        "kozyr replay last --step",
    )
    made.add_argument(
        "game",
        metavar="GAME",
        nargs="?",
        help="a game's id, or `last` for the newest finished game",
    )
    made.add_argument(
        "--link", metavar="TOKEN", help="the game of this link, as the table saw it (kozyr share)"
    )
    how = made.add_mutually_exclusive_group()
    how.add_argument("--at", type=int, metavar="N", help="only the state at version N")
    how.add_argument("--step", action="store_true", help=f"wait for keys ({STEP_HELP})")
    how.add_argument("--json", action="store_true", help="one JSON object a step")
    made.add_argument(
        "--as",
        dest="eyes",
        metavar="SEAT",
        help="only what this seat (from 0) saw; `me`: what you saw, of a running game up to now",
    )
    made.add_argument("--mine", action="store_true", help="as a player who sat in the game")
    made.add_argument(
        "--archive", type=Path, metavar="DIR", help="out of an archive, without any server"
    )
    finding.add_look(made)
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    if (arguments.game is None) == (arguments.link is None):
        raise Failure("say a GAME, or --link TOKEN", USAGE)
    if arguments.archive is not None and (arguments.link or arguments.mine or arguments.eyes == ME):
        raise Failure("--archive goes with a GAME, for operators", USAGE)
    return asyncio.run(_replay(arguments))


async def steps_of(caller: Caller, game: str) -> list[audit_pb2.ReplayGameResponse]:
    """Every step of a finished game; raises Refused."""
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.ReplayGameRequest(game_id=game)
    return [step async for step in caller.stream("game", stub.ReplayGame, request)]


async def own_steps_of(caller: Caller, game: str) -> list[audit_pb2.ReplayGameResponse]:
    """Every step so far of a game of the caller's, as he saw it; raises Refused."""
    stub: Any = caller.stub("game", history_pb2_grpc.HistoryServiceStub)
    request = history_pb2.ReplayOwnGameRequest(game_id=game)
    replies = caller.stream("game", stub.ReplayOwnGame, request)
    return [
        audit_pb2.ReplayGameResponse(
            from_version=reply.step.from_version,
            to_version=reply.step.to_version,
            happenings=reply.step.happenings,
            views=[reply.step.view],
        )
        async for reply in replies
    ]


async def shared_steps_of(caller: Caller, token: str) -> list[audit_pb2.ReplayGameResponse]:
    """Every step of the game a link leads to, by their numbers; raises Refused."""
    stub: Any = caller.stub("game", history_pb2_grpc.HistoryServiceStub)
    request = history_pb2.ReplaySharedGameRequest(token=token)
    replies = caller.stream("game", stub.ReplaySharedGame, request)
    return [
        audit_pb2.ReplayGameResponse(
            from_version=reply.number,
            to_version=reply.number,
            happenings=reply.happenings,
            views=[reply.view],
        )
        async for reply in replies
    ]


async def _replay(arguments: argparse.Namespace) -> int:
    if arguments.archive is not None:
        return await _shown(*_archived(arguments), arguments)
    return await _shown(*await _asked(arguments), arguments)


def _archived(arguments: argparse.Namespace) -> tuple[Steps, Perspective]:
    """The steps of an archived game; its players have no names here, as an archive knows none."""
    from services.cli.archiving import opened

    whole = opened.game_of(settings(arguments), arguments.archive, arguments.game)
    steps = opened.steps_of(whole)
    seats = steps[-1].views[0].seats
    look = finding.nameless(seats, ascii_only=arguments.ascii)
    return steps, Perspective(look, _seat(arguments.eyes, len(seats)))


async def _asked(arguments: argparse.Namespace) -> tuple[Steps, Perspective]:
    """The steps as the game service has them."""
    where, alone = settings(arguments), arguments.link is not None or arguments.eyes == ME
    if arguments.link is not None:
        opened = finding.as_nobody(where)
    elif arguments.mine or arguments.eyes == ME:
        opened = finding.as_player(where)
    else:
        opened = finding.as_operator(where)
    async with opened as caller:
        if arguments.link is not None:
            steps = await shared_steps_of(caller, arguments.link)
        else:
            game = await finding.game_id(caller, arguments.game, ended=arguments.eyes != ME)
            steps = await (own_steps_of if alone else steps_of)(caller, game)
        if not steps:
            raise Failure("the game's log is empty", WRONG)
        seats = steps[-1].views[0].seats
        seat = 0 if alone else _seat(arguments.eyes, len(seats))
        look = await finding.look_for(caller, seats, ascii_only=arguments.ascii)
    return steps, Perspective(look, seat, acts=not alone)


async def _shown(steps: Steps, perspective: Perspective, arguments: argparse.Namespace) -> int:
    """Show the steps as it is asked for."""
    if arguments.json:
        for step in steps:
            emit(_plain(step, perspective.seat))
    elif arguments.at is not None:
        show(drawn(_at(steps, arguments.at), perspective))
    elif arguments.step:
        await _stepped(steps, perspective)
    else:
        for step in steps:
            show([*drawn(step, perspective), ""])
    return FINE


def _seat(named: str | None, seats: int) -> int | None:
    """The seat whose eyes are asked for, None for all hands."""
    if named is None:
        return None
    if not named.isdecimal() or int(named) not in range(seats):
        raise Failure(f"--as: the game has seats 0 to {seats - 1}", USAGE)
    return int(named)


def _at(
    steps: Sequence[audit_pb2.ReplayGameResponse], version: int
) -> audit_pb2.ReplayGameResponse:
    for step in steps:
        if step.from_version <= version <= step.to_version:
            return step
    raise Failure(f"--at: the log has versions 1 to {steps[-1].to_version}", USAGE)


def drawn(step: audit_pb2.ReplayGameResponse, perspective: Perspective) -> list[str]:
    """One step as lines: its versions, who acted, what happened, the table."""
    look = perspective.look
    versions = f"{step.from_version}"
    if step.to_version != step.from_version:
        versions += f"-{step.to_version}"
    reason = f": {step.reason}" if step.reason else ""
    actor = f", by {step.actor or 'server'}{reason}" if perspective.acts else ""
    lines = [f"--- version {versions}{actor}"]
    lines += [told(happening, look) for happening in step.happenings]
    lines = [piece for line in lines for piece in pictures.fold(line)]
    seen = _seen(step, perspective.seat)
    if perspective.seat is None:
        lines += _open_table(step, look)
    else:
        lines += picture(seen, look)
    return lines + (ending(seen, look) if seen.stage in ENDED else [])


def _seen(step: audit_pb2.ReplayGameResponse, seat: int | None) -> view_pb2.GameView:
    """The view of that seat, or of the seat that is to move, who sees what it has drawn."""
    if seat is not None:
        return step.views[seat]
    to_act = step.views[0].to_act
    return step.views[to_act[0] if to_act else 0]


def _open_table(step: audit_pb2.ReplayGameResponse, look: Look) -> list[str]:
    """The table with every hand."""
    seen = _seen(step, None)
    read = table_view(seen)
    if read is None:
        return picture(seen, look)
    hands: dict[int, Sequence[Card]] = {}
    for seat, view in enumerate(step.views):
        own = table_view(view)
        # A hand that its own seat has not looked at yet stays closed here too.
        if own is not None and (own.hand or not _count(own, seat)):
            hands[seat] = own.hand
    return pictures.table(game_of(seen), replace(read, seat=None), look, hands)


def _count(view: View, seat: int) -> int:
    """How many cards a seat holds."""
    counts = getattr(view, "counts", None)
    if counts is None:
        cards: int = getattr(view, "seats")[seat].cards  # noqa: B009 - a view of Azi
        return cards
    held: int = counts[seat]
    return held


def _plain(step: audit_pb2.ReplayGameResponse, seat: int | None) -> dict[str, Any]:
    if seat is not None:
        own = step.views[seat]
        kept = audit_pb2.ReplayGameResponse(views=[own])
        del step.views[:]
        step.views.append(kept.views[0])
    return MessageToDict(step, preserving_proto_field_name=True)


async def _stepped(steps: Sequence[audit_pb2.ReplayGameResponse], perspective: Perspective) -> None:
    """Show one step at a time, moving by keys, until the input ends or `q`."""
    out, at = console(), 0
    async with keys() as pressed:
        while True:
            if out.is_terminal:
                out.clear()
            show(drawn(steps[at], perspective))
            show([f"[{at + 1} of {len(steps)}] {STEP_HELP}"])
            key = await pressed()
            if key is None or key in QUIT:
                return
            if key in BACK:
                at = max(0, at - 1)
            elif key in FIRST:
                at = 0
            elif key in LAST:
                at = len(steps) - 1
            else:
                at = min(len(steps) - 1, at + 1)
