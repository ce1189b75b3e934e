"""Deals of a game: their seeds, the chance they give the engine, and laying them open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engines import azi, durak, rami
from engines.cards import Card
from engines.openings import cards_root
from engines.shuffle import deal_seed, digest, drawn, shuffled
from services.game.model import DealRevealed, DealSeeded, OpenDeal, SeedStatus, State

TURNS = frozenset(
    (
        *(azi.Dealt, durak.Dealt, rami.Dealt),
        *(azi.BankPaid, durak.DurakNamed, durak.DealNull, rami.MatchWon),
    )
)
"""The engine events with which a deal begins, and those with which a game is over."""


def contributions(state: State) -> tuple[bytes | None, ...]:
    """Each seat's revealed seed in seat order, None where none counts."""
    return tuple(s.seed if s.seed_status is SeedStatus.REVEALED else None for s in state.seats)


def seed_of(state: State, deal: int) -> bytes:
    """The seed of a deal of this game (from 1)."""
    return deal_seed(state.server_seed, deal, state.game_id.bytes, contributions(state))


@dataclass(frozen=True, slots=True)
class SeededChance:
    """The engine's chance: decks and draws from the game's seeds."""

    state: State

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The shuffled pack of this deal."""
        return shuffled(seed_of(self.state, deal), pack)

    def seat(self, deal: int, label: str, bound: int) -> int:
        """A labelled draw of this deal, apart from its deck."""
        return drawn(seed_of(self.state, deal), label, bound)


def deal_made(event: Any) -> OpenDeal | None:
    """The deal an engine event makes, or None for any other event."""
    match event:
        case azi.Dealt() | durak.Dealt():
            return OpenDeal(event.deal, event.secret.deck)
        case rami.Dealt():
            return OpenDeal(event.round, event.secret.deck)
        case _:
            return None


def turns(engine_events: Sequence[Any]) -> bool:
    """Whether a deal begins or the last one ends with these events: all others frame nothing."""
    return not TURNS.isdisjoint(map(type, engine_events))


def seeded(state: State, engine_events: Sequence[Any]) -> list[DealSeeded]:
    """The seed hashes of the deals among these events, with what commits to single cards."""
    made = []
    for deal in filter(None, map(deal_made, engine_events)):
        seed = seed_of(state, deal.deal)
        root = None if state.laid_open else cards_root(seed, deal.deck)
        made.append(DealSeeded(deal.deal, digest(seed), root))
    return made


def revealed(state: State, *, over: bool) -> list[DealRevealed]:
    """The deals that may be laid open now: all when the game is over, in Rami every deal but the
    one in play. In Azi the deals of a chain stay closed until the bank is paid. Where cards are
    opened one by one, none is."""
    if not state.laid_open:
        closed: tuple[OpenDeal, ...] = ()
    elif over:
        closed = state.deals
    elif state.variant == rami.NAME:
        closed = state.deals[:-1]
    else:
        closed = ()
    return [DealRevealed(d.deal, seed_of(state, d.deal), d.deck, d.dropped) for d in closed]
