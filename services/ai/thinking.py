"""A question to a bot and its answer, and the loop of a process that answers them.

Nothing here knows gRPC, so that a worker starts fast and holds nothing it does not need.
"""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from services.ai.bots import USUAL, Budget, Choice, Level, choose

READY = "ready"
"""What a worker says once it can answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a bot is asked: a seat's view and history, the level, the seed of its chances, and how
    long a level that searches may do so."""

    game: str
    view: Any
    history: Sequence[Any]
    level: Level
    seed: bytes
    budget: Budget = USUAL

    def at(self, level: Level) -> "Question":
        """The same question put to another level."""
        return replace(self, level=level)

    def within(self, budget: Budget) -> "Question":
        """The same question with another budget."""
        return replace(self, budget=budget)


@dataclass(frozen=True, slots=True)
class Thought:
    """A bot's choice, the level that made it, and how long it took in microseconds."""

    choice: Choice[Any]
    level: Level
    took_us: int


@dataclass(frozen=True, slots=True)
class Baffled:
    """The bot could make nothing of the view; `error` is the kind of exception."""

    error: str


def think(question: Question) -> Thought | Baffled:
    """The answer; equal questions have equal choices where no CPU time is named."""
    started = time.perf_counter_ns()
    decision = f"{question.game}/{question.view.turn}/{question.view.seat}/"
    rng = Random(sha256(decision.encode() + question.seed).digest())
    try:
        choice = choose(
            question.game, question.view, question.history, question.level, rng, question.budget
        )
    except Exception as error:  # noqa: BLE001 - a view is what a caller made of it
        return Baffled(type(error).__name__)
    took_us = (time.perf_counter_ns() - started) // 1_000
    return Thought(choice, question.level, took_us)


def answer_all(connection: Connection) -> None:
    """A worker's whole life: answer until the other end is gone.

    What comes is a question and its number, or the number of one that nobody waits for any more.
    An interrupt from the terminal is meant for the service, which ends its workers itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        connection.send(READY)
        given_up = 0
        while True:
            received = connection.recv()
            if isinstance(received, int):
                given_up = received
                continue
            number, question = received
            gone = _gone(connection, number, given_up)
            connection.send(think(question.within(replace(question.budget, gone=gone))))


def _gone(connection: Connection, number: int, given_up: int) -> Callable[[], bool]:
    """Whether the question of that number has been given up."""

    def gone() -> bool:
        nonlocal given_up
        while connection.poll():
            given_up = connection.recv()
        return given_up >= number

    return gone
