"""Games looked back at: as their player saw them, in lists, and by a link as the table saw them."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.message import Message
from kozyr.game.v1 import game_pb2, view_pb2
from kozyr.game.v1 import history_pb2 as pb
from kozyr.game.v1.history_pb2_grpc import HistoryServiceStub

from engines.cards import Card
from services.game import audit, shared, views
from services.game.listing import outcome_of
from services.game.model import (
    DealRevealed,
    EngineEvent,
    GameFinished,
    GameOpened,
    Result,
    SeedRevealed,
    Stage,
    State,
)
from services.game.rulebook import engine_for
from services.kernel.errors import Kind, Refused
from services.runtime.clients import Client
from tests.leaks.octets import named
from tests.services.game import worlds
from tests.services.game.stopped import still_step
from tests.services.game.system import Seat, System, new_id, setup, system
from tests.services.game.test_service import dealt, play_out

VARIANTS = ("azi", "durak", "rami")
SEATS = {"azi": 3, "durak": 3, "rami": 2}


async def refusal(asking: Any) -> Refused:
    """How a call is refused."""
    with pytest.raises(Refused) as caught:
        await asking
    return caught.value


class Looking:
    """HistoryService as somebody calls it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.stub: Any = HistoryServiceStub(client.channel)

    async def own(self, game: str, **between: int) -> list[game_pb2.Step]:
        """The steps of a game of his own."""
        request = pb.ReplayOwnGameRequest(game_id=game, **between)
        return [reply.step async for reply in self.client.stream(self.stub.ReplayOwnGame, request)]

    async def share(self, game: str, request_id: str = "") -> pb.ShareGameResponse:
        """A link to a game of his own."""
        request = pb.ShareGameRequest(request_id=request_id or new_id(), game_id=game)
        made: pb.ShareGameResponse = await self.client.call(self.stub.ShareGame, request)
        return made

    async def shared(self, token: str) -> list[pb.ReplaySharedGameResponse]:
        """The steps of the game a link leads to."""
        request = pb.ReplaySharedGameRequest(token=token)
        return [reply async for reply in self.client.stream(self.stub.ReplaySharedGame, request)]

    async def summary(self, token: str) -> pb.GetSharedGameResponse:
        """What a link leads to."""
        request = pb.GetSharedGameRequest(token=token)
        found: pb.GetSharedGameResponse = await self.client.call(self.stub.GetSharedGame, request)
        return found


