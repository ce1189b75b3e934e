"""The wallet's migrations."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Accounts, transfers and postings, games and reservations, requests; and what guards them."""

RIGHTS = {
    "accounts": ("SELECT", "INSERT", "UPDATE (balance, version)"),
    "transfers": ("SELECT", "INSERT"),
    "postings": ("SELECT", "INSERT"),
    "games": ("SELECT", "INSERT", "UPDATE (state, transfer_id, head, reason)"),
    "reservations": ("SELECT", "INSERT", "UPDATE (state, paid_in, paid_out, reason)"),
    "requests": ("SELECT", "INSERT"),
    "pulse": ("SELECT", "INSERT", "UPDATE"),
    "postings_written": ("SELECT", "INSERT", "DELETE"),
}
"""What the service's role may do. Rows of `postings_written` last for a statement."""
