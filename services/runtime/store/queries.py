"""What the store asks of its tables, on both engines."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    column,
    func,
    literal_column,
    select,
)

from services.runtime.store.schema import due, event_secrets, events, heads, stream_keys

MARK = select(heads.c.version, heads.c.hash, heads.c.recorded_at).where(
    heads.c.stream == bindparam("stream")
)

COLUMNS = (
    *(events.c.version, events.c.name, events.c.schema, events.c.payload, events.c.metadata),
    *(events.c.request_id, events.c.body_hash, events.c.recorded_at, events.c.secret_digest),
    *(events.c.hash, event_secrets.c.sealed),
)
"""What `reading.opened` takes a stored event from, in this order."""
ALL = 2**62
"""A limit that is none."""

_whole_rows = events.outerjoin(
    event_secrets,
    and_(event_secrets.c.stream == events.c.stream, event_secrets.c.version == events.c.version),
)
_events = select(*COLUMNS).select_from(_whole_rows)
EVENTS = (
    _events.where(events.c.stream == bindparam("stream"), events.c.version > bindparam("after"))
    .order_by(events.c.version)
    .limit(bindparam("limit", type_=BigInteger))
)
_asked = (
    func.unnest(
        bindparam("streams", type_=ARRAY(Uuid)), bindparam("versions", type_=ARRAY(BigInteger))
    )
    .table_valued(column("stream", Uuid), column("above", BigInteger))
    .render_derived(name="asked")
)
EVENTS_OF_EACH = (
    select(_asked.c.stream, *COLUMNS)
    .select_from(_asked.join(_whole_rows, events.c.stream == _asked.c.stream))
    .where(events.c.version > _asked.c.above)
    .order_by(events.c.stream, events.c.version)
)
"""The events of several streams, each above a version of its own; PostgreSQL's alone."""
_is_first = events.c.version == literal_column("1")
_of_head = [
    select(each).where(heads.c.stream == bindparam("stream")).scalar_subquery()
    for each in (heads.c.version, heads.c.hash, heads.c.ended)
]
WHOLE = (
    select(*COLUMNS, *(case((_is_first, each)) for each in _of_head))
    .select_from(_whole_rows)
    .where(events.c.stream == bindparam("stream"))
    .order_by(events.c.version)
)
"""A stream's events and, beside the first, its head: one statement, so of one moment."""
_streams = any_(bindparam("streams", type_=ARRAY(Uuid)))
_of_heads = [
    select(each).where(heads.c.stream == events.c.stream).scalar_subquery()
    for each in (heads.c.version, heads.c.hash, heads.c.ended)
]
WHOLES = (
    select(*COLUMNS, *(case((_is_first, each)) for each in _of_heads), events.c.stream)
    .select_from(_whole_rows)
    .where(events.c.stream == _streams)
    .order_by(events.c.stream, events.c.version)
)
"""The same of several streams; PostgreSQL's alone."""
_first = (
    select(events.c.version)
    .where(events.c.stream == bindparam("stream"), events.c.request_id == bindparam("request_id"))
    .scalar_subquery()
)
_next = events.alias("next")
_following = (
    select(func.min(_next.c.version))
    .where(
        _next.c.stream == bindparam("stream"),
        _next.c.version > _first,
        _next.c.request_id.is_not(None),
    )
    .scalar_subquery()
)
OF_REQUEST = _events.where(
    events.c.stream == bindparam("stream"),
    events.c.version >= _first,
    events.c.version < func.coalesce(_following, literal_column(str(ALL))),
).order_by(events.c.version)
"""The rows of the append with a request id, in one statement: the next one may come any moment."""

HEADS = select(heads.c.stream, heads.c.version, heads.c.hash, heads.c.ended)
HEAD = HEADS.where(heads.c.stream == bindparam("stream"))
KEY = select(stream_keys.c.key_id, stream_keys.c.wrapped).where(
    stream_keys.c.stream == bindparam("stream")
)
KEYS = select(stream_keys.c.key_id, stream_keys.c.wrapped, stream_keys.c.stream).where(
    stream_keys.c.stream == _streams
)
SAME_WORK = and_(
    due.c.stream == bindparam("at_stream"),
    due.c.kind == bindparam("at_kind"),
    due.c.key == bindparam("at_key"),
)
SAME_CLAIM = and_(
    SAME_WORK, due.c.version == bindparam("at_version"), due.c.attempts == bindparam("at_attempts")
)
"""A claim is over once its row was replaced (another version) or claimed again (more attempts)."""
