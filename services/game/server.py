"""The game service's process: what it is made of, and its main."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from kozyr.game.v1 import (
    audit_pb2,
    audit_pb2_grpc,
    checkpoint_pb2,
    checkpoint_pb2_grpc,
    game_pb2,
    game_pb2_grpc,
    history_pb2,
    history_pb2_grpc,
    keys_pb2,
    keys_pb2_grpc,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game import migrations
from services.game.accesses import Accesses
from services.game.arbitration import Disputes
from services.game.auditing import AuditServicer
from services.game.auditors import Auditors
from services.game.checkpoints import Checkpointer
from services.game.compensating import Compensating
from services.game.connections import Connections
from services.game.delays import Delays
from services.game.disputes import DISPUTE_VERSION
from services.game.endings import Endings
from services.game.evidence import Evidence
from services.game.forgetting import Forgetting
from services.game.games import Games, decider
from services.game.gauges import gauges
from services.game.hints import Hints
from services.game.histories import HistoryServicer
from services.game.kept import NAME, KeptNote
from services.game.listing import Listing
from services.game.masterkeys import KeyServicer
from services.game.outages import Outages
from services.game.pacing import Pace
from services.game.peers import Peers
from services.game.proving import CheckpointServicer
from services.game.published import published
from services.game.reactions import WORK_AT_ONCE, Reactions
from services.game.rulebook import UNKNOWN_RULES
from services.game.servicer import GameServicer
from services.game.shares import Shares
from services.game.steps import Steps
from services.game.texts import Texts, dispute_texts
from services.game.verdicts import Verdicts
from services.game.watching import Watching
from services.kernel.envelope import Claimed, Plan
from services.runtime.due import DueWorker
from services.runtime.eventstore import (
    MIGRATIONS,
    close_store,
    measured,
    open_store,
    supervised,
)
from services.runtime.feed import Feed
from services.runtime.keys import load_private, public_keys
from services.runtime.relay import Relay
from services.runtime.server import Process, Service, run
from services.runtime.shredding import Shredder
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.partitions import Partitions
from services.runtime.store.sql import SqlStore

FOLDERS: tuple[Path, ...] = (MIGRATIONS, migrations.FOLDER)
"""Migrations of the game's database."""


Tasks = Mapping[str, Callable[[], Awaitable[None]]]


@dataclass(frozen=True, slots=True)
class Hosted:
    """Games, disputes about them, and the work that is due for both; `tasks` run beside them."""

    games: Games
    disputes: Disputes
    texts: Texts
    peers: Peers
    outages: Outages
    worker: DueWorker
    feed: Feed
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class Watched:
    """What is kept beside the games: who looked, who called, what is signed; with its tasks."""

    accesses: Accesses
    connections: Connections
    shares: Shares
    checkpointer: Checkpointer
    key: Ed25519PrivateKey
    keys: list[Ed25519PublicKey]
    tasks: Tasks


async def compose(process: Process) -> Service:
    """Open the game service's database and put its parts together."""
    settings = process.settings
    engine, store = await open_store(settings, "game", FOLDERS, secrets=True, published=published)
    hosted = await compose_games(process, engine, store)
    watched = compose_records(process, engine, hosted)
    auditors, partitions = Auditors(settings), Partitions(engine)
    steps = Steps(hosted.games)
    play, history = compose_play(process, hosted, watched, steps)
    audit = compose_audit(process, engine, store, hosted, watched, auditors)
    prover = CheckpointServicer(engine, hosted.games, watched.accesses, watched.keys)
    keeper = KeyServicer(engine, store, watched.accesses)

    def add(server: grpc.aio.Server) -> None:
        game_pb2_grpc.add_GameServiceServicer_to_server(play, server)
        history_pb2_grpc.add_HistoryServiceServicer_to_server(history, server)
        audit_pb2_grpc.add_AuditServiceServicer_to_server(audit, server)
        checkpoint_pb2_grpc.add_CheckpointServiceServicer_to_server(prover, server)
        keys_pb2_grpc.add_KeyServiceServicer_to_server(keeper, server)

    async def close() -> None:
        auditors.close()
        await hosted.worker.stop()
        await watched.checkpointer.try_round()
        with suppress(StoreUnavailable):
            await watched.connections.flush()
        await close_store(store, feed=hosted.feed, due=hosted.worker)

    return Service(
        add=add,
        files=(
            game_pb2.DESCRIPTOR,
            audit_pb2.DESCRIPTOR,
            checkpoint_pb2.DESCRIPTOR,
            keys_pb2.DESCRIPTOR,
            history_pb2.DESCRIPTOR,
        ),
        checks={"store": store.check, "partitions": partitions.check},
        tasks={**partitions.tasks, **hosted.tasks, **watched.tasks},
        close=close,
        readings=(
            measured(store, feed=hosted.feed, due=hosted.worker),
            gauges(engine, steps, watched.checkpointer),
        ),
    )


