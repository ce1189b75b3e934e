"""How Azi's bidding is learned: by playing against itself and regretting what would be better.

External sampling of counterfactual regrets, over situations and ranks of hands instead of chips
and cards. Tricks that a deal comes to are solved with open cards. What comes out is the average of
all that was played on the way, in which bluffs, calls and bids for worth balance each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random

from engines.azi.codes import LOOK, Stage
from engines.azi.core import Core
from engines.azi.masks import BIT, TAKING
from engines.azi.model import PACK, Options
from services.ai.bots.azi import bidding, hands, showdown
from services.ai.bots.azi.situation import ACTS, acts, key
from services.ai.bots.azi.solving import Solver, equal_worth
from services.ai.bots.azi.tables import DARK, RANKED


class Company(IntEnum):
    """Whom a deal is played against."""

    EQUALS = 0
    """Others that learn as well."""
    ODDS = 1
    TRUMPS = 2
    """Bots that bid as the lower levels do."""


COMPANY = (60, 25, 15)
"""How often each is met. So the bids that come out take what such players give away, and yet are
learned against others that take what they give away themselves."""


@dataclass(frozen=True, slots=True)
class Known:
    """By number of players and kind of hand its rank and its worth."""

    ranks: Mapping[int, Sequence[int]]
    worths: Mapping[int, Sequence[float]]


class Deal:
    """Cards of one deal: what its hands are worth, and how its tricks end."""

    __slots__ = ("_ended", "_known", "hands", "kinds", "taking", "trumps")

    def __init__(self, known: Known, seats: int, rng: Random) -> None:
        deck = rng.sample(PACK, hands.HAND * seats + 1)
        turned = deck.pop()
        of = hands.kinds(turned)
        bits = [BIT[card] for card in deck]
        self.hands = [sum(bits[at : at + hands.HAND]) for at in range(0, len(bits), hands.HAND)]
        self.kinds = [of[hand] for hand in self.hands]
        self.trumps, self.taking = hands.trumps(turned), TAKING[turned]
        self._known = known
        self._ended: dict[tuple[int, int], int] = {}

    def rank(self, core: Core, seat: int) -> int:
        """The rank of a seat's hand among the live ones."""
        if core.blind >> seat & 1:
            return DARK
        return self._known.ranks[core.live.bit_count()][self.kinds[seat]]

    def simple(self, core: Core, seat: int, company: Company) -> int:
        """The move of a seat that bids as a lower level does."""
        if core.blind >> seat & 1:
            return LOOK
        kind = self.kinds[seat]
        if company is Company.ODDS:
            chance = self._known.worths[core.live.bit_count()][kind]
            return bidding.by_odds(core, seat, chance)
        return bidding.by_trumps(core, seat, hands.trumps_in(kind), hands.has_high_card(kind))

    def winner(self, live: int, leader: int) -> int:
        """The seat that wins the tricks among these seats, -1 for an azi."""
        known = self._ended.get((live, leader))
        if known is None:
            seats = [seat for seat in range(len(self.hands)) if live >> seat & 1]
            worth = equal_worth(len(seats))
            solver = Solver(self.trumps, self.taking, worth, 0)
            ended = solver.led(
                [self.hands[seat] for seat in seats], [0] * len(seats), seats.index(leader)
            )
            known = -1 if 0 < ended[0] < 1 else seats[ended.index(1.0)]
            self._ended[live, leader] = known
        return known


@dataclass(slots=True)
class Row:
    """What was regretted and played in one situation with one rank of hand, seen so often."""

    seen: int = 0
    regrets: list[float] = field(default_factory=lambda: [0.0] * ACTS)
    played: list[float] = field(default_factory=lambda: [0.0] * ACTS)

    def play(self, moves: Sequence[tuple[int, int]], mixed: Sequence[float], weight: float) -> None:
        """Count a mix into the average."""
        for (act, _), part in zip(moves, mixed, strict=True):
            self.played[act] += part * weight


