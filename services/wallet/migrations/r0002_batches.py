"""PostgreSQL reads and writes a batch of commands in one call each, and judges it as a whole.

`read_books` finds what a batch must know, of one moment. `lock_books` keeps it so until the
transaction ends. `write_books` writes a batch unless something it was decided on has changed.

The rules stay those of the first revision; what was asked of every row is now asked once a
statement of all its rows. A posting continues its account as it stands, or the posting before it in
the statement; an account moves to its last posting; no posting is added to a closed transfer. That
every transfer closes two or more postings, which sum to zero and were carried to their accounts, is
seen at commit, when no other transaction can add to it unseen: each statement that writes postings
leaves one row in `postings_written` for as long as it takes, and a deferred trigger looks at its
transfers. So a posting without a transfer cannot be committed either, as the foreign key had it.

The first release writes one transfer a statement in the same order and goes on working. SQLite has
one writer and cheap row triggers: nothing changes there.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PLANS = (
    "plan_cache_mode = force_generic_plan",
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "jit = off",
)
"""By index, one row after another: a plan made while a table is small stays good when it grows."""

READ_BOOKS = """
CREATE FUNCTION read_books(
  wanted_accounts uuid[], wanted_games uuid[], wanted_reservations uuid[], wanted_holders uuid[],
  subjects text[], request_ids text[]
) RETURNS TABLE (
  what int, id uuid, a uuid, b uuid, m int, n int, i bigint, j bigint, k bigint, l bigint,
  s text, t text, x bytea, y bytea
) LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT 0, NULL::uuid, NULL::uuid, NULL::uuid, 0, 0,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0::bigint, 0::bigint, 0::bigint,
    NULL::text, NULL::text, NULL::bytea, NULL::bytea;
  IF cardinality(request_ids) > 0 THEN
    RETURN QUERY SELECT 1, NULL::uuid, NULL::uuid, NULL::uuid, 0, 0,
      0::bigint, 0::bigint, 0::bigint, 0::bigint,
      r.subject, r.request_id, r.body_hash, r.response
      FROM unnest(subjects, request_ids) w(subject, request_id) CROSS JOIN LATERAL (
        SELECT * FROM requests r
        WHERE r.subject = w.subject AND r.request_id = w.request_id OFFSET 0
      ) r;
  END IF;
  IF cardinality(wanted_games) > 0 THEN
    RETURN QUERY SELECT 2, g.id, g.transfer_id, NULL::uuid, g.state::int, 0,
      0::bigint, 0::bigint, 0::bigint, 0::bigint,
      g.reason, NULL::text, g.head, NULL::bytea
      FROM unnest(wanted_games) w(id)
      CROSS JOIN LATERAL (SELECT * FROM games g WHERE g.id = w.id OFFSET 0) g;
    RETURN QUERY SELECT 3, r.id, r.game_id, r.account_id, r.number, r.state::int,
      r.chips, r.expires_at, r.paid_in, r.paid_out,
      r.reason, NULL::text, NULL::bytea, NULL::bytea
      FROM unnest(wanted_games) w(id)
      CROSS JOIN LATERAL (SELECT * FROM reservations r WHERE r.game_id = w.id OFFSET 0) r;
    RETURN QUERY SELECT 4, a.id, NULL::uuid, NULL::uuid, a.kind::int, 0,
      a.balance, a.version, 0::bigint, 0::bigint,
      NULL::text, NULL::text, NULL::bytea, NULL::bytea
      FROM (SELECT DISTINCT r.account_id FROM unnest(wanted_games) w(id)
        CROSS JOIN LATERAL (SELECT * FROM reservations r WHERE r.game_id = w.id OFFSET 0) r
        WHERE r.state IN (1, 2)) h
      CROSS JOIN LATERAL (SELECT * FROM accounts a WHERE a.id = h.account_id OFFSET 0) a;
  END IF;
  IF cardinality(wanted_reservations) > 0 THEN
    RETURN QUERY SELECT 3, r.id, r.game_id, r.account_id, r.number, r.state::int,
      r.chips, r.expires_at, r.paid_in, r.paid_out,
      r.reason, NULL::text, NULL::bytea, NULL::bytea
      FROM unnest(wanted_reservations) w(id)
      CROSS JOIN LATERAL (SELECT * FROM reservations r WHERE r.id = w.id OFFSET 0) r;
  END IF;
  RETURN QUERY SELECT 4, a.id, NULL::uuid, NULL::uuid, a.kind::int, 0,
    a.balance, a.version, 0::bigint, 0::bigint,
    NULL::text, NULL::text, NULL::bytea, NULL::bytea
    FROM unnest(wanted_accounts) w(id)
    CROSS JOIN LATERAL (SELECT * FROM accounts a WHERE a.id = w.id OFFSET 0) a;
  IF cardinality(wanted_holders) > 0 THEN
    RETURN QUERY SELECT 5, w.id, NULL::uuid, NULL::uuid, 0, 0,
      sum(r.chips)::bigint, 0::bigint, 0::bigint, 0::bigint,
      NULL::text, NULL::text, NULL::bytea, NULL::bytea
      FROM unnest(wanted_holders) w(id)
      JOIN reservations r ON r.account_id = w.id AND r.state IN (1, 2) GROUP BY w.id;
  END IF;
