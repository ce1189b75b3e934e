"""Cards for games without a server: decks from a fresh secret seed, shuffled as on the server."""

import secrets
from collections.abc import Sequence

from engines.cards import Card
from engines.shuffle import SERVER_SEED_BYTES, deal_seed, drawn, shuffled

GAME_BYTES = 16


class SeedChance:
    """`engines.api.Chance` from one seed; without one it takes 32 bytes of the system's own."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._seed = secrets.token_bytes(SERVER_SEED_BYTES) if seed is None else seed

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The pack in dealing order for deal number `deal`, from 1."""
        return shuffled(self._deal(deal), pack)

    def seat(self, deal: int, label: str, bound: int) -> int:
        """A uniform number in 0 … bound-1, drawn apart from the deck."""
        return drawn(self._deal(deal), label, bound)

    def _deal(self, deal: int) -> bytes:
        return deal_seed(self._seed, deal, bytes(GAME_BYTES), ())
