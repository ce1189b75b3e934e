"""Streams: heads, events, their secrets and keys, due work, tags; and what guards the log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

GUARDED = ("events", "event_secrets")

SQLITE_GUARDS = (
    (
        "CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} "
        "BEGIN SELECT RAISE(ABORT, '{table}: stored rows are never changed'); END"
    ),
    (
        "CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} "
        "BEGIN SELECT RAISE(ABORT, '{table}: stored rows are never removed'); END"
    ),
    (
        "CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
        "WHEN EXISTS (SELECT 1 FROM {table} WHERE stream = NEW.stream AND version = NEW.version) "
        "BEGIN SELECT RAISE(ABORT, '{table}: stored rows are never replaced'); END"
    ),
)
SQLITE_REQUEST_GUARD = (
    "CREATE TRIGGER events_no_second_request BEFORE INSERT ON events WHEN EXISTS "
    "(SELECT 1 FROM events WHERE stream = NEW.stream AND request_id = NEW.request_id) "
    "BEGIN SELECT RAISE(ABORT, 'events: stored rows are never replaced'); END"
)
"""REPLACE removes the row it collides with without asking a delete trigger: hence the last two."""

POSTGRES_GUARD_FUNCTION = (
    "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ "
    "BEGIN RAISE EXCEPTION '%: stored rows are never changed or removed', TG_TABLE_NAME; END $$"
)
POSTGRES_GUARDS = (
    (
        "CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
    ),
    (
        "CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    ),
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_change",
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_truncate",
)
"""ALWAYS: also for a session that calls itself a replica."""


def upgrade() -> None:
    """Makes the tables, then their guards."""
    op.create_table(
        "heads",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("stream", name="heads_pkey"),
        sa.CheckConstraint("version >= 1", name="heads_version"),
        sa.CheckConstraint("length(hash) = 32", name="heads_hash"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("secret_digest", sa.LargeBinary),
        sa.Column("metadata", sa.LargeBinary, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("body_hash", sa.LargeBinary),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("stream", "version", name="events_pkey"),
        sa.UniqueConstraint("stream", "request_id", name="events_request"),
        sa.CheckConstraint("version >= 1", name="events_version"),
        sa.CheckConstraint("length(hash) = 32", name="events_hash"),
        sa.CheckConstraint("length(secret_digest) = 32", name="events_secret_digest"),
        sa.CheckConstraint("(request_id IS NULL) = (body_hash IS NULL)", name="events_first_row"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "event_secrets",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("stream", "version", name="event_secrets_pkey"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stream_keys",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("stream", name="stream_keys_pkey"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "due",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("ready_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("worker", sa.Text),
        sa.PrimaryKeyConstraint("stream", "kind", "key", name="due_pkey"),
        sqlite_with_rowid=False,
    )
    op.create_index("due_ready", "due", ["ready_at"])
    op.create_table(
        "tags",
        sa.Column("tag", sa.Text, nullable=False),
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.PrimaryKeyConstraint("tag", "stream", name="tags_pkey"),
        sqlite_with_rowid=False,
    )
    op.create_table("pulse", sa.Column("at", sa.BigInteger, nullable=False))
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def guards(dialect: str) -> list[str]:
    """The statements that guard the log on one engine, `sqlite` or `postgresql`."""
    if dialect == "sqlite":
        made = [guard.format(table=table) for table in GUARDED for guard in SQLITE_GUARDS]
        return [*made, SQLITE_REQUEST_GUARD]
    made = [guard.format(table=table) for table in GUARDED for guard in POSTGRES_GUARDS]
    return [POSTGRES_GUARD_FUNCTION, *made]
