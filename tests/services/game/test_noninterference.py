"""What leaves the game service for a viewer depends on nothing the viewer may not know.

Random games of each kind are played again with other hidden cards. Wherever the public history and
the viewer's own cards are the same, every view, stream message, history, question to a bot, list
entry, refusal and piece of due work must be the same octets.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from kozyr.game.v1 import game_pb2, view_pb2

from engines.openings import Opening
from services.game import codec, domain, receipts, views
from services.game.model import EngineEvent, State
from services.game.pacing import AT_ONCE
from services.game.reactions import Reactions, report
from services.game.rulebook import engine_for
from services.game.steps import Step
from services.game.watching import Signed
from services.kernel.envelope import Recorded
from services.kernel.errors import Refused
from services.runtime.seal import Sealer
from services.runtime.status import to_answer
from services.runtime.streams import Loaded
from tests.engines import azi_worlds, durak_worlds, test_rami_laws
from tests.services.game import worlds
from tests.services.game.logs import GAME_ID
from tests.services.game.worlds import Append, Viewer
from tests.verifier.played import KEY

GAMES = int(os.environ.get("KOZYR_WORLDS_N", "8"))
"""Random games of each kind and number of seats."""
SEATS = [("azi", n) for n in (2, 3, 5)] + [("durak", n) for n in (2, 3, 6)]
SEATS += [("rami", n) for n in (2, 3, 4)]
CONCEIVABLE: dict[str, worlds.Conceivable] = {
    "azi": azi_worlds.conceivable,
    "durak": durak_worlds.conceivable,
    "rami": test_rami_laws.conceivable,
}


@dataclass
class Rows:
    """A log in memory, as far as `Reactions` reads one."""

    rows: list[Recorded]

    async def history(
        self, state: State, viewer: Viewer, after: int = 0
    ) -> list[view_pb2.Happening]:
        """What happened after a version up to this state."""
        pairs = [(row, codec.decode(row)) for row in self.rows[after : state.version]]
        return views.happenings(state.rules, pairs, viewer)


def streamed(world: list[Append], viewer: Viewer, first: Sequence[Viewer] = ()) -> list[bytes]:
    """Everything a watcher is sent from before the first append on, and snapshots in between.

    Each step is shared with others, of whom those in `first` have been told before.
    """
    sealer = Sealer(bytes(32), "watch", (str(GAME_ID), "player:x"))
    signed, sent = Signed(sealer, 10_000), []
    for append in world:
        after = append.after
        step = Step(Loaded(after, after.version, bytes(32), after.recorded_at), append.rows)
        for other in first:
            step.told(other)
            step.view(other)
        sent.append(signed.step(step, viewer))
        sent.append(signed.snapshot(step, viewer, 1))
        sent.append(step.view(viewer))
    return sent


async def told(world: list[Append], viewer: Viewer) -> dict[str, object]:
    """All that leaves the service for this viewer at the end of a world."""
    state = world[-1].after
    rows = Rows([row for append in world for row in append.rows])
    history = game_pb2.GetGameResponse(
        view=views.game_view(state, viewer, bytes(32)), history=await rows.history(state, viewer)
    )
    seen: dict[str, object] = {
        "stream": streamed(world, viewer),
        "game": history.SerializeToString(deterministic=True),
        "summary": game_pb2.GameSummary(**views.summary(state)).SerializeToString(),
        "plans": [append.plan for append in world],
        "report": report(GAME_ID, state).SerializeToString(deterministic=True),
        "receipt": receipt(state, rows.rows, viewer),
    }
    if viewer is not None and not state.ended:
        reactions = Reactions(rows, None, None, AT_ONCE)  # type: ignore[arg-type]
        question = await reactions._question(state, viewer, bytes(32))
        seen["question"] = question.SerializeToString(deterministic=True)
    return seen


def receipt(state: State, rows: list[Recorded], viewer: Viewer) -> object:
    """The viewer's receipt but for its signature; what proves a card is a constant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            receipts,
            "openings",
            lambda seed, deck, places: [Opening(at, deck[at], bytes(32), ()) for at in places],
        )
        made = json.loads(receipts.document(KEY, state, rows, viewer, auditor=False))
    return made["receipt"], made["readable"]


def outcome(state: State, command: domain.GameCommand, decks: worlds.Decks) -> Append | bytes:
    """What follows a command: an append, or the octets of its refusal."""
    with worlds.dealing(decks):
        try:
            return worlds.append(state, command)
        except Refused as refused:
            return to_answer(refused, "id").details


def tries(state: State, viewer: Viewer, rng: Random) -> list[domain.GameCommand]:
    """Commands of all seats that anybody could give, possible or not."""
    engine = engine_for(state.rules)
    made: list[domain.GameCommand] = []
    for seat in range(len(state.seats)):
        moves = list(CONCEIVABLE[state.variant](state.engine, seat))
        if seat != viewer:
            moves = list(engine.legal(state.engine, seat))
        chosen = rng.sample(moves, min(8, len(moves)))
        made += [domain.Play(seat, state.turn, move) for move in chosen]
        made += [domain.Expire(seat, state.turn), domain.LeaveSeat(seat)]
    return made


