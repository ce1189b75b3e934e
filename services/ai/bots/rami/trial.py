"""Ways to go on, tried out side by side in the same worlds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from engines.cards import PACK_SIZE, RANKS, Card
from engines.rami import Discard, DrawDiscard, DrawStock, LayOff, Move, View, card_points, masks
from services.ai.bots.choice import Level
from services.ai.bots.rami import plain
from services.ai.bots.rami.bundle import (
    PLACE,
    PLACES,
    Bundle,
    Lanes,
    Policy,
    Row,
    points,
    preferred,
    winners,
)
from services.ai.bots.rami.hands import best_plan
from services.ai.bots.rami.race import chance, standing
from services.ai.bots.rami.ways import Way
from services.ai.bots.rami.worlds import Hidden, hidden

OWN = {2: (6.0, 4), 3: (5.0, 0), 4: (3.0, 0)}
"""By the number of seats what an out is worth in points, and while others hold how many cards the
seat holds its combinations back: so the policy wins most."""
OTHERS_OUT = 2.0
"""What an out is worth to others, who lay at once."""
TURNS = 4
"""Each deck is played with the stock as it lies and cut so many times less one."""
_MOST_OUTS = 8
_ONLY = tuple(bytes(b"01"[octet == card] for octet in range(256)) for card in range(PACK_SIZE))
"""By card, a table that makes a one of it and a nought of every other."""


@cache
def _policy(out_worth: float, holds: int, ace_high: bool) -> Policy:
    scores = [
        [card_points(Card(rank), ace_high) - out_worth * outs for outs in range(_MOST_OUTS)]
        for rank in range(len(RANKS))
    ]
    return Policy(preferred(scores), holds)


def policies(seats: int, own: int, ace_high: bool) -> list[Policy]:
    """How the seats are taken to play; the seat itself does better than that where it searches."""
    found = [_policy(OTHERS_OUT, 0, ace_high)] * seats
    found[own] = _policy(*OWN[seats], ace_high)
    return found


def usual(view: View) -> Move:
    """What the policy of the view's seat does."""
    seat, options = view.seat or 0, view.options
    if view.drawn is None and not (view.discard and view.stock):
        return plain.choose(view, Level.HARD).move
    open_ = hidden(view)
    bundle = Bundle(1, [[0] * PLACES for _ in view.counts], ())
    hand = bundle.hands[seat]
    _set_out(bundle, view, Way(DrawStock(), view.hand), 1)
    for other, dealt in open_.hands(open_.cards):
        for card in (*dealt, *open_.known[other]):
            bundle.hands[other][PLACE[card]] = 1
    if view.drawn is None:
        bundle.draw(seat, 1)
        return DrawDiscard() if bundle.taken else DrawStock()
    if view.taken is not None:
        bundle.taken = [(PLACE[view.taken], 1)]
    own = policies(len(view.counts), seat, options.ace_high)[seat]
    bundle.lay(seat, own.holds)
    if sum(hand) < len(view.hand):
        keep = int(options.discard_to_win)
        plan = best_plan(view.hand, view.melds, ace_high=options.ace_high, keep=keep)
        return plan.lays[0] if plan.lays else plain.choose(view, Level.HARD).move
    bundle.discard(seat, own.discards, options.forbid_same_discard)
    return Discard(Card(PLACE.index(bundle.top[0][0])))


