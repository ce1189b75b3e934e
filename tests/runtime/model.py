"""What a store is, in the fewest words: dictionaries, one clock, nothing concurrent."""

from dataclasses import dataclass, field
from uuid import UUID

from services.kernel.envelope import Append, Claimed
from services.runtime.store.api import Conflict, Late, RequestReused


@dataclass(slots=True)
class Work:
    """A due row."""

    version: int
    due_at: int
    ready_at: int
    attempts: int = 0


@dataclass(slots=True)
class Stream:
    """A stream: what its events say (name, payload, secret, time), and its requests."""

    events: list[tuple[str, bytes, bytes | None, int]] = field(default_factory=list)
    requests: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    due: dict[tuple[str, str], Work] = field(default_factory=dict)
    ended: bool = False


@dataclass(slots=True)
class Model:
    """The store a `SqlStore` has to agree with."""

    streams: dict[UUID, Stream] = field(default_factory=dict)

    def append(self, asked: Append, now: int) -> tuple[int, int]:
        """The first and last version stored, now or before; raises as a store does."""
        stream = self.streams.get(asked.stream, Stream())
        if asked.request_id in stream.requests:
            body, first, last = stream.requests[asked.request_id]
            if body != asked.body_hash:
                raise RequestReused
            return first, last
        if asked.expected != len(stream.events):
            raise Conflict
        if asked.not_after is not None and now > asked.not_after:
            raise Late
        at = max([now, *(event[3] for event in stream.events)])
        stream.events += [(new.name, new.payload, new.secret, at) for new in asked.events]
        first, last = asked.expected + 1, len(stream.events)
        stream.requests[asked.request_id] = (asked.body_hash, first, last)
        for done in asked.plan.done:
            stream.due.pop(done, None)
        for work in asked.plan.due:
            moment = at + work.after_ms * 1_000
            stream.due[work.kind, work.key] = Work(last, moment, moment)
        stream.tags |= set(asked.plan.tags)
        stream.ended |= asked.plan.ended
        self.streams[asked.stream] = stream
        return first, last

    def ready(self, now: int) -> dict[tuple[UUID, str, str], Work]:
        """The rows that may be claimed."""
        return {
            (stream, *key): work
            for stream, kept in self.streams.items()
            for key, work in kept.due.items()
            if work.ready_at <= now
        }

    def held(self, claimed: Claimed) -> Work | None:
        """The row, as long as this claim holds it."""
        work = self.streams[claimed.stream].due.get((claimed.kind, claimed.key))
        if work and (work.version, work.attempts) == (claimed.version, claimed.attempts):
            return work
        return None
