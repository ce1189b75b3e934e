"""The games there are, and their options between engines and the wire."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from google.protobuf.message import Message
from kozyr.game.v1 import variant_pb2
from kozyr.game.v1.variant_pb2 import GameOptions
from kozyr.lobby.v1 import lobby_pb2

from engines import azi, durak, rami
from engines.api import read_options
from services.kernel.errors import invalid
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


def variant_info(variant: Variant) -> lobby_pb2.VariantInfo:
    """What a client shows of a game before a table is opened."""
    engine = ENGINES[variant]
    return lobby_pb2.VariantInfo(
        variant=variant_pb2.Variant.ValueType(variant),
        rules=engine.RULES,
        seats_min=engine.SEATS.start,
        seats_max=engine.SEATS.stop - 1,
        options=[_option_info(option) for option in fields(engine.Options)],
    )


def _given(options: GameOptions, variant: Variant) -> dict[str, object]:
    chosen: Message = getattr(options, variant.name.lower())
    return {field.name: value for field, value in chosen.ListFields()}


def _option_info(option: Field[Any]) -> lobby_pb2.OptionInfo:
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
        description=option.metadata["doc"],
    )
