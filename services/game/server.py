"""The game service's process: what it is made of, and its main."""

from contextlib import suppress
from pathlib import Path

import grpc
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
from services.runtime.eventstore import MIGRATIONS, close_store, open_store, supervised
from services.runtime.feed import Feed
from services.runtime.keys import load_private, public_keys
from services.runtime.relay import Relay
from services.runtime.server import Process, Service, run
from services.runtime.shredding import Shredder
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.partitions import Partitions

FOLDERS: tuple[Path, ...] = (MIGRATIONS, migrations.FOLDER)
"""Migrations of the game's database."""


async def compose(process: Process) -> Service:
    """Open the game service's database and put its parts together."""
    settings = process.settings
    engine, store = await open_store(settings, "game", FOLDERS, secrets=True, published=published)
    outages = Outages(engine, settings.outage_ms)
    with suppress(StoreUnavailable):
        await outages.beat()
    feed = Feed(store, interval_ms=settings.feed_interval_ms)
    pace = Pace(settings.bot_delay_ms)
    rules = decider(pace)
    games = Games(store, rules, feed, outages, cached=settings.games_cached)
    peers = Peers(process.peers)
    endings, accesses, auditors = Endings(engine), Accesses(engine), Auditors(settings)
    texts = Texts(engine)

    def expect(plan: Plan) -> None:
        worker.expect(plan)

    disputes = Disputes(
        store,
        games,
        peers,
        texts,
        process.seal_key,
        settings.ruling_alone_chips,
        expect,
    )
    react = Reactions(games, peers, endings, pace).handle
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
    )
    key = load_private(settings.keys() / "game.key")
    keys, embedded = public_keys(settings.keys(), "game"), engine.dialect.name == "sqlite"
    kept = KeptNote(settings.data_folder / NAME, keys) if embedded else None
    checkpointer = Checkpointer(engine, key, settings.checkpoint_ms, kept)
    games.on_change(lambda change: worker.expect(change.plan))
    games.on_change(lambda change: checkpointer.advanced(change.stream))
    relay, partitions = Relay(engine, feed), Partitions(engine)
    if engine.dialect.name == "postgresql":
        games.on_change(lambda change: relay.tell(change.stream, change.after.version))
    steps, delays = Steps(games), Delays(games)
    watching = Watching(
        games, steps, delays, process.drain, process.seal_key, settings.heartbeat_ms
    )

    connections = Connections(engine)
    listing = Listing(games, delays, process.seal_key)
    shares = Shares(engine, process.seal_key, settings.share_keep_ms)
    hints = Hints(games, peers, settings)

    def add(server: grpc.aio.Server) -> None:
        servicer = GameServicer(
            games, listing, watching, hints, peers, settings, key, accesses, connections
        )
        game_pb2_grpc.add_GameServiceServicer_to_server(servicer, server)
        verdicts = Verdicts(engine, store, peers, auditors, disputes)
        evidence = Evidence(engine, games, peers, accesses, connections, outages)
        remains = Shredder(engine, dispute_texts.name)
        forgetting = Forgetting(engine, games, disputes, texts, connections, shares, remains)
        auditor = AuditServicer(
            games, verdicts, disputes, accesses, process.seal_key, evidence, forgetting
        )
        audit_pb2_grpc.add_AuditServiceServicer_to_server(auditor, server)
        historian = HistoryServicer(games, shares)
        history_pb2_grpc.add_HistoryServiceServicer_to_server(historian, server)
        prover = CheckpointServicer(engine, games, accesses, keys)
        checkpoint_pb2_grpc.add_CheckpointServiceServicer_to_server(prover, server)
        keeper = KeyServicer(engine, store, accesses)
        keys_pb2_grpc.add_KeyServiceServicer_to_server(keeper, server)

    async def close() -> None:
        auditors.close()
        await worker.stop()
        await checkpointer.try_round()
        with suppress(StoreUnavailable):
            await connections.flush()
        await close_store(store, feed=feed, due=worker)

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
        tasks={
            **partitions.tasks,
            **supervised(process.drain, feed=feed, due=worker),
            "lifeline": outages.keep_alive,
            "connections": connections.run,
            "shares": shares.run,
            "checkpoints": lambda: checkpointer.run(process.drain),
            **({"relay": relay.run} if engine.dialect.name == "postgresql" else {}),
        },
        close=close,
    )


def main() -> int:
    """Run the game service until it is told to stop; returns the exit code."""
    return run("game", compose)


if __name__ == "__main__":
    raise SystemExit(main())
