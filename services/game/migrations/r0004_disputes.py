"""Texts of disputes, which may be removed; when players' streams opened and closed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "dispute_texts",
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("stream", sa.Uuid, nullable=False),
        sa.Column("player", sa.Text, nullable=False),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="dispute_texts_pkey"),
        sa.CheckConstraint("length(digest) = 32", name="dispute_texts_digest"),
        sa.CheckConstraint("length(salt) = 32", name="dispute_texts_salt"),
    )
    op.create_index("dispute_texts_player", "dispute_texts", ["player"])
    op.create_table(
        "connections",
        sa.Column("game", sa.Uuid, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("connection", sa.Uuid, nullable=False),
        sa.Column("seat", sa.Integer, nullable=False),
        sa.Column("opened", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("game", "connection", "opened", name="connections_pkey"),
    )
