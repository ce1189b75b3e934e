"""Every limit to what a caller may do, by the name that a refusal gives: for documents and tests.

A refusal carries the name as the fact `limit`. `limits_table` and `costs_table` write the
documentation; what enforces a limit stands where it is enforced.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from services.runtime.auth import Access
from services.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit: its name and the reason of the refusal; what it counts and for whom; the settings
    that set it, or a `number` that is fixed; whether it holds for all replicas together."""

    name: str
    reason: str
    counts: str
    settings: tuple[str, ...] = ()
    number: int | None = None
    together: bool = False


LIMITS: tuple[Limit, ...] = (
    Limit(
        "caller",
        "RATE_LIMITED",
        "calls of a player, each at its cost; an operator may make ten times as many",
        ("rate_per_second", "rate_burst"),
    ),
    Limit(
        "players_address",
        "RATE_LIMITED",
        "calls of all players at an address, each at its cost",
        ("address_rate_per_second", "address_rate_burst"),
    ),
    Limit(
        "address",
        "RATE_LIMITED",
        "calls without a token from an address, each at its cost, and tokens not seen before",
        ("peer_rate_per_second", "peer_rate_burst"),
    ),
    Limit(
        "streams",
        "TOO_MANY_STREAMS",
        "open streams of a player; an operator may have ten times as many",
        ("streams_per_caller_max",),
    ),
    Limit(
        "address_streams",
        "TOO_MANY_STREAMS",
        "open streams without a token from an address",
        ("streams_per_address_max",),
    ),
    Limit(
        "tables",
        "TOO_MANY_TABLES",
        "tables at which a player sits",
        ("tables_per_player_max",),
        together=True,
    ),
    Limit(
        "games",
        "TOO_MANY_GAMES",
        "games of a player that have not ended; a table is not started",
        ("games_per_player_max",),
        together=True,
    ),
    Limit(
        "hints",
        "RATE_LIMITED",
        "hints of a player in a minute",
        ("hints_per_minute",),
    ),
    Limit(
        "talk_player",
        "RATE_LIMITED",
        "lines of a player at a table",
        ("talk_player_max", "talk_span_ms"),
        together=True,
    ),
    Limit(
        "talk_table",
        "RATE_LIMITED",
        "lines of all players at a table",
        ("talk_table_max", "talk_span_ms"),
        together=True,
    ),
    Limit("mutes", "TOO_MANY_MUTES", "players muted by one, or at one table", (), 200, True),
    Limit("kicked", "TOO_MANY_KICKED", "players sent away from a table", (), 200, True),
    Limit("invited", "TOO_MANY_INVITED", "players invited to a table", (), 32, True),
    Limit(
        "shares",
        "TOO_MANY_SHARES",
        "links of a player that open; ten times as many with those he revoked",
        (),
        100,
        True,
    ),
    Limit(
        "limit_changes",
        "TOO_MANY_CHANGES",
        "changes of his limits that a player makes in a day",
        (),
        100,
        True,
    ),
    Limit("disputes", "TOO_MANY_DISPUTES", "disputes of a player about a game", (), 10, True),
    Limit(
        "account_failures",
        "SIGN_IN_LOCKED",
        "wrong passwords for a login name before waits begin, and the longest of these",
        ("sign_in_failures_max", "sign_in_wait_max_ms"),
        together=True,
    ),
    Limit(
        "address_failures",
        "SIGN_IN_LOCKED",
        "the same from an address",
        ("sign_in_address_failures_max", "sign_in_wait_max_ms"),
        together=True,
    ),
    Limit(
        "password_hashes",
        "SIGN_IN_BUSY",
        "passwords of all callers that are looked at, and that wait for it",
        ("password_hashes_at_once", "password_hashes_waiting_max"),
    ),
    Limit("devices", "TOO_MANY_DEVICES", "devices whose keys let a player in", (), 10, True),
)
"""In the order in which they are told of."""


def limits_table() -> str:
    """All limits as a Markdown table: name, reason, what is counted, how many, by which setting."""
    lines = [
        "| Limit | Reason | What is counted | Default | Setting | Counted |",
        "|---|---|---|---|---|---|",
    ]
    fields = Settings.model_fields
    for limit in LIMITS:
        defaults = [f"{fields[name].default:g}" for name in limit.settings] or [str(limit.number)]
        names = [f"`KOZYR_{name.upper()}`" for name in limit.settings] or ["–"]
        where = "over all replicas" if limit.together else "by each process"
        lines.append(
            f"| `{limit.name}` | `{limit.reason}` | {limit.counts} | {', '.join(defaults)} | "
            f"{', '.join(names)} | {where} |"
        )
    return "\n".join(lines) + "\n"


def costs_table(access: Mapping[str, Access]) -> str:
    """What calls cost that cost another number than one, as a Markdown table."""
    lines = ["| Call | Cost |", "|---|---|"]
    for name, row in sorted(access.items()):
        if not row.limited:
            lines.append(f"| `{name[1:]}` | never refused |")
        elif row.dear:
            lines.append(f"| `{name[1:]}` | {row.cost:g}; {row.dear_cost:g} with `{row.dear}` |")
        elif row.cost != 1:
            lines.append(f"| `{name[1:]}` | {row.cost:g} |")
    return "\n".join(lines) + "\n"
