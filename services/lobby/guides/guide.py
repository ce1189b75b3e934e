"""A game's rules in one language, read once from its file."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DEFAULT = "en"
"""What is spoken when nothing else fits."""
LANGUAGES = (DEFAULT, "pt", "ka")
"""English, Portuguese, Georgian, as BCP 47 tags."""
SECTIONS = ("goal", "preparation", "course", "allowed", "score", "end", "special", "bots")
"""The keys of a guide's sections, in their order."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the rules: a key for programs, a title, and paragraphs parted by an empty line."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class OptionText:
    """An option for people; without a description the engine's own, which is English, is meant."""

    title: str
    description: str | None
    choices: Mapping[str, str]
    """What each value is called, by the value in text; empty where values speak for themselves."""


@dataclass(frozen=True, slots=True)
class Guide:
    """A game in one language: the rules version that it tells of, its name, rules and options."""

    rules: str
    title: str
    sections: tuple[Section, ...]
    options: Mapping[str, OptionText]


@cache
def guide(game: str, language: str) -> Guide:
    """The guide to `azi`, `durak` or `rami` in one of LANGUAGES."""
    text = files(__package__).joinpath(f"{game}.{language}.toml").read_text("utf-8")
    told = tomllib.loads(text)
    return Guide(
        told["rules"],
        told["title"],
        tuple(_section(key, told["sections"][key]) for key in SECTIONS),
        {
            name: OptionText(option["title"], option.get("description"), option.get("choices", {}))
            for name, option in told["options"].items()
        },
    )


def spoken(wanted: Iterable[str]) -> str:
    """The first of LANGUAGES among BCP 47 tags, the best first; DEFAULT if none is.

    As every guide is for a language as a whole, a tag's first subtag decides (RFC 4647, lookup):
    `pt-BR` and `PT` are `pt`. What is no tag fits nothing.
    """
    firsts = (tag.replace("_", "-").partition("-")[0].lower() for tag in wanted)
    return next((first for first in firsts if first in LANGUAGES), DEFAULT)


def _section(key: str, told: Mapping[str, str]) -> Section:
    paragraphs = (" ".join(lines.split()) for lines in told["text"].strip().split("\n\n"))
    return Section(key, told["title"], "\n\n".join(paragraphs))
