"""The lobby's own tables, beside those of its event store."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""The version folder of these tables."""

RIGHTS = {
    "players": ("SELECT", "INSERT", "UPDATE (secret, used, account_due)", "DELETE"),
    "refresh_tokens": ("SELECT", "INSERT", "UPDATE (spent, attempt, spent_at)", "DELETE"),
    "sessions": ("SELECT", "INSERT", "UPDATE (renewed_at)", "DELETE"),
    "logins": (
        *("SELECT", "INSERT", "DELETE"),
        "UPDATE (login_name, password, request, changed_at)",
    ),
    "devices": ("SELECT", "INSERT", "UPDATE (used_at)", "DELETE"),
    "externals": ("SELECT", "INSERT", "DELETE"),
    "failures": ("SELECT", "INSERT", "UPDATE (count, last_at, until_at)", "DELETE"),
    "challenges": ("SELECT", "INSERT", "DELETE"),
    "choices": ("SELECT", "INSERT", "UPDATE (table_id, chosen_at)", "DELETE"),
    "erasures": ("SELECT", "INSERT", "UPDATE (step, due_at, chips, erased_at, ends_at)", "DELETE"),
    "openings": ("SELECT", "INSERT", "DELETE"),
    "talk": ("SELECT", "INSERT", "DELETE"),
    "talk_rooms": ("SELECT", "INSERT", "UPDATE (last)", "DELETE"),
    "mutes": ("SELECT", "INSERT", "DELETE"),
    "seatings": ("SELECT", "INSERT", "UPDATE (holder, until_at)", "DELETE"),
    "stakes": ("SELECT", "INSERT", "DELETE"),
    "player_games": ("SELECT", "INSERT", "UPDATE (struck)", "DELETE"),
    "standings": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "listings": ("SELECT", "INSERT", "UPDATE (listed)", "DELETE"),
    "limits": ("SELECT", "INSERT", "UPDATE (own, loosens_at, loosened, house)", "DELETE"),
    "exclusions": ("SELECT", "INSERT", "UPDATE (own_until, house_until)", "DELETE"),
    "limit_changes": ("SELECT", "INSERT", "DELETE"),
}
"""What the service's role may do."""
