"""Random games, every viewer, every channel: the same octets in worlds alike to him, and no card,
seed or salt that he may not know, in any form.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from engines.cards import Card
from services.game import codec, domain, receipts
from services.game.model import DealRevealed, EngineEvent, State
from services.kernel.errors import Refused
from tests.engines import azi_worlds, durak_worlds, test_rami_laws
from tests.leaks.channels import CHANNELS, Asking, Told
from tests.leaks.house import House, played
from tests.leaks.octets import carried, named
from tests.services.game import worlds
from tests.services.game.worlds import Append, Viewer

SEATS = {"azi": (2, 3, 5), "durak": (2, 3, 6), "rami": (2, 3, 4)}
REVEALS = ("full", "own")
TRIES = 12
LOGS = ("logs", "the ai's log", "metrics", "traces")
"""Channels in which no card may stand."""
PUBLIC = ("audits", "evidence", "timers", "wallet and lobby", "shared game")
"""Channels in which only cards may stand that everybody has seen."""
CONCEIVABLE: dict[str, worlds.Conceivable] = {
    "azi": azi_worlds.conceivable,
    "durak": durak_worlds.conceivable,
    "rami": test_rami_laws.conceivable,
}


class Leak(AssertionError):
    """Something was told that the viewer may not know; the text names game, viewer and channel."""


@dataclass
class Tally:
    """What was looked at."""

    games: int = 0
    viewers: int = 0
    other_worlds: int = 0
    """Viewers for whom a world was found that differs from the true one."""
    pieces: Counter[str] = field(default_factory=Counter)
    octets: int = 0
    asked: set[str] = field(default_factory=set)
    """The RPCs that were called."""

    def table(self) -> list[str]:
        """What was looked at, in lines."""
        counted = sum(1 for name in CHANNELS if self.pieces[name])
        lines = [f"{name:<18} {self.pieces[name]:>8} pieces" for name in CHANNELS]
        total = f"{self.games} games × {self.viewers / max(1, self.games):.1f} viewers × {counted}"
        return [
            *lines,
            f"{total} channels: {sum(self.pieces.values())} pieces, {self.octets} octets",
            f"{self.other_worlds} of {self.viewers} viewers had another world",
        ]


@dataclass(frozen=True, slots=True)
class Game:
    """A random game by number: its commands and its true world."""

    variant: str
    number: int
    commands: Sequence[domain.GameCommand]
    true: Sequence[Append]

    @property
    def state(self) -> State:
        """Where it ends."""
        return self.true[-1].after

    def seen(self, viewer: Viewer) -> Sequence[Append]:
        """What a viewer may have seen of it: less, where those without a seat are kept behind."""
        delay = self.state.spectator_delay if viewer is None else 0
        may = worlds.shown(self.true, delay)
        return [append for append in self.true if append.after.version <= may]

    def __str__(self) -> str:
        return f"{self.variant} game {self.number}"


def game(variant: str, number: int, moves: int | None = None) -> Game:
    """Random game `number` of a kind, every second of which opens its cards one by one."""
    rng = Random(f"leaks {variant} {number}")
    reveal = REVEALS[number % 2]
    many = moves or (rng.choice((4, 12, 25)) if reveal == "full" else rng.choice((12, 400)))
    commands = worlds.game(variant, rng.choice(SEATS[variant]), rng, many, reveal)
    first = commands[0]
    assert isinstance(first, domain.Open)
    commands[0] = replace(
        first,
        spectators=True,
        spectator_delay=0 if moves else rng.choice((0, 2, 5)),
        turn_ms=600_000,
        seed_ms=60_000,
    )
    return Game(variant, number, commands, worlds.run(commands, {}))


def known(true: Sequence[Append], viewer: Viewer) -> set[Card]:
    """Every card that the public or the viewer's own eyes have seen, by the log and the rules.

    Worked out from the public payloads and the engine's state, not from what services show.
    """
    cards: set[Card] = set()
    for append in true:
        for row in append.rows:
            cards.update(named(codec.payload_message(row)))
        own = worlds.own_cards(append.after, viewer)
        parts = own if isinstance(own, tuple) and own and isinstance(own[0], tuple) else (own,)
        for part in parts:
            held = part if isinstance(part, tuple | frozenset | list) else (part,)
            cards.update(card for card in held or () if card is not None)
    return cards


def secrets(true: Sequence[Append]) -> list[bytes]:
    """Octets that nobody may be told yet: seeds, and hidden parts of rows longer than a card."""
    state = true[-1].after
    found = [state.bot_seed]
    if not (state.ended and state.laid_open):
        found.append(state.server_seed)
    revealed = {e.deal for a in true for e in a.events if isinstance(e, DealRevealed)}
    for append in true:
        for row, event in zip(append.rows, append.events, strict=True):
            if row.secret is None:
                continue
            made = isinstance(event, EngineEvent) and getattr(event.event, "deal", None)
            if len(row.secret) >= 8 and made not in revealed:
                found.append(row.secret)
    return found


def tries(
    true: Sequence[Append], other: Sequence[Append], viewer: Viewer, rng: Random
) -> list[domain.GameCommand]:
    """Moves of the viewer's own that the rules forbid in his world, and so must in all alike."""
    state = true[-1].after
    if viewer is None or state.ended:
        return []
    made: list[domain.GameCommand] = []
    moves = list(CONCEIVABLE[state.variant](state.engine, viewer))
    for move in rng.sample(moves, min(3 * TRIES, len(moves))):
        command = domain.Play(viewer, state.turn, move)
        if _refused(state, command) or _refused(other[-1].after, command):
            made.append(command)
    return made[:TRIES]


