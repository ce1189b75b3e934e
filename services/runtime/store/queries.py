"""What the store asks of its tables, on both engines."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    column,
    func,
    literal_column,
    select,
    true,
)

from services.runtime.store.schema import event_secrets, events, heads, stream_keys, work

MARK = select(heads.c.version, heads.c.hash, heads.c.recorded_at).where(
    heads.c.stream == bindparam("stream")
)

MARK_AND_REQUESTS = MARK.add_columns(
    func.array(
        select(events.c.request_id)
        .where(events.c.stream == bindparam("stream"), events.c.request_id.is_not(None))
        .scalar_subquery(),
        type_=ARRAY(Text),
    )
)
"""A stream's end and all of its request ids, as of one moment; PostgreSQL's alone."""

COLUMNS = (
    *(events.c.version, events.c.name, events.c.schema, events.c.payload, events.c.metadata),
    *(events.c.request_id, events.c.body_hash, events.c.recorded_at, events.c.secret_digest),
    *(events.c.hash, event_secrets.c.sealed),
)
"""What `reading.opened` takes a stored event from, in this order."""
ALL = 2**62
"""A limit that is none. Where there is a limit, PostgreSQL plans for a part of the rows: it reads
them by the key, in its order, and sorts nothing."""

_whole_rows = events.outerjoin(
    event_secrets,
    and_(event_secrets.c.stream == events.c.stream, event_secrets.c.version == events.c.version),
)
_events = select(*COLUMNS).select_from(_whole_rows)
_limit = bindparam("limit", type_=BigInteger)
EVENTS = (
    _events.where(events.c.stream == bindparam("stream"), events.c.version > bindparam("after"))
    .order_by(events.c.version)
    .limit(_limit)
)
_is_first = events.c.version == literal_column("1")
_of_head = [
    case((_is_first, select(each).where(heads.c.stream == events.c.stream).scalar_subquery()))
    for each in (heads.c.version, heads.c.hash, heads.c.ended)
]
_whole = select(*COLUMNS, *_of_head).select_from(_whole_rows).order_by(events.c.version)
WHOLE = _whole.where(events.c.stream == bindparam("stream")).limit(_limit)
"""A stream's events and, beside the first, its head: one statement, so of one moment."""
_asked = (
    func.unnest(
        bindparam("streams", type_=ARRAY(Uuid)), bindparam("versions", type_=ARRAY(BigInteger))
    )
    .table_valued(column("stream", Uuid), column("above", BigInteger), with_ordinality="place")
    .render_derived(name="asked")
)
_of_each = (
    _whole.where(events.c.stream == _asked.c.stream, events.c.version > _asked.c.above)
    .limit(_limit)
    .lateral("each")
)
OF_EACH = select(*_of_each.c, _asked.c.place).select_from(_asked.join(_of_each, true()))
"""The same of several streams, of each above a version of its own, and its place among those that
were asked for; PostgreSQL's alone."""
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
    stream_keys.c.stream == any_(bindparam("streams", type_=ARRAY(Uuid)))
)
SAME_WORK = and_(
    work.c.stream == bindparam("at_stream"),
    work.c.kind == bindparam("at_kind"),
    work.c.key == bindparam("at_key"),
)
SAME_CLAIM = and_(
    SAME_WORK,
    work.c.version == bindparam("at_version"),
    work.c.attempts == bindparam("at_attempts"),
)
"""A claim is over once its row was replaced (another version) or claimed again (more attempts)."""
