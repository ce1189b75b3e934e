"""`replay`: whole games read back, and whole games audited.

Games of all three kinds are played into PostgreSQL through the store. Folding ours is what a reader
does: rows with their secrets opened, decoded, folded. Beside it asyncpg fetches the same octets,
secrets in the clear, from a plain table, and decodes and folds them by the same code. An audit
reads logs and heads as the audit of all games does, some at once and the next ones meanwhile,
follows the chain, and decides every command again; beside it the same commands are decided and
folded with no log at all. One task each.
"""

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from services.cli.archiving.form import packed
from services.cli.archiving.writing import log_line
from services.cli.bench import postgres
from services.cli.bench.measuring import Effort, Report, Slice, interleaved, rate, ratio
from services.cli.bench.scripts import SEATS, GameStreams, Script, Writer, store_commands, whole
from services.cli.bench.store import master_keys
from services.cli.outcome import Failure
from services.game import audit, codec, domain
from services.game.auditors import GAMES_AT_ONCE
from services.game.checking import read_ahead
from services.game.evolve import evolve
from services.game.games import decider
from services.game.model import State
from services.game.pacing import AT_ONCE
from services.game.server import FOLDERS
from services.kernel.decider import fold
from services.runtime.database import open_engine
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams

NAME = "replay"
SECONDS = 1.0
EVENTS_A_MOVE = 2
SIZED = 90
"""So many games are measured one by one."""
NEIGHBOURS = 20
"""The way to the root of a tree of a million leaves."""
PLAYED = 12
"""So many times the events that are read back are played, so that what a database has beside its
log, such as empty tables of the months to come, does not count as if every log had its own."""

PLAIN_TABLE = (
    "CREATE TABLE plain_events (stream uuid, version bigint, name text, schema int, "
    "payload bytea, secret bytea, recorded_at bigint, PRIMARY KEY (stream, version))"
)
PLAIN_QUERY = (
    "SELECT stream, version, name, schema, payload, secret, recorded_at FROM plain_events "
    "WHERE stream = $1 ORDER BY version"
)
SIZE_QUERY = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'"
)

KEPT_QUERY = (
    "SELECT pg_total_relation_size('heads') + pg_total_relation_size('stream_keys') "
    "+ pg_total_relation_size('tags')"
)
"""What stays of a game whose month has left, its leaves in the tree aside."""


class Row(NamedTuple):
    """What decoding needs of a row."""

    stream: UUID
    version: int
    name: str
    schema: int
    payload: bytes
    secret: bytes | None
    recorded_at: int


@dataclass(frozen=True, slots=True)
class Game:
    """A stored game: its log's length, and the commands that led to it with their times."""

    game_id: UUID
    events: int
    commands: tuple[tuple[domain.GameCommand, int], ...]


Work = Callable[[Sequence[Game]], Awaitable[None]]


