"""The form of a new table: a value a line, changed with the arrows or by typing digits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.cli.play.drawing import keys_line
from services.cli.play.keys import FORM, Do
from services.cli.play.session import Opening
from services.cli.play.spans import Line, Role, Span, fitted, folded, line
from services.cli.shown import LEVELS
from services.cli.variants import SEATS
from services.client.tables import game_options
from services.runtime.wire import games as wire

TITLE = 34
"""The columns of a field's name."""
DIGITS_MAX = 19
TURN_SECONDS = 60
BANK_SECONDS = 60
BANK_MAX = 3_600


@dataclass(frozen=True, slots=True)
class Field:
    """A value to choose: one of `choices`, or a whole number from `low` to `high`."""

    name: str
    title: str
    about: str
    value: str
    choices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    typed: bool = False

    @property
    def label(self) -> str:
        """The value as it is shown."""
        if self.value in self.choices and self.labels:
            return self.labels[self.choices.index(self.value)]
        return self.value

    def stepped(self, by: int) -> "Field":
        """The next or the last choice; numbers one more or less, within their bounds."""
        if self.choices:
            at = (self.choices.index(self.value) + by) % len(self.choices)
            return replace(self, value=self.choices[at])
        value = min(self.high, max(self.low, int(self.value or 0) + by))
        return replace(self, value=str(value), typed=False)

    def with_digit(self, digit: str) -> "Field":
        """A number with a digit more; the first digit begins it anew."""
        if self.choices:
            return self
        text = (self.value if self.typed else "") + digit
        return replace(self, value=text[:DIGITS_MAX].lstrip("0") or "0", typed=True)

    def settled(self) -> "Field":
        """The number brought within its bounds."""
        if self.choices:
            return self
        value = min(self.high, max(self.low, int(self.value or 0)))
        return replace(self, value=str(value), typed=False)


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a new table and which is chosen."""

    game: str
    fields: tuple[Field, ...]
    at: int = 0

    @property
    def chosen(self) -> Field:
        """The field at the cursor."""
        return self.fields[self.at]

    def value(self, name: str, default: str = "") -> str:
        """A field's value, the default where there is no such field."""
        return next((field.value for field in self.fields if field.name == name), default)

    def moved(self, by: int) -> "Form":
        """The cursor a field further, the one it leaves settled."""
        made = self.settled()
        return replace(made, at=(self.at + by) % len(self.fields))

    def stepped(self, by: int) -> "Form":
        """The chosen value changed."""
        return self._changed(self.chosen.stepped(by))

    def with_digit(self, digit: str) -> "Form":
        """A digit typed at the chosen number."""
        return self._changed(self.chosen.with_digit(digit))

    def settled(self) -> "Form":
        """The chosen number brought within its bounds."""
        return self._changed(self.chosen.settled())

    def _changed(self, field: Field) -> "Form":
        fields = (*self.fields[: self.at], field, *self.fields[self.at + 1 :])
        return replace(self, fields=fields)


def form_for(
    game: str, variants: Sequence[lobby_pb2.VariantInfo], *, alone: bool, kept: Form | None = None
) -> Form:
    """The form for a game; what was chosen for another one before stays, as far as it fits."""
    info = next(each for each in variants if wire.NAMES[each.variant] == game)
    titles = {wire.NAMES[each.variant]: each.title for each in variants}
    fields = [
        Field("game", "Game", "What is played.", game, tuple(titles), tuple(titles.values())),
        _number("seats", "Seats", "Yours included.", SEATS[game], info.seats_min, info.seats_max),
        *([] if alone else [_number("bots", "Bots", BOTS, 0, 0, info.seats_max - 1)]),
        Field("level", "Bots play", "How well.", "normal", tuple(LEVELS)),
        *([] if alone else _served_fields()),
        *([_number("stack", "Your stack", STACKS, 0, 0, 2**63 - 1)] if game == "azi" else []),
        *(_option(option) for option in info.options),
    ]
    if kept is not None:
        before = {field.name: field.value for field in kept.fields if field.name in KEPT}
        fields = [replace(f, value=before.get(f.name, f.value)) for f in fields]
    return Form(game, tuple(fields))


BOTS = "How many bots sit down at once; the other seats wait for people."
STACKS = "Chips you bring; 0 is the least the table takes."
KEPT = {"level", "seconds", "bank", "visible", "watched", "hints", "talk"}
"""What does not hang on the game."""


