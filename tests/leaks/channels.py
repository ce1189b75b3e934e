"""Every channel by which anything leaves the game service, and what a viewer is told by it.

A channel is a function from a house in which a world was played to what the viewer is sent:
`Told` pieces, of which two worlds alike to him give equal ones, and in which no card stands that he
may not know. One more channel is one more line of `CHANNELS`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from kozyr.game.v1 import audit_pb2, checkpoint_pb2, game_pb2, history_pb2, variant_pb2

from services.game import domain
from services.runtime.wire import games as wire
from tests.leaks import octets
from tests.leaks.house import GAME, House, Said
from tests.runtime.series import moved
from tests.services.game.logs import GAME_ID
from tests.services.game.worlds import Viewer

AUDIT = "/kozyr.game.v1.AuditService/"
HISTORY = "/kozyr.game.v1.HistoryService/"
CHECKPOINT = "/kozyr.game.v1.CheckpointService/"
GAME_TEXT = str(GAME_ID)


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of what was sent: in comparable form, its octets, and the cards it names."""

    form: Any
    octets: bytes
    cards: frozenset[int]


@dataclass(frozen=True, slots=True)
class Asking:
    """Who looks, and the commands he tries in vain at the end."""

    viewer: Viewer
    tries: Sequence[domain.GameCommand] = ()


Channel = Callable[[House, Asking], Awaitable[list[Told]]]


def of_message(message: Message) -> Told:
    """A message that was sent."""
    raw = message.SerializeToString(deterministic=True)
    return Told(octets.constants(message), raw, frozenset(octets.named(message)))


def of_text(form: Any, said: str) -> Told:
    """A text that was sent, in comparable form."""
    return Told(form, said.encode(), frozenset(octets.spelt(said)))


def pieces(said: Said, shape: Any) -> list[Told]:
    """How a call was answered."""
    told = [of_message(shape.FromString(reply)) for reply in said.replies]
    if said.code != "OK":
        told.append(Told(said.code, b"", frozenset()))
        told += [of_message(part) for part in octets.refusal(said.details)]
    return told


async def view(house: House, asking: Asking) -> list[Told]:
    """GetGame."""
    said = await house.ask(
        f"{GAME}GetGame", game_pb2.GetGameRequest(game_id=GAME_TEXT), asking.viewer
    )
    return pieces(said, game_pb2.GetGameResponse)


async def happenings(house: House, asking: Asking) -> list[Told]:
    """GetGame with all that happened."""
    request = game_pb2.GetGameRequest(history=True, game_id=GAME_TEXT)
    return pieces(
        await house.ask(f"{GAME}GetGame", request, asking.viewer), game_pb2.GetGameResponse
    )


async def stream(house: House, asking: Asking) -> list[Told]:
    """WatchGame from the opening on, resume tokens in it."""
    messages = house.streams[asking.viewer].messages
    return [of_message(game_pb2.WatchGameResponse.FromString(each)) for each in messages]


