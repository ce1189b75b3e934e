"""Bots as players: a row of their own for each bot that sits down, with a friendly name."""

from collections.abc import Container
from uuid import UUID, uuid5

from services.lobby.players import Player

NAMES = (
    *("Ada", "Aleko", "Amelia", "Bela", "Bento", "Dato", "Davit", "Duarte", "Eka", "Elene"),
    *("Filipa", "Gia", "Goga", "Inês", "Irakli", "Joana", "Keti", "Lado", "Lali", "Leonor"),
    *("Luka", "Mafalda", "Manana", "Marta", "Mzia", "Nana", "Natia", "Nino", "Nuno", "Otar"),
    *("Paata", "Rita", "Rui", "Salome", "Sandro", "Tamar", "Tiago", "Tomé", "Vasco", "Zaza"),
)


def bot_id(table: UUID, request: str, number: int = 0) -> UUID:
    """The id of a bot that a request adds: the same request adds the same bot."""
    return uuid5(table, f"bot {request} {number}")


def new_bot(bot: UUID, taken: Container[str]) -> Player:
    """A bot player with a name that nobody at the table has, as long as there are some."""
    start = bot.int % len(NAMES)
    turned = (*NAMES[start:], *NAMES[:start])
    names = [f"{name} (bot)" for name in turned]
    name = next((name for name in names if name not in taken), names[0])
    return Player(bot, name, bot=True)