async def compose_games(process: Process, engine: AsyncEngine, store: SqlStore) -> Hosted:
    """Put together what hosts games and disputes, and does what is due for them."""
    settings = process.settings
    outages = Outages(engine, settings.outage_ms)
    with suppress(StoreUnavailable):
        await outages.beat()
    feed, pace = Feed(store, interval_ms=settings.feed_interval_ms), Pace(settings.bot_delay_ms)
    games = Games(store, decider(pace), feed, outages, cached=settings.games_cached)
    peers, texts = Peers(process.peers), Texts(engine)

    def expect(stream: UUID, plan: Plan) -> None:
        worker.expect(stream, plan)

    alone = settings.ruling_alone_chips
    disputes = Disputes(store, games, peers, texts, process.seal_key, alone, expect)
    react = Reactions(games, peers, Endings(engine), pace).handle
    compensate = Compensating(disputes.streams, peers).handle

    async def handle(kind: str, row: Claimed) -> None:
        about_dispute = row.stream.version == DISPUTE_VERSION
        await (compensate if about_dispute else react)(kind, row)

    worker = DueWorker(
        store,
        handle,
        name=process.name,
        concurrency=WORK_AT_ONCE,
        lease_ms=settings.due_lease_ms,
        elsewhere=(UNKNOWN_RULES,),
        tracing=process.tracing,
    )
    games.on_change(lambda change: worker.expect(change.stream, change.plan))
    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        **supervised(process.drain, feed=feed, due=worker),
        "lifeline": outages.keep_alive,
    }
    if engine.dialect.name == "postgresql":
        relay = Relay(engine, feed)
        games.on_change(lambda change: relay.tell(change.stream, change.after.version))
        tasks["relay"] = relay.run
    return Hosted(games, disputes, texts, peers, outages, worker, feed, tasks)


def compose_records(process: Process, engine: AsyncEngine, hosted: Hosted) -> Watched:
    """Put together what is kept beside the games, and what signs their order."""
    settings = process.settings
    key = load_private(settings.keys() / "game.key")
    keys, embedded = public_keys(settings.keys(), "game"), engine.dialect.name == "sqlite"
    kept = KeptNote(settings.data_folder / NAME, keys) if embedded else None
    checkpointer = Checkpointer(engine, key, settings.checkpoint_ms, kept)
    hosted.games.on_change(lambda change: checkpointer.advanced(change.stream))
    connections = Connections(engine)
    shares = Shares(engine, process.seal_key, settings.share_keep_ms)
    return Watched(
        Accesses(engine),
        connections,
        shares,
        checkpointer,
        key,
        keys,
        {
            "connections": connections.run,
            "shares": shares.run,
            "checkpoints": lambda: checkpointer.run(process.drain),
        },
    )


def compose_play(
    process: Process, hosted: Hosted, watched: Watched, steps: Steps
) -> tuple[GameServicer, HistoryServicer]:
    """Put together what players and watchers call."""
    settings, games = process.settings, hosted.games
    delays = Delays(games)
    watching = Watching(
        games, steps, delays, process.drain, process.seal_key, settings.heartbeat_ms
    )
    servicer = GameServicer(
        games,
        Listing(games, delays, process.seal_key),
        watching,
        Hints(games, hosted.peers, settings),
        hosted.peers,
        settings,
        watched.key,
        watched.accesses,
        watched.connections,
    )
    return servicer, HistoryServicer(games, watched.shares)


def compose_audit(
    process: Process,
    engine: AsyncEngine,
    store: SqlStore,
    hosted: Hosted,
    watched: Watched,
    auditors: Auditors,
) -> AuditServicer:
    """Put together what operators and disputes call."""
    games, peers, disputes = hosted.games, hosted.peers, hosted.disputes
    accesses, connections = watched.accesses, watched.connections
    verdicts = Verdicts(engine, store, peers, auditors, disputes)
    evidence = Evidence(engine, games, peers, accesses, connections, hosted.outages)
    remains = Shredder(engine, dispute_texts.name)
    forgetting = Forgetting(
        engine, games, disputes, hosted.texts, connections, watched.shares, remains
    )
    return AuditServicer(
        games, verdicts, disputes, accesses, process.seal_key, evidence, forgetting
    )


def main() -> int:
    """Run the game service until it is told to stop; returns the exit code."""
    return run("game", compose)


if __name__ == "__main__":
    raise SystemExit(main())
