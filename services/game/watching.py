"""Following a game: a snapshot, then one message an append, resumable on any replica.

A watcher pulls: it holds no queue. When it falls too far behind, or asks for too old a version, it
gets a snapshot that says which versions it stands for. Messages are octets: what is the same for
all who see the same is shared (`steps.py`), and each watcher's own token follows it.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from uuid import UUID

from kozyr.game.v1 import game_pb2

from services.game import views
from services.game.delays import Delays, Past, delay_of, not_shown_yet
from services.game.games import Games
from services.game.steps import Step, Steps, Watcher
from services.kernel.errors import unavailable
from services.runtime import metrics
from services.runtime.drain import Drain
from services.runtime.seal import Sealer, open_token
from services.runtime.wire.framing import nested, numeral

STEPS_MAX = 200
"""A watcher who resumes more than so many versions behind gets a snapshot instead of steps."""
HEARTBEAT_MS = 10_000
"""A silent stream says so after this time."""

Message = game_pb2.WatchGameResponse


@dataclass(frozen=True, slots=True)
class Watching:
    """Streams of games. `key` signs resume tokens."""

    games: Games
    steps: Steps
    delays: Delays
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
    ) -> AsyncIterator[bytes]:
        """The messages from after `seen` on; ends with the game, or when the process drains.

        Who is kept behind is told everything as late; raises Refused NOT_SHOWN_YET.
        """
        sealer = Sealer(self.key, "watch", (str(game_id), subject))
        loaded = await self.games.load(game_id)
        delay = delay_of(loaded.state, viewer)
        signed = Signed(sealer, self.heartbeat_ms, None if delay else self.games.now)
        past = Past(loaded)
        if delay and self.steps.course(game_id, delay) is None:
            past = await self.delays.past(loaded, delay)
        with (
            self.steps.watched_from(game_id, past, delay) as course,
            Watcher(course, self.heartbeat_ms / 1_000) as watcher,
        ):
            await self.steps.reach(game_id, course, loaded.version)
            step = course.shown
            version = step.loaded.version
            if not version:
                raise not_shown_yet()
            silent = seen == version
            if seen is None or seen > version or version - seen > STEPS_MAX:
                first = 1 if seen is None or seen > version else seen + 1
                yield signed.snapshot(step, viewer, first)
            elif not silent:
                for change in await self.games.missed(game_id, seen, version):
                    yield signed.step(Step(change.after, change.rows), viewer)
            while not self.drain.started.is_set():
                if step is not course.shown and (following := step.next) is not None:
                    step, silent = following, False
                    yield signed.step(step, viewer)
                elif step.lost:
                    metrics.WATCHERS_BEHIND.of().inc()
                    first, step, silent = step.loaded.version + 1, course.shown, False
                    yield signed.snapshot(step, viewer, first)
                elif step.loaded.state.ended:
                    return
                elif silent:  # who took the stream up learns at once that this replica lives
                    silent = False
                    yield signed.heartbeat(step.loaded.version)
                else:
                    self.steps.check(game_id, course)
                    silent = not await watcher.news()
        raise unavailable("DRAINING", "this replica is going away; resume with the last token")


@dataclass(frozen=True, slots=True)
class Signed:
    """A watcher's messages with what it takes to go on after them. `now` reads the clock that views
    show (microseconds), None where they show the past."""

    sealer: Sealer
    heartbeat_ms: int
    now: Callable[[], int] | None = None

    def step(self, step: Step, viewer: int | None) -> bytes:
        """One append."""
        return step.told(viewer, self._now()) + self._sign(step.loaded.version)

    def snapshot(self, step: Step, viewer: int | None, first: int) -> bytes:
        """A version that stands for all from `first` on."""
        loaded = step.loaded
        view = views.game_view(loaded.state, viewer, loaded.hash, self._now())
        message = Message(snapshot=game_pb2.Snapshot(from_version=first, view=view))
        return message.SerializeToString() + self._sign(loaded.version)

    def heartbeat(self, version: int) -> bytes:
        """Nothing new."""
        message = Message(heartbeat=game_pb2.Heartbeat(version=version))
        return message.SerializeToString() + self._sign(version)

    def _now(self) -> int | None:
        return None if self.now is None else self.now()

    def _sign(self, version: int) -> bytes:
        token = nested(Message.RESUME_TOKEN_FIELD_NUMBER, self.sealer.seal((version,)))
        return token + numeral(Message.HEARTBEAT_MS_FIELD_NUMBER, self.heartbeat_ms)
