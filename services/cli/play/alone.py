"""A session without any server: one person, and bots in this process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any
from uuid import uuid4

from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2, talk_pb2

from engines.api import Act, Leave, RuleViolation, Start
from services.ai.bots import choose
from services.cli.deals import SeedChance
from services.cli.pictures.look import Look
from services.cli.play.dealt import PERSON, Dealt, seat
from services.cli.play.session import Emote, Hint, Level, Moment, Opening, Running
from services.cli.variants import OFFLINE_STACK, SEATS
from services.client.tables import game_options
from services.client.variants import GAMES, Move, engine
from services.kernel.errors import precondition
from services.kernel.seats import BotLevel
from services.lobby.guides import spoken
from services.lobby.variants import read_game_options, variants_told

NAMES = ("Paata", "Nino", "Davit", "Eka", "Zaza")
"""The bots, seat by seat."""
PAUSE_SECONDS = 0.7
"""How long a bot seems to think, so that what it does can be seen."""
PLAYER = "player"


class Alone:
    """One person and bots. `seed`, 32 octets, fixes the cards, `rng` how bots mix their play."""

    alone = True
    lost = False

    def __init__(
        self,
        name: str,
        *,
        ascii_only: bool = False,
        pause: float = PAUSE_SECONDS,
        seed: bytes | None = None,
        rng: Random | None = None,
    ) -> None:
        self.name = name
        self.player_id = PLAYER
        self.ascii_only = ascii_only
        self._pause = pause
        self._seed = seed
        self._rng = rng or Random()  # noqa: S311 - bots mix their play; cards come from elsewhere
        self._table = lobby_pb2.Table()
        self._said: tuple[talk_pb2.TalkLine, ...] = ()
        self._changed = asyncio.Event()
        self._dealt: Dealt | None = None
        self._news: asyncio.Queue[Moment] = asyncio.Queue()
        self._moved = asyncio.Event()
        self._bots: asyncio.Task[None] | None = None

    async def variants(self, language: str) -> lobby_pb2.ListVariantsResponse:
        """The games, as this program plays them."""
        return variants_told(spoken([language]))

    async def tables(self) -> AsyncIterator[Sequence[lobby_pb2.Table]]:
        """A table of each game, at which bots already sit."""
        yield [_ready_made(game) for game in GAMES]
        await asyncio.Event().wait()

    async def running(self) -> Running | None:
        """None: a game here ends with this program."""
        return None

    async def open(self, opening: Opening) -> lobby_pb2.Table:
        """A table of which bots have all other seats."""
        read_game_options(opening.rules.options)
        self._table = lobby_pb2.Table(
            table_id="alone",
            host_id=PLAYER,
            rules=opening.rules,
            state=lobby_pb2.TABLE_STATE_WAITING,
            seats=_seated(self.name, opening.rules.seats, opening.level, _stack(opening)),
        )
        self._tell()
        return self._table

    async def quick(self, game: str, wait_seconds: int = 0) -> lobby_pb2.Table:
        """A table of the game with as many seats as is usual."""
        return await self.open(Opening(_ready_made(game).rules))

    async def sit(self, table_id: str, code: str = "") -> lobby_pb2.Table:
        """One of the tables that are listed."""
        if table_id not in GAMES:
            raise precondition("TABLE_NOT_FOUND", "there is no such table without a server")
        return await self.quick(table_id)

    async def table(self, table_id: str) -> AsyncIterator[lobby_pb2.Table]:
        """The table, again whenever it changes."""
        while True:
            changed = self._changed
            table = lobby_pb2.Table()
            table.CopyFrom(self._table)
            yield table
            await changed.wait()

    async def ready(self, table_id: str, *, ready: bool) -> None:
        """Begin a game, as bots are always ready."""
        if ready:
            await self.start(table_id)

    async def add_bot(self, table_id: str, level: Level) -> None:
        """Refused: all other seats are bots' already."""
        raise precondition("TABLE_FULL", "all other seats are taken by bots")

    async def remove_bot(self, table_id: str, seat: int) -> None:
        """Refused: bots keep their seats here."""
        raise precondition("NOT_SEATED", "without a server all other seats are bots'")

    async def again(self, table_id: str) -> None:
        """Begin the next game."""
        await self.start(table_id)

    async def kick(self, table_id: str, player_id: str) -> None:
        """Refused: nobody else is here."""
        raise precondition("NOT_SEATED", "without a server nobody else is at the table")

    async def top_up(self, table_id: str, chips: int) -> None:
        """As many chips as one likes: nobody owes them."""
        self._table.seats[PERSON].stack += chips
        self._tell()

    async def start(self, table_id: str) -> None:
        """Begin a game; who has not enough chips for it is refused."""
        if self._table.state == lobby_pb2.TABLE_STATE_PLAYING:
            raise precondition("GAME_RUNNING", "a game is being played")
        game, options = _game(self._table), read_game_options(self._table.rules.options)
        if game == "azi":
            self._check_stacks(options)
        seats = tuple(seat(s.player_id, s.bot_level, s.stack) for s in self._table.seats)
        chance = SeedChance(self._seed and bytes(a ^ self._table.games_played for a in self._seed))
        state = _opening(game, options, self._table)
        self._dealt = Dealt(game, uuid4(), self._table.table_id, chance, seats, state)
        self._news = asyncio.Queue()
        self._table.state = lobby_pb2.TABLE_STATE_PLAYING
        self._table.game_id = str(self._dealt.game_id)
        self._apply(self._dealt, Start())
        self._bots = asyncio.create_task(self._play_bots(self._dealt))
        self._tell()

    def _check_stacks(self, options: Any) -> None:
        """Give bots without chips for the fee new ones; the person is told to."""
        for each in self._table.seats:
            if each.stack >= options.entry_fee:
                continue
            if not each.bot_level:
                raise precondition("STACK_BELOW_ENTRY_FEE", "you have too few chips: top up")
            each.stack = _stack(Opening(self._table.rules))

    async def stand_up(self, table_id: str) -> None:
        """Let the table go."""
        await self.close()

    async def talk(self, table_id: str) -> AsyncIterator[talk_pb2.TalkLine]:
        """Nothing is ever said."""
        for line in self._said:
            yield line
        await asyncio.Event().wait()

    async def say(self, table_id: str, text: str) -> None:
        """Refused: nobody would hear it."""
        raise precondition("CHAT_OFF", "nobody else is at the table")

    async def show(self, table_id: str, emote: Emote) -> None:
        """Refused: nobody would see it."""
        raise precondition("CHAT_OFF", "nobody else is at the table")

    async def mute(self, player_id: str, *, muted: bool) -> None:
        """Refused: nobody talks."""
        raise precondition("CHAT_OFF", "nobody else is at the table")

    async def play(self, game_id: str) -> AsyncIterator[Moment]:
        """Everything that happens in the game."""
        news, over = self._news, False
        while not over:
            moment = await news.get()
            over = moment.view.stage == view_pb2.STAGE_FINISHED
            yield moment

    async def look(self, view: view_pb2.GameView) -> Look:
        """The names at the table."""
        return Look((self.name, *NAMES[: len(view.seats) - 1]), ascii=self.ascii_only)

    async def submit(self, view: view_pb2.GameView, move: Move) -> None:
        """Make the person's move; the bots' follow."""
        self._apply(self._running(), Act(PERSON, move))

    async def leave(self, view: view_pb2.GameView) -> None:
        """The game ends here, as nobody is left to watch it."""
        with suppress(RuleViolation):
            self._apply(self._running(), Leave(PERSON))
        await self.close()

    async def back(self, view: view_pb2.GameView) -> None:
        """Nothing: a person who plays alone is waited for."""

    async def hint(self, view: view_pb2.GameView) -> Hint:
        """What a strong bot would do with the person's cards."""
        choice = await asyncio.to_thread(self._choice, self._running(), PERSON, BotLevel.HARD)
        return Hint(choice.move, choice.reason)

    async def close(self) -> None:
        """End the bots' play."""
        if self._bots is not None:
            self._bots.cancel()
            await asyncio.gather(self._bots, return_exceptions=True)

    def _running(self) -> Dealt:
        if self._dealt is None:
            raise precondition("GAME_NOT_FOUND", "no game is being played")
        return self._dealt

    async def _play_bots(self, dealt: Dealt) -> None:
        """Move for every bot in its turn until the game is over."""
        while not dealt.over:
            waiting = [number for number in dealt.engine.to_act(dealt.state) if number != PERSON]
            if not waiting:
                self._moved.clear()
                await self._moved.wait()
                continue
            await asyncio.sleep(self._pause)
            level = BotLevel(self._table.seats[waiting[0]].bot_level)
            choice = await asyncio.to_thread(self._choice, dealt, waiting[0], level)
            if waiting[0] in dealt.engine.to_act(dealt.state):
                self._apply(dealt, Act(waiting[0], choice.move))

    def _choice(self, dealt: Dealt, seat: int, level: BotLevel) -> Any:
        view = dealt.engine.view(dealt.state, seat)
        history = dealt.engine.history(dealt.events, seat)
        return choose(dealt.game, view, history, level, self._rng)

    def _apply(self, dealt: Dealt, command: Any) -> None:
        moment = dealt.apply(command)
        self._news.put_nowait(moment)
        self._moved.set()
        if dealt.over:
            self._end(moment.view.result)

    def _end(self, result: view_pb2.Result) -> None:
        """What the table keeps: stacks, the last winner, the tally of a series."""
        self._table.state = lobby_pb2.TABLE_STATE_WAITING
        self._table.games_played += 1
        for each, line in zip(self._table.seats, result.seats, strict=True):
            each.stack = line.stack_after
        if result.HasField("winner"):
            self._table.last_winner_id = self._table.seats[result.winner].player_id
        if result.HasField("durak") and not self._table.rules.no_series:
            _tally(self._table, result)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _game(table: lobby_pb2.Table) -> str:
    which: Any = table.rules.options.WhichOneof("options")
    game: str = which
    return game


