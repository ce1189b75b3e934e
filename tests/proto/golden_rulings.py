"""The golden rulings: hashes of what each version of the rules decides in hundreds of games.

`python tests/proto/golden_rulings.py` writes the lines that a rules version lacks; it never changes
one: what a version has ruled once it rules for ever. A line names the number of seats and the
options, and holds the hash over a few games: of every event, every legal move, every move at a
timeout, and of the refusals of moves tried out of place.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from engines.api import Act, Command, Leave, RuleViolation, Start, Timeout
from engines.cards import Card
from services.game.codec import encode
from services.game.model import EngineEvent
from services.game.rulebook import RULEBOOK
from services.runtime.wire import games as wire
from tests.proto.samples import CHOSEN, GAMES

FOLDER = Path(__file__).parent / "golden" / "rulings"
GAMES_MIN = 200
"""So many games of each version at least."""
MOVES_MAX = 300
TRIED = 2
"""Moves that are tried out of place at each decision."""
REMEMBERED = 60
"""From so many moves of the game those are taken."""
Line = dict[str, Any]


class Draw:
    """Numbers that follow from a text alone, whatever the version of Python."""

    def __init__(self, label: str) -> None:
        self._label = label.encode()
        self._drawn = 0

    def number(self, bound: int) -> int:
        """A number below the bound."""
        self._drawn += 1
        octets = sha256(self._label + b"/%d" % self._drawn).digest()
        return int.from_bytes(octets[:8]) % bound

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The pack in some order."""
        left = list(pack)
        return tuple(left.pop(self.number(len(left))) for _ in pack)

    def seat(self, deal: int, label: str, bound: int) -> int:
        """Some seat."""
        return self.number(bound)


def choices(kind: str) -> Iterator[Mapping[str, Any]]:
    """The options by default, each of them chosen otherwise, and all of them."""
    chosen = CHOSEN[kind]
    yield {}
    for name, value in chosen.items():
        yield {name: value}
    yield chosen


def wanted(rules: str) -> list[Line]:
    """The lines that a version should have, without hashes."""
    kind, engine = rules.partition(" ")[0], RULEBOOK[rules]
    pairs = [(seats, dict(given)) for seats in engine.SEATS for given in choices(kind)]
    games = -(-GAMES_MIN // len(pairs))
    return [{"seats": seats, "options": given, "games": games} for seats, given in pairs]


def ruled(rules: str, line: Line) -> str:
    """The hash of what a version decides in the games of a line."""
    found = sha256()
    for number in range(line["games"]):
        label = json.dumps([rules, line["seats"], line["options"], number], sort_keys=True)
        for told in playthrough(rules, line["seats"], line["options"], Draw(label)):
            found.update(len(told).to_bytes(4) + told)
    return found.hexdigest()


def playthrough(rules: str, seats: int, options: Mapping[str, Any], draw: Draw) -> Iterator[bytes]:
    """A random game: what is decided in it, piece by piece."""
    kind, engine = rules.partition(" ")[0], RULEBOOK[rules]
    carry: dict[str, Any] = {}
    if kind == "azi":
        carry["stacks"] = tuple(30 + draw.number(90) for _ in range(seats))
        carry["last_winner"] = (None, *range(seats))[draw.number(seats + 1)]
    state = engine.initial(GAMES[kind].Options(**options), seats, **carry)
    remembered: list[Any] = []
    command: Command[Any] = Start()
    for _ in range(MOVES_MAX):
        for event in engine.decide(state, command, draw):
            state = engine.evolve(state, event)
            stored = encode(EngineEvent(event))
            yield stored.name.encode() + b"|" + stored.payload + b"|" + (stored.secret or b"")
        if engine.is_over(state):
            return
        acting = engine.to_act(state)
        yield b"turn %d" % state.turn
        legal = {seat: in_order(kind, engine.legal(state, seat)) for seat in acting}
        for seat in acting:
            for move in (*legal[seat], engine.timeout_move(state, seat)):
                yield b"%d may " % seat + octets(kind, move)
        remembered = [*remembered, *legal[acting[0]]][-REMEMBERED:]
        for _ in range(TRIED):
            attempt = Act(draw.number(seats), remembered[draw.number(len(remembered))])
            yield outcome(engine, state, attempt, draw)
        command = chosen(engine, state, legal, draw)


def in_order(kind: str, moves: Sequence[Any]) -> list[Any]:
    """Moves in an order that is theirs, not that of the engine."""
    return sorted(moves, key=lambda move: octets(kind, move))


def octets(kind: str, move: Any) -> bytes:
    """A move as it goes over the wire."""
    return bytes(wire.of(kind).move.to_wire(move).SerializeToString(deterministic=True))


def outcome(engine: Any, state: Any, command: Command[Any], draw: Draw) -> bytes:
    """Whether a command is refused, and by which rule."""
    try:
        engine.decide(state, command, draw)
    except RuleViolation as refused:
        return f"{refused.reason} {refused.rule}".encode()
    return b"accepted"


def chosen(engine: Any, state: Any, legal: Mapping[int, Sequence[Any]], draw: Draw) -> Command[Any]:
    """What happens next: mostly a move, now and then a timeout, seldom somebody leaves."""
    acting = list(legal)
    seat = acting[draw.number(len(acting))]
    match draw.number(40):
        case 0:
            return Timeout(seat)
        case 1 if not draw.number(4) and outcome(engine, state, Leave(seat), draw) == b"accepted":
            return Leave(seat)
        case _:
            return Act(seat, legal[seat][draw.number(len(legal[seat]))])


def path_of(rules: str) -> Path:
    """Where the lines of a version are."""
    return FOLDER / f"{rules.replace(' ', '-')}.jsonl"


def lines_of(rules: str) -> list[Line]:
    """The golden lines of a version; none if it has none."""
    path = path_of(rules)
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    )


def missing(rules: str) -> list[Line]:
    """The lines that a version should have and has not."""
    there = [(line["seats"], line["options"]) for line in lines_of(rules)]
    return [line for line in wanted(rules) if (line["seats"], line["options"]) not in there]


def main() -> int:
    """Write what is missing; returns the exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for rules in RULEBOOK:
        made = [{**line, "sha256": ruled(rules, line)} for line in missing(rules)]
        with path_of(rules).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in made)
        print(f"{rules}: {len(made)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
