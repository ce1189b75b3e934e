"""What a batch of appends is to PostgreSQL: one statement, and a few texts it takes its rows from.

Each part of a statement (what is asked, the events, the due rows, …) takes one text: a row a line,
a tab between columns. That costs client and server less than arrays do, one a column: a driver
looks at every element of an array, and the server keeps the rows of each array by themselves.
Names and ids are printable, octets go in hexadecimal, so neither tabs nor line ends are in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from services.runtime.store.committer import BATCH_APPENDS, Pending
from services.runtime.store.rows import chained, done_work, due_moments

ABSENT = "\x01"
NEVER = 2**63 - 1

CLOCK = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
NOW = f"coalesce($2::bigint, {CLOCK})"
PROMPT = f"({NOW} <= least(a.not_after, a.at + $1::bigint))"
"""Neither past the append's deadline nor too far after the time that was proposed for it."""
NOT_AHEAD = f"a.at <= {NOW} + $1::bigint"

Columns = tuple[tuple[str, str], ...]
"""Names and types."""

ASKED: Columns = (
    ("place", "integer"),
    ("stream", "uuid"),
    ("expected", "bigint"),
    ("previous", "bytea"),
    ("not_after", "bigint"),
    ("hash", "bytea"),
    ("ended", "boolean"),
    ("version", "bigint"),
    ("at", "bigint"),
    ("request", "text"),
)
"""An append as it is judged; places count from 1, in the order of streams."""

WITHIN = "stream BETWEEN $3::uuid AND $4::uuid"
"""The bounds of the batch's streams: partitions beyond them are left alone from the start."""
KNOWN = f"""SELECT true FROM events WHERE events.stream = a.stream AND events.{WITHIN}
    AND hashtextextended(request_id, 0) = hashtextextended(a.request, 0)
    AND request_id = a.request LIMIT 1"""  # noqa: S608 - made of constants
"""Whether a request id was stored before; its index holds a number made of it."""

MOVED = f"""moved AS (
    UPDATE heads SET version = a.version, hash = a.hash, ended = heads.ended OR a.ended,
        recorded_at = a.at
    FROM asked a WHERE heads.stream = a.stream AND a.expected > 0 AND heads.version = a.expected
        AND heads.hash = a.previous AND heads.recorded_at <= a.at AND {PROMPT}
        AND ({NOT_AHEAD} OR a.at = heads.recorded_at) AND ({KNOWN}) IS NULL
    RETURNING a.place, a.not_after, a.at
)"""  # noqa: S608 - made of constants
OPENED = f"""fresh AS MATERIALIZED (
    SELECT * FROM asked a WHERE expected = 0 AND {WITHIN} AND {PROMPT} AND {NOT_AHEAD}
), opened AS (
    INSERT INTO heads (stream, version, hash, ended, recorded_at)
    SELECT stream, version, hash, ended, at FROM fresh RETURNING 1
)"""  # noqa: S608
ALL_MOVED = "SELECT place, not_after, at FROM moved"
ALL_OPENED = "SELECT place, not_after, at FROM fresh WHERE (SELECT count(*) FROM opened) >= 0"
"""Heads are set first where there is one, then where there is none, in the order of streams."""
NOBODY = f"B'{'0' * (BATCH_APPENDS + 1)}'"
WON = f"""won AS MATERIALIZED (
    SELECT bit_or(set_bit({NOBODY}, place / {PROMPT}::integer, 1)) AS bits FROM ({{heads}}) a
)"""  # noqa: S608
WON_ALONE = f"won AS MATERIALIZED (SELECT place / {PROMPT}::integer FROM ({{heads}}) a)"  # noqa: S608
"""Who has won: a bit a place, or a row for the only one. Where a lock was waited for until an
append was no longer prompt, the division by zero undoes the batch."""


@dataclass(frozen=True, slots=True)
class Part:
    """What may be written beside heads: the columns of its lines, and how."""

    columns: Columns
    write: str


OF = (("place", "integer"), ("stream", "uuid"))
"""Which append a row belongs to."""
HAS_WON = "get_bit((SELECT bits FROM won), r.place) = 1"
HAS_WON_ALONE = "EXISTS (SELECT FROM won)"
PARTS = {
    "events": Part(
        (
            *OF,
            ("version", "bigint"),
            ("name", "text"),
            ("schema", "integer"),
            ("payload", "bytea"),
            ("secret_digest", "bytea"),
            ("metadata", "bytea"),
            ("request_id", "text"),
            ("body_hash", "bytea"),
            ("recorded_at", "bigint"),
            ("hash", "bytea"),
        ),
        """INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata,
            request_id, body_hash, recorded_at, hash)
        SELECT stream, version, name, schema, payload, secret_digest, metadata, request_id,
            body_hash, recorded_at, hash FROM ({rows}) r WHERE {won}""",
    ),
    "secrets": Part(
        (*OF, ("version", "bigint"), ("sealed", "bytea")),
        """INSERT INTO event_secrets (stream, version, sealed)
        SELECT stream, version, sealed FROM ({rows}) r WHERE {won}""",
    ),
    "keys": Part(
        (*OF, ("key_id", "text"), ("wrapped", "bytea")),
        """INSERT INTO stream_keys (stream, key_id, wrapped)
        SELECT stream, key_id, wrapped FROM ({rows}) r WHERE {won}""",
    ),
    "done": Part(
        (*OF, ("kind", "text"), ("key", "text")),
        """DELETE FROM due USING (SELECT * FROM ({rows}) r WHERE {won} OFFSET 0) r
        WHERE due.stream = r.stream AND due.kind = r.kind AND due.key = r.key
            AND due.{within}""",
    ),
    "due": Part(
        (*OF, ("kind", "text"), ("key", "text"), ("version", "bigint"), ("at", "bigint")),
        """INSERT INTO due (stream, kind, key, version, due_at, ready_at, attempts)
        SELECT stream, kind, key, version, at, at, 0 FROM ({rows}) r WHERE {won}
        ON CONFLICT (stream, kind, key) DO UPDATE SET version = excluded.version,
            due_at = excluded.due_at, ready_at = excluded.ready_at, attempts = 0, worker = NULL""",
    ),
    "tags": Part(
        (*OF, ("tag", "text")),
        """INSERT INTO tags (tag, stream)
        SELECT tag, stream FROM ({rows}) r WHERE {won} ON CONFLICT DO NOTHING""",
    ),
}
HEADS = ("moved", "opened")


