"""Ends of games that another service refused to carry through, until it does."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "refused_ends",
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("stream", name="refused_ends_pkey"),
    )
