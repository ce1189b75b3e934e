"""The order over all games: leaves, the nodes over them, signed checkpoints; accesses of operators.

All of it is only ever added to, and guarded like the log.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEYS = {
    "leaves": (("number",), ("stream", "version")),
    "nodes": (("level", "place"),),
    "checkpoints": (("size",),),
    "accesses": (("number",),),
}
"""The guarded tables and their unique keys, the primary one first."""

SQLITE_GUARDS = (
    (
        "CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} "
        "BEGIN SELECT RAISE(ABORT, '{table}: stored rows are never changed'); END"
    ),
    (
        "CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} "
        "BEGIN SELECT RAISE(ABORT, '{table}: stored rows are never removed'); END"
    ),
    (
        "CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
        "WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) "
        "BEGIN SELECT RAISE(ABORT, '{table}: stored rows are never replaced'); END"
    ),
)
POSTGRES_GUARDS = (
    (
        "CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
    ),
    (
        "CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    ),
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_change",
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_truncate",
)
"""`refuse_change` was made with the log; ALWAYS: also for a session that calls itself a replica."""


def upgrade() -> None:
    """Makes the tables, then their guards."""
    op.create_table(
        "leaves",
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="leaves_pkey"),
        sa.UniqueConstraint("stream", "version", name="leaves_stream"),
        sa.CheckConstraint("number >= 0", name="leaves_number"),
        sa.CheckConstraint("version >= 1", name="leaves_version"),
        sa.CheckConstraint("length(head) = 32", name="leaves_head"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "nodes",
        sa.Column("level", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("place", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("level", "place", name="nodes_pkey"),
        sa.CheckConstraint("length(hash) = 32", name="nodes_hash"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "checkpoints",
        sa.Column("size", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("root", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("size", name="checkpoints_pkey"),
        sa.CheckConstraint("size >= 1", name="checkpoints_size"),
        sa.CheckConstraint("length(root) = 32", name="checkpoints_root"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "accesses",
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("game", sa.Uuid),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="accesses_pkey"),
        sa.CheckConstraint("number >= 1", name="accesses_number"),
        sa.CheckConstraint("length(hash) = 32", name="accesses_hash"),
        sqlite_with_rowid=False,
    )
    op.create_index("accesses_game", "accesses", ["game", "number"])
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def guards(dialect: str) -> list[str]:
    """The statements that guard the tables on one engine, `sqlite` or `postgresql`."""
    made = []
    for table, keys in KEYS.items():
        each = (" AND ".join(f"{column} = NEW.{column}" for column in key) for key in keys)
        same = " OR ".join(f"({key})" for key in each)
        used = SQLITE_GUARDS if dialect == "sqlite" else POSTGRES_GUARDS
        made += [guard.format(table=table, same=same) for guard in used]
    return made