@pytest.mark.parametrize(("variant", "seats"), SEATS)
async def test_a_viewer_is_told_the_same_in_worlds_alike_to_him(variant: str, seats: int) -> None:
    """Views, streams, histories, questions to bots, lists, refusals and timers: equal octets."""
    differed = compared = 0
    for seed in range(GAMES):
        rng = Random(f"{variant} {seats} {seed}")
        commands = worlds.game(variant, seats, rng, moves=rng.choice((0, 3, 10, 30)))
        true = worlds.run(commands, {})
        for viewer in (None, *range(seats)):
            world, decks = worlds.resample(commands, true, viewer, rng)
            differed += world[-1].after.engine != true[-1].after.engine
            others = rng.sample([None, *range(seats)], rng.randint(0, seats + 1))
            assert streamed(true, viewer, others) == streamed(true, viewer), "sharing shows"
            seen, other = await told(true, viewer), await told(world, viewer)
            for what, octets in seen.items():
                assert octets == other[what], f"{what} of viewer {viewer}, game {seed}"
            compared += _next(true, world, decks, viewer, rng)
    assert differed > GAMES, "hardly any other world was found"
    assert compared > GAMES


@pytest.mark.parametrize(("variant", "seats"), SEATS)
async def test_cards_opened_singly_tell_nothing_of_the_others(variant: str, seats: int) -> None:
    """With `reveal: own` the end tells a viewer where the cards he saw had lain, and no more.

    Worlds that differ only in cards he has never seen give him equal octets.
    """
    differed = ended = 0
    for seed in range(GAMES // 2):
        rng = Random(f"own {variant} {seats} {seed}")
        moves = (20, 1_000)[seed % 2]
        commands = worlds.game(variant, seats, rng, moves=moves, reveal="own")
        true = worlds.run(commands, {})
        ended += true[-1].after.ended
        for viewer in (None, *range(seats)):
            found = receipts.seen([row for append in true for row in append.rows], viewer)
            shown = {each.deal.deal: each.own | each.public for each in found}
            world, _ = worlds.resample(commands, true, viewer, rng, shown)
            differed += world[-1].after.deals != true[-1].after.deals
            seen, other = await told(true, viewer), await told(world, viewer)
            for what, octets in seen.items():
                assert octets == other[what], f"{what} of viewer {viewer}, game {seed}"
    assert differed > 1, "hardly any other world was found"
    assert ended


def _next(
    true: list[Append], world: list[Append], decks: worlds.Decks, viewer: Viewer, rng: Random
) -> int:
    """Compare what one more command leads to; how many commands could be compared."""
    here, there = true[-1].after, world[-1].after
    compared = 0
    for command in tries(here, viewer, rng):
        one, two = outcome(here, command, {}), outcome(there, command, decks)
        others = isinstance(command, domain.Play) and command.seat != viewer
        if isinstance(one, bytes) or isinstance(two, bytes):
            # A move of another seat may be possible in one world only; nobody else is told.
            assert others or one == two, f"viewer {viewer}: {command}"
            continue
        if not worlds.alike([one], [two], viewer):
            continue  # the command itself told something: a card drawn, a deal laid open
        compared += 1
        assert streamed([*true, one], viewer)[-3:] == streamed([*world, two], viewer)[-3:]
        assert one.plan == two.plan, f"viewer {viewer}: {command}"
    return compared


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_seeds_show_nowhere_before_the_end(variant: str) -> None:
    """Another server seed behind the same cards changes the hashes of seeds and nothing else."""
    rng = Random(variant)
    commands = worlds.game(variant, 3, rng, moves=10)
    true = worlds.run(commands, {})
    state = true[-1].after
    other = replace(state, server_seed=rng.randbytes(32), bot_seed=rng.randbytes(32))
    for viewer in (None, 0, 1, 2):
        assert views.game_view(state, viewer, b"") == views.game_view(other, viewer, b"")


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_public_octets_of_a_running_game_hold_no_hidden_card(variant: str) -> None:
    """What is stored unsealed is the same in every world that plays the same."""
    rng = Random(f"public {variant}")
    commands = worlds.game(variant, 3, rng, moves=6)
    true = worlds.run(commands, {})
    dealt = [row for append in true for row in append.rows if row.name.endswith(".Dealt")]
    assert dealt
    for row in dealt:
        event = codec.decode(row)
        assert isinstance(event, EngineEvent)
        other = replace(event, event=_redealt(event.event, rng))
        assert codec.encode(other).payload == row.payload
        assert codec.encode(other).secret != row.secret


def _redealt(event: Any, rng: Random) -> Any:
    deck = list(event.secret.deck)
    shown = deck[-1]
    rng.shuffle(deck)
    deck.append(deck.pop(deck.index(shown)))
    return replace(event, secret=replace(event.secret, deck=tuple(deck)))
