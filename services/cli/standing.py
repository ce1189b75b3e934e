"""`kozyr standing`: for operators, whether statistics are what the games' logs say."""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from kozyr.game.v1 import game_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc
from kozyr.lobby.v1 import standing_pb2 as pb
from kozyr.lobby.v1.standing_pb2_grpc import StandingServiceStub

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.operators import OPERATOR
from services.cli.outcome import FINE, WRONG
from services.cli.terminal import command, emit, progress, show
from services.client import lists
from services.client.calls import Caller

AT_ONCE = 100
TOLD_WITHIN_S = 60
"""The lobby may be told of an end this much later."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "standing",
        "As an operator: compare what is counted for players with the games' logs, count it anew, "
        "let a game not count. docs/play.md says what counts.",
        "kozyr standing check",
    )
    doing = made.add_subparsers(dest="doing", required=True, metavar="check|rebuild|strike|restore")
    checking = doing.add_parser(
        "check", help="compare games' lines with their logs, and sums with the lines"
    )
    checking.add_argument(
        "--record", action="store_true", help="count games that were not, as before an upgrade"
    )
    rebuilding = doing.add_parser("rebuild", help="count the sums anew from the games' lines")
    striking = doing.add_parser("strike", help="let a game count for nobody")
    restoring = doing.add_parser("restore", help="let a struck game count again")
    for each in (striking, restoring):
        finding.add_game(each)
    for each in (checking, rebuilding, striking, restoring):
        each.add_argument("--json", action="store_true", help="one JSON object a line")
        each.add_argument("--by", default=OPERATOR, metavar="NAME", help="the operator's name")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with finding.as_operator(settings(arguments), arguments.by) as caller:
        match arguments.doing:
            case "check":
                return await _check(caller, record=arguments.record, as_json=arguments.json)
            case "rebuild":
                return await _rebuild(caller, as_json=arguments.json)
            case _:
                stub: Any = caller.stub("lobby", StandingServiceStub)
                game = await finding.game_id(caller, arguments.game, ended=True)
                strike = pb.StrikeGameRequest(game_id=game, struck=arguments.doing == "strike")
                reply = await caller.call("lobby", stub.StrikeGame, strike)
                word = "counts for nobody" if strike.struck else "counts"
                show([f"{game} {word}: {reply.lines} lines changed"])
                return FINE


async def _check(caller: Caller, *, record: bool, as_json: bool) -> int:
    """Name every game whose lines are not what its log says, and every player whose sums are not
    what his lines give; exits 1 if there are any left."""
    games = wrong = 0
    with progress("checking") as told:
        async for some in _ended(caller):
            problems = await faults(caller, some)
            if record:
                problems = await _recorded(caller, some, problems)
            for game, problem in problems.items():
                _say(f"WRONG {game}: {problem}", {"game_id": game, "fault": problem}, as_json)
            games, wrong = games + len(some), wrong + len(problems)
            told(f"{games} games")
        players, differing = await _verify(caller, repair=False)
    for player in differing:
        problem = "sums are not what the games give"
        _say(f"WRONG {player}: {problem}", {"player_id": player, "fault": problem}, as_json)
    sound = not wrong and not differing
    if not as_json:
        show([f"{'ok' if sound else 'WRONG'}: {games} games, {players} players"])
    return FINE if sound else WRONG


async def _rebuild(caller: Caller, *, as_json: bool) -> int:
    players, differing = await _verify(caller, repair=True)
    for player in differing:
        _say(f"{player}: counted anew", {"player_id": player}, as_json)
    if not as_json:
        show([f"ok: {players} players, {len(differing)} counted anew"])
    return FINE


async def faults(caller: Caller, games: Sequence[game_pb2.GameSummary]) -> dict[str, str]:
    """What is wrong with the lines of these games, which have ended, by game; raises Refused."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    request = pb.ListGameLinesRequest(game_ids=[game.game_id for game in games])
    lines: dict[tuple[str, str], pb.PlayerGame] = {
        (line.game_id, line.player_id): line
        for line in (await caller.call("lobby", stub.ListGameLines, request)).lines
    }
    without = await _without_lines(caller, games)
    found = {}
    for game in games:
        persons = [s.player_id for s in game.seats if not s.bot_level]
        mine = {p: lines[game.game_id, p] for p in persons if (game.game_id, p) in lines}
        problem = _fault(game, mine, [p for p in persons if p not in without])
        if problem:
            found[game.game_id] = problem
    return found


