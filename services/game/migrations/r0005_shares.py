"""Links to ended games."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "shares",
        sa.Column("share_id", sa.Uuid, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("opens", sa.LargeBinary, nullable=False),
        sa.Column("game", sa.Uuid, nullable=False),
        sa.Column("player", sa.Text, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("share_id", name="shares_pkey"),
        sa.UniqueConstraint("request", name="shares_request"),
        sa.UniqueConstraint("opens", name="shares_opens"),
        sa.CheckConstraint("length(opens) = 32", name="shares_hashed"),
    )
    op.create_index("shares_player", "shares", ["player"])
    op.create_index("shares_ends_at", "shares", ["ends_at"])
