"""The golden logs: whole games as they were once stored, rows and hashes, replayed for ever.

`python tests/proto/golden_logs.py` writes the log of a rules version that has none; it never
changes one.
A file's first line names the game, its head and its result; every other line is a row.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored

from engines.shuffle import digest
from services.game import domain
from services.game.codec import encode
from services.game.model import Event, Result, Stage
from services.game.rulebook import CURRENT, engine_for
from services.kernel.envelope import Append, Head, Recorded
from services.kernel.seats import AbsentPolicy
from services.runtime.store.chain import GENESIS, SALT_BYTES
from services.runtime.store.rows import chained
from tests.proto.samples import CHOSEN, GAMES, plain
from tests.services.game.logs import GAME_ID, Log, names, opening

FOLDER = Path(__file__).parent / "golden" / "logs"
START = 1_800_000_000_000_000
"""When the games began, Unix microseconds."""
TRIES = 400
EXPIRES = 0.04
"""How likely it is that a turn's time runs out."""

OCTETS = ("payload", "metadata", "body_hash", "secret_digest", "salt", "secret", "hash")
ROW = ("version", "name", "schema", "request_id", "recorded_at", *OCTETS)

SHOWN: Mapping[str, set[str]] = {
    "azi": {"SeedRevealed", "BlindLookedAt", "CardDropped", "AziDeclared", "TurnExpired"},
    "durak": {"SeedRevealed", "Taken", "BotTookOver", "PlayerReturned", "SeatLeft", "DurakNamed"},
    "rami": {"SeedRevealed", "MeldLaid", "LaidOff", "TurnExpired", "RoundScored"},
}
"""What must happen in each kind's log."""


def rows_of(kind: str) -> tuple[dict[str, Any], list[Recorded]]:
    """A golden log: what is said of it, and its rows."""
    header, *lines = (FOLDER / f"{kind}.jsonl").read_text("utf-8").splitlines()
    return json.loads(header), [_row(json.loads(line)) for line in lines]


def head_of(header: Mapping[str, Any], version: int) -> Head:
    """The head of a golden log."""
    return Head(UUID(header["game"]), version, bytes.fromhex(header["head"]), ended=True)


class Timed(Log):
    """A log that remembers when each append was recorded."""

    moments: list[int]

    def when(self, command: domain.GameCommand) -> tuple[Event, ...]:
        """As `Log.when`."""
        events = super().when(command)
        self.moments.append(self.at)
        return events


def play(kind: str, rng: Random) -> Timed:
    """A random game: seeds given by some, turns missed and seats left now and then."""
    log = Timed(at=START)
    log.moments = []
    chosen = {**CHOSEN[kind], "target": 1} if kind == "rami" else CHOSEN[kind]
    options = GAMES[kind].Options(**chosen)
    log.when(opening(kind, 3, people=2, options=options, absent_policy=AbsentPolicy.BOT))
    seeds = [bytes([seat + 1]) * 16 for seat in range(2)]
    for seat, seed in enumerate(seeds):
        log.when(domain.CommitSeed(seat, digest(seed)))
    log.when(domain.RevealSeed(0, seeds[0]))
    log.when(domain.CloseSeeds(Stage.REVEALING))
    while not log.state.ended:
        _turn(log, rng)
    return log


def _turn(log: Timed, rng: Random) -> None:
    state = log.state
    engine = engine_for(state.rules)
    seat = rng.choice(engine.to_act(state.engine))
    chance = rng.random()
    if chance < EXPIRES and state.deadline is not None:
        log.at = state.deadline
        log.when(domain.Expire(seat, state.turn))
    elif chance > 1 - EXPIRES / 4 and not state.seats[seat].is_bot:
        log.when(domain.LeaveSeat(seat))
    else:
        move = rng.choice(engine.legal(state.engine, seat))
        came_back = state.seats[seat].bot_plays and rng.random() < 0.5
        by_bot = state.seats[seat].is_bot and not came_back
        log.when(domain.Play(seat, state.turn, move, by_bot=by_bot))


def best(kind: str) -> Timed:
    """The shortest of many games in which everything happens that should."""
    found = []
    for seed in range(TRIES):
        log = play(kind, Random(seed))
        events = [event for append in log.appends for event in append]
        if set(names(events)) >= SHOWN[kind]:
            found.append((len(events), seed, log))
    return min(found, key=lambda one: one[:2])[2]


def store(log: Timed) -> list[Recorded]:
    """The rows that a log's appends are stored as; salts come from a counter."""
    numbers = itertools.count()
    rows: list[Recorded] = []
    for number, (events, at) in enumerate(zip(log.appends, log.moments, strict=True)):
        append = Append(
            stream=GAME_ID,
            expected=len(rows),
            events=tuple(encode(event) for event in events),
            request_id=f"0/{number:032x}",
            body_hash=digest(b"body %d" % number),
            metadata=stored.Metadata(actor="player").SerializeToString(deterministic=True),
        )
        previous = rows[-1].hash if rows else GENESIS
        salts = [
            None if new.secret is None else _salt(next(numbers), SALT_BYTES)
            for new in append.events
        ]
        rows += chained(append, salts, previous, at)
    return rows


def _salt(number: int, size: int) -> bytes:
    return hashlib.sha256(b"salt %d" % number).digest()[:size]


def _line(row: Recorded) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in ROW}
    return {k: v.hex() if isinstance(v, bytes) else v for k, v in shown.items()}


def _row(line: Mapping[str, Any]) -> Recorded:
    octets = {name: None if line[name] is None else bytes.fromhex(line[name]) for name in OCTETS}
    return Recorded(stream=GAME_ID, **{**line, **octets})


def main() -> int:
    """Write what is missing; returns the exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    there = {rows_of(path.stem)[0]["rules"] for path in FOLDER.glob("*.jsonl")}
    for kind in SHOWN:
        rules = CURRENT[kind]
        path = FOLDER / f"{rules.replace(' ', '-')}.jsonl"
        if rules in there:
            continue
        log = best(kind)
        rows = store(log)
        header = {
            "game": str(GAME_ID),
            "rules": log.state.rules,
            "head": rows[-1].hash.hex(),
            "result": plain(log.state.result, Result),
        }
        lines = [header, *map(_line, rows)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        print(f"{kind}: {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