class Training:
    """Regrets on their way."""

    def __init__(self, known: Known, seed: int) -> None:
        self.rows: dict[int, Row] = {}
        self._known = known
        self._rng = Random(seed)
        self._round = 0
        self._company = Company.EQUALS

    def run(self, rounds: int) -> None:
        """Deal so often, each deal once for every seat."""
        for _ in range(rounds):
            self._round += 1
            core = table(self._rng)
            deal = Deal(self._known, core.seats, self._rng)
            self._company = self._rng.choices(tuple(Company), COMPANY)[0]
            for seat in range(core.seats):
                self._walk(core.clone(), deal, seat, 1.0)

    def _walk(self, core: Core, deal: Deal, own: int, reach: float) -> float:
        """The chips `own` ends with, on average over the chances taken.

        `reach` is how likely its own acts have been.
        """
        while True:
            if core.stage is Stage.OVER or (core.folded >> own & 1 and not core.short & core.live):
                return core.stacks[own]
            if core.stage is not Stage.BIDDING:
                return ended(core, deal.winner(core.live, core.seat), own)
            seat = core.seat
            if seat != own and self._company is not Company.EQUALS:
                core.apply(deal.simple(core, seat, self._company))
                continue
            moves = acts(core, seat)
            if len(moves) == 1:
                core.apply(moves[0][1])
                continue
            number = key(core, seat) * RANKED + deal.rank(core, seat)
            row = self.rows.get(number)
            if row is None:
                row = self.rows[number] = Row()
            row.seen += 1
            mixed = matched(row.regrets, moves)
            if seat == own:
                return self._regret(core, deal, own, moves, mixed, row, reach)
            row.play(moves, mixed, self._round * self._round)
            core.apply(self._rng.choices(moves, mixed)[0][1])

    def _regret(
        self,
        core: Core,
        deal: Deal,
        own: int,
        moves: Sequence[tuple[int, int]],
        mixed: Sequence[float],
        row: Row,
        reach: float,
    ) -> float:
        if self._company is not Company.EQUALS:
            row.play(moves, mixed, self._round * self._round * reach)
        values = []
        for (_, move), part in zip(moves, mixed, strict=True):
            after = core.clone()
            after.apply(move)
            values.append(self._walk(after, deal, own, reach * part))
        value = sum([part * each for part, each in zip(mixed, values, strict=True)])
        regrets, scale = row.regrets, 1 / core.bank
        for (act, _), each in zip(moves, values, strict=True):
            regrets[act] = max(regrets[act] + (each - value) * scale, 0.0)
        return value


def matched(regrets: Sequence[float], moves: Sequence[tuple[int, int]]) -> list[float]:
    """How often each move is made: in proportion to what is regretted of it."""
    wanted = [regrets[act] for act, _ in moves]
    total = sum(wanted)
    if total <= 0:
        return [1 / len(moves)] * len(moves)
    return [each / total for each in wanted]


def ended(core: Core, winner: int, own: int) -> float:
    """The chips `own` ends with when this seat wins the tricks; -1 is an azi, an equal part."""
    if winner >= 0:
        return core.stacks[own] + showdown.paid(core, winner)[own]
    live = [seat for seat in range(core.seats) if core.live >> seat & 1]
    return core.stacks[own] + showdown.expected(core, live)[own]


def table(rng: Random) -> Core:
    """A table about to bid: any size, stacks and stakes, now and then a bank carried on."""
    seats = rng.choices((2, 3, 4, 5, 6), (34, 32, 18, 9, 7))[0]
    fee = rng.choices((1, 3, 10), (5, 2, 2))[0]
    options = Options(
        entry_fee=fee,
        min_bet=fee * rng.choices((1, 2, 4), (8, 1, 1))[0],
        blind_bets=rng.random() < 0.2,
    )
    even = fee * (50 if rng.random() < 0.5 else int(2 ** rng.uniform(1, 8)))
    uneven = rng.random() < 0.35
    stacks = [fee * int(2 ** rng.uniform(0.3, 7)) if uneven else even for _ in range(seats)]
    core = Core(options, stacks, rng.randrange(seats))
    core.deal(PACK)
    if rng.random() < 0.15:
        carried = fee * int(2 ** rng.uniform(1, 6))
        core.bank += carried * seats
        for seat in range(seats):
            core.contributed[seat] += carried
            core.weights[seat] += carried
    return core