def _fault(
    game: game_pb2.GameSummary, lines: Mapping[str, pb.PlayerGame], persons: Sequence[str]
) -> str:
    finished = game.stage == view_pb2.STAGE_FINISHED
    missing = [player for player in persons if player not in lines]
    if finished and missing and time.time() - game.ended_time.seconds > TOLD_WITHIN_S:
        return f"not counted for {', '.join(missing)}"
    people = not any(seat.bot_level for seat in game.seats)
    for player, line in lines.items():
        if (line.finished, line.variant, line.table_id) != (finished, game.variant, game.table_id):
            return f"counted as another kind of game for {player}"
        if finished and line.people != people:
            return f"counted with other players for {player}"
        if finished and _outcome(line) != _result(game.result, player):
            return f"counted with another result for {player}"
    return ""


def _outcome(line: pb.PlayerGame) -> tuple[Any, ...]:
    return (
        *(line.place, line.points, line.first, line.durak, line.null),
        *(line.chips_in, line.chips_out),
    )


def _result(result: view_pb2.Result, player: str) -> tuple[Any, ...]:
    """What a game's log says of a player, in the order of `_outcome`."""
    seat = next(each for each in result.seats if each.player_id == player)
    first = result.HasField("winner") and result.winner == seat.seat and not result.null
    durak = result.HasField("durak") and result.durak == seat.seat and not result.null
    return (
        *(seat.place, seat.points, first, durak, result.null),
        *(seat.stack_before, seat.stack_after),
    )


async def _recorded(
    caller: Caller, games: Sequence[game_pb2.GameSummary], problems: Mapping[str, str]
) -> dict[str, str]:
    """Have games counted that were not; what is wrong after that."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    again = [game for game in games if game.game_id in problems]
    for game in again:
        await caller.call("lobby", stub.RecordGame, pb.RecordGameRequest(game=game))
    return await faults(caller, again) if again else {}


async def _without_lines(caller: Caller, games: Sequence[game_pb2.GameSummary]) -> set[str]:
    """Players of these games who are bots or were erased: they have no lines."""
    stub: Any = caller.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
    wanted = sorted({seat.player_id for game in games for seat in game.seats})
    found: set[str] = set()
    for start in range(0, len(wanted), AT_ONCE):
        request = identity_pb2.ListPlayersRequest(player_ids=wanted[start : start + AT_ONCE])
        players = (await caller.call("lobby", stub.ListPlayers, request)).players
        found |= {player.player_id for player in players if player.bot or player.erased}
    return found


async def _ended(caller: Caller) -> AsyncIterator[list[game_pb2.GameSummary]]:
    """Games of tables that have ended, newest first, some at a time."""
    some: list[game_pb2.GameSummary] = []
    async for game in lists.games(caller, game_pb2.ListGamesRequest(running=False)):
        if game.table_id and game.seats:
            some.append(game)
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some


async def _verify(caller: Caller, *, repair: bool) -> tuple[int, list[str]]:
    """How many players there are, and those whose sums differ from their games."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    request, players = pb.VerifyStandingsRequest(repair=repair, page_size=100), 0
    differing: list[str] = []
    while True:
        request.ClearField("request_id")
        page = await caller.call("lobby", stub.VerifyStandings, request)
        players += page.players
        differing += page.differing_player_ids
        if not page.next_page_token:
            return players, differing
        request.page_token = page.next_page_token


def _say(line: str, found: dict[str, str], as_json: bool) -> None:
    if as_json:
        emit(found)
    else:
        show([line])
