"""Chips: what a bid costs, how high a seat can go, and who gets what of the bank.

All amounts are whole chips; nothing here is rounded except where the rules say how.
"""

from engines.azi.model import BIDS_MAX, Payout, PayoutKind, Player, Standing, State


def cost(player: Player, level: int) -> int:
    """Chips to come up to `level` from where the player is (AZI-15; blind AZI-42)."""
    missing = level - player.level
    return (missing + 1) // 2 if player.blind else missing


def reach(player: Player) -> int:
    """The level the player comes to with everything he has (AZI-16; blind AZI-42)."""
    return player.level + (2 * player.stack if player.blind else player.stack)


def minimum_bid(state: State) -> int:
    """The lowest bid: the minimum bet, then one above the high (AZI-12, AZI-16)."""
    return state.high + 1 if state.high else state.options.min_bet


def is_short_now(state: State, player: Player) -> bool:
    """Whether the player, being asked, could neither level nor open (AZI-23)."""
    return reach(player) < (state.high or state.options.min_bet)


def may_bid(state: State, player: Player) -> bool:
    """Whether some bid by the player would be accepted when it is asked (AZI-16, AZI-17)."""
    return player.bids < BIDS_MAX and reach(player) >= minimum_bid(state)


def live(state: State) -> tuple[int, ...]:
    """The seats that can still win this deal, ascending."""
    return tuple(s for s, p in enumerate(state.players) if p.standing is Standing.LIVE)


def clockwise(state: State, first: int) -> tuple[int, ...]:
    """Every seat once, from `first` on."""
    seats = len(state.players)
    return tuple((first + i) % seats for i in range(seats))


def buy_back_price(bank: int) -> int:
    """Half the carried bank, rounded up (AZI-39)."""
    return (bank + 1) // 2


def payouts(players: tuple[Player, ...], bank: int, winner: int) -> tuple[Payout, ...]:
    """Who gets how much when `winner` wins; the amounts add up to `bank` (AZI-31 … AZI-34).

    The winner comes first, then the returned parts clockwise; seats that get nothing are left out.
    Every seat that was dealt in has paid a fee, so there are contributions to divide by.
    """
    wins = players[winner]
    own = wins.contributed + wins.bought_back
    if not wins.short:
        return (Payout(winner, bank, PayoutKind.WINNER),)
    greatest = max(p.weight for p in players)
    others = bank - own
    won = others * wins.weight // greatest
    paid = Payout(winner, own + won, PayoutKind.WINNER)
    return (paid, *_returned(players, others - won, winner))


def _returned(players: tuple[Player, ...], chips: int, winner: int) -> tuple[Payout, ...]:
    """Split `chips` over the other contributors by largest remainder (AZI-33)."""
    seats = [(winner + i) % len(players) for i in range(1, len(players))]
    total = sum(players[s].contributed for s in seats)
    if chips == 0:
        return ()
    shares = {s: divmod(chips * players[s].contributed, total) for s in seats}
    left = chips - sum(whole for whole, _ in shares.values())
    by_remainder = sorted(seats, key=lambda s: -shares[s][1])
    extra = set(by_remainder[:left])
    amounts = {s: shares[s][0] + (s in extra) for s in seats}
    return tuple(Payout(s, amounts[s], PayoutKind.RETURNED) for s in seats if amounts[s])