def _ready_made(game: str) -> lobby_pb2.Table:
    """A table of bots that waits for one more."""
    rules = lobby_pb2.TableRules(options=game_options(game, {}), seats=SEATS[game])
    stack = OFFLINE_STACK if game == "azi" else 0
    return lobby_pb2.Table(
        table_id=game,
        rules=rules,
        seats=_seated("", SEATS[game], variant_pb2.BOT_LEVEL_NORMAL, stack),
        state=lobby_pb2.TABLE_STATE_WAITING,
    )


def _seated(name: str, seats: int, level: Level, stack: int) -> list[lobby_pb2.TableSeat]:
    """The person first, where there is a name, then bots."""
    own = lobby_pb2.TableSeat()
    if name:
        own = lobby_pb2.TableSeat(player_id=PLAYER, display_name=name, stack=stack)
    bots = [
        lobby_pb2.TableSeat(
            seat=number,
            player_id=f"bot {number}",
            display_name=NAMES[number - 1],
            bot_level=level,
            stack=stack,
            ready=True,
        )
        for number in range(1, seats)
    ]
    return [own, *bots]


def _stack(opening: Opening) -> int:
    """Azi's stack: what was asked for, else a hundred entry fees."""
    if opening.rules.options.WhichOneof("options") != "azi":
        return 0
    return opening.buy_in or OFFLINE_STACK * max(1, opening.rules.options.azi.entry_fee)


def _opening(game: str, options: Any, table: lobby_pb2.Table) -> Any:
    """The state before the first deal."""
    if game != "azi":
        return engine(game).initial(options, len(table.seats))
    ids = [each.player_id for each in table.seats]
    last = ids.index(table.last_winner_id) if table.last_winner_id else None
    stacks = tuple(each.stack for each in table.seats)
    return engine(game).initial(options, len(stacks), stacks=stacks, last_winner=last)


def _tally(table: lobby_pb2.Table, result: view_pb2.Result) -> None:
    """Count the first out and the durak of a game."""
    lines = {line.player_id: line for line in table.series}
    for each in table.seats:
        if each.player_id not in lines:
            lines[each.player_id] = table.series.add(player_id=each.player_id)
    lines[table.seats[result.winner].player_id].wins += 1
    lines[table.seats[result.durak].player_id].losses += 1
