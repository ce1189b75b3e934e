"""What a batch of appends is to PostgreSQL: one statement, and a few arrays it takes its rows from.

Each part of a statement (what is asked, further events, due rows, …) takes one array of rows, of a
type of the database made for it (`batch_asked`, `batch_events`, …; `PARTS` has their columns). That
costs the server a third of what it costs to take lines of text apart, and the driver less than an
array a column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.runtime.store.committer import BATCH_APPENDS, Pending
from services.runtime.store.rows import chained, due_rows

NEVER = 2**63 - 1

CLOCK = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
NOW = f"coalesce($2::bigint, {CLOCK})"
UNTIL = "least(a.not_after, a.at + $1::bigint)"
"""An append's deadline, if it has one, and not too far after the time that was proposed for it."""
PROMPT = f"(SELECT {NOW}) <= {UNTIL}"
STILL_PROMPT = f"CASE WHEN {NOW} <= {UNTIL} THEN a.place ELSE refuse_late() END"
"""Once its head is locked: where that was waited for until it is late, the batch is undone."""
NOT_AHEAD = f"a.at <= (SELECT {NOW}) + $1::bigint"
"""By the clock at the statement's start: a query by itself is asked once, not once a row."""

Columns = tuple[tuple[str, str], ...]
"""Names and types."""

ASKED: Columns = (
    ("place", "integer"),
    ("stream", "uuid"),
    ("expected", "bigint"),
    ("previous", "bytea"),
    ("not_after", "bigint"),
    ("ended", "boolean"),
    ("version", "bigint"),
    ("head", "bytea"),
    ("at", "bigint"),
    ("name", "text"),
    ("schema", "integer"),
    ("payload", "bytea"),
    ("secret_digest", "bytea"),
    ("metadata", "bytea"),
    ("request_id", "text"),
    ("body_hash", "bytea"),
    ("hash", "bytea"),
    ("gone_kind", "text"),
    ("gone_key", "text"),
    ("due_kind", "text"),
    ("due_key", "text"),
    ("due_at", "bigint"),
)
"""An append as it is judged, its first event, and its first due row with the one whose place that
takes; places count from 1, in the order of streams. `version` and `head` are NULL where the first
event is the only one."""
LAST_VERSION = "coalesce(a.version, a.expected + 1)"
LAST_HASH = "coalesce(a.head, a.hash)"

MOVED = f"""moved AS (
    UPDATE heads SET version = {LAST_VERSION}, hash = {LAST_HASH}, ended = heads.ended OR a.ended,
        recorded_at = a.at
    FROM asked a WHERE heads.stream = a.stream AND a.expected > 0 AND heads.version = a.expected
        AND heads.hash = a.previous AND heads.recorded_at <= a.at AND {PROMPT}
        AND ({NOT_AHEAD} OR a.at = heads.recorded_at)
    RETURNING {STILL_PROMPT} AS place
)"""  # noqa: S608 - made of constants
OPENED = f"""fresh AS MATERIALIZED (
    SELECT place, stream, {LAST_VERSION} AS version, {LAST_HASH} AS head, ended, not_after, at
    FROM asked a WHERE expected = 0 AND {PROMPT} AND {NOT_AHEAD}
), opened AS (
    INSERT INTO heads (stream, version, hash, ended, recorded_at)
    SELECT stream, version, head, ended, at FROM fresh RETURNING 1
)"""  # noqa: S608
ALL_MOVED = "SELECT place FROM moved"
ALL_OPENED = f"""SELECT {STILL_PROMPT} AS place FROM fresh a
    WHERE (SELECT count(*) FROM opened) >= 0"""  # noqa: S608
"""Heads are set first where there is one, then where there is none, in the order of streams."""
NOBODY = f"B'{'0' * (BATCH_APPENDS + 1)}'"
PLACES = f"bit_or(set_bit({NOBODY}, place, 1))"
THE_PLACE = "B'01'"
"""A bit a place; where there is one place, what there is, is it."""
WON = "won AS MATERIALIZED (SELECT {places} AS bits FROM ({heads}) a)"
"""Who has won."""


