"""Peers: other libraries doing the same work, each only where it is installed (`make bench`)."""

import asyncio
import importlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import make_url

from services.cli.bench.measuring import Slice

FULL = 2
"""SQLite's `synchronous` under which a commit waits for the disk in WAL mode."""


class Missing(Exception):
    """A peer is not installed or does not work here; the text says which and why."""


def load(module: str) -> Any:
    """A peer's module; raises Missing."""
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise Missing(f"{module} cannot be imported ({type(error).__name__}: {error})") from error


@dataclass(frozen=True, slots=True)
class Recorder:
    """An application recorder of `eventsourcing`: the part that stores events."""

    recorder: Any
    stored_event: Any
    close: Callable[[], None]

    async def slice(
        self, threads: int, seconds: float, length: int, state: bytes, topic: str
    ) -> Slice:
        """Append one event a call from so many threads, each to streams of its own."""
        return await asyncio.to_thread(self._slice, threads, seconds, length, state, topic)

    def _slice(self, threads: int, seconds: float, length: int, state: bytes, topic: str) -> Slice:
        counts = [0] * threads
        failures: list[Exception] = []
        began = time.perf_counter()
        end = began + seconds

        def work(number: int) -> None:
            try:
                while time.perf_counter() < end or not counts[number]:
                    stream = uuid4()
                    for version in range(1, length + 1):
                        event = self.stored_event(stream, version, topic, state)
                        self.recorder.insert_events([event])
                        counts[number] += 1
                        if time.perf_counter() >= end:
                            break
            except Exception as error:  # noqa: BLE001 - raised in the caller's thread below
                failures.append(error)

        running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        if failures:
            raise failures[0]
        return Slice(sum(counts), time.perf_counter() - began)


def open_postgres(url: str, connections: int) -> Recorder:
    """The library's recorder for PostgreSQL as it comes, with a connection a thread."""
    theirs, persistence = load("eventsourcing.postgres"), load("eventsourcing.persistence")
    place = make_url(url)
    datastore = theirs.PostgresDatastore(
        dbname=place.database,
        host=place.host,
        port=place.port or 5432,
        user=place.username,
        password=place.password or "",
        pool_size=connections,
        schema="public",
    )
    datastore.pool.open(wait=True, timeout=60.0)
    recorder = theirs.PostgresApplicationRecorder(datastore)
    recorder.create_table()
    return Recorder(recorder, persistence.StoredEvent, datastore.close)


def open_sqlite(path: Path, connections: int) -> Recorder:
    """The library's recorder for a SQLite file; raises Missing unless it waits for the disk."""
    theirs, persistence = load("eventsourcing.sqlite"), load("eventsourcing.persistence")
    datastore = theirs.SQLiteDatastore(
        f"file:{path}?mode=rwc", lock_timeout=60, pool_size=connections, pool_timeout=60.0
    )
    recorder = theirs.SQLiteApplicationRecorder(datastore)
    recorder.create_table()
    with (
        datastore.get_connection(commit=False) as connection,
        connection.transaction(commit=False) as cursor,
    ):
        cursor.execute("PRAGMA synchronous")
        waits = cursor.fetchone()[0]
    if waits != FULL:
        datastore.close()
        raise Missing(f"eventsourcing opens SQLite with synchronous = {waits}, not FULL")
    return Recorder(recorder, persistence.StoredEvent, datastore.close)


def rlcard_game() -> Callable[[random.Random], int]:
    """Plays one game of RLCard's gin rummy at random; its number of moves. Raises Missing."""
    environment = load("rlcard").make("gin-rummy")

    def play(rng: random.Random) -> int:
        moves = 0
        state, _ = environment.reset()
        while not environment.is_over():
            state, _ = environment.step(rng.choice(list(state["legal_actions"])))
            moves += 1
        return moves

    return play


def rlcard_core() -> Callable[[random.Random], int]:
    """The same on the game alone, without the observations its environment makes for agents."""
    game = load("rlcard").make("gin-rummy").game

    def play(rng: random.Random) -> int:
        moves = 0
        game.init_game()
        while not game.is_over():
            game.step(rng.choice(game.judge.get_legal_actions()))
            moves += 1
        return moves

    return play


def openspiel_game(name: str) -> Callable[[random.Random], int]:
    """Plays a game of OpenSpiel at random; its number of moves, deals aside. Raises Missing."""
    game = load("pyspiel").load_game(name)

    def play(rng: random.Random) -> int:
        moves = 0
        state = game.new_initial_state()
        while not state.is_terminal():
            moves += not state.is_chance_node()
            state.apply_action(rng.choice(state.legal_actions()))
        return moves

    return play