def _number(name: str, title: str, about: str, value: int, low: int, high: int) -> Field:
    return Field(name, title, about, str(value), low=low, high=high)


def _served_fields() -> list[Field]:
    """What only a table with a server has."""
    return [
        _number("seconds", "Seconds for a move", CLOCK, TURN_SECONDS, 5, 600),
        _number("bank", "Seconds in the time bank", BANK, BANK_SECONDS, 0, BANK_MAX),
        Field("visible", "Who may find it", VISIBLE, "public", ("public", "private")),
        Field("watched", "Others may watch", WATCHED, "yes", ("yes", "no")),
        Field("hints", "Hints", HINTS, "yes", ("yes", "no")),
        Field("talk", "Chat", TALK, "yes", ("yes", "no")),
    ]


CLOCK = "After that the rules move for you, or a bot if you stay away."
BANK = "Time for the whole game that is used once a move takes longer; 0 for none."
VISIBLE = "Public: listed in the lobby. Private: whoever has the code of the table."
HINTS = "Whether players may ask a bot what it would do."
TALK = "Whether people may talk at the table."
WATCHED = "People without a seat may look on; they never see a hand."


def _option(info: lobby_pb2.OptionInfo) -> Field:
    match info.type:
        case "int":
            return Field(
                info.name, info.title, info.description, info.default, low=info.low, high=info.high
            )
        case "bool":
            choices: tuple[str, ...] = ("true", "false")
            labels: tuple[str, ...] = ("yes", "no")
        case _:
            choices, labels = tuple(info.choices), tuple(info.choice_titles)
    return Field(info.name, info.title, info.description, info.default, choices, labels)


def opening_of(form: Form, variants: Sequence[lobby_pb2.VariantInfo], *, alone: bool) -> Opening:
    """The table the form describes; raises InvalidOption for options that do not go together."""
    form = form.settled()
    info = next(each for each in variants if wire.NAMES[each.variant] == form.game)
    names = {option.name for option in info.options}
    given: Mapping[str, str] = {f.name: f.value for f in form.fields if f.name in names}
    seats = int(form.value("seats"))
    rules = lobby_pb2.TableRules(options=game_options(form.game, given), seats=seats)
    if not alone:
        rules.turn_ms = 1_000 * int(form.value("seconds"))
        rules.time_bank_ms = 1_000 * int(form.value("bank"))
        rules.spectators = form.value("watched") == "yes"
        rules.no_hints = form.value("hints") == "no"
        rules.no_chat = form.value("talk") == "no"
        rules.absent_policy = variant_pb2.ABSENT_POLICY_BOT
        private = form.value("visible") == "private"
        rules.visibility = lobby_pb2.VISIBILITY_PRIVATE if private else lobby_pb2.VISIBILITY_PUBLIC
    return Opening(
        rules=rules,
        bots=min(seats - 1, int(form.value("bots", str(seats - 1)))),
        level=LEVELS[form.value("level")],
        buy_in=int(form.value("stack", "0")),
    )


def drawn(form: Form, trouble: str, columns: int, rows: int) -> list[Line]:
    """The form on a whole screen; of more fields than there is room for, those near the cursor."""
    about = folded(form.chosen.about, columns - 4, Role.MUTED)[:3]
    room = rows - 4 - len(about)
    first = max(0, min(form.at - room // 2, len(form.fields) - room))
    lines: list[Line] = [line(Span(f"{' New table':<{columns}}", Role.BAR)), ()]
    shown = range(first, min(len(form.fields), first + room))
    lines += [_field_line(form, index) for index in shown]
    lines = fitted(lines, columns, rows - 2 - len(about))
    lines += [(Span("  "), *each) for each in about]
    lines.append(line(Span(f" {trouble}", Role.BAD)))
    return fitted([*lines, keys_line(FORM, columns)], columns, rows)


def _field_line(form: Form, index: int) -> Line:
    field, here = form.fields[index], index == form.at
    spot = f"field:{index}"
    title = field.title if len(field.title) < TITLE else field.title[: TITLE - 2] + "…"
    value = Span(f" {field.label} ", Role.CHOSEN if here else Role.STRONG, spot)
    around = Role.KEY if here else Role.MUTED
    return (
        Span("  ▶ " if here else "    ", Role.TURN),
        Span(f"{title:<{TITLE}}", Role.TURN if here else Role.PLAIN, spot),
        Span("←" if here else " ", around, f"key:{Do.LEFT}"),
        value,
        Span("→" if here else " ", around, f"key:{Do.RIGHT}"),
    )
