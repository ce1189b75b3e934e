"""The wallet's migrations."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Accounts, transfers and postings, games and reservations, requests; and what guards them."""
