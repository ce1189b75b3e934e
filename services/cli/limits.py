"""Limits of play at the command line: read, set, taken back, for oneself or for a player."""

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp
from kozyr.lobby.v1 import limits_pb2 as pb
from kozyr.lobby.v1.limits_pb2_grpc import LimitServiceStub

from services.cli.outcome import USAGE, Failure
from services.cli.shown import when
from services.cli.terminal import emit, grid, show
from services.client.calls import Caller

KINDS = {
    "loss-day": pb.LIMIT_KIND_LOSS_DAY,
    "loss-week": pb.LIMIT_KIND_LOSS_WEEK,
    "loss-month": pb.LIMIT_KIND_LOSS_MONTH,
    "stake-day": pb.LIMIT_KIND_STAKE_DAY,
    "time-day": pb.LIMIT_KIND_TIME_DAY,
}
NAMES = {kind: name for name, kind in KINDS.items()}
UNITS_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000}
FOR_GOOD = "for-good"
OWN = {
    "show": (0, "limits, what is used and left of them, when they renew (default)"),
    "set": (2, "KIND AMOUNT: chips, or a time such as 2h or 90m; tighter at once, looser in a day"),
    "lift": (1, "KIND: no limit, in a day"),
    "withdraw": (1, "KIND: it does not become looser after all"),
    "exclude": (1, "UNTIL: play nothing until a day such as 2027-01-31, for 30d, or for-good"),
    "log": (0, "what was changed"),
}
HOUSE = {
    "show": OWN["show"],
    "set": (2, "KIND AMOUNT: the house's limit, beside his own"),
    "lift": (1, "KIND: no limit of the house"),
    "exclude": (1, "UNTIL: a day such as 2027-01-31, 30d, or for-good"),
    "admit": (0, "the house excludes him no longer"),
    "log": OWN["log"],
}


def add_words(parser: argparse.ArgumentParser, acts: dict[str, tuple[int, str]]) -> None:
    """The words that say what to do."""
    lines = [f"  {act:<9} {text}" for act, (_, text) in acts.items()]
    kinds = f"kinds: {', '.join(KINDS)}"
    parser.epilog = "\n".join(["what to do:", *lines, kinds])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("act", nargs="?", default="show", choices=list(acts), help="see below")
    parser.add_argument("words", nargs="*", metavar="WORD", help="see below")
    parser.add_argument("--json", action="store_true", help="JSON, one object a line")


async def run_own(caller: Caller, arguments: argparse.Namespace) -> None:
    """Do what a player asks for; raises Failure, Refused."""
    words = _counted(arguments, OWN)
    stub: Any = caller.stub("lobby", LimitServiceStub)
    match arguments.act:
        case "set":
            kind = _kind(words[0])
            request = pb.SetLimitRequest(kind=kind, amount=_amount(kind, words[1]))
            reply = await caller.call("lobby", stub.SetLimit, request)
        case "lift":
            request = pb.SetLimitRequest(kind=_kind(words[0]))
            reply = await caller.call("lobby", stub.SetLimit, request)
        case "withdraw":
            asked = pb.WithdrawLimitChangeRequest(kind=_kind(words[0]))
            reply = await caller.call("lobby", stub.WithdrawLimitChange, asked)
        case "exclude":
            out = pb.ExcludeMyselfRequest(**_until(words[0]))
            reply = await caller.call("lobby", stub.ExcludeMyself, out)
        case _:
            await _look(caller, "", arguments)
            return
    tell(reply.limits, as_json=arguments.json)


async def run_house(caller: Caller, player: str, arguments: argparse.Namespace) -> None:
    """Do what an operator asks for; raises Failure, Refused."""
    words, reason = _counted(arguments, HOUSE), arguments.reason or ""
    stub: Any = caller.stub("lobby", LimitServiceStub)
    if arguments.act in ("set", "lift", "exclude", "admit") and not reason:
        raise Failure("--reason: say why; the player reads it", USAGE)
    match arguments.act:
        case "set" | "lift":
            kind = _kind(words[0])
            request = pb.SetHouseLimitRequest(player_id=player, kind=kind, reason=reason)
            if arguments.act == "set":
                request.amount = _amount(kind, words[1])
            reply = await caller.call("lobby", stub.SetHouseLimit, request)
        case "exclude" | "admit":
            given = _until(words[0]) if words else {}
            out = pb.ExcludePlayerRequest(player_id=player, reason=reason, **given)
            reply = await caller.call("lobby", stub.ExcludePlayer, out)
        case _:
            await _look(caller, player, arguments)
            return
    tell(reply.limits, as_json=arguments.json)


