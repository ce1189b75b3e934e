"""Azi for searches: one mutable position of a game, all cards known, a move an integer.

Cards are bits as `engines.azi.masks` numbers them; a hand is the mask of its cards, and sets of
seats are masks too. A move is the bit of the card that is played or dropped, `BID` plus an amount,
or one of the other constants.

A core knows what decides how the game goes on, and is told what chance brings: the opener that is
drawn (`open_from`) and the cards of the next deal (`deal`). Finished tricks, dropped and undealt
cards, who left or is absent, and the numbers of turn and deal are the decider's alone.
"""

from collections.abc import Sequence

from engines.azi.bank import buy_back_price, payouts
from engines.azi.codes import (
    ALL_IN,
    BID,
    BUY_BACK,
    DECLINE,
    DROP_LAST,
    FOLD,
    LEVEL,
    LOOK,
    NOBODY,
    Stage,
)
from engines.azi.masks import BIT, SUIT, TAKING
from engines.azi.model import (
    BIDS_MAX,
    PACK,
    SEATS,
    TRICKS_IN_A_DEAL,
    TRICKS_TO_WIN,
    Options,
    Player,
    Standing,
)
from engines.bits import members
from engines.cards import Card

# An enum's members are looked up at every move; so they are taken out of it once.
_DROPPING, _BIDDING, _TRICKS = Stage.DROPPING, Stage.BIDDING, Stage.TRICKS


_CLOCKWISE = {
    n: tuple(tuple((first + i) % n for i in range(n)) for first in range(n)) for n in SEATS
}