def rows(parameter: int, columns: Columns, *, alone: bool) -> str:
    """The query for the rows of a part whose lines are given; `alone` is one line and no more."""
    chosen = ", ".join(
        f"decode(f[{number}], 'hex') AS {name}"
        if kind == "bytea"
        else f"f[{number}]::{kind} AS {name}"
        for number, (name, kind) in enumerate(columns, start=1)
    )
    line, lines = "line", f" FROM unnest(string_to_array(${parameter}::text, E'\\n')) AS line"
    if alone:
        line, lines = f"${parameter}::text", ""
    fields = f"string_to_array({line}, E'\\t', E'\\x01') AS f"
    return f"SELECT {chosen} FROM (SELECT {fields}{lines} OFFSET 0) AS given"  # noqa: S608


def writing(parts: Sequence[str], *, alone: bool) -> str:
    """The statement that writes these parts (`moved` or `opened` or both among them).

    Its parameters: how far from its clock a proposed time may be (microseconds), the clock or
    NULL, the first and the last stream, the lines of what is asked, those of each part in turn.
    It answers with the places of those who won, a character a place (NULL: nobody), and the clock.
    """
    heads = [text for part, text in (("moved", MOVED), ("opened", OPENED)) if part in parts]
    set_heads = " UNION ALL ".join(
        text for part, text in (("moved", ALL_MOVED), ("opened", ALL_OPENED)) if part in parts
    )
    asked = rows(5, ASKED, alone=alone)
    steps = [
        f"asked AS ({asked})" if alone else f"asked AS MATERIALIZED ({asked})",
        *heads,
        (WON_ALONE if alone else WON).format(heads=set_heads),
    ]
    has_won = HAS_WON_ALONE if alone else HAS_WON
    rest = [part for part in parts if part not in HEADS]
    for number, part in enumerate(rest, start=6):
        given = rows(number, PARTS[part].columns, alone=alone)
        write = PARTS[part].write.format(rows=given, won=has_won, within=WITHIN)
        steps.append(f"{part}_written AS ({write})")
    winners = f"CASE WHEN {has_won} THEN '01' END" if alone else "(SELECT bits FROM won)::text"
    return f"WITH {', '.join(steps)} SELECT {winners}, {NOW}"


JUDGING = f"""
SELECT place, CASE
    WHEN coalesce(head.version, 0) <> expected OR (expected > 0 AND ({KNOWN})) THEN 1
    WHEN {NOW} > not_after THEN 2
    ELSE 3 END::smallint
FROM ({rows(1, ASKED, alone=False)} OFFSET 0) a
LEFT JOIN LATERAL (SELECT version FROM heads WHERE stream = a.stream) head ON true
"""  # noqa: S608
"""Why appends have not won, by their places: the values of `Verdict`. Its parameters: their lines,
the clock or NULL, the first and the last stream."""

Lines = dict[str, list[str]]
"""The lines of a batch by part; `moved` and `opened` take those of `asked`."""


def lines_of(place: int, pending: Pending, at: int, into: Lines) -> None:
    """Chains an append at `at` and sets its lines down by part."""
    append, plan = pending.append, pending.append.plan
    pending.rows = chained(append, pending.salts, pending.follows.hash, at)
    last = pending.rows[-1]
    of = f"{place}\t{append.stream.hex}\t"
    into["moved" if append.expected else "opened"] = []
    until = NEVER if append.not_after is None else append.not_after
    into["asked"].append(
        f"{of}{append.expected}\t{pending.follows.hash.hex()}\t{until}\t{last.hash.hex()}\t"
        f"{plan.ended}\t{last.version}\t{at}\t{append.request_id}"
    )
    metadata = append.metadata.hex()
    for row in pending.rows:
        digest, body = row.secret_digest, row.body_hash
        into["events"].append(
            f"{of}{row.version}\t{row.name}\t{row.schema}\t{row.payload.hex()}\t"
            f"{ABSENT if digest is None else digest.hex()}\t{metadata}\t"
            f"{ABSENT if row.request_id is None else row.request_id}\t"
            f"{ABSENT if body is None else body.hex()}\t{at}\t{row.hash.hex()}"
        )
    if sealing := pending.sealing:
        into["secrets"] += [f"{of}{version}\t{box.hex()}" for version, box in sealing.sealed]
        if sealing.wrapped:
            key_id, wrapped = sealing.wrapped
            into["keys"].append(f"{of}{key_id}\t{wrapped.hex()}")
    if plan.done:
        into["done"] += [f"{of}{kind}\t{key}" for kind, key in done_work(append)]
    if plan.due:
        into["due"] += [
            f"{of}{kind}\t{key}\t{last.version}\t{moment}"
            for (kind, key), moment in due_moments(append, at).items()
        ]
    if plan.tags:
        into["tags"] += [f"{of}{tag}" for tag in plan.tags]
