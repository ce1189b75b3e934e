"""The store's own migrations, run in every database that holds event streams."""

from pathlib import Path

FOLDER = Path(__file__).parent
