"""Whole games in worlds that a viewer cannot tell apart: other decks, the same public history.

A world is a list of commands played by the rules from the game's seeds, with one deck exchanged.
It counts as the same to a viewer when every command is accepted with the same public octets and
the viewer's own cards are the same after every append.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from engines import azi
from engines.cards import Card
from engines.shuffle import shuffled
from services.game import codec, deals, domain
from services.game.evolve import evolve
from services.game.model import DealRevealed, Event, State
from services.game.pacing import Pace
from services.game.rulebook import engine_for
from services.game.work import plan
from services.kernel.envelope import Plan, Recorded
from services.kernel.errors import Refused
from services.kernel.seats import AbsentPolicy
from tests.services.game.logs import GAME_ID, opening

SECOND = 1_000_000
Viewer = int | None
Decks = dict[bytes, tuple[Card, ...]]
"""Decks by the seed they stand instead of what it would give."""


@dataclass(frozen=True, slots=True)
class Append:
    """One append: the state before and after, its rows with their events, and its plan."""

    before: State
    after: State
    rows: tuple[Recorded, ...]
    events: tuple[Event, ...]
    plan: Plan


@contextmanager
def dealing(decks: Decks) -> Any:
    """Has these decks dealt while it lasts; what commits to single cards is a constant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deals, "cards_root", lambda seed, deck: bytes(32))
        patch.setattr(deals, "shuffled", lambda seed, pack: decks.get(seed) or shuffled(seed, pack))
        yield


def append(state: State, command: domain.GameCommand, took_us: int = SECOND) -> Append:
    """What a command leads to; raises Refused. Nothing but the events differs between worlds."""
    events = tuple(domain.decide(state, command))
    after = state
    rows: list[Recorded] = []
    at = state.recorded_at + took_us
    for event in events:
        after = evolve(after, event, at)
        rows.append(_row(after.version, event, at, first=not rows))
    made = plan(state, after, Pace(50))
    return Append(state, after, tuple(rows), events, made)


def _row(version: int, event: Event, at: int, *, first: bool) -> Recorded:
    new = codec.encode(event)
    return Recorded(
        stream=GAME_ID,
        version=version,
        name=new.name,
        schema=new.schema,
        payload=new.payload,
        metadata=b"",
        request_id=f"r{version}" if first else None,
        body_hash=bytes(32) if first else None,
        recorded_at=at,
        secret_digest=None if new.secret is None else bytes(32),
        salt=None if new.secret is None else bytes(32),
        secret=new.secret,
        hash=bytes(32),
    )


def run(commands: Sequence[domain.GameCommand], decks: Decks) -> list[Append]:
    """Play commands from the beginning; raises Refused where one is not allowed."""
    state, made = State(), []
    with dealing(decks):
        for command in commands:
            made.append(append(state, command))
            state = made[-1].after
    return made


def game(
    variant: str, seats: int, rng: Random, moves: int, reveal: str = "full"
) -> list[domain.GameCommand]:
    """The commands of a random game, up to so many moves or to before cards are laid open, which
    they never are where each is opened by itself."""
    options = opening(variant).options
    if variant == "azi":
        options = replace(
            options, deal_size=rng.choice((3, 4)), entry_fee=10, blind_bets=rng.random() < 0.5
        )
    if variant == "rami":
        options = replace(options, target=1_000 if reveal == "full" else 30)
    options = replace(options, reveal=reveal)
    absent = rng.choice(list(AbsentPolicy))
    first: list[domain.GameCommand] = [
        opening(
            variant,
            seats,
            people=rng.randint(1, seats),
            options=options,
            absent_policy=absent,
            bot_after=rng.choice((0, 1, 3)) if absent is AbsentPolicy.BOT else 0,
            turn_ms=rng.choice((300, 30_000)),
            time_bank_ms=rng.choice((0, 2_500)),
            server_seed=rng.randbytes(32),
            bot_seed=rng.randbytes(32),
        )
    ]
    commands, state = first, append(State(), first[0]).after
    while state.engine is None:
        commands.append(domain.CloseSeeds(state.stage))
        state = append(state, commands[-1]).after
    engine = engine_for(state.rules)
    for _ in range(moves):
        if state.ended:
            break
        command = _any(state, engine, rng)
        made = append(state, command)
        if made.after.ended and made.after.laid_open:
            break
        commands.append(command)
        state = made.after
    return commands