async def resumed(house: House, asking: Asking) -> list[Told]:
    """WatchGame taken up again in the middle, by a token."""
    messages = house.streams[asking.viewer].messages
    shape = game_pb2.WatchGameResponse
    token = shape.FromString(messages[len(messages) // 2]).resume_token
    until = await house.shown(asking.viewer)
    request = game_pb2.WatchGameRequest(resume_token=token, game_id=GAME_TEXT)
    told: list[Told] = []
    bearer = [("authorization", f"Bearer {house.token(asking.viewer)}")]
    channel: Any = house.channel
    call = channel.unary_stream(f"{GAME}WatchGame")(
        request.SerializeToString(), metadata=bearer, timeout=30
    )
    async for reply in call:
        message = shape.FromString(reply)
        told.append(of_message(message))
        if max(message.step.to_version, message.snapshot.view.version) >= until or (
            message.heartbeat.version >= until
        ):
            break
    call.cancel()
    return told


async def own_replay(house: House, asking: Asking) -> list[Told]:
    """ReplayOwnGame."""
    request = history_pb2.ReplayOwnGameRequest(game_id=GAME_TEXT)
    said = await house.ask(f"{HISTORY}ReplayOwnGame", request, asking.viewer)
    return pieces(said, history_pb2.ReplayOwnGameResponse)


async def shared_game(house: House, asking: Asking) -> list[Told]:
    """What a player's link shows to whoever has it; while the game runs there is none."""
    seats = (await house.state()).seats
    sharer = next(number for number, seat in enumerate(seats) if seat.bot_level is None)
    request = history_pb2.ShareGameRequest(request_id="share", game_id=GAME_TEXT)
    made = await house.ask(f"{HISTORY}ShareGame", request, sharer)
    told = pieces(made, Message) if made.code != "OK" else []
    token = "none"
    if made.code == "OK":
        token = history_pb2.ShareGameResponse.FromString(made.replies[0]).token
    opened = history_pb2.GetSharedGameRequest(token=token)
    steps = history_pb2.ReplaySharedGameRequest(token=token)
    return [
        *told,
        *pieces(
            await house.ask(f"{HISTORY}GetSharedGame", opened, asking.viewer),
            history_pb2.GetSharedGameResponse,
        ),
        *pieces(
            await house.ask(f"{HISTORY}ReplaySharedGame", steps, asking.viewer),
            history_pb2.ReplaySharedGameResponse,
        ),
    ]


async def lists(house: House, asking: Asking) -> list[Told]:
    """ListGames, of one's own and of all, with page tokens."""
    request = game_pb2.ListGamesRequest(page_size=1)
    own = await house.ask(f"{GAME}ListGames", request, asking.viewer)
    every = await house.ask(f"{GAME}ListGames", request, operator=True)
    return [each for said in (own, every) for each in pieces(said, game_pb2.ListGamesResponse)]


async def errors(house: House, asking: Asking) -> list[Told]:
    """Refusals: of moves that the rules forbid, and of calls that are not allowed."""
    told: list[Told] = []
    state = await house.state()
    for number, command in enumerate(asking.tries):
        request = game_pb2.SubmitMoveRequest(
            request_id=f"try-{number}", turn=state.turn, game_id=GAME_TEXT
        )
        if isinstance(command, domain.Play):
            move = wire.of(state.variant).move.to_wire(command.move)
            getattr(request.move, state.variant).CopyFrom(move)
        said = await house.ask(f"{GAME}SubmitMove", request, asking.viewer)
        told += pieces(said, game_pb2.SubmitMoveResponse)
    for method, asked in REFUSED.items():
        said = await house.ask(method, asked(game_id=GAME_TEXT), asking.viewer)
        told += pieces(said, Message)
    stale = game_pb2.SubmitMoveRequest(request_id="stale", turn=state.turn + 7, game_id=GAME_TEXT)
    stale.move.rami.draw_stock.SetInParent()
    said = await house.ask(f"{GAME}SubmitMove", stale, asking.viewer)
    return [*told, *pieces(said, game_pb2.SubmitMoveResponse)]


REFUSED: Mapping[str, Any] = {
    f"{AUDIT}ReadLog": audit_pb2.ReadLogRequest,
    f"{AUDIT}VerifyGame": audit_pb2.VerifyGameRequest,
    f"{GAME}CommitSeed": game_pb2.CommitSeedRequest,
    f"{GAME}RevealSeed": game_pb2.RevealSeedRequest,
}
"""Calls that a player is refused once a game is under way."""


async def receipt(house: House, asking: Asking) -> list[Told]:
    """GetReceipt."""
    request = game_pb2.GetReceiptRequest(game_id=GAME_TEXT)
    said = await house.ask(f"{GAME}GetReceipt", request, asking.viewer)
    if said.code != "OK":
        return pieces(said, game_pb2.GetReceiptResponse)
    chunks = (game_pb2.GetReceiptResponse.FromString(each).chunk for each in said.replies)
    return [of_document(b"".join(chunks))]


def of_document(raw: bytes) -> Told:
    """A receipt: the cards that it opens, and those that its rows name in public."""
    form = octets.document(raw)
    cards = {entry["card"] for entry in form["receipt"]["cards"]}
    return Told(form, raw, frozenset(cards | set(octets.spelt(str(form["readable"])))))


async def tokens(house: House, asking: Asking) -> list[Told]:
    """All tokens of the stream, octet by octet: equal fields give equal tokens."""
    shape = game_pb2.WatchGameResponse
    found = [shape.FromString(m).resume_token for m in house.streams[asking.viewer].messages]
    return [Told(token.hex(), token, frozenset()) for token in found]


async def proof(house: House, asking: Asking) -> list[Told]:
    """GetInclusionProof, and what any player may see of the tree."""
    asked = checkpoint_pb2.GetInclusionProofRequest(game_id=GAME_TEXT)
    said = await house.ask(f"{CHECKPOINT}GetInclusionProof", asked, asking.viewer)
    listed = await house.ask(
        f"{CHECKPOINT}ListCheckpoints", checkpoint_pb2.ListCheckpointsRequest(), asking.viewer
    )
    return [
        *pieces(said, checkpoint_pb2.GetInclusionProofResponse),
        *pieces(listed, checkpoint_pb2.ListCheckpointsResponse),
    ]


async def hints(house: House, asking: Asking) -> list[Told]:
    """GetHint, and what the ai service is asked for it."""
    request = game_pb2.GetHintRequest(
        turn=(await house.state()).turn, level=variant_pb2.BOT_LEVEL_NORMAL, game_id=GAME_TEXT
    )
    said = await house.ask(f"{GAME}GetHint", request, asking.viewer)
    told = [*pieces(said, game_pb2.GetHintResponse), *map(of_message, house.advice)]
    house.advice.clear()
    return told


async def questions(house: House, asking: Asking) -> list[Told]:
    """What a bot in this seat was asked."""
    found = [] if asking.viewer is None else house.questions.get(asking.viewer, [])
    return [of_message(each) for each in found]


async def neighbours(house: House, asking: Asking) -> list[Told]:
    """What wallet and lobby are told at the end of a game: their logs hold nothing beyond it."""
    if not (await house.state()).ended:
        return []
    return [of_message(each) for each in await house.ended()]


async def minds(house: House, asking: Asking) -> list[Told]:
    """What the ai service writes to its log about the bots' questions, at level debug."""
    before = house.written.tell()
    for seat in sorted(house.questions):
        for question in house.questions[seat]:
            assert (await house.think(question)).code == "OK"
    lines = filter(None, house.written.getvalue()[before:].splitlines())
    return [of_text(octets.line(each), _said(each)) for each in lines]


async def timers(house: House, asking: Asking) -> list[Told]:
    """When what the server does by itself will happen: deadlines, bots' turns."""
    return [Told(each, repr(each).encode(), frozenset()) for each in house.timers]


async def audits(house: House, asking: Asking) -> list[Told]:
    """AuditService and the views, as an operator while the game runs; he may see all of its end."""
    if (await house.state()).ended:
        return []
    told: list[Told] = []
    game = {"game_id": GAME_TEXT}
    asked: list[tuple[str, Any, Any]] = [
        (f"{AUDIT}ReadLog", audit_pb2.ReadLogRequest, audit_pb2.ReadLogResponse),
        (f"{AUDIT}ReplayGame", audit_pb2.ReplayGameRequest, audit_pb2.ReplayGameResponse),
        (f"{AUDIT}ExportGame", audit_pb2.ExportGameRequest, audit_pb2.ExportGameResponse),
        (f"{AUDIT}VerifyGame", audit_pb2.VerifyGameRequest, audit_pb2.VerifyGameResponse),
        (f"{GAME}GetReceipt", game_pb2.GetReceiptRequest, game_pb2.GetReceiptResponse),
    ]
    for method, request, shape in asked:
        said = await house.ask(method, request(**game), operator=True)
        if shape is game_pb2.GetReceiptResponse and said.code == "OK":
            told.append(of_document(b"".join(shape.FromString(r).chunk for r in said.replies)))
        else:
            told += pieces(said, shape)
    for method, request, shape in (
        (f"{AUDIT}ListLogs", audit_pb2.ListLogsRequest(), audit_pb2.ListLogsResponse),
        (
            f"{GAME}GetGame",
            game_pb2.GetGameRequest(game_id=GAME_TEXT, history=True),
            game_pb2.GetGameResponse,
        ),
        (
            f"{CHECKPOINT}GetInclusionProof",
            checkpoint_pb2.GetInclusionProofRequest(game_id=GAME_TEXT),
            checkpoint_pb2.GetInclusionProofResponse,
        ),
    ):
        told += pieces(await house.ask(method, request, operator=True), shape)
    return told


async def evidence(house: House, asking: Asking) -> list[Told]:
    """GetEvidence about a dispute of a running game: its log, and who acted when."""
    if (await house.state()).ended:
        return []
    opening = audit_pb2.OpenDisputeRequest(request_id="d", game_id=GAME_TEXT, complaint="Hm.")
    opened = await house.ask(f"{AUDIT}OpenDispute", opening, 0)
    dispute = audit_pb2.OpenDisputeResponse.FromString(opened.replies[0]).dispute
    request = audit_pb2.GetEvidenceRequest(dispute_id=dispute.dispute_id)
    said = await house.ask(f"{AUDIT}GetEvidence", request, operator=True)
    shape = audit_pb2.GetEvidenceResponse
    raw = b"".join(shape.FromString(each).chunk for each in said.replies)
    whole = octets.document(raw)
    for event in whole["game"]["events"]:
        event["readable"] = octets.document(event["readable"])
    for line in whole["clock"]:
        line.update(dict.fromkeys(("at", "since", "deadline")))
    form = {name: whole[name] for name in ("game", "clock", "ledger", "reservations")}
    return [Told(form, raw, frozenset(octets.spelt(str(form))))]


async def logs(house: House, asking: Asking) -> list[Told]:
    """Every line that was logged, at level debug."""
    lines = filter(None, house.written.getvalue().splitlines())
    return [of_text(octets.line(each), _said(each)) for each in lines]


async def metrics(house: House, asking: Asking) -> list[Told]:
    """What has been counted since the world began; how long something took is no card's doing."""
    changes = {
        key: change
        for key, change in moved(house.before).items()
        if key[0] not in TIMED
        and not key[0].startswith("process_")
        and BY_CHANCE.isdisjoint(key[1])
    }
    lines = [f"{name} {dict(labels)} {changes[name, labels]}" for name, labels in sorted(changes)]
    return [of_text(line, line) for line in lines]


TIMED = frozenset({
    *("kozyr_rpc_seconds_bucket", "kozyr_rpc_seconds_sum", "kozyr_rpc_streams"),
    *("kozyr_ai_thought_seconds_bucket", "kozyr_ai_thought_seconds_sum"),
    *("kozyr_feed_polls_total", "kozyr_store_batch_appends_bucket", "kozyr_health_serving"),
})  # fmt: skip
"""Series that depend on how long something took."""
BY_CHANCE = frozenset({("method", f"{GAME}WatchGame")})
"""Labels of what ends when its caller has gone."""


async def traces(house: House, asking: Asking) -> list[Told]:
    """Every span that ended: its name, what it is below, what it says, and how it went."""
    ended = [span for span in house.ended_spans.spans if not span.name.endswith("/WatchGame")]
    names = {span.context.span_id: span.name for span in ended}
    said = []
    for span in ended:
        above = names.get(span.parent.span_id) if span.parent else None
        status = span.status.status_code.name
        facts = house.ended_spans.facts(span)
        said.append(f"{span.name} < {above}: {facts} {len(span.links)} links, {status}")
    return [of_text(line, line) for line in sorted(said)]


def _said(line: str) -> str:
    """What a line says, apart from where in the code something happened."""
    return str({k: v for k, v in octets.line(line).items() if k not in octets.LINE_CONSTANT})


CHANNELS: Mapping[str, Channel] = {
    "view": view,
    "happenings": happenings,
    "stream": stream,
    "resumed stream": resumed,
    "own replay": own_replay,
    "shared game": shared_game,
    "tokens": tokens,
    "lists": lists,
    "errors": errors,
    "receipt": receipt,
    "inclusion proof": proof,
    "hints": hints,
    "questions to bots": questions,
    "the ai's log": minds,
    "wallet and lobby": neighbours,
    "timers": timers,
    "audits": audits,
    "evidence": evidence,
    "metrics": metrics,
    "traces": traces,
    "logs": logs,
}
"""Every channel by its name, in the order in which they are asked; logs are read last."""
