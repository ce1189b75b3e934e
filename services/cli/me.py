"""`kozyr me`: what is held about you, your numbers and limits, all in a file, and your erasure."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.cli import dossier, finding, limits, statistics
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE
from services.cli.shown import when
from services.cli.terminal import command, emit, progress, show
from services.client.calls import Caller
from services.client.profile import ProfileFile
from services.kernel.errors import Refused


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "me",
        "See what is held about you, your statistics and your limits, have all of it in a file, or "
        "have yourself erased. docs/privacy.md says what goes and what stays, docs/play.md what "
        "counts and what is limited.",
        "kozyr me export me.json",
    )
    doing = made.add_subparsers(
        dest="doing", required=True, metavar="show|stats|listed|limits|export|erase"
    )
    showing = doing.add_parser("show", help="your account")
    showing.add_argument("--json", action="store_true", help="one JSON object")
    counting = doing.add_parser("stats", help="your statistics")
    counting.add_argument("--json", action="store_true", help="one JSON object")
    listing = doing.add_parser("listed", help="be on the leaderboard of a game, or not")
    listing.add_argument("game", choices=list(statistics.GAMES), help="which game")
    listing.add_argument("listed", choices=["yes", "no"], help="whether")
    limiting = doing.add_parser("limits", help="your limits of play, and self-exclusion")
    limits.add_words(limiting, limits.OWN)
    exporting = doing.add_parser("export", help="everything held about you, as one JSON document")
    exporting.add_argument("file", type=Path, metavar="FILE", help="where to")
    erasing = doing.add_parser("erase", help="erase yourself for good")
    add_confirmation(erasing)
    for each in (showing, counting, listing, limiting, exporting, erasing):
        each.add_argument("--profile", default="player", help="which of your accounts (player)")
        add_flags(each)
    return made


def add_confirmation(erasing: argparse.ArgumentParser) -> None:
    """The flags that say that an erasure is meant."""
    erasing.add_argument(
        "--confirm", required=True, metavar="NAME", help="the player's name, to be sure"
    )
    erasing.add_argument(
        "--give-up-chips", action="store_true", help="the chips that are left go back to the house"
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with finding.as_player(settings(arguments), arguments.profile) as player:
        match arguments.doing:
            case "show":
                found = await dossier.Dossier(player, player.player_id, own=True).profile()
                tell(found, as_json=arguments.json)
            case "stats":
                statistics.tell(await statistics.statistics(player, ""), as_json=arguments.json)
            case "listed":
                listed = arguments.listed == "yes"
                await statistics.set_listed(player, arguments.game, listed=listed)
                word = "are" if listed else "are not"
                show([f"you {word} on the leaderboard of {arguments.game}"])
            case "limits":
                await limits.run_own(player, arguments)
            case "export":
                await save(player, player.player_id, arguments.file, own=True)
            case _:
                request = identity_pb2.ErasePlayerRequest(
                    confirm_name=arguments.confirm, give_up_chips=arguments.give_up_chips
                )
                show(lines(await erase(player, request)))
                _forget(ProfileFile(arguments.profile))
    return FINE


async def save(caller: Caller, player_id: str, file: Path, *, own: bool) -> None:
    """Write everything held about a player to a file; raises Failure, Refused."""
    made = dossier.Dossier(caller, player_id, own=own)
    with progress("assembling") as told:
        size = await dossier.write(file, made.pieces(told))
    show([f"{file}: everything held about {player_id}, {size} bytes"])


async def erase(caller: Caller, request: identity_pb2.ErasePlayerRequest) -> identity_pb2.Erasure:
    """Have a player erased; raises Refused that names what stands against it."""
    stub: Any = caller.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
    try:
        reply: identity_pb2.ErasePlayerResponse = await caller.call(
            "lobby", stub.ErasePlayer, request
        )
    except Refused as refused:
        facts = {name: fact for name, fact in refused.facts.items() if name != "request_id"}
        named = "".join(f"; {name} {facts[name]}" for name in sorted(facts))
        raise Refused(refused.kind, refused.reason, refused.message + named) from None
    return reply.erasure


def lines(erasure: identity_pb2.Erasure) -> list[str]:
    """What became of an erasure, for people."""
    ends = f"; the last tokens end at {when(erasure.end_time)} UTC, and all of it then"
    return [
        f"{erasure.player_id} is erased, {erasure.chips} chips went back to the house",
        f"others see a former player from now on{ends}",
    ]


def tell(profile: identity_pb2.GetProfileResponse, *, as_json: bool) -> None:
    """What the lobby holds of a player."""
    if as_json:
        emit(MessageToDict(profile, preserving_proto_field_name=True))
        return
    player, since = profile.player, when(profile.created_time)
    show([f"{player.player_id} {player.display_name}, signed up {since} UTC"])
    show(f"  sign-in that ends {when(each.expire_time)} UTC" for each in profile.sessions)
    if profile.HasField("erasure"):
        step = identity_pb2.ErasureStep.Name(profile.erasure.step).removeprefix("ERASURE_STEP_")
        show([f"  erasure: {step.lower()}, asked for {when(profile.erasure.asked_time)} UTC"])


def _forget(file: ProfileFile) -> None:
    """Remove the profile, which opens nothing any more and holds the name."""
    file.path.unlink(missing_ok=True)
    kept = file.acknowledgements
    if kept.exists():
        show([f"what games acknowledged to you stays yours: {kept}"])
