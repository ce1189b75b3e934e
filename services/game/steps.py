"""The steps of the games that are watched here: each append is read, folded and rendered once.

An append made by this process comes with its rows and states; those of others are read once, for
all that watch the game here. What a viewer is told of an append is made when the first of them is
to be told, and kept under nothing but who looks: a seat, or None for all who have none.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import ref

from kozyr.game.v1 import game_pb2

from services.game import codec, views
from services.game.games import Games
from services.game.model import Event, State
from services.kernel.envelope import Recorded
from services.kernel.errors import Refused, unavailable
from services.runtime.streams import Change, Loaded
from services.runtime.wire.framing import nested, numeral

LINKED_MAX = 64
"""A watcher more than so many appends behind is not waited for: it gets a snapshot."""

RESPONSE_STEP = game_pb2.WatchGameResponse.STEP_FIELD_NUMBER
STEP_FROM = game_pb2.Step.FROM_VERSION_FIELD_NUMBER
STEP_TO = game_pb2.Step.TO_VERSION_FIELD_NUMBER
STEP_HAPPENINGS = game_pb2.Step.HAPPENINGS_FIELD_NUMBER
STEP_VIEW = game_pb2.Step.VIEW_FIELD_NUMBER

Viewer = int | None


@dataclass(frozen=True, slots=True)
class Told:
    """An event, what a viewer is shown of it, and that as a happening of a step; empty if none."""

    row: Recorded
    event: Event
    shown: Any
    octets: bytes

    @classmethod
    def of(cls, rules: str, row: Recorded, event: Event, viewer: Viewer) -> "Told":
        """What this viewer is told."""
        shown = views.shown_event(rules, event, viewer)
        happening = views.happening(rules, row, event, shown)
        octets = b"" if happening is None else nested(STEP_HAPPENINGS, happening)
        return cls(row, event, shown, octets)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Step:
    """A game after an append: its state, the append's rows, and the step after it once known.

    Watchers hold the step they were told last, so what all have been told is forgotten. `lost` is
    a step after which the next is known no more. `rows` are empty where watching began.
    """

    loaded: Loaded[State]
    rows: tuple[Recorded, ...] = ()
    next: "Step | None" = None
    lost: bool = False
    _shared: views.Shared | None = None
    _public: list[Told] | None = None
    _views: dict[Viewer, bytes] = field(default_factory=dict)
    _told: dict[Viewer, bytes] = field(default_factory=dict)

    def view(self, viewer: Viewer) -> bytes:
        """The game as this viewer sees it, a serialised `GameView`."""
        made = self._views.get(viewer)
        if made is None:
            state = self.loaded.state
            if self._shared is None:
                self._shared = views.shared_view(state, self.loaded.hash)
            made = self._views[viewer] = views.view_octets(self._shared, state, viewer)
        return made

    def told(self, viewer: Viewer) -> bytes:
        """What a watcher is sent of the append, a `WatchGameResponse` but for its token."""
        made = self._told.get(viewer)
        if made is None:
            first, last = self.rows[0].version, self.rows[-1].version
            between = numeral(STEP_FROM, first) + numeral(STEP_TO, last)
            view = nested(STEP_VIEW, self.view(viewer))
            step = b"".join((between, *self._happenings(viewer), view))
            made = self._told[viewer] = nested(RESPONSE_STEP, step)
        return made

    def _happenings(self, viewer: Viewer) -> Iterator[bytes]:
        """What happened: as everybody is told, where this viewer is shown what everybody is."""
        rules = self.loaded.state.rules
        if self._public is None:
            events = [(row, codec.decode(row)) for row in self.rows]
            self._public = [Told.of(rules, row, event, None) for row, event in events]
        for public in self._public:
            shown = views.shown_event(rules, public.event, viewer)
            if shown == public.shown:
                yield public.octets
            else:
                yield Told.of(rules, public.row, public.event, viewer).octets


@dataclass(slots=True)
class Course:
    """A game that is watched here: its latest step, and those that somebody may still need."""

    last: Step
    watchers: int = 0
    recent: "deque[ref[Step]]" = field(default_factory=deque)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def push(self, change: Change[State]) -> None:
        """Take an append in, if it is the one that follows."""
        if change.before.version != self.last.loaded.version:
            return
        self.recent.append(ref(self.last))
        self.last.next = self.last = Step(change.after, change.rows)
        if len(self.recent) > LINKED_MAX:
            behind = self.recent.popleft()()
            if behind is not None:
                behind.next, behind.lost = None, True


class Steps:
    """The games watched in this process."""

    def __init__(self, games: Games) -> None:
        self._games = games
        self._courses: dict[UUID, Course] = {}
        self._gathered: dict[UUID, Course] | None = None
        """Games that are about to be read together."""
        self._reading: asyncio.Task[None]
        games.on_change(self._made_here)

    @property
    def watched(self) -> int:
        """How many games are watched here."""
        return len(self._courses)

    @contextmanager
    def watched_from(self, game_id: UUID, loaded: Loaded[State]) -> Iterator[Course]:
        """A game's course for as long as somebody here watches it; it may be behind `loaded`."""
        course = self._courses.get(game_id)
        if course is None:
            course = self._courses[game_id] = Course(Step(loaded))
        course.watchers += 1
        try:
            yield course
        finally:
            course.watchers -= 1
            if not course.watchers:
                del self._courses[game_id]

    async def reach(self, game_id: UUID, course: Course, version: int) -> None:
        """Bring the course to a version; one reads for all, and for other games' watchers as well.

        Raises Refused as `Games.load`, STATE_BEHIND when the database does not know the version.
        """
        if course.last.loaded.version >= version:
            return
        await self._read_with_others(game_id, course)
        if course.last.loaded.version >= version:
            return
        async with course.reading:
            if course.last.loaded.version < version:
                await self._read({game_id: course})
        if course.last.loaded.version < version:
            self._games.feed.forget(game_id, version)
            raise unavailable("STATE_BEHIND", "the database does not know that version yet")

    async def _read_with_others(self, game_id: UUID, course: Course) -> None:
        """Read what is new of the game together with all games for which this is asked in the same
        turn of the loop: those that news from another replica names."""
        if self._gathered is None:
            self._gathered = {}
            self._reading = asyncio.create_task(self._read_gathered(self._gathered))
        self._gathered[game_id] = course
        await asyncio.shield(self._reading)

    async def _read_gathered(self, gathered: dict[UUID, Course]) -> None:
        await asyncio.sleep(0)
        self._gathered = None
        with suppress(Refused):  # of one of them; each is read by itself then
            await self._read(gathered)

    async def _read(self, courses: Mapping[UUID, Course]) -> None:
        known = {game_id: course.last.loaded for game_id, course in courses.items()}
        for game_id, changes in (await self._games.since(known)).items():
            for change in changes:
                courses[game_id].push(change)

    def view(self, game_id: UUID, version: int, viewer: Viewer) -> bytes | None:
        """The view at a version, where it is the latest of a game that is watched here."""
        course = self._courses.get(game_id)
        if course is None or course.last.loaded.version != version:
            return None
        return course.last.view(viewer)

    def _made_here(self, change: Change[State]) -> None:
        course = self._courses.get(change.stream)
        if course is not None:
            course.push(change)
