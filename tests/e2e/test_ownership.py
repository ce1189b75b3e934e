"""Whoever asks about what is not his learns nothing, not even whether it is there: every RPC that
names a thing, every kind of caller, over real processes. The rows follow from the access table."""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from kozyr.game.v1 import audit_pb2, history_pb2, variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2, talk_pb2

from services.client.player import Player
from services.kernel.ids import uuid7
from services.runtime.access import ACCESS
from services.runtime.auth import Role
from services.runtime.settings import SERVICES
from tests.e2e.house import Answer, House, house, play_out, rules, start, until
from tests.rpcs import path, rpcs

Code = grpc.StatusCode
NOBODY = str(uuid7(1_790_000_000_000, bytes(10)))
NO_DISPUTE = NOBODY[:14] + "8" + NOBODY[15:]
THINGS = ("game_id", "dispute_id", "table_id", "account_id", "player_id", "share_id")
"""Fields that name something which belongs to somebody, or somebody."""
NOTHING = {**dict.fromkeys(THINGS, NOBODY), "dispute_id": NO_DISPUTE}
ABOUT_NOTHING_OF_OTHERS = {
    *("ChooseMove", "ListBots"),  # what is asked stands in the question
    *("GetConsistencyProof", "ListCheckpoints"),  # of the tree, which anybody may keep
    *("CreateTable", "QuickPlay", "ListTables"),  # one's own, and what is listed for all
    "ListTalk",  # one's own
    "ListPlayers",  # names, for whoever knows the ids
    "ListLeaders",  # who wants to be seen there
    *("SetListed", "SetLimit", "WithdrawLimitChange", "ExcludeMyself"),  # one's own
    *("SetPassword", "RenewSecret", "AddDevice", "RemoveDevice", "LinkExternal"),  # one's own
    *("SignOut", "SignOutEverywhere"),  # one's own
}
"""RPCs that players may call and that name none of `THINGS`, and why that is in order."""
NO_LOOKS = {
    *("ListLogs", "ListGames", "ListCheckpoints", "GetConsistencyProof", "GetCoverage"),
    *("ListAccesses", "ListShares"),
}
"""RPCs by which an operator sees heads, ids and counts alone, and who looked at what."""
NUMBERS = itertools.count(1)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Scene:
    """What belongs to one player, by the field that names it; one who shares the games, and one
    who has nothing to do with any of it."""

    house: House
    one: Player
    two: Player
    stranger: Player
    theirs: Mapping[str, Sequence[str]]

    def callers(self) -> dict[str, str | None]:
        """Everybody who may ask, with his token."""
        tokens: dict[str, str | None] = {name: self.house.token(name) for name in SERVICES}
        tokens |= {"anonymous": None, "operator": self.house.token("operator")}
        return {**tokens, "stranger": self.stranger.access_token}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Two players at a running and at a finished game, a dispute, and a private table."""
    async with house(tmp_path_factory.mktemp("own"), KOZYR_CHECKPOINT_MS="100") as given:
        one, two, stranger = [await given.player() for _ in range(3)]
        _, running = await start(one, rules("rami", 2, turn_ms=600_000), two)
        _, finished = await start(one, rules("durak", 2))
        await play_out(one, finished, Random(5))
        hidden = lobby_pb2.CreateTableRequest(
            request_id="hidden", rules=rules("durak", 3, visibility=lobby_pb2.VISIBILITY_PRIVATE)
        )
        made = await given.send("lobby", "CreateTable", hidden, one.access_token)
        table = lobby_pb2.CreateTableResponse.FromString(made.reply).table.table_id
        complaint = audit_pb2.OpenDisputeRequest(
            request_id="d", game_id=running, complaint="Not fair."
        )
        opened = await given.send("game", "OpenDispute", complaint, one.access_token)
        dispute = audit_pb2.OpenDisputeResponse.FromString(opened.reply).dispute.dispute_id
        sharing = history_pb2.ShareGameRequest(request_id="s", game_id=finished)
        shared = await given.send("game", "ShareGame", sharing, one.access_token)
        share = history_pb2.ShareGameResponse.FromString(shared.reply).share.share_id
        theirs = {
            "game_id": [running, finished],
            "dispute_id": [dispute],
            "table_id": [table],
            "account_id": [one.player_id],
            "player_id": [one.player_id],
            "share_id": [share],
        }
        yield Scene(given, one, two, stranger, theirs)
        for player in (one, two, stranger):
            await player.close()


def about(method: MethodDescriptor, field: str, thing: str, player: str) -> bytes:
    """A request about a thing, all else in order as far as that can be."""
    request: Any = GetMessageClass(method.input_type)()
    filled = {
        "request_id": f"own-{next(NUMBERS)}",
        "hash": bytes(32),
        "seed": bytes(32),
        "complaint": "This is not fair.",
        "explanation": "It is so.",
        "ruling": audit_pb2.RULING_UPHELD,
        "level": variant_pb2.BOT_LEVEL_EASY,
        "kick_reason": lobby_pb2.KICK_REASON_OTHER,
        "player_id": player,
        "table_id": NOTHING["table_id"],
        "text": "Hm.",
        "emote": talk_pb2.EMOTE_HELLO,
        "turn": 1,
        "chips": 20,
        "key_id": "1",
        "confirm_name": "Player 1",
        field: thing,
    }
    for each in request.DESCRIPTOR.fields:
        if each.name in filled and each.type != FieldDescriptor.TYPE_MESSAGE:
            setattr(request, each.name, filled[each.name])
    return bytes(request.SerializeToString())


def rows() -> list[Any]:
    """Every RPC with each field of it that names a thing."""
    return [
        pytest.param(service, method, field.name, id=f"{method.name} {field.name}")
        for service, method in rpcs()
        for field in method.input_type.fields
        if field.name in THINGS and not ACCESS[path(method)].public
    ]


def may(method: MethodDescriptor, caller: str) -> bool:
    """Whether the access table lets a caller in."""
    row = ACCESS[path(method)]
    role = {"stranger": "player"}.get(caller, caller)
    return role in {each.value for each in row.roles} | row.services


def told(answer: Answer) -> tuple[Any, ...]:
    """All that an answer says, but for the number of the call."""
    facts = [
        (info.reason, info.domain, sorted((k, v) for k, v in info.metadata.items()))
        for info in answer.infos
    ]
    for _, _, metadata in facts:
        metadata[:] = [(k, v) for k, v in metadata if k != "request_id"]
    kinds = [detail.TypeName() for detail in answer.status.details]
    return answer.code, answer.reply, answer.text, answer.fields, facts, kinds


@pytest.mark.parametrize(("service", "method", "field"), rows())
async def test_what_is_not_ones_own_is_like_nothing_at_all(
    scene: Scene, service: str, method: MethodDescriptor, field: str
) -> None:
    """Whoever may not call is told the same of a thing that is there and of one that is not; and so
    is a player whom it does not concern, beyond the checks that look at the request alone."""
    for caller, token in scene.callers().items():
        if may(method, caller) and caller != "stranger":
            continue
        answers = []
        for thing in (*scene.theirs[field], NOTHING[field]):
            raw = about(method, field, thing, scene.one.player_id)
            answers.append(await scene.house.ask(service, method, raw, token))
        first, *others = map(told, answers)
        assert others == [first] * len(others), caller
        code, reason = answers[0].code, answers[0].reason
        if caller == "anonymous":
            assert (code, reason) == (Code.UNAUTHENTICATED, "TOKEN_MISSING")
        elif not may(method, caller):
            assert (code, reason) == (Code.PERMISSION_DENIED, "ROLE_NOT_ALLOWED"), caller
        else:
            assert code in (Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.OK), reason


def audited() -> list[Any]:
    """The rows of the services that tell of logs, the tree and keys."""
    names = ("AuditService", "CheckpointService", "KeyService")
    return [
        row
        for row in rows()
        if row.values[1].containing_service.name in names and row.values[2] != "player_id"
    ]


@pytest.mark.parametrize(("service", "method", "field"), audited())
async def test_an_operator_is_told_that_there_is_nothing(
    scene: Scene, service: str, method: MethodDescriptor, field: str
) -> None:
    """A thing that does not exist is no internal error: lists are empty, all else is refused."""
    if not may(method, "operator"):
        return
    raw = about(method, field, NOTHING[field], scene.one.player_id)
    answer = await scene.house.ask(service, method, raw, scene.house.token("operator"))
    if method.name == "ListAccesses":  # of looks at nothing, such as these
        assert answer.code is Code.OK
    elif method.name.startswith("List"):
        assert (answer.code, answer.reply) == (Code.OK, b"")
    elif method.name == "GetInclusionProof":
        assert (answer.code, answer.reason) == (Code.FAILED_PRECONDITION, "NOT_CHECKPOINTED")
    else:
        what = field.removesuffix("_id").upper()
        assert (answer.code, answer.reason) == (Code.NOT_FOUND, f"{what}_NOT_FOUND")


async def test_every_rpc_that_players_may_call_has_been_thought_of() -> None:
    """It names something of theirs, and so has a row above, or is known not to."""
    for_players = {method.name for _, method in rpcs() if Role.PLAYER in ACCESS[path(method)].roles}
    named = {row.values[1].name for row in rows()}
    assert for_players - named == ABOUT_NOTHING_OF_OTHERS


async def test_every_look_of_an_operator_leaves_a_line(scene: Scene) -> None:
    """Of every RPC of the game service that he may call and that changes nothing, but of lists of
    heads and the like; what he changes stands in a log under his name."""
    token = scene.house.token("operator")

    async def newest() -> tuple[int, str]:
        request = audit_pb2.ListAccessesRequest(page_size=1)
        answer = await scene.house.send("game", "ListAccesses", request, token)
        page = audit_pb2.ListAccessesResponse.FromString(answer.reply).accesses
        return (page[0].number, page[0].action) if page else (0, "")

    silent = set()
    for service, method in rpcs():
        named = [field.name for field in method.input_type.fields]
        if service != "game" or not may(method, "operator") or "request_id" in named:
            continue
        field = next((name for name in named if name in THINGS), "")
        raw = about(method, field, scene.theirs[field][0] if field else "", scene.one.player_id)
        before, _ = await newest()
        answer = await scene.house.ask(service, method, raw, token)
        number, action = await newest()
        if number == before:
            silent.add(method.name)
        else:
            assert (number, action) == (before + 1, method.name), answer
    assert silent == NO_LOOKS


async def test_who_shares_a_game_does_not_share_a_complaint(scene: Scene) -> None:
    """He sees that there is a dispute about his game, and none of its words; lists of disputes by
    another's id hold none of the other's."""
    token = scene.two.access_token
    (dispute,), game = scene.theirs["dispute_id"], scene.theirs["game_id"][0]
    asked = audit_pb2.GetDisputeRequest(dispute_id=dispute)
    answer = await scene.house.send("game", "GetDispute", asked, token)
    seen = audit_pb2.GetDisputeResponse.FromString(answer.reply).dispute
    assert (seen.dispute_id, seen.complaint) == (dispute, "")
    for player in ("", scene.one.player_id, scene.two.player_id):
        listed = audit_pb2.ListDisputesRequest(player_id=player)
        for by in (token, scene.stranger.access_token):
            answer = await scene.house.send("game", "ListDisputes", listed, by)
            assert (answer.code, answer.reply) == (Code.OK, b"")
    listed = audit_pb2.ListDisputesRequest(game_id=game, player_id=scene.one.player_id)
    answer = await scene.house.send("game", "ListDisputes", listed, token)
    page = audit_pb2.ListDisputesResponse.FromString(answer.reply).disputes
    assert [(each.dispute_id, each.complaint) for each in page] == [(dispute, "")]


async def test_nothing_of_it_moved_anything(scene: Scene) -> None:
    """After all that was refused the game runs, the dispute is open, the books balance."""
    (dispute,), (running, _) = scene.theirs["dispute_id"], scene.theirs["game_id"]
    assert (await scene.one.view(running)).stage == view_pb2.STAGE_PLAYING
    asked = audit_pb2.GetDisputeRequest(dispute_id=dispute)
    answer = await scene.house.send("game", "GetDispute", asked, scene.one.access_token)
    state = audit_pb2.GetDisputeResponse.FromString(answer.reply).dispute.state
    assert state == audit_pb2.DisputeState.DISPUTE_STATE_OPEN
    assert (await scene.house.trial()).sound

    async def covered() -> bool:
        verdict = await scene.house.verify(running)
        return not verdict.faults and verdict.covered_version > 0

    await until(covered)
