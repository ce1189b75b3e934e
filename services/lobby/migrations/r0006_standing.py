"""Games of players, what they come to, and limits of play."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    _games()
    _standings()
    _limits()


def _games() -> None:
    op.create_table(
        "stakes",
        sa.Column("game_id", sa.Uuid, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("chips", sa.BigInteger, nullable=False),
        sa.Column("fresh", sa.BigInteger, nullable=False),
        sa.Column("begun_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("game_id", "player_id", name="stakes_pkey"),
        sa.CheckConstraint("fresh >= 0 AND chips >= fresh", name="stakes_chips"),
    )
    op.create_index("stakes_player", "stakes", ["player_id"])
    op.create_table(
        "player_games",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("game_id", sa.Uuid, nullable=False),
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.Column("variant", sa.Integer, nullable=False),
        sa.Column("begun_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.Boolean, nullable=False),
        sa.Column("struck", sa.Boolean, nullable=False),
        sa.Column("people", sa.Boolean, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("points", sa.BigInteger, nullable=False),
        sa.Column("first", sa.Boolean, nullable=False),
        sa.Column("durak", sa.Boolean, nullable=False),
        sa.Column("nulled", sa.Boolean, nullable=False),
        sa.Column("chips_in", sa.BigInteger, nullable=False),
        sa.Column("chips_out", sa.BigInteger, nullable=False),
        sa.Column("fresh", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("player_id", "game_id", name="player_games_pkey"),
        sa.CheckConstraint("chips_in >= 0 AND chips_out >= 0", name="player_games_chips"),
    )
    op.create_index("player_games_game", "player_games", ["game_id"])
    op.create_index("player_games_ended", "player_games", ["player_id", "ended_at", "game_id"])


def _standings() -> None:
    op.create_table(
        "standings",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("variant", sa.Integer, nullable=False),
        sa.Column("period", sa.Integer, nullable=False),
        sa.Column("begun_at", sa.BigInteger, nullable=False),
        sa.Column("people", sa.Boolean, nullable=False),
        sa.Column("games", sa.BigInteger, nullable=False),
        sa.Column("firsts", sa.BigInteger, nullable=False),
        sa.Column("duraks", sa.BigInteger, nullable=False),
        sa.Column("nulls", sa.BigInteger, nullable=False),
        sa.Column("points", sa.BigInteger, nullable=False),
        sa.Column("chips_in", sa.BigInteger, nullable=False),
        sa.Column("chips_out", sa.BigInteger, nullable=False),
        sa.Column("listed", sa.Boolean, nullable=False),
        sa.Column("ranked", sa.Boolean, nullable=False),
        sa.Column("measure", sa.BigInteger, nullable=False),
        sa.Column("measure_next", sa.BigInteger, nullable=False),
        sa.Column("measure_last", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            *("player_id", "variant", "period", "begun_at", "people"), name="standings_pkey"
        ),
    )
    order = ["variant", "period", "begun_at"]
    order += ["measure", "measure_next", "measure_last", "player_id"]
    op.create_index(
        "standings_ranked",
        "standings",
        order,
        sqlite_where=sa.text("ranked = 1"),
        postgresql_where=sa.text("ranked"),
    )
    op.create_table(
        "listings",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("variant", sa.Integer, nullable=False),
        sa.Column("listed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("player_id", "variant", name="listings_pkey"),
    )


def _limits() -> None:
    op.create_table(
        "limits",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.Integer, nullable=False),
        sa.Column("own", sa.BigInteger),
        sa.Column("loosens_at", sa.BigInteger),
        sa.Column("loosened", sa.BigInteger),
        sa.Column("house", sa.BigInteger),
        sa.PrimaryKeyConstraint("player_id", "kind", name="limits_pkey"),
        sa.CheckConstraint("kind BETWEEN 1 AND 5", name="limits_kind"),
    )
    op.create_table(
        "exclusions",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("own_until", sa.BigInteger, nullable=False),
        sa.Column("house_until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("player_id", name="exclusions_pkey"),
    )
    op.create_table(
        "limit_changes",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("action", sa.Integer, nullable=False),
        sa.Column("kind", sa.Integer, nullable=False),
        sa.Column("amount", sa.BigInteger),
        sa.Column("until", sa.BigInteger),
        sa.Column("effect_at", sa.BigInteger, nullable=False),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("player_id", "number", name="limit_changes_pkey"),
        sa.UniqueConstraint("player_id", "request", name="limit_changes_request"),
        sa.CheckConstraint("length(request) = 32", name="limit_changes_request_hash"),
    )