class Core:
    """A game at one moment.

    Attributes:
        options, last_winner: of the table; `last_winner` is `NOBODY` while there is none.
        stage: what is waited for; seat: who is to act, or `NOBODY`. While cards are dropped this
            is the lowest seat that still has to; any other of `dropping` may be put there.
        stacks, levels, bids, contributed, weights, bought: each seat's chips, level and number of
            highest bids in this deal, and what it brought into this bank (`model.Player`).
        live, folded, short, blind: the seats that can still win the deal, may only buy back, are
            short, bet blind.
        hands, taken: the seats' cards, and tricks in this deal.
        dropping, last: the seats that have to drop a card, and each such seat's last-dealt one.
        origin: the seat from which the opener is looked for.
        bank, azis, high: as in the decider's state; `high_seat` is `NOBODY` while nobody has bid.
        trumps, taking: all cards of the trump suit, and the row of `TAKING` for the turned card.
        tricks: how many tricks of the deal are finished.
        led, best, best_seat: the suit led to the trick, its best card and who played that; 0, 0
            and `NOBODY` before the first card. `waiting`: the seats still to play to the trick.
        asked, price: the seats to be asked whether they buy back, in order, and for how much.
        winner: who won the bank, `NOBODY` until it is paid.
    """

    __slots__ = (
        "asked",
        "azis",
        "bank",
        "best",
        "best_seat",
        "bids",
        "blind",
        "bought",
        "clockwise",
        "contributed",
        "dropping",
        "folded",
        "hands",
        "high",
        "high_seat",
        "last",
        "last_winner",
        "led",
        "levels",
        "live",
        "options",
        "origin",
        "price",
        "seat",
        "seats",
        "short",
        "stacks",
        "stage",
        "taken",
        "taking",
        "tricks",
        "trumps",
        "waiting",
        "weights",
        "winner",
    )

    def __init__(
        self, options: Options, stacks: Sequence[int], last_winner: int | None = None
    ) -> None:
        """A game before its first deal; who cannot pay the fee is no part of it (AZI-4)."""
        seats = len(stacks)
        self.options = options
        self.last_winner = NOBODY if last_winner is None else last_winner
        self.seats = seats
        self.clockwise = _CLOCKWISE[seats]
        self.stage = Stage.OPENER if last_winner is None else Stage.DEAL
        self.seat = NOBODY
        self.stacks = list(stacks)
        self.live = sum(1 << s for s, chips in enumerate(stacks) if chips >= options.entry_fee)
        self.folded = self.short = self.blind = 0
        self.contributed = [0] * seats
        self.weights = [0] * seats
        self.bought = [0] * seats
        self.origin = 0 if last_winner is None else (last_winner + 1) % seats
        self.bank = self.azis = self.price = 0
        self.trumps = 0
        self.taking = TAKING[PACK[0]]
        self.asked: tuple[int, ...] = ()
        self.winner = NOBODY
        self._clear()

    def _clear(self) -> None:
        """What counts for one deal only."""
        seats = self.seats
        self.levels = [0] * seats
        self.bids = [0] * seats
        self.hands = [0] * seats
        self.taken = [0] * seats
        self.last = [0] * seats
        self.dropping = self.tricks = self.high = self.led = self.best = self.waiting = 0
        self.high_seat = self.best_seat = NOBODY

    def clone(self) -> "Core":
        """Another core that stands the same; neither moves with the other."""
        other = Core.__new__(Core)
        other.options, other.last_winner = self.options, self.last_winner
        other.seats, other.clockwise = self.seats, self.clockwise
        other.stage, other.seat = self.stage, self.seat
        other.live, other.folded = self.live, self.folded
        other.short, other.blind = self.short, self.blind
        other.origin, other.winner = self.origin, self.winner
        other.bank, other.azis = self.bank, self.azis
        other.asked, other.price = self.asked, self.price
        other.trumps, other.taking = self.trumps, self.taking
        other.dropping, other.tricks = self.dropping, self.tricks
        other.high, other.high_seat = self.high, self.high_seat
        other.led, other.waiting = self.led, self.waiting
        other.best, other.best_seat = self.best, self.best_seat
        other.stacks = self.stacks[:]
        other.levels = self.levels[:]
        other.bids = self.bids[:]
        other.contributed = self.contributed[:]
        other.weights = self.weights[:]
        other.bought = self.bought[:]
        other.hands = self.hands[:]
        other.taken = self.taken[:]
        other.last = self.last[:]
        return other

    def open_from(self, seat: int) -> None:
        """Say which live seat was drawn to open the next deal (AZI-11, AZI-40)."""
        self.origin = seat
        if self.azis:
            self._ask_back()
        else:
            self.stage = Stage.DEAL

    def deal(self, deck: Sequence[Card]) -> None:
        """Take the fees and deal from the top of a shuffled pack (AZI-3, AZI-5, AZI-38)."""
        options = self.options
        self._clear()
        self.asked, self.price = (), 0
        fee = options.entry_fee if options.azi_entry_fee or not self.azis else 0
        size, first = options.deal_size, 0
        cards = [BIT[card] for card in deck]
        for seat in range(self.seats):
            if not self.live >> seat & 1:
                continue
            chips = self.stacks[seat]
            if chips > fee:
                chips = fee
            self._put(seat, chips, chips)
            if not self.stacks[seat]:
                self.short |= 1 << seat
            self.hands[seat] = sum(cards[first : first + size])
            first += size
            if size > TRICKS_IN_A_DEAL:
                self.last[seat] = cards[first - 1]
        turned = deck[first]
        self.trumps = SUIT[cards[first]]
        self.taking = TAKING[turned]
        self.blind = self.live if options.blind_bets else 0
        if size > TRICKS_IN_A_DEAL:
            self.stage = _DROPPING
            self.dropping = self.live
            self.seat = _lowest(self.dropping)
        else:
            self._open()

    def legal(self) -> list[int]:
        """Moves of the seat to act: all, but of the bids the covering set of AZI-53."""
        stage, seat = self.stage, self.seat
        hand = self.hands[seat]
        if stage is _TRICKS:
            led = self.led
            return members(hand & led or hand & self.trumps or hand) if led else members(hand)
        if stage is _BIDDING:
            return self._bids(seat)
        if stage is _DROPPING:
            return [LOOK, DROP_LAST] if self.blind >> seat & 1 else members(hand)
        return [BUY_BACK, DECLINE]

    def _bids(self, seat: int) -> list[int]:
        high, level, most = self.high, self.levels[seat], self.reach(seat)
        found = []
        price = high - level if high else 0
        if self.blind >> seat & 1:
            found.append(LOOK)
            price = price + 1 >> 1
        least = high + 1
        if high:
            found += (FOLD, LEVEL) if most >= high else (FOLD, ALL_IN)
        else:
            least = self.options.min_bet
            if most < least:
                found += (FOLD, ALL_IN)
        if most >= least and self.bids[seat] < BIDS_MAX:
            pot = high + self.bank + price
            found.append(BID + least)
            if most > least + 1:
                found.append(BID + least + 1)
                if least + 1 < pot < most:
                    found.append(BID + pot)
            if most > least:
                found.append(BID + most)
        return found

    def reach(self, seat: int) -> int:
        """The highest level the seat can bid to (AZI-16; blind AZI-42)."""
        chips = self.stacks[seat]
        return self.levels[seat] + (2 * chips if self.blind >> seat & 1 else chips)

    def apply(self, move: int) -> None:
        """Make a move of the seat to act, and all that follows from it.

        The move is one of `legal`, or a bid between its lowest and its highest.
        """
        stage = self.stage
        if stage is _TRICKS:
            self._play(move)
        elif stage is _BIDDING:
            self._bid(move)
        elif stage is _DROPPING:
            self._drop(move)
        else:
            self._answer(move)

    def _drop(self, move: int) -> None:
        seat = self.seat
        if move == LOOK:
            self.blind ^= 1 << seat
        else:
            self.hands[seat] ^= self.last[seat] if move == DROP_LAST else move
            self.last[seat] = 0
            self.dropping ^= 1 << seat
        if self.dropping:
            self.seat = _lowest(self.dropping)
        else:
            self._open()

    def _open(self) -> None:
        self.stage = _BIDDING
        self._ask(self._first_live(self.origin))

    def _bid(self, move: int) -> None:
        seat = self.seat
        if move > BID:
            self.high = move - BID
            self.high_seat = seat
            self.bids[seat] += 1
            self._come_to(seat, self.high)
        elif move == LEVEL:
            self._come_to(seat, self.high)
        elif move == FOLD:
            self.live ^= 1 << seat
            self.folded |= 1 << seat
            if not self.live & self.live - 1:
                self._pay(_lowest(self.live))
                return
        elif move == ALL_IN:
            self.short |= 1 << seat
            self._come_to(seat, self.reach(seat))
        else:
            self.blind ^= 1 << seat
            return
        self._ask(seat + 1 if seat + 1 < self.seats else 0)

    def _come_to(self, seat: int, level: int) -> None:
        """Bid to a level (AZI-15; blind AZI-42)."""
        missing = level - self.levels[seat]
        self.levels[seat] = level
        self._put(seat, missing + 1 >> 1 if self.blind >> seat & 1 else missing, missing)

    def _put(self, seat: int, chips: int, weight: int) -> None:
        self.stacks[seat] -= chips
        self.contributed[seat] += chips
        self.weights[seat] += weight
        self.bank += chips

    def _ask(self, first: int) -> None:
        """Ask the next seat that is behind; those without chips are short (AZI-18, AZI-24)."""
        high, levels = self.high, self.levels
        able, asked = self.live & ~self.short, NOBODY
        for seat in self.clockwise[first]:
            if able >> seat & 1 and (not high or levels[seat] < high):
                if not self.stacks[seat]:
                    self.short |= 1 << seat
                elif asked < 0:
                    asked = seat
        if asked >= 0:
            self.seat = asked
            return
        self.stage = _TRICKS
        self.blind &= ~self.live
        self._lead(self.origin if self.high_seat < 0 else self.high_seat)

    def _lead(self, first: int) -> None:
        self.seat = self._first_live(first)
        self.waiting = self.live

    def _play(self, card: int) -> None:
        seat = self.seat
        self.hands[seat] ^= card
        if not self.led:
            self.led = SUIT[card]
            self.best, self.best_seat = card, seat
        elif self.taking[self.best] & card:
            self.best, self.best_seat = card, seat
        waiting = self.waiting = self.waiting & ~(1 << seat)
        if not waiting:
            self._take()
            return
        later = waiting >> seat
        if later:
            self.seat = seat + _lowest(later)
        else:
            self.seat = _lowest(waiting)

    def _take(self) -> None:
        """The trick is complete (AZI-30, AZI-35, AZI-36)."""
        seat = self.best_seat
        self.led = self.best = 0
        self.best_seat = NOBODY
        self.tricks += 1
        self.taken[seat] += 1
        if self.taken[seat] == TRICKS_TO_WIN and self.live >> seat & 1:
            self._pay(seat)
        elif self.tricks < TRICKS_IN_A_DEAL:
            self._lead(seat)
        else:
            self.azis += 1
            self.high, self.high_seat, self.seat = 0, NOBODY, NOBODY
            if self.last_winner < 0:
                self.stage = Stage.OPENER
            else:
                self._ask_back()

    def _ask_back(self) -> None:
        """After an azi ask who may buy back, or wait for the deal (AZI-39)."""
        options = self.options
        if options.azi_entry == "half_bank":
            price = buy_back_price(self.bank)
            needed = price + (options.entry_fee if options.azi_entry_fee else 0)
            able = [s for s in self.clockwise[self.origin] if self.folded >> s & 1]
            self.asked = tuple(s for s in able if self.stacks[s] >= needed)
            self.price = price if self.asked else 0
        self._ask_next_back()

    def _answer(self, move: int) -> None:
        """Buy back or decline."""
        seat, price = self.seat, self.price
        self.asked = self.asked[1:]
        if move == BUY_BACK:
            self.stacks[seat] -= price
            self.bought[seat] += price
            self.bank += price
            self.live |= 1 << seat
            self.folded ^= 1 << seat
        self._ask_next_back()

    def _ask_next_back(self) -> None:
        self.stage = Stage.BUYING_BACK if self.asked else Stage.DEAL
        self.seat = self.asked[0] if self.asked else NOBODY

    def _pay(self, winner: int) -> None:
        if self.short >> winner & 1:
            self._share(winner)
        else:
            self.stacks[winner] += self.bank
        self.bank = 0
        self.winner = winner
        self.stage, self.seat = Stage.OVER, NOBODY

    def _share(self, winner: int) -> None:
        """A short winner's part of the bank, and what goes back (AZI-32, AZI-33)."""
        chips = zip(self.contributed, self.weights, self.bought, strict=True)
        players = tuple(
            Player(0, Standing.LIVE, True, contributed=paid, weight=weight, bought_back=bought)
            for paid, weight, bought in chips
        )
        for payout in payouts(players, self.bank, winner):
            self.stacks[payout.seat] += payout.chips

    def _first_live(self, seat: int) -> int:
        """The seat itself if live, else the next live one clockwise."""
        return (
            seat
            if self.live >> seat & 1
            else next(s for s in self.clockwise[seat] if self.live >> s & 1)
        )


def _lowest(seats: int) -> int:
    return (seats & -seats).bit_length() - 1