def _refused(state: State, command: domain.GameCommand) -> bool:
    try:
        domain.decide(state, command)
    except Refused:
        return True
    return False


async def told(
    house: House, asking: Asking, only: Collection[str] = tuple(CHANNELS)
) -> dict[str, list[Told]]:
    """What the viewer is told, by channel."""
    return {name: await CHANNELS[name](house, asking) for name in CHANNELS if name in only}


async def check(
    one: Game, viewer: Viewer, tally: Tally, only: Collection[str] = tuple(CHANNELS)
) -> None:
    """Play the game in two worlds alike to the viewer and compare; raises Leak."""
    rng = Random(f"{one} {viewer}")
    shown = None
    if not one.state.laid_open:
        seen = receipts.seen([row for append in one.true for row in append.rows], viewer)
        shown = {each.deal.deal: each.own | each.public for each in seen}
    other, decks = worlds.resample(one.commands, one.true, viewer, rng, shown)
    asking = Asking(viewer, tries(one.true, other, viewer, rng))
    async with played(one.commands, {}, [viewer]) as house:
        here = await told(house, asking, only)
        tally.asked |= house.asked
    scan(one, viewer, here, tally)
    tally.viewers += 1
    if not decks:
        return
    tally.other_worlds += 1
    async with played(one.commands, decks, [viewer]) as house:
        there = await told(house, asking, only)
    for name, pieces in here.items():
        forms, others = [p.form for p in pieces], [p.form for p in there[name]]
        if forms != others:
            pairs = enumerate(zip(forms, others, strict=False))
            at = next((number for number, (a, b) in pairs if a != b), -1)
            raise Leak(f"{one}, viewer {viewer}, {name}: piece {at} depends on what he cannot know")


def scan(one: Game, viewer: Viewer, here: dict[str, list[Told]], tally: Tally) -> None:
    """Look for cards and secrets that the viewer may not know; raises Leak."""
    # What is hidden now may have been seen in a deal before; then only the comparison tells.
    allowed = known(one.seen(viewer), viewer)
    hidden = secrets(one.true)
    public = known(one.true, None)
    for name, pieces in here.items():
        tally.pieces[name] += len(pieces)
        may = set() if name in LOGS else public if name in PUBLIC else allowed
        for number, piece in enumerate(pieces):
            tally.octets += len(piece.octets)
            if piece.cards - may:
                raise Leak(f"{one}, viewer {viewer}, {name}: piece {number} names a hidden card")
            if next(carried(piece.octets, hidden), None) is not None:
                raise Leak(f"{one}, viewer {viewer}, {name}: piece {number} holds a secret")


async def fuzz(variant: str, number: int, tally: Tally) -> None:
    """One game, every viewer of it, every channel; raises Leak."""
    one = game(variant, number)
    tally.games += 1
    for viewer in (None, *range(len(one.state.seats))):
        await check(one, viewer, tally)
