"""The game service's own tables, beside those of its event store."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""The version folder of these tables."""
