"""The bots' RPCs over loopback: what is answered, what is refused, who may call."""

from collections.abc import AsyncIterator, Callable
from itertools import islice
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from kozyr.ai.v1 import ai_pb2 as pb

from engines.api import Act
from services.ai.bots import Level
from services.ai.minds import Minds
from services.ai.thinking import Question, Thought
from services.kernel.errors import Kind, Refused
from services.runtime.wire import games
from tests.engines.laws import Decks
from tests.services.ai.garble import garble
from tests.services.ai.host import VARIANTS, Host, hard, hosting, move_of, question
from tests.services.ai.positions import Position, random_games

PLAYER = "00000000-0000-4000-8000-000000000001"
GAMES = ("azi", "durak", "rami")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    """A service that serves all tests; it keeps nothing of any."""
    async with hosting(tmp_path_factory.mktemp("ai")) as made:
        yield made


def positions(game: str, count: int) -> list[Position]:
    """Positions with a choice, from several games."""
    found: list[Position] = []
    for played in random_games(game, range(100)):
        found += islice((p for p in played if len(p.view.legal) > 1), 12)
        if len(found) >= count:
            return found[:count]
    raise AssertionError("too few positions")


async def refusal(host: Host, request: pb.ChooseMoveRequest, who: str = "game") -> Refused:
    """How a question is refused."""
    with pytest.raises(Refused) as caught:
        await host.choose(request, who)
    return caught.value


@pytest.mark.parametrize("game", GAMES)
async def test_a_bot_answers_with_a_legal_move_and_a_reason(host: Host, game: str) -> None:
    """Every level answers, says how well it played, and the rules accept what it chose."""
    engine: Any = games.of(game).engine
    for position in positions(game, 20):
        for level in Level:
            answer = await host.choose(question(position, level, seed=b"1", budget_ms=5_000))
            move = Act(position.seat, move_of(game, answer))
            assert engine.decide(position.state, move, Decks(1))
            assert answer.reason.endswith(".")
            assert Level(answer.level) is level
            assert answer.thought_us >= 0


async def test_equal_requests_have_equal_answers(host: Host) -> None:
    """The same request again gives the same move, reason and level."""
    for position in positions("azi", 40):
        first = await host.choose(hard(position, seed=b"one"))
        again = await host.choose(hard(position, seed=b"one"))
        assert (again.move, again.reason, again.level) == (first.move, first.reason, first.level)


async def test_what_happened_around_a_game_is_no_matter_to_a_bot(host: Host) -> None:
    """Happenings of the game service itself are passed over."""
    (position,) = positions("durak", 1)
    plain, around = question(position), question(position)
    around.history.add().opened.server_seed_hash = bytes(32)
    around.history.add().bot_took_over.seat = 1
    assert (await host.choose(around)).move == (await host.choose(plain)).move


async def test_everybody_may_see_the_roster(host: Host) -> None:
    """Nine bots, each of another game and level, with a name and a description of its own."""
    client, stub = host.stub(PLAYER)
    bots = (await client.call(stub.ListBots, pb.ListBotsRequest())).bots
    assert {(b.variant, b.level) for b in bots} == {
        (variant, level.value) for variant in VARIANTS.values() for level in Level
    }
    assert len({b.name for b in bots}) == len({b.description for b in bots}) == len(bots) == 9
    assert all(b.budget_ms > 0 for b in bots)


@pytest.mark.parametrize("who", ["game", PLAYER])
async def test_a_game_and_a_player_may_ask(host: Host, who: str) -> None:
    """A player asks with the view it was shown, and gets a hint."""
    (position,) = positions("rami", 1)
    assert (await host.choose(question(position), who)).reason


async def test_a_table_without_hints_has_none_here_either(host: Host) -> None:
    """A player's view says so; the game's own bots move there as anywhere."""
    (position,) = positions("rami", 1)
    asked = question(position)
    asked.view.no_hints = True
    with pytest.raises(Refused, match="NO_HINTS"):
        await host.choose(asked, PLAYER)
    assert (await host.choose(asked, "game")).reason


async def test_a_hint_comes_after_the_moves_of_bots_whoever_asks_for_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The player himself, whatever he says, or a game that names him; a bot's move names none."""
    (position,) = positions("rami", 1)
    askers, think = [], Minds.think

    async def noted(minds: Minds, asked: Question, asker: str = "") -> Thought:
        askers.append(asker)
        return await think(minds, asked, asker)

    monkeypatch.setattr(Minds, "think", noted)
    other = PLAYER.replace("1", "2")
    for named, who in (("", PLAYER), (other, PLAYER), (PLAYER, "game")):
        await host.choose(question(position, hint_for=named), who)
    await host.choose(question(position))
    assert askers == [PLAYER, PLAYER, PLAYER, ""]
    with pytest.raises(Refused, match="hint_for"):
        await host.choose(question(position, hint_for="somebody"))


@pytest.mark.parametrize(
    ("who", "kind"),
    [
        ("lobby", Kind.DENIED),
        ("wallet", Kind.DENIED),
        ("operator", Kind.DENIED),
        ("nobody", Kind.UNAUTHENTICATED),
    ],
)
async def test_others_may_not_ask(host: Host, who: str, kind: Kind) -> None:
    """Who plays no game has no move to ask for."""
    (position,) = positions("rami", 1)
    assert (await refusal(host, question(position), who)).kind is kind


