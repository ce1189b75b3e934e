"""Erasures of players."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "erasures",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("erasure_id", sa.Uuid, nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("give_up_chips", sa.Boolean, nullable=False),
        sa.Column("leave_claims", sa.Boolean, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("chips", sa.BigInteger, nullable=False),
        sa.Column("erased_at", sa.BigInteger),
        sa.Column("ends_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("player_id", name="erasures_pkey"),
        sa.CheckConstraint("step BETWEEN 1 AND 7", name="erasures_step"),
    )
    op.create_index("erasures_asked", "erasures", ["asked_at", "player_id"])
    op.create_index("erasures_erased", "erasures", ["erased_at"])
    op.create_index(
        "erasures_due",
        "erasures",
        ["due_at"],
        sqlite_where=sa.text("step < 7"),
        postgresql_where=sa.text("step < 7"),
    )
