"""`kozyr scenario`: rulings written as data, run and judged."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines import scenario as scenarios
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.terminal import command, emit, progress, show


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "scenario",
        "Run scenario files: a position, moves, and what must come of them. Prints a line for "
        "each scenario that fails, with what was expected and what it came to; exits 1 if any did.",
        "kozyr scenario tests/engines/cases/azi.jsonl",
    )
    made.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one JSON object a line")
    made.add_argument(
        "--json", action="store_true", help="print what each came to instead of judging it"
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    """Judge, or print, every scenario of the files; those that make no sense are told last."""
    found = list(_read(arguments.files))
    failed = 0
    senseless: list[str] = []
    with progress("scenarios") as tell:
        for number, (file, scenario) in enumerate(found, 1):
            tell(f"{number} of {len(found)}")
            name = scenario.get("id", "?")
            try:
                if arguments.json:
                    emit(scenarios.run(scenario))
                    continue
                differences = scenarios.judge(scenario)
            except ValueError as problem:
                senseless.append(f"{file}: {name}: {problem}")
                continue
            for difference in differences:
                show([f"{name}: {difference}"])
            failed += bool(differences)
    if not arguments.json:
        show([f"{len(found)} scenarios, {failed} failed"])
    if senseless:
        raise Failure("\n".join(senseless), USAGE)
    return WRONG if failed else FINE


def _read(files: list[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in files:
        try:
            scenarios_of_file = scenarios.read(file.read_text("utf-8"))
        except OSError as error:
            raise Failure(f"{file}: {error.strerror or error}", USAGE) from None
        except ValueError as problem:
            raise Failure(f"{file}: {problem}", USAGE) from None
        for scenario in scenarios_of_file:
            yield file, scenario
