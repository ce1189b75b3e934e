"""Every key of `kozyr play` in one table: what it does, where, and what the help says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Do(StrEnum):
    """What a key leads to."""

    HELP = "help"
    RULES = "rules"
    THEME = "theme"
    QUIT = "quit"
    UP = "up"
    DOWN = "down"
    LEFT = "left"
    RIGHT = "right"
    FIRST = "first"
    LAST = "last"
    ENTER = "enter"
    BACK = "back"
    NEXT = "next"
    # the lobby
    NEW = "new"
    QUICK = "quick"
    WATCH = "watch"
    JOIN = "join"
    FREE = "free"
    # a table between games
    READY = "ready"
    BOT = "bot"
    KICK = "kick"
    NO_BOT = "no bot"
    START = "start"
    TOP_UP = "top up"
    # every game
    HINT = "hint"
    ORDER = "order"
    PLAYED = "played"
    SAY = "say"
    EMOTE = "emote"
    # azi
    LEVEL = "level"
    FOLD = "fold"
    ALL_IN = "all in"
    LOOK = "look"
    DROP_LAST = "drop last"
    BUY_BACK = "buy back"
    DECLINE = "decline"
    # durak
    TAKE = "take"
    PASS = "pass"  # noqa: S105
    # rami
    STOCK = "stock"
    MARK = "mark"
    MELD = "meld"
    LAY = "lay"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Key:
    """A key by the names terminals give it, what it does, its short label, and what it is for."""

    names: tuple[str, ...]
    do: Do
    label: str
    means: str

    @property
    def shown(self) -> str:
        """The key as it is written on the screen."""
        return shown(self.names[0])


SHOWN = {
    "question_mark": "?",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "space": "Space",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "backspace": "Bksp",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "ctrl+c": "Ctrl-C",
    "f1": "F1",
    "f2": "F2",
}


def shown(name: str) -> str:
    """A key's name as it is written on the screen."""
    return SHOWN.get(name, name)


EVERYWHERE = (
    Key(("question_mark", "h", "f1"), Do.HELP, "help", "this page"),
    Key(("g",), Do.RULES, "rules", "the rules of the game, in your language"),
    Key(("f2",), Do.THEME, "colours", "dark colours, light colours, none"),
    Key(("q", "ctrl+c"), Do.QUIT, "leave", "leave; in a game you are asked how"),
)
MOVING = (
    Key(("up",), Do.UP, "up", "up"),
    Key(("down",), Do.DOWN, "down", "down"),
    Key(("left",), Do.LEFT, "left", "to the left"),
    Key(("right",), Do.RIGHT, "right", "to the right"),
    Key(("home",), Do.FIRST, "first", "to the first one"),
    Key(("end",), Do.LAST, "last", "to the last one"),
    Key(("enter",), Do.ENTER, "choose", "take what is chosen"),
    Key(("escape", "backspace"), Do.BACK, "back", "back"),
)
LOBBY = (
    Key(("enter",), Do.ENTER, "sit down", "sit down at the table that is chosen"),
    Key(("w",), Do.WATCH, "watch", "watch the table that is chosen, without a seat"),
    Key(("n",), Do.NEW, "new table", "open a table of your own"),
    Key(("p",), Do.QUICK, "quick play", "a seat at once, with bots if nobody waits"),
    Key(("c",), Do.JOIN, "by code", "sit down at a private table by its id and code"),
    Key(("tab",), Do.NEXT, "game", "show only the tables of one game"),
    Key(("f",), Do.FREE, "free seats", "show only tables with a free seat"),
)
BETWEEN = (
    Key(("r", "enter"), Do.READY, "ready", "say that you are ready, or not"),
    Key(("b",), Do.BOT, "bot", "put a bot on a free seat (host)"),
    Key(("x",), Do.NO_BOT, "no bot", "take a bot away (host)"),
    Key(("k",), Do.KICK, "send away", "send a person away (host)"),
    Key(("s",), Do.START, "start", "start with the seats that are taken (host)"),
    Key(("u",), Do.TOP_UP, "top up", "add chips to your stack (Azi)"),
)
PLAYING = (
    Key(("i",), Do.HINT, "hint", "what a strong bot would do with your cards"),
    Key(("o",), Do.ORDER, "order", "your cards by suit or by rank"),
    Key(("v",), Do.PLAYED, "played", "view what has been played or discarded"),
)
TALKING = (
    Key(("c",), Do.SAY, "chat", "say something; /mute NAME hears a person no more"),
    Key(("e",), Do.EMOTE, "emote", "a word or two at a key"),
)
AZI = (
    Key(("l",), Do.LEVEL, "level", "level the highest bid"),
    Key(("f",), Do.FOLD, "fold", "give up your cards"),
    Key(("a",), Do.ALL_IN, "all in", "all you have, being too short to level"),
    Key(("k",), Do.LOOK, "look", "look at your cards (blind bets)"),
    Key(("x",), Do.DROP_LAST, "drop last", "drop the last card unseen (blind, four cards)"),
    Key(("b",), Do.BUY_BACK, "buy back", "come back in after an azi"),
    Key(("n",), Do.DECLINE, "stay out", "do not come back in"),
)
DURAK = (
    Key(("t",), Do.TAKE, "take", "take the cards on the table"),
    Key(("p",), Do.PASS, "pass", "add nothing"),
)
RAMI = (
    Key(("s",), Do.STOCK, "stock", "draw from the stock"),
    Key(("t",), Do.TAKE, "take", "take the top of the discard pile"),
    Key(("space",), Do.MARK, "mark", "mark the card at the cursor, or a digit its card"),
    Key(("tab",), Do.NEXT, "suggest", "mark the next combination you could lay"),
    Key(("m",), Do.MELD, "meld", "lay the marked cards as a combination"),
    Key(("l",), Do.LAY, "lay off", "add the marked cards to a combination on the table"),
    Key(("d",), Do.DISCARD, "discard", "discard the marked card, or the one at the cursor"),
)
OF_GAMES: Mapping[str, tuple[Key, ...]] = {"azi": AZI, "durak": DURAK, "rami": RAMI}
ENDED = (
    Key(("r", "enter"), Do.READY, "play again", "another game at this table"),
    Key(("q",), Do.QUIT, "leave", "stand up and go back to the lobby"),
)
FORM = (
    Key(("up", "shift+tab"), Do.UP, "up", "the line above"),
    Key(("down", "tab"), Do.DOWN, "down", "the line below"),
    Key(("left",), Do.LEFT, "less", "the value before"),
    Key(("right", "space"), Do.RIGHT, "more", "the next value; numbers can be typed"),
    Key(("enter",), Do.ENTER, "open the table", "open the table"),
    Key(("escape",), Do.BACK, "back", "back to the lobby"),
)
TYPING = (
    Key(("enter",), Do.ENTER, "done", "take what is typed"),
    Key(("escape",), Do.BACK, "give up", "type nothing"),
)
READING = (
    Key(("down", "space", "pagedown"), Do.DOWN, "on", "further down"),
    Key(("up", "pageup"), Do.UP, "back up", "further up"),
    Key(("escape", "q", "enter"), Do.BACK, "close", "back to where you were"),
)


def found(pressed: str, *tables: tuple[Key, ...]) -> Do | None:
    """What a pressed key leads to, looked up in the tables in order."""
    for table in tables:
        for key in table:
            if pressed in key.names:
                return key.do
    return None


def key_for(do: Do, *tables: tuple[Key, ...]) -> Key:
    """The key that leads there; raises KeyError."""
    for table in tables:
        for key in table:
            if key.do is do:
                return key
    raise KeyError(do)
