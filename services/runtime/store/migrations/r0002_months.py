"""Months: the log and the due work lie in partitions by the month of their stream (PostgreSQL).

A stream's id is a UUIDv7, whose first 48 bits are milliseconds: the ids of a month are a range. The
table of the first release becomes the partition of every month up to the one it was migrated in,
`events_before_2027_01`; if it is empty it goes. `make_partitions` makes the months to come, one a
table (`events_2027_01`); what belongs to none of them, `events_other` takes.

`prepare` runs while the first release works: a constraint is added without looking at rows and then
proven without a lock, so that the exchange in `upgrade` looks at no row either. Whoever uses the
tables waits for that one moment; a statement that was prepared before is planned anew.

An index tells whether a request id was stored by a number made of it, half as long as most ids. It
is not unique: a number may be that of two ids. What keeps a request from being stored twice is the
lock of its stream's head, under which the same statement looks for it. The old table keeps the
index that it has. Columns stand in the order that wastes least.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

AHEAD = 3
"""Months made beyond the present one."""
GUARDED = ("events", "event_secrets")
TABLES = {
    "events": (
        """
        recorded_at bigint NOT NULL,
        version bigint NOT NULL,
        schema integer NOT NULL,
        stream uuid NOT NULL,
        name text NOT NULL,
        payload bytea NOT NULL,
        metadata bytea NOT NULL,
        hash bytea NOT NULL,
        request_id text,
        body_hash bytea,
        secret_digest bytea,
        CONSTRAINT events_pkey PRIMARY KEY (stream, version),
        CONSTRAINT events_version CHECK (version >= 1),
        CONSTRAINT events_hash CHECK (length(hash) = 32),
        CONSTRAINT events_secret_digest CHECK (length(secret_digest) = 32),
        CONSTRAINT events_first_row CHECK ((request_id IS NULL) = (body_hash IS NULL))
        """
    ),
    "event_secrets": (
        """
        version bigint NOT NULL,
        stream uuid NOT NULL,
        sealed bytea NOT NULL,
        CONSTRAINT event_secrets_pkey PRIMARY KEY (stream, version)
        """
    ),
    "due": (
        """
        version bigint NOT NULL,
        due_at bigint NOT NULL,
        ready_at bigint NOT NULL,
        attempts integer NOT NULL,
        stream uuid NOT NULL,
        kind text NOT NULL,
        key text NOT NULL,
        worker text,
        CONSTRAINT due_pkey PRIMARY KEY (stream, kind, key)
        """
    ),
}
INDEXES = {
    "events": (
        "CREATE INDEX events_request ON ONLY events (stream, hashtextextended(request_id, 0)) "
        "WHERE request_id IS NOT NULL"
    ),
    "due": "CREATE INDEX due_ready ON due (ready_at)",
}
"""ONLY: the partition of the first release finds request ids by its own index."""
OLD_INDEXES = {
    "events": ("events_pkey", "events_request"),
    "event_secrets": ("event_secrets_pkey",),
    "due": ("due_pkey", "due_ready"),
}

STREAMS_FROM = """
CREATE OR REPLACE FUNCTION streams_from(moment timestamp) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT CASE WHEN ms < 2 ^ 48 THEN (lpad(to_hex(ms), 12, '0') || repeat('0', 20))::uuid END
  FROM (SELECT (extract(epoch FROM moment) * 1000)::bigint AS ms) at
$$
"""
"""The first id a stream begun at this moment (UTC) may have; NULL where ids end before."""
MISSING = """
CREATE FUNCTION missing_partitions(ahead integer) RETURNS TABLE (parent text, month timestamp)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
  SELECT p.relname::text, m
  FROM (SELECT date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') AS present) now
  CROSS JOIN generate_series(present, present + ahead * interval '1 month', '1 month') m
  CROSS JOIN pg_class p
  WHERE p.oid IN ('events'::regclass, 'event_secrets'::regclass, 'due'::regclass)
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
    ELSE EXISTS (SELECT FROM due_other
      WHERE stream >= streams_from(m) AND stream < streams_from(m + interval '1 month'))
  END ORDER BY m, p.relname
$$
"""
"""The months, from the present one on, for which a table has no partition.

A month that was not made in time lies in the table of the rest, and stays there.
"""
MAKE = """
CREATE FUNCTION make_partitions(wanted text, ahead integer) RETURNS integer
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
      CASE one.parent WHEN 'due' THEN 'WITH ({churned})' ELSE '' END);
    PERFORM guard_partition(one.parent, one.name);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$
"""
"""Makes the missing months of a table, by the rights of the tables' owner; how many it made.