def looking(house: System, caller: Seat | None) -> Looking:
    """A player, or somebody without an account."""
    if caller is not None:
        return Looking(caller.client)
    client = Client(house.settings.address("game"), house.settings, lambda: None)
    house.clients.append(client)
    return Looking(client)


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_replay_is_what_the_stream_brought(tmp_path: Path, variant: str) -> None:
    """Step by step, but for what clocks showed when it was sent, of an ended game whether it is
    laid open or not; parts of it by versions, in whole steps."""
    async with system(tmp_path) as house:
        for reveal in ("full", "own"):
            request = setup(variant, people=1, bots=SEATS[variant] - 1)
            getattr(request.options, variant).reveal = reveal
            request = await house.open(request)
            player, game = house.game(request.seats[0].player_id), request.game_id
            messages = await play_out(player, game, Random(5))
            streamed = [still_step(each.step) for each in messages if each.HasField("step")]
            steps = await looking(house, player).own(game)
            assert [still_step(each) for each in steps[-len(streamed) :]] == streamed
            versions = [version for step in steps for version in _versions(step)]
            assert versions == list(range(1, steps[-1].to_version + 1))
            middle = steps[len(steps) // 2]
            part = await looking(house, player).own(
                game, from_version=middle.to_version, to_version=middle.to_version
            )
            assert part == [middle]


def _versions(step: game_pb2.Step) -> range:
    return range(step.from_version, step.to_version + 1)


async def test_a_running_game_is_replayed_up_to_now(tmp_path: Path) -> None:
    """To who sits in it; a spectator is refused, to others and operators it is not there."""
    async with system(tmp_path) as house:
        request = await house.open(setup("rami", people=2, bots=0, spectators=True))
        hidden = await house.open(setup("rami", people=2, bots=0))
        player, game = house.game(request.seats[0].player_id), request.game_id
        view = await dealt(player, game)
        steps = await looking(house, player).own(game)
        assert (steps[-1].view.version, steps[-1].view.rami) == (view.version, view.rami)
        stranger = looking(house, house.game(new_id()))
        assert (await refusal(stranger.own(game))).reason == "NOT_SEATED"
        assert (await refusal(stranger.own(hidden.game_id))).reason == "GAME_NOT_FOUND"
        assert (await refusal(stranger.share(hidden.game_id))).reason == "GAME_NOT_FOUND"
        refused = await refusal(looking(house, player).share(game))
        assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "GAME_RUNNING")


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_link_shows_what_the_table_saw_to_anybody(tmp_path: Path, variant: str) -> None:
    """Without an account, and nothing that names anybody or the game; every card in it was shown at
    the table. Until it is revoked; then it is like no link at all."""
    async with system(tmp_path) as house:
        asked = setup(variant, people=1, bots=SEATS[variant] - 1, spectators=True)
        request = await house.open(asked)
        player, game = house.game(request.seats[0].player_id), request.game_id
        watching = asyncio.create_task(_watched(house.game(new_id()), game))
        await play_out(player, game, Random(7))
        seen = await watching
        end = await player.view(game)
        mine, anybody = looking(house, player), looking(house, None)
        made = await mine.share(game, "once")
        assert await mine.share(game, "once") == made
        steps, summary = await anybody.shared(made.token), await anybody.summary(made.token)
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        assert summary.stage == steps[-1].view.stage == view_pb2.STAGE_FINISHED
        assert [line.place for line in summary.result.seats] == [s.place for s in end.result.seats]
        assert sum(bool(seat.bot_level) for seat in summary.seats) == SEATS[variant] - 1
        told = b"".join(each.SerializeToString() for each in (*steps, summary))
        for named_ in (game, request.table_id, *(seat.player_id for seat in request.seats)):
            assert named_.encode() not in told
        for seed in (end.server_seed, end.server_seed_hash):
            assert seed not in told
        tables = [(_told(step.happenings), getattr(step.view, variant)) for step in seen]
        shown = [(_told(step.happenings), getattr(step.view, variant)) for step in steps]
        live = [each for each in tables if each[0]]
        assert live
        assert shown[-len(live) :] == live
        revoke = pb.RevokeShareRequest(request_id="r", share_id=made.share.share_id)
        await player.call(mine.stub.RevokeShare, revoke)
        for token in (made.token, "x" * 43):
            for asking in (anybody.shared(token), anybody.summary(token)):
                refused = await refusal(asking)
                assert (refused.kind, refused.reason) == (Kind.NOT_FOUND, "SHARE_NOT_FOUND")
        listed = await player.call(mine.stub.ListShares, pb.ListSharesRequest())
        assert list(listed.shares) == []


async def _watched(spectator: Seat, game: str) -> list[game_pb2.Step]:
    """The steps that a spectator is sent."""
    return [each.step async for each in spectator.watch(game) if each.HasField("step")]


def _told(happenings: Iterable[view_pb2.Happening]) -> list[Message]:
    """What happened at the table itself, without versions and moments."""
    kept = []
    for happening in happenings:
        kind = happening.WhichOneof("happening") or ""
        if kind in (*VARIANTS, "bot_took_over", "player_returned"):
            kept.append(getattr(happening, kind))
        elif kind == "finished":
            kept.append(view_pb2.Finished())
    return kept


def opened_later(append: audit.Append) -> audit.Append:
    """The same append with other seeds and other cards laid open."""

    def other(event: Any) -> Any:
        match event:
            case DealRevealed():
                deck = tuple(reversed(event.deck))
                return replace(event, seed=bytes(32), deck=deck, dropped=())
            case GameFinished():
                return replace(event, server_seed=bytes(32))
            case SeedRevealed():
                return replace(event, seed=bytes(16))
            case GameOpened():
                return replace(event, server_seed_hash=bytes(32))
            case _:
                return event

    return replace(append, events=tuple(map(other, append.events)))


def whole_game(variant: str, number: int) -> list[audit.Append]:
    """A random game whose cards were all laid open, from its rows."""
    rng = Random(f"shared {variant} {number}")
    for _ in range(60):
        commands = worlds.game(variant, SEATS[variant], rng, 4_000, "own")
        first: Any = commands[0]
        commands[0] = replace(first, options=replace(first.options, reveal="full"))
        world = worlds.run(commands, {})
        if world[-1].after.stage is Stage.FINISHED:
            return [audit.Append(a.rows, a.events, a.before, a.after) for a in world]
    raise AssertionError("no game came to its end")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_link_shows_nothing_that_was_laid_open_afterwards(variant: str) -> None:
    """Games played to the end with all decks published: with other seeds and other decks laid open
    every step is the same, and no card is in them that the rules had not shown to the public."""
    for number in range(2):
        game = whole_game(variant, number)
        assert any(isinstance(e, DealRevealed) for a in game for e in a.events)
        steps = list(shared.steps(game))
        assert steps == list(shared.steps(map(opened_later, game)))
        told = {card for step in steps for card in named(step)}
        assert told
        assert told <= set(shown_at_the_table(game))


