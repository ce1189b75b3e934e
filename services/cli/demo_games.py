"""The games the demo plays: one seat by a client, the others by bots."""

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2

from engines import azi, durak
from services.ai.bots import choose
from services.ai.bots.choice import Level
from services.cli import pictures
from services.cli.demo_checks import Checks, Played
from services.cli.pictures.look import Look
from services.cli.stack import Stack
from services.client.driving import Choose, drive
from services.client.player import Player
from services.client.tables import Tables, game_options
from services.client.views import game_of, move_message, table_view
from services.kernel.errors import Refused

AZI_SEATS = 4
AZI_GAMES_MAX = 60
STACK = 100
TURN_MS = 60_000
LOW_STACK = 20
"""A table where a stack has fallen below this is left for a new one."""
BOTS = {
    "azi": variant_pb2.BOT_LEVEL_EASY,
    "durak": variant_pb2.BOT_LEVEL_NORMAL,
    "rami": variant_pb2.BOT_LEVEL_NORMAL,
}
"""How well the bots play: in Azi so that they stay in more often than is good for them."""
RAMI_SEATS = 4
RAMI_TARGET = 100
KILL_AT = 30
"""The version of the Durak game after which its service is killed."""


def play_with(seed: int) -> Choose:
    """A client's choice: what a fair bot would do, which knows nothing but the view."""
    rng = random.Random(seed)  # noqa: S311 - how a client plays; the cards come from elsewhere

    def chosen(view: view_pb2.GameView) -> variant_pb2.Move:
        game, read = game_of(view), table_view(view)
        return move_message(game, choose(game, read, (), Level.NORMAL, rng).move)

    return chosen


def stay_in(seed: int) -> Choose:
    """A client's choice in Azi: into the tricks for as little as it takes, then any card."""
    rng = random.Random(seed)  # noqa: S311 - as above

    def chosen(view: view_pb2.GameView) -> variant_pb2.Move:
        read = table_view(view)
        legal = read.legal if read is not None else ()
        for kind in (azi.Level, azi.AllIn, azi.BuyBack, azi.Bid):
            wanted = [move for move in legal if isinstance(move, kind)]
            if wanted:
                return move_message("azi", wanted[0])
        return move_message("azi", rng.choice(legal))

    return chosen


async def open_table(
    player: Player, game: str, seats: int, options: Mapping[str, str], stack: int = 0
) -> str:
    """A table of this player and bots; its id."""
    tables = Tables(player)
    rules = lobby_pb2.TableRules(
        options=game_options(game, options),
        seats=seats,
        turn_ms=TURN_MS,
        spectators=True,
        absent_policy=variant_pb2.ABSENT_POLICY_EXPIRE,
    )
    table = await tables.create(rules, stack)
    for _ in range(seats - 1):
        await tables.add_bot(table.table_id, BOTS[game], stack)
    return table.table_id


async def play_azi(player: Player, checks: Checks, games: list[Played], seed: int) -> None:
    """Games at one table, or at the next when stacks run low, until an azi has occurred."""
    tables = Tables(player)
    played: list[Played] = []
    table, count, last = "", 0, ""
    while len(played) < AZI_GAMES_MAX and not (played and played[-1].view.azi.azis):
        if not table:
            table, count = await open_table(player, "azi", AZI_SEATS, {}, STACK), 0
            checks.tell(f"Azi of {AZI_SEATS} at table {table}, until an azi")
        await tables.ready(table)
        last = await tables.started(table, last)
        game = Played(player, last, await drive(player, last, stay_in(seed + len(played))))
        played.append(game)
        games.append(game)
        count += 1
        checks.tell(f"azi game {len(played)}: {_outcome(game.view)}, azis {game.view.azi.azis}")
        seats = (await tables.settled(table, count)).seats
        if min(seat.stack for seat in seats) < LOW_STACK:
            table = ""
    azis = played[-1].view.azi.azis
    said = f"{len(played)} games; {azis} azis in the last, whose bank was then paid"
    checks.note("Azi is played until a bank went through an azi", azis > 0, said)
    _check_carried(checks, played)


def _outcome(view: view_pb2.GameView) -> str:
    stacks = "/".join(str(line.stack_after) for line in view.result.seats)
    return f"seat {view.result.winner} wins, stacks {stacks}"


def _check_carried(checks: Checks, played: Sequence[Played]) -> None:
    """Stacks and the last winner go from a game to the next one at the same table."""
    wrong, pairs = [], 0
    for before, after in pairwise(game.view for game in played):
        if before.table_id != after.table_id:
            continue
        pairs += 1
        had = {line.player_id: line.stack_after for line in before.result.seats}
        has = {line.player_id: line.stack_before for line in after.result.seats}
        if had != has:
            wrong.append(f"{after.game_id}: stacks {has}, not {had}")
        winner = before.result.seats[before.result.winner].player_id
        if after.seats[after.azi.last_winner].player_id != winner:
            wrong.append(f"{after.game_id}: another last winner")
    if not pairs and len(played) == 1:
        return
    said = "; ".join(wrong) or f"{pairs} times"
    checks.note("stacks and last winner go on to the next game", not wrong, said)


