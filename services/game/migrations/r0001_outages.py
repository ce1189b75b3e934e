"""The service's lifeline, and the outages it has found."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "lifeline",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="lifeline_pkey"),
        sa.CheckConstraint("id = 1", name="lifeline_one_row"),
    )
    op.execute("INSERT INTO lifeline (id, at) VALUES (1, 0)")
    op.create_table(
        "outages",
        sa.Column("began_at", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("began_at", name="outages_pkey"),
        sa.CheckConstraint("ended_at > began_at", name="outages_forward"),
    )
