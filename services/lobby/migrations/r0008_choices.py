"""When a request chose its table, so that what nobody asks for any more can go."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; rows of before, and of release 0.1.0 beside this one, have no moment."""
    op.add_column("choices", sa.Column("chosen_at", sa.BigInteger))