END $$
"""

LOCK_BOOKS = """
CREATE FUNCTION lock_books(wanted_accounts uuid[], wanted_games uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM games g WHERE g.id = ANY (wanted_games) ORDER BY g.id FOR NO KEY UPDATE;
  PERFORM FROM accounts a WHERE a.id IN (
    SELECT unnest(wanted_accounts)
    UNION
    SELECT r.account_id FROM unnest(wanted_games) w(id)
    CROSS JOIN LATERAL (SELECT * FROM reservations r WHERE r.game_id = w.id OFFSET 0) r
    WHERE r.state IN (1, 2)
  ) ORDER BY a.id FOR NO KEY UPDATE;
END $$
"""

WRITE_BOOKS = """
CREATE FUNCTION write_books(
  at bigint,
  seen_games uuid[], seen_states int[],
  seen_accounts uuid[], seen_versions bigint[],
  made_games uuid[], made_states int[], made_reasons text[],
  opened uuid[], opened_kinds int[],
  posted uuid[], posted_versions bigint[], posted_transfers uuid[], posted_chips bigint[],
  posted_before bigint[], posted_after bigint[],
  moved uuid[], moved_balances bigint[], moved_versions bigint[],
  transfer_ids uuid[], transfer_kinds int[], transfer_games uuid[], transfer_reasons text[],
  transfer_subjects text[], transfer_requests text[],
  held uuid[], held_games uuid[], held_numbers int[], held_accounts uuid[], held_chips bigint[],
  held_until bigint[],
  pinned uuid[], pinned_games uuid[],
  ended uuid[], ended_states int[], ended_in bigint[], ended_out bigint[], ended_reasons text[],
  ended_games uuid[], game_states int[], game_transfers uuid[], game_heads bytea[],
  game_reasons text[],
  subjects text[], request_ids text[], body_hashes bytea[], responses bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  found_rows bigint;
BEGIN
  IF cardinality(seen_games) > 0 THEN
    SELECT count(*) INTO found_rows FROM (
      SELECT FROM (SELECT * FROM unnest(seen_games, seen_states) w(id, state) ORDER BY id) w
      CROSS JOIN LATERAL (
        SELECT FROM games g WHERE g.id = w.id AND g.state = w.state OFFSET 0 FOR NO KEY UPDATE
      ) g
    ) locked;
    IF found_rows <> cardinality(seen_games) THEN
      RAISE EXCEPTION 'games: changed meanwhile' USING ERRCODE = '40001';
    END IF;
  END IF;
  IF cardinality(seen_accounts) > 0 THEN
    SELECT count(*) INTO found_rows FROM (
      SELECT FROM (SELECT * FROM unnest(seen_accounts, seen_versions) w(id, version) ORDER BY id) w
      CROSS JOIN LATERAL (
        SELECT FROM accounts a WHERE a.id = w.id AND a.version = w.version OFFSET 0
        FOR NO KEY UPDATE
      ) a
    ) locked;
    IF found_rows <> cardinality(seen_accounts) THEN
      RAISE EXCEPTION 'accounts: changed meanwhile' USING ERRCODE = '40001';
    END IF;
  END IF;
  IF cardinality(made_games) > 0 THEN
    INSERT INTO games (id, state, reason)
      SELECT * FROM unnest(made_games, made_states, made_reasons) w ORDER BY 1;
  END IF;
  IF cardinality(opened) > 0 THEN
    INSERT INTO accounts (id, kind, balance, version, opened_at)
      SELECT w.id, w.kind, 0, 0, at FROM unnest(opened, opened_kinds) w(id, kind) ORDER BY 1;
  END IF;
  IF cardinality(transfer_ids) > 0 THEN
    INSERT INTO postings
      (account_id, version, transfer_id, chips, balance_before, balance_after)
      SELECT * FROM unnest(
        posted, posted_versions, posted_transfers, posted_chips, posted_before, posted_after);
    UPDATE accounts a SET balance = w.balance, version = w.version
      FROM unnest(moved, moved_balances, moved_versions) w(id, balance, version)
      WHERE a.id = w.id;
    INSERT INTO transfers (id, kind, game_id, reason, subject, request_id, recorded_at)
      SELECT *, at FROM unnest(
        transfer_ids, transfer_kinds, transfer_games, transfer_reasons,
        transfer_subjects, transfer_requests);
  END IF;
  IF cardinality(held) > 0 THEN
    INSERT INTO reservations
      (id, game_id, number, account_id, chips, expires_at, state, paid_in, paid_out)
      SELECT *, 1, 0, 0 FROM unnest(
        held, held_games, held_numbers, held_accounts, held_chips, held_until);
  END IF;
  IF cardinality(pinned) > 0 THEN
    UPDATE reservations r SET state = 2 FROM unnest(pinned) w(id) WHERE r.id = w.id;
    UPDATE games g SET state = 2 FROM unnest(pinned_games) w(id) WHERE g.id = w.id;
  END IF;
  IF cardinality(ended) > 0 THEN
    UPDATE reservations r
      SET state = w.state, paid_in = w.paid_in, paid_out = w.paid_out, reason = w.reason
      FROM unnest(ended, ended_states, ended_in, ended_out, ended_reasons)
        w(id, state, paid_in, paid_out, reason)
      WHERE r.id = w.id;
  END IF;
  IF cardinality(ended_games) > 0 THEN
    UPDATE games g
      SET state = w.state, transfer_id = w.transfer_id, head = w.head, reason = w.reason
      FROM unnest(ended_games, game_states, game_transfers, game_heads, game_reasons)
        w(id, state, transfer_id, head, reason)
      WHERE g.id = w.id;
  END IF;
  IF cardinality(request_ids) > 0 THEN
    INSERT INTO requests (subject, request_id, body_hash, response, recorded_at)
      SELECT *, at FROM unnest(subjects, request_ids, body_hashes, responses) w ORDER BY 1, 2;
  END IF;
END $$
"""

BY_ROW = (
    ("accounts_move", "accounts"),
    ("postings_chain", "postings"),
    ("postings_closed", "postings"),
    ("transfers_balance", "transfers"),
    ("transfers_carried", "transfers"),
    ("reservations_make", "reservations"),
    ("reservations_move", "reservations"),
    ("games_move", "games"),
    ("games_end", "games"),
)
"""Functions and triggers of the first revision, by name and table, that judged row by row."""

BY_STATEMENT = (
    (
        "postings_chain",
        "INSERT",
        "postings",
        """
  IF EXISTS (
    SELECT FROM (
      SELECT n.account_id, n.version, n.balance_before, n.transfer_id,
        lag(n.version) OVER chain AS last_version, lag(n.balance_after) OVER chain AS last_balance
      FROM became n WINDOW chain AS (PARTITION BY n.account_id ORDER BY n.version)
    ) n
    WHERE EXISTS (SELECT FROM transfers t WHERE t.id = n.transfer_id OFFSET 0)
    OR CASE WHEN n.last_version IS NULL THEN NOT EXISTS (
      SELECT FROM accounts a WHERE a.id = n.account_id AND a.version = n.version - 1
      AND a.balance = n.balance_before OFFSET 0)
    ELSE n.last_version <> n.version - 1 OR n.last_balance <> n.balance_before END
  )""",
        "a posting continues its account and belongs to a transfer that is not closed",
    ),
    (
        "accounts_move",
        "UPDATE",
        "accounts",
        """
  IF EXISTS (
    SELECT FROM (
      SELECT o.id, o.kind, o.opened_at, o.version, o.balance, false AS fresh FROM was o
      UNION ALL SELECT n.id, n.kind, n.opened_at, n.version, n.balance, true FROM became n
    ) x GROUP BY x.id
    HAVING count(*) <> 2 OR count(DISTINCT x.kind) <> 1 OR count(DISTINCT x.opened_at) <> 1
    OR max(x.version) FILTER (WHERE x.fresh) <= max(x.version) FILTER (WHERE NOT x.fresh)
  ) OR EXISTS (
    SELECT FROM became n
    WHERE (SELECT p.balance_after FROM postings p WHERE p.account_id = n.id
      AND p.version = n.version) IS DISTINCT FROM n.balance
    OR EXISTS (SELECT FROM postings p WHERE p.account_id = n.id
      AND p.version = n.version + 1 OFFSET 0)
  )""",
        "an account moves to its last posting",
    ),
    (
        "transfers_balance",
        "INSERT",
        "transfers",
        """
  IF EXISTS (SELECT FROM became n WHERE NOT EXISTS (
    SELECT FROM postings p WHERE p.transfer_id = n.id OFFSET 0))""",
        "a transfer has postings",
    ),
    (
        "games_move",
        "UPDATE",
        "games",
        """
  IF EXISTS (
    SELECT FROM (
      SELECT o.id, o.state, 0 AS next FROM was o UNION ALL SELECT n.id, 0, n.state FROM became n
    ) x GROUP BY x.id
    HAVING NOT (max(x.state) = 1 AND max(x.next) IN (2, 4)
      OR max(x.state) = 2 AND max(x.next) IN (3, 4))
  )""",
        "a game goes from open to pinned to settled, or is voided",
    ),
    (
        "games_end",
        "UPDATE",
        "games",
        """
  IF EXISTS (SELECT FROM became n WHERE n.state IN (3, 4) AND (
    SELECT count(*) FILTER (WHERE r.state IN (1, 2)) FROM reservations r WHERE r.game_id = n.id
  ) > 0)""",
        "an ended game holds no chips",
    ),
    (
        "reservations_make",
        "INSERT",
        "reservations",
        """
  IF EXISTS (
    SELECT FROM (SELECT n.game_id, max(n.state) AS state FROM became n GROUP BY n.game_id) n
    WHERE n.state <> 1
    OR (SELECT g.state FROM games g WHERE g.id = n.game_id) IS DISTINCT FROM 1
    OR (SELECT count(*) <> max(r.number) OR min(r.number) <> 1
      FROM reservations r WHERE r.game_id = n.game_id)
  )""",
        "a reservation starts pending, for an open game, with the next number",
    ),
    (
        "reservations_move",
        "UPDATE",
        "reservations",
        """
  IF EXISTS (
    SELECT FROM (
      SELECT o.id, o.game_id, o.number, o.account_id, o.chips, o.expires_at, o.state, 0 AS next
      FROM was o
      UNION ALL
      SELECT n.id, n.game_id, n.number, n.account_id, n.chips, n.expires_at, 0, n.state
      FROM became n
    ) x GROUP BY x.id
    HAVING count(DISTINCT (x.game_id, x.number, x.account_id, x.chips, x.expires_at)) <> 1
    OR NOT (max(x.state) = 1 AND max(x.next) IN (2, 4)
      OR max(x.state) = 2 AND max(x.next) IN (3, 4))
  )""",
        "a reservation goes from pending to pinned to posted, or is voided",
    ),
)
"""Name, event, table, what must not be (of `was` and `became`), and what the rule says.

Other rows are looked up by subqueries that no join can replace: each is a probe of one index.
"""

KEEP_WRITTEN = """
CREATE FUNCTION keep_written() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  kept tid;
BEGIN
  IF EXISTS (SELECT FROM became) THEN
    INSERT INTO postings_written (transfers)
      SELECT array_agg(DISTINCT n.transfer_id) FROM became n RETURNING ctid INTO kept;
    DELETE FROM postings_written WHERE ctid = kept;
  END IF;
  RETURN NULL;
END $$
"""
CHECK_WRITTEN = """
CREATE FUNCTION check_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT FROM unnest(NEW.transfers) w(id)
    WHERE NOT EXISTS (SELECT FROM transfers t WHERE t.id = w.id OFFSET 0)
    OR (SELECT count(*) < 2 OR sum(p.chips) <> 0 OR NOT bool_and(
        (SELECT a.version FROM accounts a WHERE a.id = p.account_id) >= p.version)
      FROM postings p WHERE p.transfer_id = w.id)
  ) THEN
    RAISE EXCEPTION 'postings: the postings of a transfer sum to zero' USING ERRCODE = '23514';
  END IF;
  RETURN NULL;
END $$
"""


def upgrade() -> None:
    """Replaces the row triggers that a batch would pay for by row, on PostgreSQL."""
    if op.get_bind().dialect.name != "postgresql":
        return
    run = op.get_bind().exec_driver_sql
    for statement in (ALONE, READ_BOOKS, LOCK_BOOKS, WRITE_BOOKS, *closing(), *guards()):
        run(statement)
    for name in ("read_books", "lock_books", "write_books"):
        for setting in PLANS:
            run(f"ALTER FUNCTION {name} SET {setting}")


def guards() -> list[str]:
    """One judgement a statement; ALWAYS: also for a session that calls itself a replica."""
    made = []
    for name, table in BY_ROW:
        made += [f"DROP TRIGGER {name} ON {table}", f"DROP FUNCTION {name}()"]
    for name, event, table, wrong, text in BY_STATEMENT:
        rows = (
            "OLD TABLE AS was NEW TABLE AS became" if event == "UPDATE" else "NEW TABLE AS became"
        )
        made.append(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {wrong}\n"
            f"  THEN RAISE EXCEPTION '{table}: {text}' USING ERRCODE = '23514'; END IF;\n"
            "  RETURN NULL; END $$"
        )
        made.append(
            f"CREATE TRIGGER {name} AFTER {event} ON {table} REFERENCING {rows} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )
        made.append(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
    return made


ALONE = "LOCK TABLE games, reservations, accounts, requests, postings, transfers"
"""In the order in which a running wallet takes them, so that neither waits for the other twice."""
CLOSING = """
DROP TRIGGER postings_balance ON postings;
DROP FUNCTION check_balance();
ALTER TABLE postings DROP CONSTRAINT postings_transfer_id;
ALTER TABLE postings DROP CONSTRAINT postings_account_id;
CREATE UNLOGGED TABLE postings_written (transfers uuid[] NOT NULL)
"""
LOOKING = """
CREATE TRIGGER postings_written AFTER INSERT ON postings
  REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION keep_written();
ALTER TABLE postings ENABLE ALWAYS TRIGGER postings_written;
CREATE CONSTRAINT TRIGGER check_written AFTER INSERT ON postings_written
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_written();
ALTER TABLE postings_written ENABLE ALWAYS TRIGGER check_written
"""


def closing() -> list[str]:
    """Every statement's postings are looked at when their transaction commits."""
    return [*CLOSING.split(";"), KEEP_WRITTEN, CHECK_WRITTEN, *LOOKING.split(";")]
