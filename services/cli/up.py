"""`kozyr up`: the four services on this machine, and what a newcomer can do next."""

import argparse
import asyncio
import shlex
import shutil
import signal
import sys
from pathlib import Path

from services.cli.addresses import data_folder
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.stack import PORT_BASE, Stack, free_ports, ports_from
from services.cli.terminal import command, progress, show
from services.runtime.settings import SERVICES

PORT_BASE_MAX = 65_536 - len(SERVICES)
NEXT = (
    ("kozyr play durak", "play against bots (azi and rami as well)"),
    ("kozyr games", "list games"),
    ("kozyr watch last", "follow the newest game"),
    ("kozyr replay last", "every step of the newest finished game"),
    ("kozyr audit --all", "execute every log again and check it"),
    ("kozyr wallet trial-balance", "see that no chip appeared or vanished"),
    ("kozyr token operator", "a token for grpcurl (reflection is on)"),
)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "up",
        "Run lobby, game, ai and wallet on this machine with SQLite, nothing else needed. Keys and "
        "databases are made where they are missing. Ctrl-C stops all.",
        "kozyr up --data ~/kozyr-data --port-base 9001",
    )
    made.add_argument(
        "--data", type=Path, metavar="FOLDER", help="databases, keys, logs (env KOZYR_DATA; `data`)"
    )
    ports = made.add_mutually_exclusive_group()
    ports.add_argument(
        "--port-base", type=int, default=PORT_BASE, metavar="N", help=f"first port ({PORT_BASE})"
    )
    ports.add_argument("--free-ports", action="store_true", help="any four ports that are free")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal, or until a service ends by itself."""
    return asyncio.run(_up(arguments))


async def _up(arguments: argparse.Namespace) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if not 1 <= arguments.port_base <= PORT_BASE_MAX:
        raise Failure(f"--port-base: must be 1 to {PORT_BASE_MAX}", USAGE)
    ports = free_ports() if arguments.free_ports else ports_from(arguments.port_base)
    stack = Stack(data_folder(arguments), ports)
    with progress("starting lobby, game, ai and wallet"):
        starting = asyncio.ensure_future(stack.__aenter__())
        asked = asyncio.ensure_future(stop.wait())
        await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return FINE
        await starting
    try:
        show(_welcome(stack))
        died = asyncio.ensure_future(stack.died())
        await asyncio.wait((died, asked), return_when=asyncio.FIRST_COMPLETED)
        if died.done():
            name, code = died.result()
            show([f"{name} ended by itself (exit code {code}): {stack.last_words(name)}"])
            return WRONG
        died.cancel()
        show(["stopping"])
        return FINE
    finally:
        await stack.__aexit__()


def _welcome(stack: Stack) -> list[str]:
    lines = [f"{name:<7} {stack.address(name)}" for name in SERVICES]
    lines += [f"data    {stack.data}", "", "Next, in another terminal:"]
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("kozyr") is None and activate.exists():
        lines.append(f"  . {shlex.quote(str(activate))}")
    lines.append(f"  export KOZYR_DATA={shlex.quote(str(stack.data))}")
    lines += [f"  {typed:<28}{meaning}" for typed, meaning in NEXT]
    return [*lines, "", "Ctrl-C stops all."]
