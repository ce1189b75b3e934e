"""The store's own migrations, run in every database that holds event streams."""

from pathlib import Path

FOLDER = Path(__file__).parent

RIGHTS = {
    "heads": ("SELECT", "INSERT", "UPDATE"),
    "events": ("SELECT", "INSERT"),
    "event_secrets": ("SELECT", "INSERT"),
    "stream_keys": ("SELECT", "INSERT", "UPDATE (key_id, wrapped)"),
    "due": ("SELECT", "DELETE"),
    "work": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "tags": ("SELECT", "INSERT"),
    "pulse": ("SELECT", "INSERT", "UPDATE"),
    "archived_months": ("SELECT",),
    "FUNCTION refuse_late()": ("EXECUTE",),
    "FUNCTION missing_partitions(integer)": ("EXECUTE",),
    "FUNCTION make_partitions(text, integer)": ("EXECUTE",),
}
"""What a service's role may do; `due` is what the release 0.1.0 has left."""
