"""`kozyr account`: how you sign in, on which devices, and signing out."""

import argparse
import asyncio
import getpass
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.operators import PATIENCE_MS
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, show
from services.client.player import Player
from services.client.profile import ProfileFile

DEVICE = "Terminal"


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "account",
        "See how you sign in and where you are signed in, choose a login name and a password, come "
        "back on another machine, end sessions. A password is read without being shown, or from "
        "standard input.",
        "kozyr account password --login nino",
    )
    doing = made.add_subparsers(
        dest="doing", required=True, metavar="show|password|sign-in|sign-out|remove-device|secret"
    )
    showing = doing.add_parser("show", help="login name, devices and sessions")
    showing.add_argument("--json", action="store_true", help="one JSON object")
    choosing = doing.add_parser("password", help="choose a password; ends all other sessions")
    choosing.add_argument("--login", default="", metavar="NAME", help="and a login name")
    coming = doing.add_parser("sign-in", help="be a player of a login name, on a new machine")
    coming.add_argument("login", metavar="NAME", help="the login name")
    coming.add_argument("--device", default=DEVICE, metavar="NAME", help="what it is called")
    going = doing.add_parser("sign-out", help="end a session, or all of them")
    which = going.add_mutually_exclusive_group(required=True)
    which.add_argument("session", nargs="?", default="", metavar="SESSION", help="its id")
    which.add_argument("--everywhere", action="store_true", help="all of them")
    removing = doing.add_parser("remove-device", help="let a device's key sign in no longer")
    removing.add_argument("device", metavar="DEVICE", help="its id")
    renewing = doing.add_parser("secret", help="another secret; ends all other sessions")
    for each in (showing, choosing, coming, going, removing, renewing):
        each.add_argument("--profile", default="player", help="which of your accounts (player)")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    if arguments.doing == "sign-in":
        await _come(arguments)
        return FINE
    async with finding.as_player(settings(arguments), arguments.profile) as player:
        stub: Any = player.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
        match arguments.doing:
            case "show":
                asked = identity_pb2.GetProfileRequest()
                profile = await player.call("lobby", stub.GetProfile, asked)
                if arguments.json:
                    emit(MessageToDict(profile, preserving_proto_field_name=True))
                else:
                    show(lines(profile))
            case "password":
                chosen = identity_pb2.SetPasswordRequest(
                    login_name=arguments.login, new_password=_password(new=True)
                )
                reply = await player.call("lobby", stub.SetPassword, chosen)
                show([f"you sign in as {reply.login_name}; all other sessions have ended"])
            case "sign-out":
                await _go(player, stub, arguments)
            case "remove-device":
                removed = identity_pb2.RemoveDeviceRequest(device_id=arguments.device)
                await player.call("lobby", stub.RemoveDevice, removed)
                show(["the device is removed, and its sessions have ended"])
            case _:
                await _renew(player, stub, ProfileFile(arguments.profile))
    return FINE


async def _come(arguments: argparse.Namespace) -> None:
    file = ProfileFile(arguments.profile)
    if file.read() is not None:
        raise Failure(f"{file.path} is somebody's; name another with --profile", USAGE)
    player = Player(settings(arguments), PATIENCE_MS)
    try:
        typed = _password(new=False)
        profile = await player.sign_in_with_password(arguments.login, typed, arguments.device)
        file.write(profile)
        await player.sign_out()
    finally:
        await player.close()
    show([f"you are {profile.display_name} here; the device's key is in {file.path}"])


async def _go(player: Player, stub: Any, arguments: argparse.Namespace) -> None:
    if arguments.everywhere:
        everywhere = identity_pb2.SignOutEverywhereRequest()
        await player.call("lobby", stub.SignOutEverywhere, everywhere)
        show(["all sessions have ended; who holds your secret, password or a key can begin others"])
        return
    ended = identity_pb2.SignOutRequest(session_id=arguments.session)
    await player.call("lobby", stub.SignOut, ended)
    show(["the session has ended"])


async def _renew(player: Player, stub: Any, file: ProfileFile) -> None:
    """Another secret, kept in the profile; a profile with a device's key keeps that alone."""
    kept = file.read()
    reply = await player.call("lobby", stub.RenewSecret, identity_pb2.RenewSecretRequest())
    if kept is not None and not kept.device_key:
        file.write(replace(kept, secret=reply.secret))
    show(["the secret is another one now; all other sessions have ended"])


def lines(profile: identity_pb2.GetProfileResponse) -> Iterator[str]:
    """How a player signs in, for people."""
    player = profile.player
    named = f"signs in as {profile.login_name}" if profile.login_name else "a guest"
    yield f"{player.player_id} {player.display_name}, {named}"
    for device in profile.devices:
        used = when(device.used_time) if device.HasField("used_time") else "never"
        yield f"  device {device.device_id} {device.device_name}, used {used}"
    for known in profile.externals:
        yield f"  known to {known.issuer} since {when(known.created_time)} UTC"
    for session in profile.sessions:
        means = identity_pb2.SignInMeans.Name(session.means).removeprefix("SIGN_IN_MEANS_")
        began = when(session.start_time) if session.HasField("start_time") else "earlier"
        mine = ", this one" if session.current else ""
        called = f" {session.device_name}" if session.device_name else ""
        how = means.lower().replace("_", " ")
        yield f"  session {session.session_id}{called} by {how}, begun {began} UTC{mine}"


def _password(*, new: bool) -> str:
    """A password from the terminal, unseen, a new one twice; without a terminal a line of input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    typed = getpass.getpass("password: ")
    if new and getpass.getpass("again: ") != typed:
        raise Failure("the two are not the same", USAGE)
    return typed
