"""Whole games worked out ahead: opened in the store, their random moves ready to be sent.

A game is decided and folded here with seeds of our own, so every move and its turn number is known
before anything is measured, and a client needs no time to find one.
"""

import itertools
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kozyr.game.v1 import game_pb2, variant_pb2

from engines.api import read_options
from services.cli.bench.measuring import drive
from services.client.variants import GAMES, engine
from services.game import codec, domain
from services.game.evolve import evolve
from services.game.model import SeatOpened, Stage, State
from services.game.pacing import AT_ONCE
from services.game.rulebook import engine_for
from services.game.work import plan
from services.kernel.envelope import Append
from services.kernel.seats import AbsentPolicy
from services.runtime.moments import new_id
from services.runtime.streams import Streams
from services.runtime.wire import games as wire

SEATS = {"azi": 4, "durak": 4, "rami": 2}
STACK = 1_000
OPENED_AT_ONCE = 64
TURN_MS = 600_000
"""No clock runs out while anything is measured."""
METADATA = b"\x0a\x06player"
BODY_HASH = bytes(32)

GameStreams = Streams[State, domain.GameCommand, Any]


@dataclass(slots=True)
class Script:
    """A game: who sits in it, the commands of its log with the appends they lead to, and how many
    have been carried out."""

    game_id: UUID
    variant: str
    players: tuple[str, ...]
    commands: list[domain.GameCommand] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    done: int = 0

    @property
    def left(self) -> int:
        """How many commands there are still to carry out."""
        return len(self.commands) - self.done

    def next_play(self) -> domain.Play:
        """The next move, which then counts as made."""
        command = self.commands[self.done]
        self.done += 1
        if not isinstance(command, domain.Play):
            raise TypeError("the game has not been dealt")
        return command


class Writer:
    """Invents games; the players are few, so that every token is soon known to a server."""

    def __init__(self, seed: int, players: int = 64) -> None:
        # Moves are chosen at random for measuring only; nobody plays these games.
        self._rng = random.Random(seed)  # noqa: S311
        self._variants = itertools.cycle(GAMES)
        self.players = [str(new_id()) for _ in range(players)]

    def write(self, variant: str | None = None, moves_max: int = 10_000) -> Script:
        """A game from its opening to its end, or to `moves_max` moves."""
        name = next(self._variants) if variant is None else variant
        players = tuple(self._rng.sample(self.players, SEATS[name]))
        opening = self._open(name, players)
        script = Script(opening.game_id, name, players)
        state, at = State(), time.time_ns() // 1_000
        for command in (opening, domain.CloseSeeds(Stage.COMMITTING)):
            state = self._carry_out(script, state, command, at)
        rules = engine_for(state.rules)
        while not state.ended and len(script.commands) < moves_max + 2:
            seat = rules.to_act(state.engine)[0]
            move = self._rng.choice(rules.legal(state.engine, seat))
            state = self._carry_out(script, state, domain.Play(seat, state.turn, move), at)
        return script

    def _open(self, name: str, players: Sequence[str]) -> domain.Open:
        chips = STACK if name == "azi" else 0
        return domain.Open(
            game_id=new_id(),
            variant=name,
            table_id=str(new_id()),
            options=read_options(engine(name).Options, {}),
            seats=tuple(
                SeatOpened(player, None, chips, str(new_id()) if chips else "")
                for player in players
            ),
            last_winner=None,
            turn_ms=TURN_MS,
            seed_ms=1,
            spectators=True,
            absent_policy=AbsentPolicy.EXPIRE,
            server_seed=secrets.token_bytes(32),
            bot_seed=secrets.token_bytes(32),
        )

    def _carry_out(
        self, script: Script, state: State, command: domain.GameCommand, at: int
    ) -> State:
        events, after = domain.decide(state, command), state
        for event in events:
            after = evolve(after, event, at)
        append = Append(
            stream=script.game_id,
            expected=state.version,
            events=tuple(codec.encode(event) for event in events),
            request_id=f"bench/{len(script.commands)}",
            body_hash=BODY_HASH,
            metadata=METADATA,
            plan=plan(state, after, pace=AT_ONCE),
        )
        script.commands.append(command)
        script.appends.append(append)
        return after


async def store_commands(
    streams: GameStreams, scripts: Sequence[Script], upto: Callable[[Script], int]
) -> None:
    """Carry out each script's commands up to a number of them, many games side by side."""
    waiting = iter(scripts)

    async def step() -> int:
        script = next(waiting, None)
        if script is None:
            return -1
        while script.done < upto(script):
            command = script.commands[script.done]
            await streams.transact(
                script.game_id,
                command,
                request_id=f"0/{secrets.token_hex(16)}",
                body_hash=BODY_HASH,
                metadata=METADATA,
            )
            script.done += 1
        return 1

    await drive([step] * OPENED_AT_ONCE, 3_600.0)


def dealt(script: Script) -> int:
    """How many commands open a game and deal."""
    return 2


def whole(script: Script) -> int:
    """All of a game's commands."""
    return len(script.commands)


def submit_request(script: Script) -> tuple[str, game_pb2.SubmitMoveRequest]:
    """The next move as its player sends it."""
    play = script.next_play()
    move = variant_pb2.Move()
    getattr(move, script.variant).CopyFrom(wire.of(script.variant).move.to_wire(play.move))
    request = game_pb2.SubmitMoveRequest(
        request_id=secrets.token_hex(12), game_id=str(script.game_id), turn=play.turn, move=move
    )
    return script.players[play.seat], request
