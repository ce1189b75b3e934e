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
      FROM unnest(subjects, request_ids) w(subject, request_id)
      JOIN requests r ON r.subject = w.subject AND r.request_id = w.request_id;
  END IF;
  IF cardinality(wanted_games) > 0 THEN
    RETURN QUERY SELECT 2, g.id, g.transfer_id, NULL::uuid, g.state::int, 0,
      0::bigint, 0::bigint, 0::bigint, 0::bigint,
      g.reason, NULL::text, g.head, NULL::bytea
      FROM unnest(wanted_games) w(id) JOIN games g ON g.id = w.id;
    RETURN QUERY SELECT 3, r.id, r.game_id, r.account_id, r.number, r.state::int,
      r.chips, r.expires_at, r.paid_in, r.paid_out,
      r.reason, NULL::text, NULL::bytea, NULL::bytea
      FROM unnest(wanted_games) w(id) JOIN reservations r ON r.game_id = w.id;
    RETURN QUERY SELECT 4, a.id, NULL::uuid, NULL::uuid, a.kind::int, 0,
      a.balance, a.version, 0::bigint, 0::bigint,
      NULL::text, NULL::text, NULL::bytea, NULL::bytea
      FROM (SELECT DISTINCT r.account_id FROM unnest(wanted_games) w(id)
        JOIN reservations r ON r.game_id = w.id AND r.state IN (1, 2)) h
      JOIN accounts a ON a.id = h.account_id;
  END IF;
  IF cardinality(wanted_reservations) > 0 THEN
    RETURN QUERY SELECT 3, r.id, r.game_id, r.account_id, r.number, r.state::int,
      r.chips, r.expires_at, r.paid_in, r.paid_out,
      r.reason, NULL::text, NULL::bytea, NULL::bytea
      FROM unnest(wanted_reservations) w(id) JOIN reservations r ON r.id = w.id;
  END IF;
  RETURN QUERY SELECT 4, a.id, NULL::uuid, NULL::uuid, a.kind::int, 0,
    a.balance, a.version, 0::bigint, 0::bigint,
    NULL::text, NULL::text, NULL::bytea, NULL::bytea
    FROM unnest(wanted_accounts) w(id) JOIN accounts a ON a.id = w.id;
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
    JOIN reservations r ON r.game_id = w.id AND r.state IN (1, 2)
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
      SELECT FROM unnest(seen_games, seen_states) w(id, state)
      JOIN games g ON g.id = w.id AND g.state = w.state ORDER BY g.id FOR NO KEY UPDATE OF g
    ) locked;
    IF found_rows <> cardinality(seen_games) THEN
      RAISE EXCEPTION 'games: changed meanwhile' USING ERRCODE = '40001';
    END IF;
  END IF;
  IF cardinality(seen_accounts) > 0 THEN
    SELECT count(*) INTO found_rows FROM (
      SELECT FROM unnest(seen_accounts, seen_versions) w(id, version)
      JOIN accounts a ON a.id = w.id AND a.version = w.version ORDER BY a.id
      FOR NO KEY UPDATE OF a
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
        "accounts_move",
        "UPDATE",
        "accounts",
        """
  IF (SELECT count(*) FROM was) <> (
    SELECT count(*) FROM became n JOIN was o ON o.id = n.id
    WHERE n.kind = o.kind AND n.opened_at = o.opened_at AND n.version > o.version
    AND EXISTS (SELECT FROM postings p WHERE p.account_id = n.id AND p.version = n.version
      AND p.balance_after = n.balance)
    AND NOT EXISTS (SELECT FROM postings p WHERE p.account_id = n.id
      AND p.version = n.version + 1)
  )""",
        "an account moves to its last posting",
    ),
    (
        "postings_chain",
        "INSERT",
        "postings",
        """
  IF EXISTS (
    SELECT FROM (
      SELECT n.account_id, n.version, n.balance_before,
        lag(n.version) OVER chain AS last_version, lag(n.balance_after) OVER chain AS last_balance
      FROM became n WINDOW chain AS (PARTITION BY n.account_id ORDER BY n.version)
    ) n
    LEFT JOIN accounts a ON n.last_version IS NULL AND a.id = n.account_id
    WHERE coalesce(n.last_version, a.version, -1) + 1 <> n.version
    OR coalesce(n.last_balance, a.balance) <> n.balance_before
  )""",
        "a posting continues its account",
    ),
    (
        "postings_closed",
        "INSERT",
        "postings",
        """
  IF EXISTS (SELECT FROM became n JOIN transfers t ON t.id = n.transfer_id)""",
        "the transfer is closed",
    ),
    (
        "transfers_balance",
        "INSERT",
        "transfers",
        """
  IF EXISTS (SELECT FROM became n WHERE NOT EXISTS (
    SELECT FROM postings p WHERE p.transfer_id = n.id))""",
        "a transfer has postings",
    ),
    (
        "games_move",
        "UPDATE",
        "games",
        """
  IF (SELECT count(*) FROM was) <> (
    SELECT count(*) FROM became n JOIN was o ON o.id = n.id
    WHERE o.state = 1 AND n.state IN (2, 4) OR o.state = 2 AND n.state IN (3, 4)
  )""",
        "a game goes from open to pinned to settled, or is voided",
    ),
    (
        "games_end",
        "UPDATE",
        "games",
        """
  IF EXISTS (SELECT FROM became n JOIN reservations r ON r.game_id = n.id
    WHERE n.state IN (3, 4) AND r.state IN (1, 2))""",
        "an ended game holds no chips",
    ),
    (
        "reservations_make",
        "INSERT",
        "reservations",
        """
  IF EXISTS (SELECT FROM became n LEFT JOIN games g ON g.id = n.game_id
    WHERE n.state <> 1 OR g.state IS DISTINCT FROM 1)
  OR EXISTS (SELECT FROM (SELECT DISTINCT n.game_id FROM became n) n WHERE (
    SELECT count(*) <> max(r.number) OR min(r.number) <> 1
    FROM reservations r WHERE r.game_id = n.game_id))""",
        "a reservation starts pending, for an open game, with the next number",
    ),
    (
        "reservations_move",
        "UPDATE",
        "reservations",
        """
  IF (SELECT count(*) FROM was) <> (
    SELECT count(*) FROM became n JOIN was o ON o.id = n.id
    WHERE n.game_id = o.game_id AND n.number = o.number AND n.account_id = o.account_id
    AND n.chips = o.chips AND n.expires_at = o.expires_at
    AND (o.state = 1 AND n.state IN (2, 4) OR o.state = 2 AND n.state IN (3, 4))
  )""",
        "a reservation goes from pending to pinned to posted, or is voided",
    ),
)
"""Name, event, table, what must not be (of `was` and `became`), and what the rule says."""

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
    LEFT JOIN transfers t ON t.id = w.id
    CROSS JOIN LATERAL (
      SELECT count(*) AS legs, sum(p.chips) AS chips, bool_and(a.version >= p.version) AS carried
      FROM postings p JOIN accounts a ON a.id = p.account_id WHERE p.transfer_id = w.id
    ) p
    WHERE t.id IS NULL OR p.legs < 2 OR p.chips <> 0 OR NOT p.carried
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
    for statement in (READ_BOOKS, LOCK_BOOKS, WRITE_BOOKS, *closing(), *guards()):
        run(statement)
    checks = [name for name, *_ in BY_STATEMENT]
    for name in ("read_books", "lock_books", "write_books", "check_written", *checks):
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
