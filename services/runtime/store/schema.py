"""The store's tables, on PostgreSQL and but for partitions on SQLite.

Every unique key contains the stream: on PostgreSQL the log and the due work are partitioned by the
month of the stream, and all of it can be distributed by stream; for the same reason nothing refers
to another table by a foreign key. Times are database time in Unix microseconds. The log (`events`,
`event_secrets`) is guarded by triggers, made by the first migration, that refuse every change to
everyone; `stream_keys` stands apart because its rows are rewritten when a master key is exchanged.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
)

metadata = MetaData()

heads = Table(
    "heads",
    metadata,
    Column("stream", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("ended", Boolean, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("stream", name="heads_pkey"),
    CheckConstraint("version >= 1", name="heads_version"),
    CheckConstraint("length(hash) = 32", name="heads_hash"),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("stream", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("secret_digest", LargeBinary),
    Column("metadata", LargeBinary, nullable=False),
    Column("request_id", Text),
    Column("body_hash", LargeBinary),
    Column("recorded_at", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("stream", "version", name="events_pkey"),
    CheckConstraint("version >= 1", name="events_version"),
    CheckConstraint("length(hash) = 32", name="events_hash"),
    CheckConstraint("length(secret_digest) = 32", name="events_secret_digest"),
    CheckConstraint("(request_id IS NULL) = (body_hash IS NULL)", name="events_first_row"),
    postgresql_partition_by="RANGE (stream)",
)
"""No index is over request ids: who appends knows those of the stream, or reads them."""

event_secrets = Table(
    "event_secrets",
    metadata,
    Column("stream", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKeyConstraint("stream", "version", name="event_secrets_pkey"),
    sqlite_with_rowid=False,
    postgresql_partition_by="RANGE (stream)",
)

stream_keys = Table(
    "stream_keys",
    metadata,
    Column("stream", Uuid, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    PrimaryKeyConstraint("stream", name="stream_keys_pkey"),
    sqlite_with_rowid=False,
)

work = Table(
    "work",
    metadata,
    Column("stream", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("ready_at", BigInteger, nullable=False),
    Column("wake_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("worker", Text),
    Index("work_stream", "stream"),
    Index("work_wake", "wake_at"),
    postgresql_partition_by="RANGE (stream)",
)
"""Due rows, one of a kind and key in a stream: the lock of the stream's head sees to that, but for
what 0.1.0 has left (`claims.LEFT_BEHIND`).

`ready_at` is when the row may be claimed: first `due_at`, then the end of a lease or a pause.
`wake_at` is at or before it: when the row is looked at. A row that takes the place of another and
is ready later is found early once, and then put right; as no index is over what appends change, the
row is changed where it lies.
"""

tags = Table(
    "tags",
    metadata,
    Column("tag", Text, nullable=False),
    Column("stream", Uuid, nullable=False),
    PrimaryKeyConstraint("tag", "stream", name="tags_pkey"),
    sqlite_with_rowid=False,
)

pulse = Table(
    "pulse",
    metadata,
    Column("at", BigInteger, nullable=False),
)
"""One row, written by health checks to find out whether the database still takes writes."""

archived_months = Table(
    "archived_months",
    metadata,
    Column("month", Text, nullable=False),
    Column("archived_at", BigInteger, nullable=False),
    Column("manifest", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    PrimaryKeyConstraint("month", name="archived_months_pkey"),
    CheckConstraint("length(manifest) = 32", name="archived_months_manifest"),
)
"""The months whose log is no longer here (`months.py`); written by the tables' owner alone."""
