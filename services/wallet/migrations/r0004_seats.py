"""That a reservation's game and account exist is seen once a statement, with its other rules.

Two foreign keys asked it of every row, on PostgreSQL, which cost a tenth of the whole batch.
Neither a game nor an account can disappear or change its id: other guards see to that.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ALONE = "LOCK TABLE games, reservations, accounts"
"""In the order in which a running wallet takes them, so that neither waits for the other twice."""

RESERVATIONS_MAKE = """
CREATE OR REPLACE FUNCTION reservations_make() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (
    SELECT FROM (SELECT n.game_id, max(n.state) AS state FROM became n GROUP BY n.game_id) n
    WHERE n.state <> 1
    OR (SELECT g.state FROM games g WHERE g.id = n.game_id) IS DISTINCT FROM 1
    OR (SELECT count(*) <> max(r.number) OR min(r.number) <> 1
      FROM reservations r WHERE r.game_id = n.game_id)
  ) OR EXISTS (
    SELECT FROM became n
    WHERE NOT EXISTS (SELECT FROM accounts a WHERE a.id = n.account_id OFFSET 0)
  )
  THEN RAISE EXCEPTION 'reservations: a reservation starts pending, for an open game and an '
    'account, with the next number' USING ERRCODE = '23514';
  END IF;
  RETURN NULL; END $$
"""


def upgrade() -> None:
    """Replaces the function and drops the foreign keys it stands for, on PostgreSQL."""
    if op.get_bind().dialect.name != "postgresql":
        return
    run = op.get_bind().exec_driver_sql
    for statement in (ALONE, RESERVATIONS_MAKE):
        run(statement)
    for name in ("reservations_game_id", "reservations_account_id"):
        run(f"ALTER TABLE reservations DROP CONSTRAINT {name}")
