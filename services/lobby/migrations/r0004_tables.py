"""What lists of tables are read by: heads by when they advanced, and those that have not ended; and
the tables that quick play opens, in order."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the indexes and the table."""
    op.create_index("heads_recorded", "heads", ["recorded_at"])
    op.create_index(
        "heads_open",
        "heads",
        ["stream"],
        sqlite_where=sa.text("NOT ended"),
        postgresql_where=sa.text("NOT ended"),
    )
    op.create_table(
        "openings",
        sa.Column("variant", sa.Integer, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("variant", "number", name="openings_pkey"),
    )
