"""Following a game: a snapshot, then one message an append, resumable on any replica.

A watcher pulls: it holds no queue. When it falls too far behind, or asks for too old a version, it
gets a snapshot that says which versions it stands for.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from kozyr.game.v1 import game_pb2

from services.game import codec, views
from services.game.evolve import evolve
from services.game.games import Games
from services.game.model import State
from services.kernel.envelope import Recorded, appends
from services.kernel.errors import unavailable
from services.runtime.drain import Drain
from services.runtime.seal import open_token, seal_token

STEPS_MAX = 200
"""A watcher more than so many versions behind gets a snapshot instead of steps."""
HEARTBEAT_MS = 10_000
"""A silent stream says so after this time."""

Message = game_pb2.WatchGameResponse


@dataclass(frozen=True, slots=True)
class Watching:
    """Streams of games. `key` signs resume tokens."""

    games: Games
    drain: Drain
    key: bytes
    heartbeat_ms: int = HEARTBEAT_MS

    def seen(self, game_id: UUID, subject: str, token: bytes) -> int | None:
        """The version a resume token stands for, None for an empty one; raises Refused."""
        if not token:
            return None
        (version,) = open_token(self.key, "watch", (str(game_id), subject), token)
        return int(version or 0)

    async def follow(
        self, game_id: UUID, subject: str, viewer: int | None, seen: int | None
    ) -> AsyncIterator[Message]:
        """The messages from after `seen` on; ends with the game, or when the process drains."""
        loaded = await self.games.load(game_id)
        state, head = loaded.state, loaded.hash
        silent = False
        if seen is None or seen > state.version or state.version - seen > STEPS_MAX:
            first = 1 if seen is None or seen > state.version else seen + 1
            yield self._snapshot(game_id, subject, viewer, state, head, first)
        else:
            state = await self.games.state_at(game_id, seen)
            silent = True
        while not self.drain.started.is_set():
            rows = await self.games.rows(game_id, after=state.version)
            if len(rows) > STEPS_MAX:
                first = state.version + 1
                state, head = self.games.fold(state, rows), rows[-1].hash
                yield self._snapshot(game_id, subject, viewer, state, head, first)
                continue
            silent = silent and not rows
            for group in appends(rows):
                message, state = self._step(state, group, viewer)
                self._sign(message, game_id, subject, state.version)
                yield message
            if state.ended:
                return
            if silent:  # who took the stream up learns at once that this replica lives
                yield self._heartbeat(game_id, subject, state.version)
            news = await self.games.feed.wait(game_id, state.version, self.heartbeat_ms / 1000)
            silent = news == state.version and not self.drain.started.is_set()
        raise unavailable("DRAINING", "this replica is going away; resume with the last token")

    def _snapshot(
        self,
        game_id: UUID,
        subject: str,
        viewer: int | None,
        state: State,
        head: bytes,
        first: int,
    ) -> Message:
        snapshot = game_pb2.Snapshot(from_version=first, view=views.game_view(state, viewer, head))
        return self._sign(Message(snapshot=snapshot), game_id, subject, state.version)

    def _heartbeat(self, game_id: UUID, subject: str, version: int) -> Message:
        beat = game_pb2.Heartbeat(version=version)
        return self._sign(Message(heartbeat=beat), game_id, subject, version)

    def _step(
        self, state: State, rows: tuple[Recorded, ...], viewer: int | None
    ) -> tuple[Message, State]:
        pairs = [(row, codec.decode(row)) for row in rows]
        for row, event in pairs:
            state = evolve(state, event, row.recorded_at)
        step = game_pb2.Step(
            from_version=rows[0].version,
            to_version=rows[-1].version,
            happenings=views.happenings(state.variant, pairs, viewer),
            view=views.game_view(state, viewer, rows[-1].hash),
        )
        return Message(step=step), state

    def _sign(self, message: Message, game_id: UUID, subject: str, version: int) -> Message:
        """The message with what it takes to go on after it."""
        subjects = (str(game_id), subject)
        message.resume_token = seal_token(self.key, "watch", subjects, (version,))
        message.heartbeat_ms = self.heartbeat_ms
        return message
