"""What the store asks of its tables, on both engines."""

from sqlalchemy import and_, bindparam, func, select

from services.runtime.store.schema import due, event_secrets, events, heads

MARK = select(heads.c.version, heads.c.hash, heads.c.recorded_at).where(
    heads.c.stream == bindparam("stream")
)

EVENTS = select(events, event_secrets.c.sealed).select_from(
    events.outerjoin(
        event_secrets,
        and_(
            event_secrets.c.stream == events.c.stream, event_secrets.c.version == events.c.version
        ),
    )
)
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
OF_REQUEST = EVENTS.where(
    events.c.stream == bindparam("stream"),
    events.c.version >= _first,
    events.c.version < func.coalesce(_following, 2**62),
).order_by(events.c.version)
"""The rows of the append with a request id, in one statement: the next one may come any moment."""

HEADS = select(heads.c.stream, heads.c.version, heads.c.hash, heads.c.ended)
SAME_WORK = and_(
    due.c.stream == bindparam("at_stream"),
    due.c.kind == bindparam("at_kind"),
    due.c.key == bindparam("at_key"),
)
SAME_CLAIM = and_(
    SAME_WORK, due.c.version == bindparam("at_version"), due.c.attempts == bindparam("at_attempts")
)
"""A claim is over once its row was replaced (another version) or claimed again (more attempts)."""
