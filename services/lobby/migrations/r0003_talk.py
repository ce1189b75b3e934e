"""What is said at tables, for a short time, and who is not heard."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "talk",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("said_at", sa.BigInteger, nullable=False),
        sa.Column("emote", sa.Integer, nullable=False),
        sa.Column("words", sa.Text),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("table_id", "number", name="talk_pkey"),
        sa.UniqueConstraint("request", name="talk_request"),
        sa.CheckConstraint("(emote = 0) = (words IS NOT NULL)", name="talk_said"),
    )
    op.create_index("talk_player", "talk", ["player_id", "number"])
    op.create_index("talk_said_at", "talk", ["said_at"])
    op.create_table(
        "talk_rooms",
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("table_id", name="talk_rooms_pkey"),
    )
    op.create_table(
        "mutes",
        sa.Column("of", sa.Uuid, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("of", "player_id", name="mutes_pkey"),
    )
    op.create_index("mutes_player", "mutes", ["player_id"])
