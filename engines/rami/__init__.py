"""Rami: rounds of draw, meld and discard to a target total; RULES.md is the rule book."""

from engines.rami.melds import MeldKind
from engines.rami.model import (
    CardDrawn,
    Dealt,
    DealtSecret,
    Discard,
    Discarded,
    DrawDiscard,
    DrawStock,
    Ending,
    Event,
    LaidOff,
    LayOff,
    MatchWon,
    Meld,
    MeldLaid,
    Move,
    Options,
    Phase,
    RoundScored,
    SeatLeft,
    Source,
    State,
    TableMeld,
    TurnExpired,
)
from engines.rami.rules import (
    PACK,
    SEATS,
    cause,
    decide,
    initial,
    is_over,
    legal,
    timeout_move,
    to_act,
)
from engines.rami.table import evolve
from engines.rami.view import Happening, KnownCards, RoundDealt, View, history, show, view

NAME = "rami"
RULES = "rami 1.1.0"