async def play_durak(
    player: Player, checks: Checks, games: list[Played], stack: Stack, seed: int
) -> None:
    """A deal of four, with an illegal move on the way and the game service killed in the middle."""
    tables = Tables(player)
    table = await open_table(player, "durak", 4, {})
    checks.tell(f"Durak of four at table {table}")
    await tables.ready(table)
    game_id = await tables.started(table)
    trouble = _Trouble(player, checks, stack)
    game = Played(player, game_id, await drive(player, game_id, play_with(seed), trouble.look))
    games.append(game)
    result = game.view.result
    ended = game.view.stage == view_pb2.STAGE_FINISHED
    loser = "nobody" if result.null else f"seat {result.durak}"
    checks.note("Durak of four is played to its end", ended, f"{loser} is the durak")
    if trouble.killed_at:
        said = f"killed at version {trouble.killed_at}, finished at {game.view.version}"
        checks.note("the killed game goes on and is finished", ended, said)
    else:
        checks.note("the killed game goes on and is finished", False, "it ended before the kill")
    series = {line.player_id: line.losses for line in (await tables.settled(table, 1)).series}
    tally = result.null or series.get(game.view.seats[result.durak].player_id) == 1
    checks.note("the table keeps the tally of its Durak series", tally, f"{len(series)} players")


class _Trouble:
    """What goes wrong on purpose in a game of Durak, each thing once."""

    def __init__(self, player: Player, checks: Checks, stack: Stack) -> None:
        self._player = player
        self._checks = checks
        self._stack = stack
        self._refused = False
        self.killed_at = 0

    async def look(self, view: view_pb2.GameView) -> None:
        """Make trouble when the time has come."""
        if not self._refused and view.seat in view.to_act:
            await self._illegal(view)
        elif (
            not self.killed_at and view.version >= KILL_AT and view.stage == view_pb2.STAGE_PLAYING
        ):
            await self._kill(view)

    async def _illegal(self, view: view_pb2.GameView) -> None:
        """Try a card of the own hand that the rules do not allow now."""
        read = table_view(view)
        if not isinstance(read, durak.View):
            return
        allowed = {made.card for made in read.legal if hasattr(made, "card")}
        wrong = [card for card in read.hand if card not in allowed]
        if not wrong or not read.table:
            return
        defending = read.phase is durak.Phase.DEFENDING
        move = durak.Beat(wrong[0]) if defending else durak.Attack(wrong[0])
        self._refused = True
        tried = pictures.move("durak", move, Look(()))
        try:
            await self._player.submit(view, move_message("durak", move))
            held, said = False, "was accepted"
        except Refused as refused:
            after = await self._player.view(view.game_id)
            held = table_view(after) == read and refused.facts.get("rule", "") != ""
            said = f"{refused.reason} ({refused.facts.get('rule')})"
        self._checks.note("an illegal move is refused, nothing changes", held, f"{tried}: {said}")

    async def _kill(self, view: view_pb2.GameView) -> None:
        """End the game service as a crash would, and start it again."""
        self.killed_at = view.version
        self._checks.tell(f"SIGKILL to the game service at version {view.version}")
        await self._stack.kill("game")
        await self._stack.start("game")
        after = await self._player.view(view.game_id)
        held = after.version >= view.version
        said = f"version {view.version} before, {after.version} after"
        self._checks.note("what the killed service had shown is in its log", held, said)


async def play_rami(player: Player, checks: Checks, games: list[Played], seed: int) -> None:
    """A match of four to 100."""
    tables = Tables(player)
    table = await open_table(player, "rami", RAMI_SEATS, {"target": str(RAMI_TARGET)})
    checks.tell(f"Rami of {RAMI_SEATS} to {RAMI_TARGET} at table {table}")
    await tables.ready(table)
    game_id = await tables.started(table)
    rounds = 0

    async def look(view: view_pb2.GameView) -> None:
        nonlocal rounds
        if view.rami.round > rounds:
            rounds = view.rami.round
            checks.tell(f"rami round {rounds}: {list(view.rami.scores)}")

    game = Played(player, game_id, await drive(player, game_id, play_with(seed), look))
    games.append(game)
    points = [line.points for line in game.view.result.seats]
    held = game.view.stage == view_pb2.STAGE_FINISHED and max(points) >= RAMI_TARGET
    checks.note("Rami is played to 100", held, f"{rounds} rounds, points {points}")
    await tables.settled(table, 1)
