"""Chips that move after a game: the dispute reserve, rulings, claims, forfeits.

There may be one account of the new kind; it is opened by the first chips it is given, so that
nothing a release before cannot read is there until an operator has asked for it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

RESERVE = {
    "sqlite": "'00000000000000000000000000000002'",
    "postgresql": "'00000000-0000-0000-0000-000000000002'::uuid",
}
RULES = (
    ("accounts", "accounts_kind", "kind IN (1, 2, 3, 4)", "kind IN (1, 2, 3, 4, 5)"),
    ("accounts", "accounts_one_reserve", None, "(kind = 5) = (id = {reserve})"),
    (
        "transfers",
        "transfers_kind",
        "kind IN (1, 2, 3, 4, 5)",
        "kind IN (1, 2, 3, 4, 5, 6, 7, 8, 9)",
    ),
    (
        "transfers",
        "transfers_game",
        "kind IN (1, 2) OR game_id IS NOT NULL",
        "kind IN (1, 2, 6, 9) OR game_id IS NOT NULL",
    ),
    ("transfers", "transfers_dispute", None, "kind NOT IN (7, 8) OR length(reason) = 36"),
)
"""Table, name, the rule that was (None: there was none), and the rule that is to be."""


def prepare(connection: sa.Connection) -> None:
    """Proves the new rules while others use the tables; each is wider than the one it follows."""
    run = connection.exec_driver_sql
    for table, name, _, rule in RULES:
        run(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}_new")
        wanted = rule.format(reserve=RESERVE["postgresql"])
        run(f"ALTER TABLE {table} ADD CONSTRAINT {name}_new CHECK ({wanted}) NOT VALID")
        run("SET lock_timeout = 0")
        run(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}_new")
        run("SET lock_timeout = '300ms'")


def upgrade() -> None:
    """Puts the new rules in the place of the old ones."""
    run = op.get_bind().exec_driver_sql
    if op.get_bind().dialect.name == "sqlite":
        rewrite_sqlite(op.get_bind())
        return
    for table, name, old, _ in RULES:
        if old is not None:
            run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        run(f"ALTER TABLE {table} RENAME CONSTRAINT {name}_new TO {name}")


def rewrite_sqlite(connection: sa.Connection) -> None:
    """Changes the CHECK constraints in the tables' own text.

    SQLite has no statement for it and gives this way in its manual for changes that leave what is
    stored as it is; making the tables anew would mean to take them from under their foreign keys.
    """
    run = connection.exec_driver_sql
    version = run("PRAGMA schema_version").scalar_one()
    run("PRAGMA writable_schema = ON")
    for table in ("accounts", "transfers"):
        text = run("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).scalar_one()
        for _, name, old, rule in (each for each in RULES if each[0] == table):
            wanted = f"CONSTRAINT {name} CHECK ({rule.format(reserve=RESERVE['sqlite'])})"
            if old is None:
                body, end = text.rsplit(")", 1)
                text = f"{body.rstrip()}, \n\t{wanted}\n){end}"
                continue
            present = f"CONSTRAINT {name} CHECK ({old})"
            if present not in text:
                raise RuntimeError(f"{table} has no such rule: {name}")
            text = text.replace(present, wanted)
        run("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (text, table))
    run(f"PRAGMA schema_version = {version + 1}")
    run("PRAGMA writable_schema = OFF")