def _any(state: State, engine: Any, rng: Random) -> domain.GameCommand:
    seat = rng.choice(engine.to_act(state.engine))
    if rng.random() < 0.05:
        return domain.Expire(seat, state.turn)
    away = [n for n, s in enumerate(state.seats) if s.is_away and not s.left]
    if away and rng.random() < 0.3:
        return domain.Return(away[0])
    staying = [n for n, s in enumerate(state.seats) if not s.left]
    if rng.random() < 0.01 and staying:
        return domain.LeaveSeat(rng.choice(staying))
    move = rng.choice(engine.legal(state.engine, seat))
    return domain.Play(seat, state.turn, move, by_bot=state.seats[seat].is_bot)


def shown(world: Sequence[Append], delay: int) -> int:
    """The version that somebody may see who is kept behind, by the rule's own words: the latest
    after which as many decisions were asked, or that is before the first deal; at the end the last.
    """
    if world[-1].after.ended or not delay:
        return world[-1].after.version
    asked = [a.after.turn != a.before.turn for a in world]
    found = 0
    for number, each in enumerate(world):
        if each.after.engine is None or sum(asked[number + 1 :]) >= delay:
            found = each.after.version
    return found


def own_cards(state: State, viewer: Viewer) -> object:
    """The cards a viewer has been given and may look at."""
    if viewer is None or state.engine is None:
        return None
    if isinstance(state.engine, azi.State):
        player = state.engine.players[viewer]
        hand = None if player.blind else player.hand
        return hand, None if player.dropped_unseen else player.dropped
    hands = state.engine.hands
    return hands[viewer] if hands else None


def alike(one: Sequence[Append], other: Sequence[Append], viewer: Viewer) -> bool:
    """Whether the viewer knows the same in both worlds at every moment."""
    return all(
        [row.payload for row in a.rows] == [row.payload for row in b.rows]
        and own_cards(a.after, viewer) == own_cards(b.after, viewer)
        for a, b in zip(one, other, strict=True)
    )


def resample(
    commands: Sequence[domain.GameCommand],
    true: Sequence[Append],
    viewer: Viewer,
    rng: Random,
    shown: Mapping[int, Collection[Card]] | None = None,
) -> tuple[list[Append], Decks]:
    """Another world for this viewer, by exchanging cards of decks not laid open yet.

    Cards `shown` of a deal stay where they lie.
    """
    state = true[-1].after
    revealed = {e.deal for a in true for e in a.events if isinstance(e, DealRevealed)}
    open_deals = [deal for deal in state.deals if deal.deal not in revealed]
    decks: Decks = {}
    found = list(true)
    for _ in range(24):
        deal = rng.choice(open_deals)
        seed = deals.seed_of(state, deal.deal)
        deck = list(decks.get(seed, deal.deck))
        fixed = (shown or {}).get(deal.deal, ())
        places = [at for at, card in enumerate(deck) if card not in fixed]
        if not places:
            continue
        for _ in range(rng.choice((1, 1, 2, 6))):
            a, b = rng.choice(places), rng.choice(places)
            deck[a], deck[b] = deck[b], deck[a]
        tried = {**decks, seed: tuple(deck)}
        try:
            world = run(commands, tried)
        except Refused:
            continue
        if alike(true, world, viewer):
            found, decks = world, tried
    return found, decks


Conceivable = Callable[[Any, int], Any]