@dataclass(frozen=True, slots=True)
class Trial:
    """Ways of a view's seat in worlds of what it leaves open.

    Lanes are ordered by way, then by cut of the stock, then by deck.
    """

    view: View
    open_: Hidden
    ways: Sequence[Way]
    decks: Sequence[bytes]

    def gains(self, goes_on: Callable[[], bool]) -> list[list[float]] | None:
        """By way and deck the seat's chance to win the match; None when it is not to go on."""
        view, bundle = self.view, self._bundle()
        seats = len(view.counts)
        plans = policies(seats, view.seat or 0, view.options.ace_high)
        first = ((view.seat or 0) + 1) % seats
        if not bundle.play(first, plans, view.options.forbid_same_discard, goes_on):
            return None
        chances = self._chances(bundle)
        width = len(self.decks)
        parts = [chances[at : at + width] for at in range(0, len(chances), width)]
        return [
            [sum(cuts) / TURNS for cuts in zip(*parts[at : at + TURNS], strict=True)]
            for at in range(0, len(parts), TURNS)
        ]

    def _bundle(self) -> Bundle:
        """The lanes after the seat's turn."""
        view, width, seat = self.view, len(self.decks), self.view.seat or 0
        block = (1 << width * TURNS) - 1
        ways = [block << width * TURNS * index for index in range(len(self.ways))]
        every = sum(ways) // block
        cuts = every * sum(1 << width * index for index in range(TURNS))
        columns = _columns(self.decks)
        hands: list[Row] = []
        for known, wanted in zip(self.open_.known, self.open_.wanted, strict=True):
            row = [0] * PLACES
            for card in known:
                row[PLACE[card]] = sum(ways)
            for column in columns[:wanted]:
                for place, lanes in column:
                    row[place] |= lanes * cuts
            del columns[:wanted]
            hands.append(row)
        del columns[view.stock :]
        stock = [_cut(columns, turn, width, every) for turn in range(len(columns))]
        bundle = Bundle(sum(ways), hands, stock)
        for way, lanes in zip(self.ways, ways, strict=True):
            _set_out(bundle, view, way, lanes)
            if not way.left:
                bundle.out[seat] |= lanes
                bundle.live ^= lanes
        self._draw_first(bundle, sum(ways[i] for i, way in enumerate(self.ways) if way.waits))
        return bundle

    def _draw_first(self, bundle: Bundle, lanes: int) -> None:
        """Play the seat's own turn in the lanes where it draws from the stock."""
        view, seat, others = self.view, self.view.seat or 0, bundle.live ^ lanes
        if lanes:
            own = policies(len(view.counts), seat, view.options.ace_high)[seat]
            tops = [(at, rest) for at, of in bundle.top if (rest := of & others)]
            bundle.live = lanes
            bundle.draw(seat, 0)
            bundle.lay(seat, own.holds)
            bundle.discard(seat, own.discards, view.options.forbid_same_discard)
            bundle.top += tops
            bundle.live |= others

    def _chances(self, bundle: Bundle) -> list[float]:
        """The seat's chance to win the match after what each lane's round has brought."""
        view, lanes = self.view, len(self.ways) * len(self.decks) * TURNS
        needs = standing(view.scores, view.options.target)

        @cache
        def worth(ended: tuple[int, ...]) -> float:
            out, *costs = ended
            winner = out - 1 if out else costs.index(min(costs))
            after = list(needs)
            after[winner] -= sum(costs) - costs[winner]
            return chance(tuple(after), view.seat or 0)

        hands = [points(hand, lanes, view.options.ace_high) for hand in bundle.hands]
        chances = list(map(worth, zip(winners(bundle.out, lanes), *hands, strict=True)))
        chances.reverse()
        return chances


def _set_out(bundle: Bundle, view: View, way: Way, lanes: int) -> None:
    """Put the seat's hand, the table and the pile as they are after a way into these lanes."""
    for card in way.left:
        bundle.hands[view.seat or 0][PLACE[card]] |= lanes
    pile = view.discard[: len(view.discard) - way.taken]
    if way.discarded is not None:
        pile = (*pile, way.discarded)
    if pile:
        bundle.top.append((PLACE[pile[-1]], lanes))
    table = {meld.id: masks.mask(meld.cards) for meld in view.melds}
    for number, lay in enumerate(way.laid):
        name = lay.meld if isinstance(lay, LayOff) else f"new {number}"
        table[name] = table.get(name, 0) | masks.mask(lay.cards)
    for meld in table.values():
        run = masks.is_run(meld)
        for card in masks.cards(meld if run else masks.neighbours(meld)):
            (bundle.runs if run else bundle.lacks)[PLACE[card]] |= lanes
    for card in (*pile, *(card for meld in table.values() for card in masks.cards(meld))):
        bundle.gone[PLACE[card]] |= lanes


def _columns(decks: Sequence[bytes]) -> list[Lanes]:
    """By position in the decks the cards there, each with the decks it is there in."""
    joined, length = b"".join(reversed(decks)), len(decks[0])
    columns = [joined[at::length] for at in range(length)]
    return [
        [(PLACE[c], int(column.translate(_ONLY[c]), 2)) for c in set(column)] for column in columns
    ]


def _cut(stock: Sequence[Lanes], turn: int, width: int, every: int) -> Lanes:
    """What is drawn in a turn, with the stock cut at equal distances side by side."""
    row = [0] * PLACES
    for cut in range(TURNS):
        for at, lanes in stock[(turn + cut * len(stock) // TURNS) % len(stock)]:
            row[at] |= lanes << width * cut
    return [(at, lanes * every) for at, lanes in enumerate(row) if lanes]
