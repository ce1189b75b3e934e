"""The game service's own tables, beside those of its event store."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""The version folder of these tables."""

RIGHTS = {
    "lifeline": ("SELECT", "UPDATE (at)"),
    "outages": ("SELECT", "INSERT", "UPDATE (ended_at)"),
    "refused_ends": ("SELECT", "INSERT", "DELETE"),
    "leaves": ("SELECT", "INSERT"),
    "nodes": ("SELECT", "INSERT"),
    "checkpoints": ("SELECT", "INSERT"),
    "accesses": ("SELECT", "INSERT"),
    "dispute_texts": ("SELECT", "INSERT", "DELETE"),
    "connections": ("SELECT", "INSERT", "DELETE"),
    "shares": ("SELECT", "INSERT", "UPDATE (revoked)", "DELETE"),
}
"""What the service's role may do."""
