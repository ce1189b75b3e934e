"""The lobby's own tables, beside those of its event store."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""The version folder of these tables."""

RIGHTS = {
    "players": ("SELECT", "INSERT", "UPDATE (secret, used, account_due)"),
    "refresh_tokens": ("SELECT", "INSERT", "UPDATE (spent)", "DELETE"),
    "choices": ("SELECT", "INSERT", "UPDATE (table_id)"),
}
"""What the service's role may do."""
