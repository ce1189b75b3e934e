"""Where the services are: flags, then environment, then what a running stack has written down."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from services.cli.outcome import USAGE, Failure
from services.runtime.settings import SERVICES, Settings

STACK_FILE = "stack.json"
DATA_VARIABLE = "KOZYR_DATA"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags by which a command finds the services."""
    add_data(parser)
    for name in SERVICES:
        variable = f"KOZYR_{name.upper()}_ADDRESS"
        parser.add_argument(
            f"--{name}-address", metavar="HOST:PORT", help=f"where {name} is (env {variable})"
        )


def add_data(parser: argparse.ArgumentParser) -> None:
    """The flag that names the data folder alone."""
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="data folder of a `kozyr up` (env KOZYR_DATA)"
    )


def data_folder(arguments: argparse.Namespace) -> Path:
    """The data folder: flag, `KOZYR_DATA`, `KOZYR_DATA_FOLDER`, or `data`."""
    given = arguments.data or os.environ.get(DATA_VARIABLE) or os.environ.get("KOZYR_DATA_FOLDER")
    return Path(given or "data")


def settings(arguments: argparse.Namespace) -> Settings:
    """Settings that lead to the services; raises Failure for ones that make no sense."""
    folder = data_folder(arguments)
    values: dict[str, Any] = {"data_folder": folder}
    written = read_addresses(folder)
    for name in SERVICES:
        key = f"{name}_address"
        flag = getattr(arguments, key, None)
        if flag is not None:
            values[key] = flag
        elif f"KOZYR_{key.upper()}" not in os.environ and name in written:
            values[key] = written[name]
    return make_settings(values)


def make_settings(values: dict[str, Any]) -> Settings:
    """Settings with these values over the environment's; raises Failure."""
    try:
        return Settings(**values)
    except ValidationError as error:
        from services.runtime.server import setting_problems

        raise Failure("; ".join(setting_problems(error)), USAGE) from None


def write_addresses(folder: Path, addresses: dict[str, str]) -> None:
    """Leave the addresses of a running stack in its data folder."""
    draft = folder / f".{STACK_FILE}.{os.getpid()}"
    draft.write_text(json.dumps({"pid": os.getpid(), "addresses": addresses}) + "\n", "utf-8")
    draft.replace(folder / STACK_FILE)


def remove_addresses(folder: Path) -> None:
    """Take them away again."""
    (folder / STACK_FILE).unlink(missing_ok=True)


def read_addresses(folder: Path) -> dict[str, str]:
    """The addresses a stack has left in its data folder; none if there is none."""
    try:
        kept = json.loads((folder / STACK_FILE).read_text("utf-8"))
        return {str(name): str(address) for name, address in kept["addresses"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
