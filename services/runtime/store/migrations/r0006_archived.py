"""Months whose log has left the database, on either engine; the tables' owner writes them down."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "archived_months",
        sa.Column("month", sa.Text, nullable=False),
        sa.Column("archived_at", sa.BigInteger, nullable=False),
        sa.Column("manifest", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("month", name="archived_months_pkey"),
        sa.CheckConstraint("length(manifest) = 32", name="archived_months_manifest"),
    )
