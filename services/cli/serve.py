"""`kozyr serve NAME`: one service as a process of its own."""

import argparse
import faulthandler
import importlib
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from services.cli.terminal import command
from services.runtime.settings import SERVICES

CHUNK = 4096


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "serve",
        "Run one service until SIGTERM or SIGINT. Settings come from KOZYR_… variables. Prints one "
        "JSON line with its address when it is ready; logs go to standard error.",
        "KOZYR_GAME_LISTEN=127.0.0.1:9002 kozyr serve game",
    )
    made.add_argument("name", choices=SERVICES, help="which service")
    made.add_argument(
        "--until-eof",
        action="store_true",
        help="also stop when standard input is closed: never outlive who holds its other end",
    )
    return made


def run(arguments: argparse.Namespace) -> NoReturn:
    """Serve, and end the process with the exit code of the service."""
    if arguments.until_eof:
        threading.Thread(target=_stop_at_eof, name="until-eof", daemon=True).start()
    signal.signal(signal.SIGTERM, _stop_early)
    from services.runtime.server import run as run_service

    server: Any = importlib.import_module(f"services.{arguments.name}.server")
    faulthandler.enable()
    code = run_service(arguments.name, server.compose)
    sys.stdout.flush()
    sys.stderr.flush()
    # All is closed by now. Taking the interpreter down under grpc's threads is what is left, and a
    # process that has lost nothing shall not end with a signal (seen once with grpcio 1.78).
    os._exit(code)


def _stop_early(_number: int, _frame: object) -> NoReturn:
    """SIGTERM before the service listens for it: the first process of a container is sent no signal
    that it has no handler for."""
    raise SystemExit(0)


def _stop_at_eof() -> None:
    try:
        while os.read(sys.stdin.fileno(), CHUNK):
            pass
    except OSError:
        pass  # a closed input is at its end too
    os.kill(os.getpid(), signal.SIGTERM)
