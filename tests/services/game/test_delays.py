"""Those who are kept behind see the game as it was, and nothing that has happened since."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.v1 import game_pb2

from services.game import domain, views
from services.game.delays import Delays, Past
from services.game.model import State
from services.game.rulebook import engine_for
from services.game.steps import Course, Step
from services.game.watching import Signed
from services.kernel.envelope import Plan
from services.kernel.errors import Refused
from services.runtime.seal import Sealer
from services.runtime.streams import Change, Loaded
from tests.services.game import worlds
from tests.services.game.logs import GAME_ID, opening
from tests.services.game.test_noninterference import Rows, receipt
from tests.services.game.worlds import Append

KINDS = ("azi", "durak", "rami")
DELAYS = (1, 2, 5, 50)
HASH = bytes(32)
NOTHING: Loaded[State] = Loaded(State(), 0, HASH, 0)


@dataclass
class Stored:
    """Games in memory, as far as `Delays` reads them; `read` counts appends."""

    world: Sequence[Append]
    nothing: Loaded[State] = NOTHING
    read: int = 0

    async def appends(
        self, game_id: UUID, known: Loaded[State], version: int
    ) -> list[Change[State]]:
        """The appends after what is known."""
        found = [c for c in changes(self.world) if known.version < c.after.version <= version]
        self.read += len(found)
        return found


def loaded(state: State) -> Loaded[State]:
    """A state as it is kept in memory."""
    return Loaded(state, state.version, HASH, state.recorded_at)


def changes(world: Sequence[Append]) -> list[Change[State]]:
    """The appends of a world as streams tell them."""
    return [Change(loaded(a.before), a.rows, loaded(a.after), Plan()) for a in world]


def delays(world: Sequence[Append]) -> Delays:
    """What is shown of a world that is stored."""
    stored: Any = Stored(world)
    return Delays(stored)


def played(variant: str, seed: int, delay: int) -> list[Append]:
    """A random game of which spectators are so many decisions behind."""
    rng = Random(f"delays {variant} {seed}")
    commands = worlds.game(variant, 3, rng, moves=rng.choice((0, 4, 40)))
    first: Any = commands[0]
    commands[0] = replace(first, spectators=True, spectator_delay=delay)
    return worlds.run(commands, {})


@pytest.mark.parametrize("variant", KINDS)
@pytest.mark.parametrize("delay", DELAYS)
async def test_the_past_is_so_many_decisions_ago(variant: str, delay: int) -> None:
    """After each append: what is asked for anew, with what was shown before in mind, and what
    watchers are told while it happens, all are at the version that the rule allows."""
    for seed in range(6):
        world = played(variant, seed, delay)
        kept = delays(world)
        course = Course(Step(NOTHING), delay)
        for number, change in enumerate(changes(world), start=1):
            course.push(change)
            may = worlds.shown(world[:number], delay)
            assert course.shown.loaded.version == may
            state = change.after
            if state.state.ended:
                assert await kept.seen(state, None) is state
                continue
            for asked in (kept, delays(world)):
                past = await asked.past(state, delay)
                assert past.shown.version == may
                assert [c.after.version for c in past.later][-1:] in ([], [state.version])
            seated = await kept.seen(state, 0)
            assert seated is state


@pytest.mark.parametrize("variant", KINDS)
async def test_what_was_shown_before_is_not_read_again(variant: str) -> None:
    """Of a long game only what came after it."""
    world = played(variant, 3, 2)
    kept = delays(world)
    stored: Any = kept.games
    await kept.past(loaded(world[-1].after), 2)
    first, stored.read = stored.read, 0
    past = await kept.past(loaded(world[-1].after), 2)
    assert first == len(world)
    assert stored.read == len(past.later) < 12


async def test_who_is_overtaken_is_shown_what_the_others_were() -> None:
    """A game that was loaded before more of it was shown to somebody else."""
    world = played("durak", 2, 1)
    kept = delays(world)
    newest = await kept.past(loaded(world[-1].after), 1)
    early = loaded(world[1].after)
    assert newest.shown.version > early.version
    assert (await kept.past(early, 1)).shown is newest.shown


@pytest.mark.parametrize("variant", KINDS)
async def test_a_game_that_was_dealt_as_it_was_opened_is_not_shown_at_once(variant: str) -> None:
    """There is nothing of it that is old enough."""
    world = worlds.run([opening(variant, 3, people=0, spectators=True, spectator_delay=3)], {})
    assert world[-1].after.engine is not None
    with pytest.raises(Refused, match="NOT_SHOWN_YET"):
        await delays(world).seen(loaded(world[-1].after), None)


async def told(world: Sequence[Append], delay: int) -> dict[str, object]:
    """All that the service tells somebody without a seat in the course of a world."""
    kept = delays(world)
    shown = await kept.seen(loaded(world[-1].after), None)
    rows = [row for each in world for row in each.rows]
    history = await Rows(rows).history(shown.state, None)
    course, signed = Course(Step(NOTHING), delay), _signed()
    step, sent = course.shown, []
    for change in changes(world):
        course.push(change)
        while step is not course.shown and step.next is not None:
            step = step.next
            sent += [signed.step(step, None), signed.snapshot(step, None, 1)]
            sent.append(signed.heartbeat(step.loaded.version))
    return {
        "view": views.game_view(shown.state, None, shown.hash).SerializeToString(),
        "history": [each.SerializeToString(deterministic=True) for each in history],
        "summary": game_pb2.GameSummary(**views.summary(shown.state)).SerializeToString(),
        "receipt": receipt(shown.state, rows[: shown.version], None),
        "stream": sent,
    }


def _signed() -> Signed:
    return Signed(Sealer(HASH, "watch", (str(GAME_ID), "player:x")), 10_000)


@pytest.mark.parametrize("variant", KINDS)
@pytest.mark.parametrize("delay", DELAYS[:3])
async def test_what_happens_later_shows_nowhere(variant: str, delay: int) -> None:
    """Two games that part after what is shown, with other moves at other times: the same octets in
    views, histories, lists, receipts, steps, heartbeats and tokens."""
    parted = 0
    for seed in range(24):
        world = played(variant, seed, delay)
        if world[-1].after.ended or world[-1].after.engine is None:
            continue
        may = worlds.shown(world, delay)
        if not may:
            continue
        common = [each for each in world if each.after.version <= may]
        other = _parting(common, delay, Random(f"{variant} {seed} other"))
        if other[-1].after.ended or worlds.shown(other, delay) != may:
            continue
        parted += other[-1].after.engine != world[-1].after.engine
        assert await told(world, delay) == await told(other, delay)
    assert parted > 2, "hardly any game parted"


def _parting(common: Sequence[Append], delay: int, rng: Random) -> list[Append]:
    """The game played on otherwise, as long as nothing more is shown."""
    world = list(common)
    for _ in count():
        state = world[-1].after
        if state.engine is None:
            return world
        seat = rng.choice(engine_for(state.rules).to_act(state.engine) or (0,))
        if state.ended or not engine_for(state.rules).to_act(state.engine):
            return world
        move = rng.choice(engine_for(state.rules).legal(state.engine, seat))
        command = domain.Play(seat, state.turn, move, by_bot=state.seats[seat].is_bot)
        made = worlds.append(state, command, rng.randint(1, 2_000_000))
        if made.after.ended or worlds.shown([*world, made], delay) != worlds.shown(common, delay):
            return world
        world.append(made)
    raise AssertionError


def test_who_joins_late_is_told_from_where_the_game_is_shown() -> None:
    """A course that begins with a past goes on as one that was there from the beginning."""
    delay = 3
    world = played("durak", 2, delay)
    whole = changes(world)
    for begun in range(1, len(whole)):
        first = Course(Step(NOTHING), delay)
        for change in whole[:begun]:
            first.push(change)
        may = first.shown.loaded.version
        later = [change for change in whole[:begun] if change.after.version > may]
        past = Past(first.shown.loaded, later)
        second = Course(Step(past.shown), delay)
        for change in past.later:
            second.push(change)
        for change in whole[begun:]:
            first.push(change)
            second.push(change)
            assert second.shown.loaded.version == first.shown.loaded.version
