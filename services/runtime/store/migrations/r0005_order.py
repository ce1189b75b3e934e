"""Order: on SQLite events lie in the order in which they were stored, and one index finds them.

They lay in the order of streams and had a second index over request ids, so each append of a batch
wrote two pages or more of its own. Now those of a batch share a page, and the index over streams
and versions is all that each touches.

That a request is stored once is the doing of whoever appends: while a stream's head is the one it
knows, it knows the stream's requests, or reads them.

A table with row ids of its own has one way more to be changed: REPLACE by a row id.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = (
    "stream, version, name, schema, payload, secret_digest, metadata, request_id, body_hash, "
    "recorded_at, hash"
)
GUARDS = (
    (
        "CREATE TRIGGER events_no_update BEFORE UPDATE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events: stored rows are never changed'); END"
    ),
    (
        "CREATE TRIGGER events_no_delete BEFORE DELETE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events: stored rows are never removed'); END"
    ),
    (
        "CREATE TRIGGER events_no_replace BEFORE INSERT ON events WHEN EXISTS "
        "(SELECT 1 FROM events WHERE stream = NEW.stream AND version = NEW.version) "
        "OR EXISTS (SELECT 1 FROM events WHERE rowid = NEW.rowid) "
        "BEGIN SELECT RAISE(ABORT, 'events: stored rows are never replaced'); END"
    ),
)


def upgrade() -> None:
    """Exchanges the table on SQLite."""
    run = op.get_bind().exec_driver_sql
    if op.get_bind().dialect.name != "sqlite":
        return
    op.create_table(
        "events_in_order",
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
        sa.CheckConstraint("version >= 1", name="events_version"),
        sa.CheckConstraint("length(hash) = 32", name="events_hash"),
        sa.CheckConstraint("length(secret_digest) = 32", name="events_secret_digest"),
        sa.CheckConstraint("(request_id IS NULL) = (body_hash IS NULL)", name="events_first_row"),
    )
    run(
        f"INSERT INTO events_in_order ({COLUMNS}) SELECT {COLUMNS} FROM events "  # noqa: S608
        "ORDER BY recorded_at, stream, version"
    )
    run("DROP TABLE events")
    run("ALTER TABLE events_in_order RENAME TO events")
    for guard in GUARDS:
        run(guard)
