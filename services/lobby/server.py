"""The lobby's process: its database, its servicers, and what runs beside them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

import grpc
from kozyr.lobby.v1 import identity_pb2, limits_pb2, lobby_pb2, standing_pb2, talk_pb2
from kozyr.lobby.v1.identity_pb2_grpc import add_IdentityServiceServicer_to_server
from kozyr.lobby.v1.limits_pb2_grpc import add_LimitServiceServicer_to_server
from kozyr.lobby.v1.lobby_pb2_grpc import add_LobbyServiceServicer_to_server
from kozyr.lobby.v1.standing_pb2_grpc import add_StandingServiceServicer_to_server
from kozyr.lobby.v1.talk_pb2_grpc import add_TalkServiceServicer_to_server
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.envelope import Claimed
from services.lobby import migrations
from services.lobby.accounts import Accounts
from services.lobby.admission import Admission
from services.lobby.challenges import Challenges
from services.lobby.choices import Choices
from services.lobby.devices import Devices
from services.lobby.directory import Directory
from services.lobby.ending import Ending
from services.lobby.erasing import PAUSE_MS, Erasing
from services.lobby.erasures import Erasures
from services.lobby.evolve import START, Limits
from services.lobby.externals import Externals
from services.lobby.forgetting import Playing
from services.lobby.identity import Doors, Identity
from services.lobby.limit_servicer import PlayLimits
from services.lobby.limitbook import LimitBook
from services.lobby.listening import Listening
from services.lobby.lockout import Lockout
from services.lobby.logins import Logins
from services.lobby.model import Table
from services.lobby.mutes import Mutes
from services.lobby.oidc import ExternalIssuer
from services.lobby.openings import Openings
from services.lobby.passwords import Passwords
from services.lobby.players import Players
from services.lobby.quick import QuickPlay
from services.lobby.seatings import Seatings
from services.lobby.servicer import Lobby
from services.lobby.stakes import Stakes
from services.lobby.standing_servicer import Standing
from services.lobby.standings import Standings
from services.lobby.start import TRIES_MAX, Starter, TableStreams
from services.lobby.tables import Tables, decider
from services.lobby.talk import Flood, Talk
from services.lobby.talking import Talking
from services.lobby.timers import Timers
from services.lobby.watch import Watching
from services.runtime.due import DueWorker
from services.runtime.eventstore import (
    MIGRATIONS,
    close_store,
    fed,
    measured,
    open_store,
    supervised,
)
from services.runtime.feed import Feed
from services.runtime.keys import PLAYERS
from services.runtime.relay import Relay
from services.runtime.server import Process, Service, run
from services.runtime.settings import Settings
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.partitions import Partitions
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Change, Streams
from services.runtime.tokens import RingSigner

NAME = "lobby"
TALK_CHANNEL = "kozyr_talk"
"""By which replicas hear of what was said."""
SWEEP_S = 60.0
KEPT_SWEEP_S = 3_600.0
"""How often is removed what is kept for long, and in great numbers."""
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


@dataclass(frozen=True, slots=True)
class Speech:
    """What it takes to talk at tables; `tasks` run beside it."""

    servicer: Talking
    talk: Talk
    mutes: Mutes
    feed: Feed
    tasks: Mapping[str, Callable[[], Awaitable[None]]]


@dataclass(frozen=True, slots=True)
class Hall:
    """Tables, their games and who may sit at them; `tasks` run beside it."""

    lobby: Lobby
    standing: Standing
    limits: PlayLimits
    tables: Tables
    seatings: Seatings
    feed: Feed
    worker: DueWorker
    tasks: Mapping[str, Callable[[], Awaitable[None]]]


@dataclass(frozen=True, slots=True)
class Entrance:
    """Who is who; `tasks` run beside it."""

    identity: Identity
    passwords: Passwords
    tasks: Mapping[str, Callable[[], Awaitable[None]]]


async def compose(process: Process, pace: Pace = Pace()) -> Service:
    """Open the lobby; an embedded database is brought up to date first."""
    engine, store = await open_store(process.settings, NAME, FOLDERS, secrets=False)
    spent_keep_ms = process.settings.spent_token_keep_ms
    players = Players(engine, key=process.seal_key, spent_keep_ms=spent_keep_ms)
    partitions = Partitions(engine)
    accounts = Accounts(players, process.peers.client("wallet"))
    hall = compose_tables(process, pace, engine, store, accounts, players)
    speech = compose_talk(process, engine, hall.tables, players, hall.feed)
    entrance = compose_identity(process, pace, engine, accounts, players, hall, speech)

    def add(server: grpc.aio.Server) -> None:
        add_LobbyServiceServicer_to_server(hall.lobby, server)
        add_IdentityServiceServicer_to_server(entrance.identity, server)
        add_TalkServiceServicer_to_server(speech.servicer, server)
        add_StandingServiceServicer_to_server(hall.standing, server)
        add_LimitServiceServicer_to_server(hall.limits, server)

    async def close() -> None:
        entrance.passwords.close()
        await speech.feed.stop()
        await close_store(store, feed=hall.feed, due=hall.worker)

    return Service(
        add=add,
        files=(
            lobby_pb2.DESCRIPTOR,
            identity_pb2.DESCRIPTOR,
            talk_pb2.DESCRIPTOR,
            standing_pb2.DESCRIPTOR,
            limits_pb2.DESCRIPTOR,
        ),
        checks={"store": store.check, "partitions": partitions.check},
        tasks={**partitions.tasks, **hall.tasks, **entrance.tasks, **speech.tasks},
        close=close,
        readings=(measured(store, feed=hall.feed, due=hall.worker),),
    )


def compose_tables(
    process: Process,
    pace: Pace,
    engine: AsyncEngine,
    store: SqlStore,
    accounts: Accounts,
    players: Players,
) -> Hall:
    """Put together what keeps tables, starts their games and counts how they end."""
    settings, seal_key = process.settings, process.seal_key
    feed = Feed(store, interval_ms=settings.feed_interval_ms)

    def published(change: Change[Table]) -> None:
        feed.published(change.stream, change.after.version)
        directory.published(change.stream, change.after.state)
        worker.expect(change.stream, change.plan)

    limits = Limits(settings.table_idle_ms, settings.table_unready_ms)
    streams = Streams(store, decider(limits), published=published)
    directory = Directory(engine, store, streams)
    choices = Choices(engine, settings.choice_keep_ms)
    standings, book = Standings(engine), LimitBook(engine)
    stakes = Stakes(engine, most=settings.games_per_player_max)
    seatings, admission = Seatings(engine), Admission(streams, store, book, stakes)
    most = settings.tables_per_player_max
    tables = Tables(streams, store, players, choices, accounts, admission, seatings, most)
    ending = Ending(tables, players, standings, stakes, book)
    worker = compose_work(process, pace, tables, streams, accounts, stakes)
    watching = Watching(tables, feed, directory, process.drain, settings.heartbeat_ms / 1_000)
    quick = QuickPlay(tables, store, choices, directory, Openings(engine))
    return Hall(
        lobby=Lobby(settings, tables, directory, quick, watching, ending, seal_key),
        standing=Standing(standings, players, seal_key),
        limits=PlayLimits(book, tables, seal_key),
        tables=tables,
        seatings=seatings,
        feed=feed,
        worker=worker,
        tasks={
            **supervised(process.drain, feed=feed, due=worker),
            "starts": lambda: stop_at_end(worker),
            "directory": directory.run,
            "stakes": ending.run,
            "choices": lambda: sweep(choices, every_s=KEPT_SWEEP_S),
        },
    )


def compose_work(
    process: Process,
    pace: Pace,
    tables: Tables,
    streams: TableStreams,
    accounts: Accounts,
    stakes: Stakes,
) -> DueWorker:
    """Put together who does what is due at tables: starts, and what time brings about."""
    wallet, game = process.peers.client("wallet"), process.peers.client("game")
    starter = Starter(streams, accounts, wallet, game, stakes, pace.tries_max)
    timers = Timers(tables)

    async def work(kind: str, claimed: Claimed) -> None:
        await (starter if kind == START else timers).handle(kind, claimed)

    return DueWorker(
        tables.store,
        work,
        name=process.name,
        lease_ms=process.settings.due_lease_ms,
        retry_ms=pace.retry_ms,
        retry_max_ms=pace.retry_max_ms,
        tracing=process.tracing,
    )


def compose_identity(
    process: Process,
    pace: Pace,
    engine: AsyncEngine,
    accounts: Accounts,
    players: Players,
    hall: Hall,
    speech: Speech,
) -> Entrance:
    """Put together how players sign up, sign in and are erased."""
    settings, seal_key = process.settings, process.seal_key
    erasures = Erasures(engine, settings.due_lease_ms + 3 * settings.peer_timeout_ms)
    erasing = Erasing(
        engine,
        erasures,
        players,
        hall.tables,
        accounts,
        process.peers.client("wallet"),
        process.peers.client("game"),
        settings.player_token_ms,
        pace.erasure_pause_ms,
        own=(speech.talk, speech.mutes, hall.seatings, Playing(engine)),
    )
    challenges = Challenges(engine, seal_key, players.now)
    lockout = Lockout(engine, seal_key, players.now, settings)
    passwords = Passwords(settings)
    doors = Doors(
        Logins(engine, players, passwords, lockout),
        Devices(engine, players, challenges),
        Externals(engine, players, challenges, ExternalIssuer(settings)),
        challenges,
    )
    signer, token_ms = RingSigner(PLAYERS, process.keyring), settings.player_token_ms
    identity = Identity(players, doors, accounts, signer, token_ms, erasures, erasing, seal_key)
    return Entrance(
        identity,
        passwords,
        {
            "accounts": accounts.run,
            "erasures": erasing.run,
            "doors": lambda: sweep(lockout, challenges),
            "sessions": lambda: sweep(players.sessions, every_s=KEPT_SWEEP_S),
        },
    )


def compose_talk(
    process: Process, engine: AsyncEngine, tables: Tables, players: Players, of_tables: Feed
) -> Speech:
    """Put together what it takes to talk at tables."""
    settings = process.settings
    talk, mutes = Talk(engine, settings.talk_keep_ms, *floods(settings)), Mutes(engine)
    feed = Feed(talk, interval_ms=settings.feed_interval_ms)
    relay = Relay(engine, feed, TALK_CHANNEL)

    def said(table_id: UUID, number: int) -> None:
        feed.published(table_id, number)
        relay.tell(table_id, number)

    listening = Listening(
        tables,
        talk,
        mutes,
        players,
        of_tables,
        feed,
        process.drain,
        process.seal_key,
        settings.heartbeat_ms,
    )
    return Speech(
        Talking(tables, players, talk, mutes, listening, process.seal_key, said),
        talk,
        mutes,
        feed,
        {
            "talk": fed(process.drain, feed),
            "talk_kept": lambda: sweep(talk, mutes),
            **({"talk_relay": relay.run} if engine.dialect.name == "postgresql" else {}),
        },
    )


def floods(settings: Settings) -> tuple[Flood, Flood]:
    """How much may be said: by a player at a table, and by all at a table."""
    span_ms = settings.talk_span_ms
    return (
        Flood("talk_player", settings.talk_player_max, span_ms),
        Flood("talk_table", settings.talk_table_max, span_ms),
    )


class Swept(Protocol):
    """Something that is kept for a time."""

    async def sweep(self) -> None:
        """Remove what was kept for long enough; raises StoreUnavailable."""
        ...


async def sweep(*kept: Swept, every_s: float = SWEEP_S) -> None:
    """Remove for ever, again and again, what was kept for long enough."""
    while True:
        with suppress(StoreUnavailable):
            for part in kept:
                await part.sweep()
        await asyncio.sleep(every_s)


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