def shown_at_the_table(game: list[audit.Append]) -> Iterator[Card]:
    """Every card that the rules show to the public, at any time."""
    for append in game:
        state = append.after
        public = replace(state, seats=tuple(replace(seat, seed=b"") for seat in state.seats))
        yield from named(views.game_view(public, None, bytes(32)))
        for event in append.events:
            if isinstance(event, EngineEvent):
                shown = engine_for(state.rules).show(event.event, None)
                if shown is not None:
                    row = append.rows[0]
                    octets = views.happening(state.rules, row, event, shown) or b""
                    yield from named(view_pb2.Happening.FromString(octets))


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_outcome_is_one_players(variant: str) -> None:
    """One seat has won where anybody has; in a null deal, and in between in Durak, it is even."""
    state = whole_game(variant, 0)[-1].after
    result = state.result
    assert result is not None
    outcomes = [outcome_of(state, seat.player_id) for seat in state.seats]
    for number, outcome in enumerate(outcomes):
        won, last = number == result.winner, number == result.durak
        lost = last or (variant != "durak" and result.winner is not None and not won)
        expected = (
            game_pb2.GAME_OUTCOME_WON
            if won
            else game_pb2.GAME_OUTCOME_LOST
            if lost
            else game_pb2.GAME_OUTCOME_EVEN
        )
        assert outcome == expected
    null = replace(state, result=Result(None, None, True, result.seats))
    assert {outcome_of(null, s.player_id) for s in state.seats} == {game_pb2.GAME_OUTCOME_EVEN}
    assert outcome_of(state, new_id()) == game_pb2.GAME_OUTCOME_UNSPECIFIED
    running: State = replace(state, result=None, stage=Stage.PLAYING)
    assert outcome_of(running, state.seats[0].player_id) == game_pb2.GAME_OUTCOME_UNSPECIFIED


async def test_a_list_holds_what_is_asked_for_page_by_page(tmp_path: Path) -> None:
    """By game, table, outcome and whether it runs, combined by chance: those of all games that fit,
    newest first, each once, whatever the size of a page."""
    async with system(tmp_path) as house:
        me, tables, played = new_id(), (new_id(), new_id()), []
        for number, (variant, table) in enumerate(itertools.product(VARIANTS, tables)):
            request = setup(variant, people=1, bots=1)
            request.seats[0].player_id, request.table_id = me, table
            request = await house.open(request)
            if number % 3:
                await play_out(house.game(me), request.game_id, Random(number))
            played.append(request.game_id)
        player = house.game(me)
        listed = await _pages(player, game_pb2.ListGamesRequest(), 100)
        assert [game.game_id for game in listed] == played[::-1]
        for game in listed:
            assert bool(game.outcome) == (game.stage >= view_pb2.STAGE_FINISHED)
        combined = list(itertools.product(range(4), ("", *tables), range(5), (None, True, False)))
        for variant_, table_, outcome, running in Random(9).sample(combined, 60):
            asked = game_pb2.ListGamesRequest(table_id=table_)
            asked.variant, asked.outcome = variant_, outcome  # type: ignore[assignment]
            if running is not None:
                asked.running = running
            expected = [
                game.game_id
                for game in listed
                if variant_ in (0, game.variant)
                and table_ in ("", game.table_id)
                and outcome in (0, game.outcome)
                and running in (None, game.stage < view_pb2.STAGE_FINISHED)
            ]
            found = await _pages(player, asked, 1 + outcome)
            assert [game.game_id for game in found] == expected, asked
        everybodys = game_pb2.ListGamesRequest(outcome=game_pb2.GAME_OUTCOME_WON)
        operator = house.operator
        refused = await refusal(operator.call(operator.games.ListGames, everybodys))
        assert [each.field for each in refused.fields] == ["outcome"]


async def _pages(
    player: Seat, request: game_pb2.ListGamesRequest, size: int
) -> list[game_pb2.GameSummary]:
    """All games of a list, by pages of a size."""
    found: list[game_pb2.GameSummary] = []
    request.page_size = size
    while True:
        page = await player.call(player.games.ListGames, request)
        assert len(page.games) <= size
        found += page.games
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token
