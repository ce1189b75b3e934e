"""The steps of the games that are watched here: each append is read, folded and rendered once.

An append made by this process comes with its rows and states; those of others are read once, for
all that watch the game here, as soon as there is news of them; a course wakes its watchers when it
has moved on. What a viewer is told of an append is made when the first of them is
to be told, and kept under nothing but who looks: a seat, or None for all who have none.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID
from weakref import ref

from kozyr.game.v1 import game_pb2

from services.game import codec, views
from services.game.delays import Past, asks
from services.game.games import STORE_UNAVAILABLE, Games
from services.game.model import Event, State
from services.kernel.envelope import Recorded
from services.kernel.errors import Refused, unavailable
from services.runtime.streams import Change, Loaded
from services.runtime.wire.framing import nested, numeral

LINKED_MAX = 64
"""A watcher more than so many appends behind is not waited for: it gets a snapshot."""

CLOCK_KEPT_US = 50_000
"""So long a clock that was read is told to others as well, microseconds."""

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
    _clock: bytes = b""
    _clock_at: int = 0
    _views: dict[Viewer, bytes] = field(default_factory=dict)
    _happened: dict[Viewer, bytes] = field(default_factory=dict)
    _told: dict[Viewer, tuple[bytes, bytes]] = field(default_factory=dict)

    def view(self, viewer: Viewer, now: int | None = None) -> bytes:
        """The game as this viewer sees it, a serialised `GameView`; its clock is read at `now`
        (microseconds) or little before, None: when the version was recorded."""
        return self._timeless(viewer) + self._read_clock(now)

    def _timeless(self, viewer: Viewer) -> bytes:
        """The view but for its clock."""
        made = self._views.get(viewer)
        if made is None:
            state = self.loaded.state
            if self._shared is None:
                self._shared = views.shared_view(state, self.loaded.hash)
            made = self._views[viewer] = views.view_octets(self._shared, state, viewer)
        return made

    def _read_clock(self, now: int | None) -> bytes:
        """The clock, the same octets for all who are told at about the same time."""
        at = self.loaded.recorded_at if now is None else now
        if not self._clock or abs(at - self._clock_at) > CLOCK_KEPT_US:
            self._clock, self._clock_at = views.clock_octets(self.loaded.state, at), at
        return self._clock

    def told(self, viewer: Viewer, now: int | None = None) -> bytes:
        """What a watcher is sent of the append, a `WatchGameResponse` but for its token; `now` as
        for `view`."""
        clock = self._read_clock(now)
        made = self._told.get(viewer)
        if made is None or made[0] is not clock:
            happened = self._happened.get(viewer)
            if happened is None:
                first, last = self.rows[0].version, self.rows[-1].version
                between = numeral(STEP_FROM, first) + numeral(STEP_TO, last)
                happened = b"".join((between, *self._happenings(viewer)))
                self._happened[viewer] = happened
            view = nested(STEP_VIEW, self._timeless(viewer) + clock)
            made = self._told[viewer] = (clock, nested(RESPONSE_STEP, happened + view))
        return made[1]

    def _happenings(self, viewer: Viewer) -> Iterator[bytes]:
        """What happened: as everybody is told, where this viewer is shown what everybody is."""
        rules = self.loaded.state.rules
        if self._public is None:
            events = [(row, codec.decode(row)) for row in self.rows]
            self._public = [Told.of(rules, row, event, None) for row, event in events]
        for public in self._public:
            shown = views.shown_event(rules, public.event, viewer)
            if shown is public.shown or shown == public.shown:
                yield public.octets
            else:
                yield Told.of(rules, public.row, public.event, viewer).octets


@dataclass(slots=True)
class Course:
    """A game that is watched here: its latest step, and those that somebody may still need.

    `shown` is the latest that its watchers are told of: `delay` decisions ago while the game runs.
    Of the steps after it, `later` asked for a new decision, of `ahead` in all.
    """

    last: Step
    delay: int = 0
    shown: Step = field(init=False)
    later: int = 0
    ahead: int = 0
    watchers: int = 0
    recent: "deque[ref[Step]]" = field(default_factory=deque)
    waiting: set[asyncio.Future[bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.shown = self.last

    def push(self, change: Change[State]) -> None:
        """Take an append in, if it is the one that follows."""
        if change.before.version != self.last.loaded.version:
            return
        shown = self.shown
        self.recent.append(ref(self.last))
        self.last.next = self.last = Step(change.after, change.rows)
        if self.delay and not change.after.state.ended:
            self.ahead += 1
            self.later += asks(change)
            self._advance()
        else:
            self.shown, self.ahead = self.last, 0
        if len(self.recent) - self.ahead > LINKED_MAX:
            behind = self.recent.popleft()()
            if behind is not None:
                behind.next, behind.lost = None, True
        if self.shown is not shown:
            self.wake()

    def wake(self, problem: Exception | None = None) -> None:
        """Have all who wait look again, or tell them why there is nothing to look at."""
        waiting, self.waiting = self.waiting, set()
        for waiter in waiting:
            if waiter.done():
                continue
            if problem is None:
                waiter.set_result(True)
            else:
                waiter.set_exception(problem)
                waiter.exception()  # who is cancelled meanwhile will not ask for it

    def _advance(self) -> None:
        """Show what is so many decisions old by now, and all before the first deal."""
        while (after := self.shown.next) is not None:
            asked = after.loaded.state.turn != self.shown.loaded.state.turn
            if after.loaded.state.engine is not None and self.later - asked < self.delay:
                return
            self.shown = after
            self.ahead -= 1
            self.later -= asked


class Watcher:
    """Somebody who waits for what comes next on a course, but not longer than `patience_s`.

    One timer serves many waits: where they are short it is seldom set anew.
    """

    __slots__ = ("_course", "_loop", "_patience_s", "_since", "_timer", "_waiter")

    def __init__(self, course: Course, patience_s: float) -> None:
        self._course = course
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[bool] | None = None

    async def news(self) -> bool:
        """Wait until the course may have moved on (True), or until time is up.

        Raises what the course could not be read for.
        """
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._patience_s, self._ring)
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        self._course.waiting.add(waiter)
        try:
            return await waiter
        finally:
            self._course.waiting.discard(waiter)

    def _ring(self) -> None:
        """Time is up, unless the present wait has begun later than the one it was set for."""
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        left = self._since + self._patience_s - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            self._waiter.set_result(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Steps:
    """The games watched in this process."""

    def __init__(self, games: Games) -> None:
        self._games = games
        self._courses: dict[UUID, list[Course]] = {}
        """Of a game one for those who see it live, one for those who are kept behind."""
        self._wanted: dict[UUID, int] = {}
        """Games that are to be read next, and which version there is news of."""
        self._reading: asyncio.Task[None] | None = None
        games.on_change(self._made_here)

    @property
    def watched(self) -> int:
        """How many games are watched here."""
        return len(self._courses)

    @property
    def watchers(self) -> int:
        """How many watch them."""
        return sum(course.watchers for courses in self._courses.values() for course in courses)

    def course(self, game_id: UUID, delay: int = 0) -> Course | None:
        """The game's course if somebody here watches it, live or so many decisions behind."""
        courses = self._courses.get(game_id, ())
        return next((course for course in courses if course.delay == delay), None)

    @contextmanager
    def watched_from(self, game_id: UUID, past: Past, delay: int = 0) -> Iterator[Course]:
        """A game's course for as long as somebody here watches it; a new one begins with `past`, an
        older one may be behind it."""
        course = self.course(game_id, delay)
        if course is None:
            course = Course(Step(past.shown), delay)
            for change in past.later:
                course.push(change)
            self._enter(game_id, course)
        course.watchers += 1
        try:
            yield course
        finally:
            course.watchers -= 1
            if not course.watchers:
                self._leave(game_id, course)

    def _enter(self, game_id: UUID, course: Course) -> None:
        if game_id not in self._courses:
            self._games.feed.follow(game_id, self._heard)
        self._courses.setdefault(game_id, []).append(course)

    def _leave(self, game_id: UUID, course: Course) -> None:
        courses = self._courses[game_id]
        courses.remove(course)
        if not courses:
            del self._courses[game_id]
            self._games.feed.leave(game_id, self._heard)

    async def reach(self, game_id: UUID, course: Course, version: int) -> None:
        """Bring a course that somebody joins to a version that the database has been seen to have.

        Raises Refused as `Games.load`, STATE_BEHIND when the database does not know it any more.
        """
        if course.last.loaded.version < version:
            await self._catch_up((game_id,))
        if course.last.loaded.version < version:
            raise self._behind(game_id, version)

    def check(self, game_id: UUID, course: Course) -> None:
        """Have a course read if there is news of something after it.

        What news from another replica names together is read together, and so is what is named
        while something is read.
        """
        version = self._games.feed.known(game_id)
        if course.last.loaded.version >= version:
            return
        self._wanted[game_id] = version
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_wanted(), name="steps")

    def _heard(self, game_id: UUID) -> None:
        """There is news of a game, or there will be none any more: then its watchers look up."""
        for course in self._courses.get(game_id, ()):
            if self._games.feed.stopped:
                course.wake()
            else:
                self.check(game_id, course)

    async def _read_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                await self._read(wanted)
        finally:
            self._reading = None

    async def _read(self, wanted: Mapping[UUID, int]) -> None:
        """Bring the courses of games to these versions, or tell their watchers why not."""
        try:
            await self._catch_up(wanted)
        except Exception as problem:  # noqa: BLE001 - it goes to those who wait
            if len(wanted) > 1 and is_of_one(problem):
                await asyncio.gather(*(self._read({game: wanted[game]}) for game in wanted))
                return
            for game_id in wanted:
                self._fail(game_id, problem)
            return
        for game_id, version in wanted.items():
            courses = self._courses.get(game_id, ())
            if any(course.last.loaded.version < version for course in courses):
                self._fail(game_id, self._behind(game_id, version))

    async def _catch_up(self, games: Iterable[UUID]) -> None:
        known = {game: _oldest(courses) for game in games if (courses := self._courses.get(game))}
        if not known:  # nobody watches any more
            return
        for game_id, changes in (await self._games.since(known)).items():
            for change in changes:
                self._push(game_id, change)

    def _behind(self, game_id: UUID, version: int) -> Refused:
        """What is told where the database does not know a version: nobody waits for it longer."""
        self._games.feed.forget(game_id, version)
        return unavailable("STATE_BEHIND", "the database does not know that version yet")

    def _fail(self, game_id: UUID, problem: Exception) -> None:
        for course in self._courses.get(game_id, ()):
            course.wake(problem)

    def view(self, game_id: UUID, version: int, viewer: Viewer, now: int) -> bytes | None:
        """The view at a version, its clock read at `now` (microseconds), where it is the latest of
        a game that is watched here."""
        course = self.course(game_id)
        if course is None or course.last.loaded.version != version:
            return None
        return course.last.view(viewer, now)

    def _made_here(self, change: Change[State]) -> None:
        self._push(change.stream, change)

    def _push(self, game_id: UUID, change: Change[State]) -> None:
        for course in self._courses.get(game_id, ()):
            course.push(change)


def is_of_one(problem: Exception) -> bool:
    """Whether what several games could not be read for may be the fault of one of them."""
    return isinstance(problem, Refused) and problem.reason != STORE_UNAVAILABLE


def _oldest(courses: Iterable[Course]) -> Loaded[State]:
    return min((course.last.loaded for course in courses), key=lambda loaded: loaded.version)