def unset_level(request: Any) -> None:
    """No level."""
    request.level = 0


def unknown_level(request: Any) -> None:
    """A level there is not."""
    request.level = 9


def no_view(request: Any) -> None:
    """No view."""
    request.ClearField("view")


def no_variant(request: Any) -> None:
    """A view of no game."""
    request.view.variant = 0


def wrong_variant(request: Any) -> None:
    """A view of one game with the table of another."""
    request.view.variant = VARIANTS["rami"]


def other_history(request: Any) -> None:
    """What happened in another game."""
    request.history.add().rami.SetInParent()


def empty_happening(request: Any) -> None:
    """A happening of the game that is none."""
    request.history.add().durak.SetInParent()


def negative_budget(request: Any) -> None:
    """Less than no time."""
    request.budget_ms = -1


def long_budget(request: Any) -> None:
    """More time than there is."""
    request.budget_ms = 3_600_000


def long_seed(request: Any) -> None:
    """A seed too long."""
    request.seed = bytes(65)


def strange_game(request: Any) -> None:
    """A game's id that is no id."""
    request.view.game_id = "no id"


def other_seat(request: Any) -> None:
    """Two seats in one view."""
    request.view.seat = 1 - request.view.durak.seat


def far_seat(request: Any) -> None:
    """A seat beyond the table."""
    request.view.ClearField("seat")
    request.view.durak.seat = 77


def doubled_card(request: Any) -> None:
    """A card that lies twice in the hand."""
    request.view.durak.hand.append(request.view.durak.hand[0])


def strange_card(request: Any) -> None:
    """A card that this game does not have."""
    request.view.durak.hand[0] = 1


def foreign_move(request: Any) -> None:
    """A legal move with a card out of another hand."""
    request.view.durak.ClearField("hand")


def no_trump(request: Any) -> None:
    """No trump suit."""
    request.view.durak.ClearField("trump")


def no_defender(request: Any) -> None:
    """Nobody defends."""
    request.view.durak.ClearField("defender")


def wrong_phase(request: Any) -> None:
    """Moves that are not those of the phase."""
    request.view.durak.phase = 5


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (unset_level, "level"),
        (unknown_level, "level"),
        (no_view, "view"),
        (no_variant, "view.variant"),
        (wrong_variant, "view.durak"),
        (other_history, "history["),
        (empty_happening, "history["),
        (negative_budget, "budget_ms"),
        (long_budget, "budget_ms"),
        (long_seed, "seed"),
        (strange_game, "view.game_id"),
        (other_seat, "view.seat"),
        (far_seat, "view.durak.seat"),
        (doubled_card, "view.durak.hand"),
        (strange_card, "view.durak.hand"),
        (foreign_move, "view.durak.legal"),
        (no_trump, "view.durak.trump"),
        (no_defender, "view.durak.defender"),
        (wrong_phase, "view.durak.legal"),
    ],
)
async def test_a_spoilt_question_is_refused_naming_the_field(
    host: Host, spoil: Callable[[Any], None], field: str
) -> None:
    """Each is INVALID_ARGUMENT with the field at fault."""
    request = question(positions("durak", 1)[0])
    spoil(request)
    refused = await refusal(host, request)
    assert refused.kind is Kind.INVALID
    assert refused.fields[0].field.startswith(field)


async def test_a_seat_that_is_not_asked_has_no_move(host: Host) -> None:
    """Another seat's view, a spectator's, and a game without cards are FAILED_PRECONDITION."""
    (position,) = positions("durak", 1)
    engine, state = games.of("durak").engine, position.state
    for viewer in (1 - position.seat if position.seat < 2 else 0, None):
        request = question(position)
        request.view.ClearField("seat")
        shown = games.of("durak").view.to_wire(engine.view(state, viewer))
        request.view.durak.CopyFrom(shown)
        refused = await refusal(host, request)
        assert (refused.kind, refused.reason) == (Kind.PRECONDITION, "NO_MOVE")
    undealt = question(position)
    undealt.view.ClearField("durak")
    assert (await refusal(host, undealt)).reason == "NO_MOVE"


@pytest.mark.parametrize("game", GAMES)
async def test_no_view_breaks_a_bot(host: Host, game: str) -> None:
    """A view with a few random changes is answered with one of its moves, or refused; never more.

    What a bot could not read would be answered as a view that does not fit together at all.
    """
    rng, answered, refused = Random(game), 0, 0
    for position in positions(game, 60):
        for level in Level:
            request = question(position, level, budget_ms=5_000)
            for _ in range(rng.choice((1, 1, 2, 4))):
                garble(getattr(request.view, game), rng)
            outcome = await host.outcome(request)
            if isinstance(outcome, Refused):
                assert outcome.kind in (Kind.INVALID, Kind.PRECONDITION), outcome.reason
                assert [f.field for f in outcome.fields] != ["view"], request
                refused += 1
            else:
                moves = getattr(request.view, game).legal
                move = getattr(outcome.move, game)
                assert move in moves or move.HasField("bid")
                answered += 1
    assert answered > 10
    assert refused > 10
