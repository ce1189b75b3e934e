"""PostgreSQL writes a batch that was decided without reading, and tells its clock.

`write_batch` does what `write_books` does, which the release before goes on calling. The moment of
a batch may come from an estimate of the database's clock: one that is ahead of it, or a second
behind, is refused like anything else that is not as it was.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
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

WRITE_BATCH = """
CREATE FUNCTION write_batch(
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
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  found_rows bigint;
  clock bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
  IF at NOT BETWEEN clock - 1000000 AND clock THEN
    RAISE EXCEPTION 'the batch is not of this moment' USING ERRCODE = '40001';
  END IF;
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
  RETURN clock;
END $$
"""


def upgrade() -> None:
    """Makes the function, on PostgreSQL."""
    if op.get_bind().dialect.name != "postgresql":
        return
    run = op.get_bind().exec_driver_sql
    run(WRITE_BATCH)
    for setting in PLANS:
        run(f"ALTER FUNCTION write_batch SET {setting}")