async def changes(caller: Caller, player: str) -> list[pb.LimitRecord]:
    """Everything that was changed in a player's limits, newest first; raises Refused."""
    stub: Any = caller.stub("lobby", LimitServiceStub)
    request, found = pb.ListLimitChangesRequest(player_id=player, page_size=200), []
    while True:
        page = await caller.call("lobby", stub.ListLimitChanges, request)
        found += page.changes
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def limits_of(caller: Caller, player: str) -> pb.Limits:
    """A player's limits, the caller's own for an empty id; raises Refused."""
    stub: Any = caller.stub("lobby", LimitServiceStub)
    reply: pb.GetLimitsResponse = await caller.call(
        "lobby", stub.GetLimits, pb.GetLimitsRequest(player_id=player)
    )
    return reply.limits


def tell(limits: pb.Limits, *, as_json: bool) -> None:
    """Limits for people, or as JSON."""
    if as_json:
        emit(MessageToDict(limits, preserving_proto_field_name=True))
        return
    for out in limits.exclusions:
        who = "excluded by the house" if out.by_house else "excluded by yourself"
        show([f"{who} {'for good' if out.for_good else f'until {when(out.end_time)} UTC'}"])
    rows = [
        (
            NAMES[limit.kind],
            _shown(limit.kind, limit.amount) if limit.HasField("amount") else "-",
            _shown(limit.kind, limit.house_amount) if limit.HasField("house_amount") else "-",
            _shown(limit.kind, limit.used),
            str(limit.at_risk) if NAMES[limit.kind].startswith("loss") else "-",
            _shown(limit.kind, limit.left) if limit.HasField("left") else "-",
            when(limit.renew_time),
            _becomes(limit),
        )
        for limit in limits.limits
    ]
    heads = ("limit", "own", "house", "used", "at risk", "left", "renews (UTC)", "becomes (UTC)")
    show(grid(heads, rows))


async def _look(caller: Caller, player: str, arguments: argparse.Namespace) -> None:
    if arguments.act == "show":
        tell(await limits_of(caller, player), as_json=arguments.json)
        return
    found = await changes(caller, player)
    if arguments.json:
        for change in found:
            emit(MessageToDict(change, preserving_proto_field_name=True))
        return
    rows = [
        (
            change.number,
            when(change.change_time),
            pb.LimitAction.Name(change.action).removeprefix("LIMIT_ACTION_").lower(),
            NAMES.get(change.kind, "-"),
            _asked(change),
            when(change.effect_time),
            change.operator or "-",
            change.reason or "-",
        )
        for change in found
    ]
    heads = ("number", "when (UTC)", "what", "limit", "to", "from (UTC)", "operator", "reason")
    show(grid(heads, rows) if rows else ["nothing was changed"])


def _counted(arguments: argparse.Namespace, acts: dict[str, tuple[int, str]]) -> Sequence[str]:
    words: list[str] = arguments.words
    needed, text = acts[arguments.act]
    if len(words) != needed:
        raise Failure(f"{arguments.act}: {text}", USAGE)
    return words


def _kind(word: str) -> pb.LimitKind.ValueType:
    if word not in KINDS:
        raise Failure(f"{word!r} is no limit; there are {', '.join(KINDS)}", USAGE)
    return KINDS[word]


def _amount(kind: pb.LimitKind.ValueType, word: str) -> int:
    if kind != pb.LIMIT_KIND_TIME_DAY:
        if not word.isascii() or not word.isdecimal() or len(word) > 18:
            raise Failure(f"{word!r} is no number of chips", USAGE)
        return int(word)
    parts = re.fullmatch(r"(\d{1,4})([hms])", word)
    if parts is None:
        raise Failure(f"{word!r} is no time; say 2h, 90m or 30s", USAGE)
    return int(parts[1]) * UNITS_MS[parts[2]]


def _until(word: str) -> dict[str, Any]:
    if word == FOR_GOOD:
        return {"for_good": True}
    if days := re.fullmatch(r"(\d{1,5})d", word):
        end = datetime.now(UTC) + timedelta(days=int(days[1]))
    else:
        try:
            end = datetime.strptime(word, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            raise Failure(f"{word!r} is no day; say 2027-01-31, 30d or for-good", USAGE) from None
    return {"end_time": Timestamp(seconds=int(end.timestamp()))}


def _becomes(limit: pb.Limit) -> str:
    if not limit.HasField("change"):
        return "-"
    change = limit.change
    then = _shown(limit.kind, change.amount) if change.HasField("amount") else "none"
    return f"{then} at {when(change.effect_time)}"


def _asked(change: pb.LimitRecord) -> str:
    if change.for_good:
        return "for good"
    if change.HasField("end_time"):
        return when(change.end_time)
    if change.HasField("amount"):
        return _shown(change.kind, change.amount)
    return "-" if change.action == pb.LIMIT_ACTION_WITHDRAWN else "none"


def _shown(kind: int, amount: int) -> str:
    """An amount, a time as hours, minutes and seconds."""
    if kind != pb.LIMIT_KIND_TIME_DAY:
        return str(amount)
    minutes, seconds = divmod(amount // 1_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