async def measure(effort: Effort, server_url: str, tell: Callable[[str], None]) -> Report:
    """All of the replay's numbers."""
    report = Report(NAME)
    seconds = effort.slice(SECONDS)
    async with postgres.database(server_url, FOLDERS) as url:
        store = SqlStore(open_engine(url), master_keys())
        (plain,) = await postgres.connections(url, 1)
        try:
            tell("games are played")
            scripts = await play(store, effort.events * PLAYED)
            events = await plain.fetchval("SELECT count(*) FROM events")
            report.absolute["replay.disk_bytes_an_event"] = (
                int(await plain.fetchval(SIZE_QUERY)) / events
            )
            report.absolute["replay.kept_bytes_a_game"] = int(
                await plain.fetchval(KEPT_QUERY)
            ) / len(scripts)
            few = scripts[: max(len(SEATS), len(scripts) // PLAYED)]
            games = [await read_back(store, script) for script in few]
            report.absolute |= await sizes(store, scripts[:SIZED])
            await copy_plain(store, plain, games)
            statement = await plain.prepare(PLAIN_QUERY)
            works: dict[str, Work] = {
                "fold": one_by_one(partial(read_and_fold, store)),
                "raw": one_by_one(partial(fetch_and_fold, statement)),
                "load": one_by_one(partial(load, store)),
                "audit": partial(audit_all, store),
                "play": one_by_one(play_again),
            }
            some = [games[at : at + GAMES_AT_ONCE] for at in range(0, len(games), GAMES_AT_ONCE)]
            sides = {
                name: partial(_slice, work, itertools.cycle(some), seconds, tell, name)
                for name, work in works.items()
            }
            found = await interleaved(sides, effort.rounds)
        finally:
            await plain.close()
            await store.close()
    report.ratios["replay.fold_vs_raw"] = ratio(found["fold"], found["raw"])
    report.ratios["replay.audit_vs_play"] = ratio(found["audit"], found["play"])
    for name, slices in found.items():
        report.absolute[f"replay.{name}_events_per_s"] = rate(slices)
    report.absolute["replay.events"] = events
    return report


async def play(store: SqlStore, events: int) -> Sequence[Script]:
    """Games of every kind, whole, until there are about so many events."""
    writer = Writer(4)
    scripts: list[Script] = []
    while sum(len(script.commands) for script in scripts) * EVENTS_A_MOVE < events:
        scripts.append(writer.write())
    streams: GameStreams = Streams(store, decider(AT_ONCE), cached=len(scripts) + 1)
    await store_commands(streams, scripts, whole)
    return scripts


async def read_back(store: SqlStore, script: Script) -> Game:
    """A game as it was stored; raises Failure unless its audit finds nothing."""
    rows = await store.read(script.game_id)
    if faults := audit.verify_log(script.game_id, rows, await store.head(script.game_id)):
        raise Failure(f"a game just played is not sound: {faults[0].detail}")
    commands = tuple(
        (audit.command_of(step, script.game_id), step.rows[0].recorded_at)
        for step in audit.replay(rows)
    )
    return Game(script.game_id, len(rows), commands)


async def sizes(store: SqlStore, scripts: Sequence[Script]) -> dict[str, float]:
    """Events of a game of each kind, and octets of its archive, in a tree of a million leaves."""
    key = Ed25519PrivateKey.generate()
    place = {"leaf": 0, "proof": [secrets.token_hex(32) for _ in range(NEIGHBOURS)]}
    events: dict[str, list[int]] = {}
    octets: dict[str, list[int]] = {}
    for script in scripts:
        rows = await store.read(script.game_id)
        _, line = log_line(key, script.game_id, rows)
        events.setdefault(script.variant, []).append(len(rows))
        octets.setdefault(script.variant, []).append(len(packed(line, place)))
    found = {f"replay.{kind}_events_a_game": fmean(counts) for kind, counts in events.items()}
    return found | {f"replay.{kind}_archive_bytes": fmean(sizes) for kind, sizes in octets.items()}


async def copy_plain(store: SqlStore, plain: Any, games: Sequence[Game]) -> None:
    """The same events in a table without chain, seal and requests."""
    await plain.execute(PLAIN_TABLE)
    records = [
        (r.stream, r.version, r.name, r.schema, r.payload, r.secret, r.recorded_at)
        for game in games
        for r in await store.read(game.game_id)
    ]
    await plain.copy_records_to_table("plain_events", records=records)
    for table in ("plain_events", "events", "event_secrets"):
        await plain.execute(f"VACUUM ANALYZE {table}")


def one_by_one(work: Callable[[Game], Awaitable[None]]) -> Work:
    """The same work for some games, one after the other."""

    async def each(games: Sequence[Game]) -> None:
        for game in games:
            await work(game)

    return each


async def read_and_fold(store: SqlStore, game: Game) -> None:
    """Ours: read, decode and fold."""
    fold(GAMES, State(), await store.read(game.game_id))


async def fetch_and_fold(statement: Any, game: Game) -> None:
    """Raw: the driver, `FromString`, and the same fold."""
    state = State()
    for record in await statement.fetch(game.game_id):
        row: Any = Row(*record)
        state = evolve(state, codec.decode(row), row.recorded_at)


async def load(store: SqlStore, game: Game) -> None:
    """As a replica takes up a game it does not know: the chain checked as well."""
    streams: GameStreams = Streams(store, GAMES, cached=1)
    await streams.load(game.game_id)


async def audit_all(store: SqlStore, games: Sequence[Game]) -> None:
    """A full audit of the logs, read as an auditing process reads them."""
    async with aclosing(read_ahead(store, [game.game_id for game in games])) as logs:
        async for game_id, log in logs:
            if log is None or audit.verify_log(game_id, log[1], log[0]):
                raise Failure("an audit found a fault")


async def play_again(game: Game) -> None:
    """The same commands decided and folded."""
    state = State()
    for command, at in game.commands:
        for event in domain.decide(state, command):
            state = evolve(state, event, at)


GAMES = decider(AT_ONCE)


async def _slice(
    work: Work,
    batches: Iterator[Sequence[Game]],
    seconds: float,
    tell: Callable[[str], None],
    name: str,
) -> Slice:
    tell(name)
    began = time.perf_counter()
    events = 0
    while not events or time.perf_counter() - began < seconds:
        games = next(batches)
        await work(games)
        events += sum(game.events for game in games)
    return Slice(events, time.perf_counter() - began)