@dataclass(frozen=True, slots=True)
class Part:
    """What may be written beside heads: the columns of its rows, and how."""

    columns: Columns
    write: str


FIRST = """first_written AS (
    INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata,
        request_id, body_hash, recorded_at, hash)
    SELECT stream, expected + 1, name, schema, payload, secret_digest, metadata,
        request_id, body_hash, at, hash FROM asked{won}
)"""
"""The first event of each append; those behind it are the part `events`."""
OF = (("place", "integer"), ("stream", "uuid"))
"""Which append a row belongs to."""
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
            ("recorded_at", "bigint"),
            ("hash", "bytea"),
        ),
        """INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata,
            recorded_at, hash)
        SELECT stream, version, name, schema, payload, secret_digest, metadata, recorded_at, hash
        FROM {rows}""",
    ),
    "secrets": Part(
        (*OF, ("version", "bigint"), ("sealed", "bytea")),
        """INSERT INTO event_secrets (stream, version, sealed)
        SELECT stream, version, sealed FROM {rows}""",
    ),
    "keys": Part(
        (*OF, ("key_id", "text"), ("wrapped", "bytea")),
        """INSERT INTO stream_keys (stream, key_id, wrapped)
        SELECT stream, key_id, wrapped FROM {rows}""",
    ),
    "gone": Part(
        (*OF, ("kind", "text"), ("key", "text")),
        """DELETE FROM work USING (SELECT * FROM {rows} OFFSET 0) r
        WHERE work.stream = r.stream AND work.kind = r.kind AND work.key = r.key""",
    ),
    "due": Part(
        (*OF, ("kind", "text"), ("key", "text"), ("version", "bigint"), ("at", "bigint")),
        """INSERT INTO work (stream, kind, key, version, due_at, ready_at, wake_at, attempts)
        SELECT stream, kind, key, version, at, at, at, 0 FROM {rows}""",
    ),
    "tags": Part(
        (*OF, ("tag", "text")),
        """INSERT INTO tags (tag, stream)
        SELECT tag, stream FROM {rows} ON CONFLICT DO NOTHING""",
    ),
}
SHAPES = ("moved", "opened", "next", "alone")
"""Parts that take their rows from `asked`, and `alone`: that is a single row."""
HAS_WON = " r WHERE get_bit((SELECT bits FROM won), r.place) = 1"
NEXT = f"""renewed AS (
    UPDATE work SET kind = r.due_kind, key = r.due_key,
        version = coalesce(r.version, r.expected + 1), due_at = r.due_at, ready_at = r.due_at,
        wake_at = least(wake_at, r.due_at), attempts = 0, worker = NULL
    FROM asked{HAS_WON}
        AND work.stream = r.stream AND work.kind = r.gone_kind AND work.key = r.gone_key
    RETURNING r.place
), in_place AS MATERIALIZED (
    SELECT {{places}} AS bits FROM renewed LIMIT 1
), next_written AS (
    INSERT INTO work (stream, kind, key, version, due_at, ready_at, wake_at, attempts)
    SELECT stream, due_kind, due_key, coalesce(version, expected + 1), due_at, due_at, due_at, 0
    FROM asked{HAS_WON} AND due_kind IS NOT NULL
        AND coalesce(get_bit((SELECT bits FROM in_place), place), 0) = 0
)"""  # noqa: S608
"""The first due row of each append, in the place of one that is gone if that is there; or of two
(`claims.LEFT_BEHIND`)."""


def rows(parameter: int, part: str) -> str:
    """The rows that are given for a part."""
    return f"unnest(${parameter}::batch_{part}[])"


