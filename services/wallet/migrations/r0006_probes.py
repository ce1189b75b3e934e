"""The rules of double entry are judged with fewer looks into the tables, on PostgreSQL.

What they demand is as before. An account's last posting is found by one look, and that kind and
opening stay as they are is seen without sorting them; the few rows of a game or a transfer are read
by the index itself, where a bitmap of them costs more than they do.
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ACCOUNTS_MOVE = """
CREATE OR REPLACE FUNCTION accounts_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (
    SELECT FROM (
      SELECT o.id, o.kind, o.opened_at, o.version AS before, NULL::bigint AS after FROM was o
      UNION ALL SELECT n.id, n.kind, n.opened_at, NULL, n.version FROM became n
    ) x GROUP BY x.id
    HAVING count(*) <> 2 OR min(x.kind) <> max(x.kind) OR min(x.opened_at) <> max(x.opened_at)
    OR (max(x.after) > max(x.before)) IS NOT TRUE
  ) OR EXISTS (
    SELECT FROM became n WHERE NOT EXISTS (
      SELECT FROM (
        SELECT p.version, p.balance_after FROM postings p
        WHERE p.account_id = n.id ORDER BY p.version DESC LIMIT 1
      ) last WHERE last.version = n.version AND last.balance_after = n.balance
    )
  )
  THEN RAISE EXCEPTION 'accounts: an account moves to its last posting' USING ERRCODE = '23514';
  END IF;
  RETURN NULL; END $$
"""
BY_INDEX = ("write_books", "write_batch", "check_written")
"""Functions that read few rows of a kind at a time; triggers have the settings of who writes."""


def upgrade() -> None:
    """Replaces the function and changes the settings of others, on PostgreSQL."""
    if op.get_bind().dialect.name != "postgresql":
        return
    run = op.get_bind().exec_driver_sql
    run(ACCOUNTS_MOVE)
    for name in BY_INDEX:
        run(f"ALTER FUNCTION {name} SET enable_bitmapscan = off")
