"""Work: what is due lies where its row can be set anew in place, on both engines.

`due` has an index over names, which change with every move: a move left a dead row behind, and
entries of it in two indexes. `work` has an index over streams, and one over `wake_at`, a moment at
or before `ready_at` that a move leaves alone where the new moment is later; then the row is changed
on its page and no index is touched.

On PostgreSQL it lies in partitions by the month of its streams, as the log does.

On SQLite the rows move at once. On PostgreSQL they stay in `due` for the release before, which
works on while it is migrated, and are taken over when their moment has come (`claims.py`); it is a
plain table again, as that release knew it.

No index is over request ids any more, of which an append knows those of its stream; the tables of
the first release keep the one they have.

The type of what is asked of a batch is made anew: the first due row of an append goes with it. A
batch in which an append has become late is undone by an error that says so.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STORED = "fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0"
"""Half a page is left for the rows that take the places of those on it. What else comes and goes
is cleared away whatever the table's size."""
ASKED = (
    "place integer, stream uuid, expected bigint, previous bytea, not_after bigint, ended boolean, "
    "version bigint, head bytea, at bigint, name text, schema integer, payload bytea, "
    "secret_digest bytea, metadata bytea, request_id text, body_hash bytea, hash bytea, "
    "gone_kind text, gone_key text, due_kind text, due_key text, due_at bigint"
)
DUE = """
CREATE TABLE due (
    stream uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    version bigint NOT NULL,
    due_at bigint NOT NULL,
    ready_at bigint NOT NULL,
    attempts integer NOT NULL,
    worker text,
    CONSTRAINT due_pkey PRIMARY KEY (stream, kind, key)
)
"""
WORK = """
CREATE TABLE work (
    stream uuid NOT NULL,
    version bigint NOT NULL,
    due_at bigint NOT NULL,
    ready_at bigint NOT NULL,
    wake_at bigint NOT NULL,
    attempts integer NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    worker text
) PARTITION BY RANGE (stream)
"""
MISSING = """
CREATE OR REPLACE FUNCTION missing_partitions(ahead integer)
RETURNS TABLE (parent text, month timestamp)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
  SELECT p.relname::text, m
  FROM (SELECT date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') AS present) now
  CROSS JOIN generate_series(present, present + ahead * interval '1 month', '1 month') m
  CROSS JOIN pg_class p
  WHERE p.oid IN ('events'::regclass, 'event_secrets'::regclass, 'work'::regclass)
  AND NOT EXISTS (
    SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = p.oid AND (
      c.relname = p.relname || to_char(m, '"_"YYYY_MM')
      OR starts_with(c.relname, p.relname || '_before_')
        AND c.relname > p.relname || to_char(m, '"_before_"YYYY_MM')
    )
  ) AND NOT CASE p.relname
    WHEN 'events' THEN EXISTS (SELECT FROM events_other
      WHERE stream >= streams_from(m) AND stream < streams_from(m + interval '1 month'))
    WHEN 'event_secrets' THEN EXISTS (SELECT FROM event_secrets_other
      WHERE stream >= streams_from(m) AND stream < streams_from(m + interval '1 month'))
    ELSE EXISTS (SELECT FROM work_other
      WHERE stream >= streams_from(m) AND stream < streams_from(m + interval '1 month'))
  END ORDER BY m, p.relname
$$
"""
MAKE = """
CREATE OR REPLACE FUNCTION make_partitions(wanted text, ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp
SET lock_timeout = '500ms' AS $$
DECLARE
  one record;
  made integer := 0;
BEGIN
  IF ahead IS NULL OR ahead NOT BETWEEN 0 AND 24 THEN
    RAISE EXCEPTION 'ahead: 0 to 24 months' USING ERRCODE = '22023';
  END IF;
  IF NOT pg_try_advisory_xact_lock({turn}) THEN
    RETURN 0;
  END IF;
  FOR one IN
    SELECT parent, parent || to_char(month, '"_"YYYY_MM') AS name,
      streams_from(month) AS low, streams_from(month + interval '1 month') AS high
    FROM missing_partitions(ahead) WHERE parent = wanted
  LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L) %s',
      one.name, one.parent, one.low, one.high,
      CASE one.parent WHEN 'work' THEN 'WITH ({stored})' ELSE '' END);
    IF one.parent <> 'work' THEN
      PERFORM guard_partition(one.parent, one.name);
    END IF;
    made := made + 1;
  END LOOP;
  RETURN made;
END $$
"""
"""Both as before, but for the table of due work."""
PARTITIONS_TURN = 0x6B6F7A7A
"""The advisory lock under which partitions are made."""
AHEAD = 3
"""Months made beyond the present one."""
LATE = """
CREATE FUNCTION refuse_late() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'an append has become late' USING ERRCODE = 'KZ001';
END $$
"""


def upgrade() -> None:
    """Makes the table, and takes over what is due."""
    if op.get_bind().dialect.name == "sqlite":
        move_rows()
    else:
        stand_beside()


def move_rows() -> None:
    """On SQLite, where no other release is at work."""
    op.create_table(
        "work",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("ready_at", sa.BigInteger, nullable=False),
        sa.Column("wake_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("worker", sa.Text),
    )
    op.create_index("work_stream", "work", ["stream"])
    op.create_index("work_wake", "work", ["wake_at"])
    run = op.get_bind().exec_driver_sql
    run(
        "INSERT INTO work (stream, version, due_at, ready_at, wake_at, attempts, kind, key, "
        "worker) SELECT stream, version, due_at, ready_at, ready_at, attempts, kind, key, "
        "worker FROM due"
    )
    run("DROP TABLE due")


def stand_beside() -> None:
    """On PostgreSQL, where the release before keeps `due`."""
    run = op.get_bind().exec_driver_sql
    schema = run("SELECT quote_ident(current_schema())").scalar_one()
    run("LOCK TABLE events, due")  # at once: whoever appends has locks of both
    run("DROP INDEX events_request")
    run("CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM due")
    run("DROP TABLE due")
    run(DUE)
    run("CREATE INDEX due_ready ON due (ready_at)")
    run(
        "INSERT INTO due (stream, kind, key, version, due_at, ready_at, attempts, worker) "
        "SELECT stream, kind, key, version, due_at, ready_at, attempts, worker FROM kept"
    )
    run(WORK)
    run("CREATE INDEX work_stream ON work (stream)")
    run("CREATE INDEX work_wake ON work (wake_at)")
    run(f"CREATE TABLE work_other PARTITION OF work DEFAULT WITH ({STORED})")
    run(MISSING.format(schema=schema))
    run(MAKE.format(schema=schema, turn=PARTITIONS_TURN, stored=STORED))
    run(f"SELECT make_partitions('work', {AHEAD})")
    run(LATE)
    run("REVOKE EXECUTE ON FUNCTION refuse_late() FROM PUBLIC")
    run("DROP TYPE batch_asked")
    run(f"CREATE TYPE batch_asked AS ({ASKED})")
