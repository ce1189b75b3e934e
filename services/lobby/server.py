"""The lobby's process: its database, its servicers, and what runs beside them."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import grpc
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.lobby.v1.identity_pb2_grpc import add_IdentityServiceServicer_to_server
from kozyr.lobby.v1.lobby_pb2_grpc import add_LobbyServiceServicer_to_server

from services.lobby import migrations
from services.lobby.accounts import Accounts
from services.lobby.board import Board
from services.lobby.choices import Choices
from services.lobby.erasing import PAUSE_MS, Erasing
from services.lobby.erasures import Erasures
from services.lobby.identity import Identity
from services.lobby.model import Table
from services.lobby.players import Players
from services.lobby.quick import QuickPlay
from services.lobby.servicer import Lobby
from services.lobby.start import TRIES_MAX, Starter
from services.lobby.tables import DECIDER, Tables
from services.lobby.watch import Watching
from services.runtime.due import DueWorker
from services.runtime.eventstore import MIGRATIONS, close_store, open_store, supervised
from services.runtime.feed import Feed
from services.runtime.keys import PLAYERS
from services.runtime.server import Process, Service, run
from services.runtime.settings import Settings
from services.runtime.store.partitions import Partitions
from services.runtime.streams import Change, Streams
from services.runtime.tokens import RingSigner

NAME = "lobby"
FOLDERS: tuple[Path, ...] = (MIGRATIONS, migrations.FOLDER)
"""The version folders of the lobby's database, in order."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How patiently starts and erasures are carried through, in milliseconds; a start is tried
    `tries_max` times at most."""

    retry_ms: int = 500
    retry_max_ms: int = 10_000
    tries_max: int = TRIES_MAX
    erasure_pause_ms: int = PAUSE_MS


async def compose(process: Process, pace: Pace = Pace()) -> Service:
    """Open the lobby; an embedded database is brought up to date first."""
    settings = process.settings
    engine, store = await open_store(settings, NAME, FOLDERS, secrets=False)
    feed = Feed(store, interval_ms=settings.feed_interval_ms)
    board = Board(store)

    def published(change: Change[Table]) -> None:
        feed.published(change.stream, change.after.version)
        board.published(change.stream, change.after.version)
        worker.expect(change.plan)

    streams = Streams(store, DECIDER, published=published)
    wallet, game = process.peers.client("wallet"), process.peers.client("game")
    players, choices, partitions = Players(engine), Choices(engine), Partitions(engine)
    accounts = Accounts(players, wallet)
    starter = Starter(streams, accounts, wallet, game, pace.tries_max)
    worker = DueWorker(
        store,
        starter.handle,
        name=process.name,
        lease_ms=settings.due_lease_ms,
        retry_ms=pace.retry_ms,
        retry_max_ms=pace.retry_max_ms,
    )
    tables = Tables(streams, store, players, choices)
    watching = Watching(tables, feed, board, process.drain, settings.heartbeat_ms / 1_000)
    quick = QuickPlay(tables, store, choices)
    lobby = Lobby(settings, tables, quick, watching, process.seal_key)
    signer = RingSigner(PLAYERS, process.keyring)
    lease_ms = settings.due_lease_ms + 3 * settings.peer_timeout_ms
    erasures = Erasures(engine, lease_ms)
    erasing = Erasing(
        engine,
        erasures,
        players,
        tables,
        accounts,
        wallet,
        game,
        settings.player_token_ms,
        pace.erasure_pause_ms,
    )
    identity = Identity(
        players,
        accounts,
        signer,
        settings.player_token_ms,
        erasures,
        erasing,
        process.seal_key,
    )

    def add(server: grpc.aio.Server) -> None:
        add_LobbyServiceServicer_to_server(lobby, server)
        add_IdentityServiceServicer_to_server(identity, server)

    return Service(
        add=add,
        files=(lobby_pb2.DESCRIPTOR, identity_pb2.DESCRIPTOR),
        checks={"store": store.check, "partitions": partitions.check},
        tasks={
            **partitions.tasks,
            **supervised(process.drain, feed=feed, due=worker),
            "starts": lambda: stop_at_end(worker),
            "board": board.run,
            "accounts": accounts.run,
            "erasures": erasing.run,
        },
        close=lambda: close_store(store, feed=feed, due=worker),
    )


async def stop_at_end(worker: DueWorker) -> None:
    """Let the worker finish what it is doing while the other services can still be called."""
    try:
        await asyncio.Event().wait()
    finally:
        await worker.stop()


def main(settings: Settings | None = None) -> int:
    """Serve the lobby until a signal; the exit code."""
    return run(NAME, compose, settings)


if __name__ == "__main__":
    sys.exit(main())