Of several at once one makes them, and the others have nothing to do. One table a call: whoever
appends has locks of several, in another order.
"""
GUARD = """
CREATE FUNCTION guard_partition(parent text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
DECLARE
  keeper text;
BEGIN
  IF parent = 'due' THEN
    IF current_setting('server_version_num')::integer >= 170000 THEN
      FOR keeper IN SELECT grantee::regrole::text FROM pg_class c, aclexplode(c.relacl)
        WHERE c.oid = 'due'::regclass AND privilege_type = 'MAINTAIN' AND grantee <> 0
      LOOP
        EXECUTE format('GRANT MAINTAIN ON %I TO %s', name, keeper);
      END LOOP;
    END IF;
    RETURN;
  END IF;
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse_change()',
    parent || '_no_truncate', name);
  EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, parent || '_no_truncate');
END $$
"""
"""What a partition has not from its parent: the guard against TRUNCATE, the right to sweep."""
CHURNED = "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0"
"""Due rows come and go: what they leave behind is cleared away whatever the table's size."""
PARTITIONS_TURN = 0x6B6F7A7A
"""The advisory lock under which partitions are made."""


def prepare(connection: sa.Connection) -> None:
    """Proves, while others use the tables, which streams the old ones hold at most."""
    run = connection.exec_driver_sql
    run(STREAMS_FROM)
    for table in TABLES:
        for name in old_bounds(connection, table):
            run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        word, bound = run(
            f"""
            SELECT coalesce(to_char(month, 'YYYY_MM'), 'ever'), streams_from(month)
            FROM (SELECT date_trunc('month', greatest(
                clock_timestamp() AT TIME ZONE 'UTC' + interval '1 day',
                (SELECT to_timestamp(('x' || left(replace(stream::text, '-', ''), 12))
                    ::bit(48)::bigint / 1000.0) AT TIME ZONE 'UTC'
                 FROM {table} ORDER BY stream DESC LIMIT 1)
            )) + interval '1 month' AS month) latest
            """  # noqa: S608 - made of constants
        ).one()
        rule = "stream IS NOT NULL" if bound is None else f"stream < '{bound}'"
        name = f"{table}_before_{'ever' if bound is None else word}"
        run(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({rule}) NOT VALID")
        run("SET lock_timeout = 0")
        run(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")
        run("SET lock_timeout = '300ms'")


def old_bounds(connection: sa.Connection, table: str) -> list[str]:
    """The names of what `prepare` has proven of a table: `events_before_2027_01`."""
    found = connection.exec_driver_sql(
        "SELECT conname::text FROM pg_constraint WHERE conrelid = to_regclass($1) "
        "AND starts_with(conname, $1 || '_before_')",
        (table,),
    )
    return list(found.scalars())


def upgrade() -> None:
    """Exchanges the tables; SQLite has one writer and one file, nothing changes there."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    run = connection.exec_driver_sql
    schema = run("SELECT quote_ident(current_schema())").scalar_one()
    run(f"LOCK TABLE {', '.join(TABLES)}")
    run(GUARD.format(schema=schema))
    for table, columns in TABLES.items():
        (first,) = old_bounds(connection, table)
        kept = run(f"SELECT EXISTS (SELECT FROM {table})").scalar_one()  # noqa: S608
        put_aside(table, first, kept=kept)
        run(f"CREATE TABLE {table} ({columns}) PARTITION BY RANGE (stream)")
        if table in GUARDED:
            run(
                f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
            )
            run(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_change")
            run(f"SELECT guard_partition('{table}', '{table}')")
        if kept:
            take_in(table, first)
        if table in INDEXES:
            run(INDEXES[table])
        run(f"CREATE TABLE {table}_other PARTITION OF {table} DEFAULT")
        run(f"SELECT guard_partition('{table}', '{table}_other')")
    run(MISSING.format(schema=schema))
    run(MAKE.format(schema=schema, turn=PARTITIONS_TURN, churned=CHURNED))
    for function in ("missing_partitions(integer)", "make_partitions(text, integer)"):
        run(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    for table in TABLES:
        run(f"SELECT make_partitions('{table}', {AHEAD})")


def put_aside(table: str, first: str, *, kept: bool) -> None:
    """Gives the old table the name of a partition, or drops it if there is nothing in it."""
    run = op.get_bind().exec_driver_sql
    if not kept:
        run(f"DROP TABLE {table}")
        return
    for index in OLD_INDEXES[table]:
        run(f"ALTER INDEX {index} RENAME TO {index.replace(table, first, 1)}")
    for guard in ("change", "truncate") if table in GUARDED else ():
        run(f"DROP TRIGGER {table}_no_{guard} ON {table}")
    run(f"ALTER TABLE {table} RENAME TO {first}")


def take_in(table: str, first: str) -> None:
    """Makes the old table a partition; no row is looked at, as its constraint proves the bound."""
    run = op.get_bind().exec_driver_sql
    rule = "SELECT substring(pg_get_constraintdef(oid) FROM $1::text) FROM pg_constraint"
    bound = run(f"{rule} WHERE conname = $2::text", ("'(.*)'", first)).scalar_one()
    high = "MAXVALUE" if bound is None else f"'{bound}'"
    run(f"ALTER TABLE {table} ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ({high})")
    run(f"ALTER TABLE {first} DROP CONSTRAINT {first}")
    run(f"SELECT guard_partition('{table}', '{first}')")
