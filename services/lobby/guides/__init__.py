"""The games explained to people: a file of text for each game and language, `GAME.LANGUAGE.toml`.

The rules themselves are in `engines/<game>/RULES.md`; tests hold these texts to them.
"""

from services.lobby.guides.guide import (
    DEFAULT,
    LANGUAGES,
    SECTIONS,
    Guide,
    OptionText,
    Section,
    guide,
    spoken,
)

__all__ = [
    "DEFAULT",
    "LANGUAGES",
    "SECTIONS",
    "Guide",
    "OptionText",
    "Section",
    "guide",
    "spoken",
]
