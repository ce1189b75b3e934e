"""The bots there are: for every game and level a name and how it plays."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.ai.bots import Level


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot as it introduces itself."""

    game: str
    level: Level
    name: str
    description: str


SEARCH_MS = 150
"""How much CPU time a search takes at most when the caller does not say; most take half of it."""
BUDGET_MS: Mapping[Level, int] = {Level.EASY: 1, Level.NORMAL: 2, Level.HARD: SEARCH_MS}
"""How long a level thinks at most, in milliseconds of CPU."""

BOTS: tuple[Bot, ...] = (
    Bot("azi", Level.EASY, "Asel", "Counts its trumps and plays the lowest card it may."),
    Bot("azi", Level.NORMAL, "Bolat", "Weighs each price against its chance of winning the bank."),
    Bot(
        "azi",
        Level.HARD,
        "Dinara",
        "Reads who bid, bluffs now and then, and tries its cards out on hands others may hold.",
    ),
    Bot("durak", Level.EASY, "Anton", "Begins low and beats with the smallest card that does."),
    Bot("durak", Level.NORMAL, "Vera", "Saves its trumps and adds what is hard to beat."),
    Bot(
        "durak",
        Level.HARD,
        "Gleb",
        "Remembers all that was seen, thinks over the hands others may hold, solves the end.",
    ),
    Bot("rami", Level.EASY, "Samir", "Lays what it holds and throws away its dearest card."),
    Bot("rami", Level.NORMAL, "Leila", "Keeps cards with a future and starves the next seat."),
    Bot(
        "rami",
        Level.HARD,
        "Farid",
        "Holds back what helps others, and tries its moves out on hands they may hold.",
    ),
)
