"""What the demo checks, and the table of it."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kozyr.game.v1 import view_pb2

from services.cli.audit import verify
from services.cli.export import receipt
from services.cli.faults import fault_line
from services.cli.replay import steps_of
from services.cli.terminal import grid, show
from services.cli.wallet import statement, trial_balance, trial_lines
from services.client.calls import Caller
from services.client.driving import Seen
from services.client.player import Player
from services.client.views import game_of
from services.kernel.errors import Refused
from verifier.verify import verify as verify_receipt
from verifier.wrong import Wrong

DETAIL_MAX = 90
STATEMENT_LINES = 100


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was looked at: whether it held, and what came."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Played:
    """A finished game and what its driven seat saw."""

    player: Player
    game_id: str
    seen: Seen

    @property
    def view(self) -> view_pb2.GameView:
        """The last view."""
        return self.seen.last


class Checks:
    """Collects checks and tells, with the time, how things get on."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.done: list[Check] = []
        self._quiet = quiet
        self._began = time.monotonic()

    def tell(self, news: str) -> None:
        """A line of progress."""
        if not self._quiet:
            show([f"[{time.monotonic() - self._began:5.1f} s] {news}"])

    def note(self, name: str, held: bool, detail: str) -> None:
        """Something was checked."""
        self.done.append(Check(name, held, detail))
        self.tell(f"{'ok' if held else 'WRONG'}: {name}: {detail}")

    def all_held(self) -> bool:
        """Whether there were checks and every one held."""
        return bool(self.done) and all(check.held for check in self.done)

    def table(self) -> list[str]:
        """Every check in a line."""
        rows = [
            (check.name, "ok" if check.held else "WRONG", check.detail[:DETAIL_MAX])
            for check in self.done
        ]
        wrong = sum(not check.held for check in self.done)
        spent = time.monotonic() - self._began
        verdict = f"{wrong} WRONG" if wrong else "all held"
        summary = f"{len(self.done)} checks, {verdict}, {spent:.0f} s"
        return ["", *grid(("checked", "outcome", "what came"), rows), "", summary]


def check_streams(checks: Checks, games: Sequence[Played]) -> None:
    """Every version came to the driven seats exactly once and in order.

    The client passes nothing on twice, so what it dropped is counted here; a stream that was taken
    up anew may begin with a snapshot of what was seen.
    """
    wrong = [f"{g.game_id} at {g.seen.gaps}" for g in games if g.seen.gaps]
    dropped = [(g.game_id, g.player.dropped[g.game_id]) for g in games]
    wrong += [f"{game}: {count} messages came again" for game, count in dropped if count]
    steps = sum(len(g.seen.views) for g in games)
    said = "; ".join(wrong) or f"{steps} messages of {len(games)} games"
    checks.note("watch streams bring every version once, in order", steps > 0 and not wrong, said)


def check_seeds(checks: Checks, games: Sequence[Played]) -> None:
    """The server's seeds match what was committed, and each client's own seed counted."""
    wrong = []
    for game in games:
        view = game.view
        if hashlib.sha256(view.server_seed).digest() != view.server_seed_hash:
            wrong.append(f"{game.game_id}: the server's seed is another")
        if view.seats[view.seat].seed != game.player.seed(game.game_id):
            wrong.append(f"{game.game_id}: the client's seed is not in it")
    said = "; ".join(wrong) or f"{len(games)} games"
    checks.note(
        "seeds match their commitments, clients' seeds count", bool(games) and not wrong, said
    )


async def check_ledger(checks: Checks, games: Sequence[Played]) -> None:
    """For each game of Azi the player's statement says what the log says, to the chip."""
    wrong, moved = [], 0
    azi = [game for game in games if game_of(game.view) == "azi"]
    for game in azi:
        lines = await statement(game.player, game=game.game_id, most=STATEMENT_LINES)
        own = game.view.result.seats[game.view.seat]
        change = own.stack_after - own.stack_before
        moved += abs(change)
        if not lines:
            wrong.append(f"{game.game_id}: the statement knows nothing of it")
        elif sum(line.chips for line in lines) != change:
            wrong.append(f"{game.game_id}: {sum(line.chips for line in lines)}, not {change}")
    said = "; ".join(wrong) or f"{len(azi)} games, {moved} chips won or lost"
    checks.note("the ledger and the logs of Azi agree to the chip", bool(azi) and not wrong, said)


async def check_replays(checks: Checks, house: Caller, games: Sequence[Played]) -> None:
    """Each game replays, without a gap, to what the client saw while it was played."""
    wrong, states = [], 0
    for number, game in enumerate(games, 1):
        try:
            steps = await steps_of(house, game.game_id)
        except Refused as refused:
            wrong.append(f"{game.game_id}: {refused.reason}")
            continue
        expected = 1
        for step in steps:
            if step.from_version != expected:
                wrong.append(f"{game.game_id}: version {expected} is missing")
            expected = step.to_version + 1
            live = game.seen.views.get(step.to_version)
            states += live is not None
            if live is not None and not _same_table(live, step.views[live.seat]):
                wrong.append(f"{game.game_id}: version {step.to_version} was another")
        if expected != game.view.version + 1:
            wrong.append(f"{game.game_id}: ends at version {expected - 1}")
        checks.tell(f"replayed {number} of {len(games)}: {len(steps)} steps")
    said = "; ".join(wrong) or f"{len(games)} games, {states} states compared"
    checks.note("every game replays to what was seen live", states > 0 and not wrong, said)


def _same_table(live: view_pb2.GameView, replayed: view_pb2.GameView) -> bool:
    which = live.WhichOneof("table")
    if which != replayed.WhichOneof("table"):
        return False
    tables = which is None or getattr(live, which) == getattr(replayed, which)
    return bool(tables) and live.head == replayed.head and live.result == replayed.result


async def check_receipts(checks: Checks, house: Caller, games: Sequence[Played]) -> None:
    """Each game's receipt is executed again with no server, and nothing is found wrong in it."""
    wrong, size = [], 0
    for game in games:
        try:
            document = await receipt(house, game.game_id)
            found = verify_receipt(document).receipt
        except (Refused, Wrong) as problem:
            wrong.append(f"{game.game_id}: {problem}")
            continue
        size += len(document)
        if found.head != game.view.head:
            wrong.append(f"{game.game_id}: is of another log than was seen")
    said = "; ".join(wrong) or f"{len(games)} receipts, {size // 1024} KiB"
    checks.note("every game's receipt holds without a server", size > 0 and not wrong, said)


async def check_audits(checks: Checks, house: Caller, games: Sequence[Played]) -> None:
    """Each game's log is executed again, and nothing is found wrong in it."""
    wrong, events = [], 0
    for game in games:
        try:
            found = await verify(house, game.game_id)
        except Refused as refused:
            wrong.append(f"{game.game_id}: {refused.reason}")
            continue
        events += found.events
        wrong += [f"{game.game_id} {fault_line(fault)}" for fault in found.faults]
    said = "; ".join(wrong) or f"{len(games)} games, {events} events"
    checks.note("every game passes its audit", events > 0 and not wrong, said)


async def check_trial_balance(checks: Checks, house: Caller) -> None:
    """No chip appeared or vanished, and none is held any more."""
    trial = await trial_balance(house)
    for line in trial_lines(trial):
        checks.tell(line)
    held = trial.sound and trial.total == 0 and trial.open_reservations == 0
    said = f"total {trial.total}, {trial.open_reservations} reservations open"
    checks.note("the trial balance is zero", held, said)
