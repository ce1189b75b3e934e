"""Who is just sitting down."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "seatings",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("holder", sa.Uuid, nullable=False),
        sa.Column("until_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("player_id", name="seatings_pkey"),
    )
