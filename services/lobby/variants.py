"""The games there are, and their options between engines and the wire."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any

from google.protobuf.message import Message
from kozyr.game.v1 import variant_pb2
from kozyr.game.v1.variant_pb2 import GameOptions
from kozyr.lobby.v1 import lobby_pb2

from engines import azi, durak, rami
from engines.api import read_options
from services.kernel.errors import invalid
from services.lobby.guides import LANGUAGES, OptionText, Section, guide
from services.lobby.model import Variant

ENGINES: Mapping[Variant, Any] = {Variant.AZI: azi, Variant.DURAK: durak, Variant.RAMI: rami}
"""The engine of each game, as a module."""


def variant_of(options: GameOptions) -> Variant:
    """Which game these options are for; raises Refused where none is given."""
    kind = options.WhichOneof("options")
    if kind is None:
        raise invalid("rules.options", "is required")
    return Variant[kind.upper()]


def read_game_options(options: GameOptions) -> object:
    """The engine's Options from what a host chose; raises InvalidOption."""
    variant = variant_of(options)
    return read_options(ENGINES[variant].Options, _given(options, variant))


def stored_options(options: GameOptions) -> object:
    """The engine's Options as they were stored, complete; not judged again."""
    variant = variant_of(options)
    return ENGINES[variant].Options(**_given(options, variant))


def write_game_options(variant: Variant, options: object) -> GameOptions:
    """All options, defaults filled in."""
    name = variant.name.lower()
    message = GameOptions()
    chosen: Message = getattr(message, name)
    chosen.SetInParent()
    for option in fields(ENGINES[variant].Options):
        setattr(chosen, option.name, getattr(options, option.name))
    return message


def default_options(variant: Variant) -> object:
    """The engine's Options with nothing chosen."""
    return ENGINES[variant].Options()


@cache
def variants_told(language: str, only: Variant | None = None) -> lobby_pb2.ListVariantsResponse:
    """The games in one of LANGUAGES, or one game; the answer is shared, so not to be changed."""
    return lobby_pb2.ListVariantsResponse(
        variants=[variant_info(v, language) for v in Variant if only in (None, v)],
        language=language,
        languages=LANGUAGES,
    )


def variant_info(variant: Variant, language: str) -> lobby_pb2.VariantInfo:
    """What a client shows of a game before a table is opened, in one of LANGUAGES."""
    engine = ENGINES[variant]
    told = guide(engine.NAME, language)
    return lobby_pb2.VariantInfo(
        variant=variant_pb2.Variant.ValueType(variant),
        rules=engine.RULES,
        seats_min=engine.SEATS.start,
        seats_max=engine.SEATS.stop - 1,
        options=[
            _option_info(option, told.options[option.name]) for option in fields(engine.Options)
        ],
        title=told.title,
        sections=[_section(section) for section in told.sections],
    )


def _given(options: GameOptions, variant: Variant) -> dict[str, object]:
    chosen: Message = getattr(options, variant.name.lower())
    return {field.name: value for field, value in chosen.ListFields()}


def _option_info(option: Field[Any], told: OptionText) -> lobby_pb2.OptionInfo:
    if option.default is MISSING:
        raise ValueError(f"option {option.name} has no default")
    choices, default = option.metadata["choices"], option.default
    kind = "choice" if choices else "bool" if isinstance(default, bool) else "int"
    return lobby_pb2.OptionInfo(
        name=option.name,
        type=kind,
        default=str(default).lower() if kind == "bool" else str(default),
        low=option.metadata["low"],
        high=option.metadata["high"],
        choices=[str(choice) for choice in choices or ()],
        description=told.description or option.metadata["doc"],
        title=told.title,
        choice_titles=[told.choices[str(choice)] for choice in choices or ()],
    )


def _section(section: Section) -> lobby_pb2.RulesSection:
    return lobby_pb2.RulesSection(key=section.key, title=section.title, text=section.text)
