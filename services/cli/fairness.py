"""`kozyr fairness`: shuffle many decks as the game service does, and judge how even they are."""

import argparse
import hmac
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any
from uuid import UUID

from engines import azi, durak, rami
from engines.shuffle import CONTRIBUTION_BYTES_MAX, CONTRIBUTION_BYTES_MIN, SERVER_SEED_BYTES
from services.cli.evenness import Counts, Finding, findings
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.terminal import command, emit, grid, progress, show
from services.cli.vectors import document
from services.game.deals import SeededChance
from services.game.model import Seat, SeedStatus, State

DECKS = 200_000
DECKS_MIN = 1_000
"""With fewer, a pair of first cards is too rare for its chi-square."""
DECKS_MAX = 100_000_000
DEALS_A_GAME = 10
SEATS = 6
CHUNK = 5_000
"""How many decks are shuffled and counted at once."""
FALSE_ALARM = 1e-6
"""How likely an even shuffle is to be called uneven, all statistics of a run together: so rarely
that a run which fails is looked into. An uneven one is found by far smaller p-values still."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A game whose deals are looked at: its engine, and the label of its draw if it has one."""

    engine: Any
    label: str | None


KINDS: Mapping[str, Kind] = {
    "azi": Kind(azi, "opener"),
    "durak": Kind(durak, "starter"),
    "rami": Kind(rami, None),
}


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "fairness",
        "Shuffle many decks of each pack by the code that deals in play, from seeds of a server "
        "and of players, and judge by chi-square how even they are: card by place, first card, "
        "first two cards, which card of each pair lies first, and the draw of opener or starter. "
        "Exits 1 when chance alone would hardly ever do so "
        f"(once in {round(1 / FALSE_ALARM):,} runs).",
        "kozyr fairness --decks 20000",
    )
    made.add_argument(
        "--decks", type=int, default=DECKS, metavar="N", help="decks a pack (default: %(default)s)"
    )
    made.add_argument("--game", choices=tuple(KINDS), help="only this game's pack")
    made.add_argument("--seed", metavar="HEX", help="take these 32 octets instead of fresh ones")
    made.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    made.add_argument("--json", action="store_true", help="one JSON object a game")
    made.add_argument(
        "--vectors", action="store_true", help="print the published test vectors instead"
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    """Shuffle, count and judge."""
    if arguments.vectors:
        print(document(), end="")
        return FINE
    if not DECKS_MIN <= arguments.decks <= DECKS_MAX:
        raise Failure(f"--decks: must be {DECKS_MIN} to {DECKS_MAX}", USAGE)
    workers = (os.cpu_count() or 1) if arguments.workers is None else arguments.workers
    if workers < 1:
        raise Failure("--workers: must be at least 1", USAGE)
    seed = _seed(arguments.seed)
    games = [arguments.game] if arguments.game else list(KINDS)
    began, tested, uneven = time.monotonic(), 0, 0
    found: dict[str, list[Finding]] = {}
    for game in games:
        with progress(f"fairness {game}") as tell:
            counts = counted(game, arguments.decks, seed, workers, tell)
        found[game] = findings(counts)
        tested += len(found[game])
    limit = FALSE_ALARM / tested
    for game, lines in found.items():
        uneven += sum(line.p < limit for line in lines)
        if arguments.json:
            statistics = [asdict(line) for line in lines]
            emit({"game": game, "decks": arguments.decks, "statistics": statistics, "limit": limit})
    if not arguments.json:
        show(_table(found, limit))
        spent = time.monotonic() - began
        verdict = f"{uneven} WRONG" if uneven else "fine"
        show([f"{verdict}: {arguments.decks} decks a pack, seed {seed.hex()}, {spent:.0f} s"])
    return WRONG if uneven else FINE


def counted(game: str, decks: int, seed: bytes, workers: int, tell: Any) -> Counts:
    """The counts of so many decks of a game, made in several processes; the same for one seed."""
    total = _none(game)
    chunks = [(start, min(CHUNK, decks - start)) for start in range(0, decks, CHUNK)]
    if workers == 1:
        for start, size in chunks:
            total.merge(part(game, seed, start, size))
            tell(f"{total.decks} of {decks}")
        return total
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(part, game, seed, *chunk) for chunk in chunks]):
            total.merge(done.result())
            tell(f"{total.decks} of {decks}")
    return total


def part(game: str, seed: bytes, start: int, size: int) -> Counts:
    """The counts of decks `start` to `start + size`, dealt as in games with players' seeds."""
    kind, counts = KINDS[game], _none(game)
    decks, draws = [], []
    for number in range(start, start + size):
        chance, deal = _dealer(seed, *divmod(number, DEALS_A_GAME))
        decks.append(chance.deck(deal, kind.engine.PACK))
        if kind.label is not None:
            draws.append(chance.seat(deal, kind.label, SEATS))
    counts.add(decks, draws)
    return counts


def _dealer(seed: bytes, game: int, deal: int) -> tuple[SeededChance, int]:
    """The chance of game number `game`, and the deal's number, from 1."""
    made = partial(hmac.digest, seed, digest="sha512")
    number = game.to_bytes(8, "big")
    seats = []
    for seat in range(SEATS):
        drawn = made(b"player" + bytes([seat]) + number)
        length = CONTRIBUTION_BYTES_MIN + drawn[-1] % (
            CONTRIBUTION_BYTES_MAX - CONTRIBUTION_BYTES_MIN
        )
        status = SeedStatus.ABSENT if drawn[-2] % 4 == 0 else SeedStatus.REVEALED
        seats.append(Seat("", None, 0, "", status, b"", drawn[:length]))
    state = State(
        game_id=UUID(bytes=made(b"game" + number)[:16]),
        seats=tuple(seats),
        server_seed=made(b"server" + number)[:SERVER_SEED_BYTES],
    )
    return SeededChance(state), deal + 1


def _none(game: str) -> Counts:
    return Counts(KINDS[game].engine.PACK, SEATS)


def _seed(given: str | None) -> bytes:
    if given is None:
        return secrets.token_bytes(SERVER_SEED_BYTES)
    try:
        seed = bytes.fromhex(given)
    except ValueError:
        seed = b""
    if len(seed) != SERVER_SEED_BYTES:
        raise Failure(f"--seed: must be {SERVER_SEED_BYTES} octets in hexadecimal", USAGE)
    return seed


def _table(found: Mapping[str, list[Finding]], limit: float) -> Iterator[str]:
    heads = ("game", "looked at", "chi-square", "freedom", "p", "")
    rows = [
        (
            game,
            line.name,
            f"{line.chi_square:.1f}",
            line.freedom,
            f"{line.p:.4f}",
            "WRONG" if line.p < limit else "ok",
        )
        for game, lines in found.items()
        for line in lines
    ]
    yield from grid(heads, rows)
