"""Durak for searches: one mutable position of a deal, all cards known, a move an integer.

Cards are bits as `engines.durak.masks` numbers them; a hand or the table is the mask of its cards.
A move is the bit of the card that is laid, `PASS`, or `TAKE`, so a set of moves is a mask too.

A core knows what decides how the deal goes on. What only tells who knows what (cards seen taken,
ranks a seat lacks), who laid which card of the bout, turn numbers, and players who have left are
the decider's alone.
"""

from collections.abc import Sequence

from engines.bits import members
from engines.cards import Card, suit
from engines.durak.deal import dealt_hands, dealt_talon
from engines.durak.masks import BEATING, BIT, RANKS, TRUMPS, mask
from engines.durak.model import BOUTS_MAX, HAND_SIZE, PACK, Options

PASS = 1 << len(PACK)
TAKE = PASS << 1
NOBODY = -1
"""No seat: nobody is to act, nobody is the durak."""


class Core:
    """A deal at one moment.

    Attributes:
        options: of the table, and that each move asks for, `auto_pass`.
        seat: who is to act, `NOBODY` when the deal is over; `place`: which of the attackers this
            is, 0 while nobody is asked to add.
        attackers: the seats that may attack in this bout, the main attacker first (DURAK-13).
        defender: of this bout, `NOBODY` when the deal is over.
        hands: the seats' cards.
        talon: the talon as it was dealt, the shown card first; the first `talon_left` are left.
        trump: the trump suit; `beating`: the row of `BEATING` for it.
        table: all cards on the table; `ranks`: all cards of their ranks.
        open: the attack card to be beaten, 0 if there is none or the defender has taken.
        taking: whether the defender has taken.
        left: how many attack cards may still come in this bout (DURAK-12).
        discarded: the cards that are out of play.
        bout: the number of this bout, from 1.
        emptied: the seats whose hand became empty in this bout, in order (DURAK-20).
        out: the seats that have finished, in order; `following`: for each seat the next one
            clockwise that has not.
        durak: who is left with cards, `NOBODY` if nobody is, or while the deal goes on.
    """

    __slots__ = (
        "attackers",
        "auto_pass",
        "beating",
        "bout",
        "defender",
        "discarded",
        "durak",
        "emptied",
        "following",
        "hands",
        "left",
        "open",
        "options",
        "out",
        "place",
        "ranks",
        "seat",
        "seats",
        "table",
        "taking",
        "talon",
        "talon_left",
        "trump",
    )

    def __init__(self, options: Options, seats: int) -> None:
        self.options = options
        self.auto_pass = options.auto_pass
        self.seats = seats
        self.seat = NOBODY
        self.place = 0
        self.attackers: tuple[int, ...] = ()
        self.defender = NOBODY
        self.hands = [0] * seats
        self.talon: tuple[int, ...] = ()
        self.talon_left = 0
        self.trump = 0
        self.beating = BEATING[0]
        self.table = 0
        self.ranks = 0
        self.open = 0
        self.taking = False
        self.left = 0
        self.discarded = 0
        self.bout = 0
        self.emptied: list[int] = []
        self.out: tuple[int, ...] = ()
        self.following = following_seats(seats, ())
        self.durak = NOBODY

    def clone(self) -> "Core":
        """Another core that stands the same; neither moves with the other."""
        other = Core.__new__(Core)
        other.options = self.options
        other.auto_pass = self.auto_pass
        other.seats = self.seats
        other.seat = self.seat
        other.place = self.place
        other.attackers = self.attackers
        other.defender = self.defender
        other.hands = self.hands[:]
        other.talon = self.talon
        other.talon_left = self.talon_left
        other.trump = self.trump
        other.beating = self.beating
        other.table = self.table
        other.ranks = self.ranks
        other.open = self.open
        other.taking = self.taking
        other.left = self.left
        other.discarded = self.discarded
        other.bout = self.bout
        other.emptied = self.emptied[:]
        other.out = self.out
        other.following = self.following
        other.durak = self.durak
        return other

    def deal(self, deck: Sequence[Card], starter: int = 0) -> None:
        """Deal the 36 cards of the deck (DURAK-3 to DURAK-6); `starter` is who attacks first if
        nobody holds a trump."""
        deck = tuple(deck)
        shown = deck[min(HAND_SIZE * self.seats, len(deck) - 1)]
        self.hands = [mask(hand) for hand in dealt_hands(deck, self.seats)]
        self.talon = tuple([BIT[card] for card in reversed(dealt_talon(deck, self.seats))])
        self.talon_left = len(self.talon)
        self.trump = int(suit(shown))
        self.beating = BEATING[self.trump]
        trumps = [(hand & TRUMPS[self.trump], seat) for seat, hand in enumerate(self.hands)]
        held = [(cards & -cards, seat) for cards, seat in trumps if cards]
        self.bout = 1
        self.open_bout(min(held)[1] if held else starter)

    def legal(self) -> list[int]:
        """Every move of the seat to act: cards from the lowest rank up, then `PASS` or `TAKE`."""
        return members(self.moves())

    def moves(self) -> int:
        """Every move of the seat to act, as one mask."""
        hand = self.hands[self.seat]
        if self.open:
            return hand & self.beating[self.open] | TAKE
        return hand & self.ranks | PASS if self.table else hand

    def apply(self, move: int) -> None:
        """Make a legal move of the seat to act, and all that follows from it (DURAK-29)."""
        if move < PASS:
            self._lay(move)
        elif move == PASS:
            self._ask(self.place + 1)
        else:
            self.open = 0
            self.taking = True
            if self.options.throw_in_after_take:
                self._ask(0)
            else:
                self._close()

    def _lay(self, card: int) -> None:
        seat = self.seat
        hand = self.hands[seat] ^ card
        self.hands[seat] = hand
        if not hand:
            self.emptied.append(seat)
        self.table |= card
        self.ranks |= RANKS[card]
        if self.open:
            self.open = 0
            self._ask(0)
            return
        self.left -= 1
        if self.taking:
            self._ask(0)
        else:
            self.open = card
            self.seat = self.defender
            self.place = 0

    def _ask(self, place: int) -> None:
        """Ask the next attacker, from this place on, who is not passed by itself (DURAK-14)."""
        if self.left:
            hands, attackers = self.hands, self.attackers
            addable = self.ranks if self.auto_pass else PASS - 1
            for index in range(place, len(attackers)):
                seat = attackers[index]
                if hands[seat] & addable:
                    self.seat = seat
                    self.place = index
                    return
        self._close()

    def _close(self) -> None:
        """The bout is over: cards away, draws, seats out, and the next bout or the end."""
        defender, taken = self.defender, self.taking
        if taken:
            self.hands[defender] |= self.table
            self.taking = False
        else:
            self.discarded |= self.table
        self.table = self.ranks = self.open = 0
        if self.talon_left:
            self._draw()
        if self.emptied:
            self._leave()
        going = self.seats - len(self.out)
        self.bout += 1
        if going > 1 and self.bout <= BOUTS_MAX:
            following = self.following
            if taken or not self.hands[defender]:
                self.open_bout(following[defender])
            else:
                self.open_bout(defender)
            return
        self.seat = self.defender = NOBODY
        self.place = self.left = 0
        self.attackers = ()
        if going == 1:
            self.durak = self.following[defender]

    def _draw(self) -> None:
        """Fill up to six, the main attacker first, the defender last (DURAK-18)."""
        hands, talon, left = self.hands, self.talon, self.talon_left
        for seat in (*self.attackers, self.defender):
            hand = hands[seat]
            missing = HAND_SIZE - hand.bit_count()
            while missing > 0 and left:
                left -= 1
                hand |= talon[left]
                missing -= 1
            hands[seat] = hand
        self.talon_left = left

    def _leave(self) -> None:
        """Seats that are still without cards after the draw are out (DURAK-20)."""
        finished = [seat for seat in self.emptied if not self.hands[seat]]
        self.emptied.clear()
        if finished:
            self.out = (*self.out, *finished)
            self.following = following_seats(self.seats, self.out)

    def open_bout(self, attacker: int) -> None:
        """Begin a bout with this main attacker."""
        following = self.following
        defender = following[attacker]
        attackers = [attacker]
        seat = following[defender]
        while seat != attacker:
            attackers.append(seat)
            seat = following[seat]
        self.attackers = tuple(attackers)
        self.defender = defender
        self.seat = attacker
        self.place = 0
        self.left = min(HAND_SIZE, self.hands[defender].bit_count())


def following_seats(seats: int, out: Sequence[int]) -> tuple[int, ...]:
    """For each seat the next one clockwise that is in the game; itself if there is no other."""
    found = []
    for seat in range(seats):
        after = (seat + 1) % seats
        while after in out and after != seat:
            after = (after + 1) % seats
        found.append(after)
    return tuple(found)
