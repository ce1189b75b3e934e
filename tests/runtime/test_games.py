"""Every game over the wire and into the log: played at random, everything comes back as it was."""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, get_args

import pytest
from google.protobuf.message import DecodeError

from engines.api import Act, Command, InvalidOption, RuleViolation, Start, Timeout
from engines.cards import Card
from services.kernel.errors import Refused
from services.runtime.wire import games
from services.runtime.wire.games import GAMES, GameWire

MOVES_MAX = 400


@dataclass(frozen=True, slots=True)
class Dice:
    """Decks and seats from a seeded generator."""

    rng: random.Random

    def deck(self, _deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The pack in some order."""
        return tuple(self.rng.sample(pack, len(pack)))

    def seat(self, _deal: int, _label: str, bound: int) -> int:
        """Some seat."""
        return self.rng.randrange(bound)


def options(game: str, rng: random.Random) -> Any:
    """Options of every kind, within their bounds."""
    cls: Any = games.of(game).engine.Options  # type: ignore[attr-defined]
    given = {}
    for field in fields(cls):
        if field.metadata["choices"]:
            given[field.name] = rng.choice(field.metadata["choices"])
        elif isinstance(field.default, bool):
            given[field.name] = rng.random() < 0.5
    return cls(**given)


def played(game: str, seed: int) -> Iterator[tuple[Any, tuple[Any, ...], Any]]:
    """A game played at random: the state, the events that led to it, the move made."""
    rng = random.Random(seed)
    engine: Any = games.of(game).engine
    seats = rng.choice(list(engine.SEATS))
    carry = {"stacks": (200,) * seats, "last_winner": None} if game == "azi" else {}
    state = engine.initial(options(game, rng), seats, **carry)
    dice, command = Dice(rng), Start()
    for _ in range(MOVES_MAX):
        events = engine.decide(state, command, dice)
        for event in events:
            state = engine.evolve(state, event)
        yield state, events, getattr(command, "move", None)
        if engine.is_over(state):
            return
        seat = rng.choice(engine.to_act(state))
        made: Command[Any] = Act(seat, rng.choice(engine.legal(state, seat)))
        command = Timeout(seat) if rng.random() < 0.05 else made  # type: ignore[assignment]


def over_the_wire(mapper: Any, value: Any) -> Any:
    """What comes out at the other end, through octets."""
    octets = mapper.to_wire(value).SerializeToString()
    return mapper.from_wire(mapper.message.FromString(octets))


def seen(wire: GameWire, state: Any, events: tuple[Any, ...], viewer: int | None) -> None:
    """The view and happenings of one viewer survive the wire."""
    view = wire.engine.view(state, viewer)
    assert over_the_wire(wire.view, view) == view
    for event in events:
        shown = wire.engine.show(event, viewer)
        if shown is not None:
            assert over_the_wire(wire.happening, shown) == shown


@pytest.mark.parametrize("game", GAMES)
def test_everything_in_a_game_comes_back_as_it_was(game: str) -> None:
    """Views and happenings for every viewer, moves, options, stored events with their secrets."""
    wire = games.of(game)
    names = set()
    for seed in range(12):
        for state, events, move in played(game, seed):
            for viewer in (None, 0, 1):
                seen(wire, state, events, viewer)
            if move is not None:
                assert over_the_wire(wire.move, move) == move
            for event in events:
                names.add(type(event).__name__)
                assert wire.decode_event(*wire.encode_event(event)) == event
        assert over_the_wire(wire.options, state.options) == state.options
    assert len(names) >= len(wire.events) // 2


@pytest.mark.parametrize("game", GAMES)
def test_a_stored_event_names_its_class_and_hides_its_secret(game: str) -> None:
    """The public octets of two deals that differ in the hidden cards only are the same length."""
    wire = games.of(game)
    with_secret = {name for name, stored in wire.events.items() if stored.secret is not None}
    assert "Dealt" in with_secret
    assert with_secret <= {"Dealt", "CardDropped"}
    for name, stored in wire.events.items():
        assert "secret" not in stored.public.message.DESCRIPTOR.fields_by_name
        assert stored.public.cls.__name__ == name


@pytest.mark.parametrize("game", GAMES)
def test_no_public_message_is_a_stored_one(game: str) -> None:
    """Stored events live in their own package; views and happenings never import it."""
    wire = games.of(game)
    imported = [file.name for file in wire.view.message.DESCRIPTOR.file.dependencies]
    assert not [name for name in imported if "/events/" in name]


@pytest.mark.parametrize("game", GAMES)
def test_options_left_out_have_their_defaults(game: str) -> None:
    """An empty message means the game's defaults."""
    wire = games.of(game)
    cls: Any = wire.options.cls
    assert wire.options.from_wire(wire.options.message()) == cls()


@pytest.mark.parametrize(
    ("game", "option", "value"),
    [
        ("azi", "entry_fee", -1),
        ("azi", "azi_entry", "whoever"),
        ("rami", "target", -5),
    ],
)
def test_options_out_of_bounds_are_refused(game: str, option: str, value: Any) -> None:
    """The option is named."""
    wire = games.of(game)
    with pytest.raises(InvalidOption) as caught:
        wire.options.from_wire(wire.options.message(**{option: value}))
    assert caught.value.option == option


@pytest.mark.parametrize("game", GAMES)
def test_a_bare_move_crashes_nothing(game: str) -> None:
    """An empty wrapper is refused; a move without its fields is, or acts, but never crashes."""
    wire = games.of(game)
    with pytest.raises(Refused):
        wire.move.from_wire(wire.move.message(), "move")
    rng = random.Random(1)
    engine: Any = wire.engine
    seats = min(engine.SEATS)
    carry = {"stacks": (50,) * seats, "last_winner": None} if game == "azi" else {}
    state = engine.initial(engine.Options(), seats, **carry)
    for event in engine.decide(state, Start(), Dice(rng)):
        state = engine.evolve(state, event)
    for name in wire.move.message.DESCRIPTOR.fields_by_name:
        bare = wire.move.message(**{name: {}})
        with suppress(Refused, RuleViolation):
            move = wire.move.from_wire(bare, "move")
            assert engine.decide(state, Act(engine.to_act(state)[0], move), Dice(rng))
    assert len(get_args(engine.Move)) == len(wire.move.message.DESCRIPTOR.fields_by_name)


def test_a_torn_event_does_not_decode() -> None:
    """Unknown names, missing secrets and damaged octets are told apart."""
    wire = games.of("azi")
    (event,) = [e for _, events, _ in _first("azi") for e in events if type(e).__name__ == "Dealt"]
    name, payload, secret = wire.encode_event(event)
    with pytest.raises(KeyError):
        wire.decode_event("Shuffled", payload, secret)
    with pytest.raises(ValueError, match="a missing secret"):
        wire.decode_event(name, payload, None)
    with pytest.raises(ValueError, match="an unexpected secret"):
        wire.decode_event("FeePaid", b"", secret)
    with pytest.raises(DecodeError):
        wire.decode_event(name, b"\xff" + payload, secret)
    with pytest.raises(Refused):
        wire.decode_event(name, payload, b"\x0a\x01\x63")


def _first(game: str) -> list[Any]:
    return [next(played(game, 1))]