def writing(parts: Sequence[str]) -> str:
    """The statement that writes these parts (`moved` or `opened` or both among them).

    Its parameters: how far from its clock a proposed time may be (microseconds), the clock or
    NULL, the rows of each part in turn, those of what is asked (their values, where it is `alone`).
    It answers with the places of those who won, a character a place (NULL: nobody), and the clock.
    """
    heads = [text for part, text in (("moved", MOVED), ("opened", OPENED)) if part in parts]
    set_heads = " UNION ALL ".join(
        text for part, text in (("moved", ALL_MOVED), ("opened", ALL_OPENED)) if part in parts
    )
    places = THE_PLACE if "alone" in parts else PLACES
    written = [part for part in parts if part in PARTS]
    steps = [
        asked(3 + len(written), alone="alone" in parts),
        *heads,
        WON.format(places=places, heads=set_heads),
        FIRST.format(won=HAS_WON),
        *([NEXT.format(places=places)] if "next" in parts else ()),
    ]
    for number, part in enumerate(written, start=3):
        write = PARTS[part].write.format(rows=rows(number, part) + HAS_WON)
        steps.append(f"{part}_written AS ({write})")
    return f"WITH {', '.join(steps)} SELECT (SELECT bits FROM won)::text, {NOW}"  # noqa: S608


def asked(number: int, *, alone: bool) -> str:
    """What is asked, from the parameter of this number; from it on, where it is a single row.

    As no function and no join is between a single row and the tables, half of what it costs to
    start the statement falls away, and it is most of what an append costs that comes alone.
    """
    if not alone:
        return f"asked AS MATERIALIZED (SELECT * FROM {rows(number, 'asked')})"  # noqa: S608
    values = (f"${n}::{kind} AS {name}" for n, (name, kind) in enumerate(ASKED, start=number))
    return f"asked AS NOT MATERIALIZED (SELECT {', '.join(values)})"


JUDGING = f"""
SELECT place, CASE
    WHEN coalesce(head.version, 0) <> expected THEN 1
    WHEN {NOW} > not_after THEN 2
    ELSE 3 END::smallint
FROM {rows(1, "asked")} a
LEFT JOIN LATERAL (SELECT version FROM heads WHERE stream = a.stream) head ON true
"""  # noqa: S608
"""Why appends have not won, by their places: the values of `Verdict`. Its parameters: their rows
and the clock or NULL."""

Rows = dict[str, list[tuple[Any, ...]]]
"""The rows of a batch by part; `moved` and `opened` take those of `asked`."""


def set_down(place: int, pending: Pending, at: int, into: Rows) -> None:
    """Chains an append at `at` and adds its rows by part."""
    append, plan = pending.append, pending.append.plan
    stream, expected, metadata = append.stream, append.expected, append.metadata
    previous = pending.follows.hash
    pending.rows = chained(append, pending.salts, previous, at)
    first, last = pending.rows[0], pending.rows[-1]
    into["moved" if expected else "opened"] = []
    further = last is not first
    into["asked"].append(
        (
            place,
            stream,
            expected,
            previous,
            append.not_after,
            plan.ended,
            last.version if further else None,
            last.hash if further else None,
            at,
            first.name,
            first.schema,
            first.payload,
            first.secret_digest,
            metadata,
            first.request_id,
            first.body_hash,
            first.hash,
            *(due_down(place, pending, at, into) if plan.done or plan.due else NO_WORK),
        )
    )
    for row in pending.rows[1:]:
        event = (row.version, row.name, row.schema, row.payload, row.secret_digest)
        into["events"].append((place, stream, *event, metadata, at, row.hash))
    if sealing := pending.sealing:
        into["secrets"] += [(place, stream, version, box) for version, box in sealing.sealed]
        if sealing.wrapped:
            into["keys"].append((place, stream, *sealing.wrapped))
    if plan.tags:
        into["tags"] += [(place, stream, tag) for tag in plan.tags]


NO_WORK = (None,) * 5


def due_down(place: int, pending: Pending, at: int, into: Rows) -> Sequence[Any]:
    """The first due row of an append and the one whose place it takes, as `asked` has them; adds
    the others by part."""
    stream = pending.append.stream
    taken, gone, due = due_rows(pending.append, pending.follows.due, at)
    if gone:
        into["gone"] += [(place, stream, *name) for name in gone]
    if not due:
        return NO_WORK
    into["next"] = []
    (first, moment), *others = due
    if others:
        last = pending.rows[-1].version
        into["due"] += [(place, stream, *name, last, each) for name, each in others]
    return (*(taken or (None, None)), *first, moment)
